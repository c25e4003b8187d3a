"""Where the threads of an inferior are, by gdb's own frames: which MPI call, and from which line of the program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

import gdb

from mqs_dll.debugger.job.function_names import INTERPRETERS, MPI_FILES, RUNTIME_FILES, Call, find_call, standard_names
from mqs_dll.debugger.job.one_path import folded
from mqs_dll.job.records import CallStack, CodeOwner, Frame
from mqs_dll.job.snapshot import Hidden

_MAX_FRAMES = 4096
_ENDS = (gdb.FRAME_UNWIND_NO_REASON, gdb.FRAME_UNWIND_OUTERMOST)
"""Why gdb shows no more frames of a stack that it has followed to main, or to a thread's first function."""


def stacks(inferior: gdb.Inferior) -> tuple[CallStack, ...] | Hidden:
    """Return the stack of an inferior's first thread, then those of others that are inside MPI.

    It isn't known whether a stack stayed as it was: without the addresses of its frames there is no fingerprint. The
    inferior has to be the selected one.
    """
    found: list[CallStack] = []
    try:
        for thread in sorted(inferior.threads(), key=lambda each: each.num):
            thread.switch()
            stack = _stack(thread.ptid[1] or thread.ptid[0], PurePath(inferior.progspace.filename or "").name)
            if not found or stack.call is not None:
                found.append(stack)
    except gdb.error as error:
        return Hidden(f"gdb can't follow the stack: {error}")
    return tuple(found)


def _stack(thread: int, program: str) -> CallStack:
    frames, complete = _frames()
    call = _call(frames)
    rest = frames if call is None else frames[call.place + 1 :]
    own = [each for each in rest if not each.module]
    shown = tuple(replace(each, module=each.module or program) for each in frames)
    caller = next((shown[frames.index(each)] for each in own), None)
    in_call = 0 if call is None else call.place + 1
    return folded(
        CallStack(thread, call and call.function, caller, None, shown, "", in_call=in_call, complete=complete)
    )


def _frames() -> tuple[tuple[Frame, ...], bool]:
    """Return the selected thread's frames, the program's own without a module, and whether these are all."""
    frame: gdb.Frame | None = gdb.newest_frame()
    found: list[Frame] = []
    reason = gdb.FRAME_UNWIND_NO_REASON
    while frame is not None and len(found) < _MAX_FRAMES:
        line = frame.find_sal()
        file = line.symtab.filename if line.symtab else None
        library = gdb.solib_name(frame.pc())
        name = PurePath(library).name if library else ""
        found.append(Frame(frame.name() or "", name, file, line.line if file else None, owner=_owner(name)))
        reason = frame.unwind_stop_reason()
        frame = frame.older()
    return tuple(found), frame is None and reason in _ENDS


def _owner(module: str) -> CodeOwner:
    if module.startswith(MPI_FILES):
        return CodeOwner.MPI
    if module.startswith(RUNTIME_FILES):
        return CodeOwner.RUNTIME
    return CodeOwner.PYTHON if module.startswith(INTERPRETERS) else CodeOwner.PROGRAM


def _call(frames: Iterable[Frame]) -> Call | None:
    return find_call((_mpi_function(each), each.module.startswith(MPI_FILES)) for each in frames)


def _mpi_function(frame: Frame) -> str | None:
    """Return the name of the MPI function that a frame is of, as the standard spells it; None for any other."""
    return next(iter(standard_names(frame.function)), None) if frame.module.startswith(MPI_FILES) else None
