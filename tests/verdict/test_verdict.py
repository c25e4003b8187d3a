"""What a verdict says of a job: each behaviour on a made-up job of a few ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Communicator, Label, Queue, Status
from mqs_dll.contract.names import FILE_WORDS, window_words
from mqs_dll.job.records import (
    FILE_LOCK,
    MUTEX,
    Argument,
    ArgumentEvidence,
    CallStack,
    Frame,
    Halt,
    JobProcess,
    Lock,
    RankState,
    Start,
)
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden, QueueSnapshot
from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.naming import Names
from mqs_dll.verdict.progress import Motion
from mqs_dll.verdict.results import Cause, Certainty, Finding, Mode, Outcome, Verdict, WaitKind
from tests.support.made_up_job import (
    ANY,
    IRECV,
    ISEND,
    PROBE,
    RECV,
    SEND,
    SSEND,
    Pending,
    Rank,
    begun,
    collective,
    communicator,
    gone,
    in_wait,
    inter,
    job,
    note,
    rank,
    receive,
    send,
    stack,
    unexpected,
)

NO_STACK = Hidden("made up to have no stacks")


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that two samples saw in the same state."""
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)


def at_times(times: Sequence[float], number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that as many samples saw in the same state."""
    earlier: Rank | None = None
    for _ in times[1:]:
        earlier = rank(number, *operations, earlier=earlier, **facts)
    return rank(number, *operations, earlier=earlier, **facts)


def moving(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank whose own part of the stack changed between two samples, inside MPI."""
    call = facts.pop("call", "MPI_Recv")
    before, after = ([stack(call, fingerprint=text)] for text in ("before", "after"))
    return rank(number, *operations, stacks=after, earlier=rank(number, *operations, stacks=before, **facts), **facts)


def the(verdict: Verdict, cause: Cause) -> Finding:
    """Return the one finding of a cause."""
    (found,) = [finding for finding in verdict.findings if finding.cause is cause]
    return found


def causes(verdict: Verdict) -> list[Cause]:
    """Return what was found, in order."""
    return [finding.cause for finding in verdict.findings]


def stuck(verdict: Verdict, certainty: Certainty) -> list[int]:
    """Return the processes that are stuck, as sure as that."""
    return [process for process, activity in enumerate(verdict.activities) if activity.certainty is certainty]


# ---------------------------------------------------------------- cycles and knots


def test_two_sends_head_to_head_are_a_cycle_in_its_order() -> None:
    """Each names its call, its peer, its tag and the communicator; the sentence says what each waits for."""
    halo = communicator("halo exchange", range(2))
    verdict = conclude(
        job(
            still(0, send(1, tag=5, on=halo, text=(SEND,)), call="MPI_Send"),
            still(1, send(0, tag=5, on=halo, text=(SEND,)), call="MPI_Send"),
        )
    )
    finding = the(verdict, Cause.CYCLE)
    assert verdict.outcome is Outcome.PROVED
    assert finding.sentence == (
        "Rank 0 waits in MPI_Send to rank 1, tag 5 on 'halo exchange'; "
        "rank 1 in MPI_Send to rank 0, tag 5 on 'halo exchange': each waits for the other to receive."
    )
    assert (finding.certainty, finding.processes, finding.communicator_id) == (Certainty.PROVED, (0, 1), 1)
    assert verdict.headline == "Stuck for good: rank 0" + finding.sentence.removeprefix("Rank 0")


def test_a_cycle_of_three_has_others_behind_it() -> None:
    """Who waits for one of the three is stuck too, but no part of the cycle."""
    ranks = [still(number, receive((number + 1) % 3, tag=4), call="MPI_Recv") for number in range(3)]
    verdict = conclude(job(*ranks, still(3, receive(0, tag=4), call="MPI_Recv")))
    assert the(verdict, Cause.CYCLE).processes == (0, 1, 2)
    assert the(verdict, Cause.BEHIND).processes == (3,)


def test_receives_from_any_source_without_a_sender_are_a_knot() -> None:
    """All who could send wait themselves; one arrow to all of them, not one for each."""
    verdict = conclude(job(*(still(number, receive(ANY, tag=1), call="MPI_Recv") for number in range(3))))
    assert the(verdict, Cause.KNOT).sentence == (
        "Each of ranks [0-2] waits in MPI_Recv from any source, tag 1 on MPI_COMM_WORLD, "
        "and all who could send wait too."
    )
    assert [(wait.peers, wait.any_source) for wait in verdict.waits] == [((0, 1, 2), True)] * 3
    assert verdict.waits[0].peers is verdict.waits[1].peers


def test_who_is_gone_is_not_blamed_where_another_may_still_send() -> None:
    """Any source will do: that rank 1 exited doesn't keep rank 2 from it."""
    verdict = conclude(job(still(0, receive(ANY), call="MPI_Recv"), gone(1), still(2)))
    assert causes(verdict) == [Cause.OUTSIDE]


def test_who_is_gone_is_named_where_a_collective_has_no_traffic_to_be_seen() -> None:
    """Ranks may leave MPI_Reduce before others: it is likely what rank 0 waits for, and no more."""
    verdict = conclude(job(still(0, call="MPI_Reduce"), gone(1), still(2, call=None)))
    finding = the(verdict, Cause.GONE)
    assert finding.certainty is Certainty.SUSPECTED
    assert finding.sentence == "Rank 0 is in MPI_Reduce on MPI_COMM_WORLD, rank 1 is not: it exited."


def test_a_knot_may_have_members_that_are_gone() -> None:
    """That one is gone is no finding of its own, as long as others could send."""
    ranks = [still(number, receive(ANY, tag=1), call="MPI_Recv") for number in range(2)]
    verdict = conclude(job(*ranks, gone(2)))
    assert causes(verdict) == [Cause.KNOT]
    assert the(verdict, Cause.KNOT).sentence.endswith("all who could send wait too, or are gone.")


def test_one_who_could_send_unties_the_knot() -> None:
    """A rank outside MPI may send to any of them: nothing is proved."""
    ranks = [still(number, receive(ANY, tag=1), call="MPI_Recv") for number in range(2)]
    verdict = conclude(job(*ranks, still(2)))
    assert stuck(verdict, Certainty.PROVED) == []
    assert causes(verdict) == [Cause.OUTSIDE]


def test_a_blocking_send_to_itself_never_ends() -> None:
    """Nobody else can receive it."""
    verdict = conclude(job(still(0, send(0, tag=1), call="MPI_Ssend"), still(1)))
    finding = the(verdict, Cause.SELF)
    assert (finding.certainty, finding.processes) == (Certainty.PROVED, (0,))


def test_ranks_of_the_communicator_are_given_where_they_differ() -> None:
    """Rank 3 of MPI_COMM_WORLD is rank 1 of 'rows': the sentence has both."""
    rows = communicator("rows", (2, 3))
    verdict = conclude(
        job(
            still(0),
            still(1),
            still(2, receive(1, on=rows), call="MPI_Recv"),
            still(3, receive(0, on=rows), call="MPI_Recv"),
        )
    )
    assert "Rank 2 waits in MPI_Recv from rank 3 (1 of 'rows'), tag 0 on 'rows'" in the(verdict, Cause.CYCLE).sentence


# ---------------------------------------------------------------- AND and OR


def test_a_waitall_needs_every_request() -> None:
    """One that never ends is enough, though the others may."""
    wait = [receive(1, tag=1, text=(IRECV, in_wait(2))), receive(2, tag=2, text=(IRECV, in_wait(2)))]
    verdict = conclude(job(still(0, *wait, call="MPI_Waitall"), still(1, receive(0), call="MPI_Recv"), still(2)))
    assert stuck(verdict, Certainty.PROVED) == [0, 1]
    assert verdict.activities[0].mode is Mode.ALL


def test_a_waitany_needs_one_request() -> None:
    """It goes on as soon as anyone may send; with nobody left it is a knot."""
    wait = [receive(1, tag=1, text=(IRECV, in_wait(1))), receive(2, tag=2, text=(IRECV, in_wait(1)))]
    first, second = still(0, *wait, call="MPI_Waitany"), still(1, receive(0), call="MPI_Recv")
    assert stuck(conclude(job(first, second, still(2))), Certainty.PROVED) == []
    all_stuck = conclude(job(first, second, still(2, receive(0), call="MPI_Recv")))
    assert the(all_stuck, Cause.KNOT).processes == (0, 1, 2)


def test_what_one_of_several_operations_could_end_is_only_suspected() -> None:
    """MPI_Wait doesn't show which of two receives it waits for: one of them may come, so that nothing is proved."""
    verdict = conclude(
        job(
            still(0, receive(1, tag=1, text=(IRECV,)), receive(2, tag=2, text=(IRECV,)), call="MPI_Wait"),
            still(1, receive(0), call="MPI_Recv"),
            still(2),
        )
    )
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1]
    assert verdict.activities[0].mode is Mode.UNKNOWN


@pytest.mark.parametrize("call", ["MPI_Wait", "MPI_Waitall", "MPI_Waitany"])
def test_what_a_wait_was_not_seen_to_be_given_is_suspected(call: str) -> None:
    """Whichever of the pending operations it waits for none could end; but it may be a file's, which no queue has."""
    verdict = conclude(
        job(
            still(0, receive(1, tag=1, text=(IRECV,)), receive(2, tag=2, text=(IRECV,)), call=call),
            still(1, receive(0), call="MPI_Recv"),
            still(2, receive(0), call="MPI_Recv"),
        )
    )
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1, 2]
    (advice,) = {finding.advice for finding in verdict.findings if finding.certainty is Certainty.SUSPECTED}
    assert advice.endswith(f"Which requests rank 0 gave {call} is not known: one may be in no queue, and end.")


def test_which_requests_an_unmarked_waitall_waits_for_is_not_known() -> None:
    """One that may come could be all that it waits for."""
    wait = [receive(1, tag=1, text=(IRECV,)), receive(2, tag=2, text=(IRECV,))]
    verdict = conclude(job(still(0, *wait, call="MPI_Waitall"), still(1, receive(0), call="MPI_Recv"), still(2)))
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1]


def test_a_blocking_receive_was_posted_last() -> None:
    """Of several receives on a communicator the last is MPI_Recv's; those before it are nonblocking ones."""
    verdict = conclude(
        job(
            still(0, receive(2, tag=1), receive(1, tag=2), call="MPI_Recv"),
            still(1, receive(0, tag=3), call="MPI_Recv"),
            still(2),
        )
    )
    assert the(verdict, Cause.CYCLE).certainty is Certainty.PROVED


def test_one_thread_that_can_go_on_is_enough() -> None:
    """A process whose main thread is outside MPI may still send."""
    threads = [stack(None), stack("MPI_Recv")]
    verdict = conclude(
        job(still(0, receive(1), stacks=threads), still(1, receive(0), call="MPI_Recv")),
    )
    assert stuck(verdict, Certainty.PROVED) == []


def test_a_thread_outside_mpi_may_still_act() -> None:
    """Nothing is proved of its process, whatever the others wait for, and the report says where that thread is."""
    threads = [stack("MPI_Recv"), stack(None, "worker.c:7")]
    verdict = conclude(job(still(0, receive(1), stacks=threads), still(1, receive(0), call="MPI_Recv")))
    found = the(verdict, Cause.CYCLE)
    assert found.certainty is Certainty.SUSPECTED
    assert found.advice.endswith(
        "Rank 0 has a thread outside MPI, at worker.c:7, and it isn't known what that may still do."
    )


