"""Root looks at what is another user's: with that user's rights, and with none of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

import mqs_dll
from mqs_dll.calibrate.discovery import find
from mqs_dll.calibrate.launch import Installation
from mqs_dll.contract.errors import CalibrationError, ForeignError, NoSuchProcessError, NotPermittedError, StopError
from mqs_dll.debugger import library_path, live
from mqs_dll.debugger.core.core_file import CoreFile
from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.job.find.proctable import read_proctable
from mqs_dll.debugger.job.nodes import agent
from mqs_dll.debugger.library_file import FileProcess
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import Owner, is_wholly_of, mappings, numbers_in, owner_of, read_file, read_stat, start_time
from mqs_dll.debugger.rights import distrusted
from mqs_dll.debugger.stopping import holder, messages
from mqs_dll.debugger.stopping.stop import stopped
from tests.support.cores import gcore
from tests.support.gallery import CORE, Scene
from tests.support.jobs import Compiler, Job, running
from tests.support.matrix import Matrix, Place
from tests.support.mpis import find_mpis
from tests.support.places import HANG, check_findings, compared, until_proved
from tests.support.targets import links_of, wait_until

pytestmark = pytest.mark.root
NOBODY = Owner(65534, 65534)
MPIS = {mpi.name: mpi for mpi in find_mpis()}
NAMES = ("openmpi-debian", "mpich-debian")
"""Of MPIs that every user can read."""
MQS = [sys.executable, "-m", "mqs_dll"]


@pytest.fixture(scope="module", params=NAMES)
def job(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[Job]:
    """Give a job of another user's that hangs."""
    mpi = MPIS[request.param]
    with running(compiler, mpi, mpi.transports[0], "hangs/tag_mismatch", 3, user=NOBODY.user) as job:
        job.wait_until_ready()
        yield job


def sleeps(pid: int) -> bool:
    """Return whether a process has become the program that sleeps, and does."""
    stat = read_stat(pid)
    return stat is not None and (stat.name, stat.state) == ("sleep", "S") and b"libc" in read_file(f"/proc/{pid}/maps")


@pytest.fixture
def sleeper() -> Iterator[int]:
    """Give the PID of a process of another user's that sleeps."""
    with subprocess.Popen(["/bin/sleep", "60"], user=NOBODY.user, group=NOBODY.group, extra_groups=[]) as process:
        try:
            wait_until(lambda: sleeps(process.pid))
            yield process.pid
        finally:
            process.kill()


