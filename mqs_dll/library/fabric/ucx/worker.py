"""A worker of UCX in one process, with the layouts that were believed of it."""

from __future__ import annotations

from contextlib import suppress

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.fabric.ucx import views
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.memory import Memory

NAME_WITHIN = 512
"""Bytes at the begin of a worker, in which its name is (172 to 196 in 1.13 to 1.21)."""

HANDLE = 8
"""Bytes before a request in its pool (ucs_mpool_elem_t): the pool that it is from, or the next free one."""


class UcxWorker:
    """What the modules of this fabric read from."""

    def __init__(self, memory: Memory, address: int, fabric: Identity, request_size: int, function: int) -> None:
        self.memory = memory
        self.address = address
        self.fabric = fabric
        self.layouts = layouts = fabric.layouts
        self.request_size = request_size
        """sizeof(ucp_request_t): what the MPI asked for lies behind it."""
        self.function = function
        """The address of some of UCX's data."""
        offset = views.UcpWorker.bind(layouts).constant
        self.pool = address + offset("req_mp")
        self.matching = address + offset("tm")


def is_worker(memory: Memory, address: int) -> bool:
    """Tell whether a worker is at an address, by its name, which is that address in words."""
    with suppress(TargetReadError):
        return f"{address:#x}\0".encode() in memory.read(address, NAME_WITHIN)
    return False
