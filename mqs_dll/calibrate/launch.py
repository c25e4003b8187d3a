"""Runs a program under an MPI, with a time limit, and leaves neither processes nor files outside its directory.

Every process of a job carries the job's tag in its environment, which is how none is left behind, whatever the
launcher did with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mqs_dll.calibrate.dump import Dump, load_all
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.debugger.proc import mappings, processes_with, read_stat
from mqs_dll.debugger.stopping.interrupts import ended

TAG = "MQS_CALIBRATION"
RUN_SECONDS = 60.0
LAUNCHER_PATIENCE = 5.0
"""Seconds that a launcher has to end its ranks and itself."""

KERNEL_PATIENCE = 10.0
"""Seconds that processes have to end when they are killed: one in the kernel's uninterruptible sleep (D) doesn't."""

LAST_LOOKS = 2
"""At processes, none of which is left: while one starts a program, its environment can't be seen."""

MAX_WORDS_LENGTH = 500
"""Characters of what a failed job printed; the first ones say why."""

SHARED_MEMORY = ("/dev/shm/mpich", "/dev/shm/Intel_MPI")
"""Files with messages between the processes of a node. MPICH 5.0 removes its own in MPI_Finalize alone."""

SCHEDULERS = ("SLURM_", "PBS_", "LSB_")
"""Start of variables that would make a launcher start ranks on other machines, where our directory isn't."""


@dataclass(frozen=True)
class Installation:
    """An MPI at hand: what is needed to run a program under it."""

    library: Path
    """The library that programs load: libmpi.so.40."""
    mpiexec: Sequence[str]
    """The command that starts a job, with arguments if need be."""
    searched: str | None = None
    """Where jobs search for libraries (LD_LIBRARY_PATH); None where that is as in our own environment."""

    def environment(self) -> dict[str, str]:
        """Return the variables that lead a job to this MPI's commands and library.

        Its library's folder comes last: it may have a UCX and a libfabric too, and jobs may run with others.
        """
        searched = os.environ.get("LD_LIBRARY_PATH", "") if self.searched is None else self.searched
        variables = {"LD_LIBRARY_PATH": ":".join(filter(None, (searched, str(self.library.parent))))}
        launcher = Path(self.mpiexec[0])
        if launcher.is_absolute():
            variables["PATH"] = ":".join(filter(None, (str(launcher.parent), os.environ.get("PATH"))))
        return variables

    def check_library(self, dumps: Iterable[Dump]) -> None:
        """Make sure that the program ran with this library: another MPI's may come first in its search path.

        Raises:
            CalibrationError: it ran with another one.
        """
        for dump in dumps:
            loaded = Path(dump.truth["library_file"])
            if not loaded.exists() or not loaded.samefile(self.library):
                raise CalibrationError(
                    f"the calibration program ran with {loaded}, not with {self.library}: does LD_LIBRARY_PATH lead "
                    "to another MPI?"
                )


@dataclass(frozen=True)
class Run:
    """One way to run a calibration program."""

    name: str
    """Of the directory that the program leaves its dumps in, and in errors: "the run 'plain' ..."."""
    mode: str
    """What is special about it: the program's last argument, if it has one."""
    ranks: int
    options: Sequence[str] = ()
    """Of mpiexec."""
    variables: Mapping[str, str] = field(default_factory=dict)
    optional: str = ""
    """What can't be learnt without it, where an MPI may be unable to do it; no other run for that is tried then."""

    def job(self, mpi: Installation, module: str, directory: Path) -> CalibrationJob:
        """Return the job that runs a module's ``main`` in a folder of its own, with LIBRARY DIRECTORY [MODE]."""
        place = directory / self.name
        mode = [self.mode] if self.mode else []
        return CalibrationJob(self, place, python_rank(module, str(mpi.library), str(place), *mode))


@dataclass(frozen=True)
class CalibrationJob:
    """A program to be run under an MPI, and where it leaves what it saw."""

    run: Run
    directory: Path
    """The file ``output`` in it gets what the processes print; ranks write truth.RANK and memory.RANK there."""
    program: Sequence[str]
    """The command of a rank."""

    def words(self) -> str:
        """Return the start of what its processes printed, as one line."""
        lines = (self.directory / "output").read_text(errors="replace").splitlines()
        said = dict.fromkeys(" ".join(line.split()) for line in lines if line.strip(" -=*"))  # ranks say the same
        return " ".join(said)[:MAX_WORDS_LENGTH] or "it printed nothing"

    def is_written(self) -> bool:
        """Return whether every rank has left its truth."""
        return all((self.directory / f"truth.{rank}").exists() for rank in range(self.run.ranks))


