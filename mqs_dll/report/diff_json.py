"""What differs between two jobs, for machines: the document that diff-schema-1.json describes, one entry per rank."""

from __future__ import annotations

import json
from typing import Any

from mqs_dll.abi import Operation
from mqs_dll.debugger.job.changes import (
    CallChange,
    CommunicatorChange,
    FactChange,
    JobDiff,
    OperationChange,
    RankName,
    SightChange,
    StateChange,
)
from mqs_dll.debugger.job.records import RankState
from mqs_dll.report.process_json import name_to_json, number_to_json, operation_to_json, text_for_json

SCHEMA = "mqs-diff/1"
"""Changes with every change that could break a reader; additions don't."""


def render(diff: JobDiff) -> str:
    """Return all differences as one JSON document, in ASCII, without a newline at the end."""
    return json.dumps(to_json(diff), indent=2)


def to_json(diff: JobDiff) -> dict[str, Any]:
    """Return all differences in terms of JSON."""
    return {
        "schema": SCHEMA,
        "same": diff.same,
        "compared": [_rank(rank) for rank in diff.compared],
        "restarted": [_rank(rank) for rank in diff.restarted],
        "facts": [_fact(change) for change in diff.facts],
        "states": [_state_change(change) for change in diff.states],
        "calls": [_call(change) for change in diff.calls],
        "communicators": [_communicator(change) for change in diff.communicators],
        "operations": [_operation_change(change) for change in diff.operations],
        "sights": [_sight(change) for change in diff.sights],
    }


def _rank(name: RankName) -> dict[str, int]:
    return {"world": name.world, "rank": name.rank}


def _fact(change: FactChange) -> dict[str, Any]:
    return {"what": change.what, "before": text_for_json(change.before), "after": text_for_json(change.after)}


def _state_change(change: StateChange) -> dict[str, Any]:
    return {**_rank(change.rank), "before": _state(change.before), "after": _state(change.after)}


def _state(state: RankState | None) -> str | None:
    return None if state is None else state.name.lower()


def _call(change: CallChange) -> dict[str, Any]:
    return {**_rank(change.rank), "before": text_for_json(change.before), "after": text_for_json(change.after)}


def _communicator(change: CommunicatorChange) -> dict[str, Any]:
    return {
        **_rank(change.rank),
        "unique_id": number_to_json(change.unique_id),
        "before": None if change.before is None else name_to_json(change.before),
        "after": None if change.after is None else name_to_json(change.after),
    }


def _operation_change(change: OperationChange) -> dict[str, Any]:
    return {
        **_rank(change.rank),
        "communicator": name_to_json(change.communicator),
        "queue": change.queue.name.lower(),
        "before": _operation(change.before),
        "after": _operation(change.after),
    }


def _operation(operation: Operation | None) -> dict[str, Any] | None:
    return None if operation is None else operation_to_json(operation)


def _sight(change: SightChange) -> dict[str, Any]:
    return {
        **_rank(change.rank),
        "what": change.what,
        "communicator": None if change.communicator is None else name_to_json(change.communicator),
        "before": None if change.before is None else text_for_json(change.before),
        "after": None if change.after is None else text_for_json(change.after),
    }
