"""The Python interface: its names, its example in docs/python.md, and what importing the package costs a debugger."""

from __future__ import annotations

import dataclasses
import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mqs_dll
from mqs_dll.commands import api
from tests.support.jobs import HANGS, Compiler, running
from tests.support.mpis import OB1, Mpi, mpichs, open_mpis

EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_every_name_of_the_interface_comes_from_the_package() -> None:
    """What api.py offers, and nothing else, is imported from mqs_dll."""
    assert {name: getattr(mqs_dll, name) for name in api.__all__} == {name: getattr(api, name) for name in api.__all__}
    with pytest.raises(AttributeError, match="no attribute 'opener'"):
        _ = mqs_dll.opener


def test_importing_the_package_loads_nothing_of_the_debugger_side() -> None:
    """libmqs.so imports mqs_dll inside a debugger, where neither drgn nor rich may be needed."""
    script = "import sys, mqs_dll; import mqs_dll.library.session; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "mqs_dll.library.session" in loaded
    assert not {"drgn", "rich", "mqs_dll.commands.api", "mqs_dll.debugger"}.intersection(loaded)


@pytest.mark.parametrize("name", ["Job", "Snapshot", "QueueSnapshot", "Verdict", "Finding"])
def test_records_are_frozen_dataclasses(name: str) -> None:
    """What was read can't be changed afterwards."""
    record = getattr(mqs_dll, name)
    assert dataclasses.is_dataclass(record)
    assert vars(record)["__dataclass_params__"].frozen


@pytest.mark.parametrize("mpi", open_mpis()[:1], ids=lambda mpi: mpi.name)
def test_the_example_of_the_page_works(mpi: Mpi, compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    """The example reads a whole job and prints the headline and each rank's pending receives."""
    (example,) = EXAMPLE.findall(PAGE.read_text())
    with running(compiler, mpi, OB1, "receives", 4) as job:
        truths = job.wait_until_ready()
        exec(example.replace("4711", str(job.launcher.pid)), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip()
    named = {int(line.split()[0]) for line in lines if line.endswith("hidden") or line[-1].isdigit()}
    assert named == {truth["world_rank"] for truth in truths}


@pytest.mark.parametrize("mpi", [open_mpis()[0], mpichs()[-4]], ids=lambda mpi: mpi.name)
def test_a_program_may_read_as_many_jobs_as_it_likes(mpi: Mpi, compiler: Compiler) -> None:
    """Of a job that was read no file stays open, though Python's search for garbage never runs."""
    with running(compiler, mpi, mpi.transports[0], HANGS + "tag_mismatch", 3) as job:
        job.wait_until_ready()
        mqs_dll.read_job(job.launcher.pid)
        before = len([*Path("/proc/self/fd").iterdir()])
        gc.disable()
        try:
            mqs_dll.read_job(job.launcher.pid)
        finally:
            gc.enable()
        assert len([*Path("/proc/self/fd").iterdir()]) == before
