"""Messages that have come and that no receive has matched.

MPICH makes parts of a communicator (of a node's processes, of one side of an inter-communicator) for collective
operations, some of them only when a process enters its first one. Messages of others that have entered it are shown on
the whole then. Source: src/mpid/ch4/src/mpidig_pt2pt_callbacks.c of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from mqs_dll.contract.abi import INVALID_RANK, Operation, Status
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.mpich import contexts, operations, tags
from mqs_dll.library.mpi.mpich.ch4.traffic import Ch4Traffic
from mqs_dll.library.mpi.mpich.ch4.unexpected import Arrived
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import AM_BUSY, AM_PEER_SSEND, AM_RENDEZVOUS


class Arrivals:
    """The unexpected messages of one process."""

    def __init__(self, mpi: MpichProcessContext, traffic: Ch4Traffic) -> None:
        self._mpi = mpi
        self._traffic = traffic
        self._memory = mpi.memory

    def operations(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came, which is that of matching.

        A note on MPI_COMM_WORLD counts messages for communicators that this process hasn't made yet.

        Raises:
            BrokenStructureError: after them, when some may be missing, or their order isn't sure.
        """
        arrived = self._traffic.arrived()
        if mine := arrived.get(entry.receives_in):
            peers = entry.peers()
            for message in mine:
                rank = message.source
                yield _operation(message, rank, world_rank(peers, rank))
        known = self._known()
        for context_id in contexts.parts_of(entry.receives_in):
            if context_id not in known:
                for message in arrived.get(context_id, ()):
                    yield _operation(message, INVALID_RANK, INVALID_RANK)
        if entry.view.handle == COMM_WORLD:
            unknown = {
                number: len(messages) for number, messages in arrived.items() if contexts.whole_of(number) not in known
            }
            yield from operations.early_notes(unknown, self._mpi.communicators)
        self._traffic.check_arrivals()

    def are_for(self, entry: MpichEntry) -> bool:
        """Return whether there are any for a communicator, or for one of the parts that it may have."""
        arrived = self._traffic.arrived()
        return any(number in arrived for number in (entry.receives_in, *contexts.parts_of(entry.receives_in)))

    @cached_per_sweep
    def _known(self) -> set[int]:
        return {entry.receives_in for entry in self._mpi.communicators.read()}


def _operation(message: Arrived, rank: int, world: int) -> Operation:
    """Return a message; its sender's rank is that of a part where it isn't known here."""
    source, tag, context_id, length, buffer, state = message
    text = _text(
        state & (AM_BUSY | AM_RENDEZVOUS | AM_PEER_SSEND),
        length if state & AM_RENDEZVOUS else 0,
        None if rank == source else source,
        tag if contexts.is_collective(context_id) else None,
    )
    here = not state & (AM_BUSY | AM_RENDEZVOUS)
    status = Status.COMPLETE if here else Status.PENDING
    return envelopes.message_with(text, status, rank, world, tag, length, buffer if here and length else 0)


@lru_cache(maxsize=64)
def _text(state: int, length: int, part_rank: int | None, collective: int | None) -> tuple[bytes, ...]:
    """Return the text of a message, which is that of most others."""
    if state & AM_RENDEZVOUS:
        how = f"rendezvous: its {length} bytes are with the sender"
    else:
        how = "eager: a part of it is here" if state & AM_BUSY else "eager: all of it is here"
    return envelopes.lines(
        how,
        None if part_rank is None else f"from rank {part_rank} of a part; its rank here is not known",
        operations.FROM_SYNCHRONOUS_SEND if state & AM_PEER_SSEND else None,
        None if collective is None else tags.label(collective),
    )
