"""The device ch4: ties its modules together, and says what its netmod hides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import MqsError, NoInformation, TargetReadError, TooMuchError
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.ch4 import variables
from mqs_dll.library.mpi.mpich.ch4.arrivals import Arrivals
from mqs_dll.library.mpi.mpich.ch4.receives import Receives
from mqs_dll.library.mpi.mpich.ch4.self_path import SelfPath
from mqs_dll.library.mpi.mpich.ch4.sends import ShmSends
from mqs_dll.library.mpi.mpich.ch4.traffic import Ch4Traffic
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.device import Device
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.partitioned import Partitioned
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind

if TYPE_CHECKING:
    from mqs_dll.library.mpi.mpich.ch4.netmod import Netmod

ON_ONE_NODE = "run the ranks on one node, where MPICH uses shared memory (without MPIR_CVAR_NOLOCAL)"
OTHER_BUILD = "use an MPICH that has shared memory, like one that is configured with --with-device=ch4:ofi"
SAME_JOB = "MPICH has no shared memory between jobs"


class Ch4(Device):
    """The device ch4 in one process."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self._traffic = Ch4Traffic(mpi)
        shared = self._traffic.has_shared_memory
        super().__init__(mpi, f"{mpi.release.device or 'ch4'} ({'shared memory' if shared else 'no shared memory'})")
        self._network = HiddenNetmod(mpi, has_shared_memory=shared)
        self._self_path = SelfPath(mpi, self._traffic)
        self._partitioned = Partitioned(mpi)
        self._receives = Receives(mpi, self._traffic)
        self._arrivals = Arrivals(mpi, self._traffic)
        self._sends = ShmSends(mpi, self._traffic) if shared else None
        self._netmod: Netmod | None = None
        self._has_looked = False
        self._find_way()

    def _find_way(self) -> None:
        """Search for the netmod's memory where it is needed: it takes long, and the process may still run."""
        with suppress(MqsError):
            whole = (entry for entry in self._mpi.communicators.read() if not entry.has_size_1)
            if any(self._network.refusal(entry, "queues", ()) for entry in whole) and (netmod := self._find_netmod()):
                netmod.find_way()

    def receives(self, entry: MpichEntry) -> Iterator[Operation]:
        """Return the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            NoInformation: at once or after them, the netmod may have others.
            BrokenStructureError: after them, their order isn't sure.
        """
        own = self._partitioned.receives(self._traffic.of(entry.view.address).partitioned, entry)
        if entry.has_size_1:
            return chain(own, self._self_path.receives(entry))
        of_network = self._of_network(entry, RequestKind.RECV)
        refusal = self._network.refusal(entry, "receives", of_network)
        if refusal is not None and (netmod := self._find_netmod()):
            return netmod.receives(entry, chain(zip(repeat(0), own), self._receives.by_request(entry)))
        walk = chain(self._receives.operations(entry), own, self._network.receives(of_network))
        return _up_to(refusal, walk)

    def sends(self, entry: MpichEntry) -> Iterator[Operation]:
        """Return the sends of a communicator, by destination and then in the order of sending.

        Raises:
            NoInformation: at once or after them, the netmod may have others.
        """
        own = chain(
            self._partitioned.sends(self._traffic.of(entry.view.address).partitioned, entry),
            self._traffic.started.done_at_once(entry.view.address, entry.peers()),
        )
        if entry.has_size_1:
            return chain(own, self._self_path.sends(entry))
        of_network = self._of_network(entry, RequestKind.SEND)
        shared = () if self._sends is None else self._sends.operations(entry)
        refusal = self._network.refusal(entry, "sends", of_network)
        if refusal is not None and (netmod := self._find_netmod()):
            return chain(shared, own, netmod.sends(entry))
        return _up_to(refusal, chain(shared, own))

    def unexpected(self, entry: MpichEntry) -> Iterator[Operation]:
        """Return the messages of a communicator in the order in which they came, which is that of matching.

        Raises:
            NoInformation: at once or after them, the netmod may have others.
            BrokenStructureError: after them, their order isn't sure.
        """
        if entry.has_size_1:
            return self._self_path.unexpected(entry)
        refusal = self._network.refusal(entry, "unexpected messages", ())
        if refusal is not None and (netmod := self._find_netmod()):
            return chain(self._arrivals.operations(entry), netmod.unexpected(entry))
        return _up_to(refusal, self._arrivals.operations(entry))

    def is_empty(self, entry: MpichEntry) -> bool:
        """Tell whether no request refers to a communicator, no message is for it, and no netmod may have a part of it.

        Of MPI_COMM_WORLD that isn't told: its messages have a note on those of other communicators behind them.
        """
        if self._netmod is not None or self.requests_of(entry) or entry.view.handle == COMM_WORLD:
            return False
        self._traffic.check_receives()
        self._traffic.check_arrivals()
        self.check_whole()
        if entry.has_size_1:
            return self._self_path.is_in_order()
        return not self._arrivals.are_for(entry) and self._network.refusal(entry, "queues", ()) is None

    def datatypes_in_use(self) -> list[int]:
        """Return the handle of the datatype of each send and receive that has one."""
        found = self._receives.datatypes()
        for entry in self._mpi.communicators.read():
            found += self._partitioned.datatypes(self._traffic.of(entry.view.address).partitioned)
            if entry.has_size_1:
                found += self._self_path.datatypes(entry)
            elif self._sends is not None:
                found += self._sends.datatypes(entry)
        return found

    def _find_netmod(self) -> Netmod | None:
        """Return what reads the netmod's memory; None where it can't be read."""
        if not self._has_looked:
            failure = self._search()
            if failure is not None:
                self._network.explain(str(failure))
            self._has_looked = not isinstance(failure, TargetReadError)
        return self._netmod

    @cached_per_sweep
    def _search(self) -> MqsError | None:
        """Set the netmod, where it is found; return why it can't be read, for good or for as long as memory can't be.

        Raises:
            TooMuchError: the call may search no further; another one will.
        """
        from mqs_dll.library.mpi.mpich.ch4 import ofi, ofi_contexts, ucx

        netmods: list[tuple[Callable[[MpichProcessContext], list[Any]], Callable[..., Netmod]]]
        netmods = [(ucx.find, ucx.Ch4Ucx), (ofi_contexts.find, ofi.Ch4Ofi)]
        if variables.is_known(self._mpi, ofi_contexts.OFI_CONTEXT):
            netmods.reverse()  # a search that finds nothing takes longest
        try:
            for find, netmod in netmods:
                if found := find(self._mpi):
                    made, fabric = netmod(self._mpi, self._traffic, found), found[0].fabric
                    if fabric is not None and self.fabric is None:
                        self.name += f" over {fabric.title}"
                    self.fabric, self._netmod = fabric, made
                    break
        except TooMuchError:
            raise
        except MqsError as error:
            return error
        return None

    def _of_network(self, entry: MpichEntry, kind: RequestKind) -> list[str]:
        """Return the handles, in words, of the netmod's sends or receives that are not done."""
        requests = [each for each in self._traffic.of(entry.view.address).others if each.cc]
        return [self._traffic.started.text(each) for each in requests if self._mpi.requests.kind(each) is kind]


