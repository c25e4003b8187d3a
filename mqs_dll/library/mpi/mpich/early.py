"""Messages for communicators that the receiving process has not made yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqs_dll.contract.abi import Operation
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.mpich.communicators import Communicators


def notes(numbers: Mapping[int, int], communicators: Communicators) -> Iterator[Operation]:
    """Yield one note on the messages that belong to no communicator of the process, none without any.

    Args:
        numbers: how many messages have come with each context id, without the bit of collectives.
        communicators: those of the process.
    """
    unknown = dict(numbers)
    if unknown:
        for entry in communicators.read():
            unknown.pop(entry.receives_in, None)
    if unknown:
        yield envelopes.note(
            f"{sum(unknown.values())} for communicators that this process has not made yet",
            "their numbers: " + ", ".join(map(str, sorted(unknown))),
        )
