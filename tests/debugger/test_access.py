"""What keeps mqs from reading or stopping a process: each obstacle is told from the others, by what the kernel shows.

What can be made here is made, on processes of this machine. Yama, SELinux and AppArmor can't: explain() is given what
a kernel that has them shows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqs_dll.contract import errors
from mqs_dll.contract.errors import NotPermittedError
from mqs_dll.debugger import access
from mqs_dll.debugger.access import Rules, Shown, explain
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import read_stat
from mqs_dll.debugger.stopping.stop import stopped
from tests.support.closed import (
    NOBODY,
    SET_NO_NEW_PRIVS,
    SYS_PTRACE,
    become,
    enter_users,
    forbid_ptrace,
    hide_processes,
    libc,
    lose,
    must,
)
from tests.support.containers import skip_where_python_is_roots_own
from tests.support.jobs import Compiler
from tests.support.jobs import running as running_job
from tests.support.mpis import find_mpis
from tests.support.targets import other_process, wait_until

ADM = 4


def looking(pid: int, *prepare: Callable[[], None], stop: bool = False) -> Callable[[], Iterator[None]]:
    """Return a function that prepares itself, and then reads a process, or stops it."""

    def look() -> Iterator[None]:
        for each in prepare:
            each()
        if stop:
            with stopped(pid):
                yield
        else:
            LiveProcess(pid)
            yield

    return look


def answer(pid: int, *prepare: Callable[[], None], stop: bool = False) -> tuple[type[NotPermittedError], str]:
    """Return the error that one gets who does so, without the beginning that all have."""
    with other_process(looking(pid, *prepare, stop=stop)) as child:
        kind, _, text = child.report.partition(": ")
    found: type[NotPermittedError] = getattr(errors, kind, NotPermittedError)
    return found, text.partition("): ")[2] or child.report


@contextmanager
def asleep(
    command: Sequence[str | Path] = ("/bin/sleep", "60"), user: int = NOBODY, group: int = NOBODY
) -> Iterator[int]:
    """Give the PID of a process that sleeps, as a user."""
    with subprocess.Popen([str(each) for each in command], user=user, group=group, extra_groups=[]) as process:
        try:
            wait_until(lambda: (stat := read_stat(process.pid)) and stat.state == "S" and stat.name != "python")
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


# ---------------------------------------------------------------- live


@pytest.mark.root
def test_another_users_process() -> None:
    """It is told by its user, and no_new_privs by what it keeps from helping."""
    with asleep(user=0, group=0) as pid:
        assert answer(pid, become) == (errors.OtherUserError, "it belongs to user root")
        no_sudo = (become, lambda: must(libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
        words = "it belongs to user root, and no_new_privs keeps sudo from helping"
        assert answer(pid, *no_sudo) == (errors.OtherUserError, words)


@pytest.mark.root
def test_a_process_with_another_group() -> None:
    """The kernel compares groups, too: after newgrp the same user is kept out."""
    with asleep(group=ADM) as pid:
        assert answer(pid, become) == (errors.OtherGroupError, "it runs with group adm, we with nogroup")


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "owner", "why"),
    [
        (0o711, 0, "it is protected (not dumpable): its file may not be read, "),
        (0o4755, 1, "it has the rights of user daemon: a set-user-ID program"),
        (0o2755, 1, "it has the rights of another group: a set-group-ID program"),
    ],
    ids=["not readable", "set-user-ID", "set-group-ID"],
)
def test_a_program_that_is_protected_from_its_user(mode: int, owner: int, why: str, folder: Path) -> None:
    """What its file is like tells why."""
    program = Path(shutil.copy("/bin/sleep", folder))
    os.chown(program, owner, owner)
    program.chmod(mode)
    with asleep((program, "60")) as pid:
        kind, words = answer(pid, become)
    assert (kind, words.startswith(why)) == (errors.ProtectedError, True), words


@pytest.mark.root
def test_a_program_whose_file_has_capabilities(folder: Path) -> None:
    """They protect its process from its user."""
    program = shutil.copy("/bin/sleep", folder)
    if shutil.which("setcap") is None:
        pytest.skip("setcap is not on this machine: apt-get install libcap2-bin")
    subprocess.run(["setcap", "cap_net_raw+ep", program], check=True)
    with asleep((program, "60")) as pid:
        assert answer(pid, become) == (
            errors.ProtectedError,
            "its program has got capabilities from its file, which protects it (not dumpable)",
        )


@pytest.mark.root
def test_a_program_that_protects_itself() -> None:
    """By prctl(PR_SET_DUMPABLE): nothing of its file shows it."""
    code = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", code], user=NOBODY, group=NOBODY, extra_groups=[], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            kind, words = answer(process.pid, become)
        finally:
            process.kill()
    assert (kind, "prctl(PR_SET_DUMPABLE)" in words) == (errors.ProtectedError, True), words


@pytest.mark.root
def test_root_of_a_container_with_fewer_capabilities_than_its_process() -> None:
    """Root without CAP_SYS_PTRACE reads neither what has more capabilities, nor what is another user's."""
    with asleep(user=0, group=0) as pid:
        kind, words = answer(pid, lambda: lose(SYS_PTRACE))
        assert (kind, words) == (errors.MoreCapableError, "it has capabilities that we lack (0x80000)")
    with asleep() as pid:
        assert answer(pid, lambda: lose(SYS_PTRACE)) == (
            errors.RootWithoutPtraceError,
            "it belongs to user nobody, and root lacks CAP_SYS_PTRACE here, as in a container",
        )


