"""Finds an MPI and its family from what a user names: a prefix, an mpiexec, a library, a running process, or dumps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

from mqs_dll.calibrate.bindings import ALL_HAVE, STANDARD_ABI, abi_of
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.exports import exports, mpi_exports
from mqs_dll.calibrate.family import Family
from mqs_dll.calibrate.launch import Installation
from mqs_dll.calibrate.mpich.family import MpichFamily
from mqs_dll.calibrate.openmpi.family import OpenMpiFamily
from mqs_dll.contract.errors import CalibrationError, ContainedMpiError
from mqs_dll.debugger.access import check_readable, not_permitted
from mqs_dll.debugger.inside import is_same_outside
from mqs_dll.debugger.proc import (
    DELETED,
    MAX_STRINGS,
    mappings,
    owner_of,
    read_file,
    user_name,
)
from mqs_dll.debugger.rights import distrusted
from mqs_dll.library.layouts.profiles import user_folder

FAMILIES: tuple[type[Family], ...] = (OpenMpiFamily, MpichFamily)
"""Those that can be calibrated."""

LIBRARIES = ("libmpi.so", "libmpi.so.*", "libmpich.so", "libmpich.so.*", "libmpi*.so*")
"""Names of MPI libraries, the likeliest first; a symbol shows which of them are."""

FOLDERS = ("lib", "lib64", "lib/*-linux-gnu*", "lib/*/lib")
"""Where they lie below a prefix."""

LAUNCHERS = ("mpiexec", "mpiexec.*", "mpirun", "mpirun.*")
LAUNCHER_SECONDS = 20.0


def family_of(dumps: Sequence[Dump]) -> Family:
    """Return the family of the MPI that dumps are of, by the symbol that identifies it.

    Raises:
        CalibrationError: it is of none.
    """
    for family in FAMILIES:
        if all(family.anchor in dump.symbols for dump in dumps):
            return family()
    raise CalibrationError("the dumps are not of one family of MPIs")


def find(where: str | None, mpiexec: Sequence[str] = ()) -> tuple[type[Family], Installation]:
    """Return the family of the MPI that is meant, and how to run a program under it.

    Args:
        where: a directory, an mpiexec, a library, or the PID of a process; None for the mpiexec in PATH.
        mpiexec: the command that starts jobs, where it is known.

    Raises:
        CalibrationError: there is no such MPI, or a part of it is missing, or it is in a container.
        ProcessError: the process can't be read.
    """
    if where is None:
        return _by_launcher(mpiexec or [_program("mpiexec", "there is no mpiexec in PATH")])
    path = Path(where)
    if where.isascii() and where.isdigit() and not path.exists():
        return _by_process(int(where), mpiexec)
    if path.is_dir():
        return _by_prefix(path.resolve(), mpiexec)
    if path.is_file() and ".so" in path.name:
        return _by_library(path.resolve(), mpiexec)
    return _by_launcher([_program(where, f"{where} is no directory, no library, no command and no process")])


def _program(name: str, otherwise: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CalibrationError(otherwise)
    return _with_real_folder(found)


def _with_real_folder(program: str) -> str:
    """Return a program by its real path: it may search for its files beside itself."""
    path = Path(program).absolute()
    return str(path.parent.resolve() / path.name)


def _is_of(library: Path, family: type[Family]) -> bool:
    """Return whether programs call a library's functions, and its variables, or those beside it, are a family's."""
    return ALL_HAVE in exports(library, (ALL_HAVE,)) and family.anchor in mpi_exports(library, (family.anchor,))


def _family_of(library: Path) -> type[Family] | None:
    return next((family for family in FAMILIES if _is_of(library, family)), None)


def _titles() -> str:
    return " or ".join(family.title for family in FAMILIES)


# ---------------------------------------------------------------- by a prefix or an mpiexec


def _by_prefix(prefix: Path, mpiexec: Sequence[str]) -> tuple[type[Family], Installation]:
    if mpiexec:
        for library in _libraries([prefix]):
            family = _family_of(library)
            if family is not None:
                return family, Installation(library, mpiexec)
        raise CalibrationError(f"there is no library of {_titles()} in {prefix}")
    for launcher in _launchers([prefix]):
        return _by_launcher([launcher])
    raise CalibrationError(f"there is no mpiexec in {prefix / 'bin'}")


def _by_launcher(mpiexec: Sequence[str]) -> tuple[type[Family], Installation]:
    """Find the library of the MPI that an mpiexec belongs to: links may lead out of its prefix, or into it."""
    family = _family_of_launcher(mpiexec)
    path = Path(shutil.which(mpiexec[0]) or mpiexec[0]).absolute()
    folders = (path.parent, path.parent.resolve(), path.resolve().parent)
    prefixes = list(dict.fromkeys(folder.parent for folder in folders))
    for library in _libraries(prefixes):
        if _is_of(library, family):
            return family, Installation(library, mpiexec)
    raise CalibrationError(
        f"{mpiexec[0]} is of {family.title}, but there is no library of that in {' or '.join(map(str, prefixes))}"
    )


def _family_of_launcher(mpiexec: Sequence[str]) -> type[Family]:
    try:
        answer = subprocess.run(
            [*mpiexec, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LAUNCHER_SECONDS,
        )
    except OSError as error:
        raise CalibrationError(f"{mpiexec[0]} can't be run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise CalibrationError(f"{mpiexec[0]} does not answer when asked for its version") from None
    text = answer.stdout + answer.stderr
    for family in FAMILIES:
        if re.search(family.launcher_says, text):
            return family
    words = text.strip().partition("\n")[0]
    raise CalibrationError(f"{mpiexec[0]} is not the mpiexec of {_titles()}: it says {words!r}")


def _libraries(prefixes: Iterable[Path]) -> Iterator[Path]:
    """Yield the files below some prefixes that have an MPI library's name, each once, the likeliest first."""
    seen = set()
    for prefix, name, folder in product(prefixes, LIBRARIES, FOLDERS):
        for path in sorted(prefix.glob(f"{folder}/{name}")):
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                yield path


