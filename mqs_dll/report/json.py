"""A job and its verdict for machines: what docs/json-schema.md describes and job-schema-1.json holds it to.

Processes are named by their places in ``processes``, communicators by theirs in ``communicators``. Where there may be
as many as a job has processes, places stand in runs: [[0, 3], [7, 7]].
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from mqs_dll.debugger.job.records import CallStack, Frame, Job, JobProcess, Sample
from mqs_dll.debugger.snapshot import Hidden
from mqs_dll.report.process_json import number_to_json, text_for_json
from mqs_dll.report.process_json import to_json as snapshot_to_json
from mqs_dll.verdict.results import Activity, Certainty, CommunicatorFacts, Finding, Verdict, Wait

SCHEMA = "mqs-job-report/1"
"""Changes with every change that could break a reader; additions don't."""

MOST_SNAPSHOTS = 1000
"""Processes whose snapshots are told unasked: each holds its communicators' groups, so they grow with the square."""


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
        snapshots = len(job.processes) <= MOST_SNAPSHOTS
    peers = _Runs()
    return {
        "schema": SCHEMA,
        "outcome": verdict.outcome.name.lower(),
        "exit_code": int(verdict.outcome),
        "headline": text_for_json(verdict.headline),
        "findings": [_finding(finding) for finding in verdict.findings],
        "job": _facts(job),
        "processes": [
            _process(process, activity, snapshots)
            for process, activity in zip(job.processes, verdict.activities, strict=True)
        ],
        "waits": [_wait(wait, peers) for wait in verdict.waits],
        "communicators": [_communicator(communicator) for communicator in verdict.communicators],
    }


# ---------------------------------------------------------------- the job


def _facts(job: Job) -> dict[str, Any]:
    return {
        "title": text_for_json(job.title),
        "source": job.source,
        "host": text_for_json(job.host),
        "taken": text_for_json(job.taken),
        "mpi": text_for_json(job.mpi),
        "launcher": job.launcher,
        "stopped": job.stopped,
        "pause": job.pause,
        "interval": job.interval,
        "counted": job.counted,
        "sizes": list(job.sizes),
    }


def _process(process: JobProcess, activity: Activity, snapshots: bool) -> dict[str, Any]:
    return {
        "world": process.world,
        "rank": process.rank,
        "host": text_for_json(process.host),
        "pid": process.pid,
        "program": text_for_json(process.program),
        "state": process.state.name.lower(),
        "why": text_for_json(process.why),
        "way_out": text_for_json(process.way_out),
        "call": _text_or_null(activity.call),
        "phrase": text_for_json(activity.phrase),
        "where": text_for_json(activity.where),
        "mode": activity.mode.value,
        "certainty": _certainty(activity.certainty),
        "halt": text_for_json(activity.halt),
        "samples": [_sample(sample) for sample in process.samples] if snapshots else None,
    }


def _sample(sample: Sample) -> dict[str, Any]:
    stacks = sample.stacks
    hidden = text_for_json(stacks.reason) if isinstance(stacks, Hidden) else None
    seen: Iterable[CallStack] = () if isinstance(stacks, Hidden) else stacks
    return {
        "at": sample.at,
        "went_on": sample.went_on,
        "stacks": {"items": [_stack(stack) for stack in seen], "hidden": hidden},
        "snapshot": snapshot_to_json(sample.snapshot),
    }


def _stack(stack: CallStack) -> dict[str, Any]:
    return {
        "thread": stack.thread,
        "call": _text_or_null(stack.call),
        "caller": None if stack.caller is None else _frame(stack.caller),
        "python": None if stack.python is None else _frame(stack.python),
        "frames": [_frame(frame) for frame in stack.frames],
        "fingerprint": text_for_json(stack.fingerprint),
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "function": text_for_json(frame.function),
        "module": text_for_json(frame.module),
        "file": _text_or_null(frame.file),
        "line": frame.line,
        "language": frame.language.value,
    }


# ---------------------------------------------------------------- the verdict


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "cause": finding.cause.value,
        "certainty": finding.certainty.value,
        "sentence": text_for_json(finding.sentence),
        "advice": text_for_json(finding.advice),
        "processes": list(finding.processes),
        "communicator": finding.communicator_id,
    }


def _wait(wait: Wait, runs: _Runs) -> dict[str, Any]:
    return {
        "process": wait.process,
        "kind": wait.kind.value,
        "what": text_for_json(wait.what),
        "communicator": wait.communicator_id,
        "communicator_name": _text_or_null(wait.communicator),
        "peers": runs.of(wait.peers),
        "any_source": wait.any_source,
        "peer_rank": wait.peer_rank,
        "tag": wait.tag,
        "any_tag": wait.any_tag,
        "length": wait.length,
        "window": _text_or_null(wait.window),
        "certainty": wait.certainty.value,
    }


def _communicator(facts: CommunicatorFacts) -> dict[str, Any]:
    return {
        "name": text_for_json(facts.name),
        "description": text_for_json(facts.description),
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


class _Runs:
    """Places as runs; each tuple of them is looked at once, because thousands of waits may share one of thousands."""

    def __init__(self) -> None:
        self._known: dict[int, list[list[int]]] = {}

    def of(self, places: tuple[int, ...]) -> list[list[int]]:
        """Return the first and last of each run, ascending."""
        runs = self._known.get(id(places))
        if runs is None:
            runs = self._known[id(places)] = _runs(sorted(places))
        return runs


def _runs(ordered: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for place in ordered:
        if runs and runs[-1][1] == place - 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return runs


def _text_or_null(text: str | None) -> str | None:
    return None if text is None else text_for_json(text)


def _certainty(certainty: Certainty | None) -> str | None:
    return None if certainty is None else certainty.value
