"""``mqs run``: its arguments, and the loop that waits for signals, for children, and for when to look at the job."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from mqs_dll.commands import nodes, times, which_library
from mqs_dll.commands.run.ending import Process, end, write_cores
from mqs_dll.commands.run.everybody import Everybody
from mqs_dll.commands.run.reports import Reports, say
from mqs_dll.commands.run.sampling import Sampled, in_own_process
from mqs_dll.commands.run.started import Started, end_like
from mqs_dll.commands.run.watcher import Watcher
from mqs_dll.commands.times import add_limit, seconds
from mqs_dll.debugger import access, library_path
from mqs_dll.verdict.results import Outcome

EXIT_STUCK = 124
"""As of timeout(1): the command was ended."""
EXIT_NOT_RUNNABLE, EXIT_NOT_FOUND = 126, 127
"""As of shells."""

DESCRIPTION = """\
Start an MPI job and watch it: when it hangs for good, report who waits for whom, and end it. The command runs as if it
had been started without mqs, and until something is stuck mqs prints nothing."""

EPILOG = f"""\
exit codes: those of the command; {EXIT_STUCK} it was stuck, and was ended; {EXIT_NOT_RUNNABLE} it can't be run;
{EXIT_NOT_FOUND} there is no such command"""

SAMPLE_FIRST = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Signals that a batch system sends before the end: the job is sampled before the command gets them."""
_PATIENCE = 8.0
"""Seconds that such a sample may take."""

_END, _REPORT, _WAIT = "end", "report", "wait"
_MOST_KEPT = 1000
_GRAVITY = (Outcome.NOT_READ, Outcome.NOTHING_STUCK, Outcome.SUSPECTED, Outcome.PROVED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = "mqs run [options] [--] COMMAND [ARGUMENT...]"
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="the launcher with its arguments")
    when = parser.add_argument_group("when to look")
    when.add_argument(
        "--interval", type=seconds, default=10.0, metavar="TIME", help="time between two looks that stop nobody (10s)"
    )
    add_pace(when)
    add_limit(when)
    then = parser.add_argument_group("what to do")
    then.add_argument(
        "--on-stuck", choices=(_END, _REPORT, _WAIT), default=_END, help="when it is proved that the job is stuck: "
        "end it; report it and watch on; or report it and wait for you (default: end)",
    )  # fmt: skip
    then.add_argument("--end-suspected", action="store_true", help="end the job also for what is only suspected")
    then.add_argument(
        "--keep",
        type=lambda text: times.number(text, f"a number from 1 to {_MOST_KEPT}", most=_MOST_KEPT),
        metavar="N",
        help="read the job every --after without stopping it, and keep the last N, unless it ends well",
    )
    then.add_argument("--junit", metavar="FILE", help="write what is reported as a test of JUnit's")
    then.add_argument("--cores", action="store_true", help="write core files of the ranks before the job is ended")
    then.add_argument("--summary", action="store_true", help="at the end, say what was seen, and what it cost")
    which_library.add_arguments(parser)
    nodes.add_arguments(parser)
    parser.set_defaults(usage_error=parser.error, no_queues=False)


