"""One sweep over a process: all queues of all communicators, by the Python core."""

from __future__ import annotations

from mqs_dll.contract.abi import Operation, Queue
from mqs_dll.contract.errors import MqsError
from mqs_dll.library.session import ProcessSession


def sweep(process: ProcessSession) -> dict[bytes, dict[Queue, tuple[list[Operation], MqsError | None]]]:
    """Return each communicator's queues, each with what broke it off."""
    found = {}
    process.update_communicator_list()
    process.setup_communicator_iterator()
    while (communicator := process.get_communicator()) is not None:
        found[communicator.name] = {queue: _list(process, queue) for queue in Queue}
        process.next_communicator()
    return found


def _list(process: ProcessSession, queue: Queue) -> tuple[list[Operation], MqsError | None]:
    operations: list[Operation] = []
    try:
        process.setup_operation_iterator(queue)
        while (operation := process.next_operation()) is not None:
            operations.append(operation)
    except MqsError as error:
        return operations, error
    return operations, None
