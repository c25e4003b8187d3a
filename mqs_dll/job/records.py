"""What was read of a whole job: frozen records, which a file can hold and a verdict is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from mqs_dll.job.snapshot import Hidden, Snapshot

LIVE, CORE_FILES, GDB = "live", "core files", "gdb"
"""Where a job is read from (Job.source)."""


class RankState(Enum):
    """What became of a rank when it was to be read."""

    READ = "read"
    NOT_INITIALIZED = "before MPI_Init"
    FINALIZED = "after MPI_Finalize"
    """Alive, but its communicators are gone."""
    EXITED = "exited"
    """There is no such process any more, or only a zombie."""
    UNREADABLE = "not read"
    """It may wait or compute: nothing is known."""


class Language(Enum):
    """What a frame's line is written in."""

    NATIVE = "native"
    """C, C++, Fortran: whatever a compiler made machine code of."""
    PYTHON = "python"


class CodeOwner(Enum):
    """Who wrote the code of a module."""

    PROGRAM = "program"
    """The user, or the author of a library that the user chose."""
    MPI = "MPI"
    RUNTIME = "runtime"
    """What every program has: the C library and its like."""
    PYTHON = "Python"
    """The Python interpreter and its modules, or mpi4py."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One function that a thread is in."""

    function: str
    """Empty where no symbol is known."""
    module: str
    """The base name of the program or library that it lies in, of a Python frame the Python module's file."""
    file: str | None
    """The source file; None without debug information."""
    line: int | None
    language: Language = Language.NATIVE
    owner: CodeOwner = CodeOwner.PROGRAM
    """Whose code it is; of what was saved before that was read, the program's."""
    address: int = 0
    """Where its code lies in the module's file, as linked; 0 where a name is known, or no module."""

    @property
    def runs_python(self) -> bool:
        """Whether it is the function of CPython that runs Python functions (3.6 and later: Python/ceval.c)."""
        return self.function == "_PyEval_EvalFrameDefault" and self.owner is CodeOwner.PYTHON


class ArgumentEvidence(Enum):
    """Where an argument of an MPI call is known from."""

    CALLEE = "kept by the MPI"
    CALLER = "computed by the caller"
    BOTH = "kept by the MPI, and computed by the caller"
    """They agree; where they don't, the argument is unknown."""


class Argument(NamedTuple):
    """An argument of the MPI call that a thread is in, as machine code, registers and stack have it."""

    name: str
    """Of the parameter, as the MPI standard's C binding has it: "source", "tag", "comm"."""
    value: int
    """As C has it: an int is signed, a pointer is not; a handle is 4 bytes in MPICH, a pointer in Open MPI."""
    evidence: ArgumentEvidence
    reread: bool = False
    """Whether it rests on memory that was read after the stop, when the call's frame was still as it had been."""
    called: str = ""
    """What the MPI calls the value: "MPI_ANY_SOURCE", "MPI_DOUBLE", "MPI_COMM_WORLD"; empty for one without a name."""
    elements: tuple[int, ...] = ()
    """Of an array of requests, or of counts for each process: what it holds, read again like ``reread``; empty where
    that isn't known."""


class Repeat(NamedTuple):
    """Frames of a recursion, which are left out but for one turn."""

    start: int
    """The place in CallStack.frames of the first of them."""
    length: int
    """How many frames a turn has: 1 for a function that calls itself."""
    times: int
    """How many turns there are in a row."""


MUTEX, FILE_LOCK = "mutex", "file lock"


@dataclass(frozen=True, slots=True)
class Lock:
    """What a thread outside MPI waits for, and who holds it."""

    kind: str
    """MUTEX or FILE_LOCK."""
    pid: int
    """The process that holds it, on the same machine."""
    thread: int = 0
    """The thread of that process; 0 where the kernel doesn't report it."""
    name: str = ""
    """The process's name; empty for one of the same process."""


