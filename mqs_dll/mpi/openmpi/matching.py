"""How pml/ob1 matches: for each communicator the receives that wait, and for each peer the messages that do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.errors import BrokenStructureError, MqsError
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.openmpi import views
from mqs_dll.mpi.openmpi.communicators import Entry
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.groups import LARGEST_GROUP
from mqs_dll.mpi.openmpi.symbols import Symbols


class Peer(NamedTuple):
    """One peer that a communicator has dealt with."""

    rank: int
    proc: views.Ob1Proc


class Lists(NamedTuple):
    """The matching lists of one communicator."""

    comm: views.Ob1Comm
    peers: list[Peer]
    """In the order of their ranks; without those that the communicator has not dealt with."""


class Matching:
    """The matching lists of the communicators of one process, each read once until ``forget``."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts, containers: Containers) -> None:
        self._memory = memory
        self._containers = containers
        self._comm = views.Ob1Comm.bind(layouts)
        self._proc = views.Ob1Proc.bind(layouts)
        self._sentinel = views.OpalList.bind(layouts).constant("opal_list_sentinel")
        self._comm_class = symbols.need("mca_pml_ob1_comm_t_class")
        self._proc_class = symbols.need("mca_pml_ob1_comm_proc_t_class")
        self._read: dict[int, Lists] = {}

    def forget(self) -> None:
        """Drop all that was read."""
        self._read.clear()

    def lists(self, entry: Entry) -> Lists:
        """Return the matching lists of a communicator.

        Raises:
            BrokenStructureError: there is something else in their place.
        """
        address = entry.view.c_pml_comm
        found = self._read.get(address)
        if found is None:
            comm = self._comm.at(self._memory, address)
            if comm.obj_class != self._comm_class or comm.num_procs > LARGEST_GROUP:
                raise BrokenStructureError(f"communicator {entry.record.name!r} has no matching lists")
            found = self._read[address] = Lists(comm, self._peers(comm))
        return found

    def _peers(self, comm: views.Ob1Comm) -> list[Peer]:
        peers = []
        for rank, address in enumerate(self._memory.pointers(comm.procs, comm.num_procs)):
            if address:
                proc = self._proc.at(self._memory, address)
                if proc.obj_class != self._proc_class:
                    raise BrokenStructureError(f"peer {rank} of the lists at {comm.address:#x} is something else")
                peers.append(Peer(rank, proc))
        return peers

    def receives(self, entry: Entry) -> tuple[list[int], MqsError | None]:
        """Return the addresses of the receives that wait for a message, and what broke the walk, if anything did."""
        addresses: list[int] = []
        try:
            comm, peers = self.lists(entry)
            head = comm.address + comm.wild_receives
            addresses.extend(self._items(head, comm.first_wild_receive, "the list of receives from any source"))
            for rank, proc in peers:
                head = proc.address + proc.specific_receives
                addresses.extend(self._items(head, proc.first_specific_receive, f"the list of receives from {rank}"))
        except MqsError as error:
            return addresses, error
        return addresses, None

    def fragments(self, peer: Peer) -> Iterator[int]:
        """Return the addresses of a peer's messages that no receive has matched, in the order of sending."""
        rank, proc = peer
        head = proc.address + proc.unexpected_frags
        return self._items(head, proc.first_unexpected_frag, f"the list of unexpected messages from {rank}")

    def _items(self, head: int, first: int, what: str) -> Iterator[int]:
        """Walk a list, unless its first link, already read with the struct around it, shows that it is empty."""
        return iter(()) if first == head + self._sentinel else self._containers.list_items(head, what)
