"""Confirms what libmqs knows of UCX and libfabric on the MPI at hand: a job runs over each of them, and is looked at.

An MPI takes whatever UCX or libfabric is there, and libmqs has layouts of their releases. Here it is seen whether what
it shows by them is what a program did. Where none of them holds, one is searched for near them (``search``), and
believed for what it alone shows right of that program.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mqs_dll.calibrate import search
from mqs_dll.calibrate.bindings import MpiBindings
from mqs_dll.calibrate.document import Subject, profile_of
from mqs_dll.calibrate.dump import Entry
from mqs_dll.calibrate.launch import RUN_SECONDS, Installation, Run, has_ended, running
from mqs_dll.calibrate.rank import CalibrationRank
from mqs_dll.calibrate.search import NOTHING
from mqs_dll.contract import phrases
from mqs_dll.contract.abi import UNKNOWN, Operation, Queue
from mqs_dll.contract.errors import CalibrationError, MqsError, TargetReadError
from mqs_dll.contract.interface import ProcessQueues, TargetProcess
from mqs_dll.debugger.collect import ProcessReader
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.limit import Limit
from mqs_dll.debugger.stopping.stop import all_stopped
from mqs_dll.job.snapshot import CoreView, QueueSnapshot, Snapshot
from mqs_dll.library.fabric.ofi.libfabric import Libfabric
from mqs_dll.library.fabric.ucx.version import version_of
from mqs_dll.library.layouts import profiles
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory
from mqs_dll.library.session import Library, ProcessSession

WAITING, TALKING = "calibrate: receives", "calibrate: messages"
"""Names of the communicators: on the one nothing is sent, on the other nothing received."""

RECEIVES = 160
"""More than one piece of any pool has room for."""

SIZES = (0, 100, 3000, 9000, 20_000, 40_000, 1 << 17)
SYNCHRONOUS = (50, 5000)
"""Bytes of the messages, of those sent by MPI_Issend, too: the largest is more than any fabric sends at once."""

DONE_TAG, FIRST_TAG = 30, 40
BLOCKING_TAG, BLOCKING_BYTES = FIRST_TAG + 100, 1 << 19
"""Of what rank 0 sends by MPI_Send at last, which UCX would copy if it were smaller, and rank 1 waits for elsewhere."""

LAST_CALL, SEARCH_SECONDS = 0.5, 900.0
"""Seconds that a rank has to come into its last call, before which that isn't seen; that it may stand."""

HANDLE = 0xFFFFFFFF
BEGIN = 16
"""Bytes of a message that are compared."""

NAMES_OF_TRANSPORTS = {"UCX": "ucx", "libfabric": "ofi"}
"""Of each fabric, what names of transports have for it."""

RankTruth = tuple[LiveProcess, Mapping[str, Any]]
"""A rank's process, and what it did."""

WRONG = 10_000
"""Points that what is shown wrong costs: more than a job has."""

QUEUES = (
    (WAITING, Queue.RECEIVES, "receives"),
    (TALKING, Queue.UNEXPECTED, "messages"),
    (TALKING, Queue.SENDS, "sends"),
)


class FabricObservation(NamedTuple):
    """What libmqs showed of a rank."""

    transport: str
    layout: str
    """Of the fabric: "UCX 1.18"; empty where none was believed."""
    counts: Mapping[str, int]
    """How many "receives", "messages" and "sends" were right."""
    faults: Sequence[str]
    """Sentences: what was wrong, or missing."""
    points: int
    """How much was right."""
    numbers: Mapping[str, frozenset[int]]
    """By which "messages" and "sends" of two ranks know each other."""


# ---------------------------------------------------------------- a rank


