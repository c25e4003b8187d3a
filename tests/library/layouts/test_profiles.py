"""Profiles: the schema, what is shipped, and the solver that makes them from what a running MPI shows."""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from mqs_dll.calibrate.dump import Dump, Entry, Region, UnreadableError
from mqs_dll.calibrate.layout_solver import LayoutSolver, MemberRow, Place, number
from mqs_dll.calibrate.offset_solver import Observation, Unsolved, solve_offset
from mqs_dll.calibrate.openmpi.identity import family_of
from mqs_dll.contract.errors import LayoutError
from mqs_dll.library.fabric import ofi
from mqs_dll.library.fabric.ucx import views as ucx_views
from mqs_dll.library.layouts.profiles import FOLDER, SCHEMA, Profile, available, load, of_fabric, parse, shipped
from mqs_dll.library.layouts.selection import nearest_first, of_machine
from mqs_dll.library.layouts.view import View, wanted_members
from mqs_dll.library.mpi.mpich import fitting_shm
from mqs_dll.library.mpi.mpich import views as mpich_views
from mqs_dll.library.mpi.openmpi import views as openmpi_views
from mqs_dll.library.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.library.mpi.openmpi.views import OmpiGroup

FILES = sorted(path for path in Path(FOLDER).glob("openmpi-*.json") if not load(path).fixed)
FABRIC_FILES = sorted(each for fabric in ("ucx", "libfabric") for each in Path(FOLDER).glob(f"{fabric}-*.json"))
FIXED_FILES = [Path(FOLDER) / f"{mpi}-every-release.json" for mpi in ("mpich", "openmpi")]
OFI_MODULES = [import_module(f"{ofi.__name__}.{each.name}") for each in iter_modules(ofi.__path__)]
VIEWS_OF = {"UCX": [ucx_views], "libfabric": OFI_MODULES, "mpich": [mpich_views], "openmpi": [openmpi_views]}
"""The modules that have views of structs."""
LINKS = {"ucp_request": ["recv.queue"], "ucp_recv_desc": ["tag_list"], "sock_op": ["op"]}
"""Members that no view has, since a walker comes by them."""
FITTED = {
    **{name + fitting_shm.SINCE_4_0: (name, "") for name in fitting_shm.OUTSIDE},
    fitting_shm.EXTENSION + fitting_shm.SINCE_4_1: (fitting_shm.EXTENSION, ""),
    fitting_shm.RECORD_TO_4_2: (fitting_shm.REQUEST, fitting_shm.AM),
}
"""Structs that fitting makes others of: of which, and what is before the names of their members there."""
MACHINES = ("x86_64", "aarch64")
FAMILIES = ("4.1", "5.0.0", "5.0.7")

# ---------------------------------------------------------------- the schema


def sound() -> dict[str, Any]:
    """Return a profile that follows the schema."""
    return {
        "schema": SCHEMA,
        "name": "openmpi-0-x86_64",
        "mpi": "openmpi",
        "machine": "x86_64",
        "releases": ["0.0.0"],
        "present": ["a"],
        "absent": [],
        "producer": {"tool": "none"},
        "structs": {"a_t": {"size": 16, "members": {"x": 0}}, "b_t": {"size": None, "members": {}}},
        "evidence": {},
    }


def is_view(each: object) -> bool:
    """Tell whether something is a view of a struct."""
    return isinstance(each, type) and issubclass(each, View) and hasattr(each, "struct")


def with_value(value: object, *path: str) -> dict[str, Any]:
    """Return the sound profile with one value replaced or added."""
    changed = copy.deepcopy(sound())
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def without(key: str) -> dict[str, Any]:
    """Return the sound profile without one of its keys."""
    return {name: value for name, value in sound().items() if name != key}


def test_a_profile_that_follows_the_schema_is_read() -> None:
    """Offsets and known sizes come out as they stand in the document."""
    profile = parse(sound(), "here")
    assert profile.layouts.offset("a_t", "x") == 0
    assert dict(profile.sizes) == {"a_t": 16}


