"""What a verdict makes of the arguments of the calls that ranks are in, beside the queues or without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import UNKNOWN, Queue, Status
from mqs_dll.job.records import Argument, ArgumentEvidence, CallStack, Job
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report.text.stacks import written
from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Certainty, Finding, Outcome, Verdict, WaitKind
from tests.support.made_up_job import (
    ANY,
    IRECV,
    ISEND,
    Pending,
    Rank,
    collective,
    communicator,
    given,
    gone,
    job,
    rank,
    receive,
    send,
    stack,
    unexpected,
)

HIDDEN = {"hidden": tuple(Queue)}
HALO = communicator("halo exchange", range(2))
IPROBE = stack("MPI_Iprobe", arguments=given(source=1, tag=10, comm=None))
ASKS_BACK = stack("MPI_Iprobe", arguments=given(source=0, tag=10, comm=None))
RECV, NEXT_RECV = stack("MPI_Recv"), stack("MPI_Recv", fingerprint="beef")


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that two samples saw in the same state."""
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)


def seen(number: int, *stacks: CallStack, has: Sequence[Pending] = ()) -> Rank:
    """Return a rank that was seen in these places, one after the other."""
    made = None
    for each in stacks:
        made = rank(number, *has, stacks=[each], earlier=made)
    assert made is not None
    return made


def the(verdict: Verdict, cause: Cause) -> Finding:
    """Return the one finding of a cause."""
    (found,) = [finding for finding in verdict.findings if finding.cause is cause]
    return found


def by_calls_alone(made: Job) -> Job:
    """Return a job as it is where no library could read its ranks."""
    processes = (
        replace(
            process, samples=tuple(replace(each, snapshot=replace(each.snapshot, calls_only=True)) for each in seen)
        )
        for process in made.processes
        for seen in [process.samples]
    )
    return replace(made, processes=tuple(processes))


def receiving(number: int, source: int, **facts: Any) -> Rank:
    """Return a rank in MPI_Recv of which no queue can be seen."""
    arguments = given(source=source, tag=10, comm=HALO)
    return still(number, call="MPI_Recv", arguments=arguments, member_of=[HALO], **HIDDEN, **facts)


def test_a_call_whose_queue_is_hidden_waits_for_its_peer() -> None:
    """With tag and communicator, marked as known from the call; that is suspected, since data may move unseen."""
    verdict = conclude(job(receiving(0, 1), receiving(1, 0)))
    assert verdict.outcome is Outcome.SUSPECTED
    assert the(verdict, Cause.CYCLE).processes == (0, 1)
    assert [(each.peers, each.tag, each.communicator, each.from_call) for each in verdict.waits] == [
        ((1,), 10, "halo exchange", True),
        ((0,), 10, "halo exchange", True),
    ]


def test_a_probe_that_no_queue_has_waits_for_its_source() -> None:
    """Where the messages can be seen, that none is there for it is as sure as of a receive."""
    arguments = given(source=1, tag=10, comm=None)
    verdict = conclude(job(still(0, call="MPI_Probe", arguments=arguments), gone(1)))
    assert verdict.outcome is Outcome.PROVED
    assert the(verdict, Cause.GONE).sentence.startswith("Rank 0 waits in MPI_Probe from rank 1, tag 10")
    there = conclude(job(still(0, unexpected(1, tag=10), call="MPI_Probe", arguments=arguments), gone(1)))
    assert there.outcome is not Outcome.PROVED


def test_a_probe_for_another_tag_is_a_near_miss() -> None:
    """As of a receive."""
    verdict = conclude(
        job(
            still(0, unexpected(1, tag=11), call="MPI_Probe", arguments=given(source=1, tag=10, comm=None)),
            still(1, receive(0, tag=12), call="MPI_Recv"),
        )
    )
    assert the(verdict, Cause.TAG).processes == (0, 1)


def test_a_call_that_asks_again_and_again_waits_for_its_source_between_two_calls_too() -> None:
    """An earlier sample has what the call was given, where the last one finds the rank outside MPI."""
    for stacks in ((IPROBE, IPROBE, stack(None)), (IPROBE, stack(None), IPROBE)):
        asking = seen(0, *stacks, has=[unexpected(1, tag=11)])
        verdict = conclude(job(asking, still(1, receive(0, tag=12), call="MPI_Recv")))
        assert the(verdict, Cause.TAG).processes == (0, 1)
        assert the(verdict, Cause.CYCLE).certainty is Certainty.SUSPECTED


