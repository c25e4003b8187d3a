"""Jobs on several nodes, without any: messages, names of nodes, and what agents have found as one job."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from ClusterShell import NodeSet

from mqs_dll.commands import cli
from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import JobError, NodesError
from mqs_dll.debugger.job.nodes import archive, carrier, cores, hosts, slurm, wire
from mqs_dll.debugger.job.nodes.agents import Agents, AgentStart
from mqs_dll.debugger.job.nodes.merge import Answer, merged
from mqs_dll.debugger.job.nodes.wire import Assembler, Jobs, NodePart, lines_of, write_processes
from mqs_dll.debugger.job.ranks import ReadingOptions
from mqs_dll.debugger.proc import numbers_in
from mqs_dll.job.codec import DamagedError
from mqs_dll.job.facts import Obstacle
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld, SlurmJob
from mqs_dll.job.records import Halt, RankState
from mqs_dll.job.snapshot import Hidden
from tests.support import made_up_job
from tests.support.made_up_job import ANY, given, inter, receive, send, unexpected
from tests.support.synthetic_job import halo, ring
from tests.support.targets import wait_until

# ---------------------------------------------------------------- messages


def assembled(lines: Sequence[bytes]) -> list[dict[str, Any] | None]:
    """Return what each of some lines gives."""
    assembler = Assembler()
    return [assembler.add(line.removesuffix(b"\n")) for line in lines]


@pytest.mark.parametrize("size", [10, 29_000, 200_000])
def test_a_message_arrives_as_it_was(size: int) -> None:
    """A small one is a line of JSON; a large one is compressed, in pieces, none longer than engines carry well."""
    message = {"do": "it", "with": "".join(chr(32 + number * number % 97 % 90) for number in range(size))}
    lines = list(lines_of(message))
    *before, last = assembled(lines)
    assert (last, set(before)) == (message, set() if len(lines) == 1 else {None})
    assert max(map(len, lines)) <= 30_002


@pytest.mark.parametrize(
    "lines",
    [
        [b"no JSON"],
        [b"[]"],
        [b'{"a": NaN}'],
        [b"[" * 100_000],
        [b"=not base64!"],
        [b"=" + next(lines_of({}))],
        [b"+" + b"A" * 1000] * (wire.LARGEST // 1000 + 1),
    ],
    ids=["no JSON", "no object", "no number", "deep", "no base64", "not compressed", "endless"],
)
def test_what_is_no_message_is_refused(lines: list[bytes]) -> None:
    """Whatever a node sends, it costs no more than the largest message, and raises nothing else."""
    with pytest.raises(DamagedError):
        assembled(lines)


def test_a_message_that_unpacks_to_more_than_any_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unpacked no further than the limit."""
    lines = list(lines_of({"zeros": "0" * 1_000_000}))
    monkeypatch.setattr(wire, "LARGEST", 100_000)
    with pytest.raises(DamagedError, match="more than 100000"):
        assembled(lines)


def test_what_an_agent_has_read_arrives_as_it_was() -> None:
    """Its groups are sent in runs; those that several nodes tell of are one object."""
    processes = halo(100).processes
    document = json.loads(json.dumps(write_processes(processes)))
    jobs = Jobs()
    one, other = jobs.read(document, most=100), jobs.read(document, most=100)
    assert tuple(one) == processes
    first, second = (each[0].samples[0].snapshot.communicators[1].group for each in (one, other))
    assert first is second
    assert [0, 100] in document["groups"]


def test_nothing_of_what_was_read_is_lost_in_folding() -> None:
    """Ranks without a sample, of two worlds, with hidden stacks, in several calls, alone, and none at all."""
    made = made_up_job.rank
    received = (receive(ANY, tag=ANY), unexpected(1), unexpected(2, tag=3))
    ranks = [
        made(0, *received, call="MPI_Recv", arguments=given(source=ANY)),
        made(1, call="MPI_Barrier", progressed=True, halt=Halt("SIGSTOP")),
        made(2, stacks=Hidden("no reason", "none")),
        made(3, hidden=[Queue.SENDS], windows=[], slices=1 << 60),
        made(None, program="\udcff", state=RankState.UNREADABLE, why="why"),
        made(0, send(0, length=1 << 60), call="MPI_Send", world=1, pid=7),
    ]
    processes = made_up_job.job(*ranks, communicators=[inter("both", [0], [1, 2, 3])]).processes
    for some in (processes, processes[:1], processes[1:2] * 3, ()):
        document = json.loads(json.dumps(write_processes(some)))
        assert tuple(Jobs().read(document, most=6)) == some


