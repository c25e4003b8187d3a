"""How MPICH is found in a process, which layouts are believed, and when it is up."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqs_dll.contract.abi import LayoutOrigin
from mqs_dll.contract.errors import FinalizedError, LayoutError, NotInitializedError, TargetReadError
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.layouts.layout import DEBUG_INFORMATION, StructLayout
from mqs_dll.library.layouts.profiles import FOLDER, load, shipped
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.mpich import handles, pools, views
from mqs_dll.library.mpi.mpich.adapter import AttachedMpich
from mqs_dll.library.mpi.mpich.identity import find_process
from mqs_dll.library.session import Library, ProcessSession
from tests.support.jobs import Compiler, running
from tests.support.mpis import Mpi, mpichs
from tests.support.tampered import Tampered
from tests.support.targets import WithTypes

OLD, NEW = "mpich-3.4.3.post1-pypi", "mpich-4.3.2-pypi"
BY_NAME = {mpi.name: mpi for mpi in mpichs()}
MAX_READS = 40


def job_of(name: str, compiler: Compiler) -> Iterator[int]:
    """Start a job and yield its rank 1."""
    mpi = BY_NAME[name]
    with running(compiler, mpi, mpi.transports[0], "dozen", 4) as job:
        yield job.wait_until_ready()[1]["pid"]


@pytest.fixture(scope="module", params=[OLD, NEW])
def pid(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[int]:
    """Return rank 1 of a job with 8 communicators and a dozen operations."""
    yield from job_of(request.param, compiler)


@pytest.fixture
def process(pid: int) -> Iterator[Tampered]:
    """Return the process."""
    with LiveProcess(pid) as live:
        yield Tampered(live)


def session_of(process: Tampered) -> ProcessSession:
    """Return a new session with a process."""
    return Library().setup_image(process.image).setup_process(process)


def attached(process: Tampered) -> AttachedMpich:
    """Return the MPICH of a process."""
    session = session_of(process)
    session.has_queues()
    assert isinstance(session._mpi, AttachedMpich)
    return session._mpi


# ---------------------------------------------------------------- the search


def can_be_read(process: Tampered, start: int, size: int) -> bool:
    """Return whether a range is mapped; a read that isn't is tried again with fewer pages."""
    try:
        return bool(process.fetch(start, size))
    except TargetReadError:
        return False


def pages_of(start: int, size: int) -> range:
    """Return the numbers of a range's pages."""
    return range(start // PAGE, (start + size) // PAGE)


def test_the_search_reads_each_page_once_and_is_done_once(process: Tampered, monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH's objects are found in a few large reads, that hardly overlap; asking again reads nothing."""
    monkeypatch.setattr(pools, "_known_places", {})
    session = session_of(process)
    session.has_queues()
    reads = list(process.fetched)
    pages = Counter(page for read in reads if can_be_read(process, *read) for page in pages_of(*read))
    assert len(reads) <= MAX_READS
    assert sum(pages.values()) < 1.2 * len(pages)  # how many overlap depends on where the kernel put the library
    before = len(process.fetched)
    session.has_queues()
    assert len(process.fetched) == before


def test_a_process_with_one_rank_has_communicators_though_no_pool_was_used(tmp_path: Path) -> None:
    """MPI_COMM_WORLD and MPI_COMM_SELF are found where nothing was ever taken from the pool of communicators."""
    mpi = BY_NAME[NEW]
    with program(mpi, tmp_path, "MPI_Init(0, 0); ready(); MPI_Finalize();") as started, closing(started) as process:
        session = session_of(Tampered(process))
        session.update_communicator_list()
        session.setup_communicator_iterator()
        first = session.get_communicator()
        assert first is not None
        assert first.name == b"MPI_COMM_WORLD"
        assert session.next_communicator()
        assert not session.next_communicator()


# ---------------------------------------------------------------- whether it is up

SOURCE = """
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
static void ready(void) { puts("ready"); fflush(stdout); sleep(60); }
int main(void) { %s return 0; }
"""


class program:  # a context manager
    """Runs one rank of a small program, without mpiexec, until it says that it is ready."""

    def __init__(self, mpi: Mpi, directory: Path, body: str) -> None:
        if mpi.missing:
            pytest.skip(mpi.missing)
        source, binary = directory / "program.c", directory / "program"
        source.write_text(SOURCE % body)
        subprocess.run([str(mpi.mpicc), str(source), "-o", str(binary)], check=True, env={**mpi.environment})
        self._running = subprocess.Popen([str(binary)], stdout=subprocess.PIPE, env={**mpi.environment})

    def __enter__(self) -> LiveProcess:
        """Return the process."""
        assert self._running.stdout is not None
        assert self._running.stdout.readline() == b"ready\n"
        return LiveProcess(self._running.pid)

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._running.kill()
        self._running.communicate()


@pytest.mark.parametrize("name", [OLD, NEW])
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("ready(); MPI_Init(0, 0); MPI_Finalize();", NotInitializedError),
        ("MPI_Init(0, 0); MPI_Finalize(); ready();", FinalizedError),
    ],
    ids=["before MPI_Init", "after MPI_Finalize"],
)
def test_a_process_that_is_not_up_is_reported(name: str, body: str, error: type[Exception], tmp_path: Path) -> None:
    """Before MPI_Init and after MPI_Finalize there is a sentence instead of communicators."""
    with program(BY_NAME[name], tmp_path, body) as started, closing(started) as process, pytest.raises(error):
        session_of(Tampered(process)).has_queues()


# ---------------------------------------------------------------- layouts


