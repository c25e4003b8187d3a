"""Made-up jobs, for tests of what is made of them: job(rank(0, receive(1, tag=7)), rank(1, call="MPI_Barrier")).

A rank is told what it has pending; job() gives it MPI_COMM_WORLD, the communicators that it is a member of, groups,
world ranks and whatever else a true job has.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Communicator, Label, Operation, Queue, Status, Window
from mqs_dll.contract.phrases import How
from mqs_dll.job.records import (
    Argument,
    ArgumentEvidence,
    CallStack,
    Frame,
    Halt,
    Job,
    JobProcess,
    Language,
    RankState,
    Sample,
)
from mqs_dll.job.shared import Shared
from mqs_dll.job.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot, Snapshot

ANY = -1
"""MPI_ANY_SOURCE, MPI_ANY_TAG; of sends and messages: not known."""

RECV = phrases.made_by("MPI_Recv", "MPI_Irecv")
SEND = phrases.made_by("MPI_Send", "MPI_Isend")
SSEND = phrases.made_by("MPI_Ssend", "MPI_Issend")
IRECV = phrases.made_by("MPI_Irecv", how=How.NONBLOCKING)
ISEND = phrases.made_by("MPI_Isend", how=How.NONBLOCKING)
ISSEND = phrases.made_by("MPI_Issend", how=How.NONBLOCKING)
PROBE = phrases.made_by("MPI_Probe", how=How.BLOCKING)
"""First lines of operations, as the walkers write them."""

PAUSE = 0.004
"""Seconds for which every made-up process stood still."""


@dataclass(frozen=True, eq=False)
class Comm:
    """A communicator, as the whole job has it, made by communicator() or inter(): make each once."""

    name: bytes
    members: tuple[int, ...]
    """Ranks of MPI_COMM_WORLD, by rank in the communicator."""
    remote: tuple[int, ...]
    """The other side of an inter-communicator; empty for others."""
    unique_id: int
    label: Label | None = None
    """What libmqs shows of its name beyond the field."""

    @property
    def handle(self) -> int:
        """Its MPI_Comm, the same in all ranks, as MPICH would have it."""
        return _handle(self.unique_id)

    @cached_property
    def places(self) -> dict[int | None, tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """By rank of MPI_COMM_WORLD: the local rank, the local group, and the group that messages go to."""
        sides = ((self.members, self.remote or self.members), (self.remote, self.members))
        return {rank: (local, own, peers) for own, peers in sides for local, rank in enumerate(own)}


class Pending(NamedTuple):
    """An operation whose ranks are those of its communicator; None is MPI_COMM_WORLD."""

    queue: Queue
    operation: Operation
    on: Comm | None


class Rank(NamedTuple):
    """A rank, before job() has made a process of it."""

    world: int
    number: int | None
    samples: tuple[MadeUpSample, ...]
    process: JobProcess
    """Complete except for the samples."""


class MadeUpSample(NamedTuple):
    """What one sample of a rank shows."""

    operations: tuple[Pending, ...]
    member_of: tuple[Comm, ...]
    stacks: tuple[CallStack, ...] | Hidden
    hidden: Mapping[Queue, str]
    """Those that can't be seen, and why."""
    broken: tuple[Queue, ...]
    watched: bool
    progressed: bool
    halt: Halt | None
    windows: tuple[Window, ...] | None
    slices: int


# ---------------------------------------------------------------- communicators


def communicator(
    name: str | bytes, members: Iterable[int], *, unique_id: int | None = None, label: Label | None = None
) -> Comm:
    """Return a communicator; those of one split have the same ``unique_id``, else it comes from the name."""
    text = name.encode() if isinstance(name, str) else name
    return Comm(
        text, _group(Shared(members)), (), zlib.crc32(text) | 1 << 40 if unique_id is None else unique_id, label
    )


@cache
def _group(members: Shared[int]) -> Shared[int]:
    """Return one object for equal groups, as a saved job has it."""
    return members


def inter(name: str | bytes, members: Iterable[int], remote: Iterable[int]) -> Comm:
    """Return an inter-communicator between two sides."""
    return replace(communicator(name, members), remote=tuple(remote))


# ---------------------------------------------------------------- operations


