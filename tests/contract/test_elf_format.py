"""The ELF format from bytes to records: what a file claims of itself is never believed beyond its bytes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from mqs_dll.calibrate.exports import exports
from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import FileError
from mqs_dll.debugger.library_file import FileProcess

OWN = Path(sys.executable).resolve().read_bytes()


def note(owner: bytes, kind: int, content: bytes) -> bytes:
    """Return a note as linkers and the kernel write them, each part up to a word's end."""
    parts = (owner + b"\0", content)
    return struct.pack("<III", *map(len, parts), kind) + b"".join(part + bytes(-len(part) % 4) for part in parts)


def test_a_header_is_read_whole_or_not_at_all() -> None:
    """Cut off within its header, of another word size or byte order, a file has none."""
    header = elf.header(OWN)
    assert header is not None
    assert header.machine in elf.MACHINES
    assert header.segment_size == elf.SEGMENT_SIZE
    assert elf.header(OWN[: elf.HEADER_SIZE - 1]) is None
    for place, value in ((0, 0), (4, 1), (5, 2)):
        damaged = bytearray(OWN[: elf.HEADER_SIZE])
        damaged[place] = value
        assert elf.header(damaged) is None


def test_a_table_goes_as_far_as_its_bytes() -> None:
    """An entry that is cut off isn't one."""
    header = elf.header(OWN)
    assert header is not None
    table = OWN[header.segments_at : header.segments_at + header.segment_count * elf.SEGMENT_SIZE]
    assert len(elf.segments(table)) == header.segment_count
    assert elf.segments(table[:-1]) == elf.segments(table)[:-1]
    assert not elf.segments(b"")
    assert not elf.sections(b"\1" * (elf.SECTION_SIZE - 1))
    assert not list(elf.symbols(b"\1"))


def test_notes_end_at_the_first_that_is_not_whole() -> None:
    """Sizes beyond the data end the list; another owner's notes are passed over."""
    first, other, last = note(b"GNU", 1, b"abc"), note(b"CORE", 1, b"1234"), note(b"GNU", 3, b"\1\2\3")
    assert list(elf.notes(first + other + last, b"GNU")) == [(1, b"abc"), (3, b"\1\2\3")]
    assert list(elf.notes(first + last[:-2], b"GNU")) == [(1, b"abc")]
    assert list(elf.notes(struct.pack("<III", 4, 1 << 31, 3) + b"GNU\0", b"GNU")) == []
    assert list(elf.notes(struct.pack("<III", 1 << 31, 4, 3) + b"GNU\0", b"GNU")) == []
    assert elf.build_id(first + other + last) == b"\1\2\3"
    for another in (b"CORE", b"GNUX"):
        assert elf.build_id(first + note(another, 3, b"no")) == b""


@pytest.mark.parametrize(("place", "size"), [(32, 8), (40, 8), (56, 2), (60, 2)])
def test_tables_that_lie_nowhere_are_reported(tmp_path: Path, place: int, size: int) -> None:
    """A library's file whose tables lie beyond its end is damaged, and exports nothing."""
    damaged = bytearray(OWN)
    damaged[place : place + size] = b"\xff" * size
    file = tmp_path / "libdamaged.so"
    file.write_bytes(damaged)
    with pytest.raises(FileError, match="cut off or damaged"):
        FileProcess(file)
    assert exports(file, ["main"]) == {}
