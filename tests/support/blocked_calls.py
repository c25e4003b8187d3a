"""Looks at a rank that blocks in one MPI call after another (tests/programs/arguments.c), and at their arguments."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

from mqs_dll.debugger.job.stacks import StackTracer, capture, unwind
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.records import CallStack
from mqs_dll.job.snapshot import Hidden
from tests.support.jobs import Compiler, running
from tests.support.mpis import Mpi, Transport

_SECONDS = 90.0
_SETTLED = 0.05
"""Seconds after which a rank that was let go on most often waits in its next call."""


class KnownArgument(NamedTuple):
    """One argument of one call."""

    call: str
    name: str
    true: int
    known: int | None
    evidence: str
    """Where it is known from; empty where it isn't known."""
    seconds: float
    """What following the call's stack took."""

    @property
    def is_wrong(self) -> bool:
        """Whether something was known that isn't so."""
        return self.known is not None and self.known != self.true

    @property
    def is_right(self) -> bool:
        """Whether what is so was known."""
        return self.known == self.true


def blocked_calls(compiler: Compiler, mpi: Mpi, transport: Transport) -> list[KnownArgument]:
    """Return each argument of each call, and what is known of it while rank 0 is blocked in the call."""
    found: list[KnownArgument] = []
    with running(compiler, mpi, transport, "arguments", 2) as job:
        pid = job.wait_until_ready()[0]["pid"]
        calls: list[dict[str, Any]] = json.loads((job.directory / "arguments.json").read_text())
        with LiveProcess(pid) as process:
            samples = _Samples(process)
            for number, true in enumerate(calls):
                call = true.pop("call")
                stack, seconds = samples.inside(call)
                for name, value in true.items():
                    argument = stack.argument(name)
                    evidence = argument.evidence.name if argument else ""
                    found.append(KnownArgument(call, name, value, argument and argument.value, evidence, seconds))
                (job.directory / f"go.{number}").touch()
    return found


class _Samples:
    """Looks at one process until it is where it should be."""

    def __init__(self, process: LiveProcess) -> None:
        self._process = process
        self._tracer = StackTracer(process.program, process.fetch)

    def inside(self, call: str) -> tuple[CallStack, float]:
        """Return the stack in a call, once it is there, and what following it took.

        A sample costs a stop of a process that is busy, on a machine that may be, too: most often one is enough.
        """
        deadline = time.monotonic() + _SECONDS
        while True:
            time.sleep(_SETTLED)
            stack, seconds = self._sample()
            if stack is not None and stack.call == call:
                return stack, seconds
            assert time.monotonic() < deadline, f"not in {call}: {stack}"

    def _sample(self) -> tuple[CallStack | None, float]:
        with stopped(self._process.pid) as stop:
            captured = capture(self._process, stop.registers(self._process.pid))
        begin = time.thread_time()
        stacks = unwind(captured, self._process, self._tracer)
        seconds = time.thread_time() - begin
        return None if isinstance(stacks, Hidden) else stacks[0], seconds
