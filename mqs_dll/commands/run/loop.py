"""The loop of `mqs run`, which waits for signals, for children, and for the time to look at the jobs."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from mqs_dll.commands.run.command import END, EXIT_NOT_FOUND, EXIT_NOT_RUNNABLE, EXIT_STUCK, REPORT, WAIT
from mqs_dll.commands.run.everybody import Everybody
from mqs_dll.commands.run.jobs import Job, Jobs
from mqs_dll.commands.run.reports import STUCK, Reports, say
from mqs_dll.commands.run.sampling import Sampled, in_own_process
from mqs_dll.commands.run.started import Started, end_like
from mqs_dll.debugger import access, library_path
from mqs_dll.debugger.job.ending import Process, end, write_cores
from mqs_dll.verdict.results import Outcome

SAMPLE_FIRST = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGURG)
"""Signals that a batch system sends before the end: the job is sampled before the command gets them.

Programs ignore SIGURG, the warning in LSF's manual (bsub -wa): who wants a sample alone sends that.
"""
_PATIENCE: Mapping[int, float] = {signal.SIGTERM: 8.0, signal.SIGINT: 8.0}
"""Seconds that such a sample may take: SIGKILL comes soon after these (GitHub's after 10, Slurm's after 30)."""
_LONGER_PATIENCE = 30.0
"""After the others, which come minutes before the end; to start agents on nodes by srun may take seconds."""
_NOWHERE = Path("/proc/mqs")
"""A folder that isn't there, and that nobody can make."""


def run(command: list[str], options: argparse.Namespace) -> int:
    """Start a command, watch it, and end with it; return its exit code, or one of command.py's."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqs-run-")))
        except OSError:  # what hangs is ended nevertheless
            folder = _NOWHERE
        everybody = Everybody()
        stack.callback(everybody.end)
        try:
            started = Started(command, _with_preload(options.environment), mask)  # type: ignore[arg-type]
        except OSError as error:
            say(f"{command[0]} can't be run: {error.strerror}")
            return EXIT_NOT_FOUND if error.errno == errno.ENOENT else EXIT_NOT_RUNNABLE
        reports = Reports(options.report, options.junit)
        jobs = Jobs(options, started.pid, folder, reports)
        stack.callback(jobs.close)
        status = _Run(options, started, everybody, jobs, reports).until_end()
    return EXIT_STUCK if status is None else end_like(status)


def _with_preload(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the command's environment: ours, and where Yama wants it what lets us read the ranks."""
    if access.rules().yama != 1 or access.shown("self").may_trace_all:
        return environment
    return {**environment, "LD_PRELOAD": library_path.preloaded(environment.get("LD_PRELOAD", ""))}


