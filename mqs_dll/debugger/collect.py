"""Driving an MQS library over a stopped process, as debuggers do, into one frozen record: the Snapshot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from mqs_dll.contract.abi import Label, Operation, Queue, TypeSizes
from mqs_dll.contract.errors import BrokenStructureError, MqsError, NoInformation
from mqs_dll.contract.interface import ProcessQueues, QueueLibrary, TargetImage, TargetProcess
from mqs_dll.contract.names import read_marks
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.proc import read_status
from mqs_dll.debugger.stopping.limit import USUAL, Limit
from mqs_dll.debugger.stopping.stop import begin_holder, stopped
from mqs_dll.job.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot, Snapshot

if TYPE_CHECKING:
    from mqs_dll.debugger.live import LiveProcess  # needs drgn, which gdb doesn't have

_MAX_COMMUNICATORS = 1 << 17
_MAX_OPERATIONS = 1 << 19
_MAX_MEMBERS = 1 << 22
"""Of one process, and of all its communicators together: more than any has. A library that goes on listing is going
round in a circle, and each operation takes half a kilobyte here."""

_BETWEEN_LOOKS = 1 << 8
"""Operations of a queue between two checks of the clock: as many are listed of any queue."""

_MAX_PLACES = 1 << 12

SHARE = 0.2
"""Of the time for which processes may be kept stopped, for what listing their queues may take."""

TOO_LONG = "to list all would keep the process stopped for too long"
MORE_TIME = "give it more time, with --limit"

OpenQueues = Callable[[TargetProcess], tuple[QueueLibrary, str | None]]
"""Takes a process and returns the library to read it with, and the library's file if it has one."""

ReadFurther = Callable[[ProcessQueues, TargetProcess], CoreView]
"""Asks at the end of a sample for more, given what the library made of the process."""


class ProcessReader(Closes):
    """A library's way into one process: found while the process runs, gone as often as wanted while it stands.

    Usable as a context manager that closes it.
    """

    def __init__(
        self,
        library: QueueLibrary,
        process: TargetProcess,
        *,
        pid: int,
        program: str,
        library_path: str | None = None,
    ) -> None:
        """Let a library read a process's image, and what doesn't move in the process itself.

        What it can't read of the process now, because it runs, it will read, or refuse, in ``read``.

        Args:
            library: any MQS library.
            process: the process, which may run; a core file will do.
            pid: its PID, for the record.
            program: its name, for the record.
            library_path: the library's file, for the record.

        Raises:
            MqsError: the library can't read this image.
        """
        self._library = library
        self._library_path = library_path
        self._process = process
        self._pid = pid
        self._program = program
        self._counting = CountingProcess(process)
        with ExitStack() as stack:
            image = stack.enter_context(closing(library.setup_image(process.image)))
            self._image_message = image.has_queues()
            self._queues = stack.enter_context(closing(image.setup_process(self._counting)))
            with suppress(MqsError):
                self._queues.has_queues()
            self._sessions = stack.pop_all()

    def read(
        self,
        read_further: ReadFurther | None = None,
        on_communicator: Callable[[int], None] | None = None,
        until: float = math.inf,
    ) -> Snapshot:
        """Let the library list the queues; what it says fits together only while the process stands.

        Args:
            read_further: called at the end with what the library made of the process.
            on_communicator: called before each communicator with the number of those that are done.
            until: when long queues are cut, by time.monotonic().

        Returns:
            What it said, with a stop time of 0: the caller, who stopped the process, knows how long it stands.

        Raises:
            MqsError: the library can't read this process.
        """
        queues = self._queues
        reads_before, bytes_before = self._counting.reads, self._counting.bytes_read
        self._counting.places.clear()
        process_message = queues.has_queues()
        global_rank = _global_rank(queues)
        communicators = _read_communicators(queues, on_communicator, until)
        reads, bytes_read = self._counting.reads - reads_before, self._counting.bytes_read - bytes_before
        return Snapshot(
            pid=self._pid,
            program=self._program,
            library=self._library.version_string(),
            library_path=self._library_path,
            image_message=self._image_message,
            process_message=process_message,
            global_rank=global_rank,
            communicators=communicators,
            core=read_further(queues, self._process) if read_further else CoreView(),
            stop_time=0.0,
            reads=reads,
            bytes_read=bytes_read,
        )

    def find_way(self, read_further: ReadFurther) -> None:
        """Let one who will read further find its way in the process, which runs: what it says now is dropped."""
        read_further(self._queues, self._process)

    def places(self) -> list[tuple[int, int]]:
        """Return where the last sample read, and how many bytes; of very many reads the first."""
        return list(self._counting.places)

    def close(self) -> None:
        """Let the library forget the process and its image. Idempotent."""
        self._sessions.close()


