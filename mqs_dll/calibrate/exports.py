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


def _defined(file: BinaryIO, wanted: dict[bytes, str]) -> Iterator[tuple[str, Export]]:
    header = elf.header(file.read(elf.HEADER_SIZE))
    if header is None:
        return
    sections = elf.sections(_part(file, header.sections_at, header.section_count * elf.SECTION_SIZE))
    for section in sections:
        if section.kind == elf.DYNAMIC_SYMBOLS:
            names = _part(file, sections[section.link].offset, sections[section.link].size)
            for symbol in elf.symbols(_part(file, section.offset, section.size)):
                name = wanted.get(names[symbol.name : names.find(b"\0", symbol.name)])
                if name is not None and symbol.section:
                    yield name, Export(symbol.value, symbol.size)


def _part(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(min(size, os.fstat(file.fileno()).st_size))
