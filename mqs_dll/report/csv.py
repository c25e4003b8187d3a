"""A job and its verdict for spreadsheets: one row for each wait, each pending operation and each unexpected message.

A rank that has none of these has a row of its own, so that none is missing. The file is as RFC 4180 has it. Numbers
stand as numbers; a text that a spreadsheet would take for a formula has an apostrophe before it, and control characters
are backslash escapes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import cache

from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Queue
from mqs_dll.contract.escape import printable, visible
from mqs_dll.job.records import Job, JobProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot, is_note, leaves_peer_open
from mqs_dll.report.names import name_many
from mqs_dll.report.words import FROM_CALL, ranks_of
from mqs_dll.verdict.results import Activity, Certainty, Verdict, Wait

COLUMNS = (
    "row",
    "world",
    "rank",
    "host",
    "pid",
    "program",
    "state",
    "call",
    "where",
    "certainty",
    "what",
    "communicator",
    "communicator_id",
    "communicator_description",
    "status",
    "peer",
    "peer_world_rank",
    "tag",
    "bytes",
    "buffer",
    "text",
)
"""The header; docs/json-schema.md says what stands in each."""

_KINDS = {Queue.SENDS: "send", Queue.RECEIVES: "receive", Queue.UNEXPECTED: "message"}
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What spreadsheets start a formula with; they read the full-width forms alike."""

_ANY = "any"
_NOT_KNOWN = ""

Cell = str | int | None
Row = dict[str, Cell]


def render(job: Job, verdict: Verdict) -> str:
    """Return the rows with a header, in the order of the job's processes; lines end in CR LF."""
    output = io.StringIO()
    writer = csv.DictWriter(output, COLUMNS, restval=_NOT_KNOWN)
    writer.writeheader()
    for row in _rows(job, verdict):
        writer.writerow({column: _safe(cell) if isinstance(cell, str) else cell for column, cell in row.items()})
    return output.getvalue()


def _rows(job: Job, verdict: Verdict) -> Iterator[Row]:
    @cache
    def named(processes: tuple[int, ...]) -> str:
        return name_many(job, processes)

    for _, process, activity, waits in ranks_of(job, verdict):
        found = [*(_wait(wait, verdict, named(wait.peers)) for wait in waits), *_operations(process)]
        for row in found or [_alone(activity)]:
            yield _process(process, activity) | row


def _process(process: JobProcess, activity: Activity) -> Row:
    return {
        "world": process.world,
        "rank": process.rank,
        "host": visible(process.host),
        "pid": process.pid,
        "program": visible(process.program),
        "state": process.state.value,
        "call": visible(activity.call or _NOT_KNOWN),
        "where": visible(activity.where),
        "certainty": _certainty(activity.certainty),
    }


def _alone(activity: Activity) -> Row:
    return {"row": "rank", "what": visible(activity.phrase)}


def _wait(wait: Wait, verdict: Verdict, peers: str) -> Row:
    known = None if wait.communicator_id is None else verdict.communicators[wait.communicator_id]
    return {
        "row": "wait",
        "certainty": _certainty(wait.certainty),
        "what": visible(wait.what),
        "communicator": visible(wait.window or wait.communicator or _NOT_KNOWN),
        "communicator_id": _NOT_KNOWN if known is None else f"{known.unique_id:#x}",
        "communicator_description": _NOT_KNOWN if known is None else visible(known.description),
        "peer": _ANY if wait.any_source else wait.peer_rank,
        "peer_world_rank": peers,
        "tag": _ANY if wait.any_tag else wait.tag,
        "bytes": wait.length,
        "text": FROM_CALL if wait.from_call else _NOT_KNOWN,
    }


def _certainty(certainty: Certainty | None) -> str:
    return _NOT_KNOWN if certainty is None else certainty.value


# ---------------------------------------------------------------- operations


def _operations(process: JobProcess) -> Iterator[Row]:
    """Yield what is in the queues of a process, as its last sample has it."""
    for sample in process.samples[-1:]:
        for communicator in sample.snapshot.communicators:
            for queue in communicator.queues:
                for operation in queue.operations:
                    yield _operation(communicator, queue.queue, operation)


def _operation(snapshot: CommunicatorSnapshot, queue: Queue, operation: Operation) -> Row:
    lines = [printable(line) for line in operation.extra_text]
    nothing_known = is_note(queue, operation) and operation.desired_local_rank == INVALID_RANK
    return {
        "row": "note" if nothing_known else _KINDS[queue],
        "certainty": _NOT_KNOWN,
        "what": lines[0] if lines else _NOT_KNOWN,
        "communicator": printable(snapshot.label.name),
        "communicator_id": f"{snapshot.communicator.unique_id:#x}",
        "communicator_description": printable(snapshot.label.description),
        "status": operation.status.name.lower(),
        "peer": _rank(queue, operation, operation.desired_local_rank),
        "peer_world_rank": _rank(queue, operation, operation.desired_global_rank),
        "tag": _ANY if operation.tag_wild else _number(operation.desired_tag),
        "bytes": _number(operation.desired_length),
        "buffer": f"{operation.buffer:#x}" if operation.buffer else _NOT_KNOWN,
        "text": "; ".join(lines[1:]),
    }


def _rank(queue: Queue, operation: Operation, desired: int) -> Cell:
    if desired != INVALID_RANK:
        return desired
    return _ANY if leaves_peer_open(queue, operation) else _NOT_KNOWN


def _number(value: int) -> Cell:
    return _NOT_KNOWN if value == UNKNOWN else value


# ---------------------------------------------------------------- cells


def _safe(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: names are anybody's to choose."""
    return f"'{text}" if text.startswith(_FORMULA) else text