def receive(
    source: int,
    tag: int = 0,
    *,
    length: int = 8,
    on: Comm | None = None,
    status: Status = Status.PENDING,
    text: Sequence[str | bytes] = (RECV,),
    buffer: int = 0x7FFC_0000_1000,
    message: tuple[int, int, int] = (-1, -1, -1),
) -> Pending:
    """Return a receive from a rank of the communicator (ANY), with a tag (ANY); of one matched: source, tag, length."""
    operation = _operation(source, tag, length, status, text, buffer)
    found, found_tag, found_length = message
    return Pending(
        Queue.RECEIVES,
        operation._replace(
            tag_wild=tag == ANY, actual_local_rank=found, actual_tag=found_tag, actual_length=found_length
        ),
        on,
    )


def send(
    target: int,
    tag: int = 0,
    *,
    length: int = 8,
    on: Comm | None = None,
    status: Status = Status.PENDING,
    text: Sequence[str | bytes] = (SSEND,),
    buffer: int = 0x7FFC_0000_2000,
) -> Pending:
    """Return a send to a rank of the communicator, where it shows: an eager one leaves no trace."""
    return Pending(Queue.SENDS, _operation(target, tag, length, status, text, buffer), on)


def unexpected(
    source: int,
    tag: int = 0,
    *,
    length: int = 8,
    on: Comm | None = None,
    status: Status = Status.COMPLETE,
    text: Sequence[str | bytes] = (),
) -> Pending:
    """Return a message that has arrived from a rank of the communicator; of a note all numbers are -1."""
    return Pending(Queue.UNEXPECTED, _operation(source, tag, length, status, text, 0x5555_0000_3000), on)


def collective(
    name: str,
    *,
    source: int | None = None,
    target: int | None = None,
    tag: int = -16,
    length: int = 0,
    on: Comm | None = None,
) -> Pending:
    """Return the internal receive (or, with a target, send) that a rank inside a collective waits for."""
    text = (RECV if target is None else SEND, phrases.COLLECTIVE(name))
    if target is not None:
        return send(target, tag, length=length, on=on, text=text)
    return receive(0 if source is None else source, tag, length=length, on=on, text=text)


def begun(number: int, *, source: int, on: Comm | None = None) -> Pending:
    """Return a receive of a nonblocking collective operation: which one it is on its communicator, from 1."""
    return receive(source, -26 - number, on=on, text=(RECV, phrases.NONBLOCKING_OR_MAKING(number)))


def note(text: str, *, on: Comm | None = None) -> Pending:
    """Return an entry of the unexpected queue that stands for messages of which nothing is known."""
    return unexpected(-1, -1, length=-1, on=on, status=Status.PENDING, text=(text,))


def _operation(peer: int, tag: int, length: int, status: Status, text: Sequence[str | bytes], buffer: int) -> Operation:
    return Operation(
        status=status,
        desired_local_rank=peer,
        desired_global_rank=-1,
        tag_wild=False,
        desired_tag=tag,
        desired_length=length,
        system_buffer=False,
        buffer=buffer,
        actual_local_rank=peer,
        actual_global_rank=-1,
        actual_tag=tag,
        actual_length=length,
        extra_text=tuple(line.encode() if isinstance(line, str) else line for line in text),
    )


def in_wait(needs: int | None = None) -> str:
    """Return the line of a request that a thread waits for, until as many of its requests have ended."""
    return phrases.request(0x5561, in_wait=True, needs=needs)


# ---------------------------------------------------------------- stacks


def given(*, evidence: ArgumentEvidence = ArgumentEvidence.BOTH, **values: int | Comm | None) -> tuple[Argument, ...]:
    """Return what a call's arguments are known to be, by the names of its parameters.

    A communicator is a Comm, or None for MPI_COMM_WORLD; ANY as source or tag is the MPI's constant for that.
    """
    return tuple(_argument(name, value, evidence) for name, value in values.items())


def _argument(name: str, value: int | Comm | None, evidence: ArgumentEvidence) -> Argument:
    if value is None:
        return Argument(name, _handle(0), evidence, called="MPI_COMM_WORLD")
    if isinstance(value, Comm):
        return Argument(name, value.handle, evidence)
    called = {"source": "MPI_ANY_SOURCE", "tag": "MPI_ANY_TAG"}.get(name, "") if value == ANY else ""
    return Argument(name, value, evidence, called=called)


