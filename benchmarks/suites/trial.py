"""Runs one program, looks at it while it runs, and sees what becomes of it.

What a program does under an MPI is seen, not believed: it hangs when it is still there long after the sample, whatever
its suite says of it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from benchmarks.suites.looks import Look, look
from benchmarks.suites.programs import Program
from mqs_dll.verdict.results import Outcome
from tests.support.jobs import Launched, launch, processes_with_tag

PROGRAM = "program"
"""What each is called when it is compiled."""
MAX_START_LENGTH = 60.0
"""Seconds that a launcher has to start all ranks."""
_POLL = 0.02
_FUNCTION = re.compile(r"\b(MPI_[A-Z][a-z]\w*)[ ]*\(")
_FIRST = frozenset({"MPI_Init", "MPI_Init_thread"})
"""Before these there is nothing to look at, so no rank sleeps before them."""
_REST = """\
#include <mpi.h>
#include <poll.h>
#include <unistd.h>
static inline void mqs_rest(void)
{
    static unsigned state;
    if (state == 0) state = (unsigned)getpid();
    state = state * 1103515245u + 12345u;
    poll(NULL, 0, (int)((state >> 16) % %d));
}
"""
"""Put before a program's text, it makes a rank sleep for a random time before each of its calls to MPI."""


class Fate(Enum):
    """What became of a program; the value is its name in the results."""

    REFUSED = "does not compile"
    ENDED = "ended before a sample"
    WENT_ON = "ended after the samples"
    HANGS = "hangs"


class Trial(NamedTuple):
    """One program's row of the results."""

    program: Program
    fate: Fate
    looks: tuple[Look, ...] = ()
    refusal: str = ""
    """What the compiler said of a program that does not compile."""

    @property
    def verdict(self) -> Look | None:
        """The sample that counts: the last one at a program that hangs, the gravest one at a healthy one."""
        if not self.looks or self.fate is Fate.HANGS:
            return self.looks[-1] if self.looks else None
        return min(self.looks, key=lambda each: GRAVITY.index(each.outcome))


GRAVITY = tuple(
    each.name.lower().replace("_", " ")
    for each in (Outcome.PROVED, Outcome.SUSPECTED, Outcome.NOTHING_STUCK, Outcome.NOT_READ)
)
"""The outcomes of a sample, the worst accusation first."""


@dataclass(frozen=True)
class Way:
    """How programs are compiled, run and looked at."""

    folder: Path
    """Of the suite."""
    mpicc: tuple[str, ...]
    mpiexec: tuple[str, ...]
    mqs: tuple[str, ...]
    time: float
    """Seconds from the start of its ranks, or from the last sample, after which a program is looked at."""
    patience: float
    """Seconds after the last sample after which a program that is still there hangs."""
    looks: int
    slow: float
    """Seconds that a rank sleeps at most before each call; 0: none."""
    keep: Path | None
    """Where jobs are saved, for `mqs job --load`."""


def attempt(way: Way, program: Program, stop: threading.Event) -> Trial | None:
    """Run a program and look at it; None when it was stopped meanwhile."""
    with tempfile.TemporaryDirectory(prefix="mqs-suite-", ignore_cleanup_errors=True) as name:
        directory = Path(name).resolve()
        if refusal := _compile(way, program, directory):
            return Trial(program, Fate.REFUSED, refusal=refusal)
        command = [*way.mpiexec, "-n", str(program.ranks), str(directory / PROGRAM), *program.arguments]
        job = Launched(directory, launch(command, directory, {}))
        try:
            fate, looks = _watch(way, program, job, stop)
        finally:
            job.end()
        return None if stop.is_set() else Trial(program, fate, tuple(looks))


def _watch(way: Way, program: Program, job: Launched, stop: threading.Event) -> tuple[Fate, list[Look]]:
    looks: list[Look] = []
    _await(job, program.ranks, stop)
    while len(looks) < way.looks:
        if _ends(job, way.time, stop):
            break
        looks.append(look(job.launcher.pid, _file(way, program, len(looks)), way.mqs))
    if _ends(job, way.patience, stop) or not _living(job):
        seen = any(each.outcome != GRAVITY[-1] for each in looks)
        return (Fate.WENT_ON if seen else Fate.ENDED), looks  # a sample can come too late, too
    return Fate.HANGS, looks


def _ends(job: Launched, seconds: float, stop: threading.Event) -> bool:
    """Return whether a job ends by itself in a time; waits no longer once it is stopped."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not stop.is_set():
        if job.launcher.poll() is not None:
            return True
        time.sleep(_POLL)
    return job.launcher.poll() is not None


def _await(job: Launched, ranks: int, stop: threading.Event) -> None:
    """Wait until all ranks are there, which takes a launcher long where the machine is busy."""
    deadline = time.monotonic() + MAX_START_LENGTH
    while _living(job) < ranks and not _ends(job, 10 * _POLL, stop) and not stop.is_set():
        if time.monotonic() > deadline:
            return


def _living(job: Launched) -> int:
    """Return how many ranks are there; a launcher may outlive all that it started."""
    count = 0
    for pid in processes_with_tag(job.tag):
        with suppress(OSError):  # it has exited
            count += Path(f"/proc/{pid}/exe").readlink() == job.directory / PROGRAM
    return count


def _file(way: Way, program: Program, number: int) -> Path | None:
    if way.keep is None:
        return None
    name = re.sub(r"[^\w.-]+", "-", program.title)
    return way.keep / f"{name}{f'.{number}' if number else ''}.json.gz"


def _compile(way: Way, program: Program, directory: Path) -> str:
    """Compile a program as directory/program; return what the compiler said where it could not."""
    source = way.folder / program.path
    command: list[str] = [*way.mpicc, "-g", "-w", f"-I{source.parent}"]
    if way.slow:
        functions = sorted({*_FUNCTION.findall(source.read_text(errors="replace"))} - _FIRST)
        lines = [f"#define {each}(...) (mqs_rest(), {each}(__VA_ARGS__))\n" for each in functions]
        (directory / "rest.h").write_text(_REST.replace("%d", str(int(way.slow * 1000))) + "".join(lines))
        command += ["-include", str(directory / "rest.h")]
    command += [str(source), "-o", str(directory / PROGRAM), "-lm", "-pthread"]
    if source.suffix != ".c":
        command += [
            "-lstdc++",
            "-DOMPI_SKIP_MPICXX",
            "-DMPICH_SKIP_MPICXX",
        ]  # MPI's C++ is gone, or in libraries of its own
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stderr.strip()[-300:] or "no reason given" if result.returncode else ""
