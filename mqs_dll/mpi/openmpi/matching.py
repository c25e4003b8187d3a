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


class Matching:
    """The matching lists of the communicators of one process."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts, containers: Containers) -> None:
        self._memory = memory
        self._containers = containers
        self._comm = views.Ob1Comm.bind(layouts)
        self._proc = views.Ob1Proc.bind(layouts)
        self._comm_class = symbols.need("mca_pml_ob1_comm_t_class")
        self._proc_class = symbols.need("mca_pml_ob1_comm_proc_t_class")

    def comm(self, entry: Entry) -> views.Ob1Comm:
        """Return what ob1 keeps of a communicator.

        Raises:
            BrokenStructureError: it keeps something else.
        """
        comm = self._comm.at(self._memory, entry.view.c_pml_comm)
        if comm.obj_class != self._comm_class or comm.num_procs > LARGEST_GROUP:
            raise BrokenStructureError(f"communicator {entry.record.name!r} has no matching lists")
        return comm

    def peers(self, comm: views.Ob1Comm) -> list[Peer]:
        """Return the peers of a communicator that it has dealt with, in the order of their ranks."""
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
            comm = self.comm(entry)
            addresses.extend(self._items(comm.address + comm.wild_receives, "the list of receives from any source"))
            for peer in self.peers(comm):
                head = peer.proc.address + peer.proc.specific_receives
                addresses.extend(self._items(head, f"the list of receives from rank {peer.rank}"))
        except MqsError as error:
            return addresses, error
        return addresses, None

    def fragments(self, peer: Peer) -> Iterator[int]:
        """Yield the addresses of a peer's messages that no receive has matched, in the order of sending."""
        return self._items(peer.proc.address + peer.proc.unexpected_frags, f"the unexpected messages of {peer.rank}")

    def _items(self, head: int, what: str) -> Iterator[int]:
        return self._containers.list_items(head, what)
