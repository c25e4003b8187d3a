"""Fixtures for tests that look at running MPI jobs, and the order in which those tests run."""

from __future__ import annotations

import signal

import pytest

from tests.support.jobs import Compiler, find_mpis
from tests.support.matrix import Matrix

LEFT_OUT = pytest.StashKey[bool]()
"""Set when the user chose some of the tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this test suite."""
    parser.addoption("--write-matrix", action="store_true", help="write docs/support-matrix.md from what this run saw")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of this test suite."""
    # A shell starts background jobs with SIGINT ignored, and children inherit that: Ctrl-C would be tested in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "after_all: looks at what all other tests of the session saw")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that look at what all others saw at the end."""
    items.sort(key=lambda item: item.get_closest_marker("after_all") is not None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember that a part of the tests was left out."""
    items[0].config.stash[LEFT_OUT] = True


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """Return what compiles test programs, each once a session."""
    return Compiler(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """Return the support matrix that the tests of this session fill."""
    return Matrix(find_mpis())
