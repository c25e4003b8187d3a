"""What a verdict says: frozen records. Processes are indices into Job.processes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class Outcome(IntEnum):
    """The answer in a word; the value is the command's exit code."""

    NOTHING_STUCK = 0
    PROVED = 1
    """A deadlock or a mismatch that nothing can resolve any more."""
    SUSPECTED = 2
    """Ranks wait, and something is odd; but what could resolve it isn't ruled out."""
    NOT_READ = 3
    """Too little could be read to say anything."""


class Certainty(Enum):
    """How sure a finding is."""

    PROVED = "proved"
    SUSPECTED = "suspected"
    NOTED = "noted"
    """Worth a line, but no sign of trouble."""


class Cause(Enum):
    """What kind of thing a finding is, the gravest first; the value is its name in JSON."""

    LAUNCHER = "wrong launcher"
    """Each process of the job has an MPI_COMM_WORLD of its own."""
    PARTNER = "partner of another group"
    """It waits for processes beyond its communicator: spawned ones, a client, a server, another group's leader."""
    TOO_SMALL = "receive too small"
    TAG = "tag mismatch"
    COMMUNICATOR = "wrong communicator"
    SOURCE = "wrong source"
    GONE = "peer gone"
    """Its peer exited, or called MPI_Finalize."""
    STOPPED = "stopped"
    """A signal or another debugger keeps it from running."""
    ROOTS = "different roots"
    """Ranks of one communicator are in the same rooted collective, and disagree about its root."""
    COUNTS = "different counts"
    """It waits in a collective call for data of one who has left that call, since it had none to send."""
    EPOCH = "epoch not ended"
    """Its peer is in a collective call, and has not made the one-sided one that comes first."""
    COLLECTIVE_ORDER = "different collectives"
    """Ranks of one communicator are in different collectives."""
    COLLECTIVE_MISSING = "collective not entered by all"
    UNDELIVERED = "matched, not delivered"
    """A send and a receive match, and their message doesn't come; or a matched probe keeps it."""
    LEFT_OUT = "collective left out"
    """It is stuck elsewhere, and what others have sent it in a collective call lies there."""
    PART = "part not ready"
    """Of a partitioned message, which its sender has to mark ready part by part."""
    SELF = "waits for itself"
    FORGOTTEN = "forgotten by the MPI"
    """Its message is here, and the MPI doesn't end the call."""
    CYCLE = "cycle"
    """Each waits for the next, and the last for the first."""
    KNOT = "knot"
    """Each waits for any of others, all of which wait within the same set."""
    OUTSIDE = "peer outside MPI"
    """A straggler: it computes, sleeps, or waits for something else than MPI."""
    NOT_READ = "not read"
    BEHIND = "waits behind a stuck rank"
    """Not part of the deadlock, but can't go on because of it."""
    UNEXPLAINED = "call that does not end"
    """It stands in a call of which it isn't known what it waits for."""
    FLOOD = "flood of messages"
    """Very many messages lie at it that it has no receive for."""
    DISPUTE = "queue and call differ"
    """What a queue has and what the arguments of the call say can't both be right: a bug of libmqs's."""
    PROGRESS = "progress"
    """Something changed between the samples."""


class Mode(Enum):
    """How many of a process's waits have to end before it goes on."""

    ALL = "all"
    """MPI_Waitall, MPI_Sendrecv."""
    ANY = "any"
    """MPI_Waitany, MPI_Waitsome."""
    UNKNOWN = "unknown"
    """One of them or several: which can't be seen."""


class WaitKind(Enum):
    """What a process waits in."""

    RECEIVE = "receive"
    SEND = "send"
    COLLECTIVE = "collective"
    CALL = "call"
    """An MPI call of which no operation can be seen."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that one process waits for: an arrow of the wait-for graph, or several when any peer would do."""

    process: int
    kind: WaitKind
    what: str
    """The MPI call or operation: "MPI_Recv", "MPI_Isend", "MPI_Barrier"."""
    communicator: str | None
    """Its name as the program gave it, made printable; None where it isn't known."""
    communicator_id: int | None
    """Its index in Verdict.communicators; None where it isn't known."""
    peers: tuple[int, ...]
    """The processes that could end it; empty where they aren't known."""
    any_source: bool
    """Whether any one of the peers will do."""
    peer_rank: int | None
    """The peer's rank in the communicator (of the remote group for an inter-communicator); None for any, or unknown."""
    tag: int | None
    """None for MPI_ANY_TAG and where it isn't known, and for collectives."""
    any_tag: bool
    length: int | None
    """Bytes of the buffer; None where they aren't known."""
    certainty: Certainty
    """PROVED: can't end any more. SUSPECTED: stays unless something unseen happens. NOTED: may well end."""
    window: str | None = None
    """Of a one-sided call, the window: "window 'halo'"; None where it isn't known."""
    from_call: bool = False
    """Whether it is known from the arguments of the call alone: no queue has it."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What one process does, in one phrase for a table's row."""

    call: str | None
    """The MPI call that it is in; None outside MPI or where it isn't known."""
    phrase: str
    """ "in MPI_Recv from rank 2, tag 7 on 'halo'", "outside MPI (sleeps)", "exited"."""
    where: str
    """The program's file and line, of Python where there is one; empty where not known."""
    mode: Mode
    certainty: Certainty | None
    """PROVED when it can never go on, SUSPECTED when it seems so; None when it isn't blocked."""
    halt: str = ""
    """What keeps it from running, other than we: "stopped by SIGSTOP", "held by gdb (PID 12)"; else empty."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth a line."""

    cause: Cause
    certainty: Certainty
    sentence: str
    """Whole, with ranks of MPI_COMM_WORLD in ranges, tags and the communicator's name."""
    advice: str
    """What to check in the program, or what to do to learn more; empty where nothing helps."""
    processes: tuple[int, ...]
    """Whom it is about; of a cycle, in its order."""
    communicator_id: int | None
    """Its index in Verdict.communicators; None where it is about none or several."""
    frees: int = 0
    """How many of the stuck ranks could go on if this alone were otherwise; 0 also where that wasn't asked."""


@dataclass(frozen=True, slots=True)
class CommunicatorFacts:
    """One communicator of the job, joined from what its processes say."""

    name: str
    """Printable; as most of its processes have it."""
    unique_id: int
    size: int
    """Of the local group, as its processes say."""
    members: tuple[int | None, ...]
    """By local rank; None where it isn't known which process that is."""
    remote: int | None
    """For one side of an inter-communicator, the index of the other side where it is known."""
    description: str = ""
    """Printable; of one without a name, in libmqs's words: "dup of halo exchange"."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a job."""

    outcome: Outcome
    headline: str
    """One sentence, to be read at three in the morning."""
    findings: tuple[Finding, ...]
    """The gravest first."""
    waits: tuple[Wait, ...]
    """Of the last sample; by process."""
    activities: tuple[Activity, ...]
    """One for each process, in the order of Job.processes."""
    communicators: tuple[CommunicatorFacts, ...]
