"""Messages that match, and are not delivered: the samples show the same send and the same receive, and nothing moves.

Two processes in calls that wait for one and the same message move it on by themselves. Where both surely stood still in
all samples, something between them is broken: a link, a connection, the MPI.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.verdict.evidence import Evidence
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.pending import Pending, users
from mqs_dll.verdict.results import WaitKind
from mqs_dll.verdict.states import ProcessWait, State

MAX_SIZE = 1 << 20
"""Bytes of a message that no working network takes longer for than the samples do; larger ones may just be slow."""

MAX_PARTITIONED_SIZE = 1 << 26
"""The same of a partitioned message: it is much more often a part that its sender hasn't marked ready."""

Envelope: TypeAlias = "tuple[int, int, int, int | None]"
"""A sender, a receiver, a channel and a tag."""


class Undelivered(NamedTuple):
    """A message that two processes wait for."""

    sender: int
    receiver: int
    send: Need
    receive: Need


def undelivered(joined: Joined, waits: Sequence[ProcessWait], still: Collection[int]) -> list[Undelivered]:
    """Return the messages that match and did not move.

    Args:
        joined: the job's operations.
        waits: what each process waits for.
        still: the processes that surely stood still in all samples.
    """
    sends: dict[Envelope, Need] = {}
    receives: dict[Envelope, Need] = {}
    for process in still:
        if waits[process].state is not State.BLOCKED or _is_busy(joined.operations[process]):
            continue
        for need in (need for thread in waits[process].threads for need in thread.needs):
            envelope = _envelope(need)
            if envelope is not None:
                (sends if need.kind is WaitKind.SEND else receives).setdefault(envelope, need)
    return [Undelivered(key[0], key[1], sends[key], receives[key]) for key in sends if key in receives]


def waits_for_parts(need: Need) -> bool:
    """Return whether a need is for a partitioned message, which matches long before its parts are ready."""
    pending = need.pending
    return pending is not None and pending.words.partitioned and (pending.length or 0) <= MAX_PARTITIONED_SIZE


def _envelope(need: Need) -> Envelope | None:
    """Return the envelope of the message that a need is done with by its match; None where there is none."""
    pending = need.pending
    of_message = need.kind in (WaitKind.SEND, WaitKind.RECEIVE) and need.satisfied is Evidence.YES
    if pending is None or not of_message or pending.words.matched_message:
        return None
    if need.kind is WaitKind.SEND:
        return None if pending.peer is None else (pending.process, pending.peer, pending.channel, pending.tag)
    if pending.status is Status.PENDING and pending.match is not None:
        return _of_message(pending, pending.match.sender, pending.match.tag)
    return _of_message(pending, pending.peer, pending.tag)


def _of_message(receive: Pending, sender: int | None, tag: int | None) -> Envelope | None:
    return None if sender is None else (sender, receive.process, receive.channel, tag)


def _is_busy(operations: Sequence[Pending]) -> bool:
    """Return whether a process is receiving a large message, which may be slow, and keep others behind it."""
    return any(
        each.queue is Queue.RECEIVES and each.status is Status.MATCHED and (each.arrived or 0) > MAX_SIZE
        for each in users(operations)
    )