def test_ranks_that_wait_alike_are_sent_by_what_they_differ_in() -> None:
    """Twice the ranks on a node are less than a third more bytes for each, whatever they have in common."""
    few, many = (len(json.dumps(write_processes(ring(size).processes))) for size in (2, 64))
    assert many < 8 * few


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("groups"),
        lambda document: document.update(groups=[[0]]),
        lambda document: document.update(groups=[[0, 1 << 40]]),
        lambda document: document.update(groups=[["0", "1"]]),
        lambda document: document.update(groups=[[0, -1]]),
        lambda document: document["processes"].__setitem__(0, 3),
        lambda document: document["processes"].__setitem__(0, "4"),
        lambda document: document["processes"].__setitem__(0, 1 << 60),
        lambda document: document.update(processes=[4]),
        lambda document: document.update(processes=[4, {"all": 7}]),
        lambda document: document.update(processes=[4, {"each": [{}] * 4}]),
        lambda document: document.update(processes=[4, {"all": {}, "each": []}]),
        lambda document: members(document).update(rank={"each": [0, 1, 2]}),
        lambda document: members(document).update(rank={"of": {}}),
        lambda document: members(document).update(pid={"of": {}}),
        lambda document: members(document).update(rank={"kinds": [0, 0, 0, 1], "of": [{"all": 1}]}),
        lambda document: members(document).update(rank={"kinds": [0, 0, 0, -1], "of": [{"all": 1}]}),
        lambda document: members(document).update(rank={"kinds": [0, 0], "of": [{"all": 1}]}),
        lambda document: members(document).update(rank=nested(500)),
        lambda document: members(document).update(rank={"all": 1 << 40}),
        lambda document: members(document).update(unknown={"all": 0}),
        lambda document: members(document).pop("pid"),
    ],
)
def test_what_no_agent_has_read_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    """A group of more members than there is memory for, too, and columns that don't fit their values."""
    document = write_processes(ring(4).processes)
    spoil(document)
    with pytest.raises(DamagedError):
        Jobs().read(document, most=4)