def main() -> None:
    """Run one rank, with the arguments LIBRARY DIRECTORY: leave receives and messages behind, and stay as it is."""
    library, directory = sys.argv[1:]
    signal.alarm(int(RUN_SECONDS))
    mpi = MpiBindings.load(Path(library))
    mpi.do("Init", mpi.NULL, mpi.NULL)
    rank = CalibrationRank(mpi, Path(directory), "fabric")
    waiting, talking = _named(rank, WAITING), _named(rank, TALKING)
    _exchange(rank, talking)
    # sends come first: receives then fill the rest of a pool's first piece, and begin another one
    rank.truth |= {"pid": os.getpid(), "sends": _sends(rank, talking), "receives": list(_receives(rank, waiting))}
    rank.truth["messages"] = list(_messages(rank, talking))
    last, arguments = _sent(rank, BLOCKING_BYTES, BLOCKING_TAG)
    last["late"] = True
    if rank.rank == 0:
        rank.truth["sends"].append(last)
        rank.write([])
        mpi.do("Send", *arguments, talking)
    else:
        rank.truth["receives"].append(last)
        rank.truth["messages"].append(last | {"address": None})
        rank.write([])
        mpi.do("Recv", *arguments, waiting, mpi.STATUS_IGNORE)
    while True:
        signal.pause()


def _named(rank: CalibrationRank, name: str) -> Any:
    comm = rank.mpi.create("MPI_Comm", "Comm_dup", rank.mpi.COMM_WORLD)
    rank.mpi.do("Comm_set_name", comm, name.encode())
    return comm


def _exchange(rank: CalibrationRank, comm: Any) -> None:
    """Send and receive messages that are done with: what they leave behind is not to be shown."""
    mpi, size = rank.mpi, SIZES[-1]
    for tag in range(DONE_TAG, FIRST_TAG):
        _begun(rank, "Irecv", rank.allocate(size), size, mpi.BYTE, rank.previous, tag, comm)
        _begun(rank, "Isend", *_sent(rank, size, tag)[1], comm)
    while rank.handles:
        mpi.do("Wait", mpi.ffi.new("MPI_Request *", rank.handles.pop(0)), mpi.STATUS_IGNORE)


def _begun(rank: CalibrationRank, function: str, *arguments: Any) -> int:
    """Begin an operation, and return the lower half of its handle."""
    rank.handles.append(rank.mpi.create("MPI_Request", function, *arguments))
    return rank.mpi.number_of(rank.handles[-1]) & HANDLE


def _receives(rank: CalibrationRank, comm: Any) -> Iterator[Entry]:
    """Post receives that nothing matches, and yield what each asks for, -1 for anything."""
    mpi = rank.mpi
    for number in range(RECEIVES):
        source, tag = (rank.next if number % 2 else -1), (1000 + 7 * number if number % 4 < 2 else -1)
        size = 64 + 8 * number
        buffer = rank.allocate(size)
        wanted = mpi.ANY_SOURCE if source < 0 else source, mpi.ANY_TAG if tag < 0 else tag
        handle = _begun(rank, "Irecv", buffer, size, mpi.BYTE, *wanted, comm)
        yield {"rank": source, "tag": tag, "bytes": size, "address": mpi.number_of(buffer), "handle": handle}


def _content(tag: int, size: int) -> bytes:
    """Return the begin of the message with a tag."""
    return bytes((tag + 3 * place) % 251 for place in range(min(size, BEGIN)))


def _sent(rank: CalibrationRank, size: int, tag: int) -> tuple[Entry, tuple[Any, ...]]:
    """Return a message to the next rank, and the arguments that send it, but for the communicator."""
    buffer, begin = rank.allocate(size), _content(tag, size)
    rank.mpi.ffi.memmove(buffer, begin, len(begin))
    entry = {"rank": rank.next, "tag": tag, "bytes": size, "address": rank.mpi.number_of(buffer)}
    return entry, (buffer, size, rank.mpi.BYTE, rank.next, tag)


def _sends(rank: CalibrationRank, comm: Any) -> list[Entry]:
    """Send messages that nobody receives, and return them."""
    found = []
    for number, size in enumerate((*SIZES, *SYNCHRONOUS)):
        synchronous = number >= len(SIZES)
        sent, arguments = _sent(rank, size, FIRST_TAG + 3 * number)
        handle = _begun(rank, "Issend" if synchronous else "Isend", *arguments, comm)
        found.append(sent | {"synchronous": synchronous, "handle": handle})
    return found


