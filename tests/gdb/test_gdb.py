"""libmqs inside Debian's gdb: on a process, a core file and a gdbserver, every field is what ``mqs show`` shows."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.commands.cli import main
from mqs_dll.verdict.results import Outcome
from tests.support.cores import gcore
from tests.support.gdb import gdb, gdbserver
from tests.support.jobs import Compiler, running
from tests.support.matrix import Matrix, Place
from tests.support.mpis import OB1, find_mpis
from tests.support.places import HANG, compared
from tests.support.scenes import RECEIVES, UNEXPECTED, Scene, places, scenes

PLACES = [
    place
    for place in places(RECEIVES, UNEXPECTED)
    if (place[0].name, place[1].name, place[2])
    in {("openmpi-debian", "ob1", RECEIVES), ("mpich-4.3.2-pypi", "ch4 shm", UNEXPECTED)}
]

MPI = next(each for each in find_mpis() if each.name == "openmpi-debian")


def shown(pid: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what ``mqs show`` prints of a process."""
    assert main(["show", "--windows", "--datatypes", "--json", str(pid)]) == 0
    return without_costs(capsys.readouterr().out)


def without_costs(text: str) -> dict[str, Any]:
    """Return a document without what differs from way to way: whose Python read it, and for how long it stood."""
    document: dict[str, Any]
    document, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    document["library"]["version"] = document["stop"] = None
    return document


SHOW = "mqs show --windows --datatypes --json"


@scenes(PLACES)
def test_each_way_of_gdb_shows_what_mqs_shows(scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Attached to a rank, with its core file, or through a gdbserver, the document is that of ``mqs show``."""
    pid = scene.truths[0].pid
    expected = shown(pid, capsys)
    assert without_costs(gdb(f"attach {pid}", SHOW)) == expected
    core = gcore(pid, tmp_path / "core")
    program = str(Path(f"/proc/{pid}/exe").resolve())
    assert without_costs(gdb(f"core-file {core}", SHOW, program=program)) == expected
    with gdbserver(pid) as address:
        assert without_costs(gdb(f"target remote {address}", SHOW, "detach", program=program)) == expected


@pytest.fixture(scope="module")
def hang(compiler: Compiler) -> Iterator[list[int]]:
    """Give the ranks of a job, of which rank 1 waits for a tag that nobody sends."""
    with running(compiler, MPI, OB1, HANG.program, HANG.ranks) as job:
        yield [each["pid"] for each in job.wait_until_ready()]


def test_a_job_is_its_inferiors(
    hang: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str], matrix: Matrix
) -> None:
    """``mqs job`` in gdb judges by one sample of all inferiors and gdb's frames; a shell can load what it saves."""
    more = enumerate(hang[1:], start=2)
    attached = [each for number, pid in more for each in ("add-inferior", f"inferior {number}", f"attach {pid}")]
    file = tmp_path / "job.json"
    asked = ("inferior 2", "mqs job", f"mqs job --save {file} --json", "info inferiors")
    printed = gdb(f"attach {hang[0]}", *attached, *asked)
    assert "SEEMS STUCK: rank 1 " in printed
    assert "tag 7776" in printed
    assert re.search(r"0 +seems stuck in MPI_Barrier +\[1-2\] to enter +MPI_COMM_WORLD +tag_mismatch.c:20", printed)
    assert re.search(r"^  main +3: \[0-2\]\n  ├─ MPI_Barrier +tag_mismatch.c:20 +0$", printed, re.MULTILINE)
    assert re.search(r"^\* 2 ", printed, re.MULTILINE)  # the inferior that was selected still is
    assert main(["job", "--load", str(file)]) == Outcome.SUSPECTED
    assert "gdb holds the ranks" in capsys.readouterr().out
    document, _ = json.JSONDecoder().raw_decode(printed, printed.index('{\n  "schema"'))
    matrix.record_place(Place.GDB, compared(document, MPI, "suspected"))


def test_a_rank_without_an_inferior_is_not_read(hang: list[int]) -> None:
    """Of the ranks that gdb doesn't hold nothing is known, and the verdict says so."""
    printed = gdb(f"attach {hang[1]}", "mqs job")
    assert "gdb has no inferior with it" in printed


def test_communicators_are_listed_and_chosen_by_name(hang: list[int]) -> None:
    """``mqs comms`` lists them, ``mqs queues`` takes one by its name, which gdb completes."""
    printed = gdb(f"attach {hang[1]}", "mqs comms", "complete mqs queues halo", "mqs queues halo exchange", "mqs show")
    listed, chosen, everything = re.split("^(?=Process )", printed, flags=re.MULTILINE)
    assert re.search(r'^"halo exchange" +1 of 3 +world ranks 0-2 +0 +1 +1 ', listed, re.MULTILINE)
    assert re.findall(r"^mqs queues .*", listed, re.MULTILINE) == ["mqs queues halo exchange"]
    assert re.search(r"receives +pending +2 +2 +7777 ", chosen)
    assert '"MPI_COMM_WORLD"' in everything
    assert '"MPI_COMM_WORLD"' not in chosen
    assert re.search(r"gdb took \d+\.\d\d s for \d+ reads", everything)


def test_a_failure_is_a_sentence() -> None:
    """Where there is nothing to read, gdb's user is told what is in the way, without a traceback."""
    with subprocess.Popen(["sleep", "60"]) as process:
        attach = f"attach {process.pid}"
        printed = gdb(
            "mqs show", "mqs job", attach, "mqs show", "mqs queues world", "mqs show --everything", "mqs job 1"
        )
        process.kill()
    assert "mqs: gdb's inferior 1 has no process: attach to a rank, or open its core file.\n" in printed
    assert "mqs: no inferior of gdb has a process" in printed
    assert printed.count("uses no MPI") == 2
    assert "mqs show: unrecognized arguments: --everything; see `help mqs show`" in printed
    assert "mqs job: unrecognized arguments: 1;" in printed
    assert "Traceback" not in printed


def test_a_process_that_runs_is_not_read() -> None:
    """What it holds would not fit together: gdb's user is told to interrupt it."""
    with subprocess.Popen(["sleep", "60"]) as process:
        printed = gdb(f"attach {process.pid}", "continue &", "mqs show", "mqs job")
        process.kill()
    assert "mqs: the process of gdb's inferior 1 runs: interrupt it first.\n" in printed


def test_symbols_are_functions_or_variables(hang: list[int]) -> None:
    """Each is found as what it is, and nothing as what it isn't."""
    names = ("PMPI_Recv", "ompi_mpi_comm_world", "no_such_thing")
    ask = f"print([[bool(find(name)) for find in (i.find_function, i.find_symbol)] for name in {names}])"
    printed = gdb(f"attach {hang[0]}", f"python from mqs_dll.gdb.target import GdbImage; i = GdbImage(); {ask}")
    assert "[[True, False], [False, True], [False, False]]" in printed


def test_the_call_is_the_outermost_with_only_the_mpi_in_between() -> None:
    """An MPI calls MPI functions itself; what a program calls from within MPI, in an operation of its own, is its."""
    stack = [
        ("f", "libc.so"),
        ("PMPI_Recv", "libmpi.so"),
        ("PMPI_Bcast", "libmpi.so"),
        ("own", ""),
        ("MPI_Reduce", "libmpi.so"),
    ]
    frames = f"[Frame(function, module, None, None) for function, module in {stack}]"
    imports = "from mqs_dll.job.records import Frame; from mqs_dll.gdb.frames import _call"
    assert gdb(f"python {imports}; print(*_call({frames}))").endswith("MPI_Bcast 2\n")
