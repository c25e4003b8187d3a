"""The communicators of open files: ROMIO, MPICH's part for files, duplicates one for each.

Nothing but ROMIO's own record of the file refers to such a communicator, and nothing of MPICH to the record: it lies on
the heap, begins with a magic number, and has the communicator's handle behind the address of a table of the library.
So the heap is searched, once for each communicator that may be one, and only after ROMIO has been used: then
MPI_COMM_SELF has an attribute. Intel MPI has a heap of its own on some processors; the parts that a communicator
allocated there lead to it, because its file's record was made just before. Source: src/mpi/romio/adio/include/adio.h
(ADIOI_FileD), mpi-io/mpich_fileutil.c and mpir-mpioinit.c of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, pairwise
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.memory import PAGE, WORD, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary

HEAP_END = "__curbrk"
"""The C library's variable with the end of the heap."""

COOKIE = struct.pack("<I", 2487376)
RECORD_BYTES = 128
"""How far into a record its communicator is looked for."""

MAX_HEAP_SIZE = 1 << 25
"""Bytes that are searched, from the end downwards."""

NEARBY = 1 << 22
"""Bytes that are searched in each direction from a part of a communicator."""

MAX_PLACES = 8
"""Places with parts of communicators that are searched from."""

PARTS = 128
"""Words of a communicator that may point at its parts."""

STEP = 1 << 18


class Candidate(NamedTuple):
    """A communicator that may be a file's."""

    address: int
    """What MPI_Comm is in a library of the MPI 5 ABI; in others it is the handle."""
    handle: int
    context_id: int
    """So that another communicator in the same place is another one."""


class Files:
    """Finds the communicators of the open files of one process."""

    def __init__(self, memory: Memory, library: LoadedLibrary, heap_end: int | None) -> None:
        self._memory = memory
        self._library = library
        self._heap_end = heap_end
        self._known: dict[Candidate, bool] = {}

    def of_files(self, candidates: Collection[Candidate]) -> set[int]:
        """Return the addresses of those communicators that belong to a file; asked again, the answer is remembered."""
        new = [candidate for candidate in candidates if candidate not in self._known]
        if new:
            found = self._search(new)
            self._known.update({candidate: candidate in found for candidate in new})
        return {candidate.address for candidate in candidates if self._known[candidate]}

    def _search(self, candidates: Collection[Candidate]) -> set[Candidate]:
        by_handle = {candidate.handle: candidate for candidate in candidates}
        by_address = {candidate.address: candidate for candidate in candidates}
        found: set[Candidate] = set()
        for record in chain(self._in_heap(), self._near(candidates)):
            words = struct.unpack(f"<{RECORD_BYTES // WORD}Q", record)
            for table, word in pairwise(words):
                candidate = by_address.get(word) or by_handle.get(word & 0xFFFFFFFF)
                if candidate is not None and self._library.holds(table):
                    found.add(candidate)
            if len(found) == len(candidates):
                break
        return found

    def _in_heap(self) -> Iterator[bytes]:
        """Yield the records in the C library's heap, from its end downwards."""
        if self._heap_end is not None:
            with suppress(TargetReadError):
                end = self._memory.pointer(self._heap_end) // PAGE * PAGE
                yield from self._records(self._pieces(end, MAX_HEAP_SIZE, upwards=False))

    def _near(self, candidates: Iterable[Candidate]) -> Iterator[bytes]:
        """Yield the records around what communicators have allocated; each place is tried once, up to the bound."""
        searched: list[range] = []
        for word in self._pointers(candidates):
            place = word // PAGE * PAGE
            if any(place in known for known in searched) or not self._is_readable(word):
                continue
            searched.append(range(place - NEARBY, place + NEARBY))
            yield from self._records(self._pieces(place, NEARBY, upwards=False))
            yield from self._records(self._pieces(place, NEARBY, upwards=True))
            if len(searched) == MAX_PLACES:
                return

    def _pointers(self, candidates: Iterable[Candidate]) -> Iterator[int]:
        """Yield what may be addresses outside the library: among it is what communicators have allocated."""
        for candidate in candidates:
            with suppress(TargetReadError):
                words = self._memory.pointers(candidate.address, PARTS)
                yield from (
                    word for word in words if word >= PAGE and word % WORD == 0 and not self._library.holds(word)
                )

    def _is_readable(self, address: int) -> bool:
        try:
            self._memory.read(address, WORD)
        except TargetReadError:
            return False
        return True

    # ------------------------------------------------------------ reading as far as there is memory

    def _pieces(self, place: int, limit: int, *, upwards: bool) -> Iterator[tuple[int, bytes]]:
        """Yield addresses and bytes of pieces from a place on, until the memory ends or the limit is over."""
        size = STEP
        while size >= PAGE and limit > 0:
            begin = place if upwards else place - size
            try:
                data = self._memory.read(begin, size)
            except TargetReadError:
                size //= 2
                continue
            yield begin, data
            place = begin + size if upwards else begin
            limit -= size

    def _records(self, pieces: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
        """Yield the begin of what looks like a file's record."""
        for begin, data in pieces:
            at = data.find(COOKIE)
            while at >= 0:
                if at % (2 * WORD) == 0:
                    with suppress(TargetReadError):
                        yield self._memory.read(begin + at, RECORD_BYTES)
                at = data.find(COOKIE, at + 1)
