"""What ch4's netmods (ofi, ucx) keep for themselves: messages to and from processes that shared memory doesn't reach.

They lie in the network library's own memory. Whether a communicator can have such messages is told by where its
processes are. Source: src/mpid/ch4/src/ch4_proc.c, ch4_recv.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import NoInformation
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import remembered
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.communicators import Entry
from mqs_dll.library.mpi.mpich.parts import Parts
from mqs_dll.library.mpi.mpich.process import WORLD

ON_ONE_NODE = "run the ranks on one node, where MPICH uses shared memory (without MPIR_CVAR_NOLOCAL)"
OTHER_BUILD = "use an MPICH that has shared memory, like one that is configured with --with-device=ch4:ofi"
SAME_JOB = "MPICH has no shared memory between jobs"


class Network:
    """The netmod of one process."""

    def __init__(self, parts: Parts, *, has_shared_memory: bool) -> None:
        self._parts = parts
        self._has_shared_memory = has_shared_memory
        self._memory = parts.memory
        names = re.split(r"[ ,]+", parts.release.device.partition(":")[2])
        self.name = " or ".join(name for name in names if name) or "its netmod"
        self._why = ""

    def explain(self, why: str) -> None:
        """Learn why the memory of the network's library can't be read."""
        self._why = f" ({why})"

    def receives(self, handles: Iterable[str]) -> Iterator[Operation]:
        """Yield receives of which only the handle, in words, is seen."""
        call = phrases.made_by("MPI_Recv", "MPI_Irecv", how=How.OR_COLLECTIVE)
        rest = f"the rest is not known: {self.name} keeps it"
        for handle in handles:
            yield envelopes.send(Status.PENDING, INVALID_RANK, INVALID_RANK, UNKNOWN, UNKNOWN, 0, call, handle, rest)

    def refusal(self, entry: Entry, what: str, waiting: Sequence[str]) -> NoInformation | None:
        """Return why a queue of a communicator can't be called complete: the netmod may have a part of it.

        Args:
            entry: the communicator.
            what: the queue, in words.
            waiting: its requests that are the netmod's.
        """
        if not waiting and self._is_within_node(entry):
            return None
        if not self._has_shared_memory:
            way_out = OTHER_BUILD
        else:
            way_out = SAME_JOB if INVALID_RANK in entry.peers() else ON_ONE_NODE
        return NoInformation(
            f"{what} over the network can't be seen: {self.name} keeps them in its own memory{self._why}", way_out
        )

    def _is_within_node(self, entry: Entry) -> bool:
        """Tell whether shared memory reaches all processes of a communicator.

        MPICH makes a communicator of each node's processes within those that the program has.
        """
        if not self._has_shared_memory or INVALID_RANK in entry.peers():
            return False
        if entry.view.recvcontext_id & contexts.SUBCOMM == contexts.INTRANODE:
            return True
        world = next((view for view in self._comms().values() if view.handle == WORLD), None)
        return any(view is not None and self._is_its_node(view) for view in (entry.view, world))

    @remembered
    def _comms(self) -> dict[int, views.Comm]:
        return {each.view.address: each.view for each in self._parts.communicators.read()}

    def _is_its_node(self, view: views.Comm) -> bool:
        node = self._comms().get(view.node_comm)
        return node is not None and not view.comm_kind and node.local_size == view.local_size
