"""Messages and receives: in the order of sending and of posting, the first that match (MPI 4.1, section 3.5)."""

from __future__ import annotations

from dataclasses import replace

from tests.support.simulator.programs import ANY
from tests.support.simulator.state import Kind, Message, Request, State


def post(state: State, request: Request, *, is_eager: bool = False, is_slow: bool = False) -> int:
    """Start an operation; return its number.

    Args:
        state: changes.
        request: the operation; its numbers are set here.
        is_eager: whether a send ends at once.
        is_slow: whether the network keeps its message.
    """
    number = len(state.requests)
    request = replace(request, number=number, order=_next(state, request))
    state.requests[number] = request
    if request.kind is Kind.SEND:
        way = request.rank, request.peer
        message = Message(*way, request.tag, request.comm, request.internal, request.order, number, is_slow)
        state.under_way[way] = (*state.under_way.get(way, ()), message)
        if is_eager:
            state.complete |= {number}
    elif request.kind is not Kind.UNSEEN and not _takes_one_that_came(state, request):
        state.waiting += (number,)
    return number


def _next(state: State, request: Request) -> int:
    way = request.rank, request.peer if request.kind is Kind.SEND else ANY, request.comm
    state.sent[way] = state.sent.get(way, 0) + 1
    return state.sent[way]


def _takes_one_that_came(state: State, request: Request) -> bool:
    found = next((each for each in state.unexpected.get(request.rank, ()) if matches(request, each)), None)
    if found is None:
        return False
    if request.kind is Kind.RECEIVE:
        state.unexpected[request.rank] = tuple(each for each in state.unexpected[request.rank] if each is not found)
    _end(state, request, found)
    return True


def deliver(state: State, way: tuple[int, int]) -> None:
    """Let the first message that is under way from one rank to another arrive."""
    message, *others = state.under_way[way]
    state.under_way[way] = tuple(others)
    state.arrived[message.source, message.target, message.comm] = message.order
    for number in state.waiting:
        request = state.requests[number]
        if request.rank != message.target or not matches(request, message):
            continue
        state.waiting = tuple(each for each in state.waiting if each != number)
        _end(state, request, message)
        if request.kind is Kind.RECEIVE:
            return
    state.unexpected[message.target] = (*state.unexpected.get(message.target, ()), message)


def _end(state: State, request: Request, message: Message) -> None:
    state.complete |= {request.number}
    if request.kind is Kind.RECEIVE:
        state.complete |= {message.send}
        state.received[request.rank, request.number] = message


def matches(request: Request, message: Message) -> bool:
    """Return whether a receive or a probe can have a message."""
    return (
        request.comm == message.comm
        and bool(request.internal) == bool(message.internal)
        and request.peer in (ANY, message.source)
        and request.tag in (ANY, message.tag)
    )
