"""Runs the programs of tests/programs on the MPIs of this machine.

A job is one ``mpiexec`` of one program. Every process of a job carries the job's tag in its environment, which is how
none of them is left behind, whatever its launcher did; nor are the files that they share their memory through.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqs_dll.debugger.proc import DELETED, mappings, processes_with, read_stat, thread_ids, turns
from tests.support.mpis import CM_SOCKETS, OVER_LIBFABRIC, Mpi, Transport, skip_without
from tests.support.workers import one_at_a_time

PROGRAMS = Path(__file__).parents[1] / "programs"
HANGS = "hangs/"
"""The gallery's programs share hang.h, not truth.c."""
BLOCKING = ("blocked", "collectives")
"""The others whose ranks wait inside MPI; those of all the rest sleep outside."""
BUSY = "big"
"""The one whose ranks make thousands of calls: Open MPI polls once in each, and takes a nap there if it may."""
POLLS, SPINNING = 100, 50_000_000
"""How often a rank that waits inside MPI has to have slept between two polls, or for how many nanoseconds to have run,
since all ranks were ready: it is in its call then, and nothing is left that would come of itself."""
WARNINGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
READY_SECONDS = 120.0
PATIENT = 19
"""The niceness of ranks that have come to where they wait."""
TAG = "MQS_TEST_JOB"
SHARED_MEMORY = b" /dev/shm/"


def private_files(directory: str) -> dict[str, str]:
    """Return the variables that make an MPI put its files, shared memory too, into the job's directory."""
    return {
        "TMPDIR": directory,
        "OMPI_MCA_btl_vader_backing_directory": directory,
        "OMPI_MCA_btl_sm_backing_directory": directory,
    }


class JobError(Exception):
    """A job could not be built, or did not become ready; the text has what its processes printed."""


class Compiler:
    """Makes the test programs ready to run: those in C are compiled once for each MPI."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def command(self, mpi: Mpi, program: str) -> list[str]:
        """Return the command that runs a program: in C, or in Python when its name ends in ".py".

        Raises:
            JobError: it can't be compiled.
        """
        if program.endswith(".py"):
            return [str(mpi.python), "-B", str(PROGRAMS / program)]
        return [str(self.compile(mpi, program))]

    def compile(self, mpi: Mpi, program: str) -> Path:
        """Return the program, compiled by this MPI's mpicc; the gallery's have debug information.

        Skips the test where the MPI is missing.

        Raises:
            JobError: mpicc failed; the text is its output.
        """
        skip_without(mpi)
        if program.startswith(HANGS):
            return self._made(mpi, program, f"{program}.c", "-g")
        truth = self._made(mpi, "truth.o", "truth.c", "-c")
        return self._made(mpi, program, f"{program}.c", str(truth))

    def sleeps(self, mpi: Mpi, transport: Transport, program: str = "") -> dict[str, str]:
        """Return the variables that make ranks which wait for each other sleep between two polls, where that helps.

        The queues are the same in the end, and a job takes half of the processor until it is in its state, or a fifth.
        Ranks that wait forever may then take minutes to come so far over Open MPI's libfabric, and all over its
        sockets: these spin, as do those of MPICH 3.4 and 4.0. What was compiled in another release's tree can't be
        preloaded into the commands that lead there.
        """
        waits = program in BLOCKING or program.startswith(HANGS)
        if mpi.inside or program == BUSY or transport == CM_SOCKETS or (waits and transport in OVER_LIBFABRIC):
            return {}
        library = self._made(mpi, "nap.so", "nap.c", "-shared", "-fPIC")
        return {"LD_PRELOAD": str(library), "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}  # the latter is of MPICH 4.1 and later

    def _made(self, mpi: Mpi, name: str, source: str, *options: str) -> Path:
        """Return a file that mpicc makes of a source, unless it is there already."""
        output = self._directory / mpi.name / name
        output.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(output.with_name(f"{output.name}.lock")):
            if not output.exists():
                command = [
                    *mpi.inside,
                    str(mpi.mpicc),
                    *WARNINGS,
                    str(PROGRAMS / source),
                    *options,
                    *mpi.flags,
                    "-o",
                    str(output),
                ]
                result = subprocess.run(
                    command, capture_output=True, text=True, env={**os.environ, **mpi.environment}, check=False
                )
                if result.returncode != 0:
                    raise JobError(f"{' '.join(command)}\n{result.stderr}")
        return output


def make_patient(pids: Iterable[int]) -> None:
    """Have processes leave the processor to others, all of their threads, and the sessions that they are in.

    Linux shares the processor among sessions first, whatever their processes' priorities (sched(7), autogroup).
    """
    for pid in pids:
        with suppress(OSError):  # it may have ended
            for thread in thread_ids(pid):
                os.setpriority(os.PRIO_PROCESS, thread, PATIENT)
            if os.getsid(pid) != os.getsid(0):
                Path(f"/proc/{pid}/autogroup").write_text(str(PATIENT))


@dataclass
class Launched:
    """One mpiexec that runs, with all that it started."""

    directory: Path
    """Its own: what its processes print lies there, and their MPI's files."""
    launcher: subprocess.Popen[bytes]

    @property
    def tag(self) -> str:
        """The value of MQS_TEST_JOB in the environment of each of its processes."""
        return self.directory.name

    def output(self) -> str:
        """Return what the job's processes printed."""
        return (self.directory / "output").read_text(errors="replace")

    def end(self) -> None:
        """Kill every process of the job, wait until they are gone, and remove the memory that they shared."""
        shared = {path for pid in processes_with_tag(self.tag) for path in shared_memory_of(pid)}
        self.launcher.kill()
        self.launcher.wait()
        while processes := processes_with_tag(self.tag):
            for pid in processes:
                kill(pid)
            while any((stat := read_stat(pid)) and not stat.gone for pid in processes):
                time.sleep(0.01)
        for path in shared:
            path.unlink(missing_ok=True)