def test_a_thread_outside_mpi_that_moves_is_no_progress_in_mpi() -> None:
    """A rank whose main thread stays in its call is suspected, whatever another one computes."""
    before, after = ([stack("MPI_Recv"), stack(None, fingerprint=each)] for each in ("one", "other"))
    first = rank(0, receive(1), stacks=after, earlier=rank(0, receive(1), stacks=before))
    verdict = conclude(job(first, still(1, receive(0), call="MPI_Recv")))
    assert the(verdict, Cause.CYCLE).certainty is Certainty.SUSPECTED


def asking(number: int, *samples: str | None, **facts: Any) -> Rank:
    """Return a rank that is in a call that asks at samples with a fingerprint, and outside MPI at the others."""
    found = None
    for fingerprint in samples:
        stacks = [stack("MPI_Test" if fingerprint else None, fingerprint=fingerprint or "outside")]
        found = rank(number, receive(1 - number, tag=5, text=(IRECV,)), stacks=stacks, earlier=found, **facts)
    assert found is not None
    return found


@pytest.mark.parametrize("samples", [("a", "a"), ("a", None, "a"), ("a", "a", None)])
def test_who_asks_for_the_same_again_and_again_is_suspected_to_wait_for_it(samples: Sequence[str | None]) -> None:
    """In the same call, from the same place, and elsewhere at most outside MPI; that it came back is no progress."""
    for progressed in (False, True):
        verdict = conclude(job(asking(0, *samples, progressed=progressed), still(1, receive(0), call="MPI_Recv")))
        found = the(verdict, Cause.CYCLE)
        assert (found.certainty, verdict.outcome) == (Certainty.SUSPECTED, Outcome.SUSPECTED)
        assert found.advice.endswith("Rank 0 asks by MPI_Test again and again, and may stop asking.")


@pytest.mark.parametrize("asks", [("a", "a"), ("a", None), (None, "a")], ids=["inside", "left", "came"])
def test_a_thread_that_only_asks_is_no_progress_of_one_that_waits(asks: Sequence[str | None]) -> None:
    """Nor is it that one of the rank's calls came back: it may be the one that only asks."""
    waits = replace(stack("MPI_Recv"), thread=1)

    def sampled(text: str | None, **facts: Any) -> Rank:
        asking = replace(stack("MPI_Test" if text else None, fingerprint=text or "between"), thread=2)
        return rank(0, receive(1, tag=7), stacks=[waits, asking], **facts)

    before, after = asks
    asking = sampled(after, progressed=before is not None, earlier=sampled(before))
    verdict = conclude(job(asking, still(1, receive(0), call="MPI_Recv")))
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1]


@pytest.mark.parametrize("samples", [("a", None), (None, None), ("a", "b")], ids=["asks once", "never", "has gone on"])
def test_who_asks_but_once_or_goes_on_waits_for_nothing(samples: Sequence[str | None]) -> None:
    """Variables that change where it asks from are progress of its own."""
    verdict = conclude(job(asking(0, *samples), still(1)))
    assert verdict.outcome is Outcome.NOTHING_STUCK


def test_all_may_ask_for_ever() -> None:
    """Ranks that all ask for what none of them sends are suspected; before, nothing was said of them."""
    verdict = conclude(job(asking(0, "a", "a"), asking(1, "a", "a")))
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1]


def test_who_has_not_called_mpi_finalize_is_named() -> None:
    """It ends when all have called it; who computes for all the while is suspected to keep the others there."""
    ended = [still(rank, call="MPI_Finalize") for rank in range(2)]
    verdict = conclude(job(*ended, still(2)))
    assert verdict.outcome is Outcome.SUSPECTED
    assert verdict.headline.startswith(
        "Seems stuck: ranks [0-1] called MPI_Finalize, rank 2 did not: it is outside MPI"
    )
    assert the(verdict, Cause.OUTSIDE).processes == (0, 1, 2)


@pytest.mark.parametrize(
    ("ended", "last"),
    [
        ([gone(1)], still(2)),
        ([still(1, call="MPI_Finalize")], rank(2, receive(0, text=(IRECV,)), earlier=rank(2))),
        ([still(1, call="MPI_Finalize")], rank(2)),
    ],
    ids=["one has left it", "the last one goes on", "seen once"],
)
def test_who_will_call_mpi_finalize_keeps_nobody(ended: list[Rank], last: Rank) -> None:
    """Where one has come out of it, it doesn't wait; and who makes progress will come to it."""
    verdict = conclude(job(still(0, call="MPI_Finalize"), *ended, last))
    assert verdict.outcome is Outcome.NOTHING_STUCK


def test_a_call_of_which_nobody_knows_what_it_waits_for_is_suspected() -> None:
    """Where it was watched and did not end; "nothing is stuck" would say that it will."""
    call = "MPI_File_read_shared"
    verdict = conclude(job(still(0, call=call, where="dump.c:31"), still(1)))
    assert verdict.outcome is Outcome.SUSPECTED
    assert the(verdict, Cause.UNEXPLAINED).sentence == (
        "Rank 0 is in MPI_File_read_shared at dump.c:31, and did not leave it between two samples; what it waits for "
        "is in no queue."
    )
    for unclear in (still(0, call=call, watched=False), rank(0, call=call)):
        assert conclude(job(unclear, still(1))).headline == (
            "Nothing is known to be stuck, but too little could be seen: 2 ranks read; whether 1 of them went on in "
            "the call that they are in, isn't known."
        )
    assert conclude(job(still(0, call="MPI_File_seek"), still(1))).outcome is Outcome.NOTHING_STUCK


def test_the_end_of_a_session_is_not_the_end_of_mpi() -> None:
    """Another session, or the world model, may go on: who is in MPI_Session_finalize may still send."""
    verdict = conclude(job(still(0, receive(1), call="MPI_Recv"), still(1, call="MPI_Session_finalize")))
    assert verdict.outcome is Outcome.SUSPECTED
    assert stuck(verdict, Certainty.PROVED) == []


@pytest.mark.parametrize("call", ["MPI_Recv", "MPI_Finalize"])
def test_what_an_mpi_call_has_called_back_may_do_anything(call: str) -> None:
    """A rank in a callback or a signal handler is neither stuck in its call nor gone: it may still send."""
    inside = replace(stack(call), callback=stack(None, "solver.c:7", function="tidy").caller)
    verdict = conclude(job(still(0, receive(1), call="MPI_Recv"), still(1, receive(0), stacks=[inside])))
    assert stuck(verdict, Certainty.PROVED) == []
    assert f", but rank 1 is in tidy, inside {call} at solver.c:7, " in the(verdict, Cause.OUTSIDE).sentence


def test_other_threads_of_a_rank_that_stand_in_mpi_are_listed() -> None:
    """Beside what the first one waits for."""
    stacks = [replace(stack(call), thread=number) for number, call in enumerate(("MPI_Recv", "MPI_Send", "MPI_Wait"))]
    pending = receive(1, text=(RECV,)), send(1, text=(SEND,))
    waiting = rank(0, *pending, stacks=stacks, earlier=rank(0, *pending, stacks=stacks))
    (first, _) = conclude(job(waiting, still(1))).activities
    assert first.phrase.endswith(" (other threads in MPI_Send, MPI_Wait)")


def test_each_of_several_threads_waits_for_its_own_message() -> None:
    """The receive that was posted last is one thread's: another waits for an earlier one, which may still come."""
    threads = [stack("MPI_Recv"), stack("MPI_Recv", "worker.c:7")]
    first = still(0, receive(2, tag=1), receive(1, tag=2), stacks=threads)
    verdict = conclude(job(first, still(1, receive(0, tag=3), call="MPI_Recv"), still(2)))
    assert stuck(verdict, Certainty.PROVED) == []


# ---------------------------------------------------------------- what can still end


def test_a_message_that_matches_ends_the_wait() -> None:
    """A receive with its message unexpected there, and a send with its receive posted, are about to meet."""
    arrived = conclude(
        job(still(0, receive(1, tag=7), unexpected(1, tag=7), call="MPI_Recv"), still(1, call="MPI_Recv"))
    )
    meeting = conclude(job(rank(0, receive(1, tag=7), call="MPI_Recv"), rank(1, send(0, tag=7), call="MPI_Ssend")))
    assert stuck(arrived, Certainty.PROVED) == []
    assert meeting.outcome is Outcome.NOTHING_STUCK


def test_one_message_ends_one_receive() -> None:
    """The first of two receives takes it; the second waits on."""
    wait = (IRECV, in_wait(2))
    verdict = conclude(
        job(
            still(0, receive(1, text=wait), receive(1, text=wait), unexpected(1), call="MPI_Waitall"),
            still(1, receive(0), call="MPI_Recv"),
        )
    )
    assert stuck(verdict, Certainty.PROVED) == [0, 1]


def test_a_message_under_way_ends_the_wait() -> None:
    """A matched receive gets its data while the sender is in any MPI call, but not from one that exited."""
    half = receive(1, status=Status.MATCHED, message=(1, 0, 8))
    busy = conclude(job(rank(0, half, call="MPI_Recv"), rank(1, send(0, text=(SEND,)), call="MPI_Send")))
    assert busy.outcome is Outcome.NOTHING_STUCK
    assert causes(conclude(job(still(0, half, call="MPI_Recv"), gone(1)))) == [Cause.GONE]


def test_a_send_of_unknown_tag_may_match() -> None:
    """MPICH doesn't keep the tags of some sends: such a one proves nothing, until its message shows at the receiver."""
    vague = still(1, send(0, tag=-1), call="MPI_Ssend")
    unclear = conclude(job(still(0, receive(1, tag=7), call="MPI_Recv"), vague))
    shown = still(0, receive(1, tag=7), unexpected(1, tag=8, status=Status.PENDING), call="MPI_Recv")
    assert stuck(unclear, Certainty.PROVED) == []
    assert stuck(conclude(job(shown, vague)), Certainty.PROVED) == [0, 1]


def test_internal_traffic_never_matches_the_programs_own() -> None:
    """Also where the numbers are the same: a collective's receive leaves the program's message alone."""
    verdict = conclude(
        job(
            still(0, collective("MPI_Barrier", source=1, tag=5), unexpected(1, tag=5), call="MPI_Barrier"),
            still(1, receive(0), call="MPI_Recv"),
        )
    )
    assert stuck(verdict, Certainty.PROVED) == [0, 1]


def test_a_message_of_a_collective_is_none_for_the_program() -> None:
    """Though tag and source are the same."""
    internal = unexpected(1, tag=5, text=("eager: all of it is here", phrases.COLLECTIVE("MPI_Barrier")))
    verdict = conclude(
        job(still(0, receive(1, tag=5), internal, call="MPI_Recv"), still(1, receive(0), call="MPI_Recv"))
    )
    assert stuck(verdict, Certainty.PROVED) == [0, 1]


def test_a_vague_send_may_go_to_a_nonblocking_receive() -> None:
    """Neither end can be called stuck: the send may match what its receiver has posted, though it is elsewhere."""
    receiver = still(0, receive(1, tag=7, text=(IRECV,)), send(1, tag=3), call="MPI_Ssend")
    vague = still(1, send(0, tag=-1), call="MPI_Ssend")
    assert stuck(conclude(job(receiver, vague)), Certainty.PROVED) == []
    waiting = still(0, receive(1, tag=7), call="MPI_Recv")
    elsewhere = still(1, send(0, tag=-1, text=(ISEND,)), receive(0, tag=9), call="MPI_Recv")
    assert stuck(conclude(job(waiting, elsewhere)), Certainty.PROVED) == []