@pytest.mark.parametrize("by", [lambda each: each, by_calls_alone], ids=["with queues", "without"])
@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        ((RECV, RECV), Outcome.SUSPECTED),
        ((ASKS_BACK, ASKS_BACK), Outcome.SUSPECTED),
        ((stack(None), stack(None)), Outcome.NOT_READ),
        ((ASKS_BACK, stack(None), ASKS_BACK), Outcome.NOT_READ),
        ((RECV, NEXT_RECV), Outcome.NOTHING_STUCK),
    ],
    ids=["in one call", "asks too", "outside", "asks now and then", "goes on"],
)
@pytest.mark.parametrize("asks", [IPROBE, stack("MPI_Iprobe")], ids=["one", "anybody"])
def test_who_asks_again_and_again_is_suspected_only_where_all_who_could_answer_stay_in_their_calls(
    asks: CallStack, other: tuple[CallStack, ...], outcome: Outcome, by: Callable[[Job], Job]
) -> None:
    """Else it may have got what it asked for between two samples, and ask for the next."""
    verdict = conclude(by(job(seen(0, *[asks] * len(other)), seen(1, *other))))
    assert verdict.outcome is outcome
    unknown = " of them got what they ask for again and again, isn't known"
    assert (unknown in verdict.headline) == (outcome is Outcome.NOT_READ)


def test_nobody_answers_itself() -> None:
    """That one that waits for anybody is outside MPI now and then is no reason to take it for answered."""
    asks = stack("MPI_Iprobe")
    analysis = Analysis(job(seen(0, asks, stack(None), asks), seen(1, RECV, RECV, RECV)))
    assert (analysis.stuck, analysis.unclear) == ([0, 1], set())


def test_who_stays_in_a_call_for_one_that_asks_again_and_again_is_suspected() -> None:
    """As where that one is outside MPI; of itself nothing is said."""
    verdict = conclude(
        job(seen(0, *[IPROBE] * 2), seen(1, stack(None), stack(None)), still(2, receive(0), call="MPI_Recv"))
    )
    assert [(each.cause, each.processes) for each in verdict.findings if each.certainty is Certainty.SUSPECTED] == [
        (Cause.OUTSIDE, (2, 0))
    ]


def test_what_is_asked_for_again_and_again_is_the_same_where_it_is_numbered() -> None:
    """Whatever those do that could answer."""
    asks = stack("MPI_Test", arguments=(Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(0x11,)),))
    for number, outcome in (((phrases.RECEIVE_NUMBER(7),), Outcome.SUSPECTED), ((), Outcome.NOT_READ)):
        asking = seen(0, asks, asks, has=[receive(1, text=(IRECV, phrases.request(0x11), *number))])
        assert conclude(job(asking, seen(1, stack(None), stack(None)))).outcome is outcome


def test_queue_and_call_that_agree_are_one_wait() -> None:
    """What the call names is what it waits for, whatever else was posted before and after it."""
    operations = (receive(1, tag=3, on=HALO), receive(1, tag=10, on=HALO), receive(ANY, tag=4, on=HALO))
    verdict = conclude(
        job(still(0, *operations, call="MPI_Recv", arguments=given(source=1, tag=10, comm=HALO)), receiving(1, 0))
    )
    (wait,) = [each for each in verdict.waits if each.process == 0]
    assert (wait.tag, wait.length, wait.from_call) == (10, 8, False)
    assert not [finding for finding in verdict.findings if finding.cause is Cause.DISPUTE]


@pytest.mark.parametrize("hides", [False, True])
def test_a_send_whose_receiver_no_queue_has_goes_where_its_call_says(*, hides: bool) -> None:
    """Where other sends may be hidden, the one that is seen may be another one."""
    hidden = {Queue.RECEIVES: phrases.unseen("receives", "made up")} if hides else {}
    sends = send(UNKNOWN, tag=5), send(UNKNOWN, tag=6, text=(ISEND,))
    waiting = still(0, *sends, call="MPI_Ssend", arguments=given(dest=1, tag=5, comm=None), hidden=hidden)
    waits = conclude(job(waiting, still(1, receive(0), call="MPI_Recv"))).waits
    assert [wait.peers for wait in waits if wait.process == 0] == [() if hides else (1,)]