@pytest.mark.parametrize(
    ("document_", "part"),
    [
        ([], "not an object"),
        (with_value("mqs-profile/0", "schema"), "schema is 'mqs-profile/0'"),
        (with_value(1, "extra"), "unknown key extra"),
        (without("producer"), "producer is missing"),
        (with_value({}, "releases"), "releases is missing or not a list"),
        (with_value({"members": {}}, "structs", "a_t"), "struct a_t"),
        (with_value({"size": 1, "members": {}, "more": 1}, "structs", "a_t"), "struct a_t"),
        (with_value(-8, "structs", "a_t", "members", "x"), "members of a_t"),
        (with_value("8", "structs", "a_t", "members", "x"), "members of a_t"),
        (with_value(True, "structs", "a_t", "members", "x"), "members of a_t"),
        (with_value(1 << 20, "structs", "a_t", "size"), "size of a_t"),
        (with_value([], "structs", "a_t", "members"), "members of a_t"),
    ],
)
def test_what_does_not_follow_the_schema_is_refused(document_: Any, part: str) -> None:
    """The sentence names the file and the part of it that is wrong."""
    with pytest.raises(LayoutError, match=f"profile here is not of schema .*{re.escape(part)}"):
        parse(document_, "here")


def test_a_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    """The sentence names the file."""
    path = tmp_path / "openmpi-x.json"
    path.write_text("{")
    with pytest.raises(LayoutError, match=r"openmpi-x\.json can't be read"):
        load(path)


# ---------------------------------------------------------------- which are tried, in which order


def made_for(name: str, **facts: object) -> Profile:
    """Return the sound profile under a name, with some of its facts replaced."""
    return parse({**sound(), "name": name, **facts}, name)


def test_the_nearest_profiles_are_tried_first() -> None:
    """Those of exactly this build, then of its release, then all others; the user's come first among equals."""
    others = [made_for("another of the user's"), made_for("another")]
    of_release = [
        made_for("the user's, of the release", releases=["1.2"]),
        made_for("of the release", releases=["1.2"]),
    ]
    of_build = [made_for("of the build", releases=["1.1"], builds=["b01d"])]
    found = nearest_first([*others, *of_release, *of_build], "b01d", "1.2")
    assert found == [*of_build, *of_release, *others]


def test_profiles_of_another_machine_are_not_tried() -> None:
    """Where the library's machine is known; else all are."""
    profiles = [made_for(machine, machine=machine) for machine in MACHINES]
    assert of_machine(profiles, "aarch64") == profiles[1:]
    assert of_machine(profiles, "") == profiles


# ---------------------------------------------------------------- what is shipped


def test_a_profile_is_shipped_for_each_family_and_machine() -> None:
    """Three families of releases on two machines, each under its own name, and one whose release is still to come."""
    expected = {f"openmpi-{family}-{machine}" for family in FAMILIES for machine in MACHINES}
    expected.add("openmpi-6.0.0-x86_64")
    assert {profile.name for profile in shipped("openmpi")} == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_profile_is_for_the_family_that_it_is_named_for(path: Path) -> None:
    """Name, file and machine agree, and each release that it was made from or checked on belongs to the family."""
    profile = load(path)
    assert path.stem == profile.name
    assert profile.releases
    assert {f"{profile.mpi}-{family_of(release)}-{profile.machine}" for release in profile.releases} == {profile.name}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_offset_of_a_shipped_profile_has_evidence(path: Path) -> None:
    """Every member that is there says what determined it, and none is there that the walkers don't read."""
    text = json.loads(path.read_text())
    wanted = wanted_members(ALL_VIEWS)
    for name, entry in text["structs"].items():
        assert set(entry["members"]) <= set(wanted.get(name, ()))
        assert set(text["evidence"].get(name, ())) == set(entry["members"])


@pytest.mark.parametrize("path", [*FABRIC_FILES, *FIXED_FILES], ids=lambda path: path.stem)
def test_each_offset_of_a_fabric_or_of_all_releases_has_evidence_and_is_read(path: Path) -> None:
    """As those of an MPI's, and what lies alike in all of its releases: no file has what no walker reads."""
    text = json.loads(path.read_text())
    profile = load(path)
    modules = VIEWS_OF[profile.fabric or profile.mpi]
    wanted = wanted_members(tuple(each for module in modules for each in vars(module).values() if is_view(each)))
    for name, entry in text["structs"].items():
        struct, start = FITTED.get(name, (name, ""))
        assert {start + member for member in entry["members"]} <= {*wanted.get(struct, ()), *LINKS.get(name, ())}
        assert set(text["evidence"][name]) == set(entry["members"])


