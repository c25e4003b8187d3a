"""The provider shm ("smr" in its sources): util_srx matches; sends are in a pool until the receiver has taken them.

1.22 has an array of commands with a list of the free ones, 2.5 a pool of records, each with the address of a command.
Source: prov/shm/src/smr.h, prov/util/src/util_shm.h, util_buf.c, include/ofi_mem.h of 1.22.0 and 2.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.errors import BrokenStructureError
from mqs_dll.fabric.ofi import views
from mqs_dll.fabric.ofi.endpoint import ANY, Sent
from mqs_dll.fabric.ofi.library import Library
from mqs_dll.fabric.ofi.srx import SharedReceives
from mqs_dll.layout import Layouts
from mqs_dll.memory import WORD, bounded

TAGGED = 1
"""ofi_op_tagged, of a command."""

MOST_ENTRIES = 1 << 20

SEND = 0
"""Type of a record in the pool."""

HAS_DATA = 0x1
"""Of a command's flags: SMR_REMOTE_CQ_DATA."""

STACK_ENTRY_BYTES = 432
"""From one element of the array of 1.22 to the next; the link of a free one is its second word, the entry behind it."""

HEADER_BYTES = 32
"""sizeof(struct ofi_bufpool_hdr), before each element of a pool."""


class Shm(SharedReceives):
    """An endpoint of shm."""

    provider = "shm"
    view = views.ShmEndpoint

    def __init__(self, library: Library, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare, as any other; and find where its sends are.

        Raises:
            LayoutError: it isn't one of shm, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        super().__init__(library, layouts, endpoint, domain)
        self._shm = views.ShmEndpoint.bind(layouts)
        self._command = views.ShmCommand.bind(layouts)
        self._in_array = "smr_tx_fs" in layouts
        if self._in_array:
            self._stack = views.ShmStack.bind(layouts)
            self._entry_of = views.ShmEntry.bind(layouts)
        else:
            self._pool = views.BufferPool.bind(layouts)
            self._region = views.BufferRegion.bind(layouts)
            self._record = views.ShmRecord.bind(layouts)
            self._header = views.BufferHeader.bind(layouts)

    def sends(self) -> list[Sent]:
        """Return the sends in the pool; since 2.0 it isn't known where they go.

        Raises:
            BrokenStructureError, TargetReadError: the pool contradicts itself, or can't be read.
        """
        pool = self._shm.at(self._memory, self._endpoint).sends
        found = self._of_array(pool) if self._in_array else self._of_pool(pool)
        return sorted(found, key=lambda each: each.destination)

    def _of_array(self, address: int) -> Iterator[Sent]:
        stack = self._stack.at(self._memory, address)
        free = self._free(stack.free, stack.size)
        for index in range(stack.size):
            element = address + stack.entries + STACK_ENTRY_BYTES * index
            if element + WORD not in free:
                entry = self._entry_of.at(self._memory, element + 2 * WORD)
                buffer, _ = self._memory.pointers(entry.address + entry.iov, 2)
                sent = self._sent(entry.address, entry.address, buffer, entry.context)
                if sent is not None:
                    yield sent._replace(destination=entry.peer_id)

    def _of_pool(self, address: int) -> Iterator[Sent]:
        pool = self._pool.at(self._memory, address)
        per_region = pool.entry_cnt // max(1, pool.region_cnt)
        free = self._free(pool.free, pool.entry_cnt)
        used = 0
        for number, region_address in enumerate(self._memory.pointers(pool.region_table, pool.region_cnt)):
            region = self._region.at(self._memory, region_address)
            for index in range(per_region):
                element = region.mem_region + pool.entry_size * index
                header = self._header.at(self._memory, element - HEADER_BYTES)
                if region.pool != address or (header.region, header.index) != (
                    region_address,
                    per_region * number + index,
                ):
                    raise BrokenStructureError("shm's pool of sends contradicts itself")
                if header.address in free:
                    continue
                used += 1
                record = self._record.at(self._memory, element)
                if record.type == SEND:
                    buffer, _ = self._memory.pointers(element + record.iov, 2)
                    sent = self._sent(element, record.cmd, buffer, record.comp_ctx)
                    if sent is not None:
                        yield sent
        if used + len(free) != pool.entry_cnt:
            raise BrokenStructureError(f"shm's pool of {pool.entry_cnt} has {used} sends and {len(free)} free places")

    def _free(self, first: int, count: int) -> frozenset[int]:
        """Return the addresses of the links of what is free: each leads to the next."""
        if count > MOST_ENTRIES:
            raise BrokenStructureError(f"shm is said to have room for {count} sends")

        def steps() -> Iterator[int]:
            link = first
            while link:
                yield link
                link = self._memory.pointer(link)

        return frozenset(bounded(steps(), count, "the list of shm's free sends"))

    def _sent(self, address: int, command_address: int, buffer: int, context: int) -> Sent | None:
        """Return what a command sends, None for what has no tag."""
        command = self._command.at(self._memory, command_address)
        if command.op != TAGGED:
            return None
        data = command.data if command.flags & HAS_DATA else None
        return Sent(address, command.tag, ANY, data, command.size, buffer, context, waits_for_ack=False)