def test_a_rank_that_may_have_gone_on_is_in_no_dispute() -> None:
    """The queue and the call may be of different moments."""
    arguments = given(source=1, tag=10, comm=HALO)
    verdict = conclude(
        job(still(0, receive(1, tag=11, on=HALO), call="MPI_Recv", arguments=arguments, watched=False), gone(1))
    )
    assert Cause.DISPUTE not in {finding.cause for finding in verdict.findings}


def test_a_receive_that_has_its_message_does_not_contradict_a_call_that_asked_for_any() -> None:
    """It has the source and the tag of what came."""
    arguments = given(source=ANY, tag=ANY, comm=HALO)
    got = receive(1, tag=11, on=HALO, status=Status.MATCHED, message=(1, 11, 8))
    verdict = conclude(job(still(0, got, call="MPI_Recv", arguments=arguments), gone(1)))
    assert not [finding for finding in verdict.findings if finding.cause is Cause.DISPUTE]
    other = given(source=1, tag=12, comm=HALO)
    assert the(conclude(job(still(0, got, call="MPI_Recv", arguments=other), gone(1))), Cause.DISPUTE)


def test_queue_and_call_that_differ_are_reported_and_not_believed() -> None:
    """Neither proves anything then."""
    verdict = conclude(
        job(
            still(0, receive(1, tag=11, on=HALO), call="MPI_Recv", arguments=given(source=1, tag=10, comm=HALO)),
            gone(1),
        )
    )
    assert verdict.outcome is not Outcome.PROVED
    finding = the(verdict, Cause.DISPUTE)
    assert finding.certainty is Certainty.NOTED
    assert finding.sentence == (
        "Rank 0 is in MPI_Recv from rank 1, tag 10 on 'halo exchange' by the call's arguments, "
        "but from rank 1, tag 11 on 'halo exchange' by its queue: neither is believed."
    )


def test_a_collective_call_is_on_the_communicator_that_it_was_given() -> None:
    """Where its traffic shows nothing: who is missing on that one is known."""
    rows = communicator("rows", (0, 1))
    arguments = given(comm=rows)
    verdict = conclude(
        job(
            still(0, call="MPI_Barrier", arguments=arguments, member_of=[rows, HALO]),
            still(1, receive(2, tag=1), call="MPI_Recv", member_of=[rows, HALO]),
            still(2, receive(1, tag=1), call="MPI_Recv"),
        )
    )
    (wait,) = [each for each in verdict.waits if each.process == 0]
    assert (wait.communicator, wait.peers, wait.certainty) == ("rows", (1,), Certainty.PROVED)


def _gathering(*roots: int, evidence: ArgumentEvidence = ArgumentEvidence.BOTH) -> Verdict:
    other = (1, 0)
    return conclude(
        job(
            *(
                still(
                    number,
                    collective("MPI_Gather", source=other[number]),
                    call="MPI_Gather",
                    arguments=given(root=root, comm=None, evidence=evidence),
                )
                for number, root in enumerate(roots)
            )
        )
    )


def test_two_roots_of_one_call_are_proved_where_both_sources_have_them() -> None:
    """Whatever the collective; one source alone doesn't prove it, but is reported."""
    verdict = _gathering(0, 1)
    assert verdict.outcome is Outcome.PROVED
    assert the(verdict, Cause.ROOTS).processes == (0, 1)
    told = _gathering(0, 1, evidence=ArgumentEvidence.CALLEE)
    assert told.outcome is Outcome.SUSPECTED
    assert the(told, Cause.KNOT).sentence.endswith(
        "they disagree about its arguments: rank 0 has root 0, rank 1 has root 1."
    )
    assert _gathering(0, 0).outcome is not Outcome.PROVED
    on_the_roots_side = _gathering(0, -3, evidence=ArgumentEvidence.CALLEE)
    assert the(on_the_roots_side, Cause.KNOT).sentence.endswith("nothing moves.")


