"""Which processes are ranks: one for each place that a launcher gave away, and programs that nobody launched.

A launcher may have started a shell that runs the program, and a rank may start programs itself: all of them inherit
the variables that mark a rank, and forked helpers even its memory. They are one slot, and of the slot's processes the
rank is the one that has an MPI library mapped, the nearest to the launcher when there are several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.debugger.job.find.markers import Marker, marker_of
from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.proc import Stat

_WRAPPERS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "env", "time", "timeout", "nice", "numactl", "taskset", "strace",
})  # fmt: skip
"""What may stand between a launcher and a program that is linked with its MPI statically."""


class Slot(NamedTuple):
    """One place that a launcher gave away, or a program that uses MPI without one."""

    head: Stat
    """What the launcher started."""
    rank: Stat
    """What is the rank: ``head``, or something below it."""
    marker: Marker | None
    """None where its environment says nothing: without a launcher, or because the program has overwritten it."""
    uses_mpi: bool
    """Whether it has an MPI library mapped; a program may also be linked with one statically."""
    members: frozenset[int]
    """The PIDs of all that belongs to it."""


def find_slots(processes: Processes) -> list[Slot]:
    """Return the slots of this machine, the oldest first."""
    markers = dict(_markers(processes))
    members: dict[int, list[Stat]] = {}
    for process in processes:
        head = _head(processes, markers, process)
        if head is not None:
            members.setdefault(head, []).append(process)
    slots = (_slot(processes, markers.get(head), head, group) for head, group in members.items())
    return sorted((slot for slot in slots if slot is not None), key=lambda slot: (slot.head.started, slot.head.pid))


def _markers(processes: Processes) -> Iterator[tuple[int, Marker]]:
    for process in processes:
        environment = processes.environment(process.pid)
        if environment and not processes.starts_ranks(process.pid):
            above = next((each.pid for each in processes.ancestors(process.pid) if processes.starts_ranks(each.pid)), 0)
            marker = marker_of(environment, processes.environment(above) if above else {})
            if marker is not None:
                yield process.pid, marker


def _head(processes: Processes, markers: dict[int, Marker], process: Stat) -> int | None:
    """Return the PID of the head of the slot that a process belongs to, None when it belongs to none."""
    if processes.starts_ranks(process.pid):
        return None
    marker = markers.get(process.pid)
    if marker is None and processes.mpi_library(process.pid) is None:
        return None
    head = process.pid
    for ancestor in processes.ancestors(process.pid):
        if processes.starts_ranks(ancestor.pid):
            break
        above = markers.get(ancestor.pid)
        if marker is None and above is not None:  # the program has overwritten its environment
            marker, head = above, ancestor.pid
        elif marker is not None:
            if above != marker:
                break
            head = ancestor.pid
        elif processes.mpi_library(ancestor.pid) is not None:
            head = ancestor.pid
    return head


def _slot(processes: Processes, marker: Marker | None, head: int, members: list[Stat]) -> Slot | None:
    top = processes.get(head)
    assert top is not None
    using = [process for process in members if processes.mpi_library(process.pid) is not None]
    pids = frozenset(process.pid for process in members)
    is_started = any(processes.starts_ranks(each.pid) for each in _up(processes, top))
    if using and marker is not None and not is_started and _is_left_behind(processes, top):
        return None
    if using:
        nearest = min(using, key=lambda each: (len(list(processes.ancestors(each.pid))), each.started, each.pid))
        return Slot(top, nearest, marker, True, pids)
    if marker is None or not marker.sure or not is_started:
        return None  # a helper that has outlived its rank, or a user's shell in a batch job
    return Slot(top, _behind_wrappers(processes, top), marker, False, pids)


def _is_left_behind(processes: Processes, process: Stat) -> bool:
    """Return whether a process belongs to a process group whose leader has ended, and so was forked by that.

    Each rank leads a group of its own: hydra, ORTE and PRRTE see to that.
    """
    leader = processes.get(process.group)
    return process.group not in (0, process.pid) and (leader is None or leader.gone)


def _up(processes: Processes, process: Stat) -> list[Stat]:
    return list(processes.ancestors(process.pid))[:1]


def _behind_wrappers(processes: Processes, process: Stat) -> Stat:
    while process.name in _WRAPPERS:
        below = [child for child in processes.children(process.pid) if not child.gone]
        if not below:
            break
        process = below[0]
    return process
