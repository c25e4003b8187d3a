"""Messages that have come to a process of pml/ob1 and that no receive has matched.

Source: ompi/mca/pml/ob1/pml_ob1_hdr.h, pml_ob1_recvfrag.c of 4.1.0 to 4.1.8 and 5.0.0 to 5.0.11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from mqs_dll.contract.abi import Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, MqsError, TargetReadError
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import lines, message_with, note
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.containers import MAX_COUNT
from mqs_dll.library.mpi.openmpi.describe import foreign_note, tag_text
from mqs_dll.library.mpi.openmpi.ob1_matching import Ob1Matching, Ob1Peer
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext

# types of headers
MATCH = 0x41
RNDV = 0x42
RGET = 0x43
CID = 0x4A

MATCH_BYTES = 14
PADDED_MATCH_BYTES = 16
RNDV_BYTES = 32
CID_BYTES = 32
"""An extended context id that stands before the match header in the first messages on a communicator (since 5.0.0)."""


_COMPLETE, _PENDING = Status.COMPLETE, Status.PENDING


class Unexpected:
    """Decodes the messages of one process."""

    def __init__(self, mpi: OmpiProcessContext, matching: Ob1Matching) -> None:
        self._memory = mpi.memory
        self._containers = mpi.containers
        self._matching = matching
        self._fragment = views.Ob1RecvFrag.bind(mpi.layouts)
        self._hdr = self._fragment.constant("hdr")
        self._read_values = self._fragment.values(
            mpi.memory,
            *("opal_list_next", "obj_class", "type", "hdr_src", "hdr_tag", "hdr_msg_length"),
            *("num_segments", "segment_address", "segment_length"),
        )
        self._header = views.Ob1Header.bind(mpi.layouts)
        self._match_bytes = PADDED_MATCH_BYTES if "hdr_padding" in self._header.offsets else MATCH_BYTES
        self._class = mpi.symbols.need("mca_pml_ob1_recv_frag_t_class")
        self._component = mpi.symbols.get("mca_pml_ob1")
        self._foreign = views.Ob1Component.bind(mpi.layouts).constant("non_existing_communicator_pending")

    def operations(self, entry: OmpiEntry, nonblocking_base: int) -> Iterator[Operation]:
        """Yield a communicator's messages in the order in which a receive from any source would find them.

        Such a receive searches one peer after the other, starting behind the one that the last search ended with.
        Messages that can't be matched yet follow as notes: one for each sender whose messages overtook others, and on
        MPI_COMM_WORLD one for messages on communicators that aren't made yet.
        """
        lists = self._matching.lists(entry)
        world = entry.peers()
        last_probed = lists.comm.last_probed
        for peer in sorted(lists.senders, key=lambda each: (each.rank <= last_probed, each.rank)):
            yield from self._messages(peer, world_rank(world, peer.rank), nonblocking_base)
        for peer in lists.early:
            yield self._early_note(peer, world)
        if entry.is_world:
            yield from self._foreign_note()

    def _read(self, address: int) -> views.Ob1RecvFrag:
        fragment = self._fragment.at(self._memory, address)
        if fragment.obj_class != self._class:
            raise _no_message(address)
        return fragment

    def _header_of(self, fragment: views.Ob1RecvFrag) -> views.Ob1RecvFrag | views.Ob1Header:
        """Return what has the members of a message's match header."""
        return fragment if fragment.type != CID else self._behind_prefix(fragment.address)

    def _behind_prefix(self, address: int) -> views.Ob1Header:
        """Return the match header of the message at an address, which has an extended context id before it.

        A message that was parked for an unknown communicator keeps this prefix: only its segment's address has moved.
        """
        return self._header.at(self._memory, address + self._hdr + CID_BYTES)

    def _messages(self, peer: Ob1Peer, world: int, nonblocking_base: int) -> Iterator[Operation]:
        """Yield the messages of a peer, whose rank in MPI_COMM_WORLD is given; there may be a hundred thousand."""
        rank, read = peer.rank, self._read_values
        values: tuple[Any, ...] | None = None

        def following(address: int) -> int:
            nonlocal values
            try:
                values = read(address)
            except TargetReadError:  # without its link the list is broken; without the rest the message can't be read
                values = None
                return self._containers.following(address)
            return int(values[0])

        for address in self._matching.fragments(peer, following):
            _, obj_class, kind, source, tag, announced, segments, buffer, arrived = values or read(address)
            if obj_class != self._class:
                raise _no_message(address)
            if kind == CID:
                header = self._behind_prefix(address)
                kind, source, tag, announced = header.type, header.hdr_src, header.hdr_tag, header.hdr_msg_length
                arrived -= CID_BYTES
            if kind == MATCH:
                own = self._match_bytes
                length = here = arrived - own
                how = "eager: all of it is here"
            elif kind == RNDV:
                own = RNDV_BYTES
                length, here = announced, arrived - own
                how = f"rendezvous: {here} of {length} bytes are here"
            elif kind == RGET:
                own = here = 0
                length = announced
                how = f"rendezvous: its {length} bytes are with the sender"
            else:
                raise BrokenStructureError(f"the message at {address:#x} has a header of type {kind:#x}")
            if source != rank or not 0 <= here <= length or segments > MAX_COUNT:
                raise BrokenStructureError(f"the message at {address:#x} contradicts itself")
            yield message_with(
                _text(how, tag_text(tag, nonblocking_base) if tag < 0 else None),
                _COMPLETE if here == length else _PENDING,
                rank,
                world,
                tag,
                length,
                buffer + own if here else 0,
            )

    # ------------------------------------------------------------ messages that can't be matched yet

    def _early_note(self, peer: Ob1Peer, world: Sequence[int]) -> Operation:
        count, broken = self._count_early(peer)
        return note(
            f"{count} came too early, behind a message not here yet",
            f"message no. {peer.proc.expected_sequence} of this sender is the next to match",
            broken,
            rank=peer.rank,
            world=world_rank(world, peer.rank),
        )

    def _count_early(self, peer: Ob1Peer) -> tuple[int, str | None]:
        """Count a ring of messages, and the rings of their direct successors that hang off each (``range``)."""
        count = 0
        what = f"the ring of early messages of {peer.rank}"
        try:
            for address in self._ring(peer.proc.frags_cant_match, what):
                count += 1
                run = self._read(address).range
                if run:
                    count += sum(1 for _ in self._ring(run, what))
        except MqsError as error:
            return count, str(error)
        return count, None

    def _ring(self, head: int, what: str) -> Iterator[int]:
        yield head
        yield from self._containers.ring(self._read(head).opal_list_next, head, MAX_COUNT, what)

    def _foreign_note(self) -> Iterator[Operation]:
        if self._component is None:
            return
        pending = self._component + self._foreign
        numbers: Counter[int] = Counter()
        broken = None
        try:
            for address in self._containers.list_items(pending, "the list of messages on unknown communicators"):
                numbers[self._header_of(self._read(address)).hdr_ctx] += 1
        except MqsError as error:
            broken = str(error)
        if numbers or broken:
            yield foreign_note(numbers, broken)


def _no_message(address: int) -> BrokenStructureError:
    return BrokenStructureError(f"there is no message at {address:#x}")


@lru_cache(maxsize=256)
def _text(*texts: str | None) -> tuple[bytes, ...]:
    """Return the lines of a message, which many have in common."""
    return lines(*texts)
