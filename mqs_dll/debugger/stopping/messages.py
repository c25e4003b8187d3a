"""What a Holder and its process say to each other: frames in two pipes, with their length before them.

Orders are JSON: whoever gives them may have given up root (rights.py), and then is believed as little as the job's
user. Answers are pickled. An order of nothing, a None, means: let go, and wait for the next order; a pipe that is
closed: let go, and end.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mqs_dll.contract.errors import MqsError

_LENGTH = struct.Struct("<I")

_MAX_ORDER_SIZE = 1 << 24
"""Bytes: that of a hundred thousand processes is smaller."""


class Order(NamedTuple):
    """Which processes to hold, and for how long."""

    pids: Sequence[int]
    started: Mapping[int, int]
    """As tracer.Tracer has it."""
    deadline: float
    """Seconds that a process has to stop."""
    limit: float
    """Seconds after which they are let go."""
    final_message: str
    """What to print on standard error before the process that gave the order is ended by SIGALRM, because it didn't
    notice that the limit is over; empty to leave it alone."""


class Standing(NamedTuple):
    """The answer to an Order: what stands."""

    began: float
    """When the first process was stopped; time.monotonic()."""
    failures: Mapping[int, MqsError]
    """By PID, as Tracer.stop returns them."""
    stop_signals: Mapping[int, int]
    registers: Mapping[int, Mapping[int, bytes]]
    """These two as Tracer has them."""


class WatchedReturn(NamedTuple):
    """A call that a thread is in."""

    thread: int
    returns_to: int
    """The address that it returns to."""


class Watch(NamedTuple):
    """Which returns to notice, and for how long."""

    calls: Sequence[WatchedReturn]
    limit: float


def send(pipe: int, data: bytes) -> None:
    """Write a frame."""
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


def receive(pipe: int) -> Any:
    """Return an answer; EOFError when nobody is there any more."""
    (length,) = _LENGTH.unpack(_read(pipe, _LENGTH.size))
    return pickle.loads(_read(pipe, length))  # it comes from ourselves


def order_of(what: object) -> bytes:
    """Return an order as it is sent: the name of its kind, and its members."""
    members = {**what._asdict(), "started": [*what.started.items()]} if isinstance(what, Order) else what
    if isinstance(what, Watch):
        members = what._asdict()
    return json.dumps([type(what).__name__, members]).encode("ascii")


def next_order() -> Order | Watch | None:
    """Return the next order; EOFError when nobody is there any more, or says what isn't one."""
    (length,) = _LENGTH.unpack(_read(0, _LENGTH.size))
    if length > _MAX_ORDER_SIZE:
        raise EOFError
    try:
        kind, members = json.loads(_read(0, length))
        if kind == Order.__name__:
            return Order(**{**members, "started": {int(pid): int(at) for pid, at in members["started"]}})
        if kind == Watch.__name__:
            calls = [WatchedReturn(int(thread), int(address)) for thread, address in members["calls"]]
            return Watch(calls, float(members["limit"]))
        if members is None:
            return None
        raise ValueError(kind)
    except (LookupError, RecursionError, TypeError, ValueError):
        raise EOFError from None


def _read(pipe: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(pipe, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
