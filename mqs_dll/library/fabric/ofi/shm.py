"""The provider shm ("smr" in its sources): util_srx matches; sends are in a pool until the receiver has taken them.

1.22 has an array of commands with a list of the free ones, 2.5 a pool of records, each with the address of a command.
Source: prov/shm/src/smr.h, prov/util/src/util_shm.h, util_buf.c, include/ofi_mem.h of 1.22.0 and 2.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.fabric import ANY
from mqs_dll.library.fabric.ofi.buffers import Buffers, free_links
from mqs_dll.library.fabric.ofi.endpoint import OfiSent
from mqs_dll.library.fabric.ofi.libfabric import Libfabric
from mqs_dll.library.fabric.ofi.srx import SharedReceives, WithSrx
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint16, uint64
from mqs_dll.library.memory import WORD, Memory

TAGGED = 1
"""ofi_op_tagged, of a command."""

WHAT = "shm's pool of sends"

SEND = 0
"""Type of a record in the pool."""

HAS_DATA = 0x1
"""Of a command's flags: SMR_REMOTE_CQ_DATA."""

MAX_PEERS = 256
"""SMR_MAX_PEERS."""

PEER_BYTES = 288
"""sizeof(struct smr_peer)."""

STACK_ENTRY_BYTES = 432
"""From one element of the array of 1.22 to the next; the link of a free one is its second word, the entry behind it."""


class ShmEndpoint(WithSrx):
    """shm's endpoint."""

    struct = "smr_ep"
    srx: int = pointer()
    sends: int = pointer(name="tx_fs")
    """In 1.22; a pool of buffers since."""


class ShmStack(View):
    """The room for sends in 1.22."""

    struct = "smr_tx_fs"
    size: int = uint64()
    free: int = pointer(name="next")
    entries: int = inside(name="entry")


class ShmEntry(View):
    """A send in 1.22; its command lies at its begin."""

    struct = "smr_tx_entry"
    peer_id: int = uint64()
    context: int = pointer()
    iov: int = inside()


class ShmCommand(View):
    """What a send tells the receiver."""

    struct = "smr_cmd"
    size: int = uint64()
    data: int = uint64()
    tag: int = uint64()
    op: int = uint8()
    flags: int = uint8(name="op_flags")


class ShmReceiver(View):
    """Where that goes, which since 2.0 the command alone tells."""

    struct = "smr_cmd"
    tx_id: int = uint16()


class ShmTable(View):
    """Where shm's endpoint has its own table of processes, since 2.0."""

    struct = "smr_ep"
    map: int = pointer()


class ShmPeers(View):
    """That table."""

    struct = "smr_map"
    peers: int = inside()


class ShmPeer(View):
    """A process in it."""

    struct = "smr_peer"
    fiaddr: int = uint64()


class ShmRecord(View):
    """A send since 2.0, or what comes of it at the receiver."""

    struct = "smr_pend_entry"
    type: int = uint8()
    cmd: int = pointer()
    iov: int = inside()
    comp_ctx: int = pointer()


class ShmSendPool:
    """The sends of an endpoint of shm, whoever matches for it."""

    def __init__(self, memory: Memory, layouts: Layouts, endpoint: int) -> None:
        self._memory = memory
        self._endpoint = endpoint
        self._shm = ShmEndpoint.bind(layouts)
        self._command = ShmCommand.bind(layouts)
        self._in_array = "smr_tx_fs" in layouts
        if self._in_array:
            self._stack = ShmStack.bind(layouts)
            self._entry_of = ShmEntry.bind(layouts)
        else:
            self._buffers = Buffers(memory, layouts)
            self._record = ShmRecord.bind(layouts)
            self._receiver = ShmReceiver.bind(layouts)
            self._table = ShmTable.bind(layouts)
            self._peers = ShmPeers.bind(layouts).constant("peers")
            self._peer = ShmPeer.bind(layouts)

    def read(self) -> list[OfiSent]:
        """Return the sends in the pool, by destination.

        Raises:
            BrokenStructureError, TargetReadError: the pool contradicts itself, or can't be read.
        """
        pool = self._shm.at(self._memory, self._endpoint).sends
        found = self._of_array(pool) if self._in_array else self._of_pool(pool)
        return sorted(found, key=lambda each: each.destination)

    def _of_array(self, address: int) -> Iterator[OfiSent]:
        stack = self._stack.at(self._memory, address)
        free = free_links(self._memory, stack.free, stack.size, WHAT)
        for index in range(stack.size):
            element = address + stack.entries + STACK_ENTRY_BYTES * index
            if element + WORD not in free:
                entry = self._entry_of.at(self._memory, element + 2 * WORD)
                buffer, _ = self._memory.pointers(entry.address + entry.iov, 2)
                sent = self._sent(entry.address, entry.address, buffer, entry.context)
                if sent is not None:
                    yield replace(sent, destination=entry.peer_id)

    def _of_pool(self, address: int) -> Iterator[OfiSent]:
        for element in self._buffers.used(address, WHAT):
            record = self._record.at(self._memory, element)
            if record.type == SEND:
                buffer, _ = self._memory.pointers(element + record.iov, 2)
                sent = self._sent(element, record.cmd, buffer, record.comp_ctx)
                if sent is not None:
                    yield replace(sent, destination=self._destination(record.cmd))

    def _destination(self, command_address: int) -> int:
        """Return the address of the receiver; a command has its number in shm's own table."""
        number = self._receiver.at(self._memory, command_address).tx_id
        if number >= MAX_PEERS:
            raise BrokenStructureError(f"{WHAT} has a send to shm's process {number}")
        peers = self._table.at(self._memory, self._endpoint).map + self._peers
        return self._peer.at(self._memory, peers + PEER_BYTES * number).fiaddr

    def _sent(self, address: int, command_address: int, buffer: int, context: int) -> OfiSent | None:
        """Return what a command sends, None for what has no tag."""
        command = self._command.at(self._memory, command_address)
        if command.op != TAGGED:
            return None
        data = command.data if command.flags & HAS_DATA else None
        return OfiSent(address, command.tag, ANY, command.size, buffer, False, data, context)


class Shm(SharedReceives):
    """An endpoint of shm."""

    provider = "shm"
    view = ShmEndpoint

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare, as any other."""
        super().__init__(library, layouts, endpoint, domain)
        self._sends = ShmSendPool(library.memory, layouts, endpoint)

    def sends(self) -> list[OfiSent]:
        """Return the sends in the pool."""
        return self._sends.read()
