"""What a sampler reads of the ranks of a simulated job: their queues, as several MPIs keep them, and their stacks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Status
from mqs_dll.contract.phrases import How, made_by, received_by
from mqs_dll.job.records import Argument, ArgumentEvidence, CallStack, Frame, Job
from tests.support import made_up_job as made_up
from tests.support.simulator.programs import ANY, Comm, Complete, Compute, Join
from tests.support.simulator.running import Mpi
from tests.support.simulator.schedule import run
from tests.support.simulator.state import Call, Kind, Message, Request, State, Thread

MAX_SKEW = 2
"""Moves that the others make between the freezing of one rank and of the next."""


class Product(Enum):
    """An MPI, by what its queues have."""

    OPEN_MPI = "Open MPI 4.1.4, pml/ob1"
    """Who waits for a request, and for how many; numbers of messages."""
    CH3 = "MPICH 4.3.2, ch3"
    """Whether a nonblocking call made an operation."""
    CH4 = "MPICH 4.3.2, ch4"
    """Neither. Requests have their handles everywhere."""


@dataclass
class Sampler:
    """Looks at one job again and again."""

    numbers: random.Random
    product: Product
    has_numbers: bool = True
    """Whether messages are numbered; of Open MPI alone."""
    knows_arguments: bool = True
    """Of the calls that the threads are in."""
    shows_collectives: bool = True
    """Whether blocking collectives go through the queues; else through shared memory."""
    sees_polls: bool = False
    """Whether who polls is in the call in each sample; else also between two of them."""
    interval: float = 1.0
    """Seconds between two samples."""
    on_nodes: bool = False
    """Whether each rank runs on a node of its own."""
    samples: dict[int, made_up.Rank] = field(default_factory=dict)
    _comms: dict[Comm, made_up.Comm | None] = field(default_factory=dict)
    _left: dict[int, int] = field(default_factory=dict)
    """By place of a thread that was in a call at the last sample, the calls that had returned."""

    def sample(self, state: State, mpi: Mpi, *, skew: int = 0) -> None:
        """Freeze one rank after another, and add what each shows; at most ``skew`` moves lie between two of them."""
        for each in _comms(state):
            self._comms.setdefault(each, _made_up(each))
        frozen: set[int] = set()
        for rank in self.numbers.sample([*state.ranks], len(state.ranks)):
            self.samples[rank] = self._rank(state, rank)
            frozen.add(rank)
            run(state, mpi, self.numbers, self.numbers.randint(0, skew), frozen)

    def job(self) -> Job:
        """Return what all samples have seen."""
        everyone = (self.samples[rank] for rank in sorted(self.samples))
        shared = [each for each in self._comms.values() if each is not None]
        return made_up.job(*everyone, communicators=shared, mpi=self.product.value, interval=self.interval)

    # ------------------------------------------------------------ one rank

    def _rank(self, state: State, rank: int) -> made_up.Rank:
        if all(thread.has_ended for thread in state.of(rank)):
            return made_up.gone(rank)
        shown = {place: self._stack(state, each) for place, each in enumerate(state.threads) if _is_alive(each, rank)}
        inside = {place for place, stack in shown.items() if stack.call is not None}
        before = [place for place in self._left if state.threads[place].rank == rank]
        moved = any(state.threads[place].left > self._left.pop(place) for place in before)
        self._left.update({place: state.threads[place].left for place in inside})
        return made_up.rank(
            rank,
            *self._operations(state, rank),
            stacks=[
                shown[place]
                for place in sorted(shown, key=lambda each: (state.threads[each].number > 0, each not in inside))
            ],
            host=f"node{rank if self.on_nodes else 0}",
            watched=bool(before),
            progressed=moved,
            earlier=self.samples.get(rank),
        )

    # ------------------------------------------------------------ queues

    def _operations(self, state: State, rank: int) -> Iterator[made_up.Pending]:
        for number in _listed(state, rank):
            request = state.requests[number]
            if request.internal and not self.shows_collectives:
                continue
            if request.kind is Kind.SEND:
                yield self._send(state, request)
            elif request.kind is Kind.RECEIVE or (request.kind is Kind.PROBE and self.product is Product.OPEN_MPI):
                yield self._receive(state, request)
        for message in state.unexpected.get(rank, ()):
            if not message.internal or self.shows_collectives:
                text = (phrases.COLLECTIVE(message.internal),) if message.internal else ()
                yield made_up.unexpected(self._local(message), message.tag, text=text, on=self._on(message.comm))

    def _local(self, message: Message) -> int:
        assert message.comm is not None
        return message.comm.members.index(message.source)

    def _send(self, state: State, request: Request) -> made_up.Pending:
        comm, is_over = request.comm, request.number in state.complete
        assert comm is not None
        numbered = self.product is Product.OPEN_MPI and self.has_numbers and not is_over
        return made_up.send(
            comm.members.index(request.peer),
            request.tag,
            on=self._on(comm),
            status=Status.COMPLETE if is_over else Status.PENDING,
            text=(
                self._made_by(state, request, "Send"),
                *self._request(state, request),
                *([phrases.SEND_NUMBER(request.order)] if numbered else []),
            ),
        )

    def _receive(self, state: State, request: Request) -> made_up.Pending:
        comm, got = request.comm, state.received.get((request.rank, request.number))
        assert comm is not None
        peer = ANY if request.peer == ANY else comm.members.index(request.peer)
        first = self._made_by(state, request, "Recv") if request.kind is Kind.RECEIVE else made_up.PROBE
        text = [first, *self._request(state, request)]
        if request.internal:
            text.append(phrases.COLLECTIVE(request.internal))
        if got is not None:
            message = self._local(got), got.tag, 8
            return made_up.receive(
                peer, request.tag, text=text, status=Status.COMPLETE, message=message, on=self._on(comm)
            )
        if self.product is Product.OPEN_MPI and self.has_numbers:
            text.append(phrases.RECEIVE_NUMBER(request.order))
            if peer != ANY:
                arrived = state.arrived.get((request.peer, request.rank, comm), 0)
                sent = state.sent.get((request.rank, request.peer, comm), 0)
                text.append(phrases.NEXT_TO_MATCH(arrived + 1, sent))
        return made_up.receive(peer, request.tag, text=text, on=self._on(comm))

    def _made_by(self, state: State, request: Request, what: str) -> str:
        """Return what is known of the call: ob1 knows it unless the rank is in a blocking one, ch4 never."""
        blocking, nonblocking = f"MPI_{what}", f"MPI_I{what.lower()}"
        is_over = request.number in state.complete
        is_told = self.product is Product.CH3 or (
            self.product is Product.OPEN_MPI
            and not any(_is_blocked_in(state, each, what) for each in state.of(request.rank))
        )
        if request.kind is Kind.RECEIVE and is_over:
            return received_by(nonblocking, how=How.NONBLOCKING, has_message=True)
        if is_over or (is_told and not request.is_blocking):
            return made_by(nonblocking, how=How.NONBLOCKING)
        if self.product is Product.CH3:
            return made_by(blocking)
        return made_by(blocking, nonblocking)

    def _request(self, state: State, request: Request) -> list[str]:
        """Return the line of a request, with how many more its thread waits for where several wait, or threads are."""
        waiter = next(
            (each.call for each in state.threads if each.call is not None and request.number in each.call.waits), None
        )
        one = waiter is not None and len(waiter.waits) == 1 and not waiter.is_any and len(state.of(request.rank)) == 1
        idle = waiter is None or waiter.tries is not None or request.number in state.complete or one
        if idle or waiter is None or self.product is not Product.OPEN_MPI:
            return [phrases.request(_handle(request.number))]
        left = [number for number in waiter.waits if number not in state.complete]
        return [phrases.request(_handle(request.number), in_wait=True, needs=1 if waiter.is_any else len(left))]

    def _on(self, comm: Comm | None) -> made_up.Comm | None:
        return None if comm is None else self._comms[comm]

    # ------------------------------------------------------------ stacks

    def _stack(self, state: State, thread: Thread) -> CallStack:
        call, where = thread.call, f"solver.c:{10 * thread.number + thread.at}"
        polls = call is not None and call.tries is not None
        between = polls and not self.sees_polls and self.numbers.random() < 0.2
        if call is None or between:
            doing = f"{thread.turns}" if isinstance(thread.program[thread.at], Compute | Join | Complete) else "between"
            stack = made_up.stack(thread.around or None, where, fingerprint=f"{thread.number} {thread.at} {doing}")
            inside = bool(thread.around)
        else:
            arguments = self._arguments(state, call) if self.knows_arguments else ()
            print_ = f"{thread.number} {thread.at} {call.in_callback}"
            stack = made_up.stack(call.name, where, fingerprint=print_, arguments=arguments)
            inside = call.in_callback > 0
        callback = Frame("called_back", "solver", "solver.c", 99) if inside else None
        return replace(stack, thread=1000 + thread.number, callback=callback)

    def _arguments(self, state: State, call: Call) -> tuple[Argument, ...]:
        requests = [state.requests[number] for number in call.waits]
        if call.name.startswith(("MPI_Wait", "MPI_Test")):
            several = call.name.removeprefix("MPI_") not in ("Wait", "Test")
            name = "array_of_requests" if several else "request"
            return (
                Argument(
                    name, 0x7FFC_0000, ArgumentEvidence.BOTH, elements=tuple(_handle(each.number) for each in requests)
                ),
            )
        comm = call.comm
        if comm is None:
            return ()
        if call.root is not None or not requests or requests[0].internal:
            if call.name not in ("MPI_Bcast", "MPI_Reduce") or call.root is None:
                return made_up.given(comm=self._on(comm))
            return made_up.given(root=comm.members.index(call.root), comm=self._on(comm))
        peer, tag = requests[0].peer, requests[0].tag
        local = peer if peer == ANY else comm.members.index(peer)
        if call.name == "MPI_Send":
            return made_up.given(dest=local, tag=tag, comm=self._on(comm))
        return made_up.given(source=local, tag=tag, comm=self._on(comm))


def _is_alive(thread: Thread, rank: int) -> bool:
    return thread.rank == rank and not thread.has_ended


def _is_blocked_in(state: State, thread: Thread, what: str) -> bool:
    return thread.call is not None and thread.call.name == f"MPI_{what}" and not state.is_over(thread.call)


def _handle(number: int) -> int:
    return 0x5555_0000 + 0x100 * number


def _listed(state: State, rank: int) -> list[int]:
    """Return the requests that a rank's MPI still has: those of its program, and of the calls that it is in."""
    own = {number for (owner, _), number in state.names.items() if owner == rank}
    for thread in state.of(rank):
        if thread.call is not None and thread.call.tries is None:
            own.update(number for number in thread.call.waits if number not in state.complete or number in own)
    unmatched = {each for each in state.waiting if state.requests[each].rank == rank}
    probing = {each for each in own | unmatched if state.requests[each].kind is Kind.PROBE}
    asked = {
        number
        for thread in state.of(rank)
        if thread.call and thread.call.tries is not None
        for number in thread.call.waits
    }
    return sorted((own | unmatched) - (probing & asked))


def _comms(state: State) -> dict[Comm, None]:
    found = {each.comm: None for each in state.requests.values() if each.comm is not None}
    for thread in state.threads:
        found.update({act.comm: None for act in thread.program if hasattr(act, "comm")})
    return found


def _made_up(comm: Comm) -> made_up.Comm | None:
    return None if comm.name == "MPI_COMM_WORLD" else made_up.communicator(comm.name, comm.members)
