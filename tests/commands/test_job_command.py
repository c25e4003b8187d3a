"""``mqs job`` and ``mqs diff``: their options, where the report goes, and exit codes, on a real job that hangs."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from mqs_dll.commands import cli
from mqs_dll.commands.job import doubt_about
from mqs_dll.debugger.job.read import Doubt
from mqs_dll.debugger.proc import read_status, thread_ids
from mqs_dll.job.calls import LONG_CALL
from mqs_dll.job.saved import load, save
from tests.support import made_up_job as made_up
from tests.support.gallery import kernel_counts
from tests.support.jobs import Compiler, Job, running
from tests.support.mpis import OB1, mpichs, open_mpis
from tests.support.synthetic_job import ring
from tests.support.targets import compile_target, links_of, wait_until
from tests.support.targets import running as running_program

MPI = open_mpis()[0]
PROVED, SUSPECTED, NOT_READ, USAGE, INTERRUPTED = 1, 2, 3, 64, 130


@pytest.fixture(scope="module")
def hung(compiler: Compiler) -> Iterator[Job]:
    """Return a job whose rank 1 waits for another tag than rank 2 has sent."""
    with running(compiler, MPI, OB1, "hangs/tag_mismatch", 3) as job:
        job.wait_until_ready()
        wait_until(lambda: cli.main(["job", str(job.launcher.pid), "--interval", "100ms"]) == PROVED)
        yield job


@pytest.fixture(scope="module")
def saved(hung: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the job in a file."""
    path = tmp_path_factory.mktemp("saved") / "hang.json.gz"
    assert cli.main(["job", str(hung.launcher.pid), "--interval", "100ms", "--save", str(path)]) == PROVED
    return path