def mqs(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return what ``mqs`` has said as root."""
    return subprocess.run(
        [*MQS, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, cwd=cwd
    )


def report(job: Job) -> str:
    """Return what ``mqs job --json`` has said of a job as root."""
    said = mqs("job", job.launcher.pid, "--json")
    assert said.stdout, said.stderr
    return said.stdout


@pytest.mark.parametrize("scene", CORE, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_gallerys_core_gets_the_same_verdicts(name: str, scene: Scene, compiler: Compiler, matrix: Matrix) -> None:
    """Root sees of a job what its own user would see: each rank, the same causes, lines of the sources in the text."""
    mpi = MPIS[name]
    with running(compiler, mpi, mpi.transports[0], scene.program, scene.ranks, user=NOBODY.user) as job:
        truths = job.wait_until_ready()
        document = until_proved(lambda: report(job))
    check_findings(document, scene, mpi)
    assert [each["pid"] for each in document["processes"]] == [truth["pid"] for truth in truths]
    if scene == HANG:
        matrix.record_place(Place.OTHER_USER, compared(document, mpi))


def test_one_rank_of_another_user_is_shown_and_diagnosed(job: Job) -> None:
    """``mqs show``, ``mqs doctor`` and ``mqs watch`` become that user too."""
    pid = job.wait_until_ready()[1]["pid"]
    shown = mqs("show", pid, "--stack", "--json")
    assert json.loads(shown.stdout)["global_rank"] == 1, shown.stderr
    diagnosed = mqs("doctor", pid, "--json")
    assert json.loads(diagnosed.stdout)["process"]["pid"] == pid, diagnosed.stderr
    assert "receive from rank 2 of 'halo exchange'" in mqs("watch", job.launcher.pid, "--count", "1").stdout


def test_the_reader_has_the_rights_of_the_jobs_user_and_no_others(job: Job, sleeper: int) -> None:
    """The agent has that user's IDs alone, no capability and no way to get one, and nothing of root's open.

    What it has open is the memory of that user's processes; and what holds these for it is root's, alone of its
    children: what parses for it in processes apart has become that user, too.
    """
    with (
        open("/etc/shadow", "rb") as closed,  # noqa: PTH123
        subprocess.Popen(
            [*MQS, "watch", str(job.launcher.pid)],
            stdout=subprocess.PIPE,
            env={**os.environ, "SECRET": "of root"},
            extra_groups=[4],
            pass_fds=[closed.fileno()],
        ) as head,
    ):
        try:
            assert head.stdout is not None
            assert head.stdout.readline()
            (pid,) = [each for each in numbers_in("/proc") if parent_of(each) == head.pid]
            fields = dict(
                line.split(":\t", 1) for line in read_file(f"/proc/{pid}/status").decode().splitlines() if ":\t" in line
            )
            opened = links_of(pid)
            environment = read_file(f"/proc/{pid}/environ")
            children = [each for each in numbers_in("/proc") if parent_of(each) == pid]
            wait_until(lambda: [owner_of(each).user for each in children].count(0) == 1)  # the others import first
            users = sorted(owner_of(each).user for each in children)
        finally:
            head.send_signal(signal.SIGINT)
    assert fields["Uid"].split() == fields["Gid"].split() == ["65534"] * 4
    assert (fields["Groups"].split(), fields["NoNewPrivs"]) == ([], "1")
    assert {name: int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == dict.fromkeys(
        ("CapPrm", "CapEff", "CapInh", "CapAmb"), 0
    )
    memories = {f"/proc/{each}/mem" for each in numbers_in("/proc") if is_of_another(each)}
    assert opened.isdisjoint(memories)
    assert f"/proc/{sleeper}/mem" in opened
    assert users == [0, *[65534] * (len(children) - 1)]
    others = [Path(name) for name in opened if not re.fullmatch(r"/proc/\d+/mem", name)]
    assert [path for path in others if path.is_file() and not is_open_to_nobody(path)] == []
    assert not [name for name in opened if name.startswith("/dev/")]
    assert b"of root" not in environment


def is_of_another(pid: int) -> bool:
    """Return whether a process is some other user's."""
    with suppress(NoSuchProcessError):
        return owner_of(pid).user != NOBODY.user
    return False


def is_open_to_nobody(path: Path) -> bool:
    """Return whether that user may read a file."""
    found = path.stat()
    return bool(found.st_mode & stat.S_IROTH) or found.st_uid == NOBODY.user


def parent_of(pid: int) -> int:
    """Return a process's parent, 0 where there is no such process."""
    with suppress(OSError, LookupError):
        return int(read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    return 0


def test_libmqs_may_lie_where_only_root_can_read_it(job: Job, tmp_path: Path) -> None:
    """What is needed of it is read before root is given up: a virtual environment below /root will do."""
    shutil.copytree(Path(mqs_dll.__file__).parent, tmp_path / "mqs_dll", ignore=shutil.ignore_patterns("*.so"))
    shutil.copytree(library_path.header().parent, tmp_path / "mqs_dll/include", dirs_exist_ok=True)
    tmp_path.chmod(0o700)
    start = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from mqs_dll.commands.cli import main; sys.exit(main())"
    )
    said = subprocess.run(
        [sys.executable, "-c", start, "job", str(job.launcher.pid), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
    )
    assert said.stdout, said.stderr
    assert [each["state"] for each in json.loads(said.stdout)["processes"]] == ["read"] * 3


def test_a_core_file_of_another_user_is_read_with_that_users_rights(job: Job, tmp_path: Path) -> None:
    """By ``mqs show --core`` and ``mqs job --core``; root's own rights are refused."""
    pid = job.wait_until_ready()[1]["pid"]
    core = gcore(pid, job.directory / "core")
    os.chown(core, NOBODY.user, NOBODY.group)
    with pytest.raises(ForeignError, match="belongs to user nobody, and is not read with root's rights"):
        CoreFile(core)
    shown = mqs("show", "--core", core.name, "--json", cwd=core.parent)
    assert json.loads(shown.stdout)["global_rank"] == 1, shown.stderr
    said = mqs("job", "--core", core, "--json")
    assert [each["state"] for each in json.loads(said.stdout)["processes"]].count("read") == 1, said.stderr


# ---------------------------------------------------------------- what root itself leaves alone


def test_root_opens_no_program_of_another_user(sleeper: int, tmp_path: Path) -> None:
    """Neither a process nor a file that somebody else could have made is parsed with root's rights."""
    with pytest.raises(ForeignError, match=f"process {sleeper} belongs to user nobody"):
        LiveProcess(sleeper)
    library = Path(shutil.copy("/bin/true", tmp_path / "libmpi.so.40"))
    os.chown(library, NOBODY.user, NOBODY.group)
    with pytest.raises(ForeignError, match=r"libmpi\.so\.40 belongs to user nobody"):
        FileProcess(library)


def test_a_launcher_of_another_user_is_not_parsed_for_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bare list of ``mqs job`` asks each process that is called mpirun, which anybody can have."""
    monkeypatch.setattr(live, "LiveImage", lambda *arguments: pytest.fail("it is parsed"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        mpirun = shutil.copy("/bin/sleep", f"{folder}/mpirun")
        with subprocess.Popen([mpirun, "60"], user=NOBODY.user, group=NOBODY.group) as process:
            try:
                assert Processes().is_launcher(process.pid)
                assert read_proctable(process.pid) == ()
            finally:
                process.kill()


# ---------------------------------------------------------------- giving up root


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[str]]:
    """Give a Python that has given up root, and then does something."""
    before = "from mqs_dll.debugger import rights; from mqs_dll.debugger.proc import Owner\n"
    become = f"rights.give_up_root(Owner({NOBODY.user}, {NOBODY.group}), lambda: None)\n"
    with subprocess.Popen(
        [sys.executable, "-c", f"{before}{become}{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        extra_groups=[4],
    ) as process:
        yield process


def test_there_is_no_way_back() -> None:
    """Neither the IDs nor a capability can be had again, in any thread, and no program that is run has more."""
    code = """
import os, subprocess, threading
def back():
    for act in (lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0]), lambda: os.setresgid(0, 0, 0)):
        try:
            act()
        except PermissionError:
            print("refused")
