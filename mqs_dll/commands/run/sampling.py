"""One sample of the job, taken by a process of its own: what it takes of memory is gone with it, and what fails in it.

It is in a session of its own: what the terminal sends to the command doesn't reach it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.job.footprint import BETWEEN_LIVE, LIVE_SAMPLES, Footprint, digest_of
from mqs_dll.debugger.stopping.limit import EXIT_LIMIT, Limit
from mqs_dll.verdict.results import Outcome

if TYPE_CHECKING:
    from mqs_dll.job.records import Job

SAMPLES, _BETWEEN = 2, 0.5
"""At least, and seconds between two, where they stop the ranks."""

_PR_SET_PDEATHSIG = 1
_FAILED = 70
_STEP = 0.01
"""Seconds."""


class Sampled(NamedTuple):
    """What a sample says."""

    outcome: Outcome
    ranks: int
    """How many there are, read or not: one may wait for ever in MPI_Init for another that never gets there."""
    footprints: tuple[Footprint, ...]
    stop_time: float
    """Seconds for which the ranks stood at most."""
    queues: str
    """What stands for the queues of all ranks: equal where these are."""
    why: str = ""
    """Why nothing was read."""
    elsewhere: bool = False
    """Whether there are ranks on other nodes."""


class Answer:
    """What a process of its own leaves for us: in memory, as the folder for temporary files may be full."""

    def __init__(self) -> None:
        """Begin, before that process is started."""
        self._file = os.memfd_create("mqs-answer")

    def say(self, what: object) -> None:
        """Leave something, in terms of JSON."""
        with open(self._file, "w", closefd=False) as file:
            json.dump(what, file)

    def take(self) -> Any:
        """Return what was left, once, when that process has ended.

        Raises:
            ValueError: nothing was, or not all of it.
        """
        with open(self._file, closefd=False) as file:
            file.seek(0)
            text = file.read()
        self.close()
        return json.loads(text)

    def close(self) -> None:
        """Have nothing to do with it any more."""
        os.close(self._file)


class Sampling:
    """A sample that is being taken."""

    def __init__(self, options: argparse.Namespace, what: int, folder: Path, *, stop: bool, patient: bool) -> None:
        """Begin.

        Args:
            options: of which_library and nodes.
            what: a process of the job.
            folder: where the sample is left.
            stop: whether the ranks are stopped, and the job judged.
            patient: whether it may take some more seconds to see whether a call lasts.
        """
        self.stop = stop
        self._patient = patient
        self.job = folder / ("job.json.gz" if stop else "look.json.gz")
        """Where the job is saved, if anything of it was read."""
        self.job.unlink(missing_ok=True)
        self._answer = Answer()
        self.pid = in_own_process(lambda: self._take(options, what))

    def result(self, status: int) -> Sampled:
        """Return what it said, once its process has ended, as waitpid's status has it."""
        try:
            said: dict[str, Any] = self._answer.take()
        except ValueError:
            return Sampled(Outcome.NOT_READ, 0, (), 0.0, "", _how_it_failed(os.waitstatus_to_exitcode(status)))
        footprints = tuple(
            Footprint(pid, started, tuple(map(tuple, places))) for pid, started, places in said["footprints"]
        )
        return Sampled(**{**said, "outcome": Outcome(said["outcome"]), "footprints": footprints})

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal; what holds the ranks lets them go on, also after SIGKILL."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def leave(self) -> None:
        """End it, and don't ask for its result."""
        self.end()
        self._answer.close()

    def _take(self, options: argparse.Namespace, what: int) -> int:
        from mqs_dll.job import saved
        from mqs_dll.job.records import RankState

        job: Job | None = None
        footprints, outcome, why, elsewhere = list[Footprint](), Outcome.NOT_READ, "", False
        try:
            job, footprints, outcome, elsewhere = _read(options, what, stop=self.stop, patient=self._patient)
            saved.save(job, str(self.job))
        except MqsError as error:
            why = str(error)
        said = {
            "outcome": int(outcome),
            "ranks": sum(each.state is not RankState.EXITED for each in job.processes) if job else 0,
            "footprints": [(each.pid, each.started, each.places) for each in footprints],
            "stop_time": job.stop_time if job else 0.0,
            "queues": digest_of(each for each in job.processes if each.host == job.host) if job else "",
            "why": why,
            "elsewhere": elsewhere,
        }
        self._answer.say(said)
        return 0


def _how_it_failed(code: int) -> str:
    """Return why a process that samples has said nothing, by its exit code, or the signal that ended it, negated."""
    if code == EXIT_LIMIT:
        return "to read them took longer than --limit allows; they go on"
    if code < 0:
        return f"the process that reads the ranks was ended by {signal.Signals(-code).name}"
    return "the process that reads the ranks has failed; with MQS_DEBUG=1 it says why"


def _read(
    options: argparse.Namespace, what: int, *, stop: bool, patient: bool
) -> tuple[Job, list[Footprint], Outcome, bool]:
    from mqs_dll.commands import nodes
    from mqs_dll.commands.job import doubt_about
    from mqs_dll.debugger.job.ranks import ReadingOptions
    from mqs_dll.debugger.job.read import JobReader, sample_on
    from mqs_dll.verdict.conclude import conclude

    how = ReadingOptions(stop=stop, stacks=stop, limit=Limit(options.limit, ends_us=True))
    asked = argparse.Namespace(**{**vars(options), "what": what, "here": options.here or not stop})
    found, ranks = nodes.find_ranks(asked, how)
    with JobReader(found, ranks) as reader:
        doubtful = partial(doubt_about, patient=patient)
        how_often = (SAMPLES, _BETWEEN, doubtful) if stop else (LIVE_SAMPLES, BETWEEN_LIVE, None)
        job = sample_on(reader, [reader.sample()], *how_often)
        footprints = ranks.footprints()
    elsewhere = nodes.are_elsewhere(options, found)
    return job, footprints, conclude(job).outcome if stop else Outcome.NOTHING_STUCK, elsewhere


def in_own_process(act: Callable[[], int], output: int | None = None) -> int:
    """Let a process of its own act, in a session of its own and without our signals; return its PID.

    Args:
        act: returns the exit code.
        output: the descriptor that is its standard output; None for nowhere, as its standard error is.
    """
    pid = os.fork()
    if pid:
        return pid
    code = _FAILED
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere if output is None else output, 1)
        if output is None and os.environ.get("MQS_DEBUG") != "1":
            os.dup2(nowhere, 2)
        code = act()
        sys.stdout.flush()
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        os._exit(code)


def end_with_parent() -> None:
    """Have the kernel end this process when the one ends that has started it (prctl(2), PR_SET_PDEATHSIG)."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def within(patience: float, act: Callable[[], int], output: int | None = None) -> int | None:
    """Let a process of its own act, as in_own_process has it, and wait for it.

    Returns:
        Its exit code; None where it hasn't ended after as many seconds as ``patience`` has, and was killed.
    """
    pid, until = in_own_process(act, output), time.monotonic() + patience
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_STEP)
    os.kill(pid, signal.SIGKILL)  # a file system that doesn't answer may keep it for longer
    return None
