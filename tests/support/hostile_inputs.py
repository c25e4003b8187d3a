"""Inputs that ask for far more memory than they take: a file, an answer, a process's memory, each of a few bytes.

``python -m tests.support.hostile_inputs NAME FOLDER`` reads one, and prints as JSON what became of it and the most
memory that it took. The tests run that with little address space.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import resource
import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from mqs_dll.commands import cli
from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.collect import ProcessReader
from mqs_dll.debugger.core import start
from mqs_dll.debugger.core.core_file import CoreFile
from mqs_dll.debugger.job import calls_only, worlds
from mqs_dll.debugger.job.nodes import wire
from mqs_dll.debugger.library_file import FileProcess
from mqs_dll.debugger.proc import read_file
from mqs_dll.job import codec, saved
from mqs_dll.job.records import JobProcess, RankState
from mqs_dll.library.layouts.profiles import shipped
from mqs_dll.library.layouts.view import View
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.mpich import views as mpich_views
from mqs_dll.library.mpi.mpich.groups import MAX_GROUP_SIZE, RankDecoder
from mqs_dll.library.mpi.openmpi import groups as openmpi_groups
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.containers import Containers
from mqs_dll.library.mpi.openmpi.symbols import Symbols
from tests.support import made_up_groups
from tests.support.made_up_groups import CHILD, groups_of
from tests.support.made_up_job import job, rank
from tests.support.memory_image import MemoryImage, NoSymbols
from tests.support.mpich_process import layouts_with

MANY = 1 << 24
"""Ranks that a record may claim."""

BASE = 0x1000_0000


class Outcome(Exception):
    """What was read without a refusal."""


# ---------------------------------------------------------------- saved jobs


def _document(spoil: Callable[[dict[str, Any]], object]) -> bytes:
    document: dict[str, Any] = json.loads(saved.to_bytes(job(rank(0), rank(1))))
    spoil(document)
    return json.dumps(document).encode()


def _communicators(document: dict[str, Any], number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["job"]["processes"][number]["samples"][0]["snapshot"]["communicators"]
    return found


def _verdict(content: bytes, folder: Path, name: str = "job") -> None:
    """Load a file and judge it, as `mqs job --load` does."""
    path = folder / name
    path.write_bytes(content)
    _judge(path)


def _judge(path: Path) -> None:
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        code = cli.main(["job", "--load", str(path)])
    raise Outcome(f"exit code {code}: {said.getvalue()}")


def _hidden(document: dict[str, Any], count: int) -> None:
    """Give a process communicators of millions of ranks with hidden groups, itself the last one in each."""
    listed = _communicators(document, 0)
    one = {**listed[0], "group": {"reason": "hidden"}}
    for number in range(count):
        record = {**one["communicator"], "unique_id": number + 7, "size": MANY, "local_rank": MANY - 1}
        listed.append({**one, "communicator": record})


def _shared_group(document: dict[str, Any]) -> None:
    """Let thousands of communicators have one group of half a million."""
    document["groups"].append([0] * 500_000)
    listed = _communicators(document, 0)
    for number in range(5000):
        record = {**listed[0]["communicator"], "unique_id": number + 7, "size": 500_000}
        listed.append({**listed[0], "group": len(document["groups"]) - 1, "communicator": record})


def saved_hidden_groups(folder: Path) -> None:
    """Read a few communicators of a million ranks, each with a hidden group."""
    _verdict(_document(lambda document: _hidden(document, 20)), folder)


def saved_many_hidden_groups(folder: Path) -> None:
    """Read thousands of them."""
    _verdict(_document(lambda document: _hidden(document, 5000)), folder)


def saved_shared_group(folder: Path) -> None:
    """Read one group, in thousands of communicators."""
    _verdict(_document(_shared_group), folder)


def saved_window(folder: Path) -> None:
    """Read a window of a million million ranks."""
    document = json.loads(saved.to_bytes(job(rank(0, windows=[]), rank(1))))
    listed = document["job"]["processes"][0]["samples"][0]["snapshot"]["core"]
    document["groups"].append([])
    empty = len(document["groups"]) - 1
    listed["windows"] = [{"name": "w", "size": 1 << 40, "address": 1, "communicator": 1, "ranks": empty}]
    _verdict(json.dumps(document).encode(), folder)


_BEGIN = b'{"format": "mqs-job/2", "job": '


def saved_brackets(folder: Path) -> None:
    """Read a plain file of empty lists."""
    _verdict(_BEGIN + b"[" + b"[]," * 20_000_000 + b"[]]}", folder)


def saved_objects(folder: Path) -> None:
    """Read a plain file of objects with a member."""
    _verdict(_BEGIN + b"[" + b'{"a":{}},' * 8_000_000 + b"1]}", folder)


def saved_nested(folder: Path) -> None:
    """Read a plain file that is nested as deep as it is long."""
    _verdict(_BEGIN + b"[" * 30_000_000, folder)


def saved_bomb(folder: Path) -> None:
    """Read a compressed file of blanks."""
    _packed(b" " * 1_000_000, 400, folder)


def saved_packed_brackets(folder: Path) -> None:
    """Read a compressed file of empty lists."""
    _packed(b"[]," * 1_000_000, 60, folder)


def _packed(piece: bytes, count: int, folder: Path) -> None:
    path = folder / "job.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(_BEGIN + b"[")
        for _ in range(count):
            file.write(piece)
    _judge(path)


def saved_alphabet(folder: Path) -> None:
    """Read a plain file whose one letter of another alphabet makes each of the others four times as large."""
    _verdict(_BEGIN + '"\U0001f600'.encode() + b"x" * 100_000_000 + b'"}', folder)


# ---------------------------------------------------------------- agents' answers


def _answer(begin: bytes, piece: bytes = b"", count: int = 0) -> Any:
    """Return what a message of an agent's says that unpacks to a text."""
    packing = zlib.compressobj(1)
    packed = packing.compress(begin) + b"".join(packing.compress(piece) for _ in range(count)) + packing.flush()
    packed = b"=" + base64.b64encode(packed)
    message = wire.Assembler().add(packed)
    assert message is not None
    return message.get("done")


