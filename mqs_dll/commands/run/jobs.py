"""The jobs that a command has started, one or several: each is watched by itself, and they are read in turn.

A job that has ended before its first look costs nothing but the search that has found it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mqs_dll.commands.run.reports import Reports
from mqs_dll.commands.run.sampling import Answer, Sampled, in_own_process
from mqs_dll.commands.run.watcher import Watcher
from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.job.ending import Process, below, runs
from mqs_dll.debugger.proc import read_stat

_LONGEST_GAP = 60.0
"""Seconds between two searches at most."""
_LONGEST = 600.0
"""The same where no process has been started in between: a program may load its MPI at any time."""
_AT_ONCE = min(4, len(os.sched_getaffinity(0)))
"""Jobs that are sampled at once where a signal waits for it."""
_TICK = os.sysconf("SC_CLK_TCK")


class Job:
    """One of them."""

    def __init__(self, process: Process, watcher: Watcher) -> None:
        self.process, self.watcher = process, watcher
        """The launcher, or a rank where there is none."""
        self.is_over = False
        """Whether it isn't looked at any more."""
        self.has_said_suspected = False
        self.asked: list[str] = []
        """The signals because of which it is to be sampled."""

    @property
    def pid(self) -> int:
        """The PID of its launcher."""
        return self.process[0]


