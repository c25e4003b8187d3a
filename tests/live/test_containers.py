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

from mqs_dll.calibrate.discovery import find
from mqs_dll.commands.cli import EXIT_UNREADABLE
from mqs_dll.contract.errors import ContainedMpiError
from mqs_dll.debugger import library_path
from mqs_dll.debugger.inside import pids_known_to
from mqs_dll.debugger.job.find.proctable import read_proctable
from mqs_dll.debugger.proc import numbers_of
from tests.support.closed import NOBODY
from tests.support.containers import as_user, child_of, command, open_folder, skip_without_containers
from tests.support.jobs import Compiler, Job, launch, running
from tests.support.matrix import Matrix, Place
from tests.support.mpis import Mpi, find_mpis, mpis_inside, skip_without
from tests.support.places import HANG, compared, until_proved
from tests.support.releases import DIRECTORY

pytestmark = [pytest.mark.root, pytest.mark.mpi]
MPIS = {mpi.name: mpi for mpi in find_mpis()}
PYPI, OUTSIDE = MPIS["mpich-4.3.2-pypi"], MPIS["mpich-4.2.3-pypi"]
"""The MPI in the container, and another one at its path outside. Neither has an id of its build."""
DEBIAN = MPIS["openmpi-debian"]
"""Its mpirun lists the PIDs of its ranks."""
DEBIAN_13 = next(mpi for mpi in mpis_inside() if mpi.name == "openmpi-trixie")
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


STRIPPED_INSIDE = MPI_INSIDE.replace(
    "shift 3",
    """
mount -t tmpfs none /usr/lib/debug
id=$(readelf -n "$1"/program | sed -n 's/.*Build ID: //p')
mkdir -p /usr/lib/debug/.build-id/"${id%"${id#??}"}"
objcopy --only-keep-debug "$1"/program /usr/lib/debug/.build-id/"${id%"${id#??}"}"/"${id#??}".debug
strip "$1"/program
shift 3
""",
)
"""The same, with the program's debug information in a file of its own."""


