"""Verdicts on one-sided calls: whom they wait for, as far as the windows tell, and what is proved by that."""

from __future__ import annotations

from typing import Any

import pytest

from mqs_dll.contract.abi import Window
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Certainty, Outcome, Verdict, WaitKind
from tests.support.made_up_job import ANY, Pending, Rank, collective, given, inter, job, rank, receive

RANKS = (0, 1, 2)
NOTHING: dict[str, Any] = {"started": (), "posted": (), "locked": ()}
"""What a process says of a window on which it has no epoch."""


def window(name: bytes = b"table", communicator: int = 7, **said: Any) -> Window:
    """Return a window of three processes; without words on epochs nothing is known of them."""
    return Window(name, len(RANKS), 0x5555_0000, communicator, RANKS, **said)


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that two samples saw in the same state."""
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)


def locking(*windows: Window) -> Rank:
    """Return rank 1 in MPI_Win_lock."""
    return still(1, call="MPI_Win_lock", windows=windows)


def receiving(*windows: Window, number: int = 0, source: int = 1) -> Rank:
    """Return a rank that waits for another's message."""
    return still(number, receive(source, tag=1), call="MPI_Recv", windows=windows)


def sentences(verdict: Verdict) -> list[str]:
    """Return the findings' sentences."""
    return [finding.sentence for finding in verdict.findings]


def test_a_lock_is_waited_for_by_its_holder() -> None:
    """Its window, its target and who holds it are reported, and the circle is proved; the graph has the window too."""
    verdict = conclude(
        job(
            receiving(window(**NOTHING | {"locked": (2,)})),
            locking(window(**NOTHING)),
            receiving(window(**NOTHING), number=2),
        )
    )
    assert verdict.outcome is Outcome.PROVED
    assert sentences(verdict)[0] == (
        "Rank 0 waits in MPI_Recv from rank 1, tag 1 on MPI_COMM_WORLD; rank 1 in MPI_Win_lock of rank 2 on window "
        "'table', whose lock rank 0 holds: each waits for the other."
    )
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.kind, wait.window, wait.peers, wait.certainty) == (
        WaitKind.CALL, "window 'table'", (0,), Certainty.PROVED
    )  # fmt: skip


def test_the_holder_of_another_ranks_part_is_not_accused_if_a_queue_is_known() -> None:
    """MPICH keeps at the target who waits there: rank 0's lock is rank 2's part, and rank 1 wants rank 0's."""
    holds = window(**NOTHING | {"locked": (2,), "queued": (1,)})
    other = still(2, call="MPI_Win_unlock", windows=[window(**NOTHING | {"locked": (0,)})])
    verdict = conclude(job(receiving(holds), locking(window(**NOTHING)), other))
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert wait.peers == (2,)


@pytest.mark.parametrize("said", [{}, {"locked": None}])
def test_where_the_holder_of_a_lock_is_unknown_any_other_rank_may_be_it(said: dict[str, Any]) -> None:
    """That all of them are stuck proves it all the same."""
    silent = window(**said)
    verdict = conclude(job(receiving(silent), locking(silent), receiving(silent, number=2)))
    assert verdict.outcome is Outcome.PROVED
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.peers, wait.any_source, wait.window) == ((0, 2), True, "window 'table'")


def test_a_rank_outside_mpi_may_have_to_pass_a_lock_on() -> None:
    """Then nothing is proved: it may be the target, which has not looked yet."""
    outside = still(2, windows=[window(**NOTHING)])
    verdict = conclude(job(receiving(window(**NOTHING | {"locked": (2,)})), locking(window(**NOTHING)), outside))
    assert verdict.outcome is Outcome.SUSPECTED


def test_of_several_windows_none_is_named() -> None:
    """Where it isn't known which one the call is on: only who might end it on any of them is known."""
    both = window(b"one", 7), window(b"two", 8)
    verdict = conclude(job(receiving(*both), locking(*both), receiving(*both, number=2)))
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.window, wait.peers) == (None, (0, 2))
    free = window(b"two", 8, **NOTHING)
    mine, held = window(**NOTHING), window(**NOTHING | {"locked": (1,)})
    verdict = conclude(job(receiving(free, held), locking(free, mine), receiving(free, mine, number=2)))
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.window, wait.peers) == ("window 'table'", (0,))