@pytest.mark.parametrize(
    "table",
    [
        [1001, {"all": {}}],
        [0, {"kinds": [], "of": [{"each": []}] * 1000}],
        [400, {"of": {"queue": {"all": "sends"}, "operations": {"all": []}, "remedy": {"all": ""}}}],
    ],
)
def test_columns_that_stand_for_more_values_than_any_are_refused(
    table: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are unfolded no further than the limit."""
    monkeypatch.setattr(wire, "_MAX_VALUES", 1000)
    document = {**write_processes(ring(4).processes), "queues": table}
    with pytest.raises(DamagedError, match="more values than any"):
        Jobs().read(document, most=4)


def test_an_agent_that_reports_more_ranks_than_it_has_is_not_believed() -> None:
    """A short column can stand for millions."""
    with pytest.raises(DamagedError, match="more processes than"):
        Jobs().read(write_processes(ring(4).processes), most=3)


def members(document: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the processes in a document."""
    columns: dict[str, Any] = document["processes"][1]["of"]
    return columns


def nested(levels: int) -> dict[str, Any]:
    """Return a column of kinds of kinds."""
    column: dict[str, Any] = {"all": 1}
    for _ in range(levels):
        column = {"kinds": [0] * 4, "of": [column]}
    return column


# ---------------------------------------------------------------- core files


class Answering:
    """Stands for agents: each answers with what is left of its list."""

    def __init__(self, answers: Mapping[str, list[Any]]) -> None:
        self.answers = answers

    def start(self, names: Iterable[str]) -> None:
        """Start nothing."""

    def ask(self, messages: Mapping[str, Any], seconds: float, take: Callable[[str, Any], None]) -> dict[str, Obstacle]:
        """Give the next answer of each."""
        damaged = {}
        for node in messages:
            try:
                take(node, self.answers[node].pop(0))
            except DamagedError as error:
                damaged[node] = Obstacle(RankState.UNREADABLE, f"it {error}", "")
        return damaged


def core(number: int, **changes: Any) -> dict[str, Any]:
    """Return what an agent answers that has read the core file of a rank."""
    job = halo(4)
    one = replace(job.processes[number], samples=job.processes[0].samples[:1])
    told = wire.Core("solver", None, 4, "Open MPI 4.1.4", 1.0)._replace(**changes)
    return {"process": write_processes([one]), "core": wire.write(told)}


def test_core_files_on_nodes_are_read_one_by_one() -> None:
    """Each is known by its node and path; what one node sends that is none is left out, with a sentence."""
    two = {**core(3), "process": write_processes(halo(2).processes)}
    huge, late = core(3, size=1 << 40), core(3, written=1e300)
    answers: dict[str, list[Any]] = {
        "a": [["/core.0", "/core.1"], core(0), core(1)],
        "b": [["/x"] * 3, two, huge, late],
        "c": [["/x", 7]],
    }
    agents = cast("Agents", Answering(answers))
    read, lost = cores.read_there(agents, dict.fromkeys(answers, ("/core*",)))
    assert [(each.name, each.process.host, each.process.rank) for each in read] == [
        ("a:/core.0", "a", 0),
        ("a:/core.1", "a", 1),
    ]
    assert lost == [
        "it has no names of core files",
        "b:/x: it has more processes than it was asked for",
        "b:/x: it has a size or a time that is none",
    ]


def test_a_core_file_lies_here_or_on_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a file or a pattern of this machine is one, whatever colons are in its name."""
    (tmp_path / "n1:").mkdir()
    (tmp_path / "n1:/core").touch()
    assert hosts.of_path("n[1-4]:/tmp/core.*") == ("n[1-4]", "/tmp/core.*")
    for path in ("core:1", "/tmp/n1:/core", f"{tmp_path}/n1:/core"):
        assert hosts.of_path(path) == ("", path)
    monkeypatch.chdir(tmp_path)
    assert hosts.of_path("n1:/core") == ("", "n1:/core")
    assert hosts.of_path("n1:/co*") == ("", "n1:/co*")


# ---------------------------------------------------------------- names

RACKS = ("r1n1x", "r1n2x", "r2n1x", "r2n2x")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["n1", "n2.example.org"], ["n1", "n2.example.org"]),
        (["n[1-3,7]"], ["n1", "n2", "n3", "n7"]),
        (["-oProxyCommand=reboot", "a b", "$(reboot)", "n1;reboot", "", "x" * 300, "n%h"], []),
        (["n[08-10,12],login,r[1-2]n[1-2]x"], ["n08", "n09", "n10", "n12", "login", *RACKS]),
        (["n[1-9999999]", "n[1-300][1-300]", "n[1-", "n[a-b]", "n[3-1]", "n[0-" + "9" * 5000 + "]", ",", "n[]"], []),
        (["x" * 200_000, "x" * 300 + "[1-2]", "n" + "[1]" * 50], []),
        (["@group", "n1,@group", "n*", "n[1-3]!n2", "n[1-9/2]", "n1\n", "\u0661"], []),
    ],
    ids=["names", "Slurm's list", "commands", "Slurm's lists", "too many", "too long", "ClusterShell's"],
)
def test_names_that_nodes_report_are_believed_when_they_are_names(names: list[str], found: list[str]) -> None:
    """What could be an option or a command is none, and a list that would fill the memory isn't unfolded."""
    assert list(hosts.named(names)) == found


def test_all_that_a_job_names_is_bounded() -> None:
    """Lists that stand for more nodes than any machine has aren't expanded, and neither are many that do together."""
    of_job = hosts.JobNodes()
    first = list(of_job.named(f"n{number}x[1-{hosts.MOST // 4}]" for number in range(1000)))
    assert len(first) == hosts.MOST
    assert list(of_job.named(["n1", "n[1-2]"])) == []
    again = hosts.JobNodes()
    assert list(again.named(["n1", "n2", "n1"] * 100_000)) == ["n1", "n2"], "each text counts once"
    assert list(again.named(["n1", "n3"])) == ["n3"]


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        (socket.gethostname(), True),
        (f"{socket.gethostname()}.example.org", True),
        ("192.0.2.7", False),
        ("elsewhere", False),
    ],
)
def test_this_machine_is_known_by_its_names_and_addresses(name: str, here: bool) -> None:
    """It needs no engine, whatever a launcher calls it."""
    assert hosts.is_here(name) is here


def test_a_host_file_has_a_node_in_each_line(tmp_path: Path) -> None:
    """As Open MPI, MPICH and PBS write them; each node counts once."""
    path = tmp_path / "hosts"
    path.write_text("# nodes\nn1 slots=4\nn2:4\n\nn3\nn3\n")
    assert hosts.of_file(str(path)) == ["n1", "n2", "n3"]
    path.write_text("n1\n-oProxyCommand=x\n")
    with pytest.raises(NodesError, match="is no name"):
        hosts.of_file(str(path))


