"""Where the threads of an inferior are, by gdb's own frames: which MPI call, and from which line of the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

import gdb

from mqs_dll.debugger.job.function_names import MPI_FILES, Call, find_call, standard_names
from mqs_dll.job.records import CallStack, Frame
from mqs_dll.job.snapshot import Hidden

_MAX_FRAMES = 256


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
    frames = tuple(_frames())
    call = _call(frames)
    rest = frames if call is None else frames[call.place + 1 :]
    own = [each for each in rest if not each.module]
    shown = tuple(Frame(each.function, each.module or program, each.file, each.line) for each in frames)
    caller = next((shown[frames.index(each)] for each in own), None)
    return CallStack(thread, call and call.function, caller, None, shown, "")


def _frames() -> Iterator[Frame]:
    """Yield the frames of the selected thread; those in the program's own file have no module."""
    frame: gdb.Frame | None = gdb.newest_frame()
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return
        line = frame.find_sal()
        file = line.symtab.filename if line.symtab else None
        library = gdb.solib_name(frame.pc())
        name = PurePath(library).name if library else ""
        yield Frame(frame.name() or "", name, file, line.line if file else None)
        frame = frame.older()


def _call(frames: Iterable[Frame]) -> Call | None:
    return find_call((_mpi_function(each), each.module.startswith(MPI_FILES)) for each in frames)


def _mpi_function(frame: Frame) -> str | None:
    """Return the name of the MPI function that a frame is of, as the standard spells it; None for any other."""
    return next(iter(standard_names(frame.function)), None) if frame.module.startswith(MPI_FILES) else None