@dataclass(frozen=True, slots=True)
class CallStack:
    """Where one thread is."""

    thread: int
    """Its ID, for the kernel; the PID for the main thread."""
    call: str | None
    """The MPI function that the program called, like "MPI_Recv" (never "PMPI_Recv"); None outside MPI."""
    caller: Frame | None
    """The program's own innermost frame: where it called MPI, or is outside MPI. None where it can't be determined."""
    python: Frame | None
    """The innermost Python line that isn't mpi4py's; None in a program without Python, or where it isn't known."""
    frames: tuple[Frame, ...]
    """Innermost first; as far as the stack could be followed. Where Python functions are known, they stand in place of
    the interpreter's frames that run them. Of frames that repeat in a row there is one turn."""
    fingerprint: str
    """A hash of the program's own part of the stack: what it has in frames outside MPI. Where two samples differ, the
    program went on between them; empty where it could not be taken."""
    call_frame: tuple[int, int] | None = None
    """Address and size in bytes of the MPI call's own frame, up to its return address: it stays as it is as long as the
    call lasts. None outside MPI, or where it can't be determined."""
    arguments: tuple[Argument, ...] = ()
    """What is known of the call's arguments, in their order; one that is missing is unknown."""
    callback: Frame | None = None
    """The program's innermost function that runs inside of the MPI call: a reduction, what an attribute or an error
    calls, a signal handler. It may do anything, also call MPI. None where there is none."""
    lock: Lock | None = None
    """The lock that a thread outside MPI waits for; None where it is seen to wait for none."""
    in_call: int = 0
    """How many of the innermost frames are of the MPI call, that of the MPI function among them."""
    complete: bool | None = None
    """Whether the frames reach the thread's first function; None where that isn't known."""
    repeats: tuple[Repeat, ...] = ()
    """Which of the frames stand for several in a row, innermost first."""

    @property
    def waits_in(self) -> str | None:
        """The MPI call that may keep it; None outside MPI, and in what such a call has called back."""
        return self.call if self.callback is None else None

    @property
    def of_program(self) -> Frame | None:
        """Where the program is: its line of Python where there is one, else the innermost function that is its own."""
        return self.python or self.callback or self.caller

    @property
    def requests(self) -> set[int]:
        """The requests that the call was given; empty where they aren't known."""
        known = (each for each in self.arguments if each.name in ("request", "array_of_requests"))
        return {handle for each in known for handle in each.elements}

    def argument(self, name: str) -> Argument | None:
        """Return an argument of the MPI call by the name of its parameter, None where it is unknown."""
        return next((each for each in self.arguments if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Halt:
    """What kept a process from running, other than we: a signal, another debugger, or the freezer of its cgroup."""

    signal: str
    """Its name, like "SIGSTOP"; empty where it isn't known, or where a debugger holds the process."""
    tracer: int = 0
    """The PID of the debugger that holds it; 0 where none does."""
    debugger: str = ""
    """The debugger's name, as the kernel has it."""
    frozen: str = ""
    """The file by which its cgroup was frozen: cgroup.freeze, or freezer.state in a hierarchy of version 1. Empty where
    it isn't frozen."""

    @property
    def out_of_reach(self) -> bool:
        """Whether the kernel doesn't stop it for a debugger: a freezer of version 1 keeps it in state D."""
        return self.frozen.endswith("/freezer.state")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one rank."""

    at: float
    """Seconds since the job's first stop."""
    snapshot: Snapshot
    stacks: tuple[CallStack, ...] | Hidden
    """The main thread's first, then those of other threads that are inside MPI, then those of threads outside MPI that
    might call it, one for each place. Hidden where they can't be determined, or weren't asked for."""
    progressed: bool = False
    """Whether the rank was seen to go on since the sample before, while it ran: the frame of an MPI call that it was in
    then changed meanwhile. False also where nobody could watch."""
    watched: bool = False
    """Whether it would surely have been seen if the rank had left its MPI calls since the sample before, even to make
    the same call again at once."""
    watched_for: float = 0.0
    """For how many seconds, without a break, that would have been seen."""
    halt: Halt | None = None
    """What kept it standing before and after the sample; None for a rank that ran."""
    slices: int = 0
    """How many time slices its main thread had had by then (schedstat); 0 where that isn't known."""


STARTING = frozenset({"MPI_Init", "MPI_Init_thread", "MPI_Session_init"})


@dataclass(frozen=True, slots=True)
class Start:
    """One sample of one rank before MPI_Init has ended: there are no queues yet."""

    at: float
    """As Sample.at."""
    stacks: tuple[CallStack, ...] | Hidden
    """As Sample.stacks."""

    @property
    def inside(self) -> CallStack | None:
        """The stack of the thread that is in MPI_Init; None where none is seen to be there."""
        stacks = () if isinstance(self.stacks, Hidden) else self.stacks
        return next((stack for stack in stacks if stack.call in STARTING), None)

    @property
    def stack(self) -> CallStack | None:
        """Where the process is: the stack of the thread in MPI_Init, else the main thread's; None if not known."""
        return self.inside or (None if isinstance(self.stacks, Hidden) else next(iter(self.stacks), None))


def in_mpi(stacks: tuple[CallStack, ...]) -> tuple[CallStack, ...]:
    """Return the main thread's stack, and those of other threads that are inside MPI."""
    return (*stacks[:1], *(stack for stack in stacks[1:] if stack.call is not None))


Identity = tuple[int, str, int, int | None]
"""What identifies a process among the others of its job: world, host, PID, rank."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """One rank of a job."""

    world: int
    """Which MPI_COMM_WORLD it belongs to: 0 is what the launcher started, others were spawned."""
    rank: int | None
    """In its MPI_COMM_WORLD; None where it isn't known."""
    host: str
    pid: int
    """0 where it was never seen: a rank that must have been there, because MPI_COMM_WORLD has it."""
    program: str
    """The file that it runs, or its name; for a Python program, the script."""
    state: RankState
    why: str
    """A sentence: what is in the way of reading it, empty where nothing is."""
    remedy: str
    """What to do about that; empty where nothing helps."""
    samples: tuple[Sample, ...]
    """Oldest first; empty unless it was read."""
    starts: tuple[Start, ...] = ()
    """Oldest first; empty unless it is before the end of MPI_Init."""
    test: str = ""
    """The test that it is in, as pytest has it in PYTEST_CURRENT_TEST: "tests/test_halo.py::test_swap (call)"."""
    transient: bool = False
    """Whether the next sample may well show what the last one could not read: its memory contradicted itself, as
    it does while a call changes it."""

    @property
    def identity(self) -> Identity:
        """What it keeps from sample to sample: its host and PID, where it has one, else its rank."""
        return self.world, self.host, self.pid, None if self.pid else self.rank


@dataclass(frozen=True, slots=True)
class Job:
    """All ranks of one job, as they were at one time, or at several."""

    title: str
    """The launcher's command line, or what stands for it."""
    source: str
    """Where it was read from: LIVE, CORE_FILES or GDB."""
    host: str
    taken: str
    """When, as ISO 8601 in UTC."""
    mpi: str
    """As the library calls it: "Open MPI 4.1.4, pml/ob1"; empty where no rank could be read."""
    launcher: int | None
    """Its PID."""
    stopped: bool
    """Whether the ranks stood still while they were read; else what they say may not fit together."""
    stop_time: float
    """Seconds for which the job stood still, the longest of all samples."""
    interval: float
    """Seconds between two samples; 0 with one."""
    sizes: tuple[int | None, ...]
    """The size of each MPI_COMM_WORLD, in the order of JobProcess.world; None where no rank of it could be read."""
    processes: tuple[JobProcess, ...]
    """By world, then by rank. Places in it are how verdicts name processes."""
    counted: bool = True
    """Whether the kernel was asked to count who leaves an MPI call between two samples; False with --no-count."""
    stop_skew: float = 0.0
    """Seconds from the order to stop until the ranks of the last machine stood, the longest of all samples: no two
    ranks have a larger stop skew. 0 where one machine was read."""

    launcher_waits: str = ""
    """What its launcher waits for though all ranks have exited: the end of a sentence; empty where nothing is seen."""

    @property
    def by_network(self) -> bool:
        """Whether messages between its ranks go over a network: they run on several machines."""
        return len({process.host for process in self.processes if process.host}) > 1

    @property
    def is_open_mpi(self) -> bool:
        """Whether its MPI is Open MPI; False for MPICH and its derivatives, and where no rank could be read."""
        return self.mpi.startswith("Open MPI")
