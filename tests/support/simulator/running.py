"""One turn of a thread, in and outside of MPI; threads of one rank may all call it (MPI_THREAD_MULTIPLE, 11.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.support.simulator.collectives import ENDS_WHEN_ALL_HAVE_ENTERED, TAGS, phases_of
from tests.support.simulator.matching import post
from tests.support.simulator.programs import (
    Act,
    Collective,
    Complete,
    Compute,
    Enter,
    Finalize,
    Join,
    Leave,
    Probe,
    Receive,
    Send,
    Start,
    Wait,
)
from tests.support.simulator.state import Call, Kind, Phase, Request, State, Thread

_WAITS = {False: ("MPI_Wait", "MPI_Waitall", "MPI_Waitany"), True: ("MPI_Test", "MPI_Testall", "MPI_Testany")}


@dataclass(frozen=True)
class Mpi:
    """What an MPI has chosen for a job."""

    algorithm: int = 0
    """Of collective calls."""
    slow: frozenset[tuple[int, int]] = frozenset()
    """Senders and receivers whose messages stay in the network."""
    has_slow_files: bool = False
    """Whether operations of files take longer than any sampler waits."""


def may_act(state: State, thread: Thread) -> bool:
    """Return whether a thread can go on, if only to ask the same again."""
    call = thread.call
    if thread.has_ended or (call is not None and call.is_end):
        return False
    if call is not None:
        return call.in_callback > 0 or call.tries is not None or state.is_over(call)
    match thread.program[thread.at]:
        case Join():
            return all(each.has_ended or each.number == thread.number for each in state.of(thread.rank))
        case Complete(name):  # it is told by a lock of the program's that the operation has started
            return (thread.rank, name) in state.hidden
    return True


def is_in_mpi(thread: Thread) -> bool:
    """Return whether a thread's call moves the rank's messages."""
    return thread.call is not None and not thread.call.in_callback


def act(state: State, place: int, mpi: Mpi) -> None:
    """Give a thread, by its place, one turn."""
    thread = state.threads[place]
    if thread.turns:
        state.threads[place] = _after_turn(thread)
    elif thread.call is None:
        state.threads[place] = _start(state, thread, thread.program[thread.at], mpi)
    else:
        state.threads[place] = _in_call(state, thread, thread.call, mpi)


def _after_turn(thread: Thread) -> Thread:
    return replace(thread, turns=thread.turns - 1, at=thread.at + (thread.turns == 1))


def _in_call(state: State, thread: Thread, call: Call, mpi: Mpi) -> Thread:
    if call.in_callback:
        call = replace(call, in_callback=call.in_callback - 1)
        return (
            replace(thread, call=call)
            if call.in_callback
            else replace(thread, call=next_phase(state, thread, call, mpi))
        )
    if not state.is_over(call):
        if call.tries != 1:
            return replace(thread, call=replace(call, tries=max((call.tries or 0) - 1, 0)), left=thread.left + 1)
        return _left(state, thread, call)
    if not call.phases:
        return _left(state, thread, call)
    first = call.phases[0]
    if first.turns:
        phases = (replace(first, turns=0), *call.phases[1:])
        return replace(thread, call=replace(call, waits=(), phases=phases, in_callback=first.turns))
    return replace(thread, call=next_phase(state, thread, call, mpi))


def next_phase(state: State, thread: Thread, call: Call, mpi: Mpi) -> Call:
    """Start the next phase of a collective call: its sends are small."""
    phase, *others = call.phases
    waits = [post(state, each) for each in _receives(thread, call, phase)]
    for peer in phase.sends:
        request = Request(0, thread.rank, Kind.SEND, peer, TAGS[phase.internal], call.comm, phase.internal)
        post(state, request, is_eager=True, is_slow=(thread.rank, peer) in mpi.slow)
    return replace(call, waits=tuple(waits), phases=tuple(others))


def _receives(thread: Thread, call: Call, phase: Phase) -> list[Request]:
    return [
        Request(0, thread.rank, Kind.RECEIVE, peer, TAGS[phase.internal], call.comm, phase.internal, call.entry)
        for peer in phase.receives
    ]


def _left(state: State, thread: Thread, call: Call) -> Thread:
    """Return from a call: what it has found complete is MPI_REQUEST_NULL from now on (3.7.3), of several one."""
    found = [number for number in call.waits if number in state.complete][: 1 if call.is_any else None]
    if state.is_over(call):
        state.names = {name: number for name, number in state.names.items() if number not in found}
    state.waiting = tuple(each for each in state.waiting if each not in call.waits or not _is_probe(state, each))
    return replace(thread, call=None, at=thread.at + 1, left=thread.left + 1)


def _is_probe(state: State, number: int) -> bool:
    return state.requests[number].kind is Kind.PROBE


def _start(state: State, thread: Thread, what: Act, mpi: Mpi) -> Thread:
    """Start what the program does next; what returns at once has ended."""
    over = replace(thread, at=thread.at + 1)
    match what:
        case Compute():
            return replace(thread, turns=what.turns) if what.turns else over
        case Join() | Leave():
            return replace(over, around="")
        case Enter():
            return replace(over, around=what.call)
        case Finalize():
            return replace(thread, call=Call("MPI_Finalize", (), is_end=True))
        case Collective():
            return replace(thread, call=_collective(state, thread, what, mpi))
        case Wait():
            return replace(thread, call=_wait(state, thread.rank, what))
        case Start():
            request = Request(0, thread.rank, Kind.UNSEEN, ends_itself=what.ends_itself)
            state.names[thread.rank, what.name] = state.hidden[thread.rank, what.name] = post(state, request)
        case Complete():
            state.complete |= {state.hidden[thread.rank, what.name]}
        case Probe():
            request = Request(0, thread.rank, Kind.PROBE, what.peer, what.tag, what.comm, is_blocking=True)
            name = "MPI_Probe" if what.tries is None else "MPI_Iprobe"
            return replace(thread, call=Call(name, (post(state, request),), tries=what.tries, comm=what.comm))
        case Send() | Receive():
            number = _post(state, thread.rank, what, mpi)
            if not what.name:
                name = "MPI_Send" if isinstance(what, Send) else "MPI_Recv"
                return replace(thread, call=Call(name, (number,), comm=what.comm))
            state.names[thread.rank, what.name] = number
    return over


def _post(state: State, rank: int, what: Send | Receive, mpi: Mpi) -> int:
    is_send = isinstance(what, Send)
    kind = Kind.SEND if is_send else Kind.RECEIVE
    request = Request(0, rank, kind, what.peer, what.tag, what.comm, is_blocking=not what.name)
    is_eager = isinstance(what, Send) and what.is_eager
    return post(state, request, is_eager=is_eager, is_slow=is_send and (rank, what.peer) in mpi.slow)


def _collective(state: State, thread: Thread, what: Collective, mpi: Mpi) -> Call:
    way = thread.rank, what.comm
    state.entered[way] = (*state.entered.get(way, ()), what.call)
    phases = phases_of(what, thread.rank, mpi.algorithm)
    entry = len(state.entered[way]) if what.call in ENDS_WHEN_ALL_HAVE_ENTERED else 0
    call = Call(what.call, (), comm=what.comm, root=what.root, phases=phases, entry=entry)
    return next_phase(state, thread, call, mpi) if phases else call


def _wait(state: State, rank: int, what: Wait) -> Call:
    one, every, some = _WAITS[what.tries is not None]
    name = some if what.is_any else one if len(what.names) == 1 else every
    waits = tuple(state.names[rank, each] for each in what.names if (rank, each) in state.names)
    return Call(name, waits, what.is_any, what.tries)
