"""Queues of transports that hide a part: what is shown is true or said to be unknown, and none made up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mqs_dll.contract.abi import Operation, Queue
from mqs_dll.job.snapshot import CommunicatorSnapshot, QueueSnapshot
from tests.support.rules import LABELS, SAYS_UNKNOWN
from tests.support.truth.communicators import pair
from tests.support.truth.fields import Comparison, Fetch, wrong_fields
from tests.support.truth.queues import compare_paired, compare_queue, expected_operations
from tests.support.truth.written import TrueOperation, Truth


def queues_in_part(truth: Truth, shown: Sequence[CommunicatorSnapshot]) -> set[Queue]:
    """Return the queues of which a part is refused, or in which a text says that a field is not known.

    Communicators with processes of another job don't count: their messages go another way. Nor do messages that the
    MPI sends for itself: which of them are pending differs from run to run.
    """
    found, _, _ = pair(truth, shown)
    return {
        queue.queue
        for key, each in found.items()
        if not truth.communicator(key).has_strangers
        for queue in each.queues
        if queue.hidden is not None
        or queue.broken is not None
        or any(
            SAYS_UNKNOWN.search(b"\n".join(operation.extra_text))
            for operation in queue.operations
            if not any(map(LABELS.match, operation.extra_text))
        )
    }


def compare_partly(truth: Truth, shown: Sequence[CommunicatorSnapshot]) -> list[str]:
    """Compare sends and receives where the transport keeps only a part: what is shown is true or -1, none made up."""
    found, _, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        communicator = truth.communicator(key)
        for queue in each.queues:
            if queue.queue is Queue.UNEXPECTED:
                continue
            true = expected_operations(truth, communicator, queue.queue)
            differences += [f"{key}: {text}" for text in compare_known(true, queue)]
    return differences


def compare_native(
    truth: Truth, shown: Sequence[CommunicatorSnapshot], words: Sequence[str], fetch: Fetch
) -> list[str]:
    """Compare queues that a network's library keeps: what is shown is true or said to be unknown, the rest hidden.

    Messages to oneself are the MPI's own affair and can be seen.
    """
    found, _, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        communicator = truth.communicator(key)
        for queue in each.queues:
            if queue.hidden is not None or queue.broken is not None:
                differences += says(queue, words)
            if queue.hidden is not None:
                continue
            if communicator.alone:
                differences += [f"{key}: {text}" for text in compare_queue(truth, key, queue, fetch)]
                continue
            true = expected_operations(truth, communicator, queue.queue)
            if queue.broken is not None:
                true = [replace(each, optional=True) for each in true]
            if queue.queue is Queue.UNEXPECTED:
                compare = Comparison(truth.rules, communicator, fetch)
                found_wrong = compare_paired(queue.queue, true, queue.operations, compare, in_turn=truth.in_turn)
            else:
                found_wrong = compare_known(true, replace(queue, broken=None))
            differences += [f"{key}: {text}" for text in found_wrong]
    return differences


def compare_known(true: Sequence[TrueOperation], queue: QueueSnapshot) -> list[str]:
    """Compare what is shown of a queue: each operation is one of the true ones, found by its request's handle."""
    if queue.broken is not None:
        return [f"{queue.queue.name} breaks off: {queue.broken}"]
    differences = []
    left = list(true)
    for shown in queue.operations:
        text = b"\n".join(shown.extra_text)
        same = [each for each in left if is_request_in(each, text) or (not each.request and is_buffer(each, shown))]
        if not same:
            differences.append(f"{queue.queue.name}: made up: {shown}")
            continue
        best = min(same, key=lambda each: len(wrong_fields(each, shown)))
        left.remove(best)
        differences += [f"{queue.queue.name} ({best}): {text}" for text in wrong_fields(best, shown)]
    kept = [each for each in left if each.request and each.count >= 0 and not each.optional and not each.freed]
    if kept:
        differences.append(f"{queue.queue.name}: not shown: {[str(each) for each in kept]}")
    return differences


def is_request_in(true: TrueOperation, text: bytes) -> bool:
    """Return whether a text names the operation's request."""
    return true.request != 0 and re.search(rb"\b0x%x\b" % true.request, text) is not None


def is_buffer(true: TrueOperation, shown: Operation) -> bool:
    """Return whether an operation without a handle has the buffer that is shown."""
    return true.tag == shown.desired_tag if true.buffer == -1 else true.buffer == shown.buffer


def says(queue: QueueSnapshot, words: Sequence[str]) -> list[str]:
    """Return a difference unless a queue is hidden, or breaks off, for a reason that contains these words."""
    reason = queue.hidden.reason if queue.hidden is not None else queue.broken
    if reason is not None and all(word in reason for word in words):
        return []
    return [f"{queue.queue.name}: {reason} does not say {words}"]
