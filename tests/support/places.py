"""A hang of the gallery's in places of all kinds: what ``mqs job`` reports there, compared with what is true of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import SkipTest

from tests.support.gallery import Scene, kernel_counts, read_page
from tests.support.jobs import HANGS, PROGRAMS
from tests.support.mpis import Mpi

HANG = Scene("tag_mismatch.c", 3)
CALLS = ("MPI_Barrier(", "MPI_Recv(cells", "MPI_Recv(&answer")
"""In which its ranks wait, as the source has them."""
QUEUES: Mapping[str, Sequence[tuple[object, ...]]] = {
    "sends": [],
    "receives": [("pending", 2, 7777, 400)],
    "unexpected": [("complete", 2, 7776, 400)],
}
"""Of rank 1 on "halo exchange": status, sender, tag and length."""
PATIENCE = 60.0
"""Seconds that a program has to get stuck after it said that it is ready."""


def until_proved(look: Callable[[], str]) -> dict[str, Any]:
    """Look at a job, which gives a report in JSON, until something is proved; return the last report."""
    end = time.monotonic() + PATIENCE
    while True:
        document: dict[str, Any] = json.loads(look())
        if document["outcome"] == "proved" or time.monotonic() > end:
            return document


def check_findings(document: Mapping[str, Any], scene: Scene, mpi: Mpi) -> None:
    """Check that a report has the sentences that docs/gallery.md has of a scene."""
    told = {each["sentence"]: each["cause"] for each in document["findings"] if each["certainty"] != "noted"}
    assert told in [
        {sentence: cause.value for sentence, cause in each.findings.items()}
        for each in read_page()[str(scene)].expected_on(mpi)
    ]


def paths_of(document: Mapping[str, Any]) -> dict[int, tuple[str, str, str, int]]:
    """Return where each process is in a report's call tree: outermost function, call, and file and line of that.

    Each has been there in all samples.
    """
    nodes = document["call_tree"]["nodes"]
    inner = {each["parent"] for each in nodes}
    found = {}
    for place, node in enumerate(nodes):
        if place in inner:
            continue
        outer = node
        while outer["parent"] is not None:
            outer = nodes[outer["parent"]]
        for members in node["members"]:
            assert members["seen"] == members["samples"]
            for first, last in members["processes"]:
                path = (outer["function"], node["function"], Path(node["file"]).name, node["line"])
                found.update(dict.fromkeys(range(first, last + 1), path))
    return found


def compared(document: Mapping[str, Any], mpi: Mpi, verdict: str = "proved") -> dict[str, str]:
    """Return what docs/support-matrix.md says of a place, after comparing a report of the hang there.

    Skips the test where the kernel doesn't let this verdict be had.
    """
    check_findings(document, HANG, mpi)
    source = (PROGRAMS / HANGS / HANG.file).read_text().splitlines()
    lines = [number for call in CALLS for number, line in enumerate(source, 1) if call in line]
    assert [(each["state"], each["call"], each["where"]) for each in document["processes"]] == [
        ("read", call.partition("(")[0], f"{HANG.file}:{line}") for call, line in zip(CALLS, lines, strict=True)
    ]
    assert paths_of(document) == {
        rank: ("main", call.partition("(")[0], HANG.file, line)
        for rank, (call, line) in enumerate(zip(CALLS, lines, strict=True))
    }
    communicators = document["processes"][1]["samples"][-1]["snapshot"]["communicators"]
    (halo,) = (each["queues"] for each in communicators if each["name"] == "halo exchange")
    fields = ("status", "desired_local_rank", "desired_tag", "desired_length")
    shown = {name: [tuple(each[field] for field in fields) for each in halo[name]["operations"]] for name in QUEUES}
    assert shown == QUEUES
    if document["outcome"] != verdict and not kernel_counts():
        raise SkipTest("this kernel doesn't let us count returns from calls; see kernel.perf_event_paranoid")
    assert document["outcome"] == verdict
    return {"queues": "right", "stacks": "right", "verdict": verdict}