def _up_to(refusal: NoInformation | None, walk: Iterator[Operation]) -> Iterator[Operation]:
    """Return a walk that ends with a refusal; with nothing before it, it comes at once."""
    if refusal is None:
        return walk
    for first in walk:
        return chain((first,), walk, _raise(refusal))
    raise refusal


def _raise(refusal: NoInformation) -> Iterator[Operation]:
    yield from ()
    raise refusal


class HiddenNetmod:
    """What the netmod (ofi, ucx) of one process keeps: messages to and from processes that shared memory doesn't reach.

    They lie in the network library's own memory. Whether a communicator can have such messages is known from where its
    processes are. Source: src/mpid/ch4/src/ch4_proc.c, ch4_recv.h of 4.0.3 to 5.0.1.
    """

    def __init__(self, mpi: MpichProcessContext, *, has_shared_memory: bool) -> None:
        self._mpi = mpi
        self._has_shared_memory = has_shared_memory
        self._memory = mpi.memory
        names = re.split(r"[ ,]+", mpi.release.device.partition(":")[2])
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

    def refusal(self, entry: MpichEntry, what: str, waiting: Sequence[str]) -> NoInformation | None:
        """Return why a queue of a communicator can't be called complete: the netmod may have a part of it.

        Args:
            entry: the communicator.
            what: the queue, in words.
            waiting: its requests that are the netmod's.
        """
        if not waiting and self._is_within_node(entry):
            return None
        if not self._has_shared_memory:
            remedy = OTHER_BUILD
        else:
            remedy = SAME_JOB if INVALID_RANK in entry.peers() else ON_ONE_NODE
        return NoInformation(
            f"{what} over the network can't be seen: {self.name} keeps them in its own memory{self._why}", remedy
        )

    def _is_within_node(self, entry: MpichEntry) -> bool:
        """Return whether shared memory reaches all processes of a communicator.

        MPICH makes a communicator of each node's processes within those that the program has.
        """
        if not self._has_shared_memory or INVALID_RANK in entry.peers():
            return False
        if entry.view.recvcontext_id & contexts.SUBCOMM == contexts.INTRANODE:
            return True
        world = next((view for view in self._comms().values() if view.handle == COMM_WORLD), None)
        return any(view is not None and self._is_its_node(view) for view in (entry.view, world))

    @cached_per_sweep
    def _comms(self) -> dict[int, views.Comm]:
        return {each.view.address: each.view for each in self._mpi.communicators.read()}

    def _is_its_node(self, view: views.Comm) -> bool:
        node = self._comms().get(view.node_comm or 0)
        return node is not None and not view.comm_kind and node.local_size == view.local_size
