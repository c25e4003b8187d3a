"""A simulator of healthy jobs: ranks that exchange messages of changing sizes forever, and can be sampled at any time.

Every receive has room for its message, and nobody waits in vain: whatever is said against such a job is wrong.
Messages are under way between the ranks, where no queue shows them, until their receiver takes them in, which it does
only inside MPI; small ones leave nothing behind at their sender. A sample freezes one rank after another while the rest
run on.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Status
from mqs_dll.contract.phrases import How, made_by
from mqs_dll.job.records import Job
from tests.support import made_up_job as made_up
from tests.support.made_up_job import ANY

EAGER = 256
"""Bytes of the largest message whose send ends at once."""

MAX_SKEW = 3
"""Turns that the others have between the freezing of one rank and of the next."""


class Act(NamedTuple):
    """One step of a rank's program."""

    kind: str
    """ "send", "receive", "wait" for all that was posted, or "compute"."""
    peer: int = ANY
    tag: int = 0
    length: int = 0
    """Bytes of the message, of the receive's buffer, or turns that computing takes."""
    call: str = "MPI_Waitall"
    """Of a wait: which call it is."""


@dataclass(eq=False)
class Message:
    """One message on its way."""

    source: int
    tag: int
    length: int
    number: int
    """Of all messages of its sender to its receiver, from 1."""
    taken: bool = False
    """Its receiver has matched it."""
    answered: bool = False
    """Its sender knows that."""


@dataclass(eq=False)
class Posted:
    """A send or a receive of a rank that isn't complete."""

    act: Act
    number: int
    message: Message | None = None


@dataclass
class RankState:
    """What a rank's own memory holds."""

    program: list[Act]
    place: int = 0
    left: int = 0
    """Turns that it still computes."""
    call: str | None = None
    posted: list[Posted] = field(default_factory=list)
    receives: int = 0
    """It has posted so far."""
    sent: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    taken_in: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    unexpected: list[Message] = field(default_factory=list)
    returned: bool = False
    """Some call has ended since the last sample."""
    turns: int = 0
    """It had, inside MPI, since the last sample."""


class HealthyJob:
    """A job that runs."""

    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers
        size = numbers.randint(2, 4)
        self.ranks = [RankState(program) for program in _programs(numbers, size)]
        self._under_way: defaultdict[tuple[int, int], deque[Message]] = defaultdict(deque)

    def run(self, turns: int) -> None:
        """Give each rank so many turns, in any order."""
        order = [rank for rank in range(len(self.ranks)) for _ in range(turns)]
        self._numbers.shuffle(order)
        for rank in order:
            self._turn(rank)

    def sample(self, earlier: list[made_up.Rank] | None, *, numbered: bool) -> list[made_up.Rank]:
        """Freeze all ranks one by one, and return what each shows.

        Args:
            earlier: what the sample before has returned.
            numbered: whether the MPI numbers its operations, as Open MPI does.
        """
        shown: dict[int, made_up.Rank] = {}
        for rank in self._numbers.sample(range(len(self.ranks)), len(self.ranks)):
            shown[rank] = self._show(rank, earlier[rank] if earlier else None, numbered=numbered)
            running = [each for each in range(len(self.ranks)) if each not in shown]
            for _ in range(self._numbers.randint(0, MAX_SKEW) if running else 0):
                self._turn(self._numbers.choice(running))
        return [shown[rank] for rank in range(len(self.ranks))]

    # ------------------------------------------------------------ running

    def _turn(self, number: int) -> None:
        rank = self.ranks[number]
        if rank.left:
            rank.left -= 1
            return
        if rank.call is not None:
            rank.turns += 1
            self._progress(number)
            if rank.posted:
                return
            rank.call, rank.returned = None, True
        act = rank.program[rank.place]
        rank.place = (rank.place + 1) % len(rank.program)
        if act.kind == "compute":
            rank.left = act.length
        elif act.kind == "wait":
            rank.call = act.call
        elif act.kind == "receive":
            rank.receives += 1
            self._post(rank, Posted(act, rank.receives))
        else:
            self._send(number, act)

    def _send(self, number: int, act: Act) -> None:
        rank = self.ranks[number]
        rank.sent[act.peer] += 1
        message = Message(number, act.tag, act.length, rank.sent[act.peer])
        self._under_way[number, act.peer].append(message)
        if act.length > EAGER:
            rank.posted.append(Posted(act, message.number, message))

    def _post(self, rank: RankState, receive: Posted) -> None:
        rank.posted.append(receive)
        for message in rank.unexpected:
            if _matches(receive.act, message):
                rank.unexpected.remove(message)
                _meet(rank, receive, message)
                return

    def _progress(self, number: int) -> None:
        """Take in a message of each sender, and hear what has become of one's own."""
        rank = self.ranks[number]
        for source in self._numbers.sample(range(len(self.ranks)), len(self.ranks)):
            queue = self._under_way[source, number]
            if queue:
                self._take_in(rank, queue.popleft())
        for each in list(rank.posted):
            message = each.message
            if each.act.kind == "send" and message is not None and message.taken:
                message.answered = True
                rank.posted.remove(each)
            elif each.act.kind == "receive" and message is not None and message.answered:
                rank.posted.remove(each)

    def _take_in(self, rank: RankState, message: Message) -> None:
        rank.taken_in[message.source] = message.number
        for each in rank.posted:
            if each.act.kind == "receive" and each.message is None and _matches(each.act, message):
                _meet(rank, each, message)
                return
        rank.unexpected.append(message)

    # ------------------------------------------------------------ looking

    def _show(self, number: int, earlier: made_up.Rank | None, *, numbered: bool) -> made_up.Rank:
        rank = self.ranks[number]
        shown = [self._operation(rank, each, numbered=numbered) for each in rank.posted]
        shown += [made_up.unexpected(each.source, each.tag, length=each.length) for each in rank.unexpected]
        stack = made_up.stack(rank.call, fingerprint=f"{rank.place} {rank.left}")
        moved, watched = rank.returned, rank.turns > 0
        rank.returned, rank.turns = False, 0
        was_inside = earlier is not None and earlier.samples[-1].stacks[0].call is not None  # type: ignore[index]
        return made_up.rank(
            number,
            *shown,
            stacks=[stack],
            watched=was_inside and watched,
            progressed=was_inside and moved,
            earlier=earlier,
        )

    @staticmethod
    def _operation(rank: RankState, each: Posted, *, numbered: bool) -> made_up.Pending:
        act, blocking = each.act, rank.call in ("MPI_Send", "MPI_Recv")
        matched = each.message is not None and each.message.taken
        if act.kind == "send":
            first = made_by("MPI_Send", "MPI_Isend") if blocking else made_by("MPI_Isend", how=How.NONBLOCKING)
            text = [phrases.SEND_NUMBER(each.number)] if numbered else []
            return made_up.send(act.peer, act.tag, length=act.length, text=(first, *text))
        first = made_by("MPI_Recv", "MPI_Irecv") if blocking else made_by("MPI_Irecv", how=How.NONBLOCKING)
        if matched and each.message is not None:
            found = (each.message.source, each.message.tag, each.message.length)
            return made_up.receive(
                act.peer, act.tag, length=act.length, text=(first,), status=Status.MATCHED, message=found
            )
        text = [phrases.RECEIVE_NUMBER(each.number)] if numbered else []
        if numbered and act.peer != ANY:
            text.append(phrases.NEXT_TO_MATCH(rank.taken_in[act.peer] + 1, rank.sent[act.peer]))
        return made_up.receive(act.peer, act.tag, length=act.length, text=(first, *text))


