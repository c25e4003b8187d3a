"""What a worker matches by tags: receives that wait for a message, and messages that wait for a receive.

A receive whose mask leaves no bit open hangs in a table by its tag, any other one in one queue. All are counted, and
numbered as they were posted: UCX gives a message to the lowest number that fits.
Source: src/ucp/tag/tag_match.h, tag_match.inl, eager.h, tag_rndv.h, offload.h of 1.13.1, 1.18.1 and 1.20.1.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from mqs_dll.contract.errors import BrokenStructureError, MqsError, TargetReadError
from mqs_dll.library.fabric import ALL_BITS, Arrived, Posted
from mqs_dll.library.fabric.ucx import views
from mqs_dll.library.fabric.ucx.worker import UcxWorker
from mqs_dll.library.memory import WORD, Memory, bounded

TABLE_SLOTS = 1024
"""Queues for receives without wildcards: halves of tags are taken modulo UCP_TAG_MATCH_HASH_SIZE (1021), and xored."""

MOST = 1 << 22
"""More receives or messages than a process has."""

SLACK = 1
"""Receives that a process which was stopped in the middle of an update may have counted, but not linked."""

QUEUE = struct.Struct("<QQII")
"""ucp_request_queue_t: the first receive, the place of the last one's link, how many there are, those held back."""

TABLE = struct.Struct(f"<{3 * TABLE_SLOTS}Q")

COMPLETED = 0x1
RELEASED = 0x2
RECV_TAG = 0x20000

# ucp_recv_desc flags
EAGER = 0x2
EAGER_ONLY = 0x4
SYNC = 0x8
RENDEZVOUS = 0x40

EAGER_HEADER = 8
"""Bytes of a message before its data, at least: the tag."""


