"""What all ranks and the network hold at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from tests.support.simulator.programs import Act, Comm


class Kind(Enum):
    """What an operation is."""

    SEND = "send"
    RECEIVE = "receive"
    PROBE = "probe"
    UNSEEN = "one that no queue has"


@dataclass(frozen=True)
class Request:
    """An operation of a rank, whether or not the program has a request for it."""

    number: int
    """Of all of the job."""
    rank: int
    kind: Kind
    peer: int = -1
    tag: int = -1
    comm: Comm | None = None
    internal: str = ""
    """The collective call that it is a piece of; empty for the program's own."""
    entry: int = 0
    """Of a piece of a collective call that ends when all have made it: which one of its rank on the communicator."""
    is_blocking: bool = False
    ends_itself: bool = False
    order: int = 0
    """Of a send, which message it is to its receiver on its communicator; of a receive, of all the rank has posted."""


@dataclass(frozen=True)
class Message:
    """A message that no receive has matched."""

    source: int
    target: int
    tag: int
    comm: Comm | None
    internal: str
    order: int
    """Which one it is of its sender to its receiver on its communicator, from 1."""
    send: int
    """The number of its request."""
    is_slow: bool = False
    """The network has it for longer than any sampler waits."""


@dataclass(frozen=True)
class Phase:
    """A part of a collective call: what it sends and receives at once, before the next part."""

    sends: tuple[int, ...]
    receives: tuple[int, ...]
    internal: str
    turns: int = 0
    """In a function of the program's, before it."""


@dataclass(frozen=True)
class Call:
    """The MPI call that a thread is in."""

    name: str
    waits: tuple[int, ...]
    """Numbers of requests; of a collective call those of the phase that it is in."""
    is_any: bool = False
    tries: int | None = None
    """None for one that blocks; of one that only asks, how often the program still repeats it; 0 forever."""
    comm: Comm | None = None
    root: int | None = None
    phases: tuple[Phase, ...] = ()
    """That follow."""
    entry: int = 0
    """As in Request."""
    in_callback: int = 0
    """Turns that the program's function, which it has called, still takes."""
    is_end: bool = False


@dataclass(frozen=True)
class Thread:
    """A thread of a rank."""

    rank: int
    number: int
    """In its rank; the main thread is 0."""
    program: tuple[Act, ...]
    at: int = 0
    turns: int = 0
    """That it still computes."""
    call: Call | None = None
    around: str = ""
    """The call in whose callback it is."""
    left: int = 0
    """Calls that have returned."""

    @property
    def has_ended(self) -> bool:
        """Whether it has."""
        return self.at >= len(self.program)


@dataclass
class State:
    """One moment of a job."""

    threads: list[Thread]
    requests: dict[int, Request] = field(default_factory=dict)
    """By number, all that were ever made."""
    names: dict[tuple[int, str], int] = field(default_factory=dict)
    """The numbers of a rank's requests by what its program calls them."""
    hidden: dict[tuple[int, str], int] = field(default_factory=dict)
    """The same of requests that no queue has, also after their end."""
    waiting: tuple[int, ...] = ()
    """Receives and probes that have no message, in the order of their posting."""
    under_way: dict[tuple[int, int], tuple[Message, ...]] = field(default_factory=dict)
    """By sender and receiver, in the order of sending."""
    unexpected: dict[int, tuple[Message, ...]] = field(default_factory=dict)
    """By receiver, in the order of arrival."""
    complete: frozenset[int] = frozenset()
    sent: dict[tuple[int, int, Comm | None], int] = field(default_factory=dict)
    """Messages by sender, receiver and communicator; those that came likewise."""
    arrived: dict[tuple[int, int, Comm | None], int] = field(default_factory=dict)
    entered: dict[tuple[int, Comm | None], tuple[str, ...]] = field(default_factory=dict)
    """By rank and communicator, the collective calls that it has made."""
    received: dict[tuple[int, int], Message] = field(default_factory=dict)
    """By receiver and number of the receive, the message that it has got."""

    @property
    def ranks(self) -> range:
        """All ranks."""
        return range(max(thread.rank for thread in self.threads) + 1)

    def of(self, rank: int) -> list[Thread]:
        """Return the threads of a rank."""
        return [thread for thread in self.threads if thread.rank == rank]

    def copy(self) -> State:
        """Return the same state, which changes by itself."""
        return replace(
            self,
            threads=[*self.threads],
            requests={**self.requests},
            names={**self.names},
            hidden={**self.hidden},
            under_way={**self.under_way},
            unexpected={**self.unexpected},
            sent={**self.sent},
            arrived={**self.arrived},
            entered={**self.entered},
            received={**self.received},
        )

    def is_over(self, call: Call) -> bool:
        """Return whether enough has ended for a call to end, or for its next phase to start."""
        over = [number in self.complete for number in call.waits]
        return (any(over) or not over) if call.is_any else all(over)
