"""Random programs: healthy ones, whose acts have one order in which all end, and ones that mistakes were made in."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

from tests.support.simulator.programs import (
    ANY,
    Act,
    Collective,
    Comm,
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
from tests.support.simulator.state import State, Thread


@dataclass
class Writer:
    """Writes the programs of all threads, event by event."""

    numbers: random.Random
    size: int
    threads: int = 1
    """Of each rank at most."""
    programs: defaultdict[tuple[int, int], list[Act]] = field(default_factory=lambda: defaultdict(list))
    _events: int = 0
    _later: list[tuple[tuple[int, int], Act]] = field(default_factory=list)
    """Waits that come after more events."""

    def __post_init__(self) -> None:
        """Make the communicators."""
        self.world = Comm("MPI_COMM_WORLD", tuple(range(self.size)))
        members = self.numbers.sample(range(self.size), self.numbers.randint(2, self.size))
        self.some = Comm("some", tuple(members))

    def write(self, events: int) -> None:
        """Add so many events, each of which ends if those before it have."""
        kinds = (self.message, self.message, self.exchange, self.collective, self.hidden, self.any_of, self.called_back)
        for _ in range(events):
            self._events += 1
            self.numbers.choice(kinds)()
            if self.numbers.random() < 0.3:
                self.programs[self._thread()].append(Compute(self.numbers.randint(1, 6)))
            while self._later and self.numbers.random() < 0.5:
                self._add(*self._later.pop(0))
        for each in self._later:
            self._add(*each)
        self._later = []

    def state(self) -> State:
        """Return the start of all programs; ranks end by MPI_Finalize once their threads have."""
        threads = []
        for rank in range(self.size):
            own = [number for number in range(self.threads) if number == 0 or self.programs[rank, number]]
            for number in own:
                end: list[Act] = [] if number else [*([Join()] if len(own) > 1 else []), Finalize()]
                threads.append(Thread(rank, number, (*self.programs[rank, number], *end)))
        return State(threads)

    # ------------------------------------------------------------ events

    def message(self) -> None:
        """Send a message; each end blocks or not, the receiver may also poll, or probe first."""
        source, target = self._two()
        comm = self._comm_of(source[0], target[0])
        self._send(source, target[0], comm, self._events)
        self._receive(target, source[0], comm, self._events)

    def exchange(self) -> None:
        """Let two ranks send to each other, and wait for both."""
        one, other = self._two()
        for me, peer in ((one, other), (other, one)):
            names = (f"to {self._events}", f"from {self._events}")
            tags = (2 * self._events, 2 * self._events + 1) if me is one else (2 * self._events + 1, 2 * self._events)
            self._add(me, Receive(peer[0], 1000 + tags[1], self.world, names[1]))
            self._add(me, Send(peer[0], 1000 + tags[0], self.world, names[0], self._is_eager()))
        for me in (one, other):
            self._add(me, Wait((f"to {self._events}", f"from {self._events}"), tries=self._tries()))

    def collective(self) -> None:
        """Let the main threads of all make a collective call."""
        comm = self.numbers.choice((self.world, self.some))
        call = self.numbers.choice(("MPI_Barrier", "MPI_Bcast", "MPI_Allreduce", "MPI_Reduce"))
        turns = self.numbers.choice((0, 0, 3)) if call in ("MPI_Allreduce", "MPI_Reduce") else 0
        what = Collective(call, comm, self.numbers.choice(comm.members), turns)
        for rank in comm.members:
            self._add((rank, 0), what)

    def hidden(self) -> None:
        """Wait for a request that no queue has; some thread completes it, or it ends by itself."""
        target, source = self._two()
        name = f"hidden {self._events}"
        by_itself = self.numbers.random() < 0.4
        self._add(target, Start(name, by_itself))
        names = [name]
        if self.numbers.random() < 0.6:
            names.append(f"beside {self._events}")
            self._add(target, Receive(source[0], self._events, self.world, names[-1]))
            self._send(source, target[0], self.world, self._events)
        if not by_itself:
            helper = target[0], self.numbers.randrange(self.threads)
            if self.numbers.random() < 0.5:
                self._add(helper, Compute(self.numbers.randint(1, 4)))
            self._add(helper, Complete(name))
        self._wait(target, tuple(self.numbers.sample(names, len(names))))

    def any_of(self) -> None:
        """Wait for one of several requests, then for the others."""
        target, source = self._two()
        names = [f"one {self._events}", f"other {self._events}"]
        self._add(target, Receive(source[0], 2000 + self._events, self.world, names[0]))
        other: Act = Receive(source[0], 3000 + self._events, self.world, names[1])
        is_hidden = self.numbers.random() < 0.4
        self._add(target, Start(names[1], ends_itself=True) if is_hidden else other)
        for tag in (2000, 3000)[: 1 if is_hidden else 2]:
            self._send(source, target[0], self.world, tag + self._events)
        self._add(target, Wait(tuple(names), is_any=True, tries=self._tries()))
        self._add(target, Wait(tuple(names)))

    def called_back(self) -> None:
        """Compute in what a call calls back, and perhaps send; another rank waits for that."""
        source, target = self._two()
        self._add(source, Enter("MPI_Comm_delete_attr"))
        self._add(source, Compute(self.numbers.randint(1, 5)))
        if self.numbers.random() < 0.5:
            self._add(source, Send(target[0], self._events, self.world, is_eager=self._is_eager()))
            self._add(target, Receive(source[0], self._events, self.world))
        self._add(source, Leave())

    # ------------------------------------------------------------ their parts

    def _send(self, source: tuple[int, int], target: int, comm: Comm, tag: int) -> None:
        name = "" if self.numbers.random() < 0.6 else f"sent {tag}"
        self._add(source, Send(target, tag, comm, name, self._is_eager()))
        if name:
            self._wait(source, (name,))

    def _receive(self, target: tuple[int, int], source: int, comm: Comm, tag: int) -> None:
        if self.numbers.random() < 0.2:
            self._add(target, Probe(source, tag, comm, self._tries()))
        name = "" if self.numbers.random() < 0.6 else f"got {tag}"
        self._add(target, Receive(source, tag, comm, name))
        if name:
            self._wait(target, (name,))

    def _wait(self, thread: tuple[int, int], names: tuple[str, ...]) -> None:
        """Wait for requests, now or after later events."""
        what = Wait(names, tries=self._tries())
        if self.numbers.random() < 0.5:
            self._add(thread, what)
        else:
            self._later.append((thread, what))

    def _tries(self) -> int | None:
        return 0 if self.numbers.random() < 0.2 else None

    def _is_eager(self) -> bool:
        return self.numbers.random() < 0.5

    def _thread(self) -> tuple[int, int]:
        return self.numbers.randrange(self.size), self.numbers.randrange(self.threads)

    def _two(self) -> tuple[tuple[int, int], tuple[int, int]]:
        one, other = self.numbers.sample(range(self.size), 2)
        return (one, self.numbers.randrange(self.threads)), (other, self.numbers.randrange(self.threads))

    def _comm_of(self, *ranks: int) -> Comm:
        fits = {*ranks} <= {*self.some.members}
        return self.some if fits and self.numbers.random() < 0.3 else self.world

    def _add(self, thread: tuple[int, int], what: Act) -> None:
        self.programs[thread].append(what)


def healthy(numbers: random.Random) -> State:
    """Return a job that ends by every schedule: each message has a tag of its own, and nobody asks for any."""
    writer = Writer(numbers, numbers.randint(2, 4), numbers.choice((1, 1, 2)))
    writer.write(numbers.randint(2, 6))
    return writer.state()


def broken(numbers: random.Random) -> State:
    """Return a job in which mistakes were made, which may still end by some or all schedules."""
    writer = Writer(numbers, numbers.randint(2, 4), numbers.choice((1, 1, 2)))
    writer.write(numbers.randint(2, 6))
    few = numbers.random() < 0.6
    for program in writer.programs.values():
        program[:] = [_with_few_tags(each) for each in program] if few else program
    for _ in range(numbers.randint(1, 3)):
        program = numbers.choice([each for each in writer.programs.values() if each])
        _break(numbers, program, writer.size)
        if not any(writer.programs.values()):
            break
    return writer.state()


def _with_few_tags(what: Act) -> Act:
    return replace(what, tag=what.tag % 2 + 1) if isinstance(what, Send | Receive | Probe) else what


def _break(numbers: random.Random, program: list[Act], size: int) -> None:
    place = numbers.randrange(len(program))
    what = program[place]
    way = numbers.randrange(5)
    if way == 0:
        del program[place]
    elif way == 1 and place + 1 < len(program):
        program[place], program[place + 1] = program[place + 1], what
    elif isinstance(what, Receive | Probe) and way == 2:
        program[place] = replace(what, peer=ANY, tag=numbers.choice((what.tag, ANY)))
    elif isinstance(what, Send | Receive | Probe) and what.comm.name == "MPI_COMM_WORLD" and way == 3:
        program[place] = replace(what, peer=numbers.randrange(size))
    elif isinstance(what, Send | Receive | Probe):
        program[place] = replace(what, tag=what.tag + 1)
    elif isinstance(what, Collective):
        program[place] = replace(what, root=numbers.choice(what.comm.members))
    elif isinstance(what, Wait):
        program[place] = replace(what, is_any=not what.is_any, tries=numbers.choice((None, 0, 3)))