def _handle(unique_id: int) -> int:
    return 0x4400_0000 if unique_id == 0 else 0x8400_0000 | unique_id & 0x00FF_FFFF


def stack(
    call: str | None = None,
    where: str = "solver.c:42",
    *,
    function: str = "exchange",
    python: str | None = None,
    fingerprint: str = "f00d",
    arguments: Sequence[Argument] = (),
) -> CallStack:
    """Return the stack of a thread in an MPI function (or None), called at file:line (empty where not known)."""
    caller = _frame(function, where, "solver", Language.NATIVE)
    line = None if python is None else _frame("main", python, python.partition(":")[0], Language.PYTHON)
    inside = () if call is None else (Frame(call, "libmpi.so.40", None, None),)
    return CallStack(
        1000, call, caller, line, (*inside, *((line,) if line else ()), caller), fingerprint, None, tuple(arguments)
    )


def _frame(function: str, where: str, module: str, language: Language) -> Frame:
    file, _, line = where.rpartition(":")
    return Frame(function, module, file or None, int(line) if line else None, language)


# ---------------------------------------------------------------- ranks and jobs


def rank(
    number: int | None,
    *operations: Pending,
    call: str | None = None,
    where: str = "solver.c:42",
    arguments: Sequence[Argument] = (),
    stacks: Sequence[CallStack] | Hidden | None = None,
    member_of: Iterable[Comm] = (),
    hidden: Iterable[Queue] | Mapping[Queue, str] = (),
    broken: Iterable[Queue] = (),
    watched: bool = True,
    progressed: bool = False,
    halt: Halt | None = None,
    windows: Iterable[Window] | None = None,
    slices: int = 0,
    earlier: Rank | None = None,
    state: RankState = RankState.READ,
    why: str = "",
    remedy: str = "",
    world: int = 0,
    pid: int | None = None,
    host: str = "node0",
    program: str = "/home/user/solver",
) -> Rank:
    """Return a rank with what is pending in it.

    Args:
        number: Its rank in MPI_COMM_WORLD.
        operations: In the order of their queues; receive(), send(), unexpected(), collective(), note().
        call: The MPI function that its main thread is in; None is outside MPI.
        where: The program's file and line there.
        arguments: Of that function, made by given().
        stacks: Instead of these two: stacks made by stack(), or why there are none.
        member_of: Communicators that it has besides those of its operations.
        hidden: Queues that can't be seen, on all communicators, and perhaps why.
        broken: Queues whose list breaks off after the operations.
        watched: Whether it would have been seen if it had left its call since the sample before.
        progressed: Whether that was seen.
        halt: What else than the debugger keeps it standing.
        windows: What it says of its one-sided windows; None where it wasn't asked.
        slices: How many time slices its main thread has had.
        earlier: The same rank, one sample before.
        state: For all but READ there are no samples, and operations don't count.
        why: What is in the way of reading it.
        remedy: What to do about that.
        world: Which MPI_COMM_WORLD; spawned ones are 1, 2, ...
        pid: 1000 + number unless given.
        host: Where it runs.
        program: What it runs.
    """
    threads = (
        (stack(call, where, arguments=arguments),)
        if stacks is None
        else stacks
        if isinstance(stacks, Hidden)
        else tuple(stacks)
    )
    listed = None if windows is None else tuple(windows)
    reasons = hidden if isinstance(hidden, Mapping) else dict.fromkeys(hidden, "made up to be hidden")
    sample = MadeUpSample(
        operations, tuple(member_of), threads, reasons, tuple(broken), watched, progressed, halt, listed, slices
    )
    samples = () if state is not RankState.READ else (*(earlier.samples if earlier else ()), sample)
    known_pid = 1000 + (number or 0) if pid is None else pid
    return Rank(world, number, samples, JobProcess(world, number, host, known_pid, program, state, why, remedy, ()))


def gone(number: int, why: str = "it exited", **facts: str) -> Rank:
    """Return a rank whose process has exited."""
    return rank(number, state=RankState.EXITED, why=why, **facts)  # type: ignore[arg-type]


