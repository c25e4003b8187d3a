"""A debugger that knows nothing but a process finds libmqs.so through MPIR_dll_name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqs_dll import library_path
from mqs_dll.debugger.collect import take_snapshot
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.find import AUTO, choose_library
from mqs_dll.debugger.live import LiveProcess
from tests.support.jobs import OB1, Compiler, Mpi, find_mpis, running
from tests.support.truth import Truth, compare_communicators, compare_operations
from tests.support.ways import run_host, seen_by_host


@pytest.fixture(scope="module", params=find_mpis(), ids=lambda mpi: mpi.name)
def truth(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[Truth]:
    """Return what rank 0 of a job wrote down that runs with what `mqs env` exports."""
    mpi: Mpi = request.param
    if mpi.missing:
        pytest.skip(mpi.missing)
    environment = {"LD_PRELOAD": str(library_path.dll_name_library())}
    with running(compiler, mpi, OB1, "receives", 4, environment=environment) as job:
        yield Truth.from_json(job.wait_until_ready()[0])


def test_a_debugger_in_c_finds_libmqs_in_the_process(truth: Truth) -> None:
    """A C debugger with a PID alone reads the preloaded MPIR_dll_name, loads libmqs.so and sees the queues."""
    document = run_host("-", truth.pid)
    seen = seen_by_host(document)
    assert document["library"] == str(library_path.library())
    assert document["version"].startswith("libmqs")
    assert compare_communicators(truth, seen.communicators) == []


def test_a_debugger_in_python_finds_libmqs_in_the_process(truth: Truth) -> None:
    """The Python debugger with a PID alone does the same."""
    with LiveProcess(truth.pid) as process:
        path = choose_library(process, AUTO, {})
        snapshot = take_snapshot(DynamicLibrary(path), process)
        assert path == str(library_path.library())
        assert compare_operations(truth, snapshot.communicators, process.fetch) == []