def _launchers(prefixes: Iterable[Path]) -> Iterator[str]:
    """Yield the commands in some prefixes that may start jobs, the likeliest first."""
    for prefix, name in product(prefixes, LAUNCHERS):
        yield from (str(path) for path in sorted((prefix / "bin").glob(name)) if os.access(path, os.X_OK))


# ---------------------------------------------------------------- by a process or a library


def _by_process(pid: int, mpiexec: Sequence[str]) -> tuple[type[Family], Installation]:
    """Find the MPI of a process, which will be run as that process was.

    Raises:
        CalibrationError: as find; or its owner could have us run something by that.
    """
    library = _library_of_process(pid)
    searched = _searched(pid)
    owner = owner_of(pid).user

    def check(path: Path | str) -> None:
        wrong = distrusted(path) if owner != os.geteuid() else ""
        if wrong:
            raise CalibrationError(
                f"the MPI of process {pid} would run with your rights, and {wrong}: "
                f"run `mqs calibrate` as user {user_name(owner)}"
            )

    for folder in filter(None, searched.split(":")):
        check(folder)
    family, found = _by_library(library, mpiexec, check)
    return family, replace(found, searched=searched)


def _searched(pid: int) -> str:
    """Return where LD_LIBRARY_PATH makes a process search for libraries, without what a container has of its own."""
    try:
        variables = read_file(f"/proc/{pid}/environ", MAX_STRINGS).split(b"\0")
    except OSError:
        return ""
    start = b"LD_LIBRARY_PATH="
    folders = os.fsdecode(next((each for each in variables if each.startswith(start)), start)[len(start) :])
    return ":".join(each for each in folders.split(":") if is_same_outside(pid, each))


def _library_of_process(pid: int) -> Path:
    """Return the MPI of a process, among its libraries whose names speak of MPI.

    Raises:
        ContainedMpiError: it may be one that the process's container has, and we don't.
    """
    check_readable(pid)
    mapped = dict.fromkeys(mapping.path for mapping in mappings(pid))
    if not mapped:
        raise not_permitted(pid)
    paths = [path for path in map(Path, mapped) if path.name.startswith("libmpi")]
    inside = [path for path in paths if not path.name.endswith(DELETED) and not is_same_outside(pid, str(path))]
    for path in paths:
        if path not in inside and path.is_file() and _family_of(path):
            return path
    if inside:
        raise ContainedMpiError(
            f"the MPI of process {pid}, {inside[0]}, is one of its container, and isn't run outside; "
            f"a profile that was made inside belongs into {user_folder()}"
        )
    gone = [path for path in paths if not path.is_file()]
    lost = f"; {gone[0]} can't be read from here, or was replaced since" if gone else ""
    raise CalibrationError(f"process {pid} has no library of {_titles()}{lost}")


def _with_own_handles(library: Path) -> Path:
    """Return the library with Open MPI's own interface that lies beside the one with the MPI standard's."""
    for other in sorted(library.parent.glob("libmpi.so*")):
        if _is_of(other, OpenMpiFamily):
            return other
    raise CalibrationError(
        f"{library} has the MPI standard's binary interface, and no libmpi.so of Open MPI is beside it"
    )


def _by_library(
    library: Path, mpiexec: Sequence[str], check: Callable[[Path | str], None] = lambda path: None
) -> tuple[type[Family], Installation]:
    """Find the mpiexec that is installed with a library, else the one in PATH if it is of the same family.

    Args:
        library: of the MPI.
        mpiexec: as find has it.
        check: refuses what isn't to be loaded or run.
    """
    check(library)
    family = _family_of(library)
    if family is None:
        raise CalibrationError(f"{library} is no library of {_titles()}")
    if family is OpenMpiFamily and abi_of(library) is STANDARD_ABI:
        # no handle of it is an address, and the structs are the same
        library = _with_own_handles(library)
        check(library)
    if mpiexec:
        return family, Installation(library, mpiexec)
    folders = [library.parent, library.resolve().parent]
    prefixes = dict.fromkeys(above for folder in folders for above in (folder.parent, folder.parent.parent))
    in_path = filter(None, (shutil.which("mpiexec"), shutil.which("mpirun")))
    for launcher in (*_launchers(prefixes), *map(_with_real_folder, in_path)):
        check(launcher)
        with suppress(CalibrationError):
            if _family_of_launcher([launcher]) is family:
                return family, Installation(library, [launcher])
    raise CalibrationError(f"no mpiexec of {family.title} is installed with {library}, and none is in PATH")
