"""The exported symbols of a shared library, from its file: also of a stripped one, and of another machine's.

Source: the ELF-64 object file format, sections and symbol table (System V gABI, chapters 4 and 5).
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01"
_DYNAMIC_SYMBOLS = 11


class Export(NamedTuple):
    """A symbol that a library defines."""

    value: int
    """Its address, counted from where the library is loaded."""
    size: int


def exports(path: Path, wanted: Collection[str]) -> dict[str, Export]:
    """Return those of the wanted symbols that a library defines; none where the file is no 64-bit ELF file."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or not header.startswith(_MAGIC):
                return {}
            fields = _HEADER.unpack(header)
            table, count = fields[6], fields[12]
            file.seek(table)
            sections = list(_SECTION.iter_unpack(file.read(count * _SECTION.size)))
            found: dict[str, Export] = {}
            for _, kind, _, _, begin, size, names, *_ in sections:
                if kind == _DYNAMIC_SYMBOLS:
                    file.seek(begin)
                    symbols = file.read(size)
                    file.seek(sections[names][4])
                    found |= _defined(symbols, file.read(sections[names][5]), wanted)
            return found
    except (OSError, struct.error, IndexError):
        return {}


def _defined(symbols: bytes, names: bytes, wanted: Collection[str]) -> dict[str, Export]:
    bytes_wanted = {name.encode(): name for name in wanted}
    found = {}
    for name_at, _, _, section, value, size in _SYMBOL.iter_unpack(symbols):
        name = bytes_wanted.get(names[name_at : names.find(b"\0", name_at)])
        if name is not None and section:
            found[name] = Export(value, size)
    return found
