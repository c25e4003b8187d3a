"""What is found among a stripped library's variables: the pointers out of it, and the table of processes.

The table has an entry for each process of MPI_COMM_WORLD, with what the netmod reaches it by. Much else in a process
resembles one, but behind the pointer to it lies that to a list of tables, of which it is the first.
Source: src/mpid/ch4/include/mpidpre.h (MPIDI_av_table_t, MPIDI_av_entry_t), src/mpid/ch4/src/ch4_types.h
(MPIDIU_avt_manager), ch4_proc.c of 4.0.3 to 5.0.1; sizes from live processes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.memory import WORD
from mqs_dll.library.mpi.elf import read_ranges
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext

LARGEST = 1 << 24
"""Bytes of a library's variables that are searched."""

HEADERS = {"4.0": (8, 16), "4.1": (8, 16), "4.2": (4, 8), "4.3": (4, 8), "5.0": (0, 8)}
"""Where the table has its size and its first entry, by release."""

OLD_STRIDES, STRIDES = (72, 16), (32776, 32784)
"""From an entry to the next, in 4.0 and since: what reaches all VCIs of the other process lies in it then."""

FORMS = {
    release: tuple((*header, stride) for stride in (OLD_STRIDES if release == "4.0" else STRIDES))
    for release, header in HEADERS.items()
}
"""Both together."""

ALL_FORMS = tuple(dict.fromkeys(form for forms in FORMS.values() for form in forms))

MAX_KNOWN = 256

_INT = struct.Struct("<i")

_known: dict[tuple[str, str], int] = {}
"""How far behind a library's start something was found, by the library's build and by what it is."""


def words(mpi: MpichProcessContext, first: int = 0) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the library's variables, from an address on, as words, with the address of the first.

    Raises:
        TargetReadError: after them; there are others, which can't be read.
    """
    starts = ((segment, max(segment.address, first)) for segment in mpi.library.writable())
    ranges = ((start, min(segment.address + segment.size, start + LARGEST)) for segment, start in starts)
    for address, data in read_ranges(mpi.memory, ranges):
        count = len(data) // WORD
        yield address, struct.unpack_from(f"<{count}Q", data)


def pointers(mpi: MpichProcessContext, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the places of pointers among the library's variables, from an address on: those that lead out of it.

    With each place comes the pointer.

    Raises:
        TargetReadError: after them; there may be others, where something can't be read.
    """
    base, end = mpi.library.base, mpi.library.end
    for address, found in words(mpi, first):
        for index, word in enumerate(found):
            if word and not base <= word < end and is_pointer(word):
                yield address + WORD * index, word


def find(mpi: MpichProcessContext, what: str, is_at: Callable[[int], bool], search: Callable[[], int]) -> int:
    """Return where something lies among the library's variables, 0 where it isn't found.

    A process has it where another one of the same library has it: a job's many processes are searched once.

    Args:
        mpi: in the process.
        what: names it, whatever the process.
        is_at: returns whether it lies at an address; a TargetReadError means that it doesn't.
        search: returns what this function does.
    """
    key, base = (mpi.library.build, what), mpi.library.base
    distance = _known.get(key)
    with suppress(TargetReadError):
        if distance is not None and is_at(base + distance):
            return base + distance
    found = search()
    if found:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[key] = found - base
    return found


def is_known(mpi: MpichProcessContext, what: str) -> bool:
    """Return whether another process of the same library had something that find() was asked for."""
    return (mpi.library.build, what) in _known


def is_pointer(word: int) -> bool:
    """Return whether a word may be the address of an object."""
    return 1 << 16 < word < 1 << 47 and not word % WORD


def is_old(mpi: MpichProcessContext) -> bool:
    """Return whether an MPICH is older than 5.0: its communicators have maps of ranks."""
    return mpi.layouts.offset(views.Comm.struct, "dev.ch4.map") is not None


def processes(
    mpi: MpichProcessContext, size: int, read: Callable[[int], tuple[int, ...]], is_entry: Callable[[int], bool]
) -> list[int]:
    """Return the addresses of the entries in the table of processes, by rank in MPI_COMM_WORLD.

    [] where there is no such table in what can be read. The release says in which form it is, where it is known; of
    another release it is in any that fits, if all of those that do say the same.

    Args:
        mpi: in the process.
        size: how many processes there are.
        read: returns by what each VCI of this process reaches another one, given its entry's address.
        is_entry: returns whether that may be one; a VCI reaches no two processes by the same.
    """
    own = FORMS.get(mpi.release.version[:3], ())

    @cache
    def entries(place: int) -> list[int]:
        table = mpi.memory.pointer(place)
        for form in own:
            if found := as_form(place, table, form):
                return found
        others = [found for form in ALL_FORMS if form not in own and (found := as_form(place, table, form))]
        seen = {tuple(map(read, found)) for found in others}
        return others[0] if len(seen) == 1 else []  # of several it isn't known which it is

    def as_form(place: int, table: int, form: tuple[int, int, int]) -> list[int]:
        size_at, first_at, stride = form
        if _is_table(mpi, place, table, table + size_at, size):
            found = [*range(table + first_at, table + first_at + stride * size, stride)]
            with suppress(TargetReadError):
                if all(_are_entries(column, is_entry) for column in zip(*map(read, found), strict=True)):
                    return found
        return []

    def search() -> int:
        return next((place for place, _ in pointers(mpi) if entries(place)), 0)

    with suppress(TargetReadError):
        if size and (place := find(mpi, "table of processes", lambda place: bool(entries(place)), search)):
            return entries(place)
    return []


def _is_table(mpi: MpichProcessContext, place: int, table: int, size_at: int, size: int) -> bool:
    """Return whether a variable's pointer leads to a table of a size, and the one behind it to the list of tables."""
    with suppress(TargetReadError):
        if mpi.memory.unpack(_INT, size_at)[0] == size:
            return mpi.memory.pointer(mpi.memory.pointer(place + WORD)) == table
    return False


def _are_entries(column: Sequence[int], is_entry: Callable[[int], bool]) -> bool:
    return len(set(column)) == len(column) and all(map(is_entry, column))
