"""The benchmarks whose figures the README quotes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import commands, full_node, fuzz, healthy, helper, own_library, start, sweep
from benchmarks import run as behind_run
from benchmarks.suites import __main__ as suites
from benchmarks.suites.programs import Program, find_programs, some
from tests.support.jobs import HANGS, PROGRAMS, Compiler
from tests.support.mpis import Mpi, find_mpis, first_of, open_mpis
from tests.support.targets import python_code

pytestmark = pytest.mark.slow


def test_the_benchmark_counts_and_times_a_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints a row for each MPI at hand, and one for Open MPI's own library where Debian's is: both show all."""
    here = [mpi.name for mpi in find_mpis() if mpi.name in sweep.MPIS and not mpi.missing]
    if not here:
        pytest.skip(f"no MPI on this machine: {open_mpis()[0].cure}")
    monkeypatch.setenv("COLUMNS", "200")
    assert sweep.main(["--loads", "dozens", "--rounds", "1", "--latency", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    own = ["openmpi-debian: its own"] if own_library.LIBRARY.exists() and "openmpi-debian" in here else []
    ours = [f"{name}: libmqs{over}" for name in here for over in ("", " over UCX")]
    assert sorted(row[2] for row in rows) == sorted([*ours, *own])
    assert {len(row[-2].split(", ")) for row in rows if "UCX" in row[2]} == {len(("reads", "bytes", "time"))}
    assert {row[3] for row in rows} == {"24"}


def cells(printed: str) -> list[list[str]]:
    """Return the cells of the rows of a table, without its head."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "│" in line]


def test_what_the_helper_costs_and_what_harm_does_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each place of Python and size of fetches; one for each MPI and transport, where nothing is wrong."""
    mpi = first_of(open_mpis())
    assert helper.main(["--rounds", "1", "--mpis", mpi.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [each.partition(":")[0].split()[1] for each in lines] == ["embedded", "helper"] * 2
    assert fuzz.main(["--cases", "40", "--first", "7", "--places", f"{mpi.name}-ob1"]) == 0
    assert "40 cases, 0 wrong" in capsys.readouterr().out


def test_what_commands_cost_by_themselves_and_through_a_library_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each command, with what each way took and the ratio of the two."""
    monkeypatch.setenv("COLUMNS", "200")
    mpi = first_of(open_mpis())
    assert commands.main(["--rounds", "1", "--mpis", mpi.name]) == 0
    rows = cells(capsys.readouterr().out)
    assert [row[:2] for row in rows] == [["show", mpi.name], ["job", mpi.name]]
    for direct, through, ratio in (map(float, cell.split(", ")) for row in rows for cell in row[2:]):
        assert abs(direct / through - ratio) < 0.1


def test_what_a_full_node_and_the_first_second_cost_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each number of ranks, beside gdb's times; one for each command, with the modules that it imports."""
    monkeypatch.setenv("COLUMNS", "200")
    mpi = first_of(open_mpis())
    assert full_node.main(["--ranks", "2", "9", "--rounds", "1", "--gdb", "1", "--mpis", mpi.name]) == 0
    assert start.main(["--rounds", "1", "--mpis", mpi.name]) == 0
    rows = cells(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["2", "9", "mqs --help", "mqs show", "mqs job"]
    assert {row[1] for row in rows} == {mpi.name}
    modules = [int(row[3]) for row in rows[2:]]
    assert modules == sorted(modules)


# ---------------------------------------------------------------- suites of others

BARRIERS = """
#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
"""


NOBODY = {"programs": 0, "refused": 0, "ended": 0, "hang": 0, "proved": 0, "healthy": 0, "accused": 0}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder with two hangs of the gallery, a program that ends and one that does not compile."""
    folder = tmp_path / "suite"
    (folder / "hangs").mkdir(parents=True)
    for name in ("hang.h", "head_to_head.c", "different_order.c"):
        shutil.copy(PROGRAMS / HANGS / name, folder / "hangs")
    for name, text in {"barriers": BARRIERS, "broken": BARRIERS.replace("argv)\n", "argv\n")}.items():
        (folder / "correct").mkdir(exist_ok=True)
        (folder / "correct" / f"{name}.c").write_text(text)
    return folder


def test_the_suites_are_run_sampled_and_counted(
    suite: Path, tmp_path: Path, mpi: Mpi, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each program counts as what became of it and what was said of it; what the results have is not run again."""
    command = options(mpi, suite, tmp_path / "results")
    assert run([*command, "--only", "hangs"], capsys) == {**NOBODY, "programs": 2, "hang": 2, "proved": 2}
    assert run([*command, "--only", "broken"], capsys) == {**NOBODY, "programs": 1, "refused": 1}
    assert run([*command, "--only", "barriers", "--time", "1m"], capsys) == {**NOBODY, "programs": 1, "ended": 1}

    rests = ["--slow", "3s", "--time", "3s", "--patience", "2m"]
    sleepy = [*options(mpi, suite, tmp_path / "slow"), "--only", "barriers", *rests]
    assert run(sleepy, capsys) == {**NOBODY, "programs": 1, "healthy": 1}

    command[command.index("--mpicc") + 1] = "no-such-compiler"
    assert run(command, capsys) == {**NOBODY, "programs": 4, "refused": 1, "ended": 1, "hang": 2, "proved": 2}


def test_a_launcher_alone_does_not_hang(
    suite: Path, tmp_path: Path, mpi: Mpi, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program whose ranks have exited is no hang, even where its launcher is still there."""
    stays = tmp_path / "mpiexec"
    stays.write_text(
        f'#!/bin/sh\n{" ".join([str(mpi.mpiexec), *mpi.options])} "$@"\n[ "$3" = true ] || exec sleep 600\n'
    )
    stays.chmod(0o755)
    command = options(mpi, suite, tmp_path / "results")
    command[command.index("--mpiexec") + 1] = str(stays)
    rushed = ["--only", "barriers", "--time", "10s", "--patience", "1s"]
    assert run([*command, *rushed], capsys) == {**NOBODY, "programs": 1, "ended": 1}


@pytest.fixture
def mpi(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> Mpi:
    """Return an MPI of this machine, whose variables are set."""
    found = first_of(find_mpis())
    for name, value in {**found.environment, **compiler.sleeps(found, found.transports[0])}.items():
        monkeypatch.setenv(name, value)
    return found


def test_a_launcher_that_starts_nothing_is_reported(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs that were never started aren't counted as healthy."""
    assert suites.main([str(suite), "--mpiexec", "false", "--results", str(tmp_path / "results")]) == suites.EXIT_FAILED
    assert "false -n 1 true failed" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def options(mpi: Mpi, folder: Path, results: Path) -> list[str]:
    """Return the arguments for an MPI."""
    compiler = ["--mpicc", f"{mpi.mpicc} -std=gnu11 -pthread", "--mpiexec", " ".join([str(mpi.mpiexec), *mpi.options])]
    return [str(folder), *compiler, "--ranks", "2", "--results", str(results)]


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Run the benchmark and return the last row of its table; "accused" is who of the healthy was, by a proof."""
    assert suites.main(words) == 0
    cells = next(line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["all"])
    programs, refused, ended, hang, proved, _, _, _, healthy, accused, _ = map(int, cells)
    found = {"programs": programs, "refused": refused, "ended": ended, "hang": hang, "proved": proved}
    return {**found, "healthy": healthy, "accused": accused}


def test_programs_report_their_ranks_and_their_error(tmp_path: Path) -> None:
    """The MPI Bugs Initiative's header names a run's ranks, arguments and error, MUST's its ranks; else the folder."""
    header = "/*\nBEGIN_MBI_TESTS\n  $ mpirun -np 4 $zero_buffer ${EXE} 1\n  | ERROR: TagMatching\n  | words\n"
    again = "  $ mpirun -np 2 ${EXE}\n  | OK\n  | words\nEND_MBI_TESTS\n*/"
    texts = {
        "mbi/both.c": header + again,
        "must/dead.c": "// RUN: %must-run %mpiexec-numproc-flag 5 \\\n// CHECK: MUST detected a deadlock\n",
        "must/fineNoError.cpp": "// RUN: %must-run %mpiexec-numproc-flag 2 \\\n",
        "coll/other.c": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\nint main(void) {{ MPI_Init(0, 0); }}")
    (tmp_path / "coll/helper.c").write_text("void helper(void) { MPI_Barrier(MPI_COMM_WORLD); }")
    found = find_programs(tmp_path, ranks=3)
    assert found == [
        Program("coll/other.c", (), 3, "coll"),
        Program("mbi/both.c", ("1",), 4, "TagMatching"),
        Program("mbi/both.c", (), 2, "OK"),
        Program("must/dead.c", (), 5, "deadlock"),
        Program("must/fineNoError.cpp", (), 2, "OK"),
    ]
    assert [program.path for program in found if program.correct] == ["mbi/both.c", "must/fineNoError.cpp"]
    few = some(found, each=1, seed=0)
    assert len(few) == 4
    assert set(few) < set(some(found, each=2, seed=0))


def test_a_program_is_read_again_and_again(
    compiler: Compiler, mpi: Mpi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is said against it is printed and counted; it is run again when it ends, beside the files that it needs."""
    monkeypatch.setattr(healthy, "MAX_IN_VAIN", 2)
    mpiexec = [str(mpi.mpiexec), *mpi.options, "-n", "2"]
    fine, hangs = (str(compiler.compile(mpi, f"{HANGS}{name}")) for name in ("ping_pong", "head_to_head"))
    in_its_folder = ["sh", "-c", f"test -f {Path(__file__).name} && exec {' '.join(mpiexec)} {fine} ."]
    options = ["--looks", "2", "--interval", "100ms", "--copy", __file__, "--"]

    assert healthy.main([*options, *in_its_folder]) == 0
    assert capsys.readouterr().out.startswith("2 looks: 2 nothing stuck")
    assert healthy.main([*options, *mpiexec, hangs, "."]) == 1
    assert "look 1: Stuck for good" in capsys.readouterr().out
    assert healthy.main([*options, "true"]) == 1
    assert capsys.readouterr().out.startswith("0 looks: none saw it; 4 more saw nothing of it")


WITHOUT = """
import importlib, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest", "_pytest", "hypothesis", "xdist"):
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
import benchmarks
for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""


def test_they_take_no_test_runner() -> None:
    """Each of them loads where neither pytest nor hypothesis is installed."""
    done = subprocess.run(python_code(WITHOUT), capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "benchmarks.sweep" in done.stdout.split()


def test_the_benchmark_compares_a_command_with_itself_behind_mqs_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each way, and the ratio; a command that fails is said."""
    assert behind_run.main(["--rounds", "2", "--", "true"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["alone", "behind mqs run", "ratio"]
    with pytest.raises(SystemExit, match="false ended with 1"):
        behind_run.main(["--rounds", "1", "--", "false"])