def test_a_send_ends_whose_message_is_being_received() -> None:
    """The receiver has matched it, and is in MPI, whatever it waits for there."""
    matched = receive(0, tag=5, status=Status.MATCHED, text=(IRECV,), message=(0, 5, 8))
    verdict = conclude(
        job(still(0, send(1, tag=5), call="MPI_Ssend"), still(1, matched, receive(0, tag=6), call="MPI_Recv"))
    )
    assert stuck(verdict, Certainty.PROVED) == []


def test_a_message_that_others_overtook_is_under_way() -> None:
    """Open MPI counts messages that can't be matched before one that isn't here yet: that one will come."""
    early = Pending(Queue.UNEXPECTED, note("").operation._replace(desired_local_rank=1, actual_local_rank=1), None)
    verdict = conclude(job(still(0, receive(1), early, call="MPI_Recv"), still(1, receive(0), call="MPI_Recv")))
    assert stuck(verdict, Certainty.PROVED) == []


def test_disjoint_communicators_of_one_split_are_two() -> None:
    """They share their number; messages never go from one to the other."""
    even, odd = (communicator("half", members, unique_id=77) for members in ((0, 2), (1, 3)))
    verdict = conclude(
        job(
            still(0, receive(1, on=even), call="MPI_Recv"),
            still(1, send(0, on=odd), call="MPI_Ssend"),
            still(2, receive(0, on=even), call="MPI_Recv"),
            still(3, receive(0, on=odd), call="MPI_Recv"),
        )
    )
    assert the(verdict, Cause.CYCLE).processes == (0, 2)
    assert sum(each.name == "half" for each in verdict.communicators) == 2


def test_both_sides_of_an_intercommunicator_are_joined() -> None:
    """Ranks in operations are those of the other side."""
    between = inter("coupling", (0, 1), (2,))
    verdict = conclude(
        job(
            still(0, receive(0, tag=1, on=between), call="MPI_Recv"),
            still(1),
            still(2, receive(0, tag=1, on=between), call="MPI_Recv"),
        )
    )
    assert the(verdict, Cause.CYCLE).processes == (0, 2)


def test_spawned_processes_are_joined_by_the_ranks_that_they_claim() -> None:
    """They have another MPI_COMM_WORLD: only an inter-communicator leads to them, where world ranks mean nothing."""
    plain = job(still(0, call="MPI_Recv"), still(0, call="MPI_Recv", world=1))
    parent, child = plain.processes
    verdict = conclude(replace(plain, processes=(_with_spawned(parent), _with_spawned(child))))
    assert the(verdict, Cause.CYCLE).processes == (0, 1)
    assert "Rank 0 of world 0 waits in MPI_Recv from rank 0 of world 1" in the(verdict, Cause.CYCLE).sentence


def _with_spawned(process: JobProcess) -> JobProcess:
    """Return a process with an inter-communicator to one of another world, and a receive from there."""
    operation = receive(0, tag=1).operation
    queues = tuple(QueueSnapshot(queue, (operation,) if queue is Queue.RECEIVES else ()) for queue in Queue)
    between = CommunicatorSnapshot(Communicator(77, 0, 1, b"spawned [inter, 1 remote]"), (0,), queues)
    samples = (
        replace(sample, snapshot=replace(sample.snapshot, communicators=(*sample.snapshot.communicators, between)))
        for sample in process.samples
    )
    return replace(process, samples=tuple(samples))


# ---------------------------------------------------------------- peers that don't come


@pytest.mark.parametrize(
    ("peer", "fate"),
    [(gone(1), "rank 1 exited"), (still(1, call="MPI_Finalize"), "rank 1 called MPI_Finalize")],
)
def test_a_peer_that_is_gone_never_answers(peer: Rank, fate: str) -> None:
    """Whether its process is gone or in MPI_Finalize; in one sample, what it sent before may be under way."""
    once = conclude(job(rank(0, receive(1, tag=8), call="MPI_Recv"), peer))
    finding = the(conclude(job(still(0, receive(1, tag=8), call="MPI_Recv"), peer)), Cause.GONE)
    assert the(once, Cause.GONE).certainty is Certainty.SUSPECTED
    assert finding.sentence == f"Rank 0 waits in MPI_Recv from rank 1, tag 8 on MPI_COMM_WORLD, but {fate}."
    assert finding.certainty is Certainty.PROVED


def test_a_straggler_is_suspected() -> None:
    """It may come: ranks that wait for it are merged, with where it is."""
    waiters = [still(number, receive(2, tag=1), call="MPI_Recv") for number in range(2)]
    finding = the(conclude(job(*waiters, still(2, where="solver.c:42"))), Cause.OUTSIDE)
    assert finding.certainty is Certainty.SUSPECTED
    assert finding.sentence == (
        "Ranks [0-1] wait in MPI_Recv from rank 2, tag 1 on MPI_COMM_WORLD, "
        "but rank 2 is outside MPI in exchange at solver.c:42, and did not move between two samples."
    )


def straggling(*slices: int, **facts: Any) -> Finding:
    """Return what is found of rank 0, which waits for rank 1, whose stack is the same whenever it is sampled."""
    straggler: Rank | None = None
    for each in slices:
        straggler = rank(1, slices=each, earlier=straggler, **facts)
    assert straggler is not None
    return conclude(job(still(0, receive(1), call="MPI_Recv"), straggler)).findings[0]


@pytest.mark.parametrize(
    ("slices", "computes"), [((7, 12), False), ((7, 13), True), ((0, 900), False), ((9, 0), False)]
)
def test_one_that_ran_between_two_samples_computes_though_it_is_met_in_the_same_sleep(
    slices: tuple[int, int], computes: bool
) -> None:
    """A stop and a start cost a thread that sleeps a time slice each; 0 is not known."""
    found = straggling(*slices)
    assert found.cause is Cause.OUTSIDE
    assert found.sentence.endswith("and computes." if computes else "and did not move between two samples.")


def test_a_thread_that_waits_in_mpi_stands_though_the_main_thread_runs() -> None:
    """Nor does one move that polls inside MPI, or asks by MPI_Test."""
    inside = [stack(None), replace(stack("MPI_Recv"), thread=2)]
    for stacks in (inside, inside[1:], [stack("MPI_Test")]):
        waits = rank(0, receive(1), stacks=stacks, slices=900, earlier=rank(0, receive(1), stacks=stacks, slices=7))
        assert Analysis(job(waits, still(1, receive(0), call="MPI_Recv"))).motions == [Motion.SAME] * 2


def test_a_collective_whose_message_may_come_from_anybody_waits_for_those_who_are_missing() -> None:
    """One wait, not two: the message will be that of one who has entered."""
    anybody = collective("MPI_Barrier", source=ANY)
    verdict = conclude(job(still(0, anybody, call="MPI_Barrier"), still(1, call="MPI_Barrier"), still(2)))
    assert [(wait.peers, wait.any_source) for wait in verdict.waits if wait.process == 0] == [((2,), False)]


def test_collectives_are_reported_with_the_window_or_the_file_that_they_are_on() -> None:
    """What the MPI keeps for it is described so, and is nobody's MPI_COMM_WORLD though it has the same ranks."""
    for words, told in (
        (window_words(b"halo"), "window 'halo'"),
        (window_words(b""), "a window"),
        (FILE_WORDS, "a file"),
    ):
        kept = communicator(b"[" + words + b"] [internal]", range(3), label=Label(b"", words, internal=True))
        inside = [
            still(number, collective("MPI_Barrier", source=2, on=kept), call="MPI_Win_fence") for number in range(2)
        ]
        verdict = conclude(job(*inside, still(2, receive(0), call="MPI_Recv"), communicators=[kept]))
        assert verdict.findings[0].sentence.startswith(f"Ranks [0-1] are in MPI_Win_fence on {told}, rank 2 is not:")


def test_a_rank_that_is_stopped_may_go_on_once_it_is_let_go() -> None:
    """A message for it may lie where it can't look meanwhile: what resembles a circle proves nothing."""
    by_signal = Halt("SIGSTOP")
    verdict = conclude(
        job(
            still(0, receive(1), call="MPI_Recv"),
            still(1, receive(0), call="MPI_Recv", halt=by_signal),
            still(2, call=None, halt=Halt("", 4711, "gdb"), stacks=Hidden("held")),
        )
    )
    assert verdict.outcome is Outcome.SUSPECTED
    assert [(finding.sentence, finding.advice) for finding in verdict.findings] == [
        (
            "Rank 0 waits in MPI_Recv from rank 1, tag 0 on MPI_COMM_WORLD, but rank 1 is stopped by SIGSTOP in "
            "MPI_Recv from rank 0, tag 0 on MPI_COMM_WORLD at solver.c:42.",
            "To let it go on: kill -CONT 1001.",
        ),
        ("Rank 2 is held by gdb (PID 4711).", "Let it go on in that debugger, or quit it."),
    ]
    assert verdict.activities[1].halt == "stopped by SIGSTOP"


def test_a_rank_that_was_stopped_before_the_last_sample_had_no_time_to_go_on() -> None:
    """That it is where it was says nothing yet."""
    before = rank(1, receive(0), call="MPI_Recv", halt=Halt("SIGSTOP"))
    let_go = rank(1, receive(0), call="MPI_Recv", earlier=before)
    assert conclude(job(still(0, receive(1), call="MPI_Recv"), let_go)).outcome is Outcome.SUSPECTED


def test_a_send_to_a_rank_that_is_stopped_waits_for_it() -> None:
    """Though its receive is there: only the rank itself can fetch the data."""
    waiting = send(1, tag=1, text=("MPI_Send or MPI_Isend",))
    receiver = still(1, receive(0, tag=1), call="MPI_Recv", halt=Halt("SIGTSTP"))
    finding = the(conclude(job(still(0, waiting, call="MPI_Send"), receiver)), Cause.STOPPED)
    assert finding.processes == (0, 1)


def test_a_python_rank_outside_mpi_has_its_function() -> None:
    """Not the interpreter's: its own innermost, or one in C that has a name."""
    line = Frame("relax", "solver.py", "/home/user/solver.py", 3)
    inside = [Frame("_PyEval_EvalFrameDefault", "python3.11", None, None)]
    for inner, name in (
        ([], "relax"),
        ([Frame("", "libc.so.6", None, None), Frame("read", "libc.so.6", None, None)], "read"),
    ):
        stack = CallStack(1000, None, None, line, (*inner, *inside), "f00d")
        verdict = conclude(job(still(0, stacks=[stack]), still(1)))
        assert verdict.activities[0].phrase == f"outside MPI in {name}"


def test_a_peer_that_was_not_read_proves_nothing() -> None:
    """It may be about to send; that it wasn't read is said twice: as what is waited for, and why."""
    unread = rank(1, state=RankState.UNREADABLE, why="no permission", remedy="run as the job's user")
    verdict = conclude(job(still(0, receive(1), call="MPI_Recv"), unread))
    assert verdict.outcome is Outcome.SUSPECTED
    sentences = [finding.sentence for finding in verdict.findings if finding.cause is Cause.NOT_READ]
    assert sentences == [
        "Rank 0 waits in MPI_Recv from rank 1, tag 0 on MPI_COMM_WORLD, but rank 1 is not read.",
        "Rank 1 could not be read: no permission",
    ]


# ---------------------------------------------------------------- near misses


