"""A job in a file: all that was read of it, for later and for other machines.

The file is JSON, compressed by gzip where its name ends in ".gz"; docs/json-schema.md describes it. What comes from a
file is believed as little as what comes from a process.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any, NoReturn

from mqs_dll.contract.abi import LayoutOrigin, Queue
from mqs_dll.contract.errors import SavedFileError
from mqs_dll.job import json_memory as json_memory
from mqs_dll.job.codec import Codecs, DamagedError
from mqs_dll.job.facts import MAX_RANKS
from mqs_dll.job.files import write_out
from mqs_dll.job.records import Frame, Job, JobProcess, RankState
from mqs_dll.job.shared import garbage_left_alone
from mqs_dll.job.snapshot import QueueSnapshot

VERSION = 2
FORMAT = f"mqs-job/{VERSION}"
"""Changes with every change of the records: a saved job is read whole, or not at all."""

_OLD_NAMES = {
    1: {
        "evidence": "witness",
        "progressed": "went_on",
        "remedy": "way_out",
        "reported": "told",
        "stop_skew": "apart",
        "stop_time": "pause",
        "transient": "passes",
    }
}
"""For each older format that can still be read: fields of the records, and what it calls them."""

LARGEST = 1 << 29
"""Bytes of JSON that are read: a hundred thousand ranks need less, and a gzip bomb would fill the memory."""

_MAX_MEMORY = 1 << 32
"""Bytes of memory that those may stand for."""

_MAX_UNPACKED = 300
_SMALL = 1 << 24
"""Times its size that a compressed file unpacks to, beyond so many bytes: a job does to some twenty times."""

_STEP = 1 << 22

GROUPS = "groups"

_SHARED = {
    tuple[int, ...]: GROUPS,
    Frame: "frames",
    tuple[LayoutOrigin, ...]: "layouts",
    QueueSnapshot: "queues",
    tuple[str, ...]: "sentences",
}
"""What ten thousand ranks have in common: it stands in the file once, and is one object when it is read."""

_QUEUES = list(Queue)

_STANDARD_STREAM = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_START = re.compile(rb'\s*\{\s*"format"\s*:\s*"mqs-job/(\d{1,9})"')


# ---------------------------------------------------------------- writing


def save(job: Job, path: str) -> None:
    """Write a job to a file, in place of what was there; "-" is the standard output.

    The file appears when it is complete: until then, and after any failure, what was there stays.

    Raises:
        SavedFileError: the file can't be written (files.write_whole).
    """
    content = to_bytes(job)
    try:
        write_out(path, gzip.compress(content, mtime=0) if path.endswith(".gz") else content)
    except BrokenPipeError:
        raise  # whoever read the standard output has ended
    except OSError as error:
        raise SavedFileError(f"can't write {path}: {_reason(error)}") from error


def to_bytes(job: Job) -> bytes:
    """Return what a file that holds a job consists of, before it is compressed."""
    with garbage_left_alone():
        used = codecs()
        written = used.of(Job).write(job)
        tables = {name: table.write() for name, table in used.tables.items()}
        document = {"format": FORMAT, **tables, "job": written}
        return json.dumps(document, separators=(",", ":")).encode("ascii") + b"\n"


# ---------------------------------------------------------------- reading


def load(path: str) -> Job:
    """Return the job that a file holds, compressed or not; "-" is the standard input.

    Raises:
        SavedFileError: the file can't be read, was written by a newer libmqs, is damaged, or isn't a saved job.
    """
    try:
        content = _read(path)
    except (OSError, ValueError) as error:
        raise SavedFileError(f"can't read {path}: {_reason(error)}") from error
    return from_bytes(content, path)


def from_bytes(content: bytes | bytearray, path: str) -> Job:
    """Return the job that to_bytes() made ``content`` of; ``path`` is for what errors say.

    Raises:
        SavedFileError: it is no such content.
    """
    version = _check_format(content, path)
    try:
        if len(content) * json_memory.MAX_GROWTH > min(_MAX_MEMORY, json_memory.left()):
            _check_room(json_memory.check(content, _MAX_MEMORY), path)
        with garbage_left_alone():
            job = _from_document(json.loads(content, parse_constant=refuse_constant), version)
    except MemoryError as error:
        raise SavedFileError(f"{path} needs more memory than there is") from error
    except RecursionError as error:
        raise SavedFileError(f"{path} is damaged: it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise SavedFileError(f"{path} is cut off or damaged: no JSON from byte {error.pos} on") from error
    except (DamagedError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise SavedFileError(f"{path} is damaged: {error}") from error
    return job


def codecs(version: int = VERSION) -> Codecs:
    """Return what jobs are written and read with; those that are read one after the other may share it."""
    return Codecs(_SHARED, _OLD_NAMES.get(version, {}))


def _from_document(document: Any, version: int) -> Job:
    """Return the job that to_bytes() wrote, in terms of JSON.

    Raises:
        DamagedError: it is no such document.
    """
    used = codecs(version)
    if type(document) is not dict or document.keys() != {"format", "job", *used.tables}:
        raise DamagedError("it has other parts than a saved job has")
    for name, table in used.tables.items():
        table.fill(document[name])
    job: Job = used.of(Job).read(document["job"])
    _check(job)
    return job


def _read(path: str) -> bytearray:
    if path == _STANDARD_STREAM:
        with open(sys.stdin.fileno(), "rb", closefd=False) as file:
            return _read_stream(file, path)
    with Path(path).open("rb") as file:
        return _read_stream(file, path)


def _read_stream(file: io.BufferedReader, path: str) -> bytearray:
    """Return at most LARGEST bytes, and those only when they start as they should: the rest may be a bomb."""
    packed = _Counted(file)
    is_packed = file.peek(2)[:2] == _GZIP_MAGIC
    stream = gzip.GzipFile(fileobj=packed) if is_packed else file
    content = bytearray()
    try:
        while piece := stream.read(min(_STEP, LARGEST + 1 - len(content))):
            content += piece
            if len(content) == len(piece):
                _check_format(piece, path)
            if len(content) > LARGEST:
                raise SavedFileError(f"{path} holds more than {LARGEST} bytes: no job is as large")
            if is_packed and len(content) > max(_SMALL, _MAX_UNPACKED * packed.size):
                raise SavedFileError(f"{path} unpacks to more than {_MAX_UNPACKED} times its size: no job does")
            _check_room(len(content), path)
        return content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SavedFileError(f"{path} is cut off or damaged: {error}") from error
    except MemoryError as error:
        raise SavedFileError(f"{path} needs more memory than there is") from error


class _Counted(io.RawIOBase):
    """A file that counts what was read of it."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__()
        self._file = file
        self.size = 0

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as a buffer takes."""
        read = self._file.readinto(buffer)
        self.size += read
        return read


def _check_room(size: int, path: str) -> None:
    left = json_memory.left()
    if size > left:
        raise SavedFileError(
            f"{path} needs more memory than there is: some {size >> 20} MiB of {left >> 20} that this process may have"
        )


def _check_format(content: bytes | bytearray, path: str) -> int:
    """Return the version of the format in which a job was saved.

    Raises:
        SavedFileError: it is no saved job, or of a version that can't be read.
    """
    start = _START.match(content)
    if start is None:
        raise SavedFileError(f"{path} is no saved job: it doesn't start with its format, {FORMAT}")
    version = int(start.group(1))
    if version > VERSION:
        raise SavedFileError(f"{path} was saved by a newer libmqs, as mqs-job/{version}; this one reads {FORMAT}")
    if version != VERSION and version not in _OLD_NAMES:
        raise SavedFileError(f"{path} is of the format mqs-job/{version}; this libmqs reads {FORMAT}")
    return version


def refuse_constant(name: str) -> NoReturn:
    """Refuse what Python takes for a number and JSON doesn't: NaN, Infinity."""
    raise DamagedError(f"{name} is no number")


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# ---------------------------------------------------------------- what the records promise


