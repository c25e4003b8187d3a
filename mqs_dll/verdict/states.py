"""What one process does, and what its threads wait for: the records between ``waits`` and the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from mqs_dll.job.records import CallStack
from mqs_dll.verdict.evidence import Evidence
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.results import Mode


class State(Enum):
    """What a process does."""

    BLOCKED = "blocked in MPI"
    OUTSIDE = "outside MPI"
    POLLS = "asks MPI whether something has happened"
    IN_MPI = "in an MPI call that does not block"
    """Or of which it isn't known what it blocks on."""
    IDLE = "read"
    """Its stacks can't be seen, and nothing that is pending in it proves that it is in a call that waits."""
    STOPPED = "stopped"
    """By a signal or another debugger, wherever it is: nothing is known of what it would do."""
    GONE = "gone"
    """It exited, or is in MPI_Finalize or behind it: it never sends or receives again."""
    NOT_READ = "not read"


@dataclass(eq=False, slots=True)
class ThreadWait:
    """What one thread in an MPI call waits for."""

    call: str | None
    """None where its stack can't be seen."""
    mode: Mode
    sure: bool
    """Whether these are exactly the needs of the call; else they are all that can be."""
    needs: list[Need]
    also: list[Need] = field(default_factory=list)
    """What has to happen besides, in any case."""
    either: list[Need] = field(default_factory=list)
    """Of these one has to happen besides; it isn't known which."""
    communicator: int | None = None
    """Of a collective call, where it is known."""
    guessed: bool = False
    """Whether it isn't known which requests the call was given: one may be a file's, say, which no queue has."""
    candidates: tuple[int, ...] = ()
    """The communicators that a collective call can be on."""

    @property
    def needs_all(self) -> Evidence:
        """Whether all of its needs have to be satisfied; else any one of them."""
        if self.mode is Mode.ANY:
            return Evidence.NO
        return Evidence.YES if self.sure and self.mode is Mode.ALL else Evidence.UNKNOWN

    def all_needs(self) -> tuple[Need, ...]:
        """Return every need of it."""
        return (*self.needs, *self.also, *self.either)


@dataclass(eq=False, slots=True)
class ProcessWait:
    """What one process does, and waits for."""

    state: State
    stack: CallStack | None
    """Of its main thread, or of the thread that is in MPI; None where it can't be seen."""
    threads: list[ThreadWait]
    """Those that are blocked; the process can go on as soon as one of them can."""
    free_thread: bool = False
    """Another of its threads can go on in any case."""

    @property
    def call(self) -> str | None:
        """The MPI call that it is in, and that hasn't called the program back."""
        if self.threads and self.threads[0].call is not None:
            return self.threads[0].call
        return None if self.stack is None else self.stack.waits_in
