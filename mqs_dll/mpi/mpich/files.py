"""The communicators of open files: ROMIO, MPICH's part for files, duplicates one for each.

Nothing but ROMIO's own record of the file refers to such a communicator, and nothing of MPICH to the record: it lies on
the heap, begins with a magic number, and has the communicator's handle behind the address of a table of the library.
So the heap is searched, once for each communicator that may be one, and only after ROMIO has been used: then
MPI_COMM_SELF has an attribute. Source: src/mpi/romio/adio/include/adio.h (ADIOI_FileD), mpi-io/mpich_fileutil.c and
mpir-mpioinit.c of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from mqs_dll.errors import TargetReadError
from mqs_dll.memory import PAGE, WORD, Memory
from mqs_dll.mpi.elf import LoadedLibrary

HEAP_END = "__curbrk"
"""The C library's variable with the end of the heap."""

COOKIE = struct.pack("<I", 2487376)
RECORD_BYTES = 128
"""How far into a record its communicator is looked for."""

LARGEST_HEAP = 1 << 25
"""Bytes that are searched, from the end downwards."""

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
        found = set()
        for record in self._records():
            words = struct.unpack(f"<{RECORD_BYTES // WORD}Q", record)
            for table, word in pairwise(words):
                candidate = by_address.get(word) or by_handle.get(word & 0xFFFFFFFF)
                if candidate is not None and self._library.holds(table):
                    found.add(candidate)
        return found

    def _records(self) -> Iterator[bytes]:
        """Yield the begin of what looks like a file's record, from the end of the heap downwards."""
        if self._heap_end is None:
            return
        try:
            end = self._memory.pointer(self._heap_end) // PAGE * PAGE
            above = b""
            for begin in range(end - STEP, end - LARGEST_HEAP, -STEP):
                data = self._memory.read(begin, STEP)
                whole = data + above
                at = whole.find(COOKIE)
                while 0 <= at < STEP:
                    record = whole[at : at + RECORD_BYTES]
                    if at % (2 * WORD) == 0 and len(record) == RECORD_BYTES:
                        yield record
                    at = whole.find(COOKIE, at + 1)
                above = data[:RECORD_BYTES]
        except TargetReadError:
            return