def take_snapshot(
    library: QueueLibrary,
    process: LiveProcess,
    *,
    library_path: str | None = None,
    read_further: ReadFurther | None = None,
    on_communicator: Callable[[int], None] | None = None,
    in_stop: Callable[[stopped], None] | None = None,
    limit: Limit = USUAL,
) -> Snapshot:
    """Stop a process, let a library list its queues, and let it go on.

    Args:
        library: any MQS library.
        process: the process, which runs until the library has read its image.
        library_path: the library's file, for the record.
        read_further: called at the end of the stop with what the library made of the process.
        on_communicator: called before each communicator with the number of those that are done.
        in_stop: called when all is read, while the process still stands.
        limit: for how long the process may stand.

    Raises:
        LimitError: it stood for too long, and had to be let go before all was read.
        ProcessError: the process can't be stopped.
        MqsError: the library can't read this image or this process.
    """
    program = read_status(process.pid).name
    with ExitStack() as stack:
        if holder := begin_holder(limit):  # while the library finds its way
            stack.callback(holder.let_go)
        reader = stack.enter_context(
            ProcessReader(library, process, pid=process.pid, program=program, library_path=library_path)
        )
        with stopped(process.pid, process.started, limit=limit, holder=holder) as stop:
            until = time.monotonic() + limit.seconds * SHARE
            snapshot = reader.read(read_further, on_communicator, until)
            if in_stop:
                in_stop(stop)
        return replace(snapshot, stop_time=stop.stop_time)


class CountingProcess:
    """A TargetProcess that passes everything on to another one and counts the fetches.

    Every fetch is a round trip where a debugger works remotely.
    """

    def __init__(self, process: TargetProcess) -> None:
        """Start to count at zero."""
        self._process = process
        self.reads = 0
        self.bytes_read = 0
        self.places: list[tuple[int, int]] = []
        """Addresses and sizes of the fetches, until somebody clears them."""

    @property
    def image(self) -> TargetImage:
        """The image that the process runs."""
        return self._process.image

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the target's C types."""
        return self._process.type_sizes()

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes at an address; a fetch that fails is one too.

        Raises:
            TargetReadError: any of the bytes can't be read.
        """
        self.reads += 1
        data = self._process.fetch(address, size)
        self.bytes_read += size
        if len(self.places) < _MAX_PLACES:
            self.places.append((address, size))
        return data

    def to_host(self, data: bytes) -> bytes:
        """Return one scalar in the byte order of the host."""
        return self._process.to_host(data)

    def global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD, or -1."""
        return self._process.global_rank()


def _global_rank(queues: ProcessQueues) -> int | None:
    try:
        return queues.get_global_rank()
    except NoInformation:
        return None


def _read_communicators(
    queues: ProcessQueues, on_communicator: Callable[[int], None] | None, until: float
) -> tuple[CommunicatorSnapshot, ...]:
    found: list[CommunicatorSnapshot] = []
    budget = _Budget(until)
    queues.update_communicator_list()
    queues.setup_communicator_iterator()
    while (communicator := queues.get_communicator()) is not None:
        if len(found) == _MAX_COMMUNICATORS:
            raise BrokenStructureError(f"the library lists more than {_MAX_COMMUNICATORS} communicators")
        if on_communicator:
            on_communicator(len(found))
        group, label = budget.group(queues), _read_label(queues)
        read = tuple(budget.queue(queues, queue) for queue in Queue)
        handle, label = label.handle if label else 0, label and label._replace(handle=0)
        reported = None if label == read_marks(communicator.name) else label
        found.append(CommunicatorSnapshot(communicator, group, read, reported, handle))
        if not queues.next_communicator():
            break
    return tuple(found)


def _read_label(queues: ProcessQueues) -> Label | None:
    """Return what the library says besides the communicator's field, None where it isn't libmqs."""
    try:
        return queues.get_comm_label()
    except NoInformation:
        return None


class _Budget:
    """What may still be kept of one process."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._operations = _MAX_OPERATIONS
        self._members = _MAX_MEMBERS

    def group(self, queues: ProcessQueues) -> tuple[int, ...] | Hidden:
        """Return the group of the communicator under the cursor, or why it isn't known."""
        try:
            found = _shared(tuple(queues.get_comm_group()))
        except MqsError as error:
            return Hidden.by(error)
        if len(found) > self._members:
            return Hidden(f"the communicators of this process have more than {_MAX_MEMBERS} members")
        self._members -= len(found)
        return found

    def queue(self, queues: ProcessQueues, queue: Queue) -> QueueSnapshot:
        """Return a queue of the communicator under the cursor."""
        operations: list[Operation] = []
        try:
            queues.setup_operation_iterator(queue)
        except MqsError as error:
            return QueueSnapshot(queue, (), hidden=Hidden.by(error))
        try:
            while (operation := queues.next_operation()) is not None:
                if not self._operations:
                    raise BrokenStructureError(f"the library lists more than {_MAX_OPERATIONS} operations")
                self._operations -= 1
                operations.append(operation)
                if len(operations) % _BETWEEN_LOOKS == 0 and time.monotonic() > self._until:
                    return QueueSnapshot(queue, tuple(operations), broken=TOO_LONG, remedy=MORE_TIME)
        except MqsError as error:
            return QueueSnapshot(queue, tuple(operations), broken=str(error), remedy=Hidden.by(error).remedy)
        return QueueSnapshot(queue, tuple(operations))


@lru_cache(maxsize=8)
def _shared(group: tuple[int, ...]) -> tuple[int, ...]:
    """Return a group, the same object for equal ones: all ranks of a machine have that of MPI_COMM_WORLD."""
    return group