@pytest.mark.root
@pytest.mark.parametrize(
    ("user", "prepare"),
    [(NOBODY, (become, enter_users)), (0, (become, enter_users)), (0, (enter_users,))],
    ids=["its own user", "another's", "as root"],
)
def test_a_process_outside_of_our_container(user: int, prepare: tuple[Callable[[], None], ...]) -> None:
    """In a user namespace we have no rights over what is outside, whoever we are inside."""
    with asleep(user=user, group=user) as pid:
        assert answer(pid, *prepare) == (
            errors.OtherNamespaceError,
            "it is in another user namespace: in another container, or outside of ours",
        )


@pytest.mark.root
def test_root_of_a_container_cant_become_a_user_outside_of_it() -> None:
    """`mqs show` says that, and what to do, instead of trying to become the number that stands for all of them."""
    skip_where_python_is_roots_own()

    def enter_container() -> None:
        become(user=1, group=1)
        enter_users()

    with asleep() as pid:
        said = subprocess.run(
            [sys.executable, "-m", "mqs_dll", "show", str(pid)],
            preexec_fn=enter_container,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert said.returncode == 3
    assert "it belongs to a user whom this container doesn't know: it is outside of it" in said.stderr
    assert errors.OtherNamespaceError.help.rstrip(".") in said.stderr


@pytest.mark.root
@pytest.mark.parametrize(("how", "named"), [("1", "noaccess"), ("2", "invisible")])
def test_a_process_that_proc_hides(how: str, named: str) -> None:
    """It is there all the same; one that isn't, isn't."""
    with asleep(user=0, group=0) as pid:
        with other_process(looking(pid, lambda: hide_processes(how), become)) as child:
            kind, _, words = child.report.partition(": ")
        assert kind == errors.HiddenProcessError.__name__
        there = f"there is a process {pid}, but /proc hides it: it is mounted with hidepid="
        assert words.removeprefix(there) in (
            f"{name}, and the process isn't ours, or is protected" for name in (how, named)
        )
    with other_process(looking(pid, lambda: hide_processes(how), become)) as child:
        assert child.report == f"NoSuchProcessError: there is no process {pid}"


@pytest.mark.root
def test_a_filter_keeps_ptrace_from_us() -> None:
    """The process itself is open then, which tells a seccomp filter from all other obstacles."""
    with asleep(user=0, group=0) as pid:
        assert answer(pid, forbid_ptrace, stop=True) == (
            errors.FilteredError,
            "a seccomp filter forbids us ptrace, most likely that of a container, and no_new_privs keeps sudo from "
            "helping",
        )
        with other_process(looking(pid, forbid_ptrace)) as child:
            assert child.report == "holding"


@pytest.mark.root
def test_another_debugger_whose_name_proc_hides() -> None:
    """The process that it holds is ours; the debugger is root's."""
    skip_where_python_is_roots_own()
    with asleep() as pid, other_process(looking(pid, stop=True)) as debugger:
        assert debugger.report == "holding"
        with other_process(looking(pid, lambda: hide_processes("2"), become, stop=True)) as child:
            kind, _, words = child.report.partition(": ")
    assert (kind, words.endswith("(which /proc hides)")) == (errors.AlreadyTracedError.__name__, True), words


@pytest.mark.root
@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-debian"])
def test_a_job_whose_reader_may_not_trace_is_read_while_it_runs(name: str, compiler: Compiler) -> None:
    """Where a filter forbids ptrace, `mqs job` says so of each rank, and the remedy that it names works."""
    mpi = next(mpi for mpi in find_mpis() if mpi.name == name)
    with running_job(compiler, mpi, mpi.transports[0], "hangs/tag_mismatch", 3) as job:
        job.wait_until_ready()
        command = [sys.executable, "-m", "mqs_dll", "job", str(job.launcher.pid)]
        kept, free = (
            subprocess.run(
                [*command, *more], preexec_fn=forbid_ptrace, capture_output=True, text=True, timeout=120, check=False
            )
            for more in ((), ("--no-stop", "--all-ranks"))
        )
    assert (kept.returncode, kept.stdout.count("a seccomp filter forbids us ptrace") > 0) == (3, True), kept.stdout
    assert "`mqs job --no-stop` needs no such call" in kept.stdout
    assert "halo exchange" in free.stdout, free.stdout + free.stderr


# ---------------------------------------------------------------- what such a kernel would show

OURS = Shown("mqs", (1000,) * 3, (1000,) * 3, 1000, id_map="0 0 4294967295")
RANK = OURS._replace(name="rank")
ROOT = OURS._replace(users=(0,) * 3, groups=(0,) * 3, permitted=SYS_PTRACE, effective=SYS_PTRACE)


def why(process: Shown = RANK, ours: Shown = OURS, rules: Rules = Rules()) -> tuple[type[NotPermittedError], str]:  # noqa: B008
    """Return what is said of a closed process."""
    return explain(process, ours, rules, is_open=False)


@pytest.mark.parametrize(
    ("scope", "kind", "whom"),
    [
        (1, errors.AncestorsAloneError, "only its ancestors"),
        (2, errors.RootAloneError, "only root"),
        (3, errors.NobodyMayAttachError, "nobody"),
    ],
)
def test_yama_is_told_by_its_scope(scope: int, kind: type[NotPermittedError], whom: str) -> None:
    """Each scope has its own error; what the kernel looks at before comes first. Never seen on such a kernel."""
    rules = Rules(yama=scope)
    words = f"Yama lets {whom} attach (/proc/sys/kernel/yama/ptrace_scope is {scope})"
    assert why(rules=rules) == (kind, words)
    assert why(RANK._replace(users=(7,) * 3), rules=rules)[0] is errors.OtherUserError
    assert why(RANK._replace(files_user=0), rules=rules)[0] is errors.ProtectedError
    assert why(ours=ROOT, rules=rules)[0] is (kind if scope == 3 else NotPermittedError)


def test_scope_0_is_in_nobodys_way() -> None:
    """Then something else is, and nothing is made up."""
    assert why(rules=Rules(yama=0)) == (NotPermittedError, "nothing that this kernel shows forbids it")


def test_security_modules_are_named_where_nothing_else_is_in_the_way() -> None:
    """They are named with both labels, as the likely cause. Never seen on such a kernel."""
    context = "unconfined_u:unconfined_r:unconfined_t:s0"
    contained = "system_u:system_r:container_t:s0:c1,c2"
    process, ours = RANK._replace(label=context), OURS._replace(label=contained)
    words = f"SELinux's policy is the likely cause: the process is {context}, we are {contained}"
    assert why(process, ours) == (errors.SelinuxError, words)
    assert why(rules=Rules(selinux_enforces=True))[0] is errors.SelinuxError
    assert why(process, ours, Rules(yama=1))[0] is errors.AncestorsAloneError

    ours = OURS._replace(label="docker-default (enforce)")
    words = "AppArmor is the likely cause: the process is unconfined, we are docker-default (enforce)"
    assert why(RANK._replace(label="unconfined"), ours) == (errors.ApparmorError, words)
    learning = OURS._replace(label="docker-default (complain)")
    assert why(RANK._replace(label="unconfined"), learning)[0] is NotPermittedError


def test_a_debugger_in_another_container_can_only_be_guessed() -> None:
    """Its PID isn't shown here: the process may be read, and no filter is at work."""
    kind, words = explain(RANK, OURS, Rules(), is_open=True)
    assert (kind, words) == (
        NotPermittedError,
        "its memory may be read, but a debugger that isn't seen from here may hold it",
    )


def test_each_obstacle_has_a_remedy_of_its_own() -> None:
    """No two errors have the same code or the same words."""
    kinds = [kind for kind in errors.all_errors() if issubclass(kind, NotPermittedError)]
    assert len(kinds) > 12
    assert len({kind.code for kind in kinds}) == len({kind.help for kind in kinds}) == len(kinds)


def test_what_this_kernel_shows_of_us_is_read() -> None:
    """Of this process, in its own namespace: its users, its files, its capabilities."""
    ours = access.shown("self")
    assert ours.users == os.getresuid()
    assert ours.groups == os.getresgid()
    assert ours.files_user == os.geteuid()
    assert ours.id_map == " ".join(Path("/proc/self/uid_map").read_text().split())