def test_a_set_of_nodes_has_some(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Its groups are ClusterShell's; one that nobody knows, or a file without a node, is not taken for all there is."""
    config = tmp_path / "groups.conf"
    config.write_text("[Main]\ndefault: site\n[site]\nmap: [ $GROUP != compute ] || echo n[1-3],n7\n")
    NodeSet.set_std_group_resolver_config(str(config))
    request.addfinalizer(lambda: NodeSet.set_std_group_resolver(None))
    assert hosts.chosen("@compute") == ["n1", "n2", "n3", "n7"]
    with pytest.raises(NodesError, match="@nosuch names no node"):
        hosts.chosen("@nosuch")
    with pytest.raises(NodesError, match="is no set of nodes"):
        hosts.chosen("n[1-")
    empty = tmp_path / "hosts"
    empty.write_text("# none\n")
    with pytest.raises(NodesError, match="hosts names no node"):
        hosts.of_file(str(empty))


# ---------------------------------------------------------------- one job of many parts


def part(host: str, *ranks: FoundRank, launcher: int | None = None, key: str = "job@1") -> NodePart:
    """Return what a node has found of a job of four ranks, two of which its environment counts here."""
    world = FoundWorld(4, False, key, 2)
    return NodePart(host, f"mpirun on {host}", launcher, "me", 1.0, (world,), ranks, ("pmix job",), ())


def rank(number: int, pid: int, host: str) -> FoundRank:
    """Return a rank that can be read."""
    return FoundRank(0, number, pid, "solver", host)


def listed(number: int, pid: int, host: str) -> FoundRank:
    """Return a rank that a launcher lists elsewhere."""
    return replace(rank(number, pid, host), state=RankState.UNREADABLE, why="elsewhere")


def summary(job: FoundJob) -> list[tuple[int | None, str, int, RankState | None]]:
    """Return rank, node, PID and state of each."""
    return [(each.rank, each.host, each.pid, each.state) for each in job.ranks]


def test_ranks_of_two_nodes_with_the_same_pids_are_one_job() -> None:
    """Each is known by its node and PID; the job is called as its launcher is."""
    answers = {
        "a": Answer([part("a", rank(0, 7, "a"), rank(1, 8, "a"))]),
        "b": Answer([part("b.site", rank(2, 7, "b.site"), rank(3, 8, "b.site"), launcher=5)]),
    }
    job = merged(answers, "head", None)
    assert summary(job) == [(0, "a", 7, None), (1, "a", 8, None), (2, "b", 7, None), (3, "b", 8, None)]
    assert (job.title, job.launcher, job.worlds) == ("mpirun on b.site", None, (FoundWorld(4, True),))


def test_ranks_that_only_the_launcher_knows_are_unread_with_the_reason() -> None:
    """One of a lost node for that; one whose process is gone has exited; one of a node that wasn't asked for that."""
    table = [listed(1, 8, "b"), listed(2, 9, "c"), listed(3, 9, "d")]
    lost = Obstacle(RankState.UNREADABLE, "b did not answer within 5 s", "sample again")
    answers = {
        "a": Answer([part("a", rank(0, 7, "a"), *table, launcher=5)]),
        "b": Answer(lost=lost),
        "c": Answer([], frozenset({9})),
    }
    job = merged(answers, "head", None)
    assert summary(job) == [
        (0, "a", 7, None),
        (1, "b", 8, RankState.UNREADABLE),
        (2, "c", 9, RankState.EXITED),
        (3, "d", 9, RankState.UNREADABLE),
    ]
    assert [each.why for each in job.ranks[1:]] == [
        "b did not answer within 5 s",
        "rank 2 was started on c and has exited",
        "rank 3 runs on d, which wasn't asked",
    ]
    assert (job.lost, job.worlds[0].here) == (("b did not answer within 5 s",), False)


def test_nodes_that_fail_alike_share_a_sentence() -> None:
    """A thousand nodes without libmqs are one line."""
    answers = {"n9": Answer([part("n9", rank(0, 7, "n9"))])}
    for name in ("n1", "n2", "n3"):
        answers[name] = Answer(lost=Obstacle(RankState.UNREADABLE, f"libmqs can't be started on {name}", ""))
    assert merged(answers, "head", None).lost == ("libmqs can't be started on n[1-3]",)


def test_worlds_are_distinguished_by_their_keys() -> None:
    """Each node numbers those that it has in its own order."""
    first, second = FoundWorld(1, False, "job@1"), FoundWorld(1, False, "job@2")
    one = part("a", rank(0, 7, "a"))._replace(worlds=(first,))
    other = part("b", rank(0, 7, "b"))._replace(worlds=(second,))
    job = merged({"b": Answer([other]), "a": Answer([one])}, "head", None)
    assert [(each.world, each.host) for each in job.ranks] == [(0, "a"), (1, "b")]


def test_a_rank_that_the_launcher_started_elsewhere_is_not_believed() -> None:
    """Where this machine has the launcher's table, no other node can claim its ranks."""
    table = [listed(1, 8, "b"), listed(2, 9, "c"), listed(3, 7, "c")]
    local = FoundJob(5, "mpirun", "me", 0.0, "a", (FoundWorld(4, False),), (rank(0, 7, "a"), *table), frozenset())
    answers = {
        "a": Answer([part("a", rank(0, 7, "a"), *table, launcher=5)]),
        "b": Answer([part("b", rank(1, 8, "b"))]),
        "c": Answer([part("c", rank(1, 9, "c"), rank(3, 7, "c"))]),
    }
    job = merged(answers, "a", local)
    assert (1, "b", 8, None) in summary(job)
    assert (None, "c", 9, RankState.UNREADABLE) in summary(job)


# ---------------------------------------------------------------- agents that say what they are to say

_SCRIPT = r"""
exec 3<"$1/$NODE"
echo $$ >"$1/$NODE.pid"
while IFS= read -r answer <&3; do
    case $answer in
        endless) exec tr '\\0' x </dev/zero ;;
        many) yes ;;
        *) printf '%s\n' "$answer" ;;
    esac
    case $answer in *'"'*) read -r line || exit ;; esac
done
cat >/dev/null
"""
"""Says a line of a file, and the next one when it has heard one; after a line that is no message at once."""


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Callable[[Mapping[str, Sequence[object]]], Agents]]:
    """Return what starts agents, by node with what each says after its greeting: messages, and other lines."""
    with ExitStack() as stack:

        def start(said: Mapping[str, Sequence[object]]) -> Agents:
            (tmp_path / "agent.sh").write_text(_SCRIPT)
            for node, lines in said.items():
                texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
                (tmp_path / node).write_text("\n".join(texts) + "\n")
            command = shlex.join(["sh", str(tmp_path / "agent.sh"), str(tmp_path)])
            return stack.enter_context(Agents(ReadingOptions(), AgentStart(command, command, "env NODE=%h")))

        yield start


