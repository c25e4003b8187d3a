"""What an entry of a queue says of itself: whether it is a message at all, and whether any peer would do."""

from __future__ import annotations

from mqs_dll.contract.abi import UNKNOWN, Operation, Queue


def is_note(queue: Queue, operation: Operation) -> bool:
    """Tell whether an entry of the unexpected queue is no message, but text that counts some."""
    numbers = (operation.desired_tag, operation.desired_length, operation.actual_tag, operation.actual_length)
    return queue is Queue.UNEXPECTED and all(number == UNKNOWN for number in numbers)


def leaves_peer_open(queue: Queue, operation: Operation) -> bool:
    """Tell MPI_ANY_SOURCE from a source that isn't known: a receive of which even the tag isn't known lost both."""
    return queue is Queue.RECEIVES and (operation.tag_wild or operation.desired_tag != UNKNOWN)
