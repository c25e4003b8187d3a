"""Records in terms of JSON, for the documents that schemas describe: what they all have in common.

Unlike the codec of saved jobs this is for readers who need nothing back: every member is there, whether it is a default
or not, and text is text, with replacements where it is no UTF-8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any

from mqs_dll.contract.abi import Operation
from mqs_dll.job.snapshot import Hidden


def plain(value: Any) -> Any:
    """Return a value in terms of JSON: a record's members by name, an enumeration's member as its name, small."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, str):
        return text_for_json(value)
    if isinstance(value, bytes):
        return name_to_json(value)
    if isinstance(value, Operation):
        return operation_to_json(value)
    if dataclasses.is_dataclass(value):
        return members(value, *(field.name for field in dataclasses.fields(value)))
    if isinstance(value, tuple):
        return members(value, *value._fields) if hasattr(value, "_fields") else [plain(each) for each in value]
    return value


def members(record: Any, *names: str) -> dict[str, Any]:
    """Return some members of a record in terms of JSON, in this order."""
    return {name: plain(getattr(record, name)) for name in names}


def listing(items: tuple[Any, ...] | Hidden, convert: Callable[[Any], Any] = plain) -> dict[str, Any]:
    """Return items, or why they can't be seen."""
    if isinstance(items, Hidden):
        return {"items": [], "hidden": text_for_json(items.reason)}
    return {"items": [convert(item) for item in items], "hidden": None}


def operation_to_json(operation: Operation) -> dict[str, Any]:
    """Return an operation with the fields of mqs_pending_operation."""
    return operation._asdict() | {
        "status": operation.status.name.lower(),
        "buffer": number_to_json(operation.buffer),
        "extra_text": [line.decode("utf-8", "replace") for line in operation.extra_text],
    }


def name_to_json(name: bytes) -> dict[str, str]:
    """Return a name as text for people and, since it may be no UTF-8, as its exact bytes."""
    return {"name": name.decode("utf-8", "replace"), "name_hex": name.hex()}


def number_to_json(number: int) -> str:
    """Return a 64-bit number as hexadecimal text: many readers of JSON keep but 53 bits of a number."""
    return f"{number:#x}"


def text_for_json(text: str) -> str:
    """Return text without lone surrogates, which JSON can spell but many readers refuse."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
