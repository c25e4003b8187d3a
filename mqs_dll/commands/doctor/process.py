"""What libmqs knows of the MPI in a live process, with the process stopped as briefly as for ``mqs show``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from mqs_dll.commands.doctor import advice
from mqs_dll.commands.doctor.diagnosis import Capability, Diagnosis, Limitation, ProcessFacts, Visibility
from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import LayoutError, UnknownMpiError
from mqs_dll.contract.interface import ProcessQueues, TargetProcess
from mqs_dll.debugger.collect import take_snapshot
from mqs_dll.debugger.live import LiveProcess, missing_files
from mqs_dll.debugger.proc import file_at, read_status
from mqs_dll.debugger.stopping.limit import USUAL, Limit
from mqs_dll.job.snapshot import QUEUES, CommunicatorSnapshot, CoreView, Hidden, Snapshot
from mqs_dll.library.session import Library, ProcessSession

_GROUPS = "groups"


def diagnose(pid: int, on_communicator: Callable[[int], None] | None = None, limit: Limit = USUAL) -> Diagnosis:
    """Look at a process.

    Args:
        pid: which one.
        on_communicator: called before each communicator with the number of those that are done.
        limit: for how long the process may stand.

    Raises:
        MqsError: there is nothing to say but that: it is no rank, or not between MPI_Init and MPI_Finalize.
    """
    with LiveProcess(pid) as process:
        try:
            snapshot = take_snapshot(
                Library(), process, read_further=_look_further, on_communicator=on_communicator, limit=limit
            )
        except LayoutError as error:
            return _without_layout(process, error)
        except UnknownMpiError as error:
            raise UnknownMpiError(f"{error}{missing_files(process.image)}") from error
        return _of_snapshot(snapshot)


def _look_further(queues: ProcessQueues, target: TargetProcess) -> CoreView:
    assert isinstance(queues, ProcessSession)
    return CoreView(
        layouts=tuple(queues.layout_origins()),
        mpi=queues.facts(),
        checks=tuple(queues.checks()),
        refusals=tuple(queues.refusals()),
        refused_profiles=tuple(queues.refused_profiles()),
    )


def _of_snapshot(snapshot: Snapshot) -> Diagnosis:
    core = snapshot.core
    assert core.mpi is not None
    origins = core.layouts or ()
    library = file_at(snapshot.pid, core.mpi.address)
    parts = (*(_queue(snapshot, queue) for queue in Queue), _groups(snapshot))
    refused = core.refused_profiles or ()
    calibrate = _calibrate(snapshot.pid, library)
    return Diagnosis(
        verdict=Visibility.PARTLY if any(part.obstacles for part in parts) else Visibility.WHOLE,
        process=ProcessFacts(snapshot.pid, snapshot.program, snapshot.global_rank, snapshot.stop_time),
        mpi=core.mpi,
        library=library,
        rungs=advice.rungs(origins, core.mpi.profile),
        checks=core.checks or (),
        refusals=core.refusals or (),
        parts=parts,
        refused_profiles=refused,
        remedies=advice.remedies(parts, advice.used(origins, core.mpi.profile), refused, calibrate, no_layout=False),
    )


def _without_layout(process: LiveProcess, error: LayoutError) -> Diagnosis:
    """Return what is known all the same, without a stop: the library's constants don't move."""
    session = Library().setup_image(process.image).setup_process(process)
    try:
        recognition = session.recognise()
    except LayoutError:
        raise error from None
    library = file_at(process.pid, recognition.mpi.address)
    refused = tuple(session.refused_profiles())
    return Diagnosis(
        verdict=Visibility.NOTHING,
        process=ProcessFacts(process.pid, read_status(process.pid).name, None, None),
        mpi=recognition.mpi._replace(profile=None),
        library=library,
        no_layout=str(error),
        refused_profiles=refused,
        remedies=advice.remedies((), None, refused, _calibrate(process.pid, library), no_layout=True),
    )


def _calibrate(pid: int, library: str | None) -> str:
    """Return the command for the MPI of a process; that of a program that it is part of must be named by its prefix."""
    if library is not None and library == _program_of(pid):
        return "mqs calibrate PREFIX, where PREFIX is that of the MPI that the program is linked with"
    return f"mqs calibrate {pid}"


def _program_of(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return None


# ---------------------------------------------------------------- what can be seen


def _queue(snapshot: Snapshot, queue: Queue) -> Capability:
    return _part(QUEUES[queue], snapshot, lambda communicator: _in_the_way(communicator, queue))


def _in_the_way(communicator: CommunicatorSnapshot, queue: Queue) -> Hidden | None:
    for each in communicator.queues:
        if each.queue is queue and each.hidden is not None:
            return each.hidden
        if each.queue is queue and each.broken is not None:
            return Hidden(f"the list breaks off: {each.broken}", each.remedy)
    return None


def _groups(snapshot: Snapshot) -> Capability:
    return _part(_GROUPS, snapshot, lambda each: each.group if isinstance(each.group, Hidden) else None)


def _part(name: str, snapshot: Snapshot, in_the_way: Callable[[CommunicatorSnapshot], Hidden | None]) -> Capability:
    """Sort the communicators by what is in the way on them."""
    found: dict[Hidden, list[bytes]] = {}
    seen = 0
    for communicator in snapshot.communicators:
        hidden = in_the_way(communicator)
        if hidden is None:
            seen += 1
        else:
            found.setdefault(hidden, []).append(communicator.communicator.name)
    return Capability(name, seen, tuple(_obstacles(found)))


def _obstacles(found: dict[Hidden, list[bytes]]) -> Iterator[Limitation]:
    for hidden, names in found.items():
        yield Limitation(hidden.reason, hidden.remedy, tuple(names))