def answer(what: str, done: object = None) -> dict[str, object]:
    """Return what an agent answers."""
    return {"to": what, "done": done}


def test_what_is_no_agent_is_given_up(talk: Callable[[Mapping[str, Sequence[object]]], Agents], tmp_path: Path) -> None:
    """A login shell may greet; lines or a line without an end are not waited for, nor is what nobody asked for.

    It is ended, which lets its ranks go; who can't do what it is told stays.
    """
    told: dict[str, Sequence[object]] = {
        "greets": ["Welcome!", "{}", wire.GREETING, answer("it", 7)],
        "many": ["many"],
        "endless": ["endless"],
        "grows": [wire.GREETING, "endless"],
        "other": [wire.GREETING, answer("stop", 7)],
        "acknowledges": [wire.GREETING, answer("keep_alive")],
        "refuses": [wire.GREETING, {"to": "it", "failed": "no", "help": "try"}],
    }
    agents, heard = talk(told), {}
    agents.start(told)
    lost = agents.ask({node: {"do": "it"} for node in told}, 20.0, lambda node, done: heard.update({node: done}))
    assert heard == {"greets": 7}
    assert {node: obstacle.why for node, obstacle in lost.items()} == {
        "many": "what was started on many is no agent of libmqs",
        "endless": "the agent on endless ended at once (exit code 0): it sent a line without an end",
        "grows": "the agent on grows ended while it was asked (exit code 0): it sent a line without an end",
        "other": "what other sent is no answer of an agent: it answers what wasn't asked",
        "acknowledges": "what acknowledges sent is no answer of an agent: it answers what wasn't asked",
        "refuses": "the agent on refuses: no",
    }
    pids = {node: (tmp_path / f"{node}.pid").read_text().strip() for node in told}
    wait_until(lambda: {node for node, pid in pids.items() if Path(f"/proc/{pid}").exists()} == {"greets", "refuses"})


