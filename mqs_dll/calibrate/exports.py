"""The exported symbols of a shared library, from its file: also of a stripped one, and of another machine's."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mqs_dll.contract import elf_format as elf


class Export(NamedTuple):
    """A symbol that a library defines."""

    value: int
    """Its address, counted from where the library is loaded."""
    size: int


def exports(path: Path, wanted: Collection[str]) -> dict[str, Export]:
    """Return those of the wanted symbols that a library defines; none where the file is no 64-bit ELF file."""
    try:
        with path.open("rb") as file:
            return dict(_defined(file, {name.encode(): name for name in wanted}))
    except (OSError, ValueError, IndexError, OverflowError):
        return {}


def mpi_exports(path: Path, wanted: Collection[str]) -> dict[str, Export]:
    """Return those of the wanted symbols that a library defines, or one that it is linked with and that lies beside it.

    Since 6.0 Open MPI's functions alone are in libmpi.so; its variables are in libopen_mpi.so (ompi/Makefile.am).
    """
    found = exports(path, wanted)
    for name in _linked(path) if len(found) < len(wanted) else ():
        found = exports(path.resolve().parent / name, wanted) | found
    return found


def _linked(path: Path) -> list[str]:
    """Return the file names of the libraries that a library is linked with."""
    try:
        with path.open("rb") as file:
            tables = list(_tables(file, elf.DYNAMIC_ENTRIES))
    except (OSError, ValueError, IndexError, OverflowError):
        return []
    return [name for table in tables for name in elf.needed(*table) if name and "/" not in name]


def _defined(file: BinaryIO, wanted: dict[bytes, str]) -> Iterator[tuple[str, Export]]:
    for table, names in _tables(file, elf.DYNAMIC_SYMBOLS):
        for symbol in elf.symbols(table):
            name = wanted.get(names[symbol.name : names.find(b"\0", symbol.name)])
            if name is not None and symbol.section:
                yield name, Export(symbol.value, symbol.size)


def _tables(file: BinaryIO, kind: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield each section of a kind with the names that it refers to; none where the file is no 64-bit ELF file."""
    header = elf.header(file.read(elf.HEADER_SIZE))
    if header is None:
        return
    sections = elf.sections(_part(file, header.sections_at, header.section_count * elf.SECTION_SIZE))
    for section in sections:
        if section.kind == kind:
            names = sections[section.link]
            yield _part(file, section.offset, section.size), _part(file, names.offset, names.size)


def _part(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(min(size, os.fstat(file.fileno()).st_size))
