"""The MPI's own traffic, compared with the collective operations that are pending."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mqs_dll.contract.abi import Operation
from mqs_dll.job.snapshot import CommunicatorSnapshot
from tests.support.truth.communicators import pair
from tests.support.truth.written import TrueCollective, TrueCommunicator, Truth

PIECES = {
    "MPI_Allgather": {"MPI_Allgather", "MPI_Gather", "MPI_Bcast"},
    "MPI_Allreduce": {"MPI_Allreduce", "MPI_Reduce", "MPI_Bcast"},
    "MPI_Barrier": {"MPI_Barrier", "MPI_Allreduce", "MPI_Reduce", "MPI_Bcast"},
    "MPI_Reduce_scatter": {"MPI_Reduce_scatter", "MPI_Reduce", "MPI_Scatterv"},
}
"""Collectives that MPIs make of others; the traffic then belongs to one of those."""


def compare_collectives(truth: Truth, communicator: TrueCommunicator, traffic: Sequence[Operation]) -> list[str]:
    """Compare the MPI's own traffic on a communicator with the collectives that are pending on it."""
    collectives = [each for each in truth.collectives if each.communicator == communicator.key]
    differences = []
    for operation in traffic:
        text = b"\n".join(operation.extra_text)
        if not any(is_named_by(each, text) for each in collectives):
            differences.append(f"traffic of no pending collective {[each.call for each in collectives]}: {operation}")
        differences += compare_peer(operation, communicator.peers)
    return differences


def compare_peer(operation: Operation, peers: Sequence[int]) -> list[str]:
    """Compare the ranks of an operation with each other."""
    rank = operation.desired_local_rank
    if rank == -1 or (0 <= rank < len(peers) and operation.desired_global_rank == peers[rank]):
        return []
    return [f"rank {rank} is not {operation.desired_global_rank} of MPI_COMM_WORLD: {operation}"]


def missing_collectives(truth: Truth, shown: Sequence[CommunicatorSnapshot]) -> list[str]:
    """Return the collectives that this process has entered and of which nothing is shown."""
    found, others, _ = pair(truth, shown)
    internal = others if truth.rules.hidden_traffic else []
    return [
        f"nothing is shown of {collective.call} on {collective.communicator}"
        for collective in truth.collectives
        if collective.entered
        and truth.rules.collectives_are_messages
        and not any(
            is_named_by(collective, b"\n".join(operation.extra_text))
            for each in (found[collective.communicator], *internal)
            for queue in each.queues
            for operation in queue.operations
        )
    ]


def compare_internal(truth: Truth, shown: CommunicatorSnapshot) -> list[str]:
    """Compare what goes on on a communicator that the MPI keeps for itself: it is shown for a collective's sake."""
    collectives = list(truth.collectives) if truth.rules.hidden_traffic else []
    if truth.internal_traffic:
        collectives.append(TrueCollective("", truth.internal_traffic, entered=True, blocking=True))
    operations = [operation for queue in shown.queues for operation in queue.operations]
    texts = [b"\n".join(each.extra_text) for each in operations if not truth.rules.may_be_internal(each)]
    if truth.rules.collectives_are_messages:
        wrong = [text for text in texts if not any(is_named_by(one, text) for one in collectives)]
    else:  # it may be any step of them
        wrong = [text for text in texts if b"collective" not in text or not collectives]
    if wrong or not operations:
        return [f"{shown.communicator.name!r} is shown with {texts}, not with {[each.call for each in collectives]}"]
    return []


def is_named_by(collective: TrueCollective, text: bytes) -> bool:
    """Return whether the lines of an operation's text say that it belongs to a collective."""
    if not collective.blocking:
        return b"nonblocking collective" in text
    if collective.call.startswith("MPI_Neighbor"):  # MPICH makes it of the nonblocking one
        return b"neighborhood collective" in text or b"nonblocking collective" in text
    return any(mentions(text, piece) for piece in PIECES.get(collective.call, {collective.call}))


def mentions(text: bytes, word: str) -> bool:
    """Return whether a text contains a word as a whole."""
    return re.search(rb"\b%s\b" % re.escape(word.encode()), text) is not None