threading.Thread(target=back).run()
back()
print(open("/proc/self/status").read().count("NoNewPrivs:\\t1"), os.getgroups())
"""
    with child(code) as process:
        out, err = process.communicate(timeout=60)
    assert out.split() == ["refused"] * 6 + ["1", "[]"], err


def test_the_user_cant_trace_what_has_become_that_user() -> None:
    """The kernel protects its memory, in which may be what root had there."""
    with child("import time; print('here', flush=True); time.sleep(60)") as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            tried = subprocess.run(
                ["cat", f"/proc/{process.pid}/mem"], user=NOBODY.user, group=NOBODY.group, extra_groups=[], check=False,
                capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            )  # fmt: skip
        finally:
            process.kill()
    assert "Permission denied" in tried.stderr


def test_processes_that_were_opened_before_need_no_rights_afterwards(
    sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel lets root alone trace (Yama), what root has opened is enough: no memory is opened again."""
    live.open_beforehand(sleeper, lambda: True)
    monkeypatch.setattr(live, "_open", lambda pid: pytest.fail("it is opened again"))
    monkeypatch.setattr(live, "check_owner", lambda user, what: None)
    with LiveProcess(sleeper) as process:
        assert process.image.find_function("malloc")


def test_what_has_become_another_program_is_not_kept_open(sleeper: int) -> None:
    """It may run as root by the time that it is open (a program with the set-user-ID bit): it is asked again then."""
    live.open_beforehand(sleeper, lambda: False)
    assert sleeper not in live._opened_before
    names = [os.readlink(f"/proc/self/fd/{number}") for number in opened_files()]  # noqa: PTH115
    assert f"/proc/{sleeper}/mem" not in names


