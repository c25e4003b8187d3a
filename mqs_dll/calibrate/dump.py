"""Reads what one rank of a calibration program left: the truth that it wrote down, and a copy of its memory."""

from __future__ import annotations

import bisect
import json
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from mqs_dll.contract.errors import CalibrationError

WORD = 8
PAGE = 4096
ZEROS = bytes(PAGE)
MAX_LIST_LENGTH = 4096
EVERYWHERE = ((0, 1 << 64),)
"""Start and end of ranges; what a range has of a region is all of it or nothing."""

Entry = dict[str, Any]
"""What the truth has of one thing."""


class UnreadableError(LookupError):
    """There is no memory at an address: a candidate that leads there is wrong."""


@dataclass(frozen=True)
class Region:
    """A mapping of the process, and where its copy starts in the file."""

    start: int
    size: int
    offset: int
    writable: bool


@dataclass(frozen=True)
class DumpedSymbol:
    """An exported variable; the size is the one of the linker's symbol table."""

    address: int
    size: int


class Dump:
    """The memory of one rank, and what is true in it."""

    def __init__(self, truth: Mapping[str, Any], regions: list[Region], memory: bytes | mmap.mmap, run: str) -> None:
        self.truth = truth
        self.run = run
        self._regions = sorted(regions, key=lambda region: region.start)
        self._starts = [region.start for region in self._regions]
        self._memory = memory

    @classmethod
    def load(cls, directory: Path, rank: int) -> Dump:
        """Read the files of one rank.

        Raises:
            CalibrationError: they aren't there, or aren't what calibrate writes.
        """
        try:
            truth = json.loads((directory / f"truth.{rank}").read_text())
            with (directory / f"memory.{rank}").open("rb") as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            regions = [Region(start, size, at, bool(writable)) for start, size, at, writable in truth["regions"]]
            return cls(truth, regions, memory, str(directory))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CalibrationError(f"no dump of rank {rank} can be read in {directory}: {error!r}") from error

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of the process.

        Raises:
            UnreadableError: they are not in the dump.
        """
        data = self._read_up_to(address, size)
        if len(data) < size:
            raise UnreadableError(f"{size} bytes at {address:#x}")
        return data

    def is_readable(self, address: int) -> bool:
        """Return whether there is memory at an address."""
        return bool(self._read_up_to(address, 1))

    def _read_up_to(self, address: int, size: int) -> bytes:
        """Return as many bytes as lie in the region of an address, at most some."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return b""
        region = self._regions[index]
        begin = address - region.start
        return self._memory[region.offset + begin : region.offset + min(begin + size, region.size)]

    def scalar(self, address: int, code: str) -> int:
        """Return a number; ``code`` is one of the struct module's."""
        value: int = struct.unpack("<" + code, self.read(address, struct.calcsize("<" + code)))[0]
        return value

    def word(self, address: int) -> int:
        """Return a pointer or another unsigned number of 64 bits."""
        return self.scalar(address, "Q")

    def words(self, address: int, most: int) -> tuple[int, ...]:
        """Return up to ``most`` words, as many as lie in the region.

        Raises:
            UnreadableError: there is none.
        """
        data = self._read_up_to(address, most * WORD)
        count = len(data) // WORD
        if not count:
            raise UnreadableError(f"no words at {address:#x}")
        return struct.unpack_from(f"<{count}Q", data)

    def text(self, address: int, longest: int = 256) -> str:
        """Return the text at an address, up to its NUL.

        Raises:
            UnreadableError: there is no memory, or no more before the NUL.
        """
        data, end, _ = self._read_up_to(address, longest).partition(b"\0")
        if not end and len(data) < longest:
            raise UnreadableError(f"a text at {address:#x}")
        return data.decode("utf-8", "replace")

    def find_bytes(self, pattern: bytes, alignment: int, within: Sequence[Sequence[int]] = EVERYWHERE) -> list[int]:
        """Return all aligned addresses, in some ranges of writable memory, where bytes stand that aren't all 0."""
        extents = [each for each in self._writable_extents if any(begin <= each.start < end for begin, end in within)]
        return [address for extent in extents for address in self._find(pattern, extent, alignment)]

    def _find(self, pattern: bytes, extent: Region, alignment: int) -> Iterator[int]:
        data = self._memory[extent.offset : extent.offset + extent.size]  # a file in memory is searched slowly
        at = data.find(pattern)
        while at >= 0:
            if (extent.start + at) % alignment == 0:
                yield extent.start + at
            at = data.find(pattern, at + 1)

    @cached_property
    def _writable_extents(self) -> list[Region]:
        """The parts of writable regions that aren't all zeros, by pages."""
        return [extent for region in self._regions if region.writable for extent in self._filled(region)]

    def _filled(self, region: Region) -> Iterator[Region]:
        memory, begin = self._memory, region.offset
        pages = range(0, region.size, PAGE)
        for filled, group in groupby(pages, lambda at: memory[begin + at : begin + at + PAGE] != ZEROS):
            if filled:
                first, *others = group
                yield Region(region.start + first, PAGE * (1 + len(others)), begin + first, writable=True)

    @cached_property
    def symbols(self) -> Mapping[str, DumpedSymbol]:
        """The exported symbols that the program found."""
        return {name: DumpedSymbol(*entry) for name, entry in self.truth["symbols"].items()}

    def of(self, kind: str, /, **where: object) -> list[dict[str, Any]]:
        """Return the truth's entries of a kind ("requests") whose members have the given values."""
        entries: list[dict[str, Any]] = self.truth[kind]
        return [entry for entry in entries if all(entry[name] == value for name, value in where.items())]


def load_all(directory: Path) -> list[Dump]:
    """Return the dumps of all ranks of the runs that left them in a directory, or in folders of it.

    Raises:
        CalibrationError: there are none.
    """
    found = sorted((path.parent, int(path.suffix[1:])) for path in directory.rglob("truth.*"))
    if not found:
        raise CalibrationError(f"no run has left anything in {directory}")
    return [Dump.load(place, rank) for place, rank in found]
