"""Whole queues, where all of them can be seen: each operation, their order, and that there are no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mqs_dll.contract.abi import Operation, Queue, Status
from mqs_dll.job.snapshot import CommunicatorSnapshot, QueueSnapshot
from tests.support.rules import BUFFERED
from tests.support.truth.collectives import compare_collectives, compare_internal
from tests.support.truth.communicators import pair, took_a_number
from tests.support.truth.fields import Comparison, Fetch
from tests.support.truth.written import TrueCommunicator, TrueOperation, Truth

UNFORESEEN = re.compile(r" failed: \w+:")
"""How a refusal names an exception that nobody foresaw."""

HANDLE = re.compile(rb"\brequest (0x[0-9a-f]+)\b")
"""How a line of text names the handle of a request."""


def compare_operations(truth: Truth, shown: Sequence[CommunicatorSnapshot], fetch: Fetch) -> list[str]:
    """Compare every operation of a process where all of it can be seen: each field, the order, and no others."""
    found, others, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        for queue in each.queues:
            differences += [f"{key}: {text}" for text in compare_queue(truth, key, queue, fetch)]
    for each in others:
        if not took_a_number(truth, each):
            differences += compare_internal(truth, each)
    return differences


def compare_queue(truth: Truth, key: str, queue: QueueSnapshot, fetch: Fetch) -> list[str]:
    """Compare one queue of one communicator."""
    communicator = truth.communicator(key)
    refused = str(queue.hidden or queue.broken or "")
    if refused and (UNFORESEEN.search(refused) or not truth.rules.may_refuse(queue.queue, communicator)):
        return [f"{queue.queue.name} can't be seen: {refused}"]
    own = [each for each in queue.operations if not truth.rules.is_internal(each)]
    if queue.queue is Queue.SENDS and not any(each.queue is Queue.SENDS for each in truth.operations):
        own = [each for each in own if not truth.rules.may_be_internal(each)]
    if queue.queue is Queue.RECEIVES and any(each.communicator == key for each in truth.collectives):
        requests = {each.request for each in truth.operations}
        own = [one for one in own if not truth.rules.may_be_internal(one) or key_of_shown(queue.queue, one) in requests]
    shown = [each for each in own if not truth.rules.is_of_any(each)]
    traffic = [each for each in queue.operations if truth.rules.is_internal(each)]
    differences = compare_collectives(truth, communicator, traffic)
    differences += [text for each in own if truth.rules.is_of_any(each) for text in compare_done(truth, each)]
    true = expected_operations(truth, communicator, queue.queue)
    if refused:
        true = [replace(each, optional=True) for each in true]
    compare = Comparison(truth.rules, communicator, fetch)
    if truth.rules.ordered:
        return differences + compare_in_order(queue.queue, true, shown, compare)
    return differences + compare_paired(
        queue.queue, true, shown, compare, in_turn=truth.in_turn and truth.rules.arrival_has_order
    )


def compare_done(truth: Truth, shown: Operation) -> list[str]:
    """Compare a send that is done, and of which only the request is left, with those of all communicators."""
    sends = [each for each in truth.operations if each.queue is Queue.SENDS]
    done = {each.request for each in sends if each.done}
    is_one = key_of_shown(Queue.SENDS, shown) in done or any(each.call in BUFFERED for each in sends)
    return [] if is_one and shown.status is Status.COMPLETE else [f"no send is done that has {shown}"]


def compare_in_order(
    queue: Queue, true: Sequence[TrueOperation], shown: Sequence[Operation], compare: Comparison
) -> list[str]:
    """Compare operations that have an order."""
    true = [each for each in true if not each.optional or any(is_same(each, one) for one in shown)]
    if len(true) != len(shown):
        return [f"{len(shown)} {queue.name} instead of {len(true)}: {shown}, not {true}"]
    return [
        f"{queue.name} {index} ({one}): {text}"
        for index, (one, other) in enumerate(zip(true, shown, strict=True))
        for text in compare(one, other)
    ]


def is_same(true: TrueOperation, shown: Operation) -> bool:
    """Return whether an operation that may leave no trace is the one shown."""
    same_buffer = true.buffer in (-1, shown.buffer)
    return same_buffer and (true.peer, true.tag) == (shown.desired_local_rank, shown.desired_tag)


def compare_paired(
    queue: Queue,
    true: Sequence[TrueOperation],
    shown: Sequence[Operation],
    compare: Comparison,
    *,
    in_turn: bool,
) -> list[str]:
    """Compare operations each with its own, and then their order, as far as MPI defines one.

    Receives that wait are matched in the order of their posting; sends to one rank are in that of sending, or say that
    they aren't; messages of one sender, or of senders that took turns, come in the order of their sending; a probe for
    any message finds the first.
    """
    pairs, missing, made_up = pair_operations(queue, true, shown, compare)
    differences = [f"{queue.name} ({true[one]}): {text}" for one, at in pairs for text in compare(true[one], shown[at])]
    differences += [f"{queue.name} ({true[one]}): not shown" for one in missing if not true[one].optional]
    differences += [f"{queue.name}: made up: {shown[at]}" for at in made_up]
    lines: dict[int, list[int]] = {}
    senders = {each.peer for each in true}
    for one, at in sorted(pairs, key=lambda pair: pair[1]):
        if queue is Queue.SENDS and tells_order(shown[at]):
            lines.setdefault(true[one].peer, []).append(one)
        elif queue is Queue.UNEXPECTED:
            lines.setdefault(0 if in_turn else true[one].peer, []).append(one)
        elif queue is Queue.RECEIVES and true[one].status is Status.PENDING:
            for source in may_match(true[one], senders, one_order=compare.rules.one_order):
                lines.setdefault(source, []).append(one)
    differences += [f"{queue.name} in the order {line}" for line in lines.values() if line != sorted(line)]
    last_probed = compare.communicator.last_probed
    if queue is Queue.UNEXPECTED and shown and last_probed not in (-1, shown[0].desired_local_rank):
        differences.append(f"the first message is not that of {last_probed}: {shown[0]}")
    return differences


def may_match(receive: TrueOperation, senders: set[int], *, one_order: bool) -> set[int]:
    """Return the sources of messages that a receive may match; with one order one number stands for all."""
    if one_order:
        return {0}
    return senders if receive.peer == -1 else {receive.peer}


def tells_order(shown: Operation) -> bool:
    """Return whether a send is in the order of sending to its rank: it says so where it isn't."""
    return shown.desired_local_rank >= 0 and b"order" not in b"\n".join(shown.extra_text)


