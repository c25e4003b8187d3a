"""What differs between two jobs, for machines: the document that diff-schema-2.json describes, one entry per rank."""

from __future__ import annotations

import json
from typing import Any

from mqs_dll.job.changes import (
    CallChange,
    CommunicatorChange,
    JobDiff,
    OperationChange,
    StateChange,
    VisibilityChange,
)
from mqs_dll.report.fields import members, number_to_json, plain

SCHEMA = "mqs-diff/2"
"""Changes with every change that could break a reader; additions don't."""

_Change = StateChange | CallChange | CommunicatorChange | OperationChange | VisibilityChange


def render(diff: JobDiff) -> str:
    """Return all differences as one JSON document, in ASCII, without a newline at the end."""
    return json.dumps(to_json(diff), indent=2)


def to_json(diff: JobDiff) -> dict[str, Any]:
    """Return all differences in terms of JSON."""
    return {
        "schema": SCHEMA,
        **members(diff, "same", "compared", "restarted", "facts"),
        "states": [_change(each) for each in diff.states],
        "calls": [_change(each) for each in diff.calls],
        "communicators": [_change(each) | {"unique_id": number_to_json(each.unique_id)} for each in diff.communicators],
        "operations": [_change(each) for each in diff.operations],
        "visibility": [_change(each) for each in diff.visibility],
    }


def _change(change: _Change) -> dict[str, Any]:
    """Return the members of a change, those of its rank in the rank's place."""
    found: dict[str, Any] = plain(change)
    rank: dict[str, Any] = found.pop("rank")
    return rank | found
