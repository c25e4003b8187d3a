"""rxm before 2.0, which makes an endpoint of another provider's connections ("tcp;ofi_rxm"): two lists of its own.

How it keeps sends is not known.
Source: prov/rxm/src/rxm.h, rxm_tagged.c, rxm_cq.c, include/ofi_proto.h of 1.17.0 and 1.22.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.errors import BrokenStructureError, LayoutError, NoInformation
from mqs_dll.fabric.ofi import lists, views
from mqs_dll.fabric.ofi.endpoint import Arrived, Endpoint, Posted, Sent
from mqs_dll.fabric.ofi.library import Library
from mqs_dll.layout import Layouts

TAGGED = 2
"""RXM_RECV_QUEUE_TAGGED."""

MOST_PIECES = 4
"""RXM_IOV_LIMIT."""

REMOTE_CQ_DATA = 1 << 17

# op of a header
TAGGED_MESSAGE = 1

# type of the header before that one
EAGER, SEGMENT, RENDEZVOUS = 0, 1, 2


class OldRxm(Endpoint):
    """An endpoint of rxm."""

    provider = "ofi_rxm"
    checks = (
        "the endpoint is of the MPI's domain, and its queue of tagged messages refers to it",
        "the ends of its lists refer to the lists",
    )
    orders_sources = True
    numbers_receives = False

    def __init__(self, library: Library, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of rxm, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._queue_of = views.RxmQueue.bind(layouts)
        self._entry = views.RxmEntry.bind(layouts)
        self._message = views.RxmMessage.bind(layouts)
        self._queue = endpoint + views.OldRxmEndpoint.bind(layouts).constant("trecv_queue")
        if views.UtilEndpoint.bind(layouts).at(memory, endpoint).domain != domain:
            raise LayoutError("it is of another domain")
        queue = self._queue_of.at(memory, self._queue)
        if queue.rxm_ep != endpoint or queue.type != TAGGED:
            raise LayoutError("it has no queue of tagged receives")
        if not all(lists.is_dlist(memory, self._queue + each) for each in (queue.recv_list, queue.unexp_msg_list)):
            raise LayoutError("its lists have no heads where they should")

    def posted(self) -> list[Posted]:
        """Return the receives that wait, as they stand in their list: in the order of posting."""
        memory = self._memory
        queue = self._queue_of.at(memory, self._queue)
        found: list[Posted] = []
        for address in lists.dlist(memory, self._queue + queue.recv_list, "rxm's list of receives"):
            entry = self._entry.at(memory, address)
            if entry.recv_queue != self._queue or entry.pieces > MOST_PIECES:
                raise BrokenStructureError(f"there is no receive of rxm's at {address:#x}")
            words = memory.pointers(address + entry.iov, 2 * entry.pieces)
            found.append(
                Posted(
                    address,
                    entry.tag,
                    entry.ignore,
                    entry.addr,
                    len(found),
                    words[0] if words else 0,
                    sum(words[1::2]),
                    entry.pieces > 1,
                    entry.context,
                )
            )
        return found

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages as they came."""
        memory = self._memory
        queue = self._queue_of.at(memory, self._queue)
        link = self._message.constant("unexp_msg")
        for each in lists.dlist(memory, self._queue + queue.unexp_msg_list, "rxm's list of messages"):
            message = self._message.at(memory, each - link)
            if message.header_tag != message.tag or message.op != TAGGED_MESSAGE:
                raise BrokenStructureError(f"there is no message of rxm's at {message.address:#x}")
            here = message.size if message.kind == EAGER else 0
            yield Arrived(
                message.tag,
                message.addr,
                message.data if message.flags & REMOTE_CQ_DATA else None,
                message.size,
                here,
                message.payload if here else 0,
                claimed=False,
                rendezvous=message.kind == RENDEZVOUS,
            )

    def sends(self) -> list[Sent]:
        """Refuse."""
        raise NoInformation(f"how {self.provider} keeps its sends is not known")
