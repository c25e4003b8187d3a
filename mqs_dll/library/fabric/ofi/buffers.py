"""Pools of buffers of libfabric's (ofi_bufpool): which of them are in use.

A free buffer is in the pool's list of those, which links the headers before the buffers.
Source: include/ofi_mem.h, prov/util/src/util_buf.c of 1.17.0, 1.22.0 and 2.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, pointer, uint64
from mqs_dll.library.memory import PAGE, Memory, bounded, cached_per_sweep

OBJECTS_OF_A_BUFFER = 3
MAX_ENTRIES = 1 << 20

HEADER_BYTES = 32
"""sizeof(struct ofi_bufpool_hdr), before each element of a pool; its begin is the link of a free one."""


def free_links(memory: Memory, first: int, count: int, what: str) -> frozenset[int]:
    """Return the addresses of the links of what is free: each leads to the next.

    Args:
        memory: of the process.
        first: the first link, 0 for none.
        count: how many there may be.
        what: the pool, for the error.

    Raises:
        BrokenStructureError: there are more.
    """
    if count > MAX_ENTRIES:
        raise BrokenStructureError(f"{what} is said to have room for {count}")

    def steps() -> Iterator[int]:
        link = first
        while link:
            yield link
            link = memory.pointer(link)

    return frozenset(bounded(steps(), count, f"the free list of {what}"))


class BufferPool(View):
    """A pool of buffers, each behind a header."""

    struct = "ofi_bufpool"
    free: int = pointer(name="free_list")
    entry_size: int = uint64()
    entry_cnt: int = uint64()
    region_table: int = pointer()
    region_cnt: int = uint64()


class BufferRegion(View):
    """A piece of a pool."""

    struct = "ofi_bufpool_region"
    mem_region: int = pointer()
    pool: int = pointer()


class BufferHeader(View):
    """What lies before each buffer of a pool; its begin is the link of a free one."""

    struct = "ofi_bufpool_hdr"
    region: int = pointer()
    index: int = uint64()


class Buffers:
    """Reads such pools in one process."""

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._pool = BufferPool.bind(layouts)
        self._region = BufferRegion.bind(layouts)
        self._header = BufferHeader.bind(layouts)

    def used(self, address: int, what: str) -> list[int]:
        """Return the addresses of the buffers in use.

        Args:
            address: of the pool.
            what: the pool, for the error.

        Raises:
            BrokenStructureError, TargetReadError: the pool contradicts itself, or can't be read.
        """
        pool = self._pool.at(self._memory, address)
        elements = self._elements(address, what)
        free = free_links(self._memory, pool.free, pool.entry_cnt, what)
        found = []
        for element, *place in elements:
            if element - HEADER_BYTES not in free:
                header = self._header.at(self._memory, element - HEADER_BYTES)
                if [header.region, header.index] != place:
                    raise BrokenStructureError(f"{what} contradicts itself")
                found.append(element)
        if len(found) + len(free) != pool.entry_cnt:
            raise BrokenStructureError(f"{what} of {pool.entry_cnt} has {len(found)} in use and {len(free)} free")
        return found

    @cached_per_sweep
    def _elements(self, address: int, what: str) -> list[tuple[int, int, int]]:
        """Return of each buffer its address, that of its region, and its number in the pool; read their headers."""
        pool = self._pool.at(self._memory, address)
        if pool.entry_cnt > MAX_ENTRIES:
            raise BrokenStructureError(f"{what} is said to have room for {pool.entry_cnt}")
        per_region = pool.entry_cnt // max(1, pool.region_cnt)
        found = []
        for number, region_address in enumerate(self._memory.pointers(pool.region_table, pool.region_cnt)):
            region = self._region.at(self._memory, region_address)
            if region.pool != address:
                raise BrokenStructureError(f"{what} contradicts itself")
            self._memory.charge_objects(OBJECTS_OF_A_BUFFER * per_region)
            for index in range(per_region):
                element = region.mem_region + pool.entry_size * index
                found.append((element, region_address, per_region * number + index))
        if pool.entry_size > PAGE:
            self._memory.prefetch((element - HEADER_BYTES for element, *_ in found), HEADER_BYTES)
        return found
