"""What a process is: its rank, its size, and the predefined communicators, from the variable MPIR_Process.

In a stripped library the variable is found by two of its members, the addresses of MPI_COMM_WORLD and MPI_COMM_SELF one
behind the other, and believed when its rank and size are those of MPI_COMM_WORLD.
Source: src/include/mpir_process.h of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from itertools import chain

from mqs_dll.contract.errors import MqsError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, places
from mqs_dll.library.mpi.mpich import handles, views
from mqs_dll.library.mpi.mpich.pools import LARGEST_SEARCH, Pools

BUILTIN_COMMS = 3
"""MPI_COMM_WORLD, MPI_COMM_SELF, and before 5.0 one that MPICH keeps for itself (src/mpi/comm/commutil.c)."""

WORLD = 0x44000000
SELF = 0x44000001


def builtin_comms(pools: Pools, symbol: int | None) -> int | None:
    """Return the address of the array of predefined communicators, None where MPI_Init has not filled it.

    It lies behind the array of direct ones in most builds; elsewhere it is found by the handles of its first two.
    """
    behind_direct = (pools.behind_direct(pool) for pool in pools.by_class[handles.COMM])
    return pools.neighbours(handles.COMM, (WORLD, SELF), chain([symbol] if symbol else [], behind_direct))


def find_process(
    memory: Memory, layouts: Layouts, library: LoadedLibrary, builtin: int, comm_size: int, symbol: int | None
) -> views.MpirProcess | None:
    """Return the variable MPIR_Process, None where nothing looks like it."""
    reader = views.MpirProcess.bind(layouts)
    offset = reader.offsets["comm_world"]
    pair = struct.pack("<QQ", builtin, builtin + comm_size)
    found = chain(
        [symbol + offset] if symbol else [],  # unless the layout doesn't count from the struct's begin
        places(memory, library, pair, LARGEST_SEARCH, symbol or builtin),
    )
    for place in found:
        try:
            process = reader.at(memory, place - offset)
        except MqsError:
            continue
        if process.comm_world == builtin and 0 <= process.rank < process.size:
            return process
    return None
