"""One rank of a live job, kept open between samples: whatever is in its way becomes a sentence, never an error."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from mqs_dll.contract.errors import (
    BrokenStructureError,
    LayoutError,
    MqsError,
    NoMainThreadError,
    NoSuchProcessError,
    NotInitializedError,
    NotPermittedError,
    ProcessError,
    StopError,
    TargetReadError,
    UnknownMpiError,
)
from mqs_dll.debugger.access import check_readable
from mqs_dll.debugger.collect import TOO_LONG, OpenQueues, ProcessReader, ReadFurther
from mqs_dll.debugger.job.calls_only import NO_FUNCTIONS, CallsOnly, has_mpi
from mqs_dll.debugger.job.copied import Copied
from mqs_dll.debugger.job.footprint import Footprint, merged
from mqs_dll.debugger.job.halt import by_cgroup, by_signal, of_running, turns_of
from mqs_dll.debugger.job.locks import lock_of
from mqs_dll.debugger.job.peek import CallFrame
from mqs_dll.debugger.job.stacks import Captured, StackTracer, capture, unwind
from mqs_dll.debugger.live import LiveProcess, environment_variable, missing_files
from mqs_dll.debugger.proc import read_stat, read_status, slices
from mqs_dll.debugger.stopping.holder import Holder
from mqs_dll.debugger.stopping.limit import Limit
from mqs_dll.debugger.stopping.stop import all_stopped, stopped
from mqs_dll.job.facts import Obstacle, explain, sizes_by_handle
from mqs_dll.job.found import FoundRank
from mqs_dll.job.records import CallStack, Halt, RankState
from mqs_dll.job.snapshot import Hidden, Snapshot

CURRENT_TEST = "PYTEST_CURRENT_TEST"
"""The variable in which pytest has the test that runs."""
_REHEARSAL = 0.2
"""Seconds after which a library that reads to know what to copy lists no more of long queues."""
_LONGEST_REHEARSAL = 2.0
"""Seconds after which it reads no more."""
_TRIES = 5
"""To see a process's Python while it stands."""
MAX_TEST = 300
"""Characters of a test's name that are kept."""