def test_what_an_agent_reports_is_of_its_own_ranks(
    talk: Callable[[Mapping[str, Sequence[object]]], Agents],
) -> None:
    """A process that says another rank than it was started as, that is left out, or has two samples is not read."""
    job = halo(4)
    processes = [replace(each, samples=each.samples[:1]) for each in job.processes]
    told = {
        "true": [processes[0]],
        "other": [replace(processes[1], rank=0)],
        "silent": [replace(processes[2], pid=77)],
        "twice": [job.processes[3]],
    }
    documents = {node: wire.write_processes(each) for node, each in told.items()}
    parts = {
        node: part(node, FoundRank(0, number, processes[number].pid, "solver", node))
        for number, node in enumerate(told)
    }
    agents = talk(
        {
            node: [
                wire.GREETING,
                answer("find", wire.write(wire.NodeParts((parts[node],), ()))),
                answer("report", documents[node]),
            ]
            for node in told
        }
    )
    agents.find(told, wire.Wanted(marks=("pixie",)))
    read = agents.processes(0.0)
    assert [(each.rank, each.host, each.state) for each in read] == [
        (0, "true", RankState.READ),
        (1, "other", RankState.UNREADABLE),
        (2, "silent", RankState.UNREADABLE),
        (3, "twice", RankState.UNREADABLE),
    ]
    assert [each.why for each in read[1:]] == [
        f"process {processes[1].pid} on other says that it is rank 0, and its launcher gave it rank 1",
        f"the agent says nothing of process {processes[2].pid} on silent",
        "what twice sent is no answer of an agent: it has read more than once",
    ]


def test_the_stops_of_a_sample_add_up(talk: Callable[[Mapping[str, Sequence[object]]], Agents]) -> None:
    """All of them, where a rank needed another one; the next sample begins at none."""
    found = answer("find", wire.write(wire.NodeParts((part("a", rank(0, 7, "a")),), ())))
    stop = [answer("stop"), answer("resume")]
    agents = talk({"a": [wire.GREETING, found, answer("open", 1), *stop, *stop, answer("open", 1)]})
    agents.find({"a": ()}, wire.Wanted(marks=("pixie",)))
    agents.open()
    for _ in range(2):
        with agents.stopped():
            time.sleep(0.2)
    assert agents.stop_time >= 2 * 0.2
    agents.open()
    assert agents.stop_time == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda found: found._replace(worlds=found.worlds * 1000),
        lambda found: found._replace(ranks=(rank(1 << 40, 7, "a"),)),
        lambda found: found._replace(ranks=(rank(-1, 7, "a"),)),
    ],
    ids=["many", "large", "negative"],
)
def test_what_no_node_has_is_refused(spoil: Callable[[NodePart], NodePart]) -> None:
    """More jobs than fit, whose cost at the head would grow with their square, and ranks that no file can keep."""
    found = part("a", rank(0, 7, "a"), launcher=5)
    assert wire.read_parts(wire.write(wire.NodeParts((found,), ()))).parts == (found,)
    with pytest.raises(DamagedError):
        wire.read_parts(wire.write(wire.NodeParts((spoil(found),), ())))


