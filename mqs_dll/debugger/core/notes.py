"""What the notes of a core file contain about its process.

Source: core(5); struct elf_prpsinfo of Linux's include/uapi/linux/elfcore.h; NT_FILE as fill_files_note() of
fs/binfmt_elf.c writes it. gdb's gcore writes the same.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mqs_dll.contract import elf_format as elf

_KERNEL = b"CORE"
"""Who writes the notes, as their owner's name."""
_PROCESS = struct.Struct("<4x4xQIIiiii16s80s")
"""struct elf_prpsinfo: flags, user, group, PID, parent, process group, session, name, arguments."""
_PAIR = struct.Struct("<QQ")
_TRIPLE = struct.Struct("<QQQ")

_MAX_MAPPINGS = 1 << 18
"""Parts of files, as many as a process has parts of memory; of more none is believed."""
_MAX_AUXILIARY = 1 << 12
"""Bytes of an auxiliary vector: Linux's has some 350."""

_NT_PRPSINFO, _NT_AUXV, _NT_FILE = 3, 6, 0x46494C45


class MappedFile(NamedTuple):
    """A part of a file that the process had in its memory."""

    start: int
    end: int
    offset: int
    """In the file."""
    path: str
    """The file's name when the core was written."""


@dataclass
class Notes:
    """All notes together; what they don't have is as it is here."""

    pid: int = 0
    name: str = ""
    """The process's, as the kernel had it: 15 bytes at most."""
    arguments: Sequence[str] = ()
    """The words of the first 79 bytes of its command line."""
    vector: bytes = b""
    """The auxiliary vector, as it stands on the stack."""
    auxiliary: dict[int, int] = field(default_factory=dict)
    """The same by type."""
    mappings: tuple[MappedFile, ...] = ()
    """By address."""


def parse(pieces: Iterable[bytes]) -> Notes:
    """Return what the note segments of a core file contain, as far as they go."""
    found = Notes()
    for piece in pieces:
        for kind, data in elf.notes(piece, _KERNEL):
            _take(found, kind, data)
    return found


def _take(found: Notes, kind: int, data: bytes) -> None:
    if kind == _NT_PRPSINFO and len(data) >= _PROCESS.size:
        fields = _PROCESS.unpack_from(data)
        found.pid = max(fields[3], 0)
        found.name = _text(fields[7])
        found.arguments = _text(fields[8]).split()
    elif kind == _NT_AUXV and len(data) <= _MAX_AUXILIARY:
        found.vector = data[: len(data) - len(data) % _PAIR.size]
        found.auxiliary = dict(_PAIR.iter_unpack(found.vector))
    elif kind == _NT_FILE:
        found.mappings = tuple(sorted(_mappings(data)))


def _mappings(data: bytes) -> Iterator[MappedFile]:
    if len(data) < _PAIR.size:
        return
    count, unit = _PAIR.unpack_from(data)
    names_at = _PAIR.size + count * _TRIPLE.size
    if count > _MAX_MAPPINGS or names_at > len(data):
        return
    names = data[names_at:].split(b"\0", count)
    if len(names) < count:
        return
    for (start, end, offset), name in zip(_TRIPLE.iter_unpack(data[_PAIR.size : names_at]), names, strict=False):
        yield MappedFile(start, end, offset * unit, os.fsdecode(name))


def _text(field: bytes) -> str:
    return os.fsdecode(field.partition(b"\0")[0])
