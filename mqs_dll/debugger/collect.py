"""Driving an MQS library over a stopped process, as debuggers do, into one frozen record: the Snapshot."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress

from mqs_dll.abi import Operation, Queue
from mqs_dll.debugger.counting import CountingProcess
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import read_status
from mqs_dll.debugger.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot, Snapshot
from mqs_dll.debugger.stop import stopped
from mqs_dll.errors import BrokenStructureError, MqsError, NoInformation
from mqs_dll.interface import ProcessQueues, QueueLibrary, TargetProcess

_MOST_ITEMS = 1 << 20
"""More than any process has: a library that goes on listing is going round in a circle."""


def take_snapshot(
    library: QueueLibrary,
    process: LiveProcess,
    *,
    library_path: str | None = None,
    look_further: Callable[[ProcessQueues, TargetProcess], CoreView] | None = None,
    on_communicator: Callable[[int], None] | None = None,
) -> Snapshot:
    """Stop a process, let a library list its queues, and let it go on.

    Args:
        library: any MQS library.
        process: the process, which runs until the library has looked at its image.
        library_path: the library's file, for the record.
        look_further: called at the end of the stop with what the library made of the process.
        on_communicator: called before each communicator with the number of those that are done.

    Raises:
        ProcessError: the process can't be stopped.
        MqsError: the library can't read this image or this process.
    """
    program = read_status(process.pid).name
    counting = CountingProcess(process)
    with closing(library.setup_image(process.image)) as image:
        image_message = image.has_queues()
        with closing(image.setup_process(counting)) as queues:
            _find_way(queues)
            reads_before, bytes_before = counting.reads, counting.bytes_read
            with stopped(process.pid) as stop:
                process_message = queues.has_queues()
                global_rank = _global_rank(queues)
                communicators = _read_communicators(queues, on_communicator)
                reads, bytes_read = counting.reads - reads_before, counting.bytes_read - bytes_before
                core = look_further(queues, process) if look_further else CoreView()
    return Snapshot(
        pid=process.pid,
        program=program,
        library=library.version_string(),
        library_path=library_path,
        image_message=image_message,
        process_message=process_message,
        global_rank=global_rank,
        communicators=communicators,
        core=core,
        pause=stop.pause,
        reads=reads,
        bytes_read=bytes_read,
    )


def _find_way(queues: ProcessQueues) -> None:
    """Let a library find its way in a process that still runs: what doesn't move need not be read in the stop.

    What it can't read now, it will read, or refuse, then.
    """
    with suppress(MqsError):
        queues.has_queues()


def _global_rank(queues: ProcessQueues) -> int | None:
    try:
        return queues.get_global_rank()
    except NoInformation:
        return None


def _read_communicators(
    queues: ProcessQueues, on_communicator: Callable[[int], None] | None
) -> tuple[CommunicatorSnapshot, ...]:
    found: list[CommunicatorSnapshot] = []
    queues.update_communicator_list()
    queues.setup_communicator_iterator()
    while (communicator := queues.get_communicator()) is not None:
        if len(found) == _MOST_ITEMS:
            raise BrokenStructureError(f"the library lists more than {_MOST_ITEMS} communicators")
        if on_communicator:
            on_communicator(len(found))
        group = _read_group(queues)
        found.append(CommunicatorSnapshot(communicator, group, tuple(_read_queue(queues, queue) for queue in Queue)))
        if not queues.next_communicator():
            break
    return tuple(found)


def _read_group(queues: ProcessQueues) -> tuple[int, ...] | Hidden:
    try:
        return tuple(queues.get_comm_group())
    except MqsError as error:
        return _hidden(error)


def _read_queue(queues: ProcessQueues, queue: Queue) -> QueueSnapshot:
    operations: list[Operation] = []
    try:
        queues.setup_operation_iterator(queue)
    except MqsError as error:
        return QueueSnapshot(queue, (), hidden=_hidden(error))
    try:
        while (operation := queues.next_operation()) is not None:
            if len(operations) == _MOST_ITEMS:
                raise BrokenStructureError(f"the library lists more than {_MOST_ITEMS} operations")
            operations.append(operation)
    except MqsError as error:
        return QueueSnapshot(queue, tuple(operations), broken=str(error), way_out=_hidden(error).way_out)
    return QueueSnapshot(queue, tuple(operations))


def _hidden(error: MqsError) -> Hidden:
    return Hidden(str(error), error.way_out if isinstance(error, NoInformation) else error.help)