@dataclass
class Job(Launched):
    """A running job of tests/programs: its directory, its launcher, and the truth that its ranks wrote."""

    mpi: Mpi
    transport: Transport
    program: str
    ranks: int
    children: int = 0

    def wait_until_ready(
        self, phase: int = 1, *, patient: bool = True, seconds: float = READY_SECONDS
    ) -> list[dict[str, Any]]:
        """Wait for every rank's truth file of a phase; return them by rank, spawned children last.

        From then on they leave the processor to others, if they are to be patient: some spin while they wait.

        Raises:
            JobError: the job ended, or a rank did not get ready in time.
        """
        paths = [self.directory / f"truth.{rank}.{phase}.json" for rank in range(self.ranks)]
        paths += [self.directory / f"truth.child-{rank}.{phase}.json" for rank in range(self.children)]
        deadline = time.monotonic() + seconds
        for path in paths:
            while not path.exists():
                if self.launcher.poll() is not None:
                    raise JobError(f"{self} ended before it was ready:\n{self.output()}")
                if time.monotonic() > deadline:
                    missing = ", ".join(path.name for path in paths if not path.exists())
                    raise JobError(f"{self} did not write {missing} in {seconds} s:\n{self.output()}")
                time.sleep(0.01)
        truths: list[dict[str, Any]] = [json.loads(path.read_text()) for path in paths]
        if self.program in BLOCKING:
            self._wait_for_rest([truth["pid"] for truth in truths], deadline)
        if patient:
            make_patient(processes_with_tag(self.tag))
        return truths

    def _wait_for_rest(self, pids: Sequence[int], deadline: float) -> None:
        """Wait until each rank has polled so often in vain that it waits for what never comes."""
        ready = {pid: turns(pid) for pid in pids}
        while moving := [pid for pid in pids if not is_at_rest(ready[pid], turns(pid))]:
            if time.monotonic() > deadline:
                raise JobError(f"{self}: processes {moving} did not come to rest:\n{self.output()}")
            time.sleep(0.01)

    def next_phase(self, phase: int) -> list[dict[str, Any]]:
        """Let the job run on to another phase; return the truth of it, as wait_until_ready."""
        (self.directory / f"go.{phase}").touch()
        return self.wait_until_ready(phase)

    def __str__(self) -> str:
        return f"{self.program} with {self.ranks} ranks on {self.mpi.name} ({self.transport.name})"


def is_at_rest(ready: Sequence[int], now: Sequence[int]) -> bool:
    """Tell of a rank that is in an MPI call, by its turns when all were ready and now, whether it does nothing more."""
    if not (ready and now):  # it has ended, or the kernel doesn't count
        return False
    (ran_before, _, naps_before), (ran, _, sleeps) = ready, now
    return ran - ran_before >= SPINNING or sleeps - naps_before >= POLLS


def kill(pid: int) -> None:
    """Kill a process that may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def processes_with_tag(tag: str) -> list[int]:
    """Return the processes of a job."""
    return processes_with(f"{TAG}={tag}")


def shared_memory_of(pid: int) -> set[Path]:
    """Return the files of /dev/shm that a process has mapped; an MPI that is killed can't remove them itself."""
    return {Path(each.path) for each in mappings(pid, SHARED_MEMORY) if not each.path.endswith(DELETED)}


def launch(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], user: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a launcher in a directory: all that it starts can be found again, and writes its files there."""
    with (directory / "output").open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, **private_files(str(directory)), TAG: directory.name},
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )


@contextmanager
def running(
    compiler: Compiler,
    mpi: Mpi,
    transport: Transport,
    program: str,
    ranks: int,
    *,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    children: int = 0,
    environment: Mapping[str, str] | None = None,
    user: int | None = None,
) -> Iterator[Job]:
    """Start a program of tests/programs and give the job; at the end kill it and remove its files.

    Skips the test where the MPI is missing.

    Args:
        compiler: where the program is compiled, or was.
        mpi: which MPI.
        transport: how it moves its messages.
        program: the program's name without ".c", below tests/programs; with ".py" if it is one in Python.
        ranks: how many processes mpiexec starts.
        arguments: more arguments of the program, after the job's directory.
        options: more options of mpiexec.
        children: how many processes the program itself spawns.
        environment: more variables for the job.
        user: who runs it, if not we; takes root, and an MPI that this user may read.

    Raises:
        JobError: it can't be compiled.
    """
    skip_without(mpi)
    runs = compiler.command(mpi, program)
    with tempfile.TemporaryDirectory(prefix="mqs-job-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        command = [*mpi.inside, str(mpi.mpiexec), *mpi.options, *transport.arguments, *options, "-n", str(ranks)]
        sleeps = compiler.sleeps(mpi, transport, program) if user is None else {}
        if user is not None:
            runs = [shutil.copy(runs[0], name)]
            os.chown(name, user, user)
        chosen = {**mpi.environment, **transport.environment, **sleeps, **(environment or {})}
        launcher = launch([*command, *runs, name, *arguments], directory, chosen, user)
        job = Job(directory, launcher, mpi, transport, program, ranks, children)
        try:
            yield job
        finally:
            job.end()