def pair_operations(
    queue: Queue, true: Sequence[TrueOperation], shown: Sequence[Operation], compare: Comparison
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Find each true operation among those shown: by its key, or as the one that it differs from least.

    Returns:
        Pairs of their positions; positions of true operations that are not shown; of shown ones that are not true.
    """
    by_key: dict[object, list[int]] = {}
    for index in reversed(range(len(shown))):
        by_key.setdefault(key_of_shown(queue, shown[index]), []).append(index)
    pairs: list[tuple[int, int]] = []
    missing = []
    for index, one in enumerate(true):
        key = key_of(one)
        found = None if key is None else by_key.get(key)
        if found:
            pairs.append((index, found.pop()))
        else:
            missing.append(index)
    left = sorted(index for found in by_key.values() for index in found)
    unlike = {
        (index, at): len(compare(true[index], shown[at]))
        for index in missing
        for at in left
        if not (true[index].optional and true[index].request and not true[index].freed)
    }
    for index, at in sorted(unlike, key=lambda pair: (unlike[pair], true[pair[0]].optional)):
        if index in missing and at in left:
            pairs.append((index, at))
            left.remove(at)
            missing.remove(index)
    return pairs, missing, left


def key_of(true: TrueOperation) -> object:
    """Return what distinguishes an operation from the others of its queue, None for a request without a handle."""
    if true.queue is Queue.UNEXPECTED:
        return true.peer, true.tag
    return true.request if true.request and not true.freed else None


def key_of_shown(queue: Queue, shown: Operation) -> object:
    """Return the same of an operation as it is shown."""
    if queue is Queue.UNEXPECTED:
        return shown.desired_local_rank, shown.desired_tag
    handle = HANDLE.search(b"\n".join(shown.extra_text))
    return int(handle.group(1), 16) if handle else None


def expected_operations(truth: Truth, communicator: TrueCommunicator, queue: Queue) -> list[TrueOperation]:
    """Return the true operations of a queue in the order in which they must be shown."""
    mine = [each for each in truth.operations if each.communicator == communicator.key and each.queue is queue]
    true = [each for one in mine if (each := truth.rules.as_it_is(one, communicator)) is not None]
    if not truth.rules.ordered:
        return true
    if queue is Queue.SENDS:
        return sorted(true, key=lambda each: each.peer)
    if queue is Queue.UNEXPECTED:  # the order in which MPI_ANY_SOURCE looks at the sources
        first = max(communicator.last_probed, 0) + 1
        size = len(communicator.peers)
        return sorted(true, key=lambda each: (each.peer - first) % size)
    return true