class LiveRank:
    """A rank, opened when it is first asked for, and again when it couldn't be opened."""

    def __init__(self, found: FoundRank, open_queues: OpenQueues, size: int = 0) -> None:
        """Initialize; nothing of the process is touched yet.

        Args:
            found: the rank.
            open_queues: returns the library to read it with.
            size: of its MPI_COMM_WORLD, for an MPI whose memory doesn't have it; 0 where it isn't known.
        """
        self.found = found
        self._size = size
        self.snapshot: Snapshot | None = None
        """What the last sample has read, None where it read nothing."""
        self.stacks: tuple[CallStack, ...] | Hidden = ()
        """Those of the last sample; empty where none were captured."""
        self.test = ""
        """As JobProcess has it, of the last sample."""
        self.halt: Halt | None = None
        """What kept it standing in the last sample, other than we."""
        self._in_vain = 0
        """How often it was stopped again for its stacks, and nothing seen."""
        self.stopped_again = 0.0
        """Seconds that it was stopped for its stacks alone, in the last sample."""
        self.slices = 0
        """As Sample has it, of the last sample."""
        self._failure: MqsError | None = None
        self._open_queues = open_queues
        self._process: LiveProcess | None = None
        self._tracer: StackTracer | None = None
        self._reader: ProcessReader | None = None
        self._is_calls_only = False
        self._captured: Captured | None = None
        self._memory: Copied | None = None
        self._knows_places = False
        """Whether what was read last is all that has to be copied."""
        self._is_foreign = False
        """Whether its library is one that was loaded from a file: it may read for ever where no limit ends it."""
        self._rehearsed: set[ReadFurther | None] = set()
        """What was asked for besides the queues when the library read to know what to copy."""
        self.size_of_copy: int | None = None
        """How many bytes a copy has, None where it has to be read while it stands."""
        self._is_copied = False
        """Whether a copy was made, or is being made, and not read yet."""

    @property
    def started(self) -> int | None:
        """When the process was started (proc.Stat), None before it is open."""
        return self._process.started if self._process else None

    @property
    def is_open(self) -> bool:
        """Whether it can be stopped and read."""
        return self._reader is not None

    def open(self) -> None:
        """Let the library find its way in the process, which runs; one known to be out of reach is left alone."""
        if self.found.state is None and not self.is_open:
            try:
                self._open()
            except MqsError as error:
                self.refuse(error)

    def prepare_copy(self, read_further: ReadFurther | None) -> None:
        """Prepare to copy what the library read last; the process runs.

        The library reads once now, as it will in the sample, unless it has read as much in one before, all of a copy.
        """
        self.size_of_copy, self._is_copied = None, False  # what a stop has left that failed is of another moment
        if self._reader is None or self._memory is None or self._is_foreign:
            return
        if read_further not in self._rehearsed or self._memory.has_missed:
            self._rehearsed.add(read_further)
            with self._memory.within(_LONGEST_REHEARSAL):
                self.read(read_further, until=time.monotonic() + _REHEARSAL)
        if self._knows_places:
            self.size_of_copy = self._memory.prepare()

    def copied_by(self, stop_signal: int) -> Callable[[], None]:
        """Return what copies a process that we have stopped, and that a signal had stopped before (0 where none)."""
        assert self._memory is not None
        self.halt = self.halt or by_signal(stop_signal)
        self._is_copied = True
        return self._memory.copy

    def read_copy(self, read_further: ReadFurther | None, seconds: float) -> bool:
        """Read what was copied; return False when that isn't all, so that it is to be read while it stands.

        Args:
            read_further: as read has it.
            seconds: that it may take.
        """
        if not self._is_copied:
            return True
        assert self._memory is not None
        captured, self._is_copied = self._captured, False
        self._memory.add_stacks(captured.threads if captured else ())
        try:
            with self._memory.within(seconds):
                self.read(read_further)
        finally:
            self._memory.drop()
        self._captured = captured
        if self._memory.has_missed:
            self.size_of_copy = None
        return not self._memory.has_missed

    def read(self, read_further: ReadFurther | None = None, until: float = math.inf) -> None:
        """Read the queues, the long ones ``until`` some time, and what ``read_further`` asks for."""
        self.snapshot = self._failure = self._captured = None
        assert self._reader is not None
        assert self._memory is not None
        self._memory.begin_read()
        try:
            self.snapshot = self._reader.read(read_further, until=until)
        except LayoutError as error:
            self._read_calls_only(error)
        except MqsError as error:
            self.refuse(error)
        if self.snapshot is not None and self._is_calls_only:
            self.snapshot = replace(self.snapshot, calls_only=True)
        self._knows_places = self.snapshot is None or not _is_cut(self.snapshot)

    def find_halt(self) -> Halt | None:
        """Find out, before it is to be stopped, whether its cgroup is frozen, and return that."""
        self.halt = by_cgroup(self.found.pid)
        return self.halt

    def read_stopped(self, stop_signal: int, read_further: ReadFurther | None, until: float) -> None:
        """Read a process that we have stopped, and that a signal had stopped before (0 where none)."""
        self.halt = self.halt or by_signal(stop_signal)
        self.read(read_further, until)

    def read_frozen(self, read_further: ReadFurther | None) -> None:
        """Read the queues of a process that its cgroup's freezer keeps out of our reach."""
        thawed = StopError(f"process {self.found.pid} was frozen by its cgroup, and has gone on while it was read")
        self.read_held(thawed, read_further)

    def read_held(self, refusal: MqsError, read_further: ReadFurther | None) -> None:
        """Read the queues of a process that something else holds, and that stands all the while; else refuse it."""
        turns, halt = turns_of(self.found.pid), of_running(self.found.pid)
        self.halt = halt
        if halt is not None:
            self.read(read_further)
        if halt is None or of_running(self.found.pid) != halt or turns_of(self.found.pid) != turns:
            self.refuse(refusal)

    def read_running(self) -> None:
        """Read the queues of a process that runs: what has changed under the library's hands is read once more."""
        self.halt = of_running(self.found.pid)
        self.read()
        if self.is_open and (self.snapshot is None or self.snapshot.is_broken):
            self.read()

    def capture(self, stop: all_stopped) -> None:
        """Keep the stacks of the process, which stands still, and how often its main thread ran before."""
        self.slices = slices(self.found.pid)
        if self._process is not None and (self._is_copied or self._has_stacks()):
            self._captured = capture(self._process, stop.registers(self.found.pid))

    def _has_stacks(self) -> bool:
        """Return whether its stacks are wanted: it was read, or is in MPI_Init."""
        return self.snapshot is not None or isinstance(self._failure, NotInitializedError)

    def unwind(self, limit: Limit, holder: Holder | None) -> None:
        """Follow the stacks that were captured in the last sample; the process may run.

        One that runs Python may be stopped once more, for as long as a limit, by a holder.
        """
        captured, self._captured = self._captured if self._has_stacks() else None, None
        self.stacks, self.test = (), ""
        self.stopped_again = 0.0
        process = self._process
        if captured and process:
            sizes = {} if self.snapshot is None else sizes_by_handle(self.snapshot)
            again = stopped(self.found.pid, process.started, limit=limit, holder=holder)
            stacks = unwind(captured, process, self._tracer, sizes, again if self._in_vain < _TRIES else None)
            self.stopped_again = again.stop_time
            self.stacks = stacks if isinstance(stacks, Hidden) else tuple(_with_lock(each, process) for each in stacks)
            has_python = not isinstance(stacks, Hidden) and any(stack.python for stack in stacks)
            self._in_vain = 0 if has_python else self._in_vain + (again.stop_time > 0)
            if has_python:
                self.test = environment_variable(process, CURRENT_TEST).decode(errors="replace")[:MAX_TEST]

    def watched(self) -> tuple[LiveProcess, list[CallFrame]] | None:
        """Return the process with the frames of the MPI calls that it was in, None where none is known."""
        is_frozen = self.halt is not None and self.halt.frozen  # it can't leave its call
        if self._process is None or isinstance(self.stacks, Hidden) or is_frozen:
            return None
        frames = [(stack.thread, *stack.call_frame) for stack in self.stacks if stack.call_frame]
        return (self._process, frames) if frames else None

    def footprint(self) -> Footprint | None:
        """Return where the last sample read its queues, None where it read none."""
        if self._reader is None or self.snapshot is None or self.started is None or self._is_calls_only:
            return None
        return Footprint(self.found.pid, self.started, merged(self._reader.places()))

    def refuse(self, error: MqsError) -> None:
        """Note what is in the way of reading it now."""
        self.snapshot = None
        self._failure = error

    @property
    def transient(self) -> bool:
        """As JobProcess has it, of the last sample."""
        if self.snapshot is not None:
            return self.snapshot.is_broken
        return isinstance(self._failure, BrokenStructureError | NotInitializedError | TargetReadError)

    def obstacle(self) -> Obstacle:
        """Return what was in its way, when the last sample read nothing; ask when no process is stopped any more."""
        if self.found.state is not None:
            return Obstacle(self.found.state, self.found.why, self.found.remedy)
        assert self._failure is not None
        obstacle = explain(self._true_cause(self._failure))
        if obstacle.state is RankState.EXITED:  # for good: its PID may be given to another process
            self.found = replace(self.found, state=obstacle.state, why=obstacle.why)
            self.close()
        elif not self.is_open:
            self.close()  # its libraries may not have been there yet: the next sample opens it again
        return obstacle

    def close(self) -> None:
        """Let go of the process. Idempotent."""
        reader, self._reader = self._reader, None
        process, self._process = self._process, None
        self._tracer = self._memory = None
        try:
            if reader is not None:
                reader.close()
        finally:
            if process is not None:
                process.close()

    def _open(self) -> None:
        pid = self.found.pid
        self._process = LiveProcess(pid, self.found.started)
        self._memory, self._knows_places = Copied(self._process), False
        self._rehearsed.clear()
        self._tracer = StackTracer(self._process.program, self._process.fetch)
        try:
            library, path = self._open_queues(self._process)
            self._is_foreign = path is not None
            self._reader = ProcessReader(
                library, self._memory, pid=pid, program=read_status(pid).name, library_path=path
            )
        except UnknownMpiError as error:
            refusal = UnknownMpiError(f"{error}{missing_files(self._process.image)}")
            if not has_mpi(self._process.image):
                raise UnknownMpiError(f"{refusal}; {NO_FUNCTIONS}") from error
            if not self._size:
                raise refusal from error
            self._look_at_calls(refusal)

    def _look_at_calls(self, refusal: MqsError) -> None:
        """Do without a library, which refused to read the process."""
        assert self._process is not None
        assert self._memory is not None
        pid, library = self.found.pid, CallsOnly(self._process.image, self.found.rank, self._size, str(refusal))
        self._reader, self._is_calls_only = (
            ProcessReader(library, self._memory, pid=pid, program=read_status(pid).name),
            True,
        )

    def _read_calls_only(self, refusal: LayoutError) -> None:
        """Read a process without its library, which found no layout that fits it."""
        assert self._process is not None
        if not self._size or not has_mpi(self._process.image):
            self.refuse(refusal)
            return
        if self._reader is not None:
            self._reader.close()
        self._look_at_calls(refusal)
        assert self._reader is not None
        self.snapshot = self._reader.read()

    def _true_cause(self, error: MqsError) -> MqsError:
        """Return that the process has exited, when that is why it couldn't be read."""
        try:
            check_readable(self.found.pid)
        except NoSuchProcessError as gone:
            return gone if read_stat(self.found.pid) else NoSuchProcessError(f"process {self.found.pid} has exited")
        except ProcessError as other:
            if isinstance(other, NoMainThreadError):
                return other
            if not isinstance(other, NotPermittedError):  # it has no program any more
                return NoSuchProcessError(f"process {self.found.pid} is exiting")
        except MqsError:
            pass
        return error


def _is_cut(snapshot: Snapshot) -> bool:
    """Return whether a queue was too long to list all of it."""
    return any(queue.broken == TOO_LONG for each in snapshot.communicators for queue in each.queues)


def _with_lock(stack: CallStack, process: LiveProcess) -> CallStack:
    """Return a stack with the lock that its thread waits for outside MPI."""
    lock = lock_of(process.pid, stack, process.fetch) if stack.call is None else None
    return replace(stack, lock=lock) if lock else stack
