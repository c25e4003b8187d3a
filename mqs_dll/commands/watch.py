"""``mqs watch``: its arguments, and the loop that samples at a running job again and again, without stopping it."""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from mqs_dll.commands import nodes, which_library
from mqs_dll.commands.job import which
from mqs_dll.commands.run.command import add_pace
from mqs_dll.commands.times import add_limit, number, seconds

if TYPE_CHECKING:
    from rich.console import Console

    from mqs_dll.job.records import Job, JobProcess
    from mqs_dll.report.watch_view import Screen

EXIT_SHOWN = 0
"""Also after Ctrl-C, which is how a live view is ended, and when the job has ended."""

DESCRIPTION = """\
Show a job while it runs: what is pending in each rank, what it waits for, and for how long this has not changed. mqs
stops no rank, so what it sees may not fit together; for a proof, run `mqs job`. Ctrl-C ends the view and leaves the job
alone."""

_NAP = 0.2
"""Seconds: a signal that comes right before the kernel's sleep is seen after it."""

ENDED = "The job has ended: none of its ranks runs any more."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "what",
        nargs="?",
        type=which,
        metavar="PID|PROGRAM",
        help="the PID of its launcher or of a rank, or its program's name; not needed if only one job runs",
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="TIME",
        help="time between samples, such as 500ms (default: 1s)",
    )
    parser.add_argument("--count", type=_count, metavar="N", help="end after N samples")
    stuck = parser.add_argument_group("until it is stuck (docs/run.md)")
    stuck.add_argument("--until-stuck", action="store_true", help="show nothing, and report the job when it is stuck")
    add_pace(stuck)
    add_limit(stuck)
    which_library.add_arguments(parser)
    nodes.add_arguments(parser)
    parser.set_defaults(no_queues=False)  # which only mqs job has


def _count(text: str) -> int:
    return number(text, "a number of samples")


def run(options: argparse.Namespace) -> int:
    """Show the job until Ctrl-C, until it ends, or as often as was asked for.

    Returns:
        EXIT_SHOWN; with --until-stuck the verdict's Outcome.

    Raises:
        MqsError: there is no such job, or it can't be read.
    """
    if options.until_stuck:
        from mqs_dll.commands.run import until_stuck

        return until_stuck.wait(options)
    from mqs_dll.debugger.job.ranks import ReadingOptions
    from mqs_dll.debugger.job.read import JobReader
    from mqs_dll.report import terminal
    from mqs_dll.report.progress import ranks_done

    found, ranks = nodes.find_ranks(options, ReadingOptions(stop=False, stacks=False))
    with ExitStack() as stack:
        with ranks_done() as on_progress:
            reader = JobReader(found, ranks, on_progress=on_progress)
            stack.enter_context(reader)
            first = reader.sample()
        samples = itertools.chain((first,), iter(reader.sample, None))
        watch(samples, terminal.console(), options.interval, options.count)
    return EXIT_SHOWN


def watch(samples: Iterator[Job], console: Console, interval: float, count: int | None) -> None:
    """Show one sample after the other until Ctrl-C, until the job has ended, or ``count`` of them.

    Args:
        samples: read the job when the next one is asked for; a Ctrl-C waits until it is done.
        console: a terminal, where frames replace each other, or anything else, where they follow each other.
        interval: seconds from one sample to the next.
        count: how many; None for no end.
    """
    unchanged = _Unchanged()
    ended = False
    with _screen(console) as show, _DeferredInterrupt() as interrupt, suppress(KeyboardInterrupt):
        began = time.monotonic()
        for number, job in enumerate(samples, start=1):
            show(_frame(job, unchanged.note(job, began), f"sample {number}, every {interval:g} s"))
            ended = _has_ended(job)
            if ended or number == count:
                break
            interrupt.sleep(began + interval - time.monotonic())
            began = time.monotonic()
    if ended:
        console.print(ENDED)


def _frame(job: Job, unchanged: tuple[float | None, ...], rhythm: str) -> Screen:
    from mqs_dll.report.watch_view import Screen
    from mqs_dll.verdict.conclude import conclude

    heading = f"not stopped, sampled at {datetime.now():%H:%M:%S}; {rhythm}; Ctrl-C ends it and leaves the job alone"
    return Screen(job, conclude(job), unchanged, heading)


def _has_ended(job: Job) -> bool:
    """Return whether no rank is left; nothing is known of machines that weren't reached."""
    from mqs_dll.job.records import RankState

    known = [each for each in job.processes if each.host == job.host or each.state is RankState.READ]
    return bool(known) and all(each.state is RankState.EXITED for each in known)


class _Unchanged:
    """For how long each process has been the same."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[object, float]] = {}

    def note(self, job: Job, now: float) -> tuple[float | None, ...]:
        """Take in a sample; return the seconds for each process, None at the first sample."""
        first = not self._last
        self._last = {process.identity: self._since(process, now) for process in job.processes}
        return tuple(None if first else now - self._last[process.identity][1] for process in job.processes)

    def _since(self, process: JobProcess, now: float) -> tuple[object, float]:
        face = process.state, [sample.snapshot.communicators for sample in process.samples[-1:]]
        last = self._last.get(process.identity)
        return last if last is not None and last[0] == face else (face, now)


# ---------------------------------------------------------------- terminal and signals


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[Screen], None]]:
    """Yield what shows a frame: in place on a terminal, which in the end has its former contents and the last frame."""
    if not sys.stdout.isatty() or console.is_dumb_terminal:
        yield lambda frame: _print(console, frame)
        return
    from rich.live import Live

    last: list[Screen] = []
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show(frame: Screen) -> None:
            last[:] = [frame]
            live.update(frame, refresh=True)

        yield show
    console.print(*last)


def _print(console: Console, frame: Screen) -> None:
    console.print(frame)
    console.print()
    sys.stdout.flush()


class _DeferredInterrupt:
    """Makes a Ctrl-C wait until a sample is over: within a library's callbacks it would appear as a failed read.

    A second one doesn't wait.
    """

    def __init__(self) -> None:
        self._previous: object = None
        self._asked = False
        self._sleeps = False

    def __enter__(self) -> _DeferredInterrupt:
        """Start; where Ctrl-C is ignored, it stays so."""
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            self._previous = handler
            signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the former handler back."""
        if callable(self._previous):
            signal.signal(signal.SIGINT, self._previous)

    def sleep(self, duration: float) -> None:
        """Sleep for seconds, none if they are negative.

        Raises:
            KeyboardInterrupt: there was a Ctrl-C, now or since the last sleep.
        """
        self._sleeps = True
        if self._asked:
            raise KeyboardInterrupt
        while duration > 0.0:
            time.sleep(min(duration, _NAP))
            duration -= _NAP
        self._sleeps = False

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._sleeps or self._asked:
            raise KeyboardInterrupt
        self._asked = True
