"""The three ways in which a process is read: the Python core, libmqs.so in this process, libmqs.so in a C host.

All give the same records, so the same comparison serves all three.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mqs_dll.contract.abi import Communicator, Label, LayoutOrigin, Operation, Queue, Status
from mqs_dll.contract.interface import ProcessQueues, QueueLibrary, TargetProcess
from mqs_dll.debugger import library_path
from mqs_dll.debugger.collect import ProcessReader, ReadFurther
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.holder import Holder
from mqs_dll.debugger.stopping.stop import all_stopped
from mqs_dll.job.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot
from mqs_dll.library.session import Library, ProcessSession
from tests.support.embedding import program

HOST_SECONDS = 60


class HostError(Exception):
    """The debugger in C failed, or a library refused it; the text is what it printed."""

    def __init__(self, text: str, code: int | None = None) -> None:
        """Keep the code with which the library refused the process, None when it is something else."""
        super().__init__(text)
        self.code = code


class Seen(NamedTuple):
    """What a library showed of one process."""

    communicators: tuple[CommunicatorSnapshot, ...]
    global_rank: int | None
    core: CoreView


Look = Callable[[Sequence[LiveProcess]], list[Seen]]
"""Returns what is seen of each process."""


def read_further(queues: ProcessQueues, process: TargetProcess) -> CoreView:
    """Return what only the Python core shows."""
    assert isinstance(queues, ProcessSession)
    origins: list[LayoutOrigin] = queues.layout_origins()
    return CoreView(layouts=tuple(origins), windows=tuple(queues.windows()))


def read_direct(pids: Sequence[int]) -> list[Seen]:
    """Read with the Python core the processes that nobody has opened yet."""
    with ExitStack() as stack:
        return _read_directly([stack.enter_context(LiveProcess(pid)) for pid in pids])


def _read_directly(processes: Sequence[LiveProcess]) -> list[Seen]:
    """Read with the Python core."""
    return _read_with(Library(), processes, read_further)


def _read_dynamically(processes: Sequence[LiveProcess]) -> list[Seen]:
    """Read with libmqs.so, loaded into this process."""
    return _read_with(DynamicLibrary(library_path.library()), processes)


@cache
def _holder() -> Holder:
    """Return what holds processes for all samples of this process."""
    holder = Holder(speaks=False)
    atexit.register(holder.let_go)
    return holder


def _read_with(
    library: QueueLibrary, processes: Sequence[LiveProcess], further: ReadFurther | None = None
) -> list[Seen]:
    """Let one library read processes that stand together."""
    with ExitStack() as stack:
        readers = [stack.enter_context(ProcessReader(library, each, pid=each.pid, program="")) for each in processes]
        with all_stopped([each.pid for each in processes], holder=_holder()) as stop:
            assert stop.failures == {}
            shown = [each.read(further) for each in readers]
    return [Seen(each.communicators, each.global_rank, each.core) for each in shown]


def run_host(
    dll: str | Path, *arguments: int | str, environment: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Let the debugger in C read processes with an MQS library, "-" for the one that the first process names.

    Args:
        dll: the library.
        arguments: the PIDs, and options.
        environment: variables that it has besides the path.

    Returns:
        The documents that it prints, one for each PID.

    Raises:
        HostError: it could not.
    """
    result = subprocess.run(
        [str(program("mqs_host")), str(dll), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=HOST_SECONDS,
        env={"PATH": os.defpath, **(environment or {})},
        check=False,
    )
    if result.returncode != 0:
        raise HostError(f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def _read_from_c(processes: Sequence[LiveProcess]) -> list[Seen]:
    """Read with libmqs.so, loaded by the debugger in C, once for all of them."""
    documents = run_host(library_path.library(), *(each.pid for each in processes))
    return [seen_by_host(document) for document in documents]


def seen_by_host(document: dict[str, Any]) -> Seen:
    """Turn the host's document into records.

    Raises:
        HostError: the library refused.
    """
    if "communicators" not in document:
        raise HostError(json.dumps(document, indent=1), document.get("process_has_queues", {}).get("code"))
    communicators = tuple(communicator_of(each) for each in document["communicators"])
    return Seen(communicators, document.get("global_rank"), CoreView())


def communicator_of(document: dict[str, Any]) -> CommunicatorSnapshot:
    """Turn one communicator of the host's document into a record."""
    record = Communicator(
        document["unique_id"], document["local_rank"], document["size"], document["name"].encode("latin-1")
    )
    group = tuple(document["ranks"]) if "ranks" in document else Hidden(str(document["group"]["error"]))
    label = label_of(document)
    queues = tuple(queue_of(queue, document) for queue in Queue)
    return CommunicatorSnapshot(record, group, queues, label and label._replace(handle=0), label.handle if label else 0)


def label_of(document: dict[str, Any]) -> Label | None:
    """Turn the label of the host's document into a record; None of a library that gives none."""
    if "label_name" not in document:
        return None
    name, description = (document[f"label_{each}"].encode("latin-1") for each in ("name", "description"))
    remote = document["label_remote"]
    freed, internal = (bool(document[f"label_{each}"]) for each in ("freed", "internal"))
    return Label(name, description, None if remote < 0 else remote, freed, internal, document["label_handle"])


def queue_of(queue: Queue, document: dict[str, Any]) -> QueueSnapshot:
    """Turn one queue of the host's document into a record."""
    part = document[queue.name.lower()]
    if part["setup"]["code"] != 0:
        return QueueSnapshot(queue, (), hidden=Hidden(part["setup"]["error"]))
    operations = tuple(operation_of(each) for each in part["operations"])
    return QueueSnapshot(queue, operations, broken=part["end"]["error"])


def operation_of(document: dict[str, Any]) -> Operation:
    """Turn one operation of the host's document into a record."""
    fields = dict(document)
    fields["status"] = Status(fields["status"])
    fields["tag_wild"] = bool(fields["tag_wild"])
    fields["system_buffer"] = bool(fields["system_buffer"])
    fields["extra_text"] = tuple(line.encode("latin-1") for line in fields["extra_text"])
    return Operation(**fields)


READERS: dict[str, Look] = {
    "direct": _read_directly,
    "libmqs.so": _read_dynamically,
    "C host": _read_from_c,
}
"""The ways of looking, by the names that tests give them."""