class _Run:
    """A command that runs, and what is seen of its jobs."""

    def __init__(
        self, options: argparse.Namespace, started: Started, everybody: Everybody, jobs: Jobs, reports: Reports
    ) -> None:
        self._options, self._started, self._everybody, self._jobs = options, started, everybody, jobs
        self._reports = reports
        self._began = time.monotonic()
        self._waiting: list[tuple[int, float]] = []
        """Signals that the command gets when samples are taken, or at a time at the latest."""
        self._unshown: list[tuple[str, int]] = []
        """Reports that are saved: why, and the PID of the launcher."""
        self._was_stuck = self._seemed_stuck = False
        """Whether a job was proved to be; whether one was suspected to be, at any time."""
        self._said_without = False

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
            self._jobs.act()
            self._pass_on()
            self._say_without_ranks(at)
        self._show_all()
        self._last_words(self._started.status)
        return self._started.status

    def _seconds(self) -> float:
        now = time.monotonic()
        return max(min([self._jobs.seconds(), *(until - now for _, until in self._waiting)]), 0.0)

    # ------------------------------------------------------------ signals

    def _signalled(self, number: int, at: float) -> None:
        if self._everybody.got(number, at):
            return
        if number in SAMPLE_FIRST and self._jobs.ask(signal.Signals(number).name, search=not self._said_without):
            self._waiting.append((number, at + _PATIENCE.get(number, _LONGER_PATIENCE)))
        else:
            self._started.send(number)

    def _pass_on(self) -> None:
        """Pass on the signals that have waited for all reports, or for long enough; what is saved by then counts."""
        while self._unshown and not self._jobs.are_asked and not self._late():
            self._reports.show(*self._unshown.pop(0))
        is_done = not self._unshown and not self._jobs.are_asked
        for each in list(self._waiting) if is_done else self._late():
            self._waiting.remove(each)
            if self._jobs.are_asked:
                say(f"passes {signal.Signals(each[0]).name} on before all ranks are read: that takes too long")
            self._started.send(each[0])
        if not self._waiting:
            self._jobs.give_up()
            self._show_all()

    def _late(self) -> list[tuple[int, float]]:
        return [each for each in self._waiting if each[1] <= time.monotonic()]

    def _show_all(self) -> None:
        while self._unshown:
            self._reports.show(*self._unshown.pop(0))

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
            elif (ended := self._jobs.ended(pid, status)) is not None and self._sampled(*ended):
                return True

    def _sampled(self, job: Job, sampled: Sampled) -> bool:
        """Act on a sample of a job; return whether we ended the command."""
        self._was_stuck |= sampled.outcome is Outcome.PROVED
        self._seemed_stuck |= sampled.outcome is Outcome.SUSPECTED
        if job.asked:
            job.watcher.note_asked(sampled)
            names = ", ".join(dict.fromkeys(job.asked))
            job.asked.clear()
            self._jobs.sample_asked()
            if sampled.ranks:
                self._reports.save(job.pid, job.watcher.job)
                self._unshown.append((f"{names} came", job.pid))
            return False
        is_due = job.watcher.note(sampled)
        if sampled.outcome is Outcome.PROVED:
            self._reports.add(STUCK[Outcome.PROVED], job.pid, job.watcher.job)
            job.is_over = True
            return self._act_on(job, self._options.on_stuck)
        if is_due and not job.has_said_suspected:
            job.has_said_suspected = True
            self._reports.add(STUCK[Outcome.SUSPECTED], job.pid, job.watcher.job)
            return self._act_on(job, END if self._options.end_suspected else REPORT)
        return False

    def _act_on(self, job: Job, how: str) -> bool:
        if how == WAIT:
            say(f"the job goes on as it is, for you to look at: its launcher is process {job.pid}")
        if how != END:
            return False
        if self._options.cores:
            self._write_cores(job)
        say(f"ends all {len(self._jobs)} jobs" if len(self._jobs) > 1 else "ends the job")
        self._jobs.let_be()
        others = [each.watcher.others for each in self._jobs]
        for each in others:
            each.mark()
        if not end(self._started.pid, [rank for each in self._jobs for rank in _ranks(each)]):
            say("some of its processes can't be ended: the kernel keeps them")
        if [each for each in others if not each.are_ended()]:
            say("what the launcher may have left on other nodes can't be ended from here: not all of them answer")
        return True

    def _write_cores(self, job: Job) -> None:
        folder, ranks = self._options.report, _ranks(job)
        say(f"writes core files of {len(ranks)} ranks")
        _, status = os.waitpid(in_own_process(lambda: int(not write_cores(ranks, folder))), 0)
        if status:
            say("not all core files could be written: that takes gcore, which comes with gdb, and room on the disk")

    # ------------------------------------------------------------ words

    def _say_without_ranks(self, now: float) -> None:
        if self._said_without or self._jobs.were_read or now < self._began + self._options.after:
            return
        why = next((each.watcher.last.why for each in self._jobs), self._jobs.why)
        if why:
            self._said_without = True
            say(f"sees no rank of an MPI job: {why}")

    def _last_words(self, status: int) -> None:
        if status:
            self._reports.say_kept()
        else:
            self._reports.forget()
        if status and (self._was_stuck or self._jobs.were_suspected):
            words = "was" if self._was_stuck else "seemed to be"
            say(f"before it ended, the job {words} stuck")
        elif status and self._seemed_stuck:
            say("the job seemed to be stuck for a while, and went on before it ended")
        if self._options.summary:
            self._say_summary()

    def _say_summary(self) -> None:
        jobs, running = self._jobs, [each.watcher for each in self._jobs]
        samples = jobs.samples + sum(each.samples for each in running)
        stop_time = jobs.stop_time + sum(each.stop_time for each in running)
        changes = jobs.changes + sum(each.changes for each in running)
        compared = jobs.compared + sum(each.others.compared for each in running)
        say(
            f"{f'of {jobs.seen} jobs, ' * (jobs.seen > 1)}{samples} samples stopped the ranks, for "
            f"{1000 * stop_time:.0f} ms in all; progress was seen {changes} times"
            f"{f'; ranks on other nodes were compared {compared} times' if jobs.were_elsewhere else ''}"
        )


def _ranks(job: Job) -> list[Process]:
    return [(each.pid, each.started) for each in job.watcher.footprints]
