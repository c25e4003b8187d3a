"""Fixtures for tests that look at running MPI jobs, and the order in which those tests run."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.jobs import Compiler
from tests.support.matrix import Matrix
from tests.support.mpis import Mpi, find_mpis
from tests.support.scenes import Scene, Stage

LEFT_OUT = pytest.StashKey[bool]()
"""Set when the user chose some of the tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this test suite."""
    parser.addoption("--write-matrix", action="store_true", help="write docs/support-matrix.md from what this run saw")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of this test suite."""
    # A shell starts background jobs with these ignored, and children inherit that: neither Ctrl-C nor cores would come.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    config.addinivalue_line("markers", "after_all: looks at what all other tests of the session saw")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of one scene behind each other, and those that look at what all others saw at the end."""
    together: dict[object, int] = {}
    for index, item in enumerate(items):
        together.setdefault(scene_of(item) or item, index)
    items.sort(key=lambda item: (item.get_closest_marker("after_all") is not None, together[scene_of(item) or item]))


def scene_of(item: pytest.Item) -> object:
    """Return the parameters of the scene that a test wants, None for a test without one."""
    return (
        item.callspec.params.get("scene") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    )


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember that a part of the tests was left out."""
    items[0].config.stash[LEFT_OUT] = True


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """Return what compiles test programs, each once a session."""
    return Compiler(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def stage(compiler: Compiler) -> Iterator[Stage]:
    """Return where scenes are on; the last one ends with the session."""
    found = Stage(compiler)
    yield found
    found.close()


@pytest.fixture
def scene(request: pytest.FixtureRequest, stage: Stage) -> Scene:
    """Return a running job in its known state, the same for all tests that name the same one."""
    mpi: Mpi = request.param[0]
    if mpi.missing:
        pytest.skip(mpi.missing)
    return stage.scene(request.param)


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """Return the support matrix that the tests of this session fill."""
    return Matrix(find_mpis())
