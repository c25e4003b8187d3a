"""The requests of a worker that are in use: sends, and receives that have their message or are done.

Source: src/ucp/core/ucp_request.h, src/ucs/datastruct/mpool.c, src/ucp/proto/proto_select.h of 1.13.1, 1.18.1, 1.20.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from mqs_dll.contract import phrases
from mqs_dll.contract.errors import BrokenStructureError, LayoutError, TargetReadError
from mqs_dll.library.fabric import Arrived, Received, Sent
from mqs_dll.library.fabric.ucx import views
from mqs_dll.library.fabric.ucx.matching import COMPLETED, RECV_TAG, RELEASED, posted_by
from mqs_dll.library.fabric.ucx.worker import HANDLE, UcxWorker
from mqs_dll.library.layouts.view import Reader
from mqs_dll.library.memory import WORD, bounded

MAX_CHUNKS = 1 << 16
MAX_REQUESTS = 1 << 24

# flags of a request
NEW_SEND = 0x4
"""By a protocol (UCP_REQUEST_FLAG_PROTO_SEND), the default since 1.16."""
LOCALLY_DONE = 0x10
"""Of a synchronous send: its data have left."""
CALLBACK = 0x40
"""The MPI is called when it is done."""
SYNC = 0x100
OLD_SEND = 0x4000

FLAG_BITS = 24
"""More than there are."""

NEAR = 1 << 24
"""Bytes; UCX's library has fewer."""

CLASS_BITS = 7
"""Of a datatype: 0 where its data lie in one piece."""

OP_BITS = 0xF
OP_SEND, OP_SYNC = 0, 1

OPS_OF = {"egr": {OP_SEND}, "egrsnc": {OP_SYNC}, "tag": {OP_SEND, OP_SYNC}}
"""What the name of a protocol for messages with a tag begins with, and the operations that it is for."""

RECONFIG = "reconfig"
"""The protocol of any operation while endpoints connect."""

RENDEZVOUS = "rndv"
"""What the name of a protocol begins with that moves the data of a rendezvous. Its operation has number 9 before 1.16,
and 10 since."""

MAX_PROTOCOL_NAME = 32


@dataclass(frozen=True)
class UcxSent(Sent):
    """A send that the worker has a request of.

    Its tag is lost once the receiver has answered: what follows lies in its place.
    """

    synchronous: bool | None
    """None as the tag, by the protocols since 1.16."""
    done: bool
    is_announced: bool
    """Its message or the head of it has this request's address, and has left or is about to; else it waits for room."""
    freed: bool
    """The MPI has given the request back: nobody waits for it."""

    def progress(self) -> str:
        """Return how far it is, in words."""
        if self.done:
            return "done" if self.tag is not None else "done; its tag is not kept"
        if self.tag is None:
            return "under way; its tag is not kept"
        if not self.is_announced:
            return phrases.NO_ROOM("UCX")
        answer = "no receive has matched it" if self.has_left else "the receiver has not answered"
        return phrases.MESSAGE(self.address, answer)


