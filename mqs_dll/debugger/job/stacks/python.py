"""Where the threads of a Python program are in Python, by pystack: an optional extra (pip install 'libmqs[python]').

pystack reads the interpreter's own structures with process_vm_readv, as libmqs reads the MPI's; it is kept from
stopping the process.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from mqs_dll.debugger.inside import threads_known_to
from mqs_dll.debugger.job.function_names import INTERPRETERS
from mqs_dll.job.records import CallStack, CodeOwner, Frame, Language

logging.getLogger("pystack").addHandler(logging.NullHandler())  # else Python prints its warnings on stderr

MISSING = "pystack is not installed, which shows the line of a Python program: pip install 'libmqs[python]'"
NOT_FOUND = "pystack did not find the Python line of a rank that is in the interpreter (`pystack remote PID` says why)"
_MPI4PY = "mpi4py"

_LIBRARY = re.compile(r"lib(?:32|64)?/(?:python3(?:\.\d+t?)?|pypy3\.\d+)|[^/]*/(?:site|dist)-packages")
"""Two folders of a path that only the standard library and installed packages have."""

_OBJECT = re.compile(r"<([A-Za-z_][\w.]{0,99}) at 0x[0-9a-f]+>")

_MAX_FRAMES = 256
"""Innermost ones that the program's line and its state are taken from."""
_MAX_IN_PATH = 16 << 10
"""Frames of a stack that stands in one path with that of the machine."""


@dataclass(frozen=True)
class PythonStack:
    """One thread's stack in Python."""

    innermost: Frame | None
    """The program's innermost function, outside the standard library and installed packages; else the innermost that
    isn't mpi4py's. Where Python runs a __del__, that one: the collection of garbage starts at any line."""
    state: str
    """A hash of where each function is and of what its variables hold, as far as that is short."""
    runs: tuple[tuple[Frame, ...], ...] = ()
    """The functions that each call of the interpreter runs, innermost first, those of the innermost call first. Empty
    where there are too many."""


def missing_for(stacks: Iterable[CallStack]) -> str:
    """Return why stacks that go through an interpreter have no Python line, and the remedy; empty where all have."""
    in_python = any(
        stack.python is None and any(frame.module.startswith(INTERPRETERS) for frame in stack.frames)
        for stack in stacks
    )
    return (NOT_FOUND if _engine() else MISSING) if in_python else ""


def python_stacks(pid: int) -> Mapping[int, PythonStack]:
    """Return the stacks of a process's threads in Python by thread ID; none where they can't be determined.

    The process may run: one that goes on is seen a little later than its registers were.
    """
    engine = _engine()
    if not engine:
        return {}
    found = _read_all(lambda: engine.get_process_threads(pid, stop_process=False, locals=True))
    known = threads_known_to(pid)  # it has their IDs from the process itself
    return {known[thread]: stack for thread, stack in found.items() if thread in known}


def python_stacks_in_core(core: Path, program: str) -> Mapping[int, PythonStack]:
    """Return the same of a process that ran a program's file and left a core file; its libraries lie where they lay."""
    engine = _engine()
    return _read_all(lambda: engine.get_process_threads_for_core(core, Path(program), locals=True)) if engine else {}


def _read_all(threads: Callable[[], Iterable[Any]]) -> Mapping[int, PythonStack]:
    try:
        found = {thread.tid: list(thread.all_frames) for thread in threads()}
    except Exception:  # pystack's own: what it reads may change under it, or be cut off; missing_for says it
        return {}
    return {thread: _read(frames) for thread, frames in found.items()}


def _engine() -> Any:
    try:
        return importlib.import_module("pystack.engine")
    except ImportError:
        return None


def _read(frames: Sequence[Any]) -> PythonStack:
    program = innermost = deleting = None
    state = hashlib.blake2b(digest_size=16)
    made = [(_frame(each), each) for each in frames[-_MAX_IN_PATH:]]
    for found, frame in [each for each in made if not each[1].is_shim][-_MAX_FRAMES:]:  # outermost first
        file, line = frame.code.filename, frame.code.location.lineno
        if _MPI4PY not in PurePath(file).parts:
            innermost = found
            program = program if _is_installed(file) else found
        if frame.code.scope.rpartition(".")[2] == "__del__":
            deleting = replace(found, function=_of_class(frame))
        held = sorted({**frame.arguments, **frame.locals}.items())
        state.update(repr((frame.code.scope, file, line, held)).encode())
    runs = _runs(made) if len(made) == len(frames) else ()
    return PythonStack(deleting or program or innermost, state.hexdigest(), runs)


def _frame(frame: Any) -> Frame:
    file = frame.code.filename
    owner = CodeOwner.PYTHON if _MPI4PY in PurePath(file).parts else CodeOwner.PROGRAM
    return Frame(frame.code.scope, PurePath(file).name, file, frame.code.location.lineno, Language.PYTHON, owner)


def _runs(frames: Sequence[tuple[Frame, Any]]) -> tuple[tuple[Frame, ...], ...]:
    """Return the functions of each call of the interpreter (CPython 3.11 and later run many in one)."""
    runs: list[list[Frame]] = []
    for found, frame in frames:  # outermost first
        if frame.is_entry or not runs:
            runs.append([])
        if not frame.is_shim:
            runs[-1].append(found)
    return tuple(tuple(run[::-1]) for run in runs[::-1])


def _of_class(frame: Any) -> str:
    """Return "Field.__del__" for a __del__, as far as pystack shows whose it is: of most objects, by their address."""
    owner = _OBJECT.fullmatch(str(next(iter(frame.arguments.values()), "")))
    return f"{owner[1]}.__del__" if owner else str(frame.code.scope)


def _is_installed(file: str) -> bool:
    """Return whether a file is of the standard library, an installed package or its command, or is none at all."""
    path = PurePath(file)
    folders = path.parts[:-1]
    is_of_library = any(_LIBRARY.fullmatch(f"{first}/{second}") for first, second in pairwise(folders))
    return is_of_library or file.startswith("<") or folders[-1:] == ("bin",)