def test_a_message_that_may_be_for_later_is_no_cause() -> None:
    """Its sender may send what is waited for after the answer: the circle is sure, the message a hint beside it."""
    halo = communicator("halo exchange", range(3))
    verdict = conclude(
        job(
            still(0),
            still(1, receive(2, tag=7777, on=halo), unexpected(2, tag=7776, on=halo), call="MPI_Recv"),
            still(2, receive(1, tag=7778, on=halo), call="MPI_Recv"),
        )
    )
    hint = (
        "Rank 1 waits for tag 7777 from rank 2 on 'halo exchange'; "
        "rank 2 sent tag 7776, which lies unexpected at rank 1. Perhaps that is the one that is meant."
    )
    assert [(each.cause, each.certainty, each.frees) for each in verdict.findings] == [
        (Cause.CYCLE, Certainty.PROVED, 2),
        (Cause.TAG, Certainty.SUSPECTED, 0),
    ]
    assert verdict.findings[1].sentence == hint
    assert verdict.headline.endswith(f"each waits for the other to send. {hint}")


def test_a_tag_mismatch_explains_a_deadlock() -> None:
    """Where the sender waits in that very send, or is gone, nothing else will come from it."""
    waits = conclude(
        job(
            still(0, receive(1, tag=1), unexpected(1, tag=2, length=0), call="MPI_Recv"),
            still(1, send(0, tag=2), call="MPI_Ssend"),
        )
    )
    has_ended = conclude(job(still(0, receive(1, tag=1), unexpected(1, tag=2), call="MPI_Recv"), gone(1)))
    assert causes(waits) == [Cause.TAG, Cause.CYCLE]
    assert causes(has_ended) == [Cause.TAG, Cause.GONE]
    for verdict in (waits, has_ended):
        assert verdict.findings[0].certainty is Certainty.PROVED
        assert "Perhaps" not in verdict.findings[0].sentence


def test_what_keeps_the_most_ranks_comes_first() -> None:
    """A tag mismatch of one rank comes behind a circle that keeps three."""
    verdict = conclude(
        job(
            still(0, receive(1, tag=1), unexpected(1, tag=2), call="MPI_Recv"),
            gone(1),
            still(2, receive(3), call="MPI_Recv"),
            still(3, receive(2), call="MPI_Recv"),
            still(4, receive(3), call="MPI_Recv"),
        )
    )
    assert [(each.cause, each.frees) for each in verdict.findings] == [
        (Cause.CYCLE, 3),
        (Cause.TAG, 1),
        (Cause.GONE, 1),
        (Cause.BEHIND, 0),
    ]


def test_a_send_that_waits_shows_the_mismatch_too() -> None:
    """A rendezvous whose message hasn't reached the receiver's queue is known from the sender alone."""
    verdict = conclude(job(still(0, receive(1, tag=1), call="MPI_Recv"), still(1, send(0, tag=2), call="MPI_Ssend")))
    assert the(verdict, Cause.TAG).sentence.endswith("rank 1 sent tag 2, which nobody has received.")


def test_the_wrong_communicator_is_named() -> None:
    """The message is right except for where it was sent."""
    halo, results = (communicator(name, range(2)) for name in ("halo", "results"))
    verdict = conclude(
        job(
            still(0, receive(1, tag=6, on=halo), call="MPI_Recv"),
            still(1, receive(0, tag=5, on=results), unexpected(0, tag=5, on=halo), call="MPI_Recv"),
        )
    )
    finding = the(verdict, Cause.COMMUNICATOR)
    assert (finding.certainty, finding.communicator_id) == (Certainty.SUSPECTED, None)
    assert "waits for tag 5 from rank 0 on 'results'; rank 0 sent tag 5 on 'halo'" in finding.sentence


def test_the_wrong_source_is_a_guess() -> None:
    """A message of another rank with that tag may be for a later receive: it is said, and only suspected."""
    verdict = conclude(
        job(
            still(0, receive(1, tag=9), unexpected(2, tag=9), call="MPI_Recv"),
            still(1, receive(0), call="MPI_Recv"),
            still(2, receive(0), call="MPI_Recv"),
        )
    )
    finding = the(verdict, Cause.SOURCE)
    assert finding.certainty is Certainty.SUSPECTED
    assert "waits for tag 9 from rank 1 on MPI_COMM_WORLD; rank 2 sent tag 9" in finding.sentence


def test_equal_mismatches_are_one_finding() -> None:
    """Three ranks that wait for one tag of rank 0 and have got another are one sentence with a range."""
    ranks = [still(number, receive(0, tag=1), unexpected(0, tag=2), call="MPI_Recv") for number in (1, 2, 3)]
    verdict = conclude(job(still(0, receive(1), call="MPI_Recv"), *ranks))
    assert the(verdict, Cause.TAG).sentence == (
        "Ranks [1-3] wait for tag 1 from rank 0 on MPI_COMM_WORLD; rank 0 sent tag 2, which lies unexpected at each. "
        "Perhaps that is the one that is meant."
    )


def test_a_near_miss_of_ranks_that_are_not_blocked_is_noted() -> None:
    """Both are outside MPI: the message may be for later, which is ordinary MPI."""
    verdict = conclude(job(still(0, receive(1, tag=1, text=(IRECV,)), unexpected(1, tag=2)), still(1)))
    assert (verdict.outcome, the(verdict, Cause.TAG).certainty) == (Outcome.NOTHING_STUCK, Certainty.NOTED)


def test_a_near_miss_of_ranks_that_go_on_is_none() -> None:
    """A program may send what is received later."""
    early = unexpected(1, tag=2)
    after = rank(0, receive(1, tag=1, text=(IRECV,)), early, earlier=rank(0, receive(1, tag=0, text=(IRECV,)), early))
    assert causes(conclude(job(after, still(1)))) == [Cause.PROGRESS]


def test_a_receive_that_is_too_small_is_named_with_both_sizes() -> None:
    """Whether it has its message already or is about to get it; a probe has no buffer to be too small."""
    small = still(0, receive(1, tag=2, length=4), unexpected(1, tag=2, length=9), call="MPI_Recv")
    got = still(0, receive(1, tag=2, length=4, status=Status.COMPLETE, message=(1, 2, 9), text=(IRECV,)))
    probe = still(0, receive(1, tag=2, length=0, text=(PROBE,)), unexpected(1, tag=2, length=9))
    for first in (small, got):
        finding = the(conclude(job(first, still(1))), Cause.TOO_SMALL)
        assert "receives into 4 bytes from rank 1, tag 2 on MPI_COMM_WORLD, but the message has 9" in finding.sentence
    assert Cause.TOO_SMALL not in causes(conclude(job(probe, still(1))))


def test_a_receive_that_mpich_keeps_no_tag_of_has_that_of_its_message() -> None:
    """What it had asked for is gone once its message has come."""
    got = receive(1, tag=2, length=4, status=Status.COMPLETE, message=(1, 2, 9), text=(IRECV,))
    kept = got._replace(operation=got.operation._replace(desired_local_rank=-1, desired_tag=-1))
    finding = the(conclude(job(still(0, kept), still(1), mpi="MPICH 4.3.2, ch4")), Cause.TOO_SMALL)
    assert "receives into 4 bytes from rank 1, tag 2 on MPI_COMM_WORLD, but the message has 9" in finding.sentence


def test_the_message_of_a_receive_is_known_by_its_number() -> None:
    """Another may be under way before the one that is seen: then a size that doesn't fit is that of a later message.

    Also where everybody stands still, or has only been read once.
    """
    for earlier, said in ((0, True), (1, False), (-1, False)):
        small = (RECV, phrases.RECEIVE_NUMBER(7), phrases.NEXT_TO_MATCH(6 - earlier, 0))
        first = receive(1, length=4, text=small)
        second = send(0, length=9, text=(*SEND, phrases.SEND_NUMBER(6)))
        once = job(rank(0, first, call="MPI_Recv"), rank(1, second, call="MPI_Send"))
        twice = job(still(0, first, call="MPI_Recv"), still(1, second, call="MPI_Send"))
        found = [Cause.TOO_SMALL in causes(conclude(each)) for each in (once, twice)]
        assert found == [said, said], earlier


def test_all_messages_before_one_may_be_seen() -> None:
    """Two sends of which the first is next: each receive gets its own."""
    texts = [(*SEND, phrases.SEND_NUMBER(number)) for number in (65535, 0)]
    sends = [send(0, length=length, text=text) for length, text in zip((4, 9), texts, strict=True)]
    asks = [receive(1, length=4, text=(RECV, phrases.NEXT_TO_MATCH(65535, 0))) for _ in range(2)]
    finding = the(conclude(job(rank(0, *asks, call="MPI_Recv"), rank(1, *sends, call="MPI_Waitall"))), Cause.TOO_SMALL)
    assert finding.sentence.endswith("but the message has 9 bytes.")


def test_a_send_whose_message_its_receiver_has_taken_is_no_other_receives_partner() -> None:
    """Its number has passed there; it only waits for the answer."""
    taken = send(0, text=(*SEND, phrases.SEND_NUMBER(5)))
    waits = receive(1, text=(RECV, phrases.RECEIVE_NUMBER(9), phrases.NEXT_TO_MATCH(6, 0)))
    verdict = conclude(job(still(0, waits, call="MPI_Recv"), still(1, taken, call="MPI_Send")))
    assert verdict.outcome is Outcome.NOTHING_STUCK


def test_of_two_sends_with_one_tag_the_one_whose_message_lies_there_waits() -> None:
    """Messages that name their sends tell which one the receiver has."""
    lies = unexpected(0, tag=3, text=(phrases.MESSAGE(0xB0, "all of it is here"),))
    under_way = receive(0, tag=3, status=Status.MATCHED, message=(0, 3, 8), text=(IRECV,))
    for name, outcome in ((0xB0, Outcome.PROVED), (0xA0, Outcome.NOTHING_STUCK)):
        waits = send(1, tag=3, text=(SSEND, phrases.MESSAGE(name, "no receive has matched it")))
        asks = still(1, receive(0, tag=9), under_way, lies, call="MPI_Recv")
        assert conclude(job(still(0, waits, call="MPI_Ssend"), asks)).outcome is outcome


def test_a_message_that_is_not_seen_at_its_receiver_may_be_taken() -> None:
    """Its sender learns of that when it calls MPI: where it surely stands in a call, the message is under way."""
    asks = still(0, receive(1, tag=3, length=4), call="MPI_Recv")
    for tag, cause in ((3, Cause.TOO_SMALL), (4, Cause.TAG)):
        named = send(0, tag=tag, length=9, text=(SSEND, phrases.MESSAGE(0xA0, "no receive has matched it")))
        for sender in (still(1, named), still(1, named, call="MPI_Ssend", watched=False)):
            assert cause not in causes(conclude(job(asks, sender)))
        assert cause in causes(conclude(job(asks, still(1, named, call="MPI_Ssend"))))


def test_a_message_that_nobody_sees_may_end_a_circle_when_later_ones_are_under_way() -> None:
    """The next to match is no. 3, and no. 5 waits: one of those between may be what the receive asks for."""
    waits = receive(1, tag=7, text=(RECV, phrases.RECEIVE_NUMBER(9), phrases.NEXT_TO_MATCH(3, 0)))
    sends = send(0, tag=9, text=(*SEND, phrases.SEND_NUMBER(5)))
    verdict = conclude(job(still(0, waits, call="MPI_Recv"), still(1, sends, call="MPI_Ssend")))
    assert verdict.outcome is Outcome.SUSPECTED


