"""Random schedules: any thread that can acts, any message arrives once its receiver is in MPI (progress, 3.5)."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeAlias

from tests.support.simulator.matching import deliver
from tests.support.simulator.running import Mpi, act, is_in_mpi, may_act
from tests.support.simulator.state import State, Thread

Move: TypeAlias = Callable[[], None]

MAX_MOVES = 2000
"""Until a job that isn't at rest counts as one that never is."""


def run(state: State, mpi: Mpi, numbers: random.Random, moves: int, frozen: Collection[int] = ()) -> None:
    """Let a job run for so many moves, or until it can't; ranks that are frozen don't."""
    for _ in range(moves):
        found = [*_actions(state, mpi, frozen), *_events(state, mpi, frozen)]
        if not found:
            return
        numbers.choice(found)()


def run_to_rest(state: State, mpi: Mpi, numbers: random.Random) -> bool:
    """Let a job run until it only polls, if that; return whether it came to that."""
    for _ in range(MAX_MOVES):
        found = [*_actions(state, mpi, (), idle=False), *_events(state, mpi, ())]
        if not found:
            return True
        numbers.choice(found)()
    return False


def give_time(state: State, mpi: Mpi, numbers: random.Random, turns: int) -> None:
    """Give each thread so many turns, in any order, and let arrive what can between them; files take longer."""
    order = [*range(len(state.threads))] * turns
    numbers.shuffle(order)
    for place in order:
        _let_arrive(state, numbers)
        if may_act(state, state.threads[place]):
            act(state, place, mpi)
    _let_arrive(state, numbers)


def _let_arrive(state: State, numbers: random.Random) -> None:
    while arrivals := _arrivals(state, ()):
        numbers.choice(arrivals)()


def _actions(state: State, mpi: Mpi, frozen: Collection[int], *, idle: bool = True) -> list[Move]:
    return [
        partial(act, state, place, mpi)
        for place, thread in enumerate(state.threads)
        if thread.rank not in frozen and may_act(state, thread) and (idle or not asks_in_vain(state, thread))
    ]


def _events(state: State, mpi: Mpi, frozen: Collection[int]) -> list[Move]:
    """Return what happens by itself: messages arrive, a file's operation ends."""
    ending = (
        number
        for number in state.hidden.values()
        if state.requests[number].ends_itself and number not in state.complete and not mpi.has_slow_files
    )
    return [*_arrivals(state, frozen), *(partial(_end, state, number) for number in ending)]


def _arrivals(state: State, frozen: Collection[int]) -> list[Move]:
    return [
        partial(deliver, state, way)
        for way, messages in state.under_way.items()
        if messages and not messages[0].is_slow and way[1] not in frozen and any(map(is_in_mpi, state.of(way[1])))
    ]


def _end(state: State, number: int) -> None:
    state.complete |= {number}


def asks_in_vain(state: State, thread: Thread) -> bool:
    """Return whether a thread asks forever for what hasn't happened."""
    call = thread.call
    return call is not None and call.tries == 0 and not state.is_over(call)