def test_what_an_agent_names_runs_no_command(
    talk: Callable[[Mapping[str, Sequence[object]]], Agents], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Neither its nodes nor the hosts of its ranks get to ClusterShell, which would expand a group by the shell."""
    config = tmp_path / "groups.conf"
    config.write_text("[Main]\ndefault: site\n[site]\nmap: true $GROUP\n")
    NodeSet.set_std_group_resolver_config(str(config))
    request.addfinalizer(lambda: NodeSet.set_std_group_resolver(None))
    text = f"n1,@a;touch${{IFS}}{tmp_path}/ran"
    found = part("a", rank(0, 7, "a"), listed(1, 8, f"{text}2"), launcher=5)._replace(hosts=(f"{text}1",))
    agents = talk({"a": [wire.GREETING, answer("find", wire.write(wire.NodeParts((found,), ())))]})
    job = agents.find(["a"], wire.Wanted(any=True))
    assert [*tmp_path.glob("ran*")] == []
    assert summary(job) == [(0, "a", 7, None), (1, f"{text}2", 8, RankState.UNREADABLE)]
    assert job.nodes == ("a",)


@pytest.mark.parametrize("follow", [True, False])
def test_the_nodes_that_an_agent_names_are_asked_or_left_out(
    follow: bool, talk: Callable[[Mapping[str, Sequence[object]]], Agents]
) -> None:
    """Before any is reached its name is reported; those that aren't to be followed are reported afterwards."""
    found = part("a", rank(0, 7, "a"), listed(1, 8, "b"), launcher=5)._replace(hosts=("a", "c[1-2]"))
    said = {"a": [wire.GREETING, answer("find", wire.write(wire.NodeParts((found,), ())))]}
    others = ["c1", "c2", "b"]
    none = answer("find", wire.write(wire.NodeParts((), ())))
    reached: list[Sequence[str]] = []
    agents = talk(said | {node: [wire.GREETING, none] for node in others})
    agents._on_reach = reached.append
    job = agents.find(["a"], wire.Wanted(any=True), follow=follow)
    assert reached == [["a"], others][: 1 + follow]
    assert agents.left_out == ([] if follow else others)
    assert job.nodes == (("a", *others) if follow else ("a",))


def test_what_is_ended_is_what_this_machine_knows(
    talk: Callable[[Mapping[str, Sequence[object]]], Agents],
) -> None:
    """A node that lies could name marks and processes of another job: other nodes are told of neither."""
    local = FoundJob(
        5, "mpirun", "me", 0.0, "a", (FoundWorld(4, False),), (rank(0, 7, "a"), listed(1, 8, "b")), frozenset()
    )
    lies = part("b", rank(1, 8, "b"), listed(2, 99, "c"))._replace(marks=("pmix other",))
    true = part("c", rank(2, 9, "c"))._replace(marks=("pmix other",))
    told = {
        each.host: [wire.GREETING, answer("find", wire.write(wire.NodeParts((each,), ())))] for each in (lies, true)
    }
    agents = talk(told)
    agents.find(told, wire.Wanted(), local=local)
    asked = {node: wire.read(wire.Wanted, message["wanted"]) for node, message in agents.to_mark().items()}
    assert asked == {"b": wire.Wanted(pids=(8,)), "c": wire.Wanted()}


def test_two_jobs_are_not_taken_for_one(talk: Callable[[Mapping[str, Sequence[object]]], Agents]) -> None:
    """Where the nodes alone are named, or a program, and each has a job of its own, they are listed."""
    first = part("a", rank(0, 7, "a"), launcher=5)
    second = part("b", rank(0, 7, "b"), launcher=6)._replace(marks=("another",))
    told = {
        each.host: [wire.GREETING, answer("find", wire.write(wire.NodeParts((each,), ())))] for each in (first, second)
    }
    with pytest.raises(JobError, match=r"there are several jobs: PID 5 on a \(mpirun on a\); PID 6 on b"):
        talk(told).find(told, wire.Wanted(any=True))


# ---------------------------------------------------------------- what is sent along


@pytest.fixture(scope="module")
def packed() -> bytes:
    """Return the archive that --send brings to nodes."""
    return archive.packed()


class Sent:
    """An agent that was sent: the shell that starts it, its folder, and its greeting."""

    def __init__(self, packed: bytes, folder: Path, *, whole: bool = True) -> None:
        """Start it, and wait until it is there; with half of the archive, until that is being unpacked."""
        self.folder = folder
        command = archive.command(len(packed), [])
        self.shell = subprocess.Popen(
            ["env", "--default-signal=HUP,INT", "sh", "-c", f"exec {command}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder), "PATH": f"{sys.base_prefix}/bin:{os.environ['PATH']}"},
            start_new_session=True,
        )
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(packed if whole else packed[: len(packed) // 2])
        self.shell.stdin.flush()
        if whole:
            assert json.loads(self.shell.stdout.readline()) == wire.GREETING
        else:
            wait_until(lambda: any(folder.glob("*/mqs_dll/*")) and self._has_read_all())

    def _has_read_all(self) -> bool:
        """Return whether what reads the archive waits for more of it: nothing but a signal ends it then."""
        assert self.shell.stdin is not None
        unread = fcntl.ioctl(self.shell.stdin, termios.FIONREAD, bytes(4))
        return int.from_bytes(unread, sys.byteorder) == 0

    def agent(self) -> int:
        """Return the PID of the agent."""
        (pid,) = Path(f"/proc/{self.shell.pid}/task/{self.shell.pid}/children").read_text().split()
        return int(pid)

    def close(self) -> None:
        """End what is left, and wait until nothing is."""
        for pipe in (self.shell.stdin, self.shell.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        with suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()

    def leaves_nothing(self) -> bool:
        """Wait until its folder and its processes are gone."""
        wait_until(lambda: not any(self.folder.iterdir()))
        wait_until(lambda: not any(sid == self.shell.pid for sid in sessions()))
        return True


def sessions() -> Iterator[int]:
    """Yield the session of each process that runs."""
    for pid in numbers_in("/proc"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/exe").exists():
                yield os.getsid(pid)


def test_what_was_sent_loads_no_library(packed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It brings nothing that could: a library that the node's environment names is left alone."""
    monkeypatch.setenv("MQS_DLL", "/none.so")
    with closing(Sent(packed, tmp_path)) as sent:
        variables = Path(f"/proc/{sent.agent()}/environ").read_bytes().split(b"\0")
    assert [each for each in variables if each.startswith(b"MQS_DLL")] == [b"MQS_DLL="]


@pytest.mark.parametrize("whole", [True, False], ids=["running", "arriving"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_what_was_sent_is_removed_when_the_shell_is_ended_by_a_signal(
    number: signal.Signals, code: int, whole: bool, packed: bytes, tmp_path: Path
) -> None:
    """The agent ends with it, whatever it does, and so does what unpacks it; the exit code says which signal it was."""
    with closing(Sent(packed, tmp_path, whole=whole)) as sent:
        os.kill(sent.shell.pid, number)
        assert sent.shell.wait(30.0) == code
        assert sent.leaves_nothing()


def test_what_was_sent_is_removed_by_whoever_is_left(packed: bytes, tmp_path: Path) -> None:
    """By the agent when the shell was killed, by the shell when the agent was, and when all is over."""
    with closing(Sent(packed, tmp_path)) as sent:
        sent.shell.kill()
        sent.shell.wait()
        assert any(tmp_path.iterdir())
        assert sent.shell.stdin is not None
        sent.shell.stdin.close()
        assert sent.leaves_nothing()
    with closing(Sent(packed, tmp_path)) as sent:
        os.kill(sent.agent(), signal.SIGKILL)
        assert sent.shell.wait(30.0) == 137
        assert sent.leaves_nothing()
    with closing(Sent(packed, tmp_path)) as sent:
        assert sent.shell.stdin is not None
        sent.shell.stdin.close()
        assert sent.shell.wait(30.0) == 0
        assert sent.leaves_nothing()


def test_an_agent_removes_no_folder_but_its_own(tmp_path: Path) -> None:
    """A folder that libmqs doesn't lie in is wrong usage."""
    with pytest.raises(SystemExit):
        cli.main(["agent", "--folder", str(tmp_path)])
    assert tmp_path.exists()


# ---------------------------------------------------------------- engines


def test_a_carrier_takes_lines_to_commands_and_back() -> None:
    """What stays on more nodes than ClusterShell's fanout answers, and what ends says how, with its last words."""
    names = [f"node{number}" for number in range(1, 71)]
    with carrier.Carrier("env NODE=%h") as carried:
        carried.start(names, 'read line; echo "$NODE %h $line"; read line; echo "$NODE $line" >&2; exit 3')
        events: list[carrier.AgentLine | carrier.Gone] = []
        for word in (b"hears\n", b"ends\n"):
            carried.send(names, word)
            events += itertools.islice(iter(lambda: carried.next(30.0), None), len(names))
    lines = {event.text.decode() for event in events if isinstance(event, carrier.AgentLine)}
    ends = {(event.node, event.code, event.said) for event in events if isinstance(event, carrier.Gone)}
    assert lines == {f"{name} %h hears" for name in names}
    assert ends == {(name, 3, f"{name} ends") for name in names}


def test_what_nobody_reads_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends on and on while nobody takes it is ended; what came before is there."""
    monkeypatch.setattr(carrier, "_MAX_UNREAD", 100_000)
    place = tmp_path / "pid"
    with carrier.Carrier("env NODE=%h") as carried:
        carried.start(["node1"], f"echo $$ >{place}; exec yes")
        wait_until(lambda: place.exists() and bool(place.read_text()))
        wait_until(lambda: not Path(f"/proc/{int(place.read_text())}").exists())
        lines = list(iter(lambda: carried.next(30.0), carrier.Gone("node1", 0, "it sent more than it was asked for")))
    assert 900 < len(lines) < 1100


def test_squeue_says_which_jobs_run_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for Slurm's squeue; without any, there are no such jobs, and one that is named is an error."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.jobs() == []
    with pytest.raises(NodesError, match="isn't here"):
        slurm.nodes_of("7")
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\necho "7|me|2026-01-01T00:00:00|n[1-3]|a|name"\n')
    squeue.chmod(0o755)
    assert slurm.jobs() == [SlurmJob("7", "a|name", "me", "2026-01-01T00:00:00", "n[1-3]")]
    assert slurm.nodes_of("7") == "n[1-3]"
    squeue.write_text(
        '#!/bin/sh\ncase $* in *%j*) ;; *) echo "7|me|S|n[1-2]"; exit ;; esac\nprintf "7|me|S|n1|a\\nb|c"\n'
    )
    assert [each.name for each in slurm.jobs()] == ["a"], "the end of a name that has an end of line is no job"
    assert hosts.of_slurm(slurm.nodes_of("7")) == ["n1", "n2"]
    for text in ("@all", "n1,@all", "n[1-99999999]", "(null)", "n1;reboot"):
        with pytest.raises(NodesError, match="is no list of nodes"):
            hosts.of_slurm(text)
    squeue.write_text("#!/bin/sh\necho 'Invalid job id specified' >&2; exit 1\n")
    with pytest.raises(NodesError, match="Invalid job id"):
        slurm.nodes_of("7")
