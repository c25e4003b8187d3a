"""Ranks that wait in a collective call for data of others which have left it: their counts differ.

With MPI_Alltoallv and MPI_Alltoallw, MPIs send nothing where a count is 0: who has nothing for others leaves without
them. Sources: mca_coll_basic_alltoallw_intra and ompi_coll_base_alltoallv_intra_basic_linear of Open MPI 4.1.4 and
5.0.11; alltoallv_intra_scattered.c of MPICH 4.3.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.job.calls import Blocks, what_ends
from mqs_dll.verdict.called import stacks_of
from mqs_dll.verdict.findings.common import Case, waits
from mqs_dll.verdict.pending import Pending
from mqs_dll.verdict.results import Cause, Finding
from mqs_dll.verdict.states import State

_BETWEEN_ALL = frozenset({"MPI_Alltoallv", "MPI_Alltoallw", "MPI_Alltoallv_c", "MPI_Alltoallw_c"})
_TO_ROOT = frozenset({"MPI_Gatherv", "MPI_Gatherv_c"})
_FROM_ROOT = frozenset({"MPI_Scatterv", "MPI_Scatterv_c"})

_SENT_TOGETHER = 32
"""Messages of one call that MPICH has under way at once (MPIR_CVAR_ALLTOALL_THROTTLE): in a communicator as small as
this a rank that waits for one message has sent all of its own."""


def who_left(case: Case, call: str, communicator: int | None, inside: Sequence[int]) -> dict[int, list[int]]:
    """Return whose data those who are in a call wait for although they have left it, and who waits for each.

    One has made the call if it has received what a rank that is in it has sent to it there: that is no longer under
    way, and lies nowhere. Then it has also sent all it had.
    """
    found: defaultdict[int, list[int]] = defaultdict(list)
    if call not in _BETWEEN_ALL or communicator is None:
        return found
    for process in inside:
        for need in case.analysis.unmet(process):
            receive = need.pending
            awaited = receive is not None and receive.queue is Queue.RECEIVES and receive.words.internal
            if receive is None or not awaited or receive.peer is None or receive.peer in inside:
                continue
            if _has_received(case, call, communicator, process, receive.peer):
                found[receive.peer].append(process)
    return found


def _has_received(case: Case, call: str, communicator: int, sender: int, receiver: int) -> bool:
    """Return whether a process surely has what another one has sent to it in a call."""
    analysis = case.analysis
    is_seen = (receiver, analysis.communicators.channel(communicator)) in analysis.joined.whole
    if analysis.state(receiver) is not State.BLOCKED or not is_seen:
        return False  # one that is outside MPI takes in nothing
    if not analysis.stood_still(receiver) or not analysis.stood_still(sender):
        return False
    lying = _of_call(case, receiver, Queue.UNEXPECTED, communicator, sender)
    sends = _of_call(case, sender, Queue.SENDS, communicator, receiver)
    if any(lying) or any(each.status is not Status.COMPLETE for each in sends):
        return False
    return any(each.words.collective == call.removesuffix("_c") for each in sends) or _has_sent(
        case, call, communicator, sender, receiver
    )


def _of_call(case: Case, process: int, queue: Queue, communicator: int, peer: int) -> list[Pending]:
    """Return traffic of collective calls with a peer."""
    whole = case.analysis.communicators.whole
    return [
        each
        for each in case.analysis.joined.operations[process]
        if each.queue is queue
        and each.words.internal
        and each.peer == peer
        and whole(each.communicator) == communicator
    ]


def _has_sent(case: Case, call: str, communicator: int, sender: int, receiver: int) -> bool:
    """Return whether one who waits for a message of a call has surely sent one, by the call's arguments.

    Where MPICH has ended a send it keeps nothing of it.
    """
    members = case.analysis.communicators.all[communicator].members
    if not case.analysis.job.mpi.startswith("MPICH") or len(members) > _SENT_TOGETHER or receiver not in members:
        return False
    return (_count(case, sender, call, "sendcounts", members.index(receiver)) or 0) > 0


def _count(case: Case, process: int, call: str, name: str, rank: int) -> int | None:
    """Return an element of an array of counts that a process gave to a call; None where it isn't known."""
    arguments = (
        stack.argument(name) for stack in stacks_of(case.analysis.job.processes[process]) if stack.call == call
    )
    return next((each.elements[rank] for each in arguments if each is not None and rank < len(each.elements)), None)


def of_counts(case: Case, call: str, communicator: int, left: dict[int, list[int]]) -> Iterator[Finding]:
    """Yield for each of those who have left a call who waits for its data there."""
    names = case.names
    for peer, waiters in left.items():
        sentence = (
            f"{names.ranks(waiters, communicator)} {waits(waiters)} in {call}{names.on(communicator)} for data of "
            f"{names.ranks([peer], communicator)}, which has left that call: it is {names.do([peer])}."
        )
        processes = (*waiters, peer)
        advice = to_compare(case, call, communicator, waiters[0], peer)
        ends = [need for process in waiters for need in case.analysis.unmet(process) if peer in need.peers]
        yield case.finding(
            Cause.COUNTS, case.certainty(processes), sentence, advice, processes, communicator, ends=ends
        )


def to_compare(case: Case, call: str, communicator: int | None, waiter: int, peer: int) -> str:
    """Return which counts, or neighbours, of two ranks have to agree in a call; empty where it has no such."""
    sender, receiver = case.names.ranks([peer], communicator), case.names.ranks([waiter], communicator)
    if what_ends(call) is Blocks.NEIGHBORS:
        return f"Compare the neighbours: does {sender} send to {receiver} there?"
    whole = None if communicator is None else case.analysis.communicators.all[communicator]
    if whole is None or whole.remote_size is not None or not {waiter, peer} <= {*whole.members}:
        return ""
    own, other = whole.members.index(waiter), whole.members.index(peer)
    if call in _BETWEEN_ALL:
        sent, received = f"sendcounts[{own}]", f"recvcounts[{other}]"
    elif call in _TO_ROOT:
        sent, received = "sendcount", f"recvcounts[{other}]"
    elif call in _FROM_ROOT:
        sent, received = f"sendcounts[{own}]", "recvcount"
    else:
        return ""
    count = _count(case, waiter, call, "recvcounts", other)
    value = f", which is {count}" if count is not None and count > 0 else ""
    return f"Compare {sent} on {sender} with {received} on {receiver}{value}."
