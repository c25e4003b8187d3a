"""Which ranks some continuation lets go on, by trying all of them.

A rank goes on as soon as one of its threads has left its call, or may do anything: it computes, is in a callback, or
polls, which it may give up. What a rank does then is not known, so that it may do anything: it sends and receives
whatever others wait for, makes their collective calls with them, and completes its generalized requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.simulator.matching import deliver
from tests.support.simulator.programs import ANY
from tests.support.simulator.running import Mpi, next_phase
from tests.support.simulator.state import Kind, Request, State, Thread

MAX_MOMENTS = 3000
"""That are tried of one job."""


class TooManyError(Exception):
    """More moments than can be tried."""


@dataclass
class _Moment:
    state: State
    free: set[int]
    """Ranks that have gone on."""

    def key(self) -> object:
        state = self.state
        return (
            frozenset(self.free),
            state.complete,
            state.waiting,
            tuple((way, len(messages)) for way, messages in sorted(state.under_way.items()) if messages),
            tuple((rank, tuple(each.send for each in found)) for rank, found in sorted(state.unexpected.items())),
        )


def can_go_on(state: State, mpi: Mpi) -> set[int]:
    """Return those ranks; raise TooManyError where that would take too long."""
    found: set[int] = set()
    seen: set[object] = set()
    todo = [_Moment(state.copy(), set())]
    while todo:
        moment = todo.pop()
        _settle(moment, mpi)
        key = moment.key()
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > MAX_MOMENTS:
            raise TooManyError
        found |= moment.free
        if found == {*state.ranks}:
            break
        todo += _choices(moment)
    return found


def is_over(state: State) -> bool:
    """Return whether all ranks are in MPI_Finalize, or have ended."""
    return all(thread.has_ended or (thread.call is not None and thread.call.is_end) for thread in state.threads)


def _may_act(state: State, thread: Thread) -> bool:
    call = thread.call
    if thread.has_ended or (call is not None and call.is_end):
        return False
    if call is None or call.in_callback or call.tries is not None:
        return True
    return state.is_over(call) and (not call.phases or call.phases[0].turns > 0)


def _settle(moment: _Moment, mpi: Mpi) -> None:
    """Let happen what is in nobody's way, whatever else happens."""
    state = moment.state
    before = None
    while before != (now := (moment.key(), *(thread.call for thread in state.threads))):
        before = now
        moment.free |= {thread.rank for thread in state.threads if _may_act(state, thread)}
        _go_on_in_calls(state, mpi)
        for number in state.waiting:
            request = state.requests[number]
            if request.peer in moment.free and _all_may_enter(moment, request):
                _end_receive(state, number)
        state.complete |= {number for number, each in state.requests.items() if _ends(each, moment.free)}
        for way in [way for way, messages in state.under_way.items() if messages]:
            if way[1] in moment.free:
                state.under_way[way] = ()
            elif not _has_choice(state, way[1]):
                deliver(state, way)


def _go_on_in_calls(state: State, mpi: Mpi) -> None:
    for place, thread in enumerate(state.threads):
        call = thread.call
        if call is not None and call.phases and not call.in_callback and state.is_over(call):
            state.threads[place] = Thread(
                thread.rank, thread.number, thread.program, thread.at, call=next_phase(state, thread, call, mpi)
            )


def _all_may_enter(moment: _Moment, request: Request) -> bool:
    """Return whether the collective call that a receive is a piece of is one that all have made, or may make.

    Who has made as many calls on the communicator has made that one, or another one in its place, and never will.
    """
    if not request.entry or request.comm is None:
        return True
    made = {rank: moment.state.entered.get((rank, request.comm), ()) for rank in request.comm.members}
    call = made[request.rank][request.entry - 1]
    return all(
        made[rank][request.entry - 1] == call if len(made[rank]) >= request.entry else rank in moment.free
        for rank in request.comm.members
    )


def _ends(request: Request, free: set[int]) -> bool:
    if request.kind is Kind.UNSEEN:
        return request.ends_itself or request.rank in free
    return request.kind is Kind.SEND and request.peer in free


def _end_receive(state: State, number: int) -> None:
    state.complete |= {number}
    state.waiting = tuple(each for each in state.waiting if each != number)


def _has_choice(state: State, rank: int) -> bool:
    """Return whether it matters which message arrives at a rank first: a receive there has any source."""
    waiting = (state.requests[number] for number in state.waiting)
    return any(each.rank == rank and each.peer == ANY and each.kind is Kind.RECEIVE for each in waiting)


def _choices(moment: _Moment) -> Iterator[_Moment]:
    """Yield what may happen next where it matters what comes first."""
    state = moment.state
    for way in [way for way, messages in state.under_way.items() if messages]:
        after = _Moment(state.copy(), {*moment.free})
        deliver(after.state, way)
        yield after
    for number in state.waiting:
        request = state.requests[number]
        if request.peer == ANY and request.comm is not None and moment.free.intersection(request.comm.members):
            after = _Moment(state.copy(), {*moment.free})
            _end_receive(after.state, number)
            yield after
