"""Watches a job beside its command: compares what its queues are kept in, and has it sampled when nothing changes."""

from __future__ import annotations

import argparse
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path

from mqs_dll.commands.run.other_nodes import OtherNodes
from mqs_dll.commands.run.pace import Act, Pace
from mqs_dll.commands.run.sampling import Sampled, Sampling
from mqs_dll.debugger.job.footprint import Footprint, Watched
from mqs_dll.verdict.results import Outcome

PATIENCE = 300.0
"""Seconds that a sample may take with all that follows the stop."""

NOTHING_READ = Sampled(Outcome.NOT_READ, 0, (), 0.0, "")


class Watcher:
    """What is known of the job that a process belongs to."""

    def __init__(
        self,
        options: argparse.Namespace,
        what: int,
        folder: Path,
        keep: Callable[[Path], None] | None = None,
        age: float = 0.0,
    ) -> None:
        """Begin; nothing is read yet.

        Args:
            options: of the command.
            what: the PID of the launcher, or of a rank.
            folder: for files that nobody else sees.
            keep: is given each job that was read without stopping it, saved; one is read every ``after``, then.
            age: seconds for which it has run.
        """
        self._options, self._what, self._folder, self._keep = options, what, folder, keep
        every = options.after if keep else math.inf
        self._pace = Pace(time.monotonic() - age, options.interval, options.after, options.suspect_after, every)
        self._watched = Watched()
        self.others = OtherNodes(options, what)
        self._sampling: Sampling | None = None
        self._until = 0.0
        """When that is taken to hang."""
        self.last = NOTHING_READ
        """The last sample or look."""
        self.was_read = False
        """Whether ranks have been seen at any time."""
        self.footprints: tuple[Footprint, ...] = ()
        """The ranks of this machine that were read last."""
        self.samples = 0
        """How many have stopped the ranks."""
        self.stop_time = 0.0
        """Seconds for which the ranks stood in one of these at most, added up."""
        self.changes = 0
        """How many looks have shown progress."""

    @property
    def job(self) -> Path:
        """Where the job as it was sampled last is saved."""
        return self._folder / "job.json.gz"

    @property
    def is_reading(self) -> bool:
        """Whether the ranks are being read, by a process of ours."""
        return self._sampling is not None

    @property
    def is_suspected(self) -> bool:
        """Whether the job seemed to be stuck in its last sample, and nothing has progressed since."""
        return self._pace.is_suspected

    def seconds(self) -> float:
        """Return how long there is nothing to do."""
        if self._sampling is not None:
            return 1.0
        return max(self._pace.next()[0] - time.monotonic(), 0.0)

    def act(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if self.others.progressed(now):
            self._pace.progressed(now)
        when, act = self._pace.next()
        if self._sampling is not None and now > self._until:
            self._sampling.end(signal.SIGKILL)  # it hangs, in a file system that doesn't answer perhaps
        if self._sampling is not None or now < when:
            return
        if act is Act.COMPARE:
            changed = self._watched.changed()
            left = len(self._watched) > 0 or not self.footprints
            self._pace.compared(now, changed=changed, left=left)
        else:
            self._begin(stop=act is Act.SAMPLE, patient=True)

    def sample_now(self) -> None:
        """Begin a sample that stops the ranks, unless one is being taken."""
        if self._sampling is not None and not self._sampling.stop:
            self._sampling.leave()
            self._sampling = None
        if self._sampling is None:
            self._begin(stop=True, patient=False)

    def ended(self, pid: int, status: int) -> Sampled | None:
        """Take in that a child of ours has ended; return the sample that it took of ranks that stood, if it did.

        Args:
            pid: its PID.
            status: how it ended, as waitpid has it.
        """
        sampling = self._sampling
        if self.others.ended(pid) or sampling is None or sampling.pid != pid:
            return None
        self._sampling = None
        sampled, now = sampling.result(status), time.monotonic()
        self.others.have_ranks |= sampled.elsewhere
        found, was_read = sampled.ranks > 0, self.was_read
        same = self._watched.looked(sampled.queues, sampled.footprints, found=found)
        if not same:
            self.footprints = sampled.footprints
        self.was_read, self.last = was_read or found, sampled
        if sampling.stop:
            self.samples += 1
            self.stop_time += sampled.stop_time
            return sampled
        if self._keep and found:
            self._keep(sampling.job)
        self.changes += found and was_read and not same
        self._pace.looked(now, found=found, same=same)
        return None

    def note(self, sampled: Sampled) -> bool:
        """Note a sample that was due; return whether what it suspects is to be reported now."""
        if not sampled.ranks:
            self._pace.looked(time.monotonic(), found=False, same=False)
            return False
        return self._pace.sampled(time.monotonic(), sampled.outcome)

    def note_asked(self, sampled: Sampled) -> None:
        """Note a sample that somebody has asked for: the next one that is due comes when it would have."""
        if sampled.ranks:
            self._pace.noted(time.monotonic(), sampled.outcome)

    def close(self) -> None:
        """Let a sample that is being taken end, and all agents."""
        self.others.close()
        self.let_be()

    def let_be(self) -> None:
        """Let a sample that is being taken end."""
        if self._sampling is not None:
            self._sampling.end()

    def _begin(self, *, stop: bool, patient: bool) -> None:
        self._until = time.monotonic() + PATIENCE
        self._sampling = Sampling(self._options, self._what, self._folder, stop=stop, patient=patient)