def test_a_size_that_does_not_fit_needs_ranks_that_stand_still_where_nothing_is_numbered() -> None:
    """An earlier message may be under way: what moves proves nothing, and who may be in a loop is only noted."""
    small, large = receive(1, length=4), send(0, length=9, text=SEND)
    computes = rank(0, small, stacks=[stack(None, fingerprint="b")], earlier=rank(0, small, stacks=[stack(None)]))
    samples = {
        Certainty.SUSPECTED: (computes, still(1, large, call="MPI_Send")),
        Certainty.NOTED: (computes, still(1, large, call="MPI_Send", watched=False)),
        None: (computes, moving(1, large, call="MPI_Send")),
    }
    for certainty, ranks in samples.items():
        found = [each.certainty for each in conclude(job(*ranks)).findings if each.cause is Cause.TOO_SMALL]
        assert found == ([] if certainty is None else [certainty])


def test_the_message_of_a_receive_from_any_source_is_not_known() -> None:
    """Another rank's may come first: that one is too large is noted."""
    asks = receive(ANY, length=4, text=IRECV)
    verdict = conclude(job(still(0, asks), still(1, send(0, length=9, text=SEND), call="MPI_Send")))
    assert the(verdict, Cause.TOO_SMALL).certainty is Certainty.NOTED


def test_messages_that_pile_up_are_no_progress_of_their_receiver() -> None:
    """Though the number of the next one stands in the lines of its receive."""
    asks = [receive(1, text=(RECV, phrases.RECEIVE_NUMBER(7), phrases.NEXT_TO_MATCH(number, 0))) for number in (5, 6)]
    piled = rank(0, asks[1], unexpected(1, tag=9), call="MPI_Recv", earlier=rank(0, asks[0], call="MPI_Recv"))
    assert stuck(conclude(job(piled, still(1, receive(0), call="MPI_Recv"))), Certainty.PROVED) == [0, 1]


def test_a_note_is_no_message() -> None:
    """It counts messages of which nothing else is known."""
    verdict = conclude(
        job(
            still(0, receive(1), note("2 messages"), call="MPI_Recv"),
            still(1, receive(0), call="MPI_Recv"),
        )
    )
    assert causes(verdict) == [Cause.CYCLE]


# ---------------------------------------------------------------- collective calls


def test_a_collective_that_one_did_not_enter_names_who_and_what_it_does() -> None:
    """Who is inside waits for the missing one even where no traffic of the call can be seen."""
    inside = [still(number, call="MPI_Barrier") for number in (0, 1)]
    verdict = conclude(job(*inside, still(2, receive(0, tag=1), call="MPI_Recv")))
    finding = the(verdict, Cause.COLLECTIVE_MISSING)
    assert (finding.certainty, causes(verdict)) == (Certainty.PROVED, [Cause.COLLECTIVE_MISSING])
    assert finding.sentence == (
        "Ranks [0-1] are in MPI_Barrier on MPI_COMM_WORLD, rank 2 is not: "
        "it is in MPI_Recv from rank 0, tag 1 on MPI_COMM_WORLD at solver.c:42."
    )
    assert {wait.kind for wait in verdict.waits if wait.process == 0} == {WaitKind.COLLECTIVE}


def test_the_communicator_of_a_collective_is_known_by_its_traffic() -> None:
    """Without it, what is proved has to hold on all communicators that it can be on."""
    solver = communicator("solver", range(3))
    missing = still(2, receive(0, tag=1), call="MPI_Recv")
    seen = [
        still(0, collective("MPI_Allreduce", source=2, on=solver), call="MPI_Allreduce"),
        still(1, collective("MPI_Allreduce", source=0, on=solver), call="MPI_Allreduce"),
    ]
    unseen = [still(number, call="MPI_Allreduce") for number in (0, 1)]
    told = the(conclude(job(*seen, missing, communicators=[solver])), Cause.COLLECTIVE_MISSING)
    untold = the(conclude(job(*unseen, missing, communicators=[solver])), Cause.COLLECTIVE_MISSING)
    assert told.sentence.startswith("Ranks [0-1] are in MPI_Allreduce on 'solver', rank 2 is not")
    assert untold.sentence.startswith("Ranks [0-1] are in MPI_Allreduce, rank 2 is not")
    assert untold.certainty is Certainty.PROVED


def test_different_collectives_on_one_communicator_are_one_finding() -> None:
    """Neither can end; both are named."""
    calls = ("MPI_Barrier", "MPI_Barrier", "MPI_Allreduce")
    verdict = conclude(job(*(still(number, call=call) for number, call in enumerate(calls))))
    assert the(verdict, Cause.COLLECTIVE_ORDER).sentence == (
        "Ranks [0-1] are in MPI_Barrier, rank 2 in MPI_Allreduce on MPI_COMM_WORLD: "
        "neither call can end before the other ranks make it too."
    )


def test_a_nonblocking_collective_that_a_rank_left_out_is_said_to_be_one() -> None:
    """With its number, and who has started it: also rank 2, which waits for rank 0 in it."""
    work = communicator("work comm", range(4))
    verdict = conclude(
        job(
            still(0, begun(3, source=3, on=work), call="MPI_Wait"),
            still(1, begun(3, source=3, on=work), call="MPI_Waitall"),
            still(2, begun(3, source=0, on=work), call="MPI_Wait"),
            still(3, receive(1, tag=5), call="MPI_Recv"),
            communicators=[work],
        )
    )
    (finding,) = verdict.findings
    assert (finding.cause, finding.certainty) == (Cause.COLLECTIVE_MISSING, Certainty.PROVED)
    assert finding.sentence == (
        "Ranks [0-2] wait for nonblocking or persistent collective with tag no. 3 on 'work comm', "
        "begun by ranks [0-2], not by rank 3: "
        "it is in MPI_Recv from rank 1, tag 5 on MPI_COMM_WORLD at solver.c:42."
    )
    assert (
        verdict.activities[0].phrase
        == "in MPI_Wait for nonblocking or persistent collective with tag no. 3 on 'work comm'"
    )


def test_who_is_in_a_later_nonblocking_collective_has_started_those_before() -> None:
    """Nobody is accused of leaving out what it has started, as its own traffic or a message of it shows."""
    first = still(0, begun(3, source=1), call="MPI_Wait")
    later = still(1, begun(4, source=0), receive(0, tag=5), call="MPI_Recv")
    elsewhere = still(1, receive(0, tag=5), call="MPI_Recv")
    told = still(2, unexpected(1, -29, text=("eager: all of it is here", phrases.NONBLOCKING_OR_MAKING(3))))
    for ranks in ((first, later), (first, elsewhere, told)):
        assert Cause.COLLECTIVE_MISSING not in causes(conclude(job(*ranks)))


def test_nobody_is_missing_in_a_nonblocking_collective_that_all_have_started() -> None:
    """What a sample shows of it is a moment of its traffic."""
    verdict = conclude(job(*(still(number, begun(1, source=1 - number), call="MPI_Wait") for number in range(2))))
    assert stuck(verdict, Certainty.PROVED) == []


def test_a_nonblocking_collective_needs_all_its_parts() -> None:
    """One that can't end is enough, though the other may."""
    parts = (begun(1, source=1), begun(1, source=2))
    verdict = conclude(job(still(0, *parts, call="MPI_Wait"), still(1, receive(0), call="MPI_Recv"), still(2)))
    assert stuck(verdict, Certainty.PROVED) == [0, 1]


def test_a_request_is_not_among_hidden_blocking_sends() -> None:
    """Where other sends may be missing, what MPI_Wait waits for may be one of these."""
    blocking = phrases.unseen(phrases.BLOCKING_SENDS, "the stack has them")
    one = (Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(0x11,)),)
    for why, whole in ((blocking, [0, 1]), (phrases.unseen("sends", "the stack has them"), [])):
        hidden = {Queue.SENDS: why}
        ranks = (
            still(0, receive(1, text=(IRECV, phrases.request(0x11))), call="MPI_Wait", arguments=one, hidden=hidden),
            still(1, begun(3, source=0), call="MPI_Wait", hidden=hidden),
        )
        assert stuck(conclude(job(*ranks)), Certainty.PROVED) == whole


def test_a_message_that_the_mpi_has_lost_sight_of_is_waited_for_for_ever() -> None:
    """Whatever its sender does; one sample may just have come between the message and the end of the call."""
    text = (IRECV, phrases.request(0x11), phrases.FORGOTTEN())
    got = receive(ANY, 8, status=Status.MATCHED, message=(1, 8, 8), text=text)
    one = (Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(0x11,)),)
    verdict = conclude(job(still(0, got, call="MPI_Wait", arguments=one), moving(1)))
    finding = the(verdict, Cause.FORGOTTEN)
    assert (finding.certainty, finding.processes) == (Certainty.PROVED, (0,))
    assert finding.sentence == (
        "Rank 0 waits in MPI_Wait, tag 8 on MPI_COMM_WORLD, for a message from rank 1 that is here: "
        "the MPI has lost sight of it, and doesn't end the call."
    )
    assert [wait.peers for wait in verdict.waits if wait.process == 0] == [(1,)]
    once = conclude(job(rank(0, got, call="MPI_Wait"), rank(1)))
    assert the(once, Cause.FORGOTTEN).certainty is Certainty.SUSPECTED


def test_a_request_beside_a_nonblocking_collective_may_be_the_one_that_is_waited_for() -> None:
    """MPI_Wait doesn't show it; nor does MPI_Waitany, also where Open MPI marks the request."""
    for call, text in (("MPI_Wait", (IRECV,)), ("MPI_Waitany", (IRECV, in_wait(1)))):
        first = still(0, receive(1, text=text), begun(1, source=2), call=call)
        verdict = conclude(job(first, still(1, receive(0), call="MPI_Recv"), still(2)))
        assert stuck(verdict, Certainty.PROVED) == []


def test_a_request_that_may_not_be_the_one_is_said_to_be_so() -> None:
    """Rank 0 may wait for rank 1 as well."""
    wait = (receive(1, tag=1, text=(IRECV,)), receive(2, tag=2, text=(IRECV,)))
    verdict = conclude(job(still(0, *wait, call="MPI_Wait"), still(1, receive(0), call="MPI_Recv"), still(2)))
    assert the(verdict, Cause.OUTSIDE).sentence.startswith("Rank 0 waits in MPI_Wait, perhaps receiving from rank 2")


def test_two_who_reduce_towards_themselves_disagree_about_the_root() -> None:
    """All who are in the call are counted, with the roots as well as Open MPI's trees tell."""
    text = (IRECV, phrases.COLLECTIVE("MPI_Reduce"))
    got = receive(3, -21, length=0, status=Status.COMPLETE, text=text, message=(3, -21, 0))
    verdict = conclude(
        job(
            still(0, collective("MPI_Reduce", source=1), collective("MPI_Reduce", source=2), call="MPI_Reduce"),
            still(1, collective("MPI_Reduce", source=2), got, call="MPI_Reduce"),
            still(2, collective("MPI_Reduce", source=0), call="MPI_Reduce"),
            still(3, call="MPI_Barrier"),
        )
    )
    finding = the(verdict, Cause.ROOTS)
    assert (finding.certainty, finding.processes) == (Certainty.PROVED, (0, 1, 2))
    assert finding.sentence.startswith(
        "Ranks [0-2] are in MPI_Reduce on MPI_COMM_WORLD, and disagree about its root: rank 0 takes rank 0 for it, "
        "rank 1 takes rank 1 for it, "
    )
    moving_on = [
        still(number, collective("MPI_Reduce", source=1 - number), call="MPI_Reduce", watched=False)
        for number in range(2)
    ]
    assert Cause.ROOTS not in causes(conclude(job(*moving_on)))