class Jobs:
    """All of them that run."""

    def __init__(self, options: argparse.Namespace, command: int, folder: Path, reports: Reports) -> None:
        """Begin; nothing is known yet.

        Args:
            options: of the command line.
            command: the PID of what was started.
            folder: for files that nobody else sees.
            reports: keeps what was read.
        """
        self._options, self._command, self._folder, self._reports = options, command, folder, reports
        self._jobs: list[Job] = []
        """Who was read last comes last."""
        self._search: int | None = None
        """The PID of the process that searches for more."""
        self._answer: Answer | None = None
        self._gap: float = options.interval
        self._last_search = time.monotonic()
        self._next_search: float = self._last_search + min(options.interval, options.after)
        self._known: set[Process] = set()
        """What ran at the last search."""
        self.seen = self.samples = self.changes = self.compared = 0
        """How many there were; and of those that have ended what Watcher has of each."""
        self.stop_time = 0.0
        self.why = ""
        """Why none was found."""
        self._were_read = self._were_elsewhere = self._were_suspected = False
        self._asked: list[str] = []
        """The signals because of which all that a search finds are to be sampled."""

    def __iter__(self) -> Iterator[Job]:
        """Iterate over those that run."""
        return iter(self._jobs)

    def __len__(self) -> int:
        """Return how many run."""
        return len(self._jobs)

    def seconds(self) -> float:
        """Return how long there is nothing to do."""
        if self._search is not None or any(each.watcher.is_reading for each in self._jobs):
            return 1.0
        left = [each.watcher.seconds() for each in self._jobs if not each.is_over]
        return max(min([*left, self._next_search - time.monotonic()]), 0.0)

    def act(self) -> None:
        """Do what is due; one job is read at a time, each in its turn, or searched for."""
        self._drop_ended()
        reading = [each for each in self._jobs if each.watcher.is_reading]
        for each in reading:
            each.watcher.act()
        if reading or self._search is not None:
            return
        if time.monotonic() >= self._next_search:
            self._begin_search()
        for each in [each for each in self._jobs if not each.is_over and self._search is None]:
            each.watcher.act()
            if each.watcher.is_reading:
                self._jobs.remove(each)
                self._jobs.append(each)
                return

    def ended(self, pid: int, status: int) -> tuple[Job, Sampled] | None:
        """Take in that a child of ours has ended; return the sample that it took of ranks that stood, if it did.

        Args:
            pid: its PID.
            status: how it ended, as waitpid has it.
        """
        if pid == self._search:
            self._search = None
            self._found()
        for job in self._jobs:
            if (sampled := job.watcher.ended(pid, status)) is not None:
                return job, sampled
        return None

    @property
    def were_read(self) -> bool:
        """Whether ranks of any have been read."""
        return self._were_read or any(each.watcher.was_read for each in self._jobs)

    @property
    def were_elsewhere(self) -> bool:
        """Whether any is known to have, or have had, ranks on other nodes."""
        return self._were_elsewhere or any(each.watcher.others.have_ranks for each in self._jobs)

    @property
    def were_suspected(self) -> bool:
        """Whether any seems to be stuck, or seemed to be when it ended."""
        return self._were_suspected or any(each.watcher.is_suspected for each in self._jobs)

    # ------------------------------------------------------------ before a signal

    def ask(self, name: str, *, search: bool) -> bool:
        """Have all jobs sampled because of a signal; return whether there is any that can be, or may be.

        Args:
            name: the signal's.
            search: whether jobs are searched for where none is known: nobody may have looked yet.
        """
        for each in self._jobs:
            if not each.is_over:
                each.asked.append(name)
        if search and not self._jobs:
            self._asked.append(name)
            if self._search is None:
                self._begin_search()
        self.sample_asked()
        return self.are_asked

    @property
    def are_asked(self) -> bool:
        """Whether samples are being taken because of a signal, or are about to be."""
        return bool(self._asked) or any(each.asked for each in self._jobs)

    def sample_asked(self) -> None:
        """Begin those samples, a few at once."""
        asked = [each for each in self._jobs if each.asked]
        asked.sort(key=lambda each: not each.watcher.is_reading)
        for each in asked[:_AT_ONCE]:
            each.watcher.sample_now()

    def give_up(self) -> None:
        """Don't begin any more of them."""
        self._asked.clear()
        for each in self._jobs:
            if not each.watcher.is_reading:
                each.asked.clear()

    def close(self) -> None:
        """Let what is being read be, and end all agents."""
        self.let_be()
        for each in self._jobs:
            each.watcher.close()

    def let_be(self) -> None:
        """Let what is being read be."""
        for each in self._jobs:
            each.watcher.let_be()
        if self._search is not None:
            with suppress(ProcessLookupError):
                os.kill(self._search, signal.SIGTERM)

    # ------------------------------------------------------------ which there are

    def _drop_ended(self) -> None:
        for each in [each for each in self._jobs if not runs(each.process)]:
            self._jobs.remove(each)
            each.watcher.close()
            shutil.rmtree(self._folder_of(each.process), ignore_errors=True)
            self.samples += each.watcher.samples
            self.stop_time += each.watcher.stop_time
            self.changes += each.watcher.changes
            self.compared += each.watcher.others.compared
            self._were_elsewhere |= each.watcher.others.have_ranks
            self._were_suspected |= each.watcher.is_suspected
            if each.watcher.was_read:  # the next one is likely to live as long
                self._were_read = True
                self._gap = self._options.interval
                self._next_search = min(self._next_search, time.monotonic() + self._gap)
                self._known.clear()

    def _begin_search(self) -> None:
        now, there = time.monotonic(), set(below([self._command]))
        self._next_search = now + self._gap
        self._gap = min(2 * self._gap, max(_LONGEST_GAP, self._options.interval))
        if self._jobs and there <= self._known and now < self._last_search + _LONGEST:
            return
        self._last_search, self._known = now, there
        answer = self._answer = Answer()
        self._search = in_own_process(lambda: _search(self._command, answer))

    def _found(self) -> None:
        try:
            found, self.why = self._answer.take() if self._answer else ([], "")
        except ValueError:
            found, self.why = [], "the process that searches for its ranks has failed"
        self.why = "" if self.seen else self.why  # they were too short to be read
        known = {each.process for each in self._jobs}
        for process in filter(runs, map(tuple, found)):
            if process not in known:
                self._add(process)
        if self._asked:
            for each in self._jobs:
                each.asked += self._asked
            self._asked.clear()
            self.sample_asked()

    def _add(self, process: Process) -> None:
        folder = self._folder_of(process)
        with suppress(OSError):  # full: nothing of it can be shown
            folder.mkdir(exist_ok=True)
        most = self._options.keep
        keep = (lambda job: self._reports.keep(process[0], job, most)) if most else None
        age = max(time.clock_gettime(time.CLOCK_BOOTTIME) - process[1] / _TICK, 0.0)
        self._jobs.append(Job(process, Watcher(self._options, process[0], folder, keep, age)))
        self.seen += 1

    def _folder_of(self, process: Process) -> Path:
        return self._folder / f"{process[0]}-{process[1]}"


def _search(command: int, answer: Answer) -> int:
    """Say which jobs a command has started, and if there is none why; return the exit code."""
    from mqs_dll.commands import nodes
    from mqs_dll.debugger.job.find import jobs_of_process

    why = ""
    try:
        pids = list(jobs_of_process(command))
    except MqsError as error:
        pids, why = [], str(error)
        if nodes.is_foreign(command):
            pids = [command]  # what its launcher has in its memory an agent may read, as that user
    stats = filter(None, map(read_stat, pids))
    answer.say(([(stat.pid, stat.started) for stat in stats], why))
    return 0