def job(
    *ranks: Rank,
    communicators: Iterable[Comm] = (),
    size: int | None = None,
    title: str = "mpiexec -n 4 ./solver",
    mpi: str = "Open MPI 4.1.4, pml/ob1",
    interval: float = 1.0,
    times: Sequence[float] = (),
    stopped: bool = True,
) -> Job:
    """Return a job of these ranks.

    Args:
        ranks: What rank() and gone() return.
        communicators: Whose members have it though they have nothing pending on it.
        size: Of the first MPI_COMM_WORLD; by default as many as its ranks.
        title: The launcher's command line.
        mpi: As the library calls it.
        interval: Seconds between two samples.
        times: When they were taken, where that is not regular.
        stopped: Whether the ranks stood still.
    """
    numbers = range(max((each.world for each in ranks), default=0) + 1)
    sizes = [sum(each.world == number for each in ranks) for number in numbers]
    sizes[0] = sizes[0] if size is None else size
    worlds = [communicator("MPI_COMM_WORLD", range(sizes[number]), unique_id=number) for number in numbers]
    shared = tuple(communicators)
    samples = max((len(each.samples) for each in ranks), default=0)
    at = times or [number * interval for number in range(samples)]
    return Job(
        title=title,
        source="live",
        host="node0",
        taken="2026-03-01T03:00:00Z",
        mpi=mpi,
        launcher=999,
        stopped=stopped,
        stop_time=PAUSE,
        interval=interval if samples > 1 else 0.0,
        sizes=tuple(sizes),
        processes=tuple(_process(each, worlds[each.world], shared, mpi, at) for each in ranks),
    )


def _process(plan: Rank, world: Comm, shared: tuple[Comm, ...], mpi: str, times: Sequence[float]) -> JobProcess:
    samples = (
        Sample(
            times[number],
            _snapshot(plan, sample, world, shared, mpi),
            sample.stacks,
            progressed=sample.progressed and number > 0,
            watched=sample.watched and number > 0,
            watched_for=times[number] - times[number - 1] if sample.watched and number > 0 else 0.0,
            halt=sample.halt,
            slices=sample.slices,
        )
        for number, sample in enumerate(plan.samples)
    )
    return replace(plan.process, samples=tuple(samples))


def _snapshot(plan: Rank, sample: MadeUpSample, world: Comm, shared: tuple[Comm, ...], mpi: str) -> Snapshot:
    placed = [(each.on or world, each) for each in sample.operations]
    known = dict.fromkeys((world, *shared, *sample.member_of, *(comm for comm, _ in placed)))  # once each, in order
    return Snapshot(
        pid=plan.process.pid,
        program=plan.process.program.rpartition("/")[2][:15],
        library="libmqs",
        library_path=None,
        image_message="",
        process_message=mpi,
        global_rank=plan.number,
        communicators=tuple(
            _communicator(sample, comm, plan.number, [each for on, each in placed if on is comm])
            for comm in known
            if plan.number in comm.places
        ),
        core=CoreView(windows=sample.windows),
        stop_time=PAUSE,
        reads=33,
        bytes_read=4096,
    )


def _communicator(
    sample: MadeUpSample, comm: Comm, number: int | None, pending: Iterable[Pending]
) -> CommunicatorSnapshot:
    local, own, peers = comm.places[number]
    mark = b" [inter, %d remote]" % len(peers) if comm.remote else b""
    queues = (
        QueueSnapshot(
            queue,
            tuple(_with_world_ranks(each.operation, peers) for each in pending if each.queue is queue),
            Hidden(sample.hidden[queue], "made up to be a remedy") if queue in sample.hidden else None,
            "made up to be broken" if queue in sample.broken else None,
        )
        for queue in Queue
    )
    record = Communicator(comm.unique_id, local, len(own), comm.name + mark)
    return CommunicatorSnapshot(record, own, tuple(queues), comm.label, comm.handle)


def _with_world_ranks(operation: Operation, peers: Sequence[int]) -> Operation:
    return operation._replace(
        desired_global_rank=_world_rank(operation.desired_local_rank, peers),
        actual_global_rank=_world_rank(operation.actual_local_rank, peers),
    )


def _world_rank(local: int, peers: Sequence[int]) -> int:
    return peers[local] if 0 <= local < len(peers) else -1