def test_roots_of_calls_that_others_have_completed_are_reported_too() -> None:
    """On MPICH, which waits for one at a time, two ranks are possible for each: none is made up."""
    verdict = conclude(
        job(
            still(0, collective("MPI_Reduce", source=1, length=4), call="MPI_Reduce"),
            still(1, collective("MPI_Reduce", source=2, length=4), call="MPI_Reduce"),
            still(2, call="MPI_Barrier"),
            still(3, call="MPI_Barrier"),
            mpi="MPICH 4.3.2",
        )
    )
    assert the(verdict, Cause.ROOTS).sentence == (
        "Ranks [0-1] are in MPI_Reduce on MPI_COMM_WORLD with different roots: rank 0 takes rank 0 or 2 for it, rank 1 "
        "takes rank 1 or 3 for it; ranks [2-3] are in MPI_Barrier on MPI_COMM_WORLD."
    )


def test_a_tree_within_a_node_shows_no_root() -> None:
    """MPICH reduces on each node first: who leads one waits for the others there, whatever the root."""
    rows = communicator("rows", range(4), unique_id=0x20)
    nodes = [communicator("[internal]", (first, first + 1), unique_id=0x22) for first in (0, 2)]
    leaders = [
        still(node.members[0], collective("MPI_Reduce", source=1, length=4, on=node), call="MPI_Reduce")
        for node in nodes
    ]
    others = [still(node.members[1], call="MPI_Barrier") for node in nodes]
    ranks = (leaders[0], others[0], leaders[1], others[1])
    assert Cause.ROOTS not in causes(conclude(job(*ranks, communicators=[rows, *nodes], mpi="MPICH 4.3.2, ch4")))


def test_who_both_sends_and_receives_in_a_reduction_is_in_no_tree() -> None:
    """It may be one that goes by pairs of ranks: whom it waits for shows nothing of the root."""
    pairs = (
        still(
            number,
            collective("MPI_Reduce", source=1 - number),
            collective("MPI_Reduce", target=2),
            call="MPI_Reduce",
        )
        for number in range(2)
    )
    assert Cause.ROOTS not in causes(conclude(job(*pairs, still(2, call="MPI_Barrier"))))


def test_a_tree_in_which_all_agree_is_no_disagreement() -> None:
    """Rank 2 is late; the others wait for it by way of each other, towards rank 0."""
    verdict = conclude(
        job(
            still(0, collective("MPI_Reduce", source=1), collective("MPI_Reduce", source=2), call="MPI_Reduce"),
            still(1, collective("MPI_Reduce", source=3), call="MPI_Reduce"),
            still(2, receive(0), call="MPI_Recv"),
            still(3, receive(0), call="MPI_Recv"),
        )
    )
    assert Cause.ROOTS not in causes(verdict)


def test_two_communicators_in_different_order_are_one_finding() -> None:
    """The same call on each: rank 0 on one of them, rank 1 on the other."""
    rows, columns = (communicator(name, range(2)) for name in ("rows", "columns"))
    verdict = conclude(
        job(
            still(0, collective("MPI_Barrier", source=1, on=rows), call="MPI_Barrier"),
            still(1, collective("MPI_Barrier", source=0, on=columns), call="MPI_Barrier"),
            communicators=[rows, columns],
        )
    )
    finding = the(verdict, Cause.COLLECTIVE_ORDER)
    assert "rank 0 is in MPI_Barrier on 'rows', rank 1 in MPI_Barrier on 'columns'" in finding.sentence.lower().replace(
        "mpi_barrier", "MPI_Barrier"
    )
    assert (finding.certainty, finding.communicator_id) == (Certainty.PROVED, None)


def test_a_collective_without_its_missing_rank_never_ends_by_itself() -> None:
    """The others wait for each other inside, but those who are missing are stuck elsewhere."""
    inside = [still(number, collective("MPI_Barrier", source=1 - number), call="MPI_Barrier") for number in range(2)]
    selves = [still(number, send(number), call="MPI_Ssend") for number in (2, 3)]
    assert stuck(conclude(job(*inside, *selves)), Certainty.PROVED) == [0, 1, 2, 3]
    rooted = [
        still(0, collective("MPI_Bcast", source=1), call="MPI_Bcast"),
        still(1, collective("MPI_Bcast", source=0), collective("MPI_Bcast", source=2), call="MPI_Bcast"),
    ]
    assert stuck(conclude(job(*rooted, selves[0])), Certainty.PROVED) == [0, 1, 2]


def test_one_sample_of_a_collective_is_a_suspicion() -> None:
    """It may be about to end, and who is elsewhere may have left it."""
    inside = [rank(number, call="MPI_Barrier") for number in (0, 1)]
    verdict = conclude(job(*inside, rank(2, receive(0), call="MPI_Recv")))
    assert (verdict.outcome, causes(verdict)) == (Outcome.SUSPECTED, [Cause.COLLECTIVE_MISSING])


def test_a_collective_in_which_all_are_is_not_stuck() -> None:
    """However it goes on inside: nobody is missing."""
    verdict = conclude(job(*(still(number, call="MPI_Barrier") for number in range(3))))
    assert stuck(verdict, Certainty.PROVED) == []


@pytest.mark.parametrize("call", ["MPI_Barrier", "MPI_Bcast", "MPI_Neighbor_alltoall"])
def test_waits_inside_one_collective_end_by_themselves(call: str) -> None:
    """All are in it, and its own messages go round: that is a moment of it; only a barrier needs one who is outside.

    But nobody was seen to leave it, either: that nothing is stuck isn't known.
    """
    inside = [still(number, collective(call, source=(number + 1) % 3), call=call, watched=False) for number in range(3)]
    alone = conclude(job(*inside))
    watched = [still(number, collective(call, source=(number + 1) % 3), call=call) for number in range(3)]
    with_another = conclude(job(*watched, still(3, receive(0), call="MPI_Recv")))
    assert (alone.outcome, the(alone, Cause.KNOT).certainty) == (Outcome.NOT_READ, Certainty.NOTED)
    assert (3 in stuck(with_another, Certainty.PROVED)) == (call == "MPI_Barrier")


def test_a_collective_that_surely_stands_still_is_suspected() -> None:
    """A loop over the call would have been seen; the ranks may have called it with different arguments.

    Not before it has lasted for longer than data may take to move, while it was watched without a break.
    """
    inside = [
        at_times(range(3), number, collective("MPI_Bcast", source=1 - number), call="MPI_Bcast") for number in range(2)
    ]
    for times, certainty, outcome in (
        ((0, 1, 2), Certainty.NOTED, Outcome.NOT_READ),
        ((0, 6, 12), Certainty.NOTED, Outcome.NOT_READ),
        ((0, 1, 11), Certainty.SUSPECTED, Outcome.SUSPECTED),
    ):
        verdict = conclude(job(*inside, times=times))
        finding = the(verdict, Cause.KNOT)
        assert (verdict.outcome, finding.certainty, finding.processes) == (outcome, certainty, (0, 1))
        assert "root" in finding.advice
        assert ("much data" in finding.advice) == (outcome is Outcome.NOT_READ)


def test_a_collective_whose_operations_are_numbered_is_in_one_call_from_sample_to_sample() -> None:
    """Nobody has to watch it for that, and all the time counts."""
    text = (RECV, phrases.COLLECTIVE("MPI_Bcast"), phrases.RECEIVE_NUMBER(7))
    inside = [
        at_times(range(3), number, receive(1 - number, tag=-16, text=text), call="MPI_Bcast", watched=False)
        for number in range(2)
    ]
    outcomes = [conclude(job(*inside, times=times)).outcome for times in ((0, 3, 6), (0, 6, 12))]
    assert outcomes == [Outcome.NOT_READ, Outcome.SUSPECTED]


def test_a_rooted_collective_that_a_rank_may_have_left_proves_nothing_of_it() -> None:
    """The root of MPI_Bcast goes on before others have entered: who is elsewhere may have made the call."""
    verdict = conclude(job(still(0, receive(1), call="MPI_Recv"), still(1, call="MPI_Bcast")))
    assert stuck(verdict, Certainty.PROVED) == []


def test_a_collective_waits_for_a_straggler_by_name() -> None:
    """That is a suspicion: it may still enter."""
    inside = [still(number, call="MPI_Barrier") for number in (0, 1)]
    finding = the(conclude(job(*inside, still(2, where="solver.c:7"))), Cause.OUTSIDE)
    assert (finding.certainty, finding.processes) == (Certainty.SUSPECTED, (0, 1, 2))


def test_a_part_that_mpich_makes_is_called_by_the_name_of_the_whole() -> None:
    """A barrier's traffic within a node is on a communicator of MPICH's own; its number shows which one it is in."""
    rows = communicator("rows", range(3), unique_id=0x20)
    within = communicator("[internal]", range(3), unique_id=0x22)
    ranks = [still(number, collective("MPI_Barrier", source=2, on=within), call="MPI_Barrier") for number in (0, 1)]
    verdict = conclude(
        job(*ranks, still(2, receive(0), call="MPI_Recv"), communicators=[rows, within], mpi="MPICH 4.3.2, ch4")
    )
    assert the(verdict, Cause.COLLECTIVE_MISSING).sentence.startswith("Ranks [0-1] are in MPI_Barrier on 'rows'")
    assert {wait.communicator for wait in verdict.waits if wait.what == "MPI_Barrier"} == {"rows"}


# ---------------------------------------------------------------- one sample, two samples


def test_one_sample_of_two_receives_is_a_suspicion() -> None:
    """The message of one of them may be under way, where no queue shows it: a second sample would tell."""
    ranks = [rank(number, receive(1 - number), call="MPI_Recv") for number in range(2)]
    verdict = conclude(job(*ranks))
    assert verdict.outcome is Outcome.SUSPECTED
    assert "--samples 2" in the(verdict, Cause.CYCLE).advice


def test_ranks_that_ran_while_they_were_read_prove_nothing() -> None:
    """Neither do core files, which are of different moments: what each says may not fit together."""
    ranks = [still(number, send(1 - number), unexpected(1 - number), call="MPI_Ssend") for number in range(2)]
    running = conclude(job(*ranks, stopped=False))
    cores = conclude(replace(job(*ranks, stopped=False), source="core files"))
    assert running.outcome is Outcome.SUSPECTED
    assert "--no-stop" in the(running, Cause.CYCLE).advice
    assert "different moments" in the(cores, Cause.CYCLE).advice


def test_one_sample_proves_sends_whose_messages_have_arrived_and_wait() -> None:
    """Nothing that is under way could end them: each is at its receiver, who is in a send itself."""
    verdict = conclude(
        job(
            rank(0, send(1, tag=1), unexpected(1, tag=1, status=Status.PENDING), call="MPI_Ssend"),
            rank(1, send(0, tag=1), unexpected(0, tag=1, status=Status.PENDING), call="MPI_Ssend"),
        )
    )
    assert the(verdict, Cause.CYCLE).certainty is Certainty.PROVED


def test_a_rank_that_went_on_is_not_stuck() -> None:
    """Both samples show it in the same call, but the program's own part of its stack changed: nobody is stuck."""
    verdict = conclude(job(moving(0, receive(1)), still(1, receive(0), call="MPI_Recv")))
    assert verdict.outcome is Outcome.NOTHING_STUCK
    assert the(verdict, Cause.PROGRESS).sentence == (
        "Rank 0 went on between the samples; rank 1 waits for that: slow, not stuck."
    )


