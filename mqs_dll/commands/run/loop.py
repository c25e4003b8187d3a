"""The loop of `mqs run`, which waits for signals, for children, and for the time to look at the job."""

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

from mqs_dll.commands.run.command import END, EXIT_NOT_FOUND, EXIT_NOT_RUNNABLE, EXIT_STUCK, REPORT, WAIT
from mqs_dll.commands.run.everybody import Everybody
from mqs_dll.commands.run.reports import STUCK, Reports, say
from mqs_dll.commands.run.sampling import Sampled, in_own_process
from mqs_dll.commands.run.started import Started, end_like
from mqs_dll.commands.run.watcher import Watcher
from mqs_dll.debugger import access, library_path
from mqs_dll.debugger.job.ending import Process, end, write_cores
from mqs_dll.verdict.results import Outcome

SAMPLE_FIRST = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Signals that a batch system sends before the end: the job is sampled before the command gets them."""
_PATIENCE = 8.0
"""Seconds that such a sample may take."""
_GRAVITY = (Outcome.NOT_READ, Outcome.NOTHING_STUCK, Outcome.SUSPECTED, Outcome.PROVED)


def run(command: list[str], options: argparse.Namespace) -> int:
    """Start a command, watch it, and end with it; return its exit code, or one of command.py's."""
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
    return {**environment, "LD_PRELOAD": library_path.preloaded(environment.get("LD_PRELOAD", ""))}


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
        self._was_stuck = max(self._was_stuck, sampled.outcome, key=_GRAVITY.index)
        if self._waiting:
            names = ", ".join(dict.fromkeys(signal.Signals(number).name for number, _ in self._waiting))
            if sampled.ranks:
                self._reports.add(f"{names} came", self._watcher.job)
            self._pass_on(float("inf"))
            return False
        is_due = self._watcher.note(sampled)
        if sampled.outcome is Outcome.PROVED:
            self._reports.add(STUCK[Outcome.PROVED], self._watcher.job)
            return self._act_on(self._options.on_stuck)
        if is_due and not self._said_suspected:
            self._said_suspected = True
            self._reports.add(STUCK[Outcome.SUSPECTED], self._watcher.job)
            return self._act_on(END if self._options.end_suspected else REPORT)
        return False

    def _act_on(self, how: str) -> bool:
        if how == WAIT:
            say(f"the job goes on as it is, for you to look at: its launcher is process {self._started.pid}")
        self._is_over = how != REPORT or self._was_stuck is Outcome.PROVED
        if how != END:
            return False
        ranks = [(each.pid, each.started) for each in self._watcher.footprints]
        if self._options.cores:
            self._write_cores(ranks)
        say("ends the job")
        self._watcher.others.mark()
        if not end(self._started.pid, ranks):
            say("some of its processes can't be ended: the kernel keeps them")
        if not self._watcher.others.are_ended():
            say("what the launcher may have left on other nodes can't be ended from here: not all of them answer")
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
            there = f"; ranks on other nodes were compared {watcher.others.compared} times"
            say(
                f"{watcher.samples} samples stopped the ranks, for {1000 * watcher.stop_time:.0f} ms in all; "
                f"progress was seen {watcher.changes} times{there if watcher.others.have_ranks else ''}"
            )
