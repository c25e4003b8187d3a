"""A worker of UCX in one process, believed once all that it shows of itself fits together."""

from __future__ import annotations

from contextlib import suppress

from mqs_dll.errors import LayoutError, MqsError, TargetReadError
from mqs_dll.fabric.ucx import releases, views
from mqs_dll.interface import TargetImage
from mqs_dll.layout import Layouts
from mqs_dll.memory import WORD, Memory

HANDLE = 8
"""Bytes before a request in its pool (ucs_mpool_elem_t): the pool that it is from, or the next free one."""


class Worker:
    """What the rooms of this fabric read from."""

    def __init__(
        self, memory: Memory, address: int, layouts: Layouts, version: str, request_size: int, function: int
    ) -> None:
        self.memory = memory
        self.address = address
        self.layouts = layouts
        self.version = version
        """Of UCX, like "1.18.1"."""
        self.request_size = request_size
        """sizeof(ucp_request_t): what the MPI asked for lies behind it."""
        self.function = function
        """The address of one of UCX's functions."""
        offset = views.Worker.bind(layouts).constant
        self.pool = address + offset("req_mp")
        self.matching = address + offset("tm")


def is_worker(memory: Memory, address: int) -> bool:
    """Tell whether a worker is at an address, by its name, which is that address in words."""
    name = f"{address:#x}".encode()
    for pool in releases.POOLS:
        with suppress(TargetReadError):
            if memory.text(address + pool + 52, views.MOST_NAME) == name:
                return True
    return False


def find_worker(image: TargetImage, memory: Memory, address: int, user_bytes: int) -> Worker:
    """Return the worker at an address.

    Args:
        image: that UCX's symbols are in.
        memory: of the process.
        address: of what is_worker.
        user_bytes: which the MPI asked UCX for behind each request.

    Raises:
        LayoutError: UCX is of a release whose layouts don't fit this process.
    """
    ops = image.find_symbol("ucp_request_mpool_ops")
    if ops is None:
        raise LayoutError("UCX's symbol ucp_request_mpool_ops is missing")
    function = image.find_function(releases.VERSION_FUNCTION)
    if function is None:
        raise LayoutError(f"UCX's function {releases.VERSION_FUNCTION} is missing")
    version = releases.version_of(function, memory)
    for arm in releases.nearest(version):
        layouts = arm.layouts()
        try:
            if _fits(memory, address, arm, layouts, ops, user_bytes):
                return Worker(memory, address, layouts, version, arm.request, function)
        except MqsError:
            continue
    raise LayoutError(f"no known layout fits UCX {version} in this process")


def _fits(memory: Memory, address: int, arm: releases.Arm, layouts: Layouts, ops: int, user_bytes: int) -> bool:
    """Tell whether a worker's pool, its name and its lists are what they must be in a layout."""
    reader = views.Worker.bind(layouts)
    worker = reader.at(memory, address)
    pool = views.Pool.bind(layouts).at(memory, address + worker.req_mp)
    data = views.PoolData.bind(layouts).at(memory, pool.data)
    if data.ops != ops or data.elem_size != HANDLE + arm.request + user_bytes:
        return False
    if memory.text(address + worker.name, views.MOST_NAME) != f"{address:#x}".encode():
        return False
    tm = address + worker.tm
    matching = views.TagMatch.bind(layouts).at(memory, tm)
    head = tm + matching.unexpected
    first, last = matching.first, matching.last
    return memory.pointer(first) == head and memory.pointer(last + WORD) == head