def test_operations_that_change_are_progress_but_unexpected_messages_are_not() -> None:
    """What comes in is the doing of others: it may pile up at a rank that is stuck."""
    before = rank(0, receive(1), call="MPI_Recv")
    after = rank(0, receive(1), unexpected(1, tag=9), call="MPI_Recv", earlier=before)
    other = still(1, receive(0), call="MPI_Recv")
    assert stuck(conclude(job(after, other)), Certainty.PROVED) == [0, 1]
    changed = rank(0, receive(1, tag=2), call="MPI_Recv", earlier=before)
    assert stuck(conclude(job(changed, other)), Certainty.PROVED) == []


def test_a_rank_that_was_seen_to_go_on_between_the_samples_is_not_stuck() -> None:
    """Both samples are equal in everything, but somebody watched it meanwhile."""
    plain = job(still(0, receive(1), call="MPI_Recv"), still(1, receive(0), call="MPI_Recv"))
    first, second = plain.processes
    seen = replace(first, samples=(first.samples[0], replace(first.samples[1], progressed=True)))
    assert conclude(replace(plain, processes=(seen, second))).outcome is Outcome.NOTHING_STUCK


def test_two_equal_samples_prove_nothing_where_a_loop_may_give_them() -> None:
    """A healthy loop may be in the same call each time, its message under way: its returns have to be watched for."""
    ranks = [still(number, receive(1 - number), call="MPI_Recv", watched=False) for number in range(2)]
    finding = the(conclude(job(*ranks)), Cause.CYCLE)
    assert finding.certainty is Certainty.SUSPECTED
    assert "perf_event_paranoid" in finding.advice


def test_two_equal_samples_of_numbered_operations_are_a_proof() -> None:
    """Another turn of a loop would have another number."""
    numbered = (RECV, phrases.RECEIVE_NUMBER(7))
    ranks = [still(number, receive(1 - number, text=numbered), call="MPI_Recv", watched=False) for number in range(2)]
    assert conclude(job(*ranks)).outcome is Outcome.PROVED


@pytest.mark.parametrize(
    ("sent", "outcome"), [(4, Outcome.PROVED), (5, Outcome.PROVED), (6, Outcome.SUSPECTED), (65541, Outcome.PROVED)]
)
def test_a_message_that_was_sent_and_has_not_come_is_under_way(sent: int, outcome: Outcome) -> None:
    """Its number is known to its sender, and to its receiver that it is the next: nobody who waits for it is stuck."""
    asks = receive(1, text=(RECV, phrases.RECEIVE_NUMBER(7), phrases.NEXT_TO_MATCH(6, 3)))
    other = receive(0, text=(RECV, phrases.RECEIVE_NUMBER(9), phrases.NEXT_TO_MATCH(4, sent % 65536)))
    assert conclude(job(still(0, asks, call="MPI_Recv"), still(1, other, call="MPI_Recv"))).outcome is outcome


def test_a_send_that_waits_is_no_message_that_cannot_be_seen() -> None:
    """All that were sent and have not come are in the sender's queue: with another tag, they help nobody."""
    asks = receive(1, tag=1, text=(RECV, phrases.RECEIVE_NUMBER(7), phrases.NEXT_TO_MATCH(6, 3)))
    sends = send(0, tag=2, text=(ISEND, phrases.SEND_NUMBER(6)))
    other = receive(0, text=(RECV, phrases.RECEIVE_NUMBER(9), phrases.NEXT_TO_MATCH(4, 6)))
    verdict = conclude(job(still(0, asks, call="MPI_Recv"), still(1, sends, other, call="MPI_Recv")))
    assert verdict.outcome is Outcome.PROVED


@pytest.mark.parametrize(
    ("hosts", "times", "outcome"),
    [
        (("n1", "n2"), (0.0, 1.0), Outcome.SUSPECTED),
        (("n1", "n2"), (0.0, 3.0), Outcome.PROVED),
        (("n1", "n2"), (0.0, 1.0, 3.0), Outcome.PROVED),
        (("n1", "n1"), (0.0, 1.0), Outcome.PROVED),
    ],
)
def test_on_several_nodes_receives_are_proved_when_what_was_under_way_has_come(
    hosts: Sequence[str], times: Sequence[float], outcome: Outcome
) -> None:
    """A network may take its time, and nothing numbers the messages; it takes less than three seconds."""
    ranks = [at_times(times, number, receive(1 - number), call="MPI_Recv", host=hosts[number]) for number in range(2)]
    verdict = conclude(job(*ranks, times=times))
    assert verdict.outcome is outcome
    assert ("--interval 3s" in the(verdict, Cause.CYCLE).advice) == (outcome is Outcome.SUSPECTED)


def test_who_has_just_gone_on_may_have_sent_a_message_that_is_under_way() -> None:
    """Its receiver has stood long enough, but it has not itself."""
    times = (0.0, 1.0, 4.0, 4.5)
    waits = at_times(times, 0, receive(1), call="MPI_Recv", host="n1")
    moved = rank(1, call="MPI_Recv", host="n2")
    moved = rank(1, receive(0), call="MPI_Recv", host="n2", earlier=rank(1, call="MPI_Recv", host="n2", earlier=moved))
    moved = rank(1, receive(0), call="MPI_Recv", host="n2", earlier=moved)
    assert conclude(job(waits, moved, times=times)).outcome is Outcome.SUSPECTED


def test_a_straggler_that_computes_is_still_one() -> None:
    """Its stack changes, but it stays outside MPI, and the others stay where they are."""
    computes = rank(1, stacks=[stack(None, fingerprint="b")], earlier=rank(1, stacks=[stack(None, fingerprint="a")]))
    verdict = conclude(job(still(0, receive(1), call="MPI_Recv"), computes))
    assert verdict.outcome is Outcome.SUSPECTED
    assert the(verdict, Cause.OUTSIDE).sentence.endswith(", and computes.")


# ---------------------------------------------------------------- what can't be seen


def test_without_stacks_what_may_be_nonblocking_is_no_wait() -> None:
    """A receive may be that of MPI_Recv or of MPI_Irecv; that nothing was stuck isn't said either."""
    verdict = conclude(job(*(still(number, receive(1 - number), stacks=NO_STACK) for number in range(2))))
    assert (verdict.outcome, verdict.findings) == (Outcome.NOT_READ, ())
    assert verdict.headline == (
        "Nothing is known to be stuck, but too little could be seen: 2 ranks read; the call stacks of 2 can't be seen."
    )


def test_without_a_stop_the_headline_says_why_so_little_was_seen() -> None:
    """As in mqs watch, which never stops anybody."""
    ranks = (still(number, receive(1 - number), stacks=NO_STACK) for number in range(2))
    verdict = conclude(replace(job(*ranks), stopped=False))
    assert verdict.headline == (
        "Nothing is known to be stuck, but no rank was stopped, as it takes to see its calls: 2 ranks read."
    )


def test_without_stacks_a_probe_that_waits_is_one() -> None:
    """No nonblocking call leaves it; that is suspected, since the rank may have other threads, unseen as well."""
    probe = receive(ANY, length=0, text=(PROBE,))
    verdict = conclude(job(*(still(number, probe, stacks=NO_STACK) for number in range(2))))
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1]
    assert verdict.findings[0].advice.endswith("The call stacks of rank 0 can't be seen: a thread of it may go on.")


def test_without_stacks_marked_requests_and_collective_traffic_show_that_a_rank_is_blocked() -> None:
    """Open MPI marks what a thread waits for right now; and only inside the call is its traffic pending."""
    wait = receive(1, text=(IRECV, in_wait(1)))
    inside = collective("MPI_Barrier", source=0)
    verdict = conclude(job(still(0, wait, stacks=NO_STACK), still(1, inside, stacks=NO_STACK)))
    assert stuck(verdict, Certainty.SUSPECTED) == [0, 1]


def test_a_call_whose_operations_are_hidden_proves_nothing() -> None:
    """Data may be moving, unseen; that all are in blocking calls is a suspicion, and says so."""
    hidden = (Queue.SENDS, Queue.RECEIVES, Queue.UNEXPECTED)
    verdict = conclude(job(*(still(number, call="MPI_Recv", hidden=hidden) for number in range(2))))
    assert verdict.outcome is Outcome.SUSPECTED
    assert the(verdict, Cause.KNOT).sentence == (
        "Ranks [0-1] wait in MPI_Recv, for what can't be seen, and nobody is left to end that."
    )


def test_probes_that_leave_no_operation_are_stuck_when_everybody_is() -> None:
    """MPICH's MPI_Probe shows nowhere: with all others blocked nobody can send what it waits for."""
    verdict = conclude(job(still(0, call="MPI_Probe"), still(1, receive(0), call="MPI_Recv")))
    assert stuck(verdict, Certainty.PROVED) == [0, 1]


def test_a_job_of_which_nothing_was_read_has_no_verdict() -> None:
    """Neither "stuck" nor "nothing stuck" may be said of it."""
    unread = [rank(number, state=RankState.UNREADABLE, why="no permission") for number in range(2)]
    verdict = conclude(job(*unread))
    assert (verdict.outcome, verdict.headline) == (
        Outcome.NOT_READ,
        "Nothing can be said: none of 2 ranks could be read.",
    )
    blind = [rank(number, stacks=NO_STACK, hidden=tuple(Queue)) for number in range(2)]
    assert conclude(job(*blind)).outcome is Outcome.NOT_READ


def test_one_rank_that_was_not_read_may_be_stuck() -> None:
    """That nothing is stuck can only be said where all that live were seen; an exited rank hides nothing."""
    unread = rank(1, state=RankState.UNREADABLE, why="no permission")
    verdict = conclude(job(still(0), unread, still(2)))
    assert (verdict.outcome, verdict.headline) == (
        Outcome.NOT_READ,
        "Nothing is known to be stuck, but too little could be seen: 2 of 3 ranks read.",
    )
    assert conclude(job(still(0), gone(1), still(2))).outcome is Outcome.NOTHING_STUCK


def test_an_empty_job_has_no_verdict() -> None:
    """There is nothing to read."""
    empty = replace(job(rank(0)), processes=(), sizes=())
    assert conclude(empty).outcome is Outcome.NOT_READ


# ---------------------------------------------------------------- jobs that are fine


def test_a_job_outside_mpi_is_not_stuck() -> None:
    """Whatever is pending of nonblocking calls."""
    verdict = conclude(job(still(0, receive(1, text=(IRECV,)), send(1, text=(ISEND,))), still(1)))
    assert (verdict.outcome, verdict.findings) == (Outcome.NOTHING_STUCK, ())
    assert verdict.headline == "Nothing is stuck: 2 ranks read."


def test_names_from_a_target_are_made_printable() -> None:
    """A communicator's name is anybody's to choose."""
    evil = communicator(b"evil\x1b[31m\n", range(2))
    verdict = conclude(job(*(still(number, receive(1 - number, on=evil), call="MPI_Recv") for number in range(2))))
    assert verdict.communicators[1].name == r"evil\x1b[31m\x0a"
    assert r"on 'evil\x1b[31m\x0a'" in the(verdict, Cause.CYCLE).sentence


def test_findings_of_one_kind_fill_no_screen() -> None:
    """The first ones are reported, the others counted with their ranks."""
    ranks = [still(number, send(number ^ 1), call="MPI_Ssend") for number in range(40)]
    cycles = conclude(job(*ranks)).findings
    assert len(cycles) == 5
    assert cycles[-1].sentence == "16 more of this kind (cycle), among ranks [8-39]."


