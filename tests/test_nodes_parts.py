"""Jobs on several nodes, without any: messages, names of nodes, and what agents have found as one job."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.debugger.job.codec import DamagedError
from mqs_dll.debugger.job.facts import Obstacle
from mqs_dll.debugger.job.find.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.debugger.job.nodes import carrier, hosts, slurm, wire
from mqs_dll.debugger.job.nodes.merge import Answer, merged
from mqs_dll.debugger.job.nodes.wire import Assembler, Jobs, Part, lines_of, write_job
from mqs_dll.debugger.job.records import RankState
from mqs_dll.errors import NodesError
from mqs_dll.report.nodes import fold
from tests.support.synthetic_job import halo

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
    job = halo(100)
    document = json.loads(json.dumps(write_job(job)))
    jobs = Jobs()
    one, other = jobs.read(document), jobs.read(document)
    assert one == job
    first, second = (each.processes[0].samples[0].snapshot.communicators[-1].group for each in (one, other))
    assert first is second
    assert document["groups"][-1] == [0, 100]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("groups"),
        lambda document: document.update(groups=[[0]]),
        lambda document: document.update(groups=[[0, 1 << 40]]),
        lambda document: document.update(groups=[["0", "1"]]),
        lambda document: document.update(groups=[[0, -1]]),
        lambda document: document["job"].update(sizes=[1 << 40]),
        lambda document: document["job"]["processes"][0].update(world=7),
    ],
)
def test_what_no_agent_has_read_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    """A group of more members than there is memory for, too."""
    document = write_job(halo(4))
    spoil(document)
    with pytest.raises(DamagedError):
        Jobs().read(document)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["n1", "n2.example.org"], ["n1", "n2.example.org"]),
        (["n[1-3,7]"], ["n1", "n2", "n3", "n7"]),
        (["-oProxyCommand=reboot", "a b", "$(reboot)", "n1;reboot", "", "x" * 300, "n%h"], []),
        (["n[1-9999999]", "n[1-300][1-300]", "n[1-", "n[a-b]"], []),
    ],
    ids=["names", "Slurm's list", "commands", "too many"],
)
def test_names_that_nodes_tell_are_believed_when_they_are_names(names: list[str], found: list[str]) -> None:
    """What could be an option or a command is none, and a list that would fill the memory isn't unfolded."""
    assert list(hosts.named(names)) == found


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


def test_nodes_are_folded_by_their_numbers() -> None:
    """Numbers with leading zeros are other names; those without a number stand alone."""
    assert fold([f"n{number}" for number in (3, 1, 2, 7)]) == "n[1-3,7]"
    assert fold(["node08", "node09", "node10", "login"]) == "node[08-09],node10,login"
    assert fold(["n1.a.org", "n2.a.org", "n1.b.org"]) == "n[1-2].a.org,n1.b.org"


# ---------------------------------------------------------------- one job of many parts


def part(host: str, *ranks: FoundRank, launcher: int | None = None, key: str = "job@1") -> Part:
    """Return what a node has found of a job of four ranks, two of which its environment counts here."""
    world = FoundWorld(4, False, key, 2)
    return Part(host, f"mpirun on {host}", launcher, "me", 1.0, (world,), ranks, ("pmix job",), ())


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
    lost = Obstacle(RankState.UNREADABLE, "b did not answer within 5 s", "look again")
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


def test_worlds_are_told_apart_by_their_keys() -> None:
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


# ---------------------------------------------------------------- engines


def test_a_carrier_takes_lines_to_commands_and_back() -> None:
    """What is started on more nodes than ClusterShell's fanout answers, and what ends says how, with its last words."""
    names = [f"node{number}" for number in range(1, 71)]
    with carrier.Carrier("env NODE=%h") as carried:
        carried.start(names, 'read line; echo "$NODE $line"; echo "$NODE ends" >&2; exit 3')
        carried.send(names, b"hears\n")
        events = [carried.next(30.0) for _ in range(2 * len(names))]
    lines = {event.text.decode() for event in events if isinstance(event, carrier.Line)}
    ends = {(event.node, event.code, event.said) for event in events if isinstance(event, carrier.Gone)}
    assert lines == {f"{name} hears" for name in names}
    assert ends == {(name, 3, f"{name} ends") for name in names}


def test_squeue_says_which_jobs_run_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for Slurm's squeue; without any, there are no such jobs, and one that is named is an error."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.jobs() == []
    with pytest.raises(NodesError, match="isn't here"):
        slurm.nodes_of("7")
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\necho "7|me|2026-01-01T00:00:00|n[1-3]|a|name"\n')
    squeue.chmod(0o755)
    assert slurm.jobs() == [slurm.SlurmJob("7", "a|name", "me", "2026-01-01T00:00:00", "n[1-3]")]
    assert slurm.nodes_of("7") == "n[1-3]"
    squeue.write_text("#!/bin/sh\necho 'Invalid job id specified' >&2; exit 1\n")
    with pytest.raises(NodesError, match="Invalid job id"):
        slurm.nodes_of("7")
