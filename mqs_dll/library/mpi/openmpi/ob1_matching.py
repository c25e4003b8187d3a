"""How pml/ob1 matches: for each communicator the receives that wait, and for each peer the messages that do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from mqs_dll.contract.errors import BrokenStructureError, MqsError
from mqs_dll.library.memory import kept_while_unchanged
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.groups import MAX_GROUP_SIZE
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext


class Ob1Peer(NamedTuple):
    """One peer that a communicator has dealt with."""

    rank: int
    proc: views.Ob1Proc


class Ob1Lists(NamedTuple):
    """The matching lists of one communicator, with those of its peers whose lists have something in them, by rank."""

    comm: views.Ob1Comm
    awaited: list[Ob1Peer]
    """Peers that a receive waits for by their rank."""
    senders: list[Ob1Peer]
    """Peers with a message that no receive has matched."""
    early: list[Ob1Peer]
    """Peers whose messages have overtaken one that is not here yet."""


class Ob1Matching:
    """The matching lists of the communicators of one process, each read once until it changes."""

    def __init__(self, mpi: OmpiProcessContext) -> None:
        self._memory = mpi.memory
        self._containers = mpi.containers
        self._comm = views.Ob1Comm.bind(mpi.layouts)
        self._proc = views.Ob1Proc.bind(mpi.layouts)
        self._sentinel = views.OpalList.bind(mpi.layouts).constant("opal_list_sentinel")
        self._specific_sentinel = self._proc.constant("specific_receives") + self._sentinel
        self._unexpected_sentinel = self._proc.constant("unexpected_frags") + self._sentinel
        self._comm_class = mpi.symbols.need("mca_pml_ob1_comm_t_class")
        self._proc_class = mpi.symbols.need("mca_pml_ob1_comm_proc_t_class")

    def lists(self, entry: OmpiEntry) -> Ob1Lists:
        """Return the matching lists of a communicator.

        Raises:
            BrokenStructureError: there is something else in their place.
        """
        lists = self._lists(entry.view.c_pml_comm)
        if lists is None:
            raise BrokenStructureError(f"communicator {entry.record.name!r} has no matching lists")
        return lists

    @kept_while_unchanged
    def _lists(self, address: int) -> Ob1Lists | None:
        comm = self._comm.at(self._memory, address)
        if comm.obj_class != self._comm_class or comm.num_procs > MAX_GROUP_SIZE:
            return None
        lists = Ob1Lists(comm, [], [], [])
        for rank, address in enumerate(self._memory.words(comm.procs, comm.num_procs)):
            if address == 0:  # nobody has dealt with this peer yet
                continue
            proc = self._proc.at(self._memory, address)
            if proc.obj_class != self._proc_class:
                raise BrokenStructureError(f"peer {rank} of the lists at {comm.address:#x} is something else")
            if proc.first_specific_receive != address + self._specific_sentinel:
                lists.awaited.append(Ob1Peer(rank, proc))
            if proc.first_unexpected_frag != address + self._unexpected_sentinel:
                lists.senders.append(Ob1Peer(rank, proc))
            if proc.frags_cant_match:
                lists.early.append(Ob1Peer(rank, proc))
        return lists

    def are_empty(self, entry: OmpiEntry) -> bool:
        """Return whether nothing is in the lists of a communicator."""
        comm, *peers = self.lists(entry)
        return not any(peers) and comm.first_wild_receive == comm.address + comm.wild_receives + self._sentinel

    def receives(self, entry: OmpiEntry, known: Mapping[int, views.RecvRequest]) -> tuple[list[int], MqsError | None]:
        """Return the addresses of the receives that wait for a message, and what broke the walk, if anything did.

        Args:
            entry: whose receives.
            known: those that were read already, by their addresses.
        """

        def following(address: int) -> int:
            request = known.get(address)
            return self._containers.following(address) if request is None else request.item_next

        addresses: list[int] = []
        try:
            lists = self.lists(entry)
            head = lists.comm.address + lists.comm.wild_receives
            if lists.comm.first_wild_receive != head + self._sentinel:
                addresses.extend(self._containers.list_items(head, "the list of receives from any source", following))
            for rank, proc in lists.awaited:
                head = proc.address + proc.specific_receives
                addresses.extend(self._containers.list_items(head, f"the list of receives from {rank}", following))
        except MqsError as error:
            return addresses, error
        return addresses, None

    def counts(self, entry: OmpiEntry) -> dict[int, tuple[int, int]]:
        """Return two numbers by peer that a receive waits for by its rank.

        They are that of the peer's message which is the next to match, and that of the last one that was sent to it, in
        16 bits as messages carry them. Empty where the lists can't be read.
        Source: ompi/mca/pml/ob1/pml_ob1_comm.h (expected_sequence, send_sequence).
        """
        try:
            return {
                rank: (proc.expected_sequence, proc.send_sequence & 0xFFFF) for rank, proc in self.lists(entry).awaited
            }
        except MqsError:
            return {}

    def fragments(self, peer: Ob1Peer, following: Callable[[int], int]) -> Iterator[int]:
        """Return the addresses of a peer's messages that no receive has matched, in the order of sending.

        Args:
            peer: whose.
            following: as of ``Containers.list_items``.
        """
        rank, proc = peer
        head = proc.address + proc.unexpected_frags
        return self._containers.list_items(head, f"the list of unexpected messages from {rank}", following)
