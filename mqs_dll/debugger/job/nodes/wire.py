"""Messages between the head and its agents: an object of JSON is one line, a large one several.

A large one is compressed, in base64, in pieces: engines that carry lines take a time that grows with the square of
their length. Its pieces start with "+", the last one with "=". What comes from the other side is believed as little as
a file: it is bounded, and what isn't an object of JSON is a DamagedError.

The agent starts with its greeting. The head sends {"do": what, ...}; the agent answers {"to": what, "done": result}, or
{"to": what, "failed": sentence, "help": sentence}.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mqs_dll import __version__
from mqs_dll.debugger.job.find.markers import Marker
from mqs_dll.job import json_memory as json_memory
from mqs_dll.job.codec import Codecs, DamagedError, ValueBudget, fold, unfold_counted
from mqs_dll.job.facts import MAX_RANKS
from mqs_dll.job.found import FoundRank, FoundWorld
from mqs_dll.job.records import CallStack, JobProcess
from mqs_dll.job.saved import GROUPS, check_process, codecs, refuse_constant
from mqs_dll.job.shared import Shared
from mqs_dll.job.snapshot import Hidden, Snapshot

GREETING = {"mqs-agent": 2, "version": __version__}
"""What an agent says first: a head and its agents are of one release."""

LARGEST = 1 << 26
"""Bytes of a message: a hundred ranks of a job of ten thousand need less."""

_MAX_MEMORY = 1 << 28
"""Bytes that a message takes when it is read: short ones can stand for much."""

_PIECE = 30_000
_MORE, _LAST = b"+", b"="

Message = Mapping[str, Any]


def lines_of(message: Message) -> Iterator[bytes]:
    """Yield the lines of a message."""
    text = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(text) <= _PIECE:
        yield text + b"\n"
        return
    packed = base64.b64encode(zlib.compress(text, 1))
    for start in range(0, len(packed), _PIECE):
        mark = _MORE if start + _PIECE < len(packed) else _LAST
        yield mark + packed[start : start + _PIECE] + b"\n"


class Assembler:
    """Makes messages of lines."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, line: bytes) -> dict[str, Any] | None:
        """Take in a line; return the message that it ends, None where it ends none.

        Raises:
            DamagedError: it is no line of a message, or the message is too large.
        """
        self._size += len(line)
        if self._size > LARGEST:
            raise DamagedError(f"holds more than {LARGEST} bytes")
        if line[:1] not in (_MORE, _LAST):
            self._size = 0
            return _message(line)
        self._pieces.append(line[1:])
        if line[:1] == _MORE:
            return None
        packed = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return _message(_unpacked(packed))


def _unpacked(packed: bytes) -> bytes:
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(packed, validate=True), LARGEST)
    except (binascii.Error, ValueError, zlib.error):
        raise DamagedError("is neither a message nor a piece of one") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise DamagedError(f"holds more than {LARGEST} bytes, or is cut off")
    return text


def _message(text: bytes) -> dict[str, Any]:
    json_memory.check(text, _MAX_MEMORY)
    try:
        message = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):  # ValueError: no JSON, no UTF-8, a number of thousands of digits
        raise DamagedError("is no JSON") from None
    if type(message) is not dict:
        raise DamagedError("is no message")
    return message


# ---------------------------------------------------------------- what an agent has read

_MAX_MEMBERS = 1 << 22
"""Of all groups in one message: those of a few communicators of a million ranks."""

_MAX_VALUES = 1 << 22
"""In one message: a quarter of a million operations, or a thousand ranks of several thousand values each."""

_PROCESSES = "processes"


def write_processes(processes: Sequence[JobProcess]) -> dict[str, Any]:
    """Return what an agent has read in terms of JSON: what its ranks have in common once, and groups, in runs."""
    used = codecs()
    folded = [len(processes), fold(used.of(JobProcess), processes)]
    document = {name: table.fold() for name, table in used.tables.items() if name != GROUPS}
    groups = [[number for run in _runs(group) for number in run] for group in used.tables[GROUPS].values]
    return {**document, GROUPS: groups, _PROCESSES: folded}


