"""Messages that no receive has matched, as numbers: there may be a hundred thousand, too many for an object each.

Source: src/mpid/ch4/src/mpidig_recvq.h, mpidig_pt2pt_callbacks.c of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, count
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import Rows
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.links import lists_of
from mqs_dll.library.mpi.mpich.requests import AM_DEQUEUED, AM_MATCHED, AM_UNEXPECTED

ACTIVE_MESSAGE = 1
"""A request's type, since 4.1.0 (MPIDI_REQ_TYPE_AM)."""

STATE = struct.Struct("<Q")


class Arrived(NamedTuple):
    """An unexpected message."""

    source: int
    """The sender's rank."""
    tag: int
    context_id: int
    length: int
    """Bytes."""
    buffer: int
    state: int


_arrived = partial(tuple.__new__, Arrived)
"""Makes one in half the time that its name takes."""


class Messages:
    """Some unexpected messages, in an order; each is made when it is asked for."""

    def __init__(self, columns: Sequence[array[int]], places: array[int]) -> None:
        """Take those that lie at some places of the columns, which are in the order of the fields of Arrived."""
        self._columns = columns
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Arrived]:
        return map(_arrived, zip(*(map(column.__getitem__, self._places) for column in self._columns), strict=True))


class Found(NamedTuple):
    """What was found out about the messages of a process."""

    arrived: Mapping[int, Messages]
    """By the context id of their communicator without the bit of collectives, in the order in which they came."""
    are_in_order: bool
    """Whether their links prove that."""
    broken: list[int]
    """Handles of the requests of which it isn't known what they are at."""


class UnexpectedMessages:
    """The requests of one process that are unexpected messages if what lies outside of them says so."""

    def __init__(self, memory: Memory, layouts: Layouts, receive: int) -> None:
        """Start with none, for a process that has shared memory, and a number for the kind of a receive."""
        self._memory = memory
        self._common = views.MpirRequest.bind(layouts)
        self._am = views.by_context_id(views.AmRequest, views.NarrowAmRequest, layouts).bind(layouts)
        self._extension = views.AmExtension.bind(layouts)
        self._receive = receive
        self._has_type = "type" in self._common.offsets
        self.addresses = array("Q")
        self._links = array("Q")
        self._extensions = array("Q")
        self._columns = (array("i"), array("i"), array("I"), array("Q"), array("Q"))
        """In the order of the fields of Arrived; the last one isn't read yet."""

    def take(self, rows: Rows, places: list[int]) -> list[int]:
        """Take the messages of no communicator from some requests in use, by their places; return the others' places.

        This reads nothing else: the other requests can be seen even if that fails, or would be too much.
        """
        taken = self._without_communicator(rows, places)
        if not taken:
            return places
        envelope = (self._envelope(rows, name) for name in ("source", "tag"))
        am = (self._am.column(rows, name) for name in ("context_id", "count", "buffer", "req"))
        wholes = (*self._columns, self._extensions, self._links)
        for whole, column in zip(wholes, (*envelope, *am, self._common.column(rows, "next")), strict=True):
            whole.extend(map(column.__getitem__, taken))
        self.addresses.extend(rows.address + place * rows.stride for place in taken)
        gone = set(taken)
        return [place for place in places if place not in gone]

    def _envelope(self, rows: Rows, name: str) -> list[int]:
        """Return the source or the tag of each."""
        is_own = name in self._am.offsets
        return self._am.column(rows, name) if is_own else self._common.column(rows, f"status_{name}")

    def _without_communicator(self, rows: Rows, places: list[int]) -> list[int]:
        """Return the places of the active messages that are receives for MPICH, of no communicator, and not done."""
        comms = self._common.column(rows, "comm")
        found = [place for place in places if not comms[place]]
        if not found:
            return found
        column = partial(self._common.column, rows)
        kinds, counters = column("kind"), column("cc")
        active = [each == ACTIVE_MESSAGE for each in column("type")] if self._has_type else column("is_local")
        return [place for place in found if kinds[place] == self._receive and active[place] and counters[place]]

    # ------------------------------------------------------------ what they are, and in which order

    def find(self) -> Found:
        """Return those that no receive has matched, and no matched probe has taken."""
        states, unreadable = self._states()
        shown = AM_UNEXPECTED | AM_DEQUEUED | AM_MATCHED
        in_order, proved = self._in_order([state & shown == AM_UNEXPECTED for state in states])
        places: defaultdict[int, array[int]] = defaultdict(partial(array, "I"))
        ids = self._columns[Arrived._fields.index("context_id")]
        for place in in_order:
            places[contexts.communicator_of(ids[place])].append(place)
        arrived = {number: Messages((*self._columns, states), each) for number, each in places.items()}
        broken = [self._common.at(self._memory, self.addresses[place]).handle for place in unreadable]
        return Found(arrived, proved, broken)

    def _states(self) -> tuple[array[int], list[int]]:
        """Return what each message is at, 0 where that can't be read, and the places where it can't."""
        states, unreadable = array("Q"), list[int]()
        start, size = self._extension.start, self._extension.end - self._extension.start
        state = self._extension.offsets["status"] - start
        data, base, last = b"", 0, -1
        self._memory.charge(len(self._extensions))
        for place, extension in enumerate(self._extensions):
            first = extension + start
            if not base <= first <= last:
                try:
                    data, offset = self._memory.locate(first, size)
                except TargetReadError:
                    unreadable.append(place)
                    states.append(0)
                    continue
                base = first - offset
                last = base + len(data) - size
            states.append(STATE.unpack_from(data, first - base + state)[0])
        return states, unreadable

    def _in_order(self, wanted: Sequence[bool]) -> tuple[Iterable[int], bool]:
        """Return the places of wanted ones in the order of their lists, one list after the other.

        Returns:
            The places, and whether the links prove the order.
        """
        links, addresses = self._links, self.addresses
        if links and all(wanted) and links[:-1] == addresses[1:] and not links[-1]:  # as long as none was taken
            return range(len(links)), True
        lists, proved = lists_of(dict(compress(zip(addresses, links, strict=True), wanted)))
        place_of = dict(compress(zip(addresses, count(), strict=False), wanted))
        return [place_of[address] for each in lists for address in each], proved
