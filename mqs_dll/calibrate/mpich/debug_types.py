"""What an MPICH's debug information says of its structs, to compare with what was found without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import drgn

from mqs_dll.debugger.live import LiveImage, LiveProcess
from mqs_dll.errors import CalibrationError, MqsError
from mqs_dll.layout import DEBUG_INFORMATION, Layouts, StructLayout
from mqs_dll.mpi.mpich import views
from mqs_dll.view import wanted_members

HOLDER = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True); sys.stdin.read()"
"""A program that loads a library, says so, and keeps it until nobody wants it any more."""


def debug_layouts(library: Path) -> Layouts:
    """Ask the debug information of a library for the members that the walkers want.

    Raises:
        CalibrationError: the library can't be loaded, or has no debug information.
    """
    with _loaded(library) as pid:
        try:
            with LiveProcess(pid) as process:
                found = [*_structs(process.image)]
        except MqsError as error:
            raise CalibrationError(f"the debug information can't be read: {error}") from error
    if not found:
        raise CalibrationError("the MPI has no debug information to compare with")
    return Layouts(found)


def _structs(image: LiveImage) -> Iterator[StructLayout]:
    for name, members in wanted_members(views.ALL).items():
        struct = image.find_type(name)
        if struct is not None:
            offsets = {member: _offset(struct, member) for member in members}
            known = {member: offset for member, offset in offsets.items() if offset is not None}
            yield StructLayout(name, image.type_size(struct), known, DEBUG_INFORMATION)


def _offset(struct: drgn.Type, designator: str) -> int | None:
    """Return the offset of what a designator of C leads to, which debuggers' own field_offset doesn't understand."""
    try:
        offset: int = drgn.offsetof(struct, designator)
    except (LookupError, TypeError, ValueError):
        return None
    return offset


@contextmanager
def _loaded(library: Path) -> Iterator[int]:
    """Yield the PID of a process that has loaded a library."""
    command = [sys.executable, "-c", HOLDER, str(library)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        if process.stdout is None or not process.stdout.readline():
            raise CalibrationError(f"{library} can't be loaded")
        yield process.pid
