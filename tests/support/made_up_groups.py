"""Groups of Open MPI in made-up memory, in each way in which it stores them (ompi/group/group.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import shipped
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.openmpi.groups import BITMAP, SPORADIC, STRIDED, Groups
from mqs_dll.library.mpi.openmpi.symbols import Symbols
from tests.support.memory_image import MemoryImage, NoSymbols

PROFILE = "openmpi-4.1-x86_64"
CLASS, LOCAL_PROC, PARENT, CHILD, TABLE, ENTRIES = 0x10000, 0x20000, 0x30000, 0x40000, 0x1000_0000, 0x8000_0000
GROUP_BYTES = 4096
JOB = 1


class _Symbols(NoSymbols):
    def find_symbol(self, name: str) -> int | None:
        return {"ompi_group_t_class": CLASS, "ompi_proc_local_proc": LOCAL_PROC}.get(name)


def groups_of(
    processes: int, flags: int, count: int, sparse: bytes, table: bytes = b"", parent_flags: int = 0
) -> Groups:
    """Return the groups at PARENT, whose processes were never talked to, and at CHILD, which is made of it.

    Args:
        processes: of the parent: world ranks 0, 1, ...
        flags: how the child is stored; 0 for a dense one, of the parent's first processes.
        count: how many processes the child says that it has.
        sparse: what is in it.
        table: what that refers to, at TABLE.
        parent_flags: how the parent is stored; one that isn't dense says that it is made of itself.
    """
    layouts = next(each for each in shipped("openmpi") if each.name == PROFILE).layouts
    entries = struct.pack(f"<{processes}Q", *(rank << 32 | JOB << 1 | 1 for rank in range(processes)))
    own = struct.pack("<Q", 1 | JOB << 1)
    image = MemoryImage(
        {
            LOCAL_PROC: own + bytes(GROUP_BYTES),
            PARENT: _group(layouts, processes, parent_flags, ENTRIES, b""),
            CHILD: _group(layouts, count, flags, 0 if flags else ENTRIES, sparse),
            TABLE: table + bytes(GROUP_BYTES),
            ENTRIES: entries + bytes(GROUP_BYTES),
        }
    )
    return Groups(Memory(image), Symbols(_Symbols(), ()), layouts)


def strided(processes: int, offset: int, stride: int) -> Groups:
    """Return groups of which the child has every stride-th process from an offset on."""
    count = len(range(offset, processes, stride))
    return groups_of(processes, STRIDED, count, struct.pack("<3i", offset, stride, 0))


def ranges(processes: int, runs: Sequence[tuple[int, int]], count: int | None = None) -> Groups:
    """Return groups of which the child has these runs: their first process, and how many."""
    table = b"".join(struct.pack("<ii", *run) for run in runs)
    size = sum(length for _, length in runs) if count is None else count
    return groups_of(processes, SPORADIC, size, struct.pack("<Qi", TABLE, len(runs)), table)


def bitmap(processes: int, members: Iterable[int], count: int | None = None) -> Groups:
    """Return groups of which the child has these processes."""
    bits = bytearray((processes + 7) // 8)
    chosen = list(members)
    for rank in chosen:
        bits[rank // 8] |= 1 << rank % 8
    size = len(chosen) if count is None else count
    return groups_of(processes, BITMAP, size, struct.pack("<Qi", TABLE, len(bits)), bytes(bits))


def _group(layouts: Layouts, count: int, flags: int, pointers: int, sparse: bytes) -> bytes:
    data = bytearray(GROUP_BYTES)

    def put(member: str, value: bytes) -> None:
        offset = layouts.offset("ompi_group_t", member)
        assert offset is not None
        data[offset : offset + len(value)] = value

    struct.pack_into("<Q", data, 0, CLASS)
    put("grp_proc_count", struct.pack("<i", count))
    put("grp_proc_pointers", struct.pack("<Q", pointers))
    put("grp_flags", struct.pack("<I", flags))
    put("grp_parent_group_ptr", struct.pack("<Q", PARENT))
    put("sparse_data", sparse)
    return bytes(data)