@pytest.mark.parametrize(("inner", "is_ending"), [("atexit", True), ("_PyEval_EvalFrameDefault", False)])
def test_a_python_rank_whose_interpreter_is_ending_is_said_to_be(inner: str, *, is_ending: bool) -> None:
    """It calls MPI_Finalize for itself then, mostly after an exception; a program may do so, too."""
    frames = tuple(Frame(each, "python3", None, None) for each in ("ompi_mpi_finalize", inner, "Py_RunMain"))
    ending = [replace(stack("MPI_Finalize"), frames=frames)]
    peer = rank(1, stacks=ending, earlier=rank(1, stacks=ending))
    (finding,) = conclude(job(still(0, receive(1), call="MPI_Recv"), peer)).findings
    assert finding.sentence.endswith("called MPI_Finalize: its Python interpreter is ending.") == is_ending
    assert ("Python has written that to the standard error of rank 1 before" in finding.advice) == is_ending
    gathering = collective("MPI_Barrier", source=1)
    (missing,) = conclude(job(still(0, gathering, call="MPI_Barrier"), peer)).findings
    assert ("standard error of rank 1" in missing.advice) == is_ending


def test_of_several_ranks_that_ended_all_interpreters_are_ending_or_it_is_not_said() -> None:
    """Else it would be wrong of some."""
    frames = tuple(Frame(each, "python3", None, None) for each in ("ompi_mpi_finalize", "Py_RunMain"))
    ending, ended = [replace(stack("MPI_Finalize"), frames=frames)], [stack("MPI_Finalize")]
    barrier = collective("MPI_Barrier", source=1)
    for second, is_ending in ((ending, True), (ended, False)):
        peers = (
            rank(1, stacks=ending, earlier=rank(1, stacks=ending)),
            rank(2, stacks=second, earlier=rank(2, stacks=second)),
        )
        (found,) = conclude(job(still(0, barrier, call="MPI_Barrier"), *peers)).findings
        assert ("their Python interpreters are ending" in found.sentence) == is_ending
        assert ("standard error of ranks [1-2]" in found.advice) == is_ending


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_rank_sent_before_its_end_may_be_under_way(*, is_there: bool) -> None:
    """Ranks are stopped one after the other: while one stood already, its peer may have sent, and called MPI_Finalize.

    That is over where the sample before has the peer there already; a send, too, may have been answered but just now.
    """
    before = rank(1, call="MPI_Finalize") if is_there else rank(1)
    ended = rank(1, call="MPI_Finalize", earlier=before)
    for waits, call in ((receive(1), "MPI_Recv"), (send(1), "MPI_Ssend"), (receive(ANY), "MPI_Recv")):
        verdict = conclude(job(still(0, waits, call=call), ended))
        assert verdict.outcome is (Outcome.PROVED if is_there else Outcome.SUSPECTED)
    arrived = rank(1, unexpected(0, tag=7), call="MPI_Finalize", earlier=before)
    assert conclude(job(still(0, send(1, tag=7), call="MPI_Ssend"), arrived)).outcome is Outcome.PROVED


@pytest.mark.parametrize("how", ["stands", "left it", "goes on", "is called back"])
def test_who_isnt_in_a_collective_call_may_have_left_it_while_others_pass_on_in_it(how: str) -> None:
    """Rank 1 may wait for rank 0 behind MPI_Allreduce: rank 0 has yet to hear from rank 2, which went on but now.

    Where rank 2 stood in the call, nothing is passed on, and rank 1 never came.
    """
    inside = rank(2, stacks=[stack("MPI_Allreduce")])
    callback = replace(stack("MPI_Allreduce"), callback=Frame("my_op", "solver", "solver.c", 7))
    facts: dict[str, dict[str, Any]] = {
        "stands": {"call": "MPI_Allreduce"},
        "left it": {"call": None},
        "goes on": {"call": "MPI_Allreduce", "progressed": True},
        "is called back": {"stacks": [callback]},
    }
    ranks = still(0, call="MPI_Allreduce"), still(1, receive(0), call="MPI_Recv"), rank(2, earlier=inside, **facts[how])
    assert conclude(job(*ranks)).outcome is (Outcome.PROVED if how == "stands" else Outcome.SUSPECTED)


# ---------------------------------------------------------------- before MPI_Init


def starting(number: int, call: str | None, *times: float) -> Rank:
    """Return a rank that is before the end of MPI_Init, in that call or outside MPI."""
    plan = rank(number, state=RankState.NOT_INITIALIZED)
    starts = tuple(Start(at, (stack(call, "input.c:12"),)) for at in times)
    return plan._replace(process=replace(plan.process, starts=starts))


def test_who_never_calls_mpi_init_is_named_with_its_place() -> None:
    """The others wait for it in MPI_Init: it may still come, so that is suspected."""
    times = (0.0, 0.5, 3.7)
    verdict = conclude(job(starting(0, "MPI_Init", *times), starting(1, None, *times), starting(2, "MPI_Init", *times)))
    assert verdict.outcome is Outcome.SUSPECTED
    assert the(verdict, Cause.OUTSIDE).sentence == (
        "Ranks [0,2] wait in MPI_Init; rank 1 has not called it: it is in exchange at input.c:12."
    )
    assert [activity.phrase for activity in verdict.activities] == ["in MPI_Init", "before MPI_Init", "in MPI_Init"]


@pytest.mark.parametrize("times", [(0.0,), (0.0, 0.5)])
def test_a_job_that_is_just_starting_is_not_accused(times: Sequence[float]) -> None:
    """Its ranks call MPI_Init one after the other: it is noted, and nothing is said to be wrong."""
    verdict = conclude(job(starting(0, "MPI_Init", *times), starting(1, None, *times)))
    assert verdict.outcome is Outcome.NOT_READ
    assert the(verdict, Cause.OUTSIDE).certainty is Certainty.NOTED


def test_who_has_come_to_mpi_init_meanwhile_is_not_missing() -> None:
    """The last of the samples shows all of them there, or on their way out of it."""
    came = starting(1, None, 0.0)
    late = came._replace(process=replace(came.process, starts=(*came.process.starts, Start(4.0, (stack("MPI_Init"),)))))
    assert causes(conclude(job(starting(0, "MPI_Init", 0.0, 4.0), late))) == []


def test_who_exited_without_mpi_init_is_waited_for_in_it() -> None:
    """Nobody else is missing."""
    verdict = conclude(job(starting(0, "MPI_Init", 0.0, 3.5), gone(1)))
    assert the(verdict, Cause.GONE).sentence == "Rank 0 waits in MPI_Init; rank 1 exited without it."


def test_who_has_come_to_mpi_init_meanwhile_is_not_said_to_wait_there() -> None:
    """What it waits for has not lasted; the one that is missing is waited for by the others."""
    came = starting(2, "MPI_Init", 0.0)
    starts = (Start(0.0, (stack(None, "input.c:12"),)), Start(4.0, (stack("MPI_Init"),)))
    late = came._replace(process=replace(came.process, starts=starts))
    verdict = conclude(job(starting(0, "MPI_Init", 0.0, 4.0), starting(1, None, 0.0, 4.0), late))
    assert the(verdict, Cause.OUTSIDE).sentence.startswith("Rank 0 waits in MPI_Init; rank 1 has not called it")


def test_mpi_init_waits_for_the_own_world_alone() -> None:
    """What another program of the job does before it keeps nobody there."""
    other = starting(0, None, 0.0, 4.0)
    other = other._replace(process=replace(other.process, world=1, pid=2000))
    assert causes(conclude(job(starting(0, "MPI_Init", 0.0, 4.0), other, size=1))) == []


def test_who_is_missing_in_mpi_init_at_several_places_is_said_to_be_at_none() -> None:
    """One place for all of them would be wrong for some."""
    other = starting(2, None, 0.0)
    starts = tuple(Start(at, (stack(None, "mesh.c:7"),)) for at in (0.0, 4.0))
    other = other._replace(process=replace(other.process, starts=starts))
    verdict = conclude(job(starting(0, "MPI_Init", 0.0, 4.0), starting(1, None, 0.0, 4.0), other))
    assert the(verdict, Cause.OUTSIDE).sentence == "Rank 0 waits in MPI_Init; ranks [1-2] have not called it."


# ---------------------------------------------------------------- locks


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        (Lock(FILE_LOCK, 1002, name="solver"), "a file lock that rank 2 holds"),
        (Lock(FILE_LOCK, 99, name="a\x1bb"), "a file lock that process 99 (a\\x1bb) holds"),
        (Lock(MUTEX, 1001, 1001), "a mutex that it holds itself"),
        (Lock(MUTEX, 1001, 7), "a mutex that another of its threads holds"),
        (Lock(MUTEX, 1001, 8), "a mutex that another of its threads holds, which is in MPI_Barrier at io.c:3"),
    ],
)
def test_who_holds_the_lock_that_a_rank_waits_for_is_said(lock: Lock, words: str) -> None:
    """A file lock's holder by its rank, where it is one of the job's; a mutex's by the place of the thread."""
    main = replace(stack(None), thread=1001, lock=lock)
    other = replace(stack("MPI_Barrier", "io.c:3"), thread=8)
    names = Names(Analysis(job(still(0), still(1, stacks=[main, other]), still(2))))
    assert names.lock_of(1, main) == f"; it waits for {words}"


def test_who_isnt_in_a_collective_call_may_have_left_it_while_a_message_in_it_is_under_way() -> None:
    """By its number: whoever waits in that call may be in it only for this, and for who goes on by it."""
    numbers = phrases.NEXT_TO_MATCH(3, 5), phrases.NEXT_TO_MATCH(6, 3)

    def inside(number: int, line: str) -> Rank:
        part = receive(1 - number, -12, text=(RECV, phrases.COLLECTIVE("MPI_Allreduce"), line))
        return still(number, part, call="MPI_Allreduce")

    for under_way in (True, False):
        ranks = [inside(0, numbers[0]), inside(1, numbers[1] if under_way else phrases.NEXT_TO_MATCH(6, 2))]
        verdict = conclude(job(*ranks, still(2, call="MPI_Finalize")))
        assert verdict.outcome is (Outcome.SUSPECTED if under_way else Outcome.PROVED)


def test_of_several_requests_the_marked_ones_are_not_all_that_one_may_be_waited_for() -> None:
    """Only what a queue has is marked, and MPI_Waitany needs one more; MPI_Waitall's count shows that it is all."""
    for call, certainty in (("MPI_Waitany", Certainty.SUSPECTED), ("MPI_Waitall", Certainty.PROVED)):
        wait = receive(1, tag=1, text=(IRECV, in_wait(1)))
        verdict = conclude(job(still(0, wait, call=call), still(1, receive(0), call="MPI_Recv")))
        assert stuck(verdict, certainty) == [0, 1]


def test_who_waits_after_it_has_asked_has_gone_on() -> None:
    """Its call is another one, though it has nothing else pending than before."""
    asked = rank(0, receive(1), call="MPI_Test")
    verdict = conclude(job(rank(0, receive(1), call="MPI_Wait", earlier=asked), still(1, receive(0), call="MPI_Recv")))
    assert verdict.outcome is Outcome.NOTHING_STUCK


def test_a_hint_about_others_is_no_part_of_the_headline() -> None:
    """It stands where a message of those is meant that the first finding is about."""
    verdict = conclude(
        job(
            still(0, receive(1), call="MPI_Recv"),
            still(1, receive(0), call="MPI_Recv"),
            still(2, receive(3, tag=1), unexpected(3, tag=2), call="MPI_Recv"),
            still(3, receive(0), call="MPI_Recv"),
        )
    )
    assert the(verdict, Cause.TAG).certainty is Certainty.SUSPECTED
    assert verdict.headline.endswith("each waits for the other to send.")