def add_pace(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options of Watcher and Reports to a parser: when the ranks are stopped, and where reports go."""
    parser.add_argument(
        "--after",
        type=seconds,
        default=60.0,
        metavar="TIME",
        help="stop and judge the ranks after so long without progress (1m), then at growing intervals",
    )
    parser.add_argument(
        "--suspect-after",
        type=seconds,
        default=600.0,
        metavar="TIME",
        help="report what is only suspected when it has been so for this long, without progress (10m)",
    )
    parser.add_argument("--report", type=Path, default=Path(), metavar="DIR", help="the folder for what is saved (.)")


def run(options: argparse.Namespace) -> int:
    """Start the command, watch it, and end with it.

    Returns:
        Its exit code, or one of those above.
    """
    command = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not command:
        options.usage_error("name the command: mqs run -- mpiexec -n 4 ./solver")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    with ExitStack() as stack:
        everybody = Everybody()
        stack.callback(everybody.end)
        try:
            started = Started(command, _with_preload(options.environment), mask)  # type: ignore[arg-type]
        except OSError as error:
            say(f"{command[0]} can't be run: {error.strerror}")
            return EXIT_NOT_FOUND if error.errno == errno.ENOENT else EXIT_NOT_RUNNABLE
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqs-run-")))
        reports = Reports(options.report, started.pid, options.junit)
        keep = (lambda job: reports.keep(job, options.keep)) if options.keep else None
        watcher = Watcher(options, started.pid, folder, keep)
        stack.callback(watcher.close)
        status = _Run(options, started, everybody, watcher, reports).until_end()
    return EXIT_STUCK if status is None else end_like(status)


def _with_preload(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the command's environment: ours, and where Yama wants it what lets us read the ranks."""
    if access.rules().yama != 1 or access.shown("self").may_trace_all:
        return environment
    preload = str(library_path.dll_name_library())
    return {**environment, "LD_PRELOAD": ":".join(filter(None, (preload, environment.get("LD_PRELOAD"))))}


class _Run:
    """A command that runs, and what is seen of its job."""

    def __init__(
        self, options: argparse.Namespace, started: Started, everybody: Everybody, watcher: Watcher, reports: Reports
    ) -> None:
        self._options, self._started, self._everybody, self._watcher = options, started, everybody, watcher
        self._reports = reports
        self._began = time.monotonic()
        self._waiting: list[tuple[int, float]] = []
        """Signals that the command gets when a sample is taken, or at a time at the latest."""
        self._is_over = False
        """Whether nothing is to be looked at any more."""
        self._was_stuck = Outcome.NOT_READ
        """The gravest outcome so far."""
        self._said_suspected = self._said_without = False

    def until_end(self) -> int | None:
        """Return the status of the command, None where we ended it."""
        while self._started.status is None:
            info = signal.sigtimedwait(signal.valid_signals(), self._seconds())
            at = time.monotonic()
            if info is not None and info.si_signo == signal.SIGCHLD:
                if self._reap():
                    return None
            elif info is not None:
                self._signalled(info.si_signo, at)
            self._pass_on(at)
            if not self._is_over:
                self._watcher.act()
                self._say_without_ranks(at)
        self._last_words(self._started.status)
        return self._started.status

    def _seconds(self) -> float:
        now = time.monotonic()
        times = [until - now for _, until in self._waiting]
        if not self._is_over:
            times.append(self._watcher.seconds())
        return max(min(times, default=3600.0), 0.0)

    # ------------------------------------------------------------ signals

    def _signalled(self, number: int, at: float) -> None:
        if self._everybody.got(number, at):
            return
        if number in SAMPLE_FIRST and not self._is_over and self._watcher.last.ranks:
            self._watcher.sample_now()
            self._waiting.append((number, at + _PATIENCE))
        else:
            self._started.send(number)

    def _pass_on(self, now: float) -> None:
        """Pass on the signals that have waited for long enough."""
        late = [number for number, until in self._waiting if until <= now]
        self._waiting = [each for each in self._waiting if each[1] > now]
        for number in late:
            self._started.send(number)

    # ------------------------------------------------------------ children

    def _reap(self) -> bool:
        """Take in which children have ended or stopped; return whether we ended the job."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return False
            if pid == 0:
                return False
            if pid == self._started.pid:
                if self._started.changed(status):
                    os.kill(os.getpid(), signal.SIGSTOP)
            elif (sampled := self._watcher.ended(pid)) is not None and self._sampled(sampled):
                return True

    def _sampled(self, sampled: Sampled) -> bool:
        """Act on a sample; return whether we ended the job."""
        if self._waiting:
            names = ", ".join(dict.fromkeys(signal.Signals(number).name for number, _ in self._waiting))
            if sampled.ranks:
                self._reports.add(f"{names} came", self._watcher.job)
            self._was_stuck = max(self._was_stuck, sampled.outcome, key=_GRAVITY.index)
            self._pass_on(float("inf"))
            return False
        is_due = self._watcher.note(sampled)
        self._was_stuck = max(self._was_stuck, sampled.outcome, key=_GRAVITY.index)
        if sampled.outcome is Outcome.PROVED:
            self._reports.add("the job is stuck for good", self._watcher.job)
            return self._act_on(self._options.on_stuck)
        if is_due and not self._said_suspected:
            self._said_suspected = True
            self._reports.add("the job seems to be stuck", self._watcher.job)
            return self._act_on(_END if self._options.end_suspected else _REPORT)
        return False

    def _act_on(self, how: str) -> bool:
        if how == _WAIT:
            say(f"the job goes on as it is, for you to look at: its launcher is process {self._started.pid}")
        self._is_over = how != _REPORT or self._was_stuck is Outcome.PROVED
        if how != _END:
            return False
        ranks = [(each.pid, each.started) for each in self._watcher.footprints]
        if self._options.cores:
            self._write_cores(ranks)
        say("ends the job")
        if not end(self._started.pid, ranks):
            say("some of its processes can't be ended: the kernel keeps them")
        return True

    def _write_cores(self, ranks: Sequence[Process]) -> None:
        folder = self._options.report
        say(f"writes core files of {len(ranks)} ranks")
        _, status = os.waitpid(in_own_process(lambda: int(not write_cores(ranks, folder))), 0)
        if status:
            say("not all core files could be written: that takes gcore, which comes with gdb, and room on the disk")

    # ------------------------------------------------------------ words

    def _say_without_ranks(self, now: float) -> None:
        if self._said_without or self._watcher.last.ranks or now < self._began + self._options.after:
            return
        if self._watcher.last.why:
            self._said_without = True
            say(f"sees no rank of an MPI job: {self._watcher.last.why}")

    def _last_words(self, status: int) -> None:
        if status:
            self._reports.say_kept()
        else:
            self._reports.forget()
        if status and self._was_stuck in (Outcome.PROVED, Outcome.SUSPECTED):
            words = "was" if self._was_stuck is Outcome.PROVED else "seemed to be"
            say(f"before it ended, the job {words} stuck")
        if self._options.summary:
            watcher = self._watcher
            say(
                f"{watcher.samples} samples stopped the ranks, for {1000 * watcher.stop_time:.0f} ms in all; "
                f"progress was seen {watcher.changes} times"
            )
