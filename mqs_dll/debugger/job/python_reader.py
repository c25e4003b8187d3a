"""The stacks of Python programs by pystack; this runs in a process apart, which pystack can end with what it reads.

pystack reads the interpreter's own structures with process_vm_readv, as libmqs reads the MPI's; it is kept from
stopping the process. A Python that is just starting is enough to crash it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from mqs_dll.job.codec import Codecs
from mqs_dll.job.records import CodeOwner, Frame, Language

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


class PythonThread(NamedTuple):
    """A stack and whose it is."""

    thread: int
    stack: PythonStack


STACKS = Codecs({}).of(tuple[PythonThread, ...])


def answer(question: Mapping[str, Any]) -> Any:
    """Return the stacks of a process of which a PID is given, or a core file and the program."""
    from pystack import engine

    if "pid" in question:
        found = _read_all(lambda: engine.get_process_threads(question["pid"], stop_process=False, locals=True))
    else:
        core, program = Path(question["core"]), Path(question["program"])
        found = _read_all(lambda: engine.get_process_threads_for_core(core, program, locals=True))
    return STACKS.write(tuple(PythonThread(*each) for each in found.items()))


def _read_all(threads: Callable[[], Iterable[Any]]) -> Mapping[int, PythonStack]:
    try:
        found = {thread.tid: list(thread.all_frames) for thread in threads()}
    except Exception:  # pystack's own: what it reads may change under it, or be cut off; missing_for says it
        return {}
    return {thread: _read(frames) for thread, frames in found.items()}


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
    line = frame.code.location.lineno or None  # 0 before the first one
    return Frame(frame.code.scope, PurePath(file).name, file, line, Language.PYTHON, owner)


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