def answer_bomb(folder: Path) -> None:
    """Read a message that unpacks to gigabytes."""
    _answer(b"{", b" " * 1_000_000, 300)


def answer_brackets(folder: Path) -> None:
    """Read a message of empty lists."""
    _answer(b'{"done": [', b"[]," * 100_000, 200)


def answer_objects(folder: Path) -> None:
    """Read a message of objects."""
    _answer(b'{"done": [', b'{"":{}},' * 100_000, 80)


def answer_nested(folder: Path) -> None:
    """Read a message that is nested as deep as it is long."""
    _answer(b'{"done":', b'{"a":' * 100_000, 50)


def _read_processes(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = wire.write_processes(job(rank(0), rank(1)).processes)
    spoil(document)
    wire.Jobs().read(document, most=1 << 30)


def answer_groups(folder: Path) -> None:
    """Read groups that are a few numbers, of millions of ranks each."""
    _read_processes(lambda document: document["groups"].extend([number, 4_000_000] for number in range(1000)))


def answer_columns(folder: Path) -> None:
    """Read a column of one process that stands for millions."""
    _read_processes(lambda document: document.update(processes=[1 << 40, document["processes"][1]]))


def answer_records(folder: Path) -> None:
    """Read a column of millions of queues."""
    queue = {"queue": {"all": "sends"}, "operations": {"all": []}}
    _read_processes(lambda document: document.update(queues=[3_000_000, {"of": queue}]))


def answer_sizes(folder: Path) -> None:
    """Core files of jobs that are said to have any number of ranks."""
    process = JobProcess(0, 3, "n1", 7, "a", RankState.UNREADABLE, "why", "", ())
    read = worlds.RankRead("core", process, size=wire.read(wire.Core, _core(1 << 60)).size)
    made = worlds.put_together([read], title="a", source="core files", taken="", stopped=True, absent="no core file")
    raise Outcome(f"{len(made.processes)} ranks")


def _core(size: int) -> dict[str, Any]:
    return {"command": "a", "marker": None, "size": size, "mpi": "", "written": 0.0}


# ---------------------------------------------------------------- what processes say in /proc


def environment_size(folder: Path) -> None:
    """Read an environment that says of MPI_COMM_WORLD that it has as many ranks as an int can tell."""
    library = calls_only.CallsOnly(NoSymbols(), 0, (1 << 31) - 1, "a test")
    with ProcessReader(library, MemoryImage({}), pid=1, program="a", library_path=None) as look:
        group = look.read().communicators[0].group
    raise Outcome(str(group))


def environment_length(folder: Path) -> None:
    """Read an environment that is gigabytes of the process's memory."""
    path = folder / "environ"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    raise Outcome(f"{len(read_file(str(path)))} bytes")


# ---------------------------------------------------------------- memory


class Endless(MemoryImage):
    """Memory that goes on forever behind some pages, all of one word."""

    def __init__(self, pages: dict[int, bytes], word: int) -> None:
        super().__init__(pages)
        self._word = struct.pack("<Q", word)

    def fetch(self, address: int, size: int) -> bytes:
        """Return bytes of a page, or the word again and again."""
        for begin, data in self.pages.items():
            if begin <= address < begin + len(data):
                return data[address - begin :][:size].ljust(size, b"\0")
        return (self._word * (size // 8 + 2))[address % 8 :][:size]


def _laid_out(view: type[View], layouts: Any, **members: int) -> bytes:
    data = bytearray(PAGE)
    reader = view.bind(layouts)
    for name, value in members.items():
        struct.pack_into("<" + view.members[name].code, data, reader.offsets[name], value)
    return bytes(data)


def _open_mpi() -> Any:
    return next(each for each in shipped("openmpi") if each.name == made_up_groups.PROFILE).layouts


def openmpi_table(folder: Path) -> None:
    """Read a table of communicators with as many slots as any may have, none of them empty."""
    _table(1 << 26)


def openmpi_full_table(folder: Path) -> None:
    """Read one with a few million, all of them used."""
    _table((1 << 23) - 1)


def _table(slots: int) -> None:
    layouts = _open_mpi()
    table = _laid_out(views.OpalPointerArray, layouts, addr=BASE << 8, size=slots, number_free=0)
    memory = Memory(Endless({BASE: table}, BASE))
    Containers(memory, Symbols(NoSymbols(), ()), layouts).pointer_array(BASE)


def openmpi_group(folder: Path) -> None:
    """Read a dense group of sixteen million processes."""
    _group(groups_of(1, 0, MAX_GROUP_SIZE, b""))


def openmpi_group_of_many(folder: Path) -> None:
    """Read one of four million that are of different jobs."""
    _group(groups_of(1, 0, 1 << 22, b""))


def _group(groups: openmpi_groups.Groups) -> None:
    image = groups._memory._process
    assert isinstance(image, MemoryImage)
    del image.pages[made_up_groups.ENTRIES]
    groups._memory._process = Endless(image.pages, 3 << 32 | 3)
    groups.world_ranks(CHILD)


def openmpi_sparse_groups(folder: Path) -> None:
    """Read fifteen times a group of a million processes, each made of a parent."""
    groups = made_up_groups.strided(1 << 20, 0, 1)
    kept = []
    for _ in range(15):
        groups._memory.start()
        groups._memory.cache.pop((groups, "world_ranks"), None)
        kept.append(len(groups.world_ranks(CHILD)))
    raise Outcome(f"{len(kept)} times {kept[0]} ranks")


def _mpich(**members: int) -> RankDecoder:
    layouts = layouts_with(mpich_views.RankMap.struct, "mode")
    made = _laid_out(mpich_views.RankMap, layouts, **members)
    return RankDecoder(Memory(Endless({BASE: made}, 3)), layouts)


def mpich_map(folder: Path) -> None:
    """Read a map of sixteen million ranks that are computed."""
    _mpich(mode=6, size=MAX_GROUP_SIZE, stride=3, blocksize=2)._from_map(BASE, MAX_GROUP_SIZE)


def mpich_table(folder: Path) -> None:
    """Read a map of sixteen million ranks that stand in a table."""
    _mpich(mode=9, size=MAX_GROUP_SIZE, lut=BASE << 8)._from_map(BASE, MAX_GROUP_SIZE)


def mpich_pairs(folder: Path) -> None:
    """Read a map of four million ranks, each with its world."""
    _mpich(mode=10, size=(1 << 22) + 1, lut=BASE << 8)._from_map(BASE, (1 << 22) + 1)


def mpich_group(folder: Path) -> None:
    """Read a group of MPICH 5's with sixteen million processes."""
    layouts = layouts_with(mpich_views.MpirGroup.struct, "pmap.use_map")
    made = _laid_out(mpich_views.MpirGroup, layouts, size=MAX_GROUP_SIZE, use_map=1, map=BASE << 8)
    RankDecoder(Memory(Endless({BASE: made}, 3)), layouts).of_group(BASE)


def many_calls(folder: Path) -> None:
    """Make many calls, each of which reads what is allowed: what they leave isn't kept together."""
    memory = Memory(Endless({}, 3))
    for number in range(40):
        memory.start()
        memory.cache[number] = memory.pointers(BASE + (number << 24), 1 << 19)
        for block in range(4):
            memory.read(BASE + (1 << 40) + (number << 24) + (block << 20), 1 << 20)
    raise Outcome("40 calls")


# ---------------------------------------------------------------- files


_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MAGIC = b"\x7fELF\x02\x01\x01"


def _elf(kind: int, segments: int, at: int = 64, sections: int = 0, section_count: int = 0) -> bytes:
    return _ELF.pack(_MAGIC, kind, 62, 1, 0, at, sections, 0, 64, 56, segments, 64, section_count, 0)


def core_segments(folder: Path) -> None:
    """Read a core file, gigabytes of holes, that says that it has millions of parts."""
    path = folder / "core"
    section = _SECTION.pack(0, 0, 0, 0, 0, 0, 0, (1 << 32) - 1, 0, 0)
    path.write_bytes(_elf(4, 0xFFFF, at=128, sections=64) + section)
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    CoreFile(path)


def core_notes(folder: Path) -> None:
    """Read a core file with thousands of notes of a quarter of a gigabyte each, all the same holes."""
    path = folder / "core"
    count = 0xFFF0
    path.write_bytes(_elf(4, count) + _SEGMENT.pack(4, 0, 1 << 30, 0, 0, 1 << 28, 0, 4) * count)
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    CoreFile(path)


def core_mappings(folder: Path) -> None:
    """Read a core file whose note of mapped files counts what it doesn't have."""
    path = folder / "core"
    content = struct.pack("<QQ", 1 << 40, 4096) + bytes(1 << 20)
    note = struct.pack("<III", 5, len(content), 0x46494C45) + b"CORE\0\0\0\0" + content
    vector = struct.pack("<QQ", 25, BASE)
    note += struct.pack("<III", 5, len(vector), 6) + b"CORE\0\0\0\0" + vector
    path.write_bytes(_elf(4, 1) + _SEGMENT.pack(4, 0, 120, 0, 0, len(note), 0, 4) + note)
    CoreFile(path)


def core_strings(folder: Path) -> None:
    """Read a stack on which a hundred thousand pointers lead to one text of megabytes."""
    vector = struct.pack("<QQ", 25, BASE)
    strings = b"A=" + b"x" * (1 << 23) + b"\0"
    pointers = struct.pack("<Q", BASE) * 100_000
    below = struct.pack("<QQQ", 1, BASE, 0) + pointers + struct.pack("<Q", 0) + vector

    def read(address: int, size: int) -> bytes:
        return (strings if address == BASE else below)[-size:] if address == BASE else below.rjust(size, b"\0")

    found = start.find(read, 0, BASE, BASE + len(strings), vector)
    raise Outcome(f"{sum(map(len, found.environment.values()))} letters")


def library_segments(folder: Path) -> None:
    """Read a library, gigabytes of holes, each of whose segments is all of it."""
    path = folder / "lib.so"
    path.write_bytes(_elf(3, 1000) + _SEGMENT.pack(1, 5, 0, 0, 0, 1 << 31, 1 << 31, 4096) * 1000)
    with path.open("r+b") as file:
        file.truncate(1 << 31)
    FileProcess(path)


def library_zeros(folder: Path) -> None:
    """Read a library whose dynamic section is said to be gigabytes of zeros."""
    path = folder / "lib.so"
    segments = _SEGMENT.pack(1, 6, 0, 0, 0, 4096, 1 << 32, 4096) + _SEGMENT.pack(2, 6, 0, 0, 0, 1 << 31, 1 << 31, 8)
    path.write_bytes((_elf(3, 2) + segments).ljust(4096, b"\0"))
    FileProcess(path)


INPUTS: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        saved_hidden_groups,
        saved_many_hidden_groups,
        saved_shared_group,
        saved_window,
        saved_brackets,
        saved_objects,
        saved_nested,
        saved_bomb,
        saved_packed_brackets,
        saved_alphabet,
        answer_bomb,
        answer_brackets,
        answer_objects,
        answer_nested,
        answer_groups,
        answer_columns,
        answer_records,
        answer_sizes,
        environment_size,
        environment_length,
        openmpi_table,
        openmpi_full_table,
        openmpi_group,
        openmpi_group_of_many,
        openmpi_sparse_groups,
        mpich_map,
        mpich_table,
        mpich_pairs,
        mpich_group,
        many_calls,
        core_segments,
        core_notes,
        core_mappings,
        core_strings,
        library_segments,
        library_zeros,
    )
}


def main(name: str, folder: str) -> None:
    """Read one, and print what became of it."""
    outcome, text = "", ""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        INPUTS[name](Path(folder))
    except (MqsError, codec.DamagedError, Outcome, MemoryError, RecursionError) as error:
        outcome, text = type(error).__name__, str(error)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"outcome": outcome, "text": text, "before": before >> 10, "peak": peak >> 10}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