def _matches(receive: Act, message: Message) -> bool:
    return receive.peer in (ANY, message.source) and receive.tag in (ANY, message.tag)


def _meet(rank: RankState, receive: Posted, message: Message) -> None:
    message.taken = True
    assert message.length <= receive.act.length
    if message.length <= EAGER:
        rank.posted.remove(receive)
    else:
        receive.message = message


# ---------------------------------------------------------------- programs


def _programs(numbers: random.Random, size: int) -> list[list[Act]]:
    """Return each rank's part of a few patterns that never hang, one after the other."""
    programs = [[Act("compute", length=1)] for _ in range(size)]
    for _ in range(numbers.randint(1, 4)):
        numbers.choice((_halo, _to_one, _two_tags))(numbers, programs)
    return programs


def _halo(numbers: random.Random, programs: list[list[Act]]) -> None:
    """Each informs its neighbour how much will come, and sends it, with one tag for both."""
    size, step = len(programs), numbers.choice((1, -1))
    lengths = [numbers.choice((8, 200, 1000, 4000, 9000)) for _ in programs]
    for rank, program in enumerate(programs):
        to, source = (rank + step) % size, (rank - step) % size
        program += [Act("receive", source, 0, 4), Act("send", to, 0, 4), Act("wait", call="MPI_Sendrecv")]
        program += [Act("receive", source, 0, lengths[source]), *_computing(numbers)]
        program += [Act("send", to, 0, lengths[rank]), Act("wait"), *_computing(numbers)]


def _to_one(numbers: random.Random, programs: list[list[Act]]) -> None:
    """All send to one of them, which asks for any source, and wait until it has heard all."""
    one = numbers.randrange(len(programs))
    others = [rank for rank in range(len(programs)) if rank != one]
    for _ in others:
        programs[one] += [Act("receive", ANY, 5, 5000), Act("wait", call="MPI_Recv")]
    for rank in others:
        length = numbers.choice((8, 200, 3000, 5000))
        programs[rank] += [*_computing(numbers), Act("send", one, 5, length), Act("wait", call="MPI_Send")]
        programs[rank] += [Act("receive", one, 6, 4), Act("wait", call="MPI_Recv")]
        programs[one].append(Act("send", rank, 6, 4))


def _two_tags(numbers: random.Random, programs: list[list[Act]]) -> None:
    """One sends two messages to another, which asks for the second one first, or for both at once."""
    sender, receiver = numbers.sample(range(len(programs)), 2)
    lengths = {tag: numbers.choice((8, 200, 700, 2000)) for tag in (1, 2)}
    for tag in (1, 2):
        programs[sender] += [Act("send", receiver, tag, lengths[tag]), *_computing(numbers)]
    programs[sender].append(Act("wait"))
    for tag in (2, 1):
        programs[receiver] += [Act("receive", sender, tag, lengths[tag]), *_computing(numbers)]
        if numbers.random() < 0.5:
            programs[receiver].append(Act("wait", call="MPI_Wait"))
    programs[receiver].append(Act("wait"))


def _computing(numbers: random.Random) -> Iterator[Act]:
    if numbers.random() < 0.5:
        yield Act("compute", length=numbers.randint(1, 4))


# ---------------------------------------------------------------- samples


def sampled(seed: int, *, turns: int, numbered: bool) -> Job:
    """Return a healthy job that two samples saw.

    Args:
        seed: which one.
        turns: that each rank had between the two.
        numbered: whether the MPI numbers its operations.
    """
    numbers = random.Random(seed)
    running = HealthyJob(numbers)
    running.run(numbers.randint(0, 200))
    before = running.sample(None, numbered=numbered)
    running.run(turns)
    after = running.sample(before, numbered=numbered)
    return made_up.job(*after, mpi="Open MPI 4.1.4, pml/ob1" if numbered else "MPICH 4.3.2, ch4")
