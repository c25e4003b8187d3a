"""A Snapshot for machines: the document that docs/json-schema.md describes and schema-2.json holds it to."""

from __future__ import annotations

import json
from typing import Any

from mqs_dll.contract.abi import Datatype, Window
from mqs_dll.job.bindings import Parameter, parameters
from mqs_dll.job.records import Argument, CallStack
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden, QueueSnapshot, Snapshot
from mqs_dll.report.fields import listing, members, name_to_json, number_to_json, plain, text_for_json

SCHEMA = "mqs-show/2"
"""Changes with every change that could break a reader; additions don't."""


def render(snapshot: Snapshot, stacks: tuple[CallStack, ...] | Hidden | None = None) -> str:
    """Return a snapshot, and where its threads stood, as one JSON document, in ASCII, without a newline at the end."""
    document = to_json(snapshot) | {"stacks": None if stacks is None else listing(stacks, stack_to_json)}
    return json.dumps(document, indent=2)


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot in terms of JSON."""
    core = snapshot.core
    return {
        "schema": SCHEMA,
        **members(snapshot, "pid", "program", "global_rank"),
        "library": {
            "version": text_for_json(snapshot.library),
            "path": plain(snapshot.library_path),
            **members(snapshot, "image_message", "process_message"),
        },
        "stop": {"seconds": snapshot.stop_time, "reads": snapshot.reads, "bytes": snapshot.bytes_read},
        "communicators": [_communicator(communicator) for communicator in snapshot.communicators],
        "windows": None if core.windows is None else listing(core.windows, _window),
        "datatypes": None if core.datatypes is None else listing(core.datatypes, _datatype),
        "layouts": plain(core.layouts),
    }


def stack_to_json(stack: CallStack) -> dict[str, Any]:
    """Return where a thread is, and with what it called MPI."""
    known = {each.name: each for each in parameters(stack.call or "") or ()}
    return {
        **members(stack, "thread", "call", "caller", "callback", "python"),
        "arguments": {each.name: _argument(each, known.get(each.name)) for each in stack.arguments},
        **members(stack, "frames", "in_call", "complete"),
        "repeats": [[*repeat] for repeat in stack.repeats],
        "fingerprint": plain(stack.fingerprint),
    }


def _argument(argument: Argument, parameter: Parameter | None) -> dict[str, Any]:
    is_number = parameter is not None and not parameter.pointers and not parameter.is_handle
    return {
        "value": argument.value if is_number else number_to_json(argument.value),
        **members(argument, "called", "evidence", "reread"),
        "elements": [number_to_json(each) for each in argument.elements],
    }


def _communicator(snapshot: CommunicatorSnapshot) -> dict[str, Any]:
    record, label = snapshot.communicator, snapshot.label
    return {
        "unique_id": number_to_json(record.unique_id),
        **members(record, "local_rank", "size"),
        **name_to_json(label.name),
        "description": label.description.decode("utf-8", "replace"),
        "remote_size": label.remote,
        **members(label, "freed", "internal"),
        "group": listing(snapshot.group, int),
        "queues": {queue.queue.name.lower(): _queue(queue) for queue in snapshot.queues},
    }


def _queue(queue: QueueSnapshot) -> dict[str, Any]:
    return {
        "operations": plain(queue.operations),
        "hidden": text_for_json(queue.hidden.reason) if queue.hidden else None,
        "broken": text_for_json(queue.broken) if queue.broken else None,
    }


def _window(window: Window) -> dict[str, Any]:
    return {**name_to_json(window.name), "size": window.size, "handle": number_to_json(window.address)}


def _datatype(datatype: Datatype) -> dict[str, Any]:
    return {
        **name_to_json(datatype.name),
        **members(datatype, "size", "predefined", "operations"),
        "handle": number_to_json(datatype.address),
    }
