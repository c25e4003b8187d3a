"""What `mqs env` preloads: a debugger finds libmqs.so through MPIR_dll_name, and may attach where Yama is in the way.

The machines that run this have no Yama. What is preloaded before (tests/targets/recorder.c) shows the library another
file as ptrace_scope and records its prctl: the call is seen, not what the kernel makes of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqs_dll.commands.which_library import AUTO, open_library
from mqs_dll.debugger import library_path
from mqs_dll.debugger.collect import take_snapshot
from mqs_dll.debugger.live import LiveProcess
from tests.support.jobs import Compiler, running
from tests.support.mpis import OB1, Mpi, open_mpis
from tests.support.targets import compile_target
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


# ---------------------------------------------------------------- Yama


class Yama:
    """A ptrace_scope that the preloaded library finds, and what it does about it."""

    def __init__(self, folder: Path) -> None:
        """Compile what shows it and records."""
        self._scope, self._record = folder / "ptrace_scope", folder / "record"
        self.recorder = compile_target(folder / "recorder.so", "recorder.c", "-shared", "-fPIC")

    def environment(self, scope: str | None, **more: str) -> dict[str, str]:
        """Return what a program of a job has then; None stands for a kernel without Yama."""
        self._record.unlink(missing_ok=True)
        self._scope.unlink(missing_ok=True)
        if scope is not None:
            self._scope.write_text(f"{scope}\n")
        preload = f"{self.recorder}:{library_path.dll_name_library()}"
        return {"LD_PRELOAD": preload, "SCOPE": str(self._scope), "RECORD": str(self._record), **more}

    def calls(self) -> list[tuple[int, int]]:
        """Return the PIDs in which the library has called prctl(PR_SET_PTRACER), each with whom it named."""
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        calls = (line.split(maxsplit=2) for line in lines)
        name = library_path.dll_name_library().name
        return [(int(pid), int(whom)) for pid, whom, caller in calls if Path(caller).name == name]


@pytest.fixture
def yama(tmp_path: Path) -> Yama:
    """Give one."""
    return Yama(tmp_path)


ANYBODY = -1
"""PR_SET_PTRACER_ANY."""


def run(program: Path | str, environment: dict[str, str]) -> tuple[int, str]:
    """Return the PID that a program had, and what it has printed and complained of."""
    with subprocess.Popen(
        [program], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        return process.pid, process.communicate(timeout=60)[0]


@pytest.mark.parametrize(
    ("scope", "more", "asks"),
    [
        ("1", {}, True),
        ("1", {"MQS_PTRACE": "yes"}, True),
        ("1", {"MQS_PTRACE": "no"}, False),
        ("0", {}, False),
        ("2", {}, False),
        ("3", {}, False),
        ("", {}, False),
        (None, {}, False),
    ],
)
def test_debuggers_may_attach_where_ancestors_alone_could(
    scope: str | None, more: dict[str, str], asks: bool, yama: Yama, tmp_path: Path
) -> None:
    """At scope 1 a program lets any process in, once; elsewhere, and with MQS_PTRACE=no, it doesn't.

    It prints nothing, and starts with errno, descriptors and signals as it would have without.
    """
    program = compile_target(tmp_path / "untouched", "untouched.c")
    alone = run(program, {})[1]
    pid, said = run(program, yama.environment(scope, **more))
    assert yama.calls() == ([(pid, ANYBODY)] if asks else [])
    assert said == alone
    assert said.startswith("errno 0, ")


@pytest.mark.root
def test_a_program_with_more_rights_than_its_user_lets_nobody_in() -> None:
    """The linker preloads nothing into a set-user-ID program; one that names the library itself isn't opened by it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)  # the program is another user's
        yama = Yama(folder)
        library = str(shutil.copy(library_path.dll_name_library(), folder))
        linked = ("-Wl,--no-as-needed", str(yama.recorder), library)
        program = compile_target(folder / "untouched", "untouched.c", *linked)
        environment = yama.environment("1") | {"LD_PRELOAD": ""}
        pid, said = run(program, environment)
        assert (yama.calls(), said[:8]) == ([(pid, ANYBODY)], "errno 0,")
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        environment = yama.environment("1") | {"LD_PRELOAD": ""}
        assert run(program, environment)[1].startswith("errno 0,")
        assert yama.calls() == []


def test_each_rank_of_a_job_lets_debuggers_in(yama: Yama, compiler: Compiler) -> None:
    """What `mqs env` exports does it in ranks of a real MPI."""
    mpi = next(mpi for mpi in open_mpis() if mpi.in_matrix)
    environment = {**exported_by_mqs_env(), **yama.environment("1")}
    with running(compiler, mpi, OB1, "receives", 4, environment=environment) as job:
        ranks = {truth["pid"] for truth in job.wait_until_ready()}
    assert {(pid, ANYBODY) for pid in ranks} <= {*yama.calls()}
