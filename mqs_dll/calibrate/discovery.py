"""Finds an MPI and its family from what a user names: a prefix, an mpiexec, a library, a running process, or dumps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.exports import exports
from mqs_dll.calibrate.family import Family
from mqs_dll.calibrate.launch import Installation
from mqs_dll.calibrate.mpich.family import Mpich
from mqs_dll.calibrate.openmpi.family import OpenMpi
from mqs_dll.debugger.proc import check_readable, mappings, not_permitted
from mqs_dll.errors import CalibrationError

FAMILIES: tuple[type[Family], ...] = (OpenMpi, Mpich)
"""Those that can be calibrated."""

LIBRARIES = ("libmpi.so", "libmpi.so.*", "libmpich.so", "libmpich.so.*", "libmpi*.so*")
"""Names of MPI libraries, the likeliest first; a symbol tells which of them are."""

FOLDERS = ("lib", "lib64", "lib/*-linux-gnu*", "lib/*/lib")
"""Where they lie below a prefix."""

LAUNCHERS = ("mpiexec", "mpiexec.*", "mpirun", "mpirun.*")
LAUNCHER_SECONDS = 20.0


def family_of(dumps: Sequence[Dump]) -> Family:
    """Return the family of the MPI that dumps are of, by the symbol that tells it.

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
        mpiexec: the command that starts jobs, where it needn't be looked for.

    Raises:
        CalibrationError: there is no such MPI, or a part of it is missing.
        ProcessError: the process can't be looked at.
    """
    if where is None:
        family, library, mpiexec = _by_launcher(mpiexec or _launcher_in_path())
    elif where.isascii() and where.isdigit() and not Path(where).exists():
        family, library = _of_process(int(where))
        mpiexec = mpiexec or _launcher_of(library, family)
    elif Path(where).is_dir():
        family, library, mpiexec = _by_prefix(Path(where).resolve(), mpiexec)
    elif _is_library(Path(where)):
        library = Path(where).resolve()
        family = _family_of(library)
        mpiexec = mpiexec or _launcher_of(library, family)
    else:
        family, library, mpiexec = _by_launcher([_program(where)])
    return family, Installation(library, mpiexec)


def _is_library(path: Path) -> bool:
    return path.is_file() and ".so" in path.name


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CalibrationError(f"{name} is no directory, no library, no command and no process")
    return _with_real_folder(found)


def _with_real_folder(program: str) -> str:
    """Return a program by its own name in the folder where it really lies: it may look for its files beside itself."""
    path = Path(program).absolute()
    return str(path.parent.resolve() / path.name)


def _launcher_in_path() -> Sequence[str]:
    found = shutil.which("mpiexec")
    if found is None:
        raise CalibrationError("there is no mpiexec in PATH")
    return [_with_real_folder(found)]


# ---------------------------------------------------------------- by a prefix or an mpiexec

Found = tuple[type[Family], Path, Sequence[str]]


def _by_prefix(prefix: Path, mpiexec: Sequence[str]) -> Found:
    if mpiexec:
        for library in _libraries([prefix]):
            for family in FAMILIES:
                if _is_of(library, family):
                    return family, library, mpiexec
        raise CalibrationError(f"there is no library of {_titles()} in {prefix}")
    for name in LAUNCHERS:
        for launcher in sorted((prefix / "bin").glob(name)):
            if os.access(launcher, os.X_OK):
                return _by_launcher([str(launcher)])
    raise CalibrationError(f"there is no mpiexec in {prefix / 'bin'}")


def _by_launcher(mpiexec: Sequence[str]) -> Found:
    """Find the library of the MPI that an mpiexec belongs to."""
    family = _family_of_launcher(mpiexec)
    prefixes = _prefixes_of_launcher(mpiexec[0])
    for library in _libraries(prefixes):
        if _is_of(library, family):
            return family, library, mpiexec
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


def _prefixes_of_launcher(launcher: str) -> list[Path]:
    """Return where the MPI of an mpiexec may be installed: links may lead out of its prefix, or into it."""
    path = Path(shutil.which(launcher) or launcher).absolute()
    folders = [path.parent, path.parent.resolve(), path.resolve().parent]
    return list(dict.fromkeys(folder.parent for folder in folders))


def _libraries(prefixes: Iterable[Path]) -> Iterator[Path]:
    """Yield the files below some prefixes that have an MPI library's name, each once, the likeliest first."""
    seen = set()
    for prefix in prefixes:
        for name in LIBRARIES:
            for folder in FOLDERS:
                for path in sorted(prefix.glob(f"{folder}/{name}")):
                    real = path.resolve()
                    if real not in seen:
                        seen.add(real)
                        yield path


def _is_of(library: Path, family: type[Family]) -> bool:
    return family.anchor in exports(library, (family.anchor,))


def _family_of(library: Path) -> type[Family]:
    for family in FAMILIES:
        if _is_of(library, family):
            return family
    raise CalibrationError(f"{library} is no library of {_titles()}")


def _titles() -> str:
    return " or ".join(family.title for family in FAMILIES)


# ---------------------------------------------------------------- by a process or a library


def _of_process(pid: int) -> tuple[type[Family], Path]:
    check_readable(pid)
    gone = []
    for path in _mapped_files(pid):
        if not Path(path).is_file():
            gone.append(path)
            continue
        for family in FAMILIES:
            if _is_of(Path(path), family):
                return family, Path(path)
    lost = f"; {gone[0]} can't be looked at from here, or was replaced since" if gone else ""
    raise CalibrationError(f"process {pid} has no library of {_titles()}{lost}")


def _mapped_files(pid: int) -> list[str]:
    """Return the libraries of a process whose names speak of MPI."""
    paths = dict.fromkeys(mapping.path for mapping in mappings(pid))
    if not paths:
        raise not_permitted(pid)
    return [path for path in paths if Path(path).name.startswith("libmpi")]


def _launcher_of(library: Path, family: type[Family]) -> Sequence[str]:
    """Return the mpiexec that is installed with a library, else the one in PATH if it is of the same family.

    Raises:
        CalibrationError: there is none.
    """
    folders = [library.parent, library.resolve().parent]
    prefixes = dict.fromkeys(above for folder in folders for above in (folder.parent, folder.parent.parent))
    beside = [path for prefix in prefixes for name in LAUNCHERS for path in sorted((prefix / "bin").glob(name))]
    in_path = filter(None, (shutil.which("mpiexec"), shutil.which("mpirun")))
    for launcher in (*map(str, beside), *map(_with_real_folder, in_path)):
        if os.access(launcher, os.X_OK) and _starts(launcher, family):
            return [launcher]
    raise CalibrationError(f"no mpiexec of {family.title} is installed with {library}, and none is in PATH")


def _starts(launcher: str, family: type[Family]) -> bool:
    try:
        return _family_of_launcher([launcher]) is family
    except CalibrationError:
        return False
