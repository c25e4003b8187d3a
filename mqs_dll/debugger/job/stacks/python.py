"""Where the threads of a Python program are in Python, by pystack: an optional extra (pip install 'libmqs[python]')."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mqs_dll.debugger.apart import Apart
from mqs_dll.debugger.inside import threads_known_to
from mqs_dll.debugger.job import python_reader
from mqs_dll.debugger.job.function_names import INTERPRETERS
from mqs_dll.debugger.job.python_reader import STACKS, PythonStack
from mqs_dll.job.codec import DamagedError
from mqs_dll.job.records import CallStack

MISSING = "pystack is not installed, which shows the line of a Python program: pip install 'libmqs[python]'"
NOT_FOUND = (
    "the Python line of a rank that is in the interpreter isn't known: it went on while pystack read it, or pystack "
    "did not find it (`pystack remote PID` says why)"
)
_MEMORY = 1 << 31
_PATIENCE = 30.0
"""Seconds for one process."""

_pystack = Apart(python_reader.__name__, _MEMORY, needs="pystack.engine")


def missing_for(stacks: Iterable[CallStack]) -> str:
    """Return why stacks that go through an interpreter have no Python line, and the remedy; empty where all have."""
    in_python = any(
        stack.python is None and any(frame.module.startswith(INTERPRETERS) for frame in stack.frames)
        for stack in stacks
    )
    return (NOT_FOUND if _pystack.can_run else MISSING) if in_python else ""


def can_read_python() -> bool:
    """Return whether pystack is there."""
    return _pystack.can_run


def python_stacks(pid: int, meanwhile: Callable[[], object] | None = None) -> Mapping[int, PythonStack]:
    """Return the stacks of a process's threads in Python by thread ID; none where they can't be determined.

    Args:
        pid: the process, which may run: one that goes on is seen a little later than its registers were.
        meanwhile: what to do every millisecond while they are read.
    """
    found = _ask({"pid": pid}, meanwhile)
    known = threads_known_to(pid) if found else {}  # it has their IDs from the process itself
    return {known[thread]: stack for thread, stack in found.items() if thread in known}


def python_stacks_in_core(core: Path, program: str) -> Mapping[int, PythonStack]:
    """Return the same of a process that ran a program's file and left a core file; its libraries lie where they lay."""
    return _ask({"core": str(core), "program": program})


def _ask(question: Mapping[str, Any], meanwhile: Callable[[], object] | None = None) -> Mapping[int, PythonStack]:
    if not _pystack.can_run:
        return {}
    try:
        return dict(STACKS.read(_pystack.ask(question, _PATIENCE, meanwhile) or []))
    except DamagedError:
        return {}