def _messages(rank: CalibrationRank, comm: Any) -> Iterator[Entry]:
    """Wait until the messages of the other rank are there, and yield them."""
    mpi, flag, status = rank.mpi, rank.mpi.ffi.new("int *"), rank.mpi.ffi.new("MPI_Status *")
    for sent in rank.truth["sends"]:
        flag[0] = 0
        while not flag[0]:
            mpi.do("Iprobe", rank.previous, sent["tag"], comm, flag, status)
        yield {**sent, "rank": rank.previous, "address": None, "handle": None}
    rank.meet("here", rank.poll)


# ---------------------------------------------------------------- the sample


def confirm(mpi: Installation, run: Run, directory: Path, family: str) -> tuple[str, dict[str, Any] | None]:
    """Return in a sentence what libmqs shows right of a job over a fabric, or why nothing is known of that.

    Args:
        mpi: which MPI; libmqs has its layouts.
        run: a way to run it over a fabric, and in ``name`` which.
        directory: for what the run leaves.
        family: the MPI's, as profiles name it.

    Returns:
        The sentence, and the profile of the fabric that was made where no known layout holds.
    """
    job = run.job(mpi, __name__, directory)
    try:
        with running(mpi, job) as launcher, ExitStack() as stack:
            deadline = time.monotonic() + RUN_SECONDS
            while not job.is_written():
                if has_ended(launcher) or time.monotonic() > deadline:
                    raise CalibrationError(f"the run {run.name!r} did not reach its state: {job.words()}")
                time.sleep(0.02)
            time.sleep(LAST_CALL)
            truths = [json.loads((job.directory / f"truth.{rank}").read_text()) for rank in range(run.ranks)]
            stack.enter_context(all_stopped([truth["pid"] for truth in truths], limit=Limit(SEARCH_SECONDS)))
            ranks = [(stack.enter_context(LiveProcess(truth["pid"])), truth) for truth in truths]
            seen = [_sample(run.name, *each) for each in ranks]
            faults = [fault for each in seen for fault in each.faults]
            if not faults:
                return f"{seen[0].transport}: the layouts of {seen[0].layout} confirmed by {_counts(seen)}", None
            refused = f"{run.name}: not confirmed: {faults[0]}"
            if NAMES_OF_TRANSPORTS[run.name] not in seen[0].transport or all(each.layout for each in seen):
                return refused, None
            return _find(run.name, family, ranks, refused)
    except MqsError as error:
        return f"{run.name}: not confirmed: {error}", None


class QueueComparison(NamedTuple):
    """What was right, and wrong, of one queue of a rank, as ``FabricObservation`` has it of all."""

    right: int
    """How many operations."""
    faults: Sequence[str]
    points: int
    numbers: frozenset[int]


def _sample(fabric: str, process: LiveProcess, truth: Mapping[str, Any], *, made: bool = False) -> FabricObservation:
    """Return what libmqs shows of a rank, compared with what it did.

    Args:
        fabric: that its messages go by.
        process: the rank.
        truth: what it did.
        made: only by layouts that calibration has found.

    Raises:
        MqsError: nothing can be read of it.
    """
    snapshot, layout = _read(fabric, process, truth["pid"], made=made)
    transport = snapshot.core.mpi.transport if snapshot.core.mpi else ""
    shown = {each.communicator.name.decode(errors="replace"): each for each in snapshot.communicators}
    if not {WAITING, TALKING} <= shown.keys():
        raise CalibrationError("a communicator of the run is not shown")
    compared = {what: _compare(shown[name].queues[queue], what, truth, process) for name, queue, what in QUEUES}
    faults = [fault for each in compared.values() for fault in each.faults]
    if not layout:
        faults.append(f"messages go by {transport}, of which no layout of {fabric} was believed")
    counts = {what: each.right for what, each in compared.items()}
    points = sum(each.points for each in compared.values())
    return FabricObservation(
        transport, layout, counts, faults, points, {what: each.numbers for what, each in compared.items()}
    )


