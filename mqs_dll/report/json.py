"""A job and its verdict for machines: what docs/json-schema.md describes and job-schema-2.json holds it to.

Processes are indices into ``processes``, communicators indices into ``communicators``. Where there may be as many as a
job has processes, they stand in runs: [[0, 3], [7, 7]].
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mqs_dll.job.call_tree import CallNode, CallTree, call_tree
from mqs_dll.job.ranges import intervals
from mqs_dll.job.records import Job, JobProcess, Sample
from mqs_dll.report.fields import listing, members, number_to_json, plain
from mqs_dll.report.process_json import stack_to_json
from mqs_dll.report.process_json import to_json as snapshot_to_json
from mqs_dll.verdict.results import Activity, CommunicatorFacts, Finding, Verdict, Wait

SCHEMA = "mqs-job-report/2"
"""Changes with every change that could break a reader; additions don't."""

_JOB = (
    "title",
    "source",
    "host",
    "taken",
    "mpi",
    "launcher",
    "stopped",
    "stop_time",
    "stop_skew",
    "interval",
    "counted",
    "sizes",
)

MAX_SNAPSHOTS = 1000
"""Processes whose snapshots are printed by default: each has its communicators' groups, which grow with the square."""


def render(job: Job, verdict: Verdict, *, snapshots: bool | None = None) -> str:
    """Return a job and its verdict as one JSON document, in ASCII, without a newline at the end.

    Args:
        job: what was read.
        verdict: what it means.
        snapshots: whether all that was seen of each process stands in it; None decides by the job's size.
    """
    return json.dumps(to_json(job, verdict, snapshots=snapshots), indent=2)


def to_json(job: Job, verdict: Verdict, *, snapshots: bool | None = None) -> dict[str, Any]:
    """Return a job and its verdict in terms of JSON; the arguments are those of render()."""
    if snapshots is None:
        snapshots = len(job.processes) <= MAX_SNAPSHOTS

    @cache  # thousands of waits may share one tuple of thousands
    def runs(processes: tuple[int, ...]) -> list[list[int]]:
        return [[*run] for run in intervals(processes)]

    return {
        "schema": SCHEMA,
        "outcome": plain(verdict.outcome),
        "exit_code": int(verdict.outcome),
        "headline": plain(verdict.headline),
        "findings": [_finding(finding) for finding in verdict.findings],
        "job": members(job, *_JOB),
        "processes": [
            _process(process, activity, snapshots)
            for process, activity in zip(job.processes, verdict.activities, strict=True)
        ],
        "waits": [_wait(wait, runs(wait.peers)) for wait in verdict.waits],
        "communicators": [_communicator(communicator) for communicator in verdict.communicators],
        "call_tree": _tree(call_tree(job), runs),
    }


# ---------------------------------------------------------------- the job


def _process(process: JobProcess, activity: Activity, snapshots: bool) -> dict[str, Any]:
    return {
        **members(process, "world", "rank", "host", "pid", "program", "test", "state", "why", "remedy"),
        **members(activity, "call", "phrase", "where", "mode", "certainty", "halt"),
        "samples": [_sample(sample) for sample in process.samples] if snapshots else None,
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        **members(sample, "at", "progressed"),
        "stacks": listing(sample.stacks, stack_to_json),
        "snapshot": snapshot_to_json(sample.snapshot),
    }


def _tree(tree: CallTree, runs: Callable[[tuple[int, ...]], list[list[int]]]) -> dict[str, Any]:
    """Return the nodes in a row, each with the place in it of its parent: a tree may be deeper than readers nest."""
    nodes: list[dict[str, Any]] = []
    left: list[tuple[CallNode, int | None]] = [(node, None) for node in reversed(tree.roots)]
    while left:
        node, parent = left.pop()
        left += [(child, len(nodes)) for child in reversed(node.children)]
        members = [
            {"seen": each.seen, "samples": each.samples, "processes": runs(each.processes)} for each in node.members
        ]
        place = {name: plain(value) for name, value in node.place._asdict().items()}
        nodes.append({"parent": parent, **place, "times": [*node.times], "members": members})
    unseen = [{"reason": plain(each.reason), "processes": runs(each.processes)} for each in tree.unseen]
    return {"samples": tree.samples, "nodes": nodes, "unseen": unseen}


# ---------------------------------------------------------------- the verdict


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "cause": finding.cause.value,
        **members(finding, "certainty", "sentence", "advice", "processes", "frees"),
        "communicator": finding.communicator_id,
    }


def _wait(wait: Wait, peers: list[list[int]]) -> dict[str, Any]:
    return {
        **members(wait, "process", "kind", "what"),
        "communicator": wait.communicator_id,
        "communicator_name": plain(wait.communicator),
        "peers": peers,
        **members(wait, "any_source", "peer_rank", "tag", "any_tag", "length", "window", "from_call", "certainty"),
    }


def _communicator(facts: CommunicatorFacts) -> dict[str, Any]:
    return {
        **members(facts, "name", "description"),
        "unique_id": number_to_json(facts.unique_id),
        "size": facts.size,
        "members": _members(facts.members),
        "remote": facts.remote,
    }


def _members(members: Sequence[int | None]) -> list[dict[str, list[int]]]:
    """Return which local ranks are which processes, in runs; those that weren't read are left out."""
    runs: list[dict[str, list[int]]] = []
    for rank, process in enumerate(members):
        if process is None:
            continue
        last = runs[-1] if runs else None
        if last and last["ranks"][1] == rank - 1 and last["processes"][1] == process - 1:
            last["ranks"][1], last["processes"][1] = rank, process
        else:
            runs.append({"ranks": [rank, rank], "processes": [process, process]})
    return runs