def test_types_that_a_debugger_knows_wholly_come_before_the_profile(process: Tampered) -> None:
    """Debug information serves for structs that it has every member of; the profile serves for the others."""
    mpi = attached(process)
    known = {struct.name: struct for struct in mpi._layouts}
    win = known["MPIR_Win"]
    partly = {"MPIR_Win": StructLayout("MPIR_Win", win.size, {"name": win.offsets["name"]}, "")}
    session = Library().setup_image(WithTypes(process.image, {**known, **partly})).setup_process(process)
    origins = dict(session.layout_origins())
    assert origins["MPIR_Datatype"] == DEBUG_INFORMATION
    assert origins["MPIR_Win"].startswith("profile mpich-")
    assert origins["MPIR_Comm"].startswith(
        "profile mpich-"
    )  # a part of its member dev is read, which no debugger knows


def test_reports_name_the_profile_of_each_struct(process: Tampered) -> None:
    """Without debug information all layouts come from one profile."""
    origins = attached(process).layout_origins()
    assert len({origin.origin for origin in origins}) == 1
    assert all(isinstance(origin, LayoutOrigin) for origin in origins)


def test_a_build_with_other_structs_fits_no_profile(process: Tampered) -> None:
    """Where the pool's record shows another size, every profile is refused, and the sentence says what to run."""
    mpi = attached(process)
    record = mpi._pools.by_class[handles.COMM][0].record
    process.write(record + views.ObjectAlloc.bind(mpi._layouts).offsets["size"], 4096, 4)
    with pytest.raises(LayoutError, match="communicators of another size") as caught:
        session_of(process).has_queues()
    assert "mqs calibrate" in caught.value.help


@pytest.mark.parametrize(
    ("member", "value", "sentence"),
    [
        ("rank", 99, "MPI_COMM_WORLD says rank 99"),
        ("local_size", 3, "MPI_COMM_WORLD says rank 1 of 3"),
        ("comm_kind", 1, "MPI_COMM_WORLD says"),
    ],
)
def test_a_layout_is_refused_when_the_predefined_communicators_contradict_it(
    process: Tampered, member: str, value: int, sentence: str
) -> None:
    """Right sizes are not enough: MPI_COMM_WORLD must make sense."""
    mpi = attached(process)
    builtin = mpi._identity.builtin
    assert builtin is not None
    process.write(builtin + mpi._layouts.struct("MPIR_Comm").offsets[member], value, 4)
    with pytest.raises(LayoutError, match=sentence):
        session_of(process).has_queues()


@pytest.mark.parametrize("name", [bytes(128), b"x" * 128], ids=["nameless", "endless"])
def test_predefined_communicators_have_names_that_end(process: Tampered, name: bytes) -> None:
    """Where neither MPI_COMM_WORLD nor MPI_COMM_SELF has a name, it is not looked for in the right place."""
    mpi = attached(process)
    builtin = mpi._identity.builtin
    assert builtin is not None
    offset = mpi._layouts.struct("MPIR_Comm").offsets["name"]
    for index in (0, 1):
        process.overlay[builtin + index * mpi._pools.size_of(handles.COMM) + offset] = name
    with pytest.raises(LayoutError, match="has a name, or one of them does not end"):
        session_of(process).has_queues()


def test_a_rank_that_differs_from_mpir_process_is_refused(process: Tampered) -> None:
    """MPI_COMM_WORLD and the variable MPIR_Process must agree on the rank."""
    mpi = attached(process)
    builtin = mpi._identity.builtin
    assert builtin is not None
    process.write(builtin + mpi._layouts.struct("MPIR_Comm").offsets["rank"], 2, 4)
    with pytest.raises(LayoutError, match="MPIR_Process says rank 1 of 4, MPI_COMM_WORLD 2"):
        session_of(process).has_queues()


def test_mpir_process_is_found_wherever_its_symbol_says_that_it_starts(process: Tampered) -> None:
    """A profile counts its members from the first that is known; what precedes that in the struct does not matter."""
    mpi = attached(process)
    builtin, size = mpi._identity.builtin, mpi._pools.size_of(handles.COMM)
    assert builtin is not None
    memory = Memory(process)
    found = [
        find_process(memory, mpi._layouts, mpi._identity.library, builtin, size, symbol) for symbol in (None, builtin)
    ]
    assert found[0] is not None
    assert found[0].comm_world == builtin
    for symbol in (found[0].address, found[0].address - 12):
        found.append(find_process(memory, mpi._layouts, mpi._identity.library, builtin, size, symbol))
    assert {each and each.address for each in found} == {found[0].address}


def test_each_series_has_a_profile() -> None:
    """Every MPICH of the matrix has a profile that its own calibration made, with the build that it was made from."""
    profiles = list(shipped("mpich"))
    releases = {release for profile in profiles for release in profile.releases}
    assert releases >= {"3.4.3", "4.0.2", "4.0.3", "4.1.3", "4.2.3", "4.3.2", "5.0.2"}
    assert all(profile.builds for profile in profiles)


def test_on_aarch64_only_what_lies_behind_a_mutex_lies_elsewhere() -> None:
    """glibc's has 48 bytes there, and 40 on x86_64; communicators and windows start with one."""
    x86, arm = (load(Path(FOLDER) / f"mpich-4.3.2-{machine}.json") for machine in ("x86_64", "aarch64"))
    moved = {}
    for struct in x86.layouts:
        there = arm.layouts.struct(struct.name).offsets
        moved[struct.name] = {there[member] - offset for member, offset in struct.offsets.items()}
    assert {name: by for name, by in moved.items() if by - {0}} == {"MPIR_Comm": {0, 8}, "MPIR_Win": {8}}
    assert arm.sizes == {name: size and size + 8 * (8 in moved[name]) for name, size in x86.sizes.items()}