def _read(fabric: str, process: LiveProcess, pid: int, *, made: bool) -> tuple[Snapshot, str]:
    """Return what libmqs shows of a rank, and by which layout of the fabric; see ``_sample``."""
    layout = ""

    def core_view(queues: ProcessQueues, _: TargetProcess) -> CoreView:
        nonlocal layout
        assert isinstance(queues, ProcessSession)
        origins = (each.origin for each in queues.layout_origins())
        layout = next((each for each in origins if each.startswith(f"layout {fabric}")), "").removeprefix("layout ")
        if made and not layout.endswith(profiles.BY_CALIBRATION):
            raise CalibrationError("what was found is not believed")
        return CoreView(mpi=queues.facts())

    with ProcessReader(Library(), process, pid=pid, program="") as reader:
        reader.find_way(core_view)
        return reader.read(core_view), layout


def _compare(shown: QueueSnapshot, what: str, truth: Mapping[str, Any], process: LiveProcess) -> QueueComparison:
    """Compare what is shown of a queue of a rank with the "receives", "messages" or "sends" of its truth."""
    tagged: dict[int, list[Entry]] = {}
    for entry in truth[what]:
        tagged.setdefault(entry["tag"], []).append(entry)
    operations = [each for each in shown.operations if each.desired_tag >= -1]
    pairs = [(each, _entry(each, tagged, process, shown.queue)) for each in operations]
    own = [(each, entry) for each, entry in pairs if entry]
    right = [entry for _, entry in own]
    wrong = [_envelope(each) for each, entry in pairs if not entry]
    needed = (each for each in truth[what] if shown.queue is not Queue.SENDS and "late" not in each)
    missing = [each for each in needed if each not in right]
    faults = []
    points = (right == truth[what]) + sum(_points(*each) for each in own)
    if wrong or any(right.count(each) > 1 for each in right):
        which = wrong[0] if wrong else "twice"
        faults.append(f"rank {truth['rank']} has no {what} (rank, tag, bytes) as shown: {which}")
        points -= WRONG
    elif missing:
        why = shown.hidden.reason if shown.hidden else str(shown.broken or "nothing tells why")
        faults.append(f"{len(missing)} {what} of rank {truth['rank']} are not shown: {why}")
    numbers = (phrases.read(each.extra_text).message for each in operations)
    return QueueComparison(len(right), faults, points, frozenset(each for each in numbers if each))


def _envelope(operation: Operation) -> tuple[int, int, int]:
    tag = -1 if operation.tag_wild else operation.desired_tag
    return operation.desired_local_rank, tag, operation.desired_length


def _entry(
    operation: Operation, tagged: Mapping[int, Sequence[Entry]], process: LiveProcess, queue: Queue
) -> Entry | None:
    """Return as what of a rank's, by its tag, an operation is shown, its buffer or what lies there included.

    None for nothing. Of a send the peer or the size may be unknown.
    """
    rank, tag, size = _envelope(operation)
    for entry in tagged.get(tag, ()):
        told = ((rank, entry["rank"]), (size, entry["bytes"]))
        if all(one == other or (queue is Queue.SENDS and one == UNKNOWN) for one, other in told):
            content = _content(tag, entry["bytes"])
            with suppress(TargetReadError):
                if operation.buffer in (0, entry["address"]) or (
                    operation.system_buffer and process.fetch(operation.buffer, len(content)) == content
                ):
                    return entry
    return None


def _points(operation: Operation, entry: Entry) -> int:
    """Return how much of an operation is told, of what was compared and of how it was sent."""
    words = b" ".join(operation.extra_text).lower()
    right: bool = entry.get("synchronous", False) == (b"ssend" in words)
    handle = phrases.read(operation.extra_text).request
    told: bool = handle is not None and handle & HANDLE == entry.get("handle")
    return sum(each != UNKNOWN for each in _envelope(operation)) + bool(operation.buffer) + right + told


