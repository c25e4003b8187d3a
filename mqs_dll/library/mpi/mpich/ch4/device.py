"""The device ch4: ties its rooms together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from mqs_dll.contract.abi import Operation
from mqs_dll.contract.errors import MqsError, NoInformation, TargetReadError, TooMuchError
from mqs_dll.library.memory import remembered
from mqs_dll.library.mpi.mpich.ch4 import variables
from mqs_dll.library.mpi.mpich.ch4.alone import Alone
from mqs_dll.library.mpi.mpich.ch4.arrivals import Arrivals
from mqs_dll.library.mpi.mpich.ch4.network import Network
from mqs_dll.library.mpi.mpich.ch4.receives import Receives
from mqs_dll.library.mpi.mpich.ch4.sends import Sends
from mqs_dll.library.mpi.mpich.ch4.traffic import Traffic
from mqs_dll.library.mpi.mpich.communicators import Entry
from mqs_dll.library.mpi.mpich.device import Device
from mqs_dll.library.mpi.mpich.partitioned import Partitioned
from mqs_dll.library.mpi.mpich.parts import Parts
from mqs_dll.library.mpi.mpich.requests import Kind

if TYPE_CHECKING:
    from mqs_dll.library.mpi.mpich.ch4.netmod import Netmod


class Ch4(Device):
    """The device ch4 in one process."""

    def __init__(self, parts: Parts) -> None:
        self._traffic = Traffic(parts)
        shared = self._traffic.has_shared_memory
        super().__init__(
            parts, f"{parts.release.device or 'ch4'} ({'shared memory' if shared else 'no shared memory'})"
        )
        self._network = Network(parts, has_shared_memory=shared)
        self._alone = Alone(parts, self._traffic)
        self._partitioned = Partitioned(parts)
        self._receives = Receives(parts, self._traffic)
        self._arrivals = Arrivals(parts, self._traffic)
        self._sends = Sends(parts, self._traffic) if shared else None
        self._netmod: Netmod | None = None
        self._has_looked = False
        self._find_way()

    def _find_way(self) -> None:
        """Search for the netmod's memory where it is needed: it takes long, and the process may still run."""
        with suppress(MqsError):
            whole = (entry for entry in self._parts.communicators.read() if not entry.is_alone)
            if any(self._network.refusal(entry, "queues", ()) for entry in whole) and (netmod := self._find_netmod()):
                netmod.find_way()

    def receives(self, entry: Entry) -> Iterator[Operation]:
        """Return the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            NoInformation: at once or after them, the netmod may have others.
            BrokenStructureError: after them, their order isn't sure.
        """
        own = self._partitioned.receives(self._traffic.of(entry.view.address).partitioned, entry)
        if entry.is_alone:
            return chain(own, self._alone.receives(entry))
        of_network = self._of_network(entry, Kind.RECV)
        refusal = self._network.refusal(entry, "receives", of_network)
        if refusal is not None and (netmod := self._find_netmod()):
            return netmod.receives(entry, chain(own, self._receives.operations(entry)))
        walk = chain(self._receives.operations(entry), own, self._network.receives(of_network))
        return _up_to(refusal, walk)

    def sends(self, entry: Entry) -> Iterator[Operation]:
        """Return the sends of a communicator, by destination and then in the order of sending.

        Raises:
            NoInformation: at once or after them, the netmod may have others.
        """
        own = chain(
            self._partitioned.sends(self._traffic.of(entry.view.address).partitioned, entry),
            self._traffic.started.done_at_once(entry.view.address, entry.peers()),
        )
        if entry.is_alone:
            return chain(own, self._alone.sends(entry))
        of_network = self._of_network(entry, Kind.SEND)
        shared = () if self._sends is None else self._sends.operations(entry)
        refusal = self._network.refusal(entry, "sends", of_network)
        if refusal is not None and (netmod := self._find_netmod()):
            return chain(shared, own, netmod.sends(entry))
        return _up_to(refusal, chain(shared, own))

    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Return the messages of a communicator in the order in which they came, which is that of matching.

        Raises:
            NoInformation: at once or after them, the netmod may have others.
            BrokenStructureError: after them, their order isn't sure.
        """
        if entry.is_alone:
            return self._alone.unexpected(entry)
        refusal = self._network.refusal(entry, "unexpected messages", ())
        if refusal is not None and (netmod := self._find_netmod()):
            return chain(self._arrivals.operations(entry), netmod.unexpected(entry))
        return _up_to(refusal, self._arrivals.operations(entry))

    def is_idle(self, entry: Entry) -> bool:
        """Tell whether no request refers to a communicator, and no message at all waits for a receive."""
        return self._netmod is None and not self.requests_of(entry) and not self._traffic.arrived()

    def datatypes_in_use(self) -> list[int]:
        """Return the handle of the datatype of each send and receive that tells one."""
        found = self._receives.datatypes()
        for entry in self._parts.communicators.read():
            found += self._partitioned.datatypes(self._traffic.of(entry.view.address).partitioned)
            if entry.is_alone:
                found += self._alone.datatypes(entry)
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

    @remembered
    def _search(self) -> MqsError | None:
        """Set the netmod, where it is found; return why it can't be read, for good or for as long as memory can't be.

        Raises:
            TooMuchError: the call may search no further; another one will.
        """
        from mqs_dll.library.mpi.mpich.ch4 import interfaces, ofi, ucx

        netmods: list[tuple[Callable[[Parts], list[Any]], Callable[..., Netmod]]]
        netmods = [(ucx.find, ucx.Ucx), (interfaces.find, ofi.Ofi)]
        if variables.is_known(self._parts, interfaces.INTERFACE):
            netmods.reverse()  # a search that finds nothing takes longest
        try:
            for find, netmod in netmods:
                if found := find(self._parts):
                    made, fabric = netmod(self._parts, self._traffic, found), found[0].fabric
                    if fabric is not None and self.fabric is None:
                        self.name += f" over {fabric.title}"
                    self.fabric, self._netmod = fabric, made
                    break
        except TooMuchError:
            raise
        except MqsError as error:
            return error
        return None

    def _of_network(self, entry: Entry, kind: Kind) -> list[str]:
        """Return the handles, in words, of the netmod's sends or receives that are not done."""
        requests = [each for each in self._traffic.of(entry.view.address).others if each.cc]
        return [self._traffic.started.text(each) for each in requests if self._parts.requests.kind(each) is kind]


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
