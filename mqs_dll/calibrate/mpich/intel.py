"""Requests of Intel MPI, whose ch4 is that of 3.4: a list of receives for each communicator, and members of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.ledger import number
from mqs_dll.calibrate.mpich.ch4 import EAGER, EXTENSION, POSTED, SYNCHRONOUS, tag_at
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.calibrate.mpich.requests import REQUEST, posted, unexpected
from mqs_dll.calibrate.solver import Sighting

LARGEST_NUMBER = 1 << 32
"""A larger one is an address."""

STATES = {"eager": EAGER, "synchronous": SYNCHRONOUS}
"""What messages of each label are; larger ones are sent as eager ones in several parts."""


def find_queues(ledger: PoolLedger) -> None:
    """Find what a message is, when it came, and which receive was posted after another."""
    extension = ledger.offset(REQUEST, "dev.ch4.am.req")
    came = sorted(
        (
            (dump, dump.word(at + extension), id(sender), entry)
            for dump, at, sender, _, entry in unexpected(ledger, tag_at(ledger))
        ),
        key=lambda each: int(each[3]["tag"]),  # tags go up with each message of a sender
    )
    states = [(dump, at, STATES[entry["label"]]) for dump, at, _, entry in came if entry["label"] in STATES]
    waiting = [(dump, dump.word(at + extension), POSTED) for dump, at, _ in posted(ledger)]
    ledger.pin_numbers(EXTENSION, "status", "how far a message is", [*states, *waiting])
    orders = [
        _order(dump, *pair, expected)
        for dump, one, other in _in_order([(dump, at, (sender, entry["comm"])) for dump, at, sender, entry in came])
        for pair, expected in (((one, other), True), ((other, one), False))
    ]
    ledger.pin(EXTENSION, "seq_no", orders)
    receives = [(dump, at, (id(dump), entry["comm"])) for dump, at, entry in posted(ledger)]
    links = [
        number(
            "the receive that was posted after it", dump, dump.word(one + extension), "Q", dump.word(other + extension)
        )
        for dump, one, other in _in_order(receives)
    ]
    ledger.pin(EXTENSION, "rreq.next", links)


def _in_order(places: Sequence[tuple[Dump, int, object]]) -> Iterator[tuple[Dump, int, int]]:
    """Yield the neighbours among places of one process that have something in common."""
    queues: dict[tuple[int, object], list[tuple[Dump, int]]] = {}
    for dump, address, common in places:
        queues.setdefault((id(dump), common), []).append((dump, address))
    for queue in queues.values():
        for (dump, one), (_, other) in pairwise(queue):
            yield dump, one, other


def _order(dump: Dump, one: int, other: int, expected: bool) -> Sighting:
    """Sight which of two messages from one process came first: those of one communicator can't overtake each other."""

    def seen(offset: int) -> Hashable:
        first, second = dump.word(one + offset), dump.word(other + offset)
        return first < second if max(first, second) < LARGEST_NUMBER else "no numbers"

    return Sighting("which of two messages came first", expected, seen)


def find_asked_process(ledger: PoolLedger) -> None:
    """Find which process a receive asked for: by its number in the job, whatever its rank in the communicator."""
    processes = [
        (dump, at, dump.truth["any_source"] if entry["peer"] == "any" else _peers(dump, entry["comm"])[entry["peer"]])
        for dump, at, entry in posted(ledger)
    ]
    what = "the number of the process that was named"
    ledger.pin_numbers(REQUEST, "dev.intel.process", what, processes)


def _peers(dump: Dump, label: str) -> list[int]:
    peers: list[int] = dump.of("comms", label=label)[0]["peers"]
    return peers
