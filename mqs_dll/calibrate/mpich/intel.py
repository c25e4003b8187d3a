"""Requests of Intel MPI, whose ch4 is that of 3.4: a list of receives for each communicator, and members of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from itertools import pairwise

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.layout_solver import KnownNumber, MemberRow, Place
from mqs_dll.calibrate.mpich.ch4 import EXTENDED, EXTENSION, STATES, extensions, tag_at
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver, comm_of
from mqs_dll.calibrate.mpich.requests import REQUEST, posted, unexpected
from mqs_dll.calibrate.offset_solver import Observation

MAX_NUMBER = 1 << 32
"""A larger one is an address."""

LABELS = ("posted", "eager", "synchronous")
"""Of messages that are here what they are in ch4; larger ones are sent as eager ones in several parts."""


def find_queues(solver: MpichLayoutSolver) -> None:
    """Find what a message is, when it came, and which receive was posted after another."""
    member = solver.offset(REQUEST, EXTENDED)
    came, waiting = extensions(unexpected(solver, tag_at(solver)), member), extensions(posted(solver), member)
    known = [each for each in [*came, *waiting] if each[2]["label"] in LABELS]
    solver.solve_members(
        EXTENSION, known, MemberRow("status", "how far a message is", lambda _, entry: STATES[entry["label"]])
    )
    in_order = _neighbours(sorted(came, key=lambda each: int(each[2]["tag"])))  # they go up with each of a sender
    orders = [
        _order(dump, *pair, expected)
        for dump, one, other in in_order
        for pair, expected in (((one, other), True), ((other, one), False))
    ]
    solver.solve(EXTENSION, "seq_no", orders)
    solver.solve_number(EXTENSION, "rreq.next", "the receive that was posted after it", _neighbours(waiting))


def _neighbours(extensions: Iterable[Place]) -> list[KnownNumber]:
    """Return those that follow each other on a communicator of a process, messages from one sender."""
    queues: defaultdict[Hashable, list[tuple[Dump, int]]] = defaultdict(list)
    for dump, address, entry in extensions:
        queues[dump, entry["comm"], entry.get("sender")].append((dump, address))
    return [(dump, one, other) for queue in queues.values() for (dump, one), (_, other) in pairwise(queue)]


def _order(dump: Dump, one: int, other: int, expected: bool) -> Observation:
    """Observe which of two messages from one process came first: on one communicator they can't overtake each other."""

    def seen(offset: int) -> Hashable:
        first, second = dump.word(one + offset), dump.word(other + offset)
        return first < second if max(first, second) < MAX_NUMBER else "no numbers"

    return Observation("which of two messages came first", expected, seen)


def find_asked_process(solver: MpichLayoutSolver) -> None:
    """Find which process a receive asked for: by its number in the job, whatever its rank in the communicator."""
    processes = [
        (dump, at, comm_of(dump, entry["comm"])["peers"][entry["peer"]] if entry["peer"] >= 0 else entry["peer"])
        for dump, at, entry in posted(solver)
    ]
    solver.solve_number(REQUEST, "dev.intel.process", "the number of the process that was named", processes)