def test_who_is_in_the_queue_of_one_window_waits_for_no_lock_of_another() -> None:
    """MPICH keeps at the target who waits there: who holds the other window's lock has nothing to do with it."""
    other = window(b"other", 8, **NOTHING | {"locked": (1,)})
    holds = window(**NOTHING | {"locked": (2,)})
    target = window(**NOTHING | {"queued": (1,)})
    mine = window(**NOTHING)
    verdict = conclude(job(receiving(holds, other), locking(mine, other), receiving(target, other, number=2)))
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.window, wait.peers) == ("window 'table'", (0,))


def test_windows_that_differ_in_nothing_are_distinguished_by_their_order() -> None:
    """All processes make them in one order: who holds the lock of one has no lock of the other."""
    free, held, mine = window(b"two", **NOTHING), window(**NOTHING | {"locked": (1,)}), window(**NOTHING)
    for holder, others in (((held, free), (mine, free)), ((free, held), (free, mine))):
        verdict = conclude(job(receiving(*holder), locking(*others), receiving(*others, number=2)))
        (wait,) = [wait for wait in verdict.waits if wait.process == 1]
        assert (wait.window, wait.peers) == ("window 'table'", (0,))


def test_a_handle_that_two_windows_have_names_neither() -> None:
    """One of them is a leftover; which one can't be determined."""
    both = (window(b"one", 7, handle=0xA0000000), window(b"two", 8, handle=0xA0000000))
    calls = still(1, call="MPI_Win_lock", arguments=given(rank=2, win=0xA0000000), windows=both)
    verdict = conclude(job(receiving(*both), calls, receiving(*both, number=2)))
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.window, wait.peers) == (None, (0, 2))


def test_a_wait_for_who_knows_whom_is_not_proved_by_one_who_has_started() -> None:
    """Where it isn't known whom it has posted for, one that has started may do so for a later epoch."""
    verdict = conclude(
        job(
            receiving(window(**NOTHING | {"started": (1,)}), source=1),
            still(1, call="MPI_Win_wait", windows=[window(started=(), locked=())]),
            still(2, windows=[window(**NOTHING)]),
        )
    )
    assert verdict.outcome is not Outcome.PROVED


def test_without_windows_nothing_is_known_of_a_one_sided_call() -> None:
    """As of a job that was saved before windows were read: it is suspected at most, and everything may be meant."""
    verdict = conclude(job(receiving(), still(1, call="MPI_Win_lock"), receiving(number=2)))
    assert verdict.outcome is Outcome.SUSPECTED
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.window, wait.peers) == (None, ())


def test_a_start_waits_for_those_of_its_group_who_have_not_posted() -> None:
    """Rank 1 has; rank 2 is named. Rank 1's own wait can't end before rank 0 completes."""
    verdict = conclude(
        job(
            still(0, call="MPI_Win_start", windows=[window(**NOTHING | {"started": (1, 2)})]),
            still(1, call="MPI_Win_wait", windows=[window(**NOTHING | {"posted": (0,)})]),
            receiving(window(**NOTHING), number=2, source=0),
        )
    )
    assert sentences(verdict) == [
        "Rank 0 waits in MPI_Win_start on window 'table', for MPI_Win_post of rank 2; rank 2 in MPI_Recv from rank 0, "
        "tag 1 on MPI_COMM_WORLD: each waits for the other.",
        "Rank 1 waits behind them, in MPI_Win_wait on window 'table', for MPI_Win_complete of rank 0 at solver.c:42.",
    ]
    assert verdict.outcome is Outcome.PROVED


def test_a_start_of_which_all_have_posted_ends_by_itself() -> None:
    """What was posted is under way."""
    verdict = conclude(
        job(
            still(0, call="MPI_Win_start", windows=[window(**NOTHING | {"started": (1,)})]),
            still(1, receive(0), call="MPI_Recv", windows=[window(**NOTHING | {"posted": (0,)})]),
            still(2, windows=[window(**NOTHING)]),
        )
    )
    assert verdict.outcome is not Outcome.PROVED


def test_data_may_be_under_way_to_one_who_waits_for_its_arrival() -> None:
    """Whoever has started and completed may have left: that all others are stuck doesn't prove MPI_Win_wait is."""
    verdict = conclude(
        job(
            receiving(window(**NOTHING), source=1),
            still(1, call="MPI_Win_wait", windows=[window(**NOTHING | {"posted": (0,)})]),
            receiving(window(**NOTHING), number=2),
        )
    )
    assert verdict.outcome is Outcome.SUSPECTED