def test_arguments_of_a_collective_that_differ_are_named_where_nothing_moves() -> None:
    """Count, datatype and operation: what the standard wants to be the same on all ranks."""
    ranks = [
        still(
            number,
            collective("MPI_Allreduce", source=1 - number),
            call="MPI_Allreduce",
            arguments=given(count=count, op=0x58000003, comm=None),
        )
        for number, count in enumerate((4, 8))
    ]
    verdict = conclude(job(*ranks))
    assert verdict.outcome is Outcome.SUSPECTED
    assert the(verdict, Cause.KNOT).sentence == (
        "Ranks [0-1] are all in MPI_Allreduce on MPI_COMM_WORLD in both samples: nobody is missing, but nothing moves; "
        "they disagree about its arguments: rank 0 has count 4, rank 1 has count 8."
    )


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (given(comm=None), " on MPI_COMM_WORLD in both samples: nobody is missing, but"),
        (
            (Argument("comm", 0x84000007, ArgumentEvidence.BOTH),),
            " in both samples, on what communicators can't be determined, and",
        ),
        ((), " in both samples, on what communicators can't be determined, and"),
    ],
    ids=["the world", "another one", "unknown"],
)
def test_by_calls_alone_a_collective_is_on_the_communicator_of_its_argument(
    arguments: tuple[Argument, ...], where: str
) -> None:
    """MPI_COMM_WORLD is the only one that is listed, and none is taken to be it for that."""
    made = job(*(still(number, call="MPI_Barrier", arguments=arguments, **HIDDEN) for number in range(2)))
    assert the(conclude(by_calls_alone(made)), Cause.KNOT).sentence == (
        f"Ranks [0-1] are all in MPI_Barrier{where} nothing moves."
    )


def test_arguments_that_differ_are_named_where_others_have_gone_on() -> None:
    """Of MPI_Bcast the count, if all have one datatype: then it is the amount of data."""

    def broadcasting(*datatypes: int) -> str:
        ranks = [
            still(
                number,
                collective("MPI_Bcast", source=number + 1),
                call="MPI_Bcast",
                arguments=(
                    *given(count=count, comm=None),
                    Argument("datatype", datatype, ArgumentEvidence.BOTH, called=f"MPI_{datatype}"),
                ),
            )
            for number, (count, datatype) in enumerate(zip((4, 8), datatypes, strict=True))
        ]
        gone_on = still(2, collective("MPI_Barrier", source=0), call="MPI_Barrier", arguments=given(comm=None))
        return the(conclude(job(*ranks, gone_on)), Cause.COLLECTIVE_ORDER).sentence

    assert broadcasting(1, 1).endswith(
        "Ranks [0-1] disagree about the arguments of MPI_Bcast: rank 0 has count 4, rank 1 has count 8."
    )
    assert "disagree" not in broadcasting(1, 2)


def test_of_a_sendrecv_the_queues_show_which_half_is_missing() -> None:
    """One half may be done: what no queue shows isn't waited for, although the call names it."""
    arguments = given(dest=1, sendtag=3, source=1, recvtag=4, comm=HALO)
    verdict = conclude(
        job(
            still(0, receive(1, tag=4, on=HALO), call="MPI_Sendrecv", arguments=arguments, member_of=[HALO]),
            receiving(1, 0),
        )
    )
    assert [(each.kind, each.tag) for each in verdict.waits if each.process == 0] == [(WaitKind.RECEIVE, 4)]


def test_a_wait_is_for_the_requests_that_it_was_given() -> None:
    """And for no other that is pending: what a call for one of several waits for is known, and proved."""
    first, other = (
        receive(source, tag=tag, text=(IRECV, phrases.request(number)))
        for source, tag, number in ((1, 14, 0x11), (2, 15, 0x22))
    )
    arguments = (Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(0x11,)),)
    verdict = conclude(
        job(
            still(0, first, other, call="MPI_Wait", arguments=arguments),
            still(1, receive(0, tag=14), call="MPI_Recv"),
            still(2),
        )
    )
    assert verdict.outcome is Outcome.PROVED
    assert [(each.tag, each.peers) for each in verdict.waits if each.process == 0] == [(14, (1,))]
    unknown = (arguments[0]._replace(elements=(0x11, 0x33)),)
    verdict = conclude(job(still(0, first, other, call="MPI_Waitall", arguments=unknown), still(1), still(2)))
    assert len([each for each in verdict.waits if each.process == 0]) == 2