def opened_files() -> list[str]:
    """Return the descriptors of this process that are open."""
    return [name for name in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{name}").is_symlink()]  # noqa: PTH208


# ---------------------------------------------------------------- what holds processes for one user


def test_a_holder_for_one_user_holds_no_process_of_another(sleeper: int, tmp_path: Path) -> None:
    """Whoever gives it orders may be that user by now, and more: it asks the kernel whose each process is."""
    with subprocess.Popen(["/bin/sleep", "60"]) as of_root:
        held = holder.Holder(speaks=False, owner=NOBODY)
        try:
            with stopped(sleeper, start_time(sleeper), holder=held):
                assert read_file(f"/proc/{sleeper}/status").count(b"(tracing stop)")
            held.let_go()
            held = holder.Holder(speaks=False, owner=NOBODY)  # one that could not let a thread go at once has ended
            with pytest.raises(NotPermittedError), stopped(of_root.pid, holder=held):
                pytest.fail("root's own process stands")
            calls = [messages.WatchedReturn(of_root.pid, 4096), messages.WatchedReturn(sleeper, 4096)]
            watched = holder.Holder(speaks=False, owner=NOBODY)
            assert {call.thread for call in watched.ask(messages.Watch(calls, 5.0))} <= {sleeper}
            watched.let_go()
        finally:
            of_root.kill()
            held.let_go()


@pytest.mark.parametrize(
    "order",
    [b"\x80\x04N.", b"[]", b'["Order"]', b'["Order", {"pids": 1}]', b'["Watch", {}]', b'["int", "x"]', b"[" * 5000],
    ids=["a pickle", "nothing", "half", "no list", "empty", "no number", "deep"],
)
def test_an_order_that_is_none_ends_the_holder(order: bytes) -> None:
    """It does nothing of it, and unpickles nothing."""
    held = holder.Holder(speaks=False, owner=NOBODY)
    messages.send(held._to.fileno(), order)
    assert held._process.wait(10) in (0, 1)
    with pytest.raises(StopError):
        held.ask(None)
    held.let_go()


def test_an_order_that_is_too_large_is_not_waited_for() -> None:
    """16 MB are the most that a holder takes in."""
    held = holder.Holder(speaks=False, owner=NOBODY)
    os.write(held._to.fileno(), struct.pack("<I", (1 << 24) + 1))
    assert held._process.wait(10) == 0
    held.let_go()


# ---------------------------------------------------------------- where an agent finds its modules


def test_an_agent_imports_nothing_from_where_it_is_started(tmp_path: Path) -> None:
    """Root may stand in a folder that anybody writes to, with a Python module by the name of one of Python's own."""
    marker = tmp_path / "marker"
    for name in ("argparse", "json", "mqs_dll", "drgn"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
    said = subprocess.run(
        agent.command(), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert b"mqs-agent" in said.stdout, said.stderr
    assert not marker.exists()


def test_whose_a_process_is_the_kernel_says(sleeper: int) -> None:
    """A process that the kernel protects from its own user isn't wholly that user's: it may know what root knew."""
    assert owner_of(sleeper) == NOBODY
    assert is_wholly_of(sleeper, NOBODY)
    assert not is_wholly_of(os.getpid(), NOBODY)
    with child("import time; print('here', flush=True); time.sleep(60)") as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            assert owner_of(process.pid) == NOBODY
            assert not is_wholly_of(process.pid, NOBODY)
        finally:
            process.kill()


# ---------------------------------------------------------------- what is run for another user's process


@pytest.mark.parametrize("theirs", ["lib", "bin", "search"])
def test_calibrate_runs_nothing_that_the_processes_owner_could_have_made(theirs: str, job: Job, tmp_path: Path) -> None:
    """Neither that user's mpiexec, nor a library of theirs, nor what lies in folders that are searched for theirs."""
    with tempfile.TemporaryDirectory() as folder:
        prefix, marker = Path(folder), tmp_path / "marker"
        prefix.chmod(0o755)
        for name in ("bin", "lib", "search"):
            (prefix / name).mkdir()
        library = Path(shutil.copy(library_of(job), prefix / "lib/libmpi.so.40"))
        launcher = prefix / "bin/mpiexec"
        launcher.write_text(f"#!/bin/sh\ntouch {marker}\n")
        launcher.chmod(0o755)
        os.chown(prefix / theirs, NOBODY.user, NOBODY.group)
        searched = {"LD_LIBRARY_PATH": str(prefix / "search")} if theirs == "search" else {}
        with mapping(library, searched) as pid, pytest.raises(CalibrationError) as refusal:
            find(str(pid), [str(launcher)] if theirs == "lib" else [])
    assert str(refusal.value) == (
        f"the MPI of process {pid} would run with your rights, and {prefix / theirs} belongs to user nobody: "
        "run `mqs calibrate` as user nobody"
    )
    assert not marker.exists()


def test_calibrate_takes_what_root_has_installed_for_anybodys_process(job: Job) -> None:
    """Then it is what that user's job runs, and nothing of that user's."""
    _, found = find(str(job.wait_until_ready()[0]["pid"]))
    assert found.library.samefile(library_of(job))


def library_of(job: Job) -> str:
    """Return the MPI library of a job."""
    return next(each.path for each in mappings(job.wait_until_ready()[0]["pid"]) if "/libmpi" in each.path)


@contextmanager
def mapping(library: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """Give the PID of a process of another user's that has a library mapped."""
    code = "import mmap, sys, time; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1)\n"
    with subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", f"{code}print('ready', flush=True); time.sleep(60)", str(library)],
        user=NOBODY.user, group=NOBODY.group, extra_groups=[], stdout=subprocess.PIPE, env=environment,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def test_calibrate_searches_for_libraries_in_the_jobs_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MPI's folder may have another UCX than the one that jobs run with: what was set for them comes first."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/ucx/lib")
    mpi = Installation(Path("/usr/lib/x86_64-linux-gnu/libmpi.so.40"), ["mpiexec"])
    assert mpi.environment()["LD_LIBRARY_PATH"] == "/opt/ucx/lib:/usr/lib/x86_64-linux-gnu"
    assert replace(mpi, searched="/a").environment()["LD_LIBRARY_PATH"] == "/a:/usr/lib/x86_64-linux-gnu"


def test_what_others_may_replace_is_not_trusted(tmp_path: Path) -> None:
    """A file's folders count as it does; in one like /tmp everybody may write, but not replace what is another's."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    file.touch()
    assert distrusted(file) == ""
    folder.chmod(0o777)
    assert distrusted(file) == f"{folder} may be written by others"
    folder.chmod(0o1777)
    assert distrusted(file) == ""
    os.chown(file, NOBODY.user, NOBODY.group)
    assert distrusted(file) == f"{file} belongs to user nobody"