def mqs(reader: str, job: Job, *arguments: object, fails: bool = False) -> str:
    """Return what ``mqs`` has printed for root, or for the job's user: outside, or in the job's container.

    Where it fails, it is what it has printed on standard error.
    """
    user, entered = (None if reader == "root" else NOBODY), []
    if reader == INSIDE:
        spaces = ["--user", "--mount", *(["--pid"] if has_numbers(job) else [])]
        entered = ["nsenter", f"--target={first_of(job)}", *spaces, "--preserve-credentials"]
    said = subprocess.run(
        [*entered, "env", "--chdir=/", sys.executable, "-m", "mqs_dll", *map(str, arguments)],
        user=user, group=user, extra_groups=None if user is None else [],
        env={**os.environ, "HOME": "/nonexistent"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (said.returncode == EXIT_UNREADABLE) == fails, said.stderr
    return said.stderr if fails else said.stdout


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
        script = STRIPPED_INSIDE if Path("/usr/lib/debug").is_dir() else MPI_INSIDE
        return command(script, place, prefix(PYPI), program, *launched)

    with job_of_user(compiler, OUTSIDE, PYPI, wrapped) as job:
        yield job


@pytest.mark.parametrize("reader", READERS)
def test_a_job_in_a_container_gets_the_verdict_that_it_gets_outside(reader: str, in_one: Job, matrix: Matrix) -> None:
    """With its program's lines, whose debug file lies inside alone; at the path of its MPI another lies outside."""
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


@pytest.mark.parametrize("reader", ["user", "root"])
def test_an_mpi_of_a_container_is_not_calibrated_outside(reader: str, in_one: Job) -> None:
    """Neither it nor what has its path outside is run: a sentence says how it is done inside."""
    pid = in_one.wait_until_ready()[1]["pid"]
    said = mqs(reader, in_one, "calibrate", pid, fails=True)
    library = prefix(OUTSIDE).resolve() / "lib/libmpi.so.12"
    assert library.exists()
    assert said.startswith(
        f"mqs: the MPI of process {pid}, {library}, is one of its container, and isn't run outside; "
    )


def test_an_mpi_of_another_debian_is_not_calibrated_outside(compiler: Compiler) -> None:
    """The kernel tells a path outside that leads to its very file, which other libraries would be taken to outside."""
    skip_without(DEBIAN_13)
    with running(compiler, DEBIAN_13, DEBIAN_13.transports[0], "idle", 2) as job:
        pid = job.wait_until_ready()[0]["pid"]
        with pytest.raises(ContainedMpiError, match=rf"the MPI of process {pid}, {DIRECTORY}.* isn't run outside"):
            find(str(pid))


def test_a_profile_that_was_made_inside_is_used_outside(
    in_one: Job, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the sentence says that sends one inside: by `mqs calibrate --out`, in a container of the same MPI."""
    place, program = prefix(OUTSIDE), compiler.compile(OUTSIDE, "idle")
    with open_folder() as folder:
        os.chown(folder, NOBODY, NOBODY)
        shutil.copy(program, folder / "copied")
        calibrate = [sys.executable, "-m", "mqs_dll", "calibrate", place, "--name", "made-inside"]
        calibrate += ["--out", folder / "made.json"]
        subprocess.run(
            command(MPI_INSIDE, place, prefix(PYPI), folder / "copied", *calibrate),
            user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={**os.environ, "HOME": "/nonexistent"}, check=True
        )  # fmt: skip
        monkeypatch.setenv("MQS_PROFILES", str(folder))
        assert "profile made-inside" in mqs("user", in_one, "show", in_one.wait_until_ready()[1]["pid"], "--all")


def with_numbers(program: Path) -> list[str]:
    """Return what starts the scene in a container in which processes have numbers of their own.

    Of the MPI it has the same files as are outside, and in /opt the libraries of `mqs env`.
    """
    script = 'mount -t tmpfs none /opt; cp "$1" "$2" "$3" /opt; mv /opt/copied /opt/program; shift 3; exec "$@"'
    libraries = library_path.library(), library_path.dll_name_library()
    launched = [DEBIAN.mpiexec, *DEBIAN.options, *DEBIAN.transports[0].arguments, "-n", HANG.ranks]
    launched += ["-x", f"LD_PRELOAD=/opt/{libraries[1].name}", "-x", "LD_LIBRARY_PATH=/opt:/usr/lib", "/opt/program"]
    return command(script, program, *libraries, *launched, pids=True)


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


def test_an_mpi_that_a_container_has_from_outside_is_calibrated_there(numbered: Job) -> None:
    """It is the very file. Of the folders that its libraries are searched in, those count that are the same outside."""
    _, found = find(str(own_pids_of(numbered)[0]))
    assert found.library.samefile("/usr/lib/x86_64-linux-gnu/libmpi.so.40")
    assert set((found.searched or "").split(":")) == {"/usr/lib"}


@pytest.mark.parametrize("reader", ["user", "root"])
def test_a_library_that_a_container_names_is_not_loaded_outside(reader: str, numbered: Job) -> None:
    """Its path would lead to another file, or to none."""
    said = mqs(reader, numbered, "show", own_pids_of(numbered)[0], "--dll", "auto", fails=True)
    assert "/opt/libmqs.so, which the program names, is a file of its container, and isn't loaded outside" in said


def own_pids_of(job: Job) -> list[int]:
    """Return the numbers outside of the ranks of a job that has numbers of its own."""
    known = pids_known_to(first_of(job))
    assert known is not None
    return [known[each["pid"]] for each in job.wait_until_ready()]


def test_jobs_whose_launchers_have_the_same_number_are_told_apart(numbered: Job, compiler: Compiler) -> None:
    """Open MPI names a job by its host and its launcher's PID; an agent of root's is asked by that name."""
    with job_of_user(compiler, DEBIAN, DEBIAN, with_numbers) as other:
        for job in (numbered, other):
            document = report("root", job)
            compared(document, DEBIAN)
            assert pids_of(document) == own_pids_of(job)
