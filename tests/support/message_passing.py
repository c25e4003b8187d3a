"""A brute-force simulator of message passing: every schedule of a small job, by MPI's rules of matching.

It knows nothing of graphs. A job is what its processes wait for, and the messages that they have sent; who is free may
send or receive anything at any time. A process goes on when some schedule ends its wait.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

ANY = -1


class Does(Enum):
    """What a process does."""

    FREE = "outside MPI"
    GONE = "exited"
    ALL = "waits for all of its operations"
    ANY = "waits for any of its operations"


@dataclass(frozen=True)
class Operation:
    """A send or a receive of a process."""

    owner: int
    is_send: bool
    peer: int
    """Where to, or from where (ANY)."""
    tag: int
    """ANY only of a receive."""


@dataclass(frozen=True)
class Message:
    """A message that came to its receiver, and whose send is long over."""

    source: int
    target: int
    tag: int


@dataclass
class Small:
    """A small job."""

    does: list[Does]
    operations: list[Operation]
    """In the order in which each process posted them."""
    messages: list[Message] = field(default_factory=list)
    """In the order in which they came."""

    def of(self, process: int) -> list[Operation]:
        """Return the operations of a process."""
        return [each for each in self.operations if each.owner == process]


def random_job(numbers: random.Random) -> Small:
    """Return a job of two to four processes in a random state."""
    size = numbers.randint(2, 4)
    does = numbers.choices((Does.ALL, Does.ANY, Does.FREE, Does.GONE), weights=(6, 3, 1, 1), k=size)
    operations = []
    for process, state in enumerate(does):
        if state in (Does.ALL, Does.ANY):
            for _ in range(numbers.choice((1, 1, 2, 3))):
                is_send = numbers.random() < 0.4
                peer = ANY if not is_send and numbers.random() < 0.25 else numbers.randrange(size)
                tag = ANY if not is_send and numbers.random() < 0.15 else numbers.randint(1, 2)
                operations.append(Operation(process, is_send, peer, tag))
    messages = [
        Message(numbers.randrange(size), numbers.randrange(size), numbers.randint(1, 2))
        for _ in range(numbers.choice((0, 0, 1, 2)))
    ]
    return Small(does, operations, messages)


def going_on(job: Small) -> set[int]:
    """Return the processes that go on in some schedule."""
    found: set[int] = set()
    seen: set[_State] = set()
    todo = [_State(frozenset(), frozenset())]
    while todo:
        state = _settled(job, todo.pop())
        if state in seen:
            continue
        seen.add(state)
        found |= _free(job, state)
        todo += [_State(state.done | done, state.taken | taken) for done, taken in _meetings(job, state)]
    return found


def quiet(job: Small, numbers: random.Random) -> Small:
    """Return the job after all that matches has met, by a random schedule; who went on by that is free."""
    state = _State(frozenset(), frozenset())
    while steps := list(_meetings(job, state)):
        done, taken = numbers.choice(steps)
        state = _State(state.done | done, state.taken | taken)
    does = list(job.does)
    for process in range(len(does)):
        if does[process] in (Does.ALL, Does.ANY) and _is_over(job, state, process):
            does[process] = Does.FREE
    operations = [each for number, each in enumerate(job.operations) if number not in state.done]
    messages = [each for number, each in enumerate(job.messages) if number not in state.taken]
    return Small(does, operations, messages)


@dataclass(frozen=True)
class _State:
    """How far a schedule has come."""

    done: frozenset[int]
    """Places of operations that are over."""
    taken: frozenset[int]
    """Places of messages that were received."""


def _is_over(job: Small, state: _State, process: int) -> bool:
    own = [number for number, each in enumerate(job.operations) if each.owner == process]
    over = [number in state.done for number in own]
    return all(over) if job.does[process] is Does.ALL else any(over)


def _free(job: Small, state: _State) -> set[int]:
    return {
        process
        for process, does in enumerate(job.does)
        if does is Does.FREE or (does is not Does.GONE and _is_over(job, state, process))
    }


def _settled(job: Small, state: _State) -> _State:
    """Let free processes end whatever they can: that takes nothing from anybody."""
    while True:
        free = _free(job, state)
        ended = {
            number
            for number, each in enumerate(job.operations)
            if number not in state.done and (each.peer in free or (each.peer == ANY and free))
        }
        if not ended:
            return state
        state = _State(state.done | ended, state.taken)


def _meetings(job: Small, state: _State) -> Iterator[tuple[set[int], set[int]]]:
    """Yield what may meet next: the operations that end by it, and the messages that are received."""
    receives = [
        (number, each) for number, each in enumerate(job.operations) if not each.is_send and number not in state.done
    ]
    for number, receive in receives:
        for source in range(len(job.does)):
            found = _first_of(job, state, source, receive)
            if found is None:
                continue
            ended, taken, tag = found
            earlier = (each for other, each in receives if other < number and each.owner == receive.owner)
            if not any(_matches(each, source, tag) for each in earlier):
                yield {number} | ended, taken


def _first_of(job: Small, state: _State, source: int, receive: Operation) -> tuple[set[int], set[int], int] | None:
    """Return the first message of a sender that a receive can match: those that came were sent before the others."""
    for number, message in enumerate(job.messages):
        came = number not in state.taken and (message.source, message.target) == (source, receive.owner)
        if came and _matches(receive, source, message.tag):
            return set(), {number}, message.tag
    for number, each in enumerate(job.operations):
        sends = each.is_send and number not in state.done and (each.owner, each.peer) == (source, receive.owner)
        if sends and _matches(receive, source, each.tag):
            return {number}, set(), each.tag
    return None


def _matches(receive: Operation, source: int, tag: int) -> bool:
    return receive.peer in (ANY, source) and receive.tag in (ANY, tag)


def jobs(seed: int, count: int) -> Iterator[tuple[int, Small]]:
    """Yield numbered random jobs."""
    for number in itertools.islice(itertools.count(seed), count):
        yield number, random_job(random.Random(number))