def mqs(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run the command in this process; return its exit code and what it printed."""
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as end:  # how argparse exits
        code = int(end.code or 0)
    return code, *capsys.readouterr()


def ranks_of(job: Job) -> list[int]:
    """Return the PIDs of a job's ranks."""
    return [truth["pid"] for truth in job.wait_until_ready()]


def run_on(pid: int) -> bool:
    """Return whether all threads of a process run and nobody holds them."""
    statuses = [read_status(thread) for thread in thread_ids(pid)]
    return bool(statuses) and all(each.state in "RS" and not each.tracer for each in statuses)


# ---------------------------------------------------------------- which job


def test_the_list_names_each_job_with_its_launcher(hung: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """Without more words the command lists the jobs of this machine."""
    capsys.readouterr()
    code, out, err = mqs(capsys, "job")
    (line,) = [line for line in out.splitlines() if line.split()[:1] == [str(hung.launcher.pid)]]
    assert (code, err) == (0, "")
    assert line.split()[1:3] == ["3", "tag_mismatch"]


@pytest.mark.alone  # others may run the same program; as long as they share it, too, but none shares this one
def test_a_job_is_named_by_launcher_rank_or_program(compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    """All three lead to the same job, which goes on afterwards."""
    with running(compiler, MPI, OB1, "hangs/persistent", 2) as job:
        ranks = [each["pid"] for each in job.wait_until_ready()]
        wait_until(lambda: mqs(capsys, "job", job.launcher.pid, "--interval", "100ms")[0] == PROVED)
        for what in (job.launcher.pid, ranks[1], "persistent"):
            code, out, err = mqs(capsys, "job", what, "--interval", "100ms")
            assert (code, err) == (PROVED, "")
            assert out.startswith("STUCK FOR GOOD: ")
        assert [run_on(pid) for pid in ranks] == [True] * 2


ODD_NAMES = ("vt\x0b", "ff\x0c", "fs\x1c", "nel\x85", "separator\u2028", "return\r", "newline\n7f00-8000")


def test_names_that_anybody_may_choose_are_read_as_they_are(
    compiler: Compiler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of libraries that hold ends of lines, and of processes that resemble fields, harm no sample of them."""
    library = compile_target(tmp_path / "odd.so", "odd.c", "-shared", "-fPIC")
    preload = [str(shutil.copy(library, tmp_path / f"{name}.so")) for name in ODD_NAMES]
    environment = {"LD_PRELOAD": ":".join(preload)}
    sleeper = compile_target(tmp_path / "sleeper", "sleeper.c", "-pthread")
    with (
        running_program(sleeper, "threads", environment=environment),
        running(compiler, MPI, OB1, "hangs/tag_mismatch", 3, environment=environment) as job,
    ):
        ranks = ranks_of(job)
        maps = Path(f"/proc/{ranks[0]}/maps").read_bytes()
        assert all(os.fsencode(name.replace("\n", r"\012")) in maps for name in ODD_NAMES)
        capsys.readouterr()
        assert mqs(capsys, "job")[0] == 0
        wait_until(lambda: mqs(capsys, "job", job.launcher.pid, "--interval", "100ms")[0] == PROVED)
        code, out, err = mqs(capsys, "show", ranks[1])
        assert (code, err) == (0, "")
        assert r"a) R 1 (" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["0"],
        ["4711", "--load", "x"],
        ["4711", "--core", "x"],
        ["--sysroot", "/", "4711"],
        ["--load", "x", "--no-stop"],
        ["--core", "x", "--no-count"],
        ["4711", "--limit", "0"],
        ["4711", "--samples", "0"],
        ["4711", "--interval", "1h"],
        ["4711", "--json", "--csv"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What contradicts itself is exit code 64 and a usage, and nothing is read."""
    code, out, err = mqs(capsys, "job", *arguments)
    assert (code, out) == (USAGE, "")
    assert err.startswith("usage: mqs job")


# ---------------------------------------------------------------- how it is read


def test_one_sample_proves_nothing_that_a_message_under_way_could_change(
    hung: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --samples 1 the deadlock is suspected, and the report says what would prove it."""
    capsys.readouterr()
    code, out, _ = mqs(capsys, "job", hung.launcher.pid, "--samples", "1")
    assert code == SUSPECTED
    assert "--samples 2" in out


def test_without_stopping_nothing_is_proved(hung: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """With --no-stop no rank stands still, and the report says so."""
    capsys.readouterr()
    code, out, _ = mqs(capsys, "job", hung.launcher.pid, "--no-stop", "--interval", "100ms", "--json")
    assert code == SUSPECTED
    assert json.loads(out)["job"]["stopped"] is False


def test_without_counting_what_a_loop_could_be_is_suspected(
    compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --no-count the report says so, and what would prove it: MPICH doesn't number its messages."""
    mpi = next(mpi for mpi in mpichs() if mpi.name == "mpich-4.2.3-pypi")
    if not kernel_counts():
        pytest.skip("this kernel doesn't let us count: see kernel.perf_event_paranoid")
    with running(compiler, mpi, mpi.transports[0], "hangs/three_cycle", 3) as job:
        job.wait_until_ready()
        wait_until(lambda: mqs(capsys, "job", job.launcher.pid)[0] == PROVED)
        code, out, _ = mqs(capsys, "job", job.launcher.pid, "--no-count")
        assert code == SUSPECTED
        said = " ".join(out.split())
        assert "without --no-count it can be proved" in said
        assert "returns from MPI calls were not counted (--no-count)" in said
        _, out, _ = mqs(capsys, "job", job.launcher.pid, "--no-count", "--json")
        assert json.loads(out)["job"]["counted"] is False


def test_ctrl_c_between_two_samples_leaves_the_job_alone(hung: Job) -> None:
    """It is exit code 130 without more words, and the ranks go on."""
    arguments = [sys.executable, "-m", "mqs_dll", "job", str(hung.launcher.pid), "--interval", "60s"]
    ranks = ranks_of(hung)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: f"/proc/{ranks[0]}/mem" in links_of(process.pid))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (INTERRUPTED, "", "")
    assert [run_on(pid) for pid in ranks] == [True] * 3


# ---------------------------------------------------------------- where the report goes


def test_a_saved_job_gives_the_same_report(hung: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What --save has kept gives --load the same verdict, to the letter."""
    capsys.readouterr()
    path = tmp_path / "hang.json"
    live = mqs(capsys, "job", hung.launcher.pid, "--interval", "100ms", "--json", "--save", path)
    again = mqs(capsys, "job", "--load", path, "--json")
    assert live[0] == PROVED
    assert (again[0], json.loads(again[1])) == (live[0], json.loads(live[1]))


def test_the_report_as_csv_and_as_a_graph(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--csv and --dot print that and nothing else."""
    capsys.readouterr()
    _, table, _ = mqs(capsys, "job", "--load", saved, "--csv")
    assert {row["call"] for row in csv.DictReader(io.StringIO(table))} >= {"MPI_Barrier", "MPI_Recv"}
    _, graph, _ = mqs(capsys, "job", "--load", saved, "--dot")
    assert graph.startswith("digraph")
    assert "7777" in graph


def test_pictures_are_written_beside_the_text(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--html and --svg write files; the text is printed as well."""
    capsys.readouterr()
    page, picture = tmp_path / "hang.html", tmp_path / "hang.svg"
    code, out, _ = mqs(capsys, "job", "--load", saved, "--html", page, "--svg", picture)
    assert (code, out.startswith("STUCK FOR GOOD")) == (PROVED, True)
    assert "tag 7777" in page.read_text()
    assert "<svg" in picture.read_text()


def test_all_ranks_are_printed_on_demand(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--all-ranks adds each rank with its stack and its queues."""
    capsys.readouterr()
    _, out, _ = mqs(capsys, "job", "--load", saved, "--all-ranks")
    assert [f"Rank {rank} on" in out for rank in range(4)] == [True, True, True, False]
    assert '"halo exchange"' in out


@pytest.mark.parametrize("option", ["--html", "--save"])
def test_a_file_that_cannot_be_written(
    saved: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is exit code 3 and a sentence with the file's name."""
    capsys.readouterr()
    path = tmp_path / "missing" / "file"
    code, out, err = mqs(capsys, "job", "--load", saved, option, path)
    assert (code, out) == (NOT_READ, "")
    assert str(path) in err


# ---------------------------------------------------------------- mqs diff


def test_two_saved_jobs_are_compared(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 says that nothing differs, 1 that something does, in text and in JSON."""
    capsys.readouterr()
    job = load(str(saved))
    fewer = tmp_path / "fewer.json"
    save(replace(job, processes=job.processes[:2]), str(fewer))
    code, out, err = mqs(capsys, "diff", saved, saved)
    assert (code, err) == (0, "")
    assert "nothing differs" in out
    assert mqs(capsys, "diff", saved, fewer)[0] == 1
    code, out, _ = mqs(capsys, "diff", saved, fewer, "--json")
    assert (code, json.loads(out)["schema"]) == (1, "mqs-diff/2")


# ---------------------------------------------------------------- terminals


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_has_colours_unless_somebody_wants_none(
    variables: Mapping[str, str], coloured: bool, tmp_path: Path
) -> None:
    """The variable NO_COLOR says so (no-color.org), or the terminal."""
    file = tmp_path / "job.json.gz"
    save(ring(4), str(file))
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        subprocess.run(
            [sys.executable, "-m", "mqs_dll", "job", "--load", file], stdout=theirs, env=environment, check=False
        )
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(screen), b""))
    assert b"SEEMS STUCK" in shown or b"STUCK FOR GOOD" in shown
    assert bool(re.search(rb"\x1b\[[\d;]*3\d", shown)) == coloured


def _read(screen: IO[bytes]) -> bytes:
    try:
        return screen.read(1 << 16)
    except OSError:  # nobody has it open any more
        return b""


def test_who_is_patient_looks_once_more_at_a_collective_call_in_which_all_are() -> None:
    """It may take some seconds: `mqs job` waits for that, `mqs` alone doesn't; nor is what is suspected waited for."""
    inside = [made_up.collective("MPI_Bcast", source=1 - number) for number in range(2)]
    ranks = [
        made_up.rank(number, each, call="MPI_Bcast", earlier=made_up.rank(number, each, call="MPI_Bcast"))
        for number, each in enumerate(inside)
    ]
    short, long = (made_up.job(*ranks, interval=seconds) for seconds in (1.0, LONG_CALL))
    assert [doubt_about(short), doubt_about(short, patient=False)] == [Doubt.LASTS, Doubt.PASSES]
    assert doubt_about(long) is Doubt.PASSES