def _check(job: Job) -> None:
    """Hold a job to what its records say of it and no type does: whoever reads it relies on that."""
    for size in job.sizes:
        if size is not None and not 0 <= size <= MAX_RANKS:
            raise DamagedError(f"an MPI_COMM_WORLD of {size} ranks is larger than any")
    for process in job.processes:
        if not 0 <= process.world < len(job.sizes):
            raise DamagedError(f"a process belongs to MPI_COMM_WORLD no. {process.world} of {len(job.sizes)}")
        check_process(process)


def check_process(process: JobProcess) -> None:
    """Hold a process to what its records say of it, whatever job it belongs to; raise DamagedError."""
    if process.rank is not None and not 0 <= process.rank <= MAX_RANKS:
        raise DamagedError(f"a process is rank {process.rank}")
    if (process.state is RankState.READ) != bool(process.samples):
        raise DamagedError(f"a process is {process.state.value}, and {len(process.samples)} samples are of it")
    if process.starts and process.state is not RankState.NOT_INITIALIZED:
        raise DamagedError(f"a process is {process.state.value}, and was seen before MPI_Init")
    for sample in process.samples:
        for communicator in sample.snapshot.communicators:
            if communicator.communicator.size > MAX_RANKS:
                raise DamagedError(f"a communicator of {communicator.communicator.size} ranks is larger than any")
            if [queue.queue for queue in communicator.queues] != _QUEUES:
                raise DamagedError("a communicator has other queues than sends, receives and unexpected messages")
