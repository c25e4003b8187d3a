"""Names by the MPI standard's rules (MPI 4.1 section 8.8) in the 64-byte field of the MQS interface, written and read.

Leading blanks count, trailing blanks don't; a name that doesn't fit is cut, on a character boundary where it is
UTF-8; other bytes (a Fortran program's Latin-1) pass unchanged.

``marked`` writes what the field holds, ``read_marks`` reads its marks again. What a program calls "halo [freed]"
itself, or "[dup of halo]", can't be distinguished from libmqs's words in the field: libmqs_get_comm_label separates
them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mqs_dll.contract.abi import NAME_SIZE, Label

MAX_NAME_BYTES = NAME_SIZE - 1

_MAX_CHARACTER_LENGTH = 4
"""Bytes of UTF-8."""

_CUT = b"..."
"""Ends a description that didn't fit."""

_MARKS = re.compile(rb"(?:^| )\[((?:inter, \d{1,9} remote|freed|internal)(?:, (?:freed|internal))*)\]\Z")


def fit(name: bytes, limit: int = MAX_NAME_BYTES) -> bytes:
    """Return the part of a name that fits in ``limit`` bytes, without trailing blanks.

    A character that the limit cuts is left out. A name of 63 bytes may have been cut by the MPI itself (Open MPI keeps
    63 bytes), so that nobody knows what followed: what may be the start of a character at its end is left out only
    where another one before it shows that the name is UTF-8. Where all before it is ASCII, it may as well be a letter
    of Latin-1; it stays then, as MPI_Comm_get_name gives it.
    """
    cut = name[:limit]
    start = _partial_character(cut)
    if start is not None and (_starts_with_character(name[start:]) or _was_cut(name, start)):
        cut = cut[:start]
    return cut.rstrip(b" ")


def marked(label: Label) -> bytes:
    """Return what the field holds: ``halo [inter, 4 remote]``, ``[dup of halo] [freed]``, at most 63 bytes.

    No mark cuts a name: those follow that fit whole behind the whole name. A description gives way to the marks.
    """
    marks = marks_of(label)
    name = fit(label.name) or _described(label.description, _bracket(marks))
    kept: list[bytes] = []
    for mark in marks:
        if len(name) + 1 + len(_bracket([*kept, mark])) <= MAX_NAME_BYTES:
            kept.append(mark)
    return b" ".join(filter(None, (name, _bracket(kept))))


def window_words(name: bytes) -> bytes:
    """Return the description of a communicator that the MPI keeps for a window: "window 'halo'", "window"."""
    return b"window '%s'" % fit(name, MAX_NAME_BYTES - len(b"[window '']")) if name else b"window"


PART_WORDS = b"partitioned communication"
"""What a communicator that an MPI keeps for that is said to be, in Communicator.description."""

FILE_WORDS = b"file"
"""The description of a communicator that the MPI keeps for an open file."""


def is_of_owner(description: bytes) -> bool:
    """Return whether a description names the window or the file that a communicator is kept for."""
    return description in (FILE_WORDS, b"window") or (
        description.startswith(b"window '") and description.endswith(b"'")
    )


def marks_of(label: Label) -> list[bytes]:
    """Return what libmqs says of a communicator besides its name: "inter, 4 remote", "freed", "internal"."""
    marks = [b"inter, %d remote" % label.remote] if label.remote is not None else []
    marks += [b"freed"] if label.freed else []
    return [*marks, b"internal"] if label.internal else marks


def called(label: Label) -> bytes:
    """Return the name, the description in brackets of one without a name, or nothing."""
    return label.name or (b"[" + label.description + b"]" if label.description else b"")


@lru_cache(maxsize=1 << 12)
def read_marks(field: bytes) -> Label:
    """Return what a communicator's field says by itself, in a job that was saved long ago or from a vendor's library.

    Marks that didn't fit behind a long name are missing, and words in the place of a name count as its name.
    """
    found = _MARKS.search(field)
    marks = found[1].split(b", ") if found else []
    return Label(
        name=field[: found.start()] if found else field,
        description=b"",
        remote=int(marks[1].partition(b" ")[0]) if b"inter" in marks else None,
        freed=b"freed" in marks,
        internal=b"internal" in marks,
    )


def _described(description: bytes, marks: bytes) -> bytes:
    space = MAX_NAME_BYTES - len(b"[]") - (len(marks) + 1 if marks else 0)
    if len(description) > space:
        description = fit(description, space - len(_CUT)) + _CUT
    return b"[" + description + b"]" if description else b""


def _bracket(marks: list[bytes]) -> bytes:
    return b"[" + b", ".join(marks) + b"]" if marks else b""


def _partial_character(text: bytes) -> int | None:
    """Return where a UTF-8 character starts that would end beyond a text whose other bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return error.start
    return None


def _starts_with_character(text: bytes) -> bool:
    """Return whether a text starts with a whole UTF-8 character."""
    try:
        text[:_MAX_CHARACTER_LENGTH].decode()
    except UnicodeDecodeError as error:
        return error.start > 0
    return True


def _was_cut(name: bytes, start: int) -> bool:
    """Return whether an MPI that keeps 63 bytes has cut a name of several-byte characters within that at ``start``."""
    return len(name) == MAX_NAME_BYTES and _partial_character(name) == start and not name[:start].isascii()