@pytest.mark.parametrize("call", ["MPI_Win_unlock", "MPI_Win_flush_all", "MPI_Win_complete"])
def test_moving_data_needs_nobody_who_is_in_mpi(call: str) -> None:
    """It is not called stuck because its target waits for it; one outside MPI may be what it waits for."""
    moves = still(1, call=call, windows=[window(**NOTHING | {"locked": (0,), "started": (0,)})])
    idle = still(2, windows=[window(**NOTHING)])
    assert conclude(job(receiving(window(**NOTHING)), moves, idle)).outcome is Outcome.NOTHING_STUCK
    away = still(0, windows=[window(**NOTHING)], where="solver.c:7")
    (finding,) = conclude(job(away, moves, idle)).findings
    assert finding.cause is Cause.OUTSIDE
    assert finding.sentence.startswith(
        f"Rank 1 waits in {call} on window 'table', but rank 0 is outside MPI in exchange"
    )


AWAY: dict[str, Any] = {"where": "solver.c:7", "windows": [window(**NOTHING)]}
"""A rank outside MPI."""


def test_a_lock_waits_for_its_target_to_grant_it() -> None:
    """Nobody holds it, and the target is outside MPI; one that is in MPI grants it by itself."""
    locks = still(1, call="MPI_Win_lock", arguments=given(rank=2, win=0xA), windows=[window(**NOTHING, handle=0xA)])
    (finding,) = conclude(job(still(0, **AWAY), locks, still(2, **AWAY))).findings
    assert (finding.cause, finding.processes) == (Cause.OUTSIDE, (1, 2))
    serving = receiving(window(**NOTHING), number=2, source=0)
    (wait, *_) = [wait for wait in conclude(job(still(0, **AWAY), locks, serving)).waits if wait.process == 1]
    assert wait.peers == ()


@pytest.mark.parametrize("call", ["MPI_Put", "MPI_Get", "MPI_Accumulate_c", "MPI_Rget", "MPI_Win_flush"])
def test_data_waits_for_its_target_alone(call: str) -> None:
    """Who else is outside MPI has nothing to do with it; that the target's MPI may have to move it is said."""
    mine = window(**NOTHING | {"locked": RANKS}, handle=0xA)
    target = given(rank=2, win=0xA) if call == "MPI_Win_flush" else given(target_rank=2, win=0xA)
    moves = still(1, call=call, arguments=target, windows=[mine])
    (finding,) = conclude(job(still(0, **AWAY), moves, still(2, **AWAY))).findings
    assert (finding.cause, finding.processes) == (Cause.OUTSIDE, (1, 2))
    assert "while the target calls MPI" in finding.advice


def test_a_call_that_asks_for_data_in_a_loop_is_not_accused() -> None:
    """Where nobody could watch it, it may have returned, and been made again."""
    facts: dict[str, Any] = {"call": "MPI_Put", "windows": [window(**NOTHING | {"locked": (0,)})], "watched": False}
    assert conclude(job(still(0, **AWAY), still(1, **facts), still(2))).outcome is Outcome.NOTHING_STUCK


def test_a_wait_for_a_request_in_no_queue_may_be_for_a_target_outside_mpi() -> None:
    """MPI_Rget's is in none, and its rank holds a lock; without one it isn't MPI_Rget's."""
    request = given(request=0x10)[0]._replace(elements=(0x77,))
    waiting, others = {"call": "MPI_Wait", "arguments": [request]}, (still(0, **AWAY), still(2, **AWAY))
    waits = still(1, **waiting, windows=[window(**NOTHING | {"locked": (2,)})])
    (finding,) = [each for each in conclude(job(others[0], waits, others[1])).findings if each.cause is Cause.OUTSIDE]
    assert finding.sentence.startswith(
        "Rank 1 waits in MPI_Wait for a request that is in no queue, perhaps of MPI_Rget or the like on window 'table'"
    )
    assert "it may end" in finding.advice
    unlocked = still(1, **waiting, windows=[window(**NOTHING)])
    assert Cause.OUTSIDE not in [each.cause for each in conclude(job(others[0], unlocked, others[1])).findings]


@pytest.mark.parametrize("watched", [True, False])
def test_where_locks_are_taken_with_the_data_a_circle_of_them_is_suspected(watched: bool) -> None:
    """osc/pt2pt doesn't say who holds what: two ranks that stand in MPI_Win_unlock of each other's part."""
    both = [
        still(
            number, call="MPI_Win_unlock", arguments=given(rank=1 - number, win=0xA), watched=watched,
            windows=[Window(b"table", 2, 0, 7, (0, 1), handle=0xA)],
        )
        for number in range(2)
    ]  # fmt: skip
    verdict = conclude(job(*both))
    assert [finding.cause for finding in verdict.findings] == ([Cause.CYCLE] if watched else [])
    assert verdict.outcome is (Outcome.SUSPECTED if watched else Outcome.NOTHING_STUCK)
    assert all("same order" in finding.advice for finding in verdict.findings)