def run_all(
    mpi: Installation,
    module: str,
    runs: Iterable[Run],
    directory: Path,
    report: Callable[[str], None],
    *,
    attempts: int = 1,
) -> tuple[list[Dump], list[str]]:
    """Run a calibration program in several ways; return all dumps, and what is left out for want of a run, and why.

    Args:
        mpi: which MPI.
        module: whose ``main`` is the program of a rank: LIBRARY DIRECTORY MODE.
        runs: the ways.
        directory: where each run gets a directory of its own.
        report: what is being done.
        attempts: how often a run is tried: some launchers lose a process now and then.

    Raises:
        CalibrationError: a run that isn't optional failed.
    """
    dumps: list[Dump] = []
    failures: dict[str, str] = {}
    for this in runs:
        if this.optional in failures:
            continue
        report(f"the run {this.name!r}")
        job = this.job(mpi, module, directory)
        for left in reversed(range(attempts)):
            try:
                run(mpi, job)
            except CalibrationError as error:
                if left:
                    shutil.rmtree(job.directory)
                elif this.optional:
                    failures[this.optional] = str(error)
                else:
                    raise
            else:
                dumps += load_all(job.directory)
                break
    return dumps, [f"{what}: {reason}" for what, reason in failures.items()]


def run(mpi: Installation, job: CalibrationJob) -> None:
    """Run a job to its end.

    Raises:
        CalibrationError: not every rank reached its end; the text has what the job printed.
    """
    with running(mpi, job) as launcher:
        deadline = time.monotonic() + RUN_SECONDS
        while not has_ended(launcher):  # its exit code says nothing: ranks end without MPI_Finalize
            if time.monotonic() > deadline:
                raise CalibrationError(
                    f"the run {job.run.name!r} took more than {RUN_SECONDS:.0f} seconds: {job.words()}"
                )
            time.sleep(0.02)
    if not job.is_written():
        raise CalibrationError(f"the run {job.run.name!r} did not reach its end: {job.words()}")


def has_ended(launcher: subprocess.Popen[bytes]) -> bool:
    """Return whether a launcher has ended; without the lock of Popen.poll, which a Ctrl-C in its midst finds taken."""
    return os.waitid(os.P_PID, launcher.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def running(mpi: Installation, job: CalibrationJob) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Start a job and yield its launcher; at the end no process of it is left, and no file outside its directory.

    Raises:
        CalibrationError: the launcher can't be started, or a process can't be ended: the kernel doesn't let it go.
    """

    def start(stack: ExitStack) -> subprocess.Popen[bytes]:
        job.directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="mqs-"))  # short: MPIs make sockets in it, whose paths are limited
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        tag = scratch.name
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(SCHEDULERS)}
        variables = {**inherited, **mpi.environment(), **job.run.variables, "TMPDIR": str(scratch), TAG: tag}
        command = [*mpi.mpiexec, *job.run.options, "-n", str(job.run.ranks), *job.program]
        with (job.directory / "output").open("wb") as output:
            launcher = _start(command, output.fileno(), variables)
        stack.callback(_end, launcher, tag)
        return launcher

    return ended(start)


def python_code(module: str, entry: str = "main") -> str:
    """Return a line of Python that calls a function of a module, found by our own search path."""
    return f"import sys; sys.path[:] = {sys.path!r}; from {module} import {entry}; {entry}()"


def python_rank(module: str, *arguments: str, entry: str = "main") -> list[str]:
    """Return the command of a rank that is such a process; nothing in its environment leads it to other modules."""
    return [sys.executable, "-I", "-c", python_code(module, entry), *arguments]


def _start(command: Sequence[str], output: int, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,  # Ctrl-C is for us: we end the job
        )
    except OSError as error:
        raise CalibrationError(f"{command[0]} can't be run: {error.strerror}") from error


def _end(launcher: subprocess.Popen[bytes], tag: str) -> None:
    shared: set[str] = set()
    if launcher.poll() is None:
        _kill(set(processes_with(f"{TAG}={tag}")) - {launcher.pid}, shared)  # before the launcher does
        launcher.terminate()
    with suppress(subprocess.TimeoutExpired):
        launcher.wait(LAUNCHER_PATIENCE)
    deadline = time.monotonic() + KERNEL_PATIENCE
    looks_left = LAST_LOOKS
    while looks_left:
        processes = processes_with(f"{TAG}={tag}")
        looks_left = LAST_LOOKS if processes else looks_left - 1
        if processes and time.monotonic() > deadline:
            raise CalibrationError(_describe_deathless(processes))
        _kill(processes, shared)
        if looks_left:
            time.sleep(0.02)
    launcher.kill()
    try:
        launcher.wait(KERNEL_PATIENCE)
    except subprocess.TimeoutExpired:
        raise CalibrationError(_describe_deathless([launcher.pid])) from None
    for path in shared:
        Path(path).unlink(missing_ok=True)


def _kill(processes: Iterable[int], shared: set[str]) -> None:
    """Kill processes, and add the files of the memory that they share: once they have ended, those can't be found."""
    _signal(processes, signal.SIGSTOP)  # so that none starts to share another
    for pid in processes:
        shared.update(each.path for each in mappings(pid, b"/dev/shm/") if each.path.startswith(SHARED_MEMORY))
    _signal(processes, signal.SIGKILL)


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _describe_deathless(processes: Sequence[int]) -> str:
    stats = {pid: stat for pid in processes if (stat := read_stat(pid))}
    named = ", ".join(f"process {pid} ({stat.name}, state {stat.state})" for pid, stat in stats.items())
    return (
        f"{named or 'a process'} was killed {KERNEL_PATIENCE:.0f} seconds ago and has not ended: the kernel, or a "
        "debugger, does not let it go"
    )
