"""The MPI standard's rules of names (MPI 4.1 section 8.8), applied to the 64-byte field of the MQS interface.

Leading blanks count, trailing blanks don't; a name that doesn't fit is cut, on a character boundary where it is
UTF-8; other bytes (a Fortran program's Latin-1) pass unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.abi import NAME_SIZE

MAX_NAME_BYTES = NAME_SIZE - 1


def fit(name: bytes, limit: int = MAX_NAME_BYTES) -> bytes:
    """Return the part of a name that fits in ``limit`` bytes, without trailing blanks.

    A name of 63 bytes that ends within a UTF-8 character was cut there by the MPI itself (Open MPI keeps 63
    bytes): it loses the rest of that character.
    """
    cut = name[:limit]
    if len(name) >= MAX_NAME_BYTES or len(cut) < len(name):
        cut = _without_partial_character(cut)
    return cut.rstrip(b" ")


def marked(name: bytes, marks: Sequence[bytes]) -> bytes:
    """Return a name followed by marks in brackets, ``halo [inter, 4 remote]``, all within the 64-byte field.

    The marks come whole; it is the name that is cut. Without marks it is ``fit(name)``.
    """
    if not marks:
        return fit(name)
    suffix = b"[" + b", ".join(marks) + b"]"
    kept = fit(name, MAX_NAME_BYTES - len(suffix) - 1)
    return kept + b" " + suffix if kept else suffix


def _without_partial_character(cut: bytes) -> bytes:
    """Drop a UTF-8 character that would end beyond the cut, if all before it is UTF-8."""
    try:
        cut.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return cut[: error.start]
    return cut