class UcxRequests:
    """The pool of requests of one worker."""

    def __init__(self, worker: UcxWorker) -> None:
        self._memory = worker.memory
        self._worker = worker
        layouts = worker.layouts
        self._pool = views.UcsMpool.bind(layouts)
        self._data = views.UcsMpoolData.bind(layouts)
        self._chunk = views.UcsMpoolChunk.bind(layouts)
        self._request = views.UcpRequest.bind(layouts)
        self._send = views.UcpSend.bind(layouts)
        self._layouts = layouts

    # a layout that calibration has made may lack what its job had no request of: whoever needs that says so

    @cached_property
    def _info(self) -> Reader[views.Info]:
        return views.Info.bind(self._layouts)

    @cached_property
    def _old(self) -> Reader[views.OldSend]:
        return views.OldSend.bind(self._layouts)

    @cached_property
    def _new(self) -> Reader[views.NewSend]:
        return views.NewSend.bind(self._layouts)

    @cached_property
    def _config(self) -> Reader[views.ProtoConfig]:
        return views.ProtoConfig.bind(self._layouts)

    @cached_property
    def _function(self) -> Reader[views.SendFunction]:
        return views.SendFunction.bind(self._layouts)

    def in_use(self) -> list[int]:
        """Return the addresses of the requests in use: their element names the pool, a free one the next free one.

        Raises:
            BrokenStructureError: the pool's chunks and its free elements contradict each other.
            TargetReadError: a chunk can't be read.
        """
        pool = self._pool.at(self._memory, self._worker.pool)
        data = self._data.at(self._memory, pool.data)
        alignment = max(1, data.alignment)
        stride = -(-data.elem_size // alignment) * alignment
        if stride % WORD or not 0 < stride < 1 << 16:
            raise BrokenStructureError(f"UCX's requests are said to be {stride} bytes apart")
        found: list[int] = []
        total = 0
        for address in self._chunks(data.chunks):
            chunk = self._chunk.at(self._memory, address)
            total += chunk.num_elems
            if total > MAX_REQUESTS:
                raise BrokenStructureError(f"UCX's pool of requests is said to have {total}")
            data_of, offset = self._memory.locate(chunk.elems, stride * chunk.num_elems)
            self._memory.charge_objects(2 * chunk.num_elems)
            view = memoryview(data_of)[offset : offset + stride * chunk.num_elems].cast("Q")[:: stride // WORD]
            found += [
                chunk.elems + stride * index + HANDLE
                for index, owner in enumerate(view.tolist())
                if owner == self._worker.pool
            ]
        return found

    def _chunks(self, first: int) -> Iterator[int]:
        def steps() -> Iterator[int]:
            address = first
            while address:
                yield address
                address = self._chunk.at(self._memory, address).next

        return bounded(steps(), MAX_CHUNKS, "the list of chunks of UCX's requests")

    def on_stack(self, words: Sequence[int], address: int, endpoints: Set[int]) -> Iterator[UcxSent]:
        """Yield the sends that wait and whose request an MPI has put on a stack, where nothing of UCX's refers to it.

        A request there must have an endpoint, the function of UCX's that sends it, and its own address for its number.

        Args:
            words: of the stack.
            address: of the first of them, in bytes.
            endpoints: the addresses of those that a send can have.
        """
        if endpoints.isdisjoint(words):  # nearly always
            return
        near = range(self._worker.function - NEAR, self._worker.function + NEAR)
        ep = self._send.offsets["ep"]
        function = self._function
        for place, word in enumerate(words):
            if word not in endpoints:
                continue
            try:
                request = self._send.at(self._memory, address + WORD * place - ep)
                waits = request.flags < 1 << FLAG_BITS and not request.flags & COMPLETED
                if not waits or request.id not in (0, request.address):
                    continue
                sent = self._sent(request) if function.at(self._memory, request.address).func in near else None
            except (BrokenStructureError, TargetReadError):  # other words that are left over there
                continue
            if sent is not None:
                yield sent

    def sends(self, addresses: Collection[int]) -> Iterator[UcxSent]:
        """Yield what is a send of the MPI's among requests; UCX makes others for itself.

        Raises:
            BrokenStructureError: the layout contradicts what one is for.
            TargetReadError: one, or where it goes, can't be read.
        """
        for address in addresses:
            request = self._send.at(self._memory, address)
            is_send = request.flags & (NEW_SEND | OLD_SEND)  # only then it has an endpoint, which must be readable
            if is_send and self._memory.pointer(request.ep) == self._worker.address:
                sent = self._sent(request)
                if sent is not None:
                    yield sent

    def _sent(self, request: views.UcpSend) -> UcxSent | None:
        tag: int | None = request.tag
        synchronous: bool | None
        if request.flags & NEW_SEND:
            new = self._new.at(self._memory, request.address)
            kind, op = self._operation(new.proto_config)
            if kind == RENDEZVOUS and request.flags & CALLBACK:  # UCX's own parts of it tell nobody
                tag = None
            elif op not in (OP_SEND, OP_SYNC):
                return None
            synchronous, buffer, length = None if tag is None else op == OP_SYNC, new.buffer, new.length
        elif request.flags & OLD_SEND:
            old = self._old.at(self._memory, request.address)
            synchronous, buffer, length = bool(request.flags & SYNC), old.buffer, old.length
        else:
            return None
        return UcxSent(
            request.address,
            tag,
            request.ep,
            length,
            buffer,
            has_left=bool(request.flags & LOCALLY_DONE),
            synchronous=synchronous,
            done=bool(request.flags & COMPLETED),
            is_announced=tag is None or request.id == request.address,
            freed=bool(request.flags & RELEASED),
        )

    def _operation(self, address: int) -> tuple[str, int]:
        """Return what the name of a protocol begins with, and the number of the operation that it was chosen for.

        The number lies elsewhere in other releases of UCX, and nothing else of a worker tells where. So it is compared
        with the name. The record of a choice begins with the protocol, and a protocol with its name
        (src/ucp/proto/proto_select.h, proto.h of 1.13.1 to 1.22.0).

        Raises:
            BrokenStructureError: they contradict each other.
            TargetReadError: they can't be read.
        """
        name = self._memory.text(self._memory.pointer(self._memory.pointer(address)), MAX_PROTOCOL_NAME)
        kind = name.decode("ascii", "replace").partition("/")[0]
        op = self._config.at(self._memory, address).op & OP_BITS
        possible = op in OPS_OF[kind] if kind in OPS_OF else op not in (OP_SEND, OP_SYNC)
        if not possible and kind != RECONFIG:
            raise BrokenStructureError(
                f"UCX's protocol {kind} isn't for its operation {op}: the layout of its sends is another one"
            )
        return kind, op

    def is_endpoint(self, address: int) -> bool:
        """Tell whether an endpoint of this worker is at an address: it begins with the worker's."""
        try:
            return self._memory.pointer(address) == self._worker.address
        except TargetReadError:
            return False

    def receives(self, addresses: Collection[int]) -> Iterator[Received]:
        """Yield what is a receive that has its message among requests; leave out those that wait for one."""
        for address in addresses:
            request = self._request.at(self._memory, address)
            freed = bool(request.flags & RELEASED)
            if request.flags & ~RELEASED == COMPLETED | RECV_TAG:  # the MPI was told at once, not called
                info = self._info.at(self._memory, address)
                message = Arrived(info.sender_tag, info.length, info.length, 0, rendezvous=False)
                yield Received(address, 0, message, freed=freed)
            elif request.flags & RECV_TAG and request.recv_worker == self._worker.address:
                yield self._received(request, freed=freed)

    def _received(self, request: views.UcpRequest, *, freed: bool) -> Received:
        """Return a receive that had to wait, and has its message: one that is coming says how far it is nowhere."""
        asked = posted_by(request)
        if request.flags & COMPLETED:
            return Received(request.address, asked.context, None, asked, freed=freed)
        info = self._info.at(self._memory, request.address)
        message = Arrived(info.sender_tag, info.length, 0, 0, rendezvous=False)
        in_pieces = bool(info.dt & CLASS_BITS)
        return Received(request.address, asked.context, message, asked, in_pieces=in_pieces, freed=freed)


def confirm_operations(worker: UcxWorker) -> None:
    """Do nothing where layout and protocol agree in what each send of the new protocols does.

    Raises:
        LayoutError: they don't, so the layout is of another release.
    """
    requests = UcxRequests(worker)
    try:
        used = requests.in_use()
    except (BrokenStructureError, TargetReadError):  # UCX is at work on its pool
        return
    try:
        deque(requests.sends(used), maxlen=0)
    except TargetReadError:
        return
    except BrokenStructureError as error:
        raise LayoutError(str(error)) from error