@pytest.mark.parametrize(
    ("call", "handles", "certainty"),
    [
        ("MPI_Wait", (0x33,), Certainty.SUSPECTED),
        ("MPI_Waitany", (0x11, 0x33), Certainty.SUSPECTED),
        ("MPI_Waitall", (0x11, 0x33), Certainty.PROVED),
    ],
)
def test_a_request_that_no_queue_has_may_end(call: str, handles: tuple[int, ...], certainty: Certainty) -> None:
    """It is a file's, a window's or a generalized one: never another that happens to be pending.

    Where all have to end it is enough that one of the others can't.
    """
    pending = receive(1, text=(IRECV, phrases.request(0x11)))
    arguments = (Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=handles),)
    verdict = conclude(
        job(still(0, pending, call=call, arguments=arguments), still(1, receive(0, tag=3), call="MPI_Recv"))
    )
    (found,) = [each for each in verdict.findings if each.cause in (Cause.CYCLE, Cause.KNOT)]
    assert found.certainty is certainty
    if certainty is Certainty.SUSPECTED:
        assert found.advice.endswith(f"What rank 0 waits for in {call} is in no queue: it may end.")


def test_a_request_that_open_mpi_marks_is_not_all_that_a_call_waits_for() -> None:
    """MPI_Waitany needs one of two: the one that is marked, or the one that no queue has."""
    pending = receive(1, text=(IRECV, phrases.request(0x11, in_wait=True, needs=1)))
    arguments = (Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(0x11, 0x33)),)
    first = still(0, pending, call="MPI_Waitany", arguments=arguments)
    verdict = conclude(job(first, still(1, receive(0, tag=3), call="MPI_Recv")))
    assert verdict.outcome is Outcome.SUSPECTED


def test_the_call_is_written_as_a_person_would() -> None:
    """Constants by name, communicators by theirs, what isn't known as a question mark."""
    arguments = (
        Argument("buf", 0x7F10, ArgumentEvidence.BOTH),
        Argument("datatype", 0x4C00080B, ArgumentEvidence.CALLEE, called="MPI_DOUBLE"),
        *given(source=ANY, tag=10, comm=HALO),
    )
    process = job(rank(0, call="MPI_Recv", arguments=arguments, member_of=[HALO])).processes[0]
    (sample,) = process.samples
    assert not isinstance(sample.stacks, Hidden)
    assert written(sample.stacks[0], sample.snapshot.communicators) == (
        "MPI_Recv(buf=0x7f10, count=?, MPI_DOUBLE, source=MPI_ANY_SOURCE, tag=10, comm='halo exchange', status=?)"
    )


def test_of_two_threads_each_waits_for_the_requests_that_it_was_given() -> None:
    """One whose request is in no queue isn't taken to wait for the other's; nor for one that nobody waits for."""
    sources = {0x11: 1, 0x22: 1, 0x44: 2}
    pending = [receive(each, text=(IRECV, phrases.request(number))) for number, each in sources.items()]

    def waiting(*handles: int) -> Rank:
        given_to = (Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(each,)) for each in handles)
        stacks = [replace(stack("MPI_Wait", arguments=(each,)), thread=number) for number, each in enumerate(given_to)]
        return rank(0, *pending, stacks=stacks, earlier=rank(0, *pending, stacks=stacks))

    other = still(1, receive(0, tag=15), call="MPI_Recv")
    assert conclude(job(waiting(0x11, 0x33), other, still(2))).outcome is Outcome.SUSPECTED
    assert conclude(job(waiting(0x11, 0x22), other, still(2))).outcome is Outcome.PROVED


def test_a_probe_is_no_request_that_a_wait_may_be_for() -> None:
    """One thread waits for a request that no queue has, another one in MPI_Probe."""
    request = Argument("request", 0x7FFC0000, ArgumentEvidence.BOTH, elements=(0x33,))
    stacks = [
        stack("MPI_Wait", arguments=(request,)),
        replace(stack("MPI_Probe", arguments=given(source=1, tag=10, comm=None)), thread=2),
    ]
    waiting = rank(0, stacks=stacks, earlier=rank(0, stacks=stacks))
    assert conclude(job(waiting, still(1, receive(0, tag=15), call="MPI_Recv"))).outcome is Outcome.SUSPECTED