def test_who_left_an_epoch_open_comes_before_the_barrier_that_it_went_into() -> None:
    """The rank in MPI_Win_wait isn't in the barrier, but the other one left out MPI_Win_complete."""
    verdict = conclude(
        job(
            still(0, call="MPI_Win_wait", windows=[window(**NOTHING | {"posted": (1,)})]),
            still(1, collective("MPI_Barrier", source=0), call="MPI_Barrier", windows=[
                window(**NOTHING | {"started": (0,)})
            ]),
            still(2, **AWAY),
        )
    )  # fmt: skip
    assert verdict.findings[0].cause is Cause.EPOCH
    assert verdict.findings[0].sentence == (
        "Rank 0 waits in MPI_Win_wait on window 'table', for MPI_Win_complete of rank 1; rank 1 went without that into "
        "MPI_Barrier on MPI_COMM_WORLD at solver.c:42."
    )


def test_a_stack_may_show_the_posts_of_a_start_that_are_unknown_otherwise() -> None:
    """Who waits for completion has posted: that is likely, and no proof."""
    verdict = conclude(
        job(
            still(0, call="MPI_Win_start", windows=[window()]),
            still(1, call="MPI_Win_wait", windows=[window()]),
            receiving(window(), number=2, source=0),
        )
    )
    assert verdict.outcome is Outcome.SUSPECTED
    assert sentences(verdict)[0].startswith(
        "Rank 0 waits in MPI_Win_start on window 'table', for MPI_Win_post of rank 2;"
    )


@pytest.mark.parametrize(("starter", "receiver"), [(0, 3), (3, 0)])
def test_who_needs_any_of_some_ranks_is_not_taken_for_one_who_needs_all_of_them(starter: int, receiver: int) -> None:
    """Rank 1 computes: that helps a receive from whomever, not MPI_Win_start, which rank 2 keeps from ending."""
    group = (1, 2)
    members = tuple(sorted((*group, starter)))
    started, posted = (Window(b"table", 3, 0, 7, members, **NOTHING | {"started": each}) for each in (group, ()))
    others = inter("others", (receiver,), group)
    ranks = {
        starter: still(starter, call="MPI_Win_start", windows=[started]),
        1: still(1, where="solver.c:7", windows=[posted]),
        2: still(2, receive(starter), call="MPI_Recv", windows=[posted]),
        receiver: still(receiver, receive(ANY, on=others), call="MPI_Recv", windows=[]),
    }
    verdict = conclude(job(*(ranks[number] for number in range(4)), communicators=[others]))
    waits = {wait.process: (wait.peers, wait.certainty) for wait in verdict.waits}
    assert waits == {
        starter: (group, Certainty.PROVED),
        2: ((starter,), Certainty.PROVED),
        receiver: (group, Certainty.SUSPECTED),
    }


def test_the_call_names_its_window_and_its_target() -> None:
    """Of two windows that it may be on, and whatever else the holder has locked."""
    held, free = window(handle=0xA0000000), window(b"other", 8, **NOTHING | {"handle": 0xA0000001})
    verdict = conclude(
        job(
            receiving(held._replace(locked=(0, 2), started=(), posted=()), free),
            still(
                1,
                call="MPI_Win_lock",
                arguments=given(rank=2, win=0xA0000000),
                windows=(held._replace(locked=(), started=(), posted=()), free),
            ),
            receiving(held._replace(locked=(), started=(), posted=()), free, number=2),
        )
    )
    assert verdict.outcome is Outcome.PROVED
    assert verdict.findings[0].processes == (0, 1)
    assert [(each.window, each.peers) for each in verdict.waits if each.process == 1] == [("window 'table'", (0,))]


def test_a_lock_that_is_held_does_not_wait_for_its_target() -> None:
    """Rank 2's MPI may do nothing for it, but rank 0 holds the lock of its part: that is what keeps rank 1."""
    target = still(2, call=None, windows=[window(**NOTHING | {"queued": (1,)})])
    verdict = conclude(job(receiving(window(**NOTHING | {"locked": (2,)})), locking(window(**NOTHING)), target))
    (wait,) = [wait for wait in verdict.waits if wait.process == 1]
    assert (wait.peers, wait.certainty) == ((0,), Certainty.PROVED)
