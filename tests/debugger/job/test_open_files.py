"""The limit of open files, which reading many ranks needs to be higher than shells set it."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from mqs_dll.debugger.job.open_files import allow_open_files

LOW = 256


@pytest.fixture
def hard() -> Iterator[int]:
    """Give the hard limit, with the soft one low; put that back at the end."""
    soft, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, limit))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limit))


@pytest.mark.parametrize(("ranks", "files"), [(20, 20 * 51), (1_000_000, None)])
def test_the_soft_limit_follows_the_ranks(hard: int, ranks: int, files: int | None) -> None:
    """There may be as many open files as the ranks take, or as the hard limit allows, which stays as it is."""
    allow_open_files(ranks)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= (hard if files is None else files)


def test_an_enough_limit_stays(hard: int) -> None:
    """A limit that is high enough is left alone."""
    allow_open_files(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == LOW
