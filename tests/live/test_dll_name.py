"""A debugger that knows nothing but a process finds libmqs.so through MPIR_dll_name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mqs_dll.commands.which_library import AUTO, open_library
from mqs_dll.debugger import library_path
from mqs_dll.debugger.collect import take_snapshot
from mqs_dll.debugger.live import LiveProcess
from tests.support.jobs import Compiler, running
from tests.support.mpis import OB1, Mpi, open_mpis
from tests.support.truth.communicators import compare_communicators
from tests.support.truth.queues import compare_operations
from tests.support.truth.written import Truth
from tests.support.ways import run_host, seen_by_host


def exported_by_mqs_env() -> dict[str, str]:
    """Return the variables that a shell has after `eval "$(mqs env)"`."""
    script = 'eval "$("$0" -m mqs_dll env)"; env -0'
    command = ["sh", "-c", script, sys.executable]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    output = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    variables = dict(entry.split("=", 1) for entry in os.fsdecode(output).split("\0") if entry)
    return {name: value for name, value in variables.items() if environment.get(name) != value}


@pytest.fixture(scope="module", params=[mpi for mpi in open_mpis() if mpi.in_matrix], ids=lambda mpi: mpi.name)
def truth(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[Truth]:
    """Return what rank 0 of a job wrote down that runs with what `mqs env` exports."""
    mpi: Mpi = request.param
    with running(compiler, mpi, OB1, "receives", 4, environment=exported_by_mqs_env()) as job:
        yield Truth.from_json(job.wait_until_ready()[0])


def test_a_debugger_in_c_finds_libmqs_in_the_process(truth: Truth) -> None:
    """A C debugger with a PID alone reads the preloaded MPIR_dll_name, loads libmqs.so and sees the queues."""
    (document,) = run_host("-", truth.pid)
    seen = seen_by_host(document)
    assert document["library"] == str(library_path.library())
    assert document["version"].startswith("libmqs")
    assert compare_communicators(truth, seen.communicators) == []


def test_a_debugger_in_python_finds_libmqs_in_the_process(truth: Truth) -> None:
    """The Python debugger with a PID alone does the same."""
    with LiveProcess(truth.pid) as process:
        library = open_library(process, AUTO)
        snapshot = take_snapshot(library, process)
        assert library.path == str(library_path.library())
        assert compare_operations(truth, snapshot.communicators, process.fetch) == []
