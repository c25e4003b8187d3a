"""Jobs in containers, read from outside by the user who runs them, and by root, and inside: as outside of one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.debugger.inside import pids_known_to
from mqs_dll.debugger.job.find.proctable import read_proctable
from mqs_dll.debugger.proc import numbers_of
from tests.support.closed import NOBODY
from tests.support.containers import as_user, child_of, command, open_folder, skip_without_containers
from tests.support.jobs import Compiler, Job, launch
from tests.support.matrix import Matrix, Place
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.places import HANG, compared, until_proved
from tests.support.targets import ROOT

pytestmark = [pytest.mark.root, pytest.mark.mpi]
MPIS = {mpi.name: mpi for mpi in find_mpis()}
PYPI, OUTSIDE = MPIS["mpich-4.3.2-pypi"], MPIS["mpich-4.2.3-pypi"]
"""The MPI in the container, and another one at its path outside. Neither has an id of its build."""
DEBIAN = MPIS["openmpi-debian"]
"""Its mpirun lists the PIDs of its ranks."""
INSIDE = "inside"
PLACES = {"user": Place.CONTAINER, "root": Place.CONTAINER_BY_ROOT, INSIDE: Place.CONTAINER_INSIDE}
READERS = list(PLACES)

MPI_INSIDE = """
mount -t tmpfs none "$1"
mkdir "$1"/lib
cp -r "$2"/bin "$1"
cp -r "$2"/lib/libm* "$2"/lib/mpich "$1"/lib
cp "$3" "$1"/program
shift 3
exec "$@"
"""
"""A file system of its own at $1, with the MPI that lies at $2, and the program $3 as ``program``."""


def mqs(reader: str, job: Job, *arguments: object) -> str:
    """Return what ``mqs`` has printed for root, or for the job's user: outside, or in the job's container."""
    user, entered = (None if reader == "root" else NOBODY), []
    if reader == INSIDE:
        spaces = ["--user", "--mount", *(["--pid"] if has_numbers(job) else [])]
        entered = ["nsenter", f"--target={first_of(job)}", *spaces, "--preserve-credentials"]
    said = subprocess.run(
        [*entered, "env", f"--chdir={ROOT}", sys.executable, "-m", "mqs_dll", *map(str, arguments)],
        user=user, group=user, extra_groups=None if user is None else [],
        env={**os.environ, "HOME": "/nonexistent"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert said.stdout, said.stderr
    return said.stdout


def has_numbers(job: Job) -> bool:
    """Return whether a job's container has PIDs of its own."""
    return job.mpi is DEBIAN


def first_of(job: Job) -> int:
    """Return the first process of a job's container, its launcher."""
    return child_of(job.launcher.pid) if has_numbers(job) else job.launcher.pid


def report(reader: str, job: Job) -> dict[str, Any]:
    """Return the report of a job when something is proved."""
    launcher = 1 if reader == INSIDE and has_numbers(job) else job.launcher.pid
    return until_proved(lambda: mqs(reader, job, "job", launcher, "--json"))


def pids_of(document: dict[str, Any]) -> list[int]:
    """Return the PIDs of the ranks in a report."""
    return [each["pid"] for each in document["processes"]]


@contextmanager
def job_of_user(compiler: Compiler, built_with: Mpi, runs: Mpi, wrapped: Callable[[Path], list[str]]) -> Iterator[Job]:
    """Give the scene as a job of an ordinary user's.

    Args:
        compiler: of the program.
        built_with: the MPI that it is compiled with.
        runs: the MPI that it runs with.
        wrapped: returns the command that starts it, by the path of the program, which only this command needs.
    """
    for mpi in (built_with, runs):
        skip_without(mpi)
    skip_without_containers()
    program = compiler.compile(built_with, HANG.program)
    with open_folder() as folder:
        copied = Path(shutil.copy(program, folder / "copied"))
        directory = folder / folder.name  # by which the harness knows its processes
        directory.mkdir()
        os.chown(directory, NOBODY, NOBODY)
        transport = runs.transports[0]
        launcher = launch(
            [*wrapped(copied), str(directory)], directory, {**runs.environment, **transport.environment}, NOBODY
        )
        job = Job(directory, launcher, runs, transport, HANG.program, HANG.ranks)
        try:
            job.wait_until_ready()
            copied.unlink()
            yield job
        finally:
            job.end()


def prefix(mpi: Mpi) -> Path:
    """Return where an MPI lies."""
    assert mpi.mpiexec is not None
    return mpi.mpiexec.parents[1]


