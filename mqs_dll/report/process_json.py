"""A Snapshot for machines: the document that docs/json-schema.md describes and schema-1.json holds it to."""

from __future__ import annotations

import json
from typing import Any

from mqs_dll.abi import Datatype, LayoutOrigin, Operation, Window
from mqs_dll.debugger.snapshot import CommunicatorSnapshot, Hidden, QueueSnapshot, Snapshot

SCHEMA = "mqs-show/1"
"""Changes with every change that could break a reader; additions don't."""


def render(snapshot: Snapshot) -> str:
    """Return a snapshot as one JSON document, in ASCII, without a newline at the end."""
    return json.dumps(to_json(snapshot), indent=2)


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot in terms of JSON."""
    core = snapshot.core
    return {
        "schema": SCHEMA,
        "pid": snapshot.pid,
        "program": text_for_json(snapshot.program),
        "global_rank": snapshot.global_rank,
        "library": {
            "version": text_for_json(snapshot.library),
            "path": None if snapshot.library_path is None else text_for_json(snapshot.library_path),
            "image_message": text_for_json(snapshot.image_message),
            "process_message": text_for_json(snapshot.process_message),
        },
        "stop": {"seconds": snapshot.pause, "reads": snapshot.reads, "bytes": snapshot.bytes_read},
        "communicators": [_communicator(communicator) for communicator in snapshot.communicators],
        "windows": None if core.windows is None else _listing(core.windows, _window),
        "datatypes": None if core.datatypes is None else _listing(core.datatypes, _datatype),
        "layouts": None if core.layouts is None else [_layout(layout) for layout in core.layouts],
    }


def _communicator(snapshot: CommunicatorSnapshot) -> dict[str, Any]:
    record, label = snapshot.communicator, snapshot.label
    return {
        "unique_id": number_to_json(record.unique_id),
        "local_rank": record.local_rank,
        "size": record.size,
        **name_to_json(label.name),
        "description": label.description.decode("utf-8", "replace"),
        "remote_size": label.remote,
        "freed": label.freed,
        "internal": label.internal,
        "group": _listing(snapshot.group, int),
        "queues": {queue.queue.name.lower(): _queue(queue) for queue in snapshot.queues},
    }


def _queue(queue: QueueSnapshot) -> dict[str, Any]:
    return {
        "operations": [operation_to_json(operation) for operation in queue.operations],
        "hidden": text_for_json(queue.hidden.reason) if queue.hidden else None,
        "broken": text_for_json(queue.broken) if queue.broken else None,
    }


def operation_to_json(operation: Operation) -> dict[str, Any]:
    """Return an operation with the fields of mqs_pending_operation."""
    return operation._asdict() | {
        "status": operation.status.name.lower(),
        "buffer": number_to_json(operation.buffer),
        "extra_text": [line.decode("utf-8", "replace") for line in operation.extra_text],
    }


def _listing(items: tuple[Any, ...] | Hidden, convert: Any) -> dict[str, Any]:
    if isinstance(items, Hidden):
        return {"items": [], "hidden": text_for_json(items.reason)}
    return {"items": [convert(item) for item in items], "hidden": None}


def _window(window: Window) -> dict[str, Any]:
    return {**name_to_json(window.name), "size": window.size, "handle": number_to_json(window.address)}


def _datatype(datatype: Datatype) -> dict[str, Any]:
    return {
        **name_to_json(datatype.name),
        "size": datatype.size,
        "predefined": datatype.predefined,
        "operations": datatype.operations,
        "handle": number_to_json(datatype.address),
    }


def _layout(layout: LayoutOrigin) -> dict[str, Any]:
    return {"struct": layout.struct, "origin": layout.origin}


def name_to_json(name: bytes) -> dict[str, str]:
    """Return a name as text for people and, since it may be no UTF-8, as its exact bytes."""
    return {"name": name.decode("utf-8", "replace"), "name_hex": name.hex()}


def number_to_json(number: int) -> str:
    """Return a 64-bit number as hexadecimal text: many readers of JSON keep but 53 bits of a number."""
    return f"{number:#x}"


def text_for_json(text: str) -> str:
    """Return text without lone surrogates, which JSON can spell but many readers refuse."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