def test_a_fabric_s_own_release_is_tried_before_its_neighbours() -> None:
    """Of one release, a build without assertions before one with them."""
    tried = [each.summary() for each in of_fabric("UCX", "openmpi", "1.17.0")]
    first = ("1.17", "1.17 with assertions", "1.18", "1.18 with assertions")
    assert tried[:4] == [f"layout UCX {each}" for each in first]
    assert next(of_fabric("libfabric", "mpich", "2.8")).summary() == "layout libfabric 2.6"


def test_a_release_of_no_known_series_is_a_family_of_its_own() -> None:
    """Its profile is never taken for one that libmqs ships."""
    assert family_of("5.0.6rc1") == "5.0.0"
    assert family_of("5.1.0") == "5.1.0"


# ---------------------------------------------------------------- the solver

BASE = 0x1000


def small_dump(*instances: bytes) -> Dump:
    """Return a dump with some structs of the same kind, one behind the other."""
    memory = b"".join(instances)
    return Dump({"symbols": {}}, [Region(BASE, len(memory), 0, writable=True)], memory, "small")


def observations(dump: Dump, size: int, values: list[int]) -> list[Observation]:
    """Return a observation of a 32-bit number in each of the structs."""
    return [number("a rank", dump, BASE + size * place, "i", value) for place, value in enumerate(values)]


def test_a_member_that_only_one_offset_fits_is_solved() -> None:
    """The evidence says how often the member was seen, and with how many values."""
    dump = small_dump(struct.pack("<3i", 7, 1, 0), struct.pack("<3i", 7, 2, 1))
    solved = solve_offset("a_t.rank", observations(dump, 12, [1, 2]), range(0, 12, 4))
    assert solved.offset == 4
    assert solved.evidence == "a rank: 2 places, 2 values"


class SmallSolver(LayoutSolver):
    """A solver of one struct, whose members may lie at any multiple of their size."""

    views = (OmpiGroup,)

    def possible_offsets(self, struct: str, code: str, places: Sequence[Place] = ()) -> range:
        """Return all offsets."""
        return range(0, 12, 4)


def test_a_row_of_a_table_pins_a_member_by_the_objects_whose_value_is_known() -> None:
    """A value is a key of the truth or made of it; None leaves an object out, and a mask the bits that aren't known."""
    dump = small_dump(struct.pack("<3i", 7, 1, 0x101), struct.pack("<3i", 7, 2, 0x202), struct.pack("<3i", 9, 9, 0x900))
    places: list[Place] = [(dump, BASE + 12 * number, {"size": size}) for number, size in enumerate((1, 2, None))]
    solver = SmallSolver([dump])
    solver.solve_members(
        "ompi_group_t",
        places,
        MemberRow("grp_proc_count", "the size", "size"),
        MemberRow("grp_flags", "the flags", lambda _, group: group["size"], 0xFF),
        among=(4,),
    )
    assert solver.evidence["ompi_group_t"]["grp_proc_count"] == "the size: 2 places, 2 values"
    solver.solve_members("ompi_group_t", places, MemberRow("grp_flags", "the flags", "size", 0xFF), among=(0, 8))
    assert solver.offsets["ompi_group_t"] == {"grp_proc_count": 4, "grp_flags": 8}
    assert (solver.code_of("ompi_group_t", "grp_flags"), solver.code_of("ompi_group_t", "sparse_data")) == ("I", "16s")
    with pytest.raises(LookupError, match=r"no view has ompi_group_t\.none"):
        solver.code_of("ompi_group_t", "none")