@pytest.fixture(scope="module")
def in_one(compiler: Compiler) -> Iterator[Job]:
    """Give a job whose launcher and ranks are in one container."""

    def wrapped(program: Path) -> list[str]:
        place = prefix(OUTSIDE)
        launched = [place / "bin/mpiexec", "-n", HANG.ranks, place / "program"]
        return command(MPI_INSIDE, place, prefix(PYPI), program, *launched)

    with job_of_user(compiler, OUTSIDE, PYPI, wrapped) as job:
        yield job


@pytest.mark.parametrize("reader", READERS)
def test_a_job_in_a_container_gets_the_verdict_that_it_gets_outside(reader: str, in_one: Job, matrix: Matrix) -> None:
    """With the lines of its program, which lies inside alone; another MPI lies outside at the path of its own."""
    document = report(reader, in_one)
    found = compared(document, PYPI)
    assert pids_of(document) == [truth["pid"] for truth in in_one.wait_until_ready()]
    matrix.record_place(PLACES[reader], found)


@pytest.mark.parametrize("reader", READERS)
def test_a_rank_in_a_container_is_shown_and_diagnosed(reader: str, in_one: Job) -> None:
    """With the release of the MPI in it, and by symbols of its own libraries."""
    pid = in_one.wait_until_ready()[1]["pid"]
    shown = mqs(reader, in_one, "show", pid, "--stack")
    assert "MPICH 4.3.2" in shown
    assert "in MPI_Recv(" in shown
    assert json.loads(mqs(reader, in_one, "doctor", pid, "--json"))["process"]["pid"] == pid


@pytest.mark.parametrize("reader", ["user", "root"])
def test_ranks_of_one_job_may_be_in_a_container_each(reader: str, compiler: Compiler, matrix: Matrix) -> None:
    """Their launcher is in none, as with `mpiexec -n 3 apptainer exec IMAGE PROGRAM`."""

    def wrapped(program: Path) -> list[str]:
        place = prefix(OUTSIDE)
        rank = command(MPI_INSIDE, place, prefix(PYPI), program, place / "program")
        return [str(PYPI.mpiexec), "-n", str(HANG.ranks), *rank]

    with job_of_user(compiler, OUTSIDE, PYPI, wrapped) as job:
        document = report(reader, job)
        found = compared(document, PYPI)
        assert pids_of(document) == [truth["pid"] for truth in job.wait_until_ready()]
    matrix.record_place(Place.CONTAINERS, found)


def with_numbers(program: Path) -> list[str]:
    """Return what starts the scene in a container in which processes have numbers of their own."""
    script = 'mount -t tmpfs none /opt; cp "$1" /opt/program; shift; exec "$@"'
    launched = [DEBIAN.mpiexec, *DEBIAN.options, *DEBIAN.transports[0].arguments, "-n", HANG.ranks, "/opt/program"]
    return command(script, program, *launched, pids=True)


@pytest.fixture(scope="module")
def numbered(compiler: Compiler) -> Iterator[Job]:
    """Give a job in such a container."""
    with job_of_user(compiler, DEBIAN, DEBIAN, with_numbers) as job:
        yield job


@pytest.mark.parametrize("reader", ["user", "root"])
def test_ranks_with_other_numbers_in_a_container_are_found_by_ours(reader: str, numbered: Job, matrix: Matrix) -> None:
    """Their launcher lists them for debuggers by what they are in its PID namespace."""
    document = report(reader, numbered)
    found, pids = compared(document, DEBIAN), pids_of(document)
    assert [numbers_of(pid)[-1] for pid in pids] == [truth["pid"] for truth in numbered.wait_until_ready()]
    launcher = first_of(numbered)
    assert as_user(lambda: [entry.pid for entry in read_proctable(launcher)]) == repr(pids)
    matrix.record_place(Place.NUMBERED, found)


def test_inside_a_container_ranks_have_their_own_numbers(numbered: Job, matrix: Matrix) -> None:
    """Its launcher is number 1 there."""
    document = report(INSIDE, numbered)
    found = compared(document, DEBIAN)
    assert pids_of(document) == [truth["pid"] for truth in numbered.wait_until_ready()]
    matrix.record_place(Place.NUMBERED_INSIDE, found)


def test_jobs_whose_launchers_have_the_same_number_are_told_apart(numbered: Job, compiler: Compiler) -> None:
    """Open MPI names a job by its host and its launcher's PID; an agent of root's is asked by that name."""
    with job_of_user(compiler, DEBIAN, DEBIAN, with_numbers) as other:
        for job in (numbered, other):
            known = pids_known_to(first_of(job))
            assert known is not None
            document = report("root", job)
            compared(document, DEBIAN)
            assert pids_of(document) == [known[each["pid"]] for each in job.wait_until_ready()]
