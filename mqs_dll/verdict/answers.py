"""Who asks for something again and again, and may have got it between two samples, and asked for the next.

Two samples show a question, not that it is the same one. It is where it is numbered, or where nobody was in a position
to answer: all who could stay in their calls, or are in the same question of their own all the while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from mqs_dll.verdict.graph import AndOrGraph
from mqs_dll.verdict.needs import EVERYBODY
from mqs_dll.verdict.progress import Motion
from mqs_dll.verdict.states import ProcessWait, State


def may_be_answered(
    waits: Sequence[ProcessWait], motions: Sequence[Motion], is_counted: Callable[[int], bool]
) -> set[int]:
    """Return the processes that poll, and may have been answered, in the least fixpoint: nobody is without a cause.

    Args:
        waits: of all processes.
        motions: of all processes, between their last two samples.
        is_counted: whether what a process asks for has a number of its own.
    """
    asking = [process for process, wait in enumerate(waits) if wait.state is State.POLLS and not is_counted(process)]
    if not asking:
        return set()
    graph = AndOrGraph(len(waits))  # who may have answered others
    free = {process for process, wait in enumerate(waits) if not _stays(wait, motions[process])}
    members: dict[tuple[int | None, ...], Collection[int]] = {EVERYBODY: range(len(waits))}
    groups: dict[tuple[tuple[int | None, ...], int], int] = {}
    answered = {}
    for process in asking:
        nodes = []
        for peers in {need.peers for thread in waits[process].threads for need in thread.needs}:
            if peers not in members:
                members[peers] = frozenset(each for each in peers if each is not None)
            count = 2 if process in free and process in members[peers] else 1  # by another one than itself
            if (peers, count) not in groups:
                groups[peers, count] = graph.add(count, members[peers])
            nodes.append(groups[peers, count])
        answered[process] = graph.add(1, nodes)
        graph.set(process, 1, [answered[process]])
    live = graph.fixpoint(free)
    return {process for process in asking if live[answered[process]]}


def _stays(wait: ProcessWait, motion: Motion) -> bool:
    """Return whether a process was in the same call in both samples, or can't go on in any case."""
    stays = bool(wait.threads) and not wait.free_thread and motion is Motion.SAME
    return stays or wait.state in (State.STOPPED, State.GONE)