class Jobs:
    """Reads what agents have read. What they have in common is one object: a thousand may have the same group."""

    def __init__(self) -> None:
        self._codecs = codecs()
        self._common: dict[Any, Any] = {}
        self._groups: dict[tuple[int, ...], Shared[int]] = {}

    def read(self, document: Any, most: int) -> Sequence[JobProcess]:
        """Return the processes that write_processes() made a document of, at most so many.

        Raises:
            DamagedError: it did not, or they are more.
        """
        tables = self._codecs.tables
        if type(document) is not dict or document.keys() != {_PROCESSES, *tables} or type(document[GROUPS]) is not list:
            raise DamagedError("has other parts than an agent sends")
        groups = []
        members = 0
        for runs in document[GROUPS]:
            groups.append(self._group(runs, _MAX_MEMBERS - members))
            members += len(groups[-1])
        budget = ValueBudget(_MAX_VALUES)
        for name, table in tables.items():
            if name == GROUPS:
                table.take(groups)
            else:
                table.unfold(document[name], budget, self._common)
        processes: Sequence[JobProcess] = unfold_counted(self._codecs.of(JobProcess), document[_PROCESSES], budget)
        if len(processes) > most:
            raise DamagedError("has more processes than it was asked for")
        for process in processes:
            check_process(process)
        return processes

    def _group(self, runs: Any, most: int) -> Shared[int]:
        if type(runs) is not list or len(runs) % 2 or not {*map(type, runs)} <= {int}:
            raise DamagedError("has a group that is no list of runs")
        key = tuple(runs)
        if sum(count for count in runs[1::2] if count > 0) > most:
            raise DamagedError("has larger groups than any")
        if key not in self._groups:
            spans = list(zip(runs[::2], runs[1::2], strict=True))
            if any(not -(2**31) <= first < 2**31 or not count > 0 for first, count in spans):
                raise DamagedError("has a group of ranks that are none")
            self._groups[key] = Shared(rank for first, count in spans for rank in range(first, first + count))
        return self._groups[key]


def _runs(group: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first number and length of each run of a group, in its order."""
    if group and list(group) == [*range(group[0], group[0] + len(group))]:  # nearly all groups
        yield group[0], len(group)
        return
    start = 0
    for end in range(1, len(group) + 1):
        if end == len(group) or group[end] != group[end - 1] + 1:
            yield group[start], end - start
            start = end


# ---------------------------------------------------------------- what an agent finds


class Wanted(NamedTuple):
    """What distinguishes the wanted job's part on a node from other jobs there: one of these is enough."""

    marks: tuple[str, ...] = ()
    """As FoundJob has them."""
    pids: tuple[int, ...] = ()
    """Of its processes on this node."""
    program: str = ""
    """What its ranks run."""
    slurm: str = ""
    """The number of the Slurm job that it runs in."""
    any: bool = False
    """Whether any job will do."""
    user: int | None = None
    """Whose it is, where that is known: of others' processes none is meant."""


class NodePart(NamedTuple):
    """A job's part on one node: what FoundJob has, as far as other machines need it."""

    host: str
    """Its own name for itself."""
    title: str
    launcher: int | None
    user: str
    started: float
    worlds: tuple[FoundWorld, ...]
    ranks: tuple[FoundRank, ...]
    marks: tuple[str, ...]
    hosts: tuple[str, ...]


class NodeParts(NamedTuple):
    """What an agent answers to Wanted."""

    parts: tuple[NodePart, ...]
    gone: tuple[int, ...]
    """Of the PIDs that were asked for those of which there is no process any more."""


_MAX_WORLDS = 1000
"""That jobs on one node have: some work at the head is for each of them, and each process."""


def read_parts(value: Any) -> NodeParts:
    """Return the NodeParts that an agent has sent.

    Raises:
        DamagedError: they are none, or of more or larger jobs than any machine has.
    """
    found: NodeParts = read(NodeParts, value)
    if len(found.parts) + sum(len(part.worlds) for part in found.parts) > _MAX_WORLDS:
        raise DamagedError("has more jobs than any")
    for part in found.parts:
        if any(not 0 <= (rank.rank or 0) <= MAX_RANKS for rank in part.ranks):
            raise DamagedError("has a rank that is none")
    return found


class Looked(NamedTuple):
    """What an agent answers when it has read its ranks without stopping them."""

    ranks: int
    """That were read."""
    same: bool
    """Whether their queues are as at its last look."""


class Compared(NamedTuple):
    """What it answers when it has compared their memory."""

    changed: bool
    left: int
    """How many of those that were read still run."""


class Core(NamedTuple):
    """What a core file has besides its process: what RankRead has."""

    command: str
    marker: Marker | None
    size: int | None
    mpi: str
    written: float


class Shown(NamedTuple):
    """What `mqs show` shows of one process or core file."""

    snapshot: Snapshot
    stacks: tuple[CallStack, ...] | Hidden | None = None
    """None where they weren't asked for."""
    caveats: tuple[str, ...] = ()
    """Sentences: what has to be known beside it."""


_PLAIN = Codecs({})


def write(record: Any) -> Any:
    """Return a record in terms of JSON."""
    return _PLAIN.of(type(record)).write(record)


def read(kind: type[Any], value: Any) -> Any:
    """Return the record of a kind that write() made a value of.

    Raises:
        DamagedError: it did not.
    """
    return _PLAIN.of(kind).read(value)
