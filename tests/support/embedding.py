"""libmqs.so for the tests, and the C programs of tests/host that load it as debuggers do."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqs_dll.contract.errors import DllError
from mqs_dll.debugger import library_path

ROOT = Path(__file__).parents[2]
HOST = ROOT / "tests/host"
MADE_UP = (ROOT / "tests/support/made_up_session.py").read_text()
"""A session.py with made-up communicators, which shows what each callback answered."""
PROGRAMS = {
    "mqs_host": ("mqs_host.c", "library.c", "json.c", "process.c", "symbols.c", "types.c"),
    "mqs_misuse": ("misuse/mqs_misuse.c", "library.c", "json.c"),
}
WARNINGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
ENVIRONMENT = {"PATH": os.defpath}
"""Of hosts, besides what a test adds."""
SECONDS = 120
"""After which a C program counts as hung."""


def libmqs() -> Path:
    """Return the library that was built for this Python; fail the test where it was not."""
    try:
        return library_path.library()
    except DllError as error:
        raise AssertionError(str(error)) from error


def compile_program(name: str, target: Path, compiler: str = "gcc", flags: Sequence[str] = ()) -> None:
    """Compile one of the C programs against include/ alone; fail the test with what the compiler says."""
    sources = [str(HOST / source) for source in PROGRAMS[name]]
    includes = ["-I", str(library_path.header().parent), "-I", str(HOST)]
    libraries = ["-ldl", "-lpthread", "-rdynamic"]  # what a program defines itself is what the library calls
    command = [compiler, *WARNINGS, *flags, *includes, *sources, "-o", str(target), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@functools.cache
def program(name: str, flags: tuple[str, ...] = ()) -> Path:
    """Return a C program of tests/host, compiled once in a test run."""
    folder = Path(tempfile.mkdtemp(prefix="mqs-host-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compile_program(name, folder / name, flags=flags)
    return folder / name


def misuse(
    library: Path | str,
    commands: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    flags: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Call a library in a process of its own, in a given order; return what each call gave.

    Nothing but the results may be printed: what the library prints fails the test here.

    Raises:
        subprocess.CalledProcessError: the process crashed.
        subprocess.TimeoutExpired: it hung.
    """
    done = subprocess.run(
        [str(program("mqs_misuse", flags)), str(library), *commands],
        capture_output=True,
        check=True,
        timeout=SECONDS,
        env={**ENVIRONMENT, **(environment or {})},
        cwd=directory,
    )
    assert done.stderr == b"", done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def copy_of_package(folder: Path, **replaced: str) -> Path:
    """Copy mqs_dll into ``folder``, some modules of mqs_dll.library with another text; return the copied libmqs.so."""
    package = folder / "mqs_dll"
    shutil.copytree(libmqs().parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, text in replaced.items():
        (package / "library" / f"{module}.py").write_text(text)
    return package / "libmqs.so"


@functools.cache
def minor_of(python: str) -> int:
    """Return a Python's minor version, 0 when it doesn't run or is no CPython 3."""
    script = "import sys; print(sys.version_info[1] if sys.implementation.name == 'cpython' else 0)"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    return int(done.stdout or 0)


def other_pythons() -> list[str]:
    """Return the Pythons of other minor versions that this machine has."""
    candidates = [Path(folder) / f"python3.{minor}" for folder in os.get_exec_path() for minor in range(8, 20)]
    candidates += Path.home().glob(".pyenv/versions/3.*/bin/python3")
    runnable = {str(path.resolve()) for path in candidates if os.access(path, os.X_OK)}
    return sorted(python for python in runnable if minor_of(python) not in (0, sys.version_info.minor))