def test_a_row_may_show_how_its_member_is_seen() -> None:
    """By what the solver knows and the object's entry; else what is declared as characters is seen as a text."""
    dump = small_dump(struct.pack("<4sQ", b"ab", BASE + 12), struct.pack("<4sQ", b"cd", BASE))
    places: list[Place] = [(dump, BASE, {"own": "ab", "other": "cd"}), (dump, BASE + 12, {"own": "cd", "other": "ab"})]
    solver = SmallSolver([dump])

    def behind(seen_by: SmallSolver, dump: Dump, address: int, entry: Entry) -> str:
        own = dump.text(dump.word(address) - seen_by.offset("ompi_group_t", "sparse_data"))
        return "" if own == entry["own"] else own

    solver.solve_members(
        "ompi_group_t",
        places,
        MemberRow("sparse_data", "the text", "own"),
        MemberRow("grp_parent_group_ptr", "the text behind the pointer", "other", seen=behind),
    )
    always = MemberRow("grp_flags", "the same text", lambda *_: True, seen=lambda *_: True)
    with pytest.raises(Unsolved, match="expect 1 different"):
        solver.solve_members("ompi_group_t", places, always, among=(8,))
    solver.solve_members("ompi_group_t", places, always._replace(constant=True), among=(8,))
    assert solver.offsets["ompi_group_t"] == {"sparse_data": 0, "grp_parent_group_ptr": 4, "grp_flags": 8}
    assert solver.evidence["ompi_group_t"]["grp_flags"] == "the same text: 2 places, 1 values, the same everywhere"


def test_a_member_that_two_offsets_fit_is_not_solved() -> None:
    """Nothing is guessed: the sentence names both."""
    dump = small_dump(struct.pack("<3i", 1, 1, 0), struct.pack("<3i", 2, 2, 1))
    with pytest.raises(Unsolved, match=r"a_t\.rank: offsets 0, 4 all fit"):
        solve_offset("a_t.rank", observations(dump, 12, [1, 2]), range(0, 12, 4))


def test_a_member_that_never_varies_is_not_solved() -> None:
    """One value in many places doesn't determine a member, though one offset alone fits."""
    dump = small_dump(struct.pack("<3i", 7, 1, 0), struct.pack("<3i", 7, 1, 0))
    with pytest.raises(Unsolved, match="expect 1 different values; two are needed"):
        solve_offset("a_t.rank", observations(dump, 12, [1, 1]), range(0, 12, 4))


def test_a_member_that_no_offset_fits_is_not_solved() -> None:
    """The sentence names the nearest offset, and what is wrong there."""
    dump = small_dump(struct.pack("<3i", 7, 1, 0), struct.pack("<3i", 7, 9, 1))
    with pytest.raises(Unsolved, match=r"no offset fits .*4 all but 1: a rank would be 9 for 2"):
        solve_offset("a_t.rank", observations(dump, 12, [1, 2]), range(0, 12, 4))


def test_a_candidate_that_leads_out_of_memory_does_not_fit() -> None:
    """An unreadable place is a misfit, not a failure of the solver."""
    dump = small_dump(struct.pack("<2i", 1, 1), struct.pack("<2i", 2, 2))
    assert solve_offset("a_t.rank", observations(dump, 8, [1, 2]), (4, 1 << 20)).offset == 4
    with pytest.raises(UnreadableError):
        dump.read(BASE + 15, 2)


def test_the_layouts_of_a_fabric_are_for_its_release_and_the_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no profile of that MPI; a file that is none keeps nothing from being found."""
    monkeypatch.setenv("MQS_PROFILES", str(tmp_path))
    made = {**sound(), "fabric": "UCX", "releases": ["1.99.1"]}
    (tmp_path / "ucx-1.json").write_text(json.dumps(made))
    (tmp_path / "ucx-0.json").write_text("{")
    first, second, *_ = of_fabric("UCX", made["mpi"], "1.99.1")
    assert first.summary() == "layout UCX 1.99.1, found by calibration"
    assert second.summary() == next(of_fabric("UCX", "another", "1.99.1")).summary()
    for other in (("UCX", made["mpi"], "1.99.2"), ("UCX", "another", "1.99.1"), ("libfabric", made["mpi"], "1.99.1")):
        assert not any(each.summary().endswith("found by calibration") for each in of_fabric(*other))
    assert not [each for each in available(made["mpi"])[0] if each.of_user]
