"""What keeps a rank from running that isn't us: a signal, another debugger, or its cgroup (proc(5), ptrace(2))."""

from __future__ import annotations

import signal

from mqs_dll.contract.errors import NoSuchProcessError
from mqs_dll.debugger.cgroups import frozen_by
from mqs_dll.debugger.proc import read_status, thread_ids, turns
from mqs_dll.job.records import Halt

_BY_SIGNAL, _BY_TRACER = "T", "t"
"""States of a thread."""


def by_signal(number: int) -> Halt | None:
    """Return the halt that a signal made, None for no signal (0)."""
    return Halt(_name(number)) if number else None


def by_cgroup(pid: int) -> Halt | None:
    """Return the halt that the freezer of a process's cgroup makes, None where it doesn't."""
    frozen = frozen_by(pid)
    return Halt("", frozen=frozen) if frozen else None


def of_running(pid: int) -> Halt | None:
    """Return what keeps a process standing that we have not stopped, None for one of which a thread may run."""
    if (frozen := by_cgroup(pid)) is not None:
        return frozen
    try:
        threads = [read_status(thread) for thread in thread_ids(pid)]
        states = {thread.state for thread in threads}
        tracers = {thread.tracer for thread in threads}
        if states == {_BY_SIGNAL}:
            return Halt("")
        if states == {_BY_TRACER} and len(tracers) == 1:
            (tracer,) = tracers
            return Halt("", tracer, read_status(tracer).name)
    except NoSuchProcessError:
        pass
    return None


def turns_of(pid: int) -> dict[int, tuple[int, ...]]:
    """Return the turns of each thread of a process: equal only where none has run, or the kernel doesn't count."""
    return {thread: turns(thread) for thread in thread_ids(pid)}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