class UcxMatching:
    """The tag matching of one worker."""

    def __init__(self, worker: UcxWorker) -> None:
        self._memory = worker.memory
        self._worker = worker
        layouts = worker.layouts
        self._matching = views.TagMatch.bind(layouts)
        self._request = views.UcpRequest.bind(layouts)
        self._descriptor = views.Descriptor.bind(layouts)
        self._link = layouts.offset("ucp_request", "recv.queue") or 0
        self._list = layouts.offset("ucp_recv_desc", "tag_list") or 0

    def posted(self) -> list[Posted]:
        """Return the receives that wait, in the order in which a message that fits several finds them.

        Raises:
            BrokenStructureError: the queues contradict their counts.
            TargetReadError: a queue can't be read.
        """
        matching = self._matching.at(self._memory, self._worker.matching)
        table = TABLE.unpack(self._memory.read(matching.hash, TABLE.size))
        queues = [(self._worker.matching + matching.wildcard, True)]
        queues += [
            (matching.hash + QUEUE.size * slot, False) for slot, word in enumerate(table[2::3]) if has_receives(word)
        ]
        found, counted = [], 0
        for address, wild in queues:
            first, last, count, _ = self._memory.unpack(QUEUE, address)
            counted += count
            own = [self._posted(each, wild) for each in self._queue(address, first, last, count)]
            if any(before.number >= after.number for before, after in pairwise(own)):
                raise BrokenStructureError("a queue of UCX's receives is not in the order of posting")
            found += own
        all_count = counted if matching.sw_all_count is None else matching.sw_all_count
        if not counted - SLACK <= len(found) <= counted + SLACK or abs(counted - all_count) > SLACK:
            raise BrokenStructureError(
                f"UCX counts {all_count} receives that wait, its queues {counted}, and have {len(found)}"
            )
        return sorted(found, key=lambda each: each.number)

    def _queue(self, address: int, first: int, last: int, count: int) -> Iterator[int]:
        """Yield the addresses of the receives in a queue, whose end is told by the place of the last one's link."""

        def steps() -> Iterator[int]:
            place, link = address, first
            while place != last:
                yield link
                place, link = link, self._memory.pointer(link)

        if count > MOST:
            raise BrokenStructureError(f"UCX counts {count} receives in one queue")
        for link in bounded(steps(), count + SLACK, "a queue of UCX's receives"):
            yield link - self._link

    def _posted(self, address: int, wild: bool) -> Posted:
        request = self._request.at(self._memory, address)
        if request.recv_worker != self._worker.address or not request.flags & RECV_TAG or request.flags & COMPLETED:
            raise BrokenStructureError(f"there is no receive of UCX's at {address:#x}")
        if wild == (request.recv_tag_mask == ALL_BITS):
            raise BrokenStructureError(f"the receive at {address:#x} is in the wrong queue of UCX's")
        return posted_by(request)

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages that no receive has matched in the order in which they came.

        Raises:
            BrokenStructureError: after those that could be reached.
        """
        matching = self._matching.at(self._memory, self._worker.matching)
        head = self._worker.matching + matching.unexpected

        def steps() -> Iterator[int]:
            link = matching.first
            while link != head:
                yield link
                link = self._memory.pointer(link + WORD)  # behind that to the one before

        reached = 0
        try:
            for link in bounded(steps(), MOST, "UCX's list of unexpected messages"):
                yield self._arrived(link - self._list)
                reached += 1
        except TargetReadError as error:
            raise BrokenStructureError(
                f"UCX's list of unexpected messages is broken after {reached}: {error}"
            ) from error

    def _arrived(self, address: int) -> Arrived:
        found = self._descriptor.at(self._memory, address)
        kind = found.flags & (EAGER | EAGER_ONLY | SYNC | RENDEZVOUS)
        header = address + self._descriptor.offsets["tag"]
        here = found.length - found.payload_offset
        if kind == RENDEZVOUS:
            return Arrived(found.tag, found.size, 0, 0, rendezvous=True, request=found.request)
        if found.payload_offset < EAGER_HEADER or here < 0 or not kind or kind & RENDEZVOUS:
            raise BrokenStructureError(f"there is no message of UCX's at {address:#x}")
        length = here if kind & EAGER_ONLY else found.total_len
        if length < here:
            raise BrokenStructureError(f"the message of UCX's at {address:#x} contradicts itself")
        data = header + found.payload_offset if here else 0
        request = (found.request if kind & EAGER_ONLY else found.size) if kind & SYNC else 0
        return Arrived(found.tag, length, here, data, rendezvous=False, synchronous=bool(kind & SYNC), request=request)


def posted_by(request: views.UcpRequest) -> Posted:
    """Return what the request of a receive asks for."""
    return Posted(
        request.address,
        request.recv_tag,
        ALL_BITS & ~request.recv_tag_mask,
        request.recv_sn,
        request.recv_buffer,
        request.recv_length,
        request.user_data or 0,
        freed=bool(request.flags & RELEASED),
    )


def arrivals(
    matchings: Iterable[UcxMatching], key: Callable[[int], int]
) -> tuple[Mapping[int, Sequence[Arrived]], MqsError | None]:
    """Return the messages of some workers in the order in which they came, and why some may be missing.

    Args:
        matchings: of each worker.
        key: returns by what to sort a message, given its tag.
    """
    found: defaultdict[int, list[Arrived]] = defaultdict(list)
    try:
        for matching in matchings:
            for message in matching.arrived():
                found[key(message.tag)].append(message)
    except MqsError as error:
        return found, error
    return found, None


def has_messages(memory: Memory, matching: views.TagMatch) -> bool:
    """Tell whether what a worker matches has its list of messages: the ends refer to its head.

    Raises:
        TargetReadError: an end can't be read.
    """
    head = matching.address + matching.unexpected
    return memory.pointer(matching.first) == head == memory.pointer(matching.last + WORD)


def has_receives(word: int) -> bool:
    """Tell whether the third word of a queue counts any."""
    return bool(word & 0xFFFFFFFF)