def _counts(seen: Sequence[FabricObservation]) -> str:
    return ", ".join(f"{sum(each.counts[what] for each in seen)} {what}" for *_, what in QUEUES)


# ---------------------------------------------------------------- the search


class FabricCandidates:
    """Tells how much layouts of a fabric show right of a job: by a profile of the user's, as long as they are tried."""

    def __init__(self, fabric: str, subject: Subject, ranks: Sequence[RankTruth]) -> None:
        self._fabric = fabric
        self._subject = subject
        self._ranks = ranks
        self.path = Path(profiles.user_folder()) / f"{subject.name}.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._most_of_first = NOTHING

    def profile(self, layouts: Layouts) -> dict[str, Any]:
        """Return the profile that has them."""
        return profile_of(self._subject, layouts, fabric=self._fabric)

    def _samples(self, layouts: Layouts) -> Iterator[FabricObservation]:
        """Yield what is seen of each rank by layouts, up to the first one that they aren't believed in."""
        self.path.write_text(json.dumps(self.profile(layouts)))
        with suppress(MqsError):
            for each in self._ranks:
                yield _sample(self._fabric, *each, made=True)

    def right(self, layouts: Layouts) -> list[FabricObservation]:
        """Return what is seen of all ranks, nothing where not all is right."""
        seen = list(self._samples(layouts))
        return [] if len(seen) < len(self._ranks) or any(each.faults for each in seen) else seen

    def score(self, layouts: Layouts) -> int:
        """Return the points of all ranks; of the first one alone where others have shown more of that."""
        samples = self._samples(layouts)
        first = next(samples, None)
        if first is None:
            return NOTHING
        if first.points < self._most_of_first:
            return first.points
        seen = [first, *samples]
        if len(seen) < len(self._ranks):
            return NOTHING
        self._most_of_first = first.points
        joined = sum(len(each.numbers["messages"] & other.numbers["sends"]) for each in seen for other in seen)
        return joined + sum(each.points for each in seen)


def _find(fabric: str, family: str, ranks: Sequence[RankTruth], refused: str) -> tuple[str, dict[str, Any] | None]:
    """Return a sentence, and the profile of a fabric that was found near the known layouts, if there is one.

    Raises:
        MqsError: the fabric doesn't tell its release.
    """
    process, truth = ranks[0]
    version = _version(fabric, process)
    fixed = profiles.fixed(fabric)
    known = [
        Layouts(struct for struct in layouts if struct.name not in fixed)
        for layouts in profiles.shipped_of_fabric(fabric, version)
    ]
    name = f"{fabric.lower()}-{version}-{truth['machine']}-{family}"
    candidates = FabricCandidates(fabric, Subject(name, family, truth["machine"], version), ranks)
    try:
        most, found = search.near(known, candidates.score)
        if not candidates.right(found[0]):
            return f"{refused}; near the known layouts there is none by which all comes out right", None
        sizes = {each.name: each.size for layouts in known for each in layouts if each.size is not None}
        made, doubtful = search.proven(found, most, candidates.score, sizes)
        seen = candidates.right(made)
    finally:
        candidates.path.unlink(missing_ok=True)
    if not seen:
        return f"{refused}; a layout near the known ones is not made: undetermined is {', '.join(doubtful)}", None
    left = f"; left out, since the job doesn't tell: {', '.join(doubtful)}" if doubtful else ""
    sentence = f"{seen[0].transport}: the layouts of {fabric} {version} found by {_counts(seen)}{left}"
    return sentence, candidates.profile(made)


def _version(fabric: str, process: LiveProcess) -> str:
    """Return the release of a fabric in a process, "1.18.1" or "1.22".

    Raises:
        LayoutError: it isn't there, or doesn't show its release in a known way.
    """
    memory = Memory(process)
    return version_of(process.image, memory) if fabric == "UCX" else Libfabric(process.image, memory).release
