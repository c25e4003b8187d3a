"""Messages that have come to a process of pml/ob1 and that no receive has matched.

Source: ompi/mca/pml/ob1/pml_ob1_hdr.h, pml_ob1_recvfrag.c of 4.1.0 to 4.1.8 and 5.0.0 to 5.0.11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mqs_dll.contract.abi import Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, MqsError
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import message, note
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


class Unexpected:
    """Decodes the messages of one process."""

    def __init__(self, mpi: OmpiProcessContext, matching: Ob1Matching) -> None:
        self._memory = mpi.memory
        self._containers = mpi.containers
        self._matching = matching
        self._fragment = views.Ob1RecvFrag.bind(mpi.layouts)
        self._header = views.Ob1Header.bind(mpi.layouts)
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
            for address in self._matching.fragments(peer):
                yield self._operation(self._read(address), peer.rank, world, nonblocking_base)
        for peer in lists.early:
            yield self._early_note(peer, world)
        if entry.is_world:
            yield from self._foreign_note()

    def _read(self, address: int) -> views.Ob1RecvFrag:
        fragment = self._fragment.at(self._memory, address)
        if fragment.obj_class != self._class:
            raise BrokenStructureError(f"there is no message at {address:#x}")
        return fragment

    def _header_of(self, fragment: views.Ob1RecvFrag) -> tuple[views.Ob1Header, int]:
        """Return the match header of a message, and the bytes that its segment counts too many before it.

        A message that was parked for an unknown communicator keeps its prefix: only its segment's address has moved.
        """
        header = self._header.at(self._memory, fragment.address + fragment.hdr)
        if header.type != CID:
            return header, 0
        return self._header.at(self._memory, header.address + CID_BYTES), CID_BYTES

    def _operation(
        self, fragment: views.Ob1RecvFrag, rank: int, world: Sequence[int], nonblocking_base: int
    ) -> Operation:
        header, prefix = self._header_of(fragment)
        arrived = fragment.segment_length - prefix
        if header.type == MATCH:
            padded = header.hdr_padding is not None
            own = PADDED_MATCH_BYTES if padded else MATCH_BYTES
            length = here = arrived - own
            how = "eager: all of it is here"
        elif header.type == RNDV:
            own = RNDV_BYTES
            length, here = header.hdr_msg_length, arrived - own
            how = f"rendezvous: {here} of {length} bytes are here"
        elif header.type == RGET:
            own = here = 0
            length = header.hdr_msg_length
            how = f"rendezvous: its {length} bytes are with the sender"
        else:
            raise BrokenStructureError(f"the message at {fragment.address:#x} has a header of type {header.type:#x}")
        if header.hdr_src != rank or not 0 <= here <= length or fragment.num_segments > MAX_COUNT:
            raise BrokenStructureError(f"the message at {fragment.address:#x} contradicts itself")
        return message(
            Status.COMPLETE if here == length else Status.PENDING,
            rank,
            world_rank(world, rank),
            header.hdr_tag,
            length,
            fragment.segment_address + own if here else 0,
            how,
            tag_text(header.hdr_tag, nonblocking_base),
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
                header, _ = self._header_of(self._read(address))
                numbers[header.hdr_ctx] += 1
        except MqsError as error:
            broken = str(error)
        if numbers or broken:
            yield foreign_note(numbers, broken)
