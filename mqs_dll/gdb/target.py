"""A process as gdb shows it: running under it, a core file, or a remote one (interface.TargetImage, TargetProcess)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

import gdb

from mqs_dll.contract.errors import ProcessError, TargetReadError
from mqs_dll.debugger.bases import ReadInOnePiece
from mqs_dll.debugger.collect import ProcessReader, ReadFurther
from mqs_dll.job.snapshot import Snapshot
from mqs_dll.library.session import Library


class GdbImage:
    """The program and libraries of one inferior. Symbols are gdb's, so it has to be the selected one (``selected``)."""

    def find_function(self, name: str) -> int | None:
        """Return the address of a function, or None when there is no such symbol."""
        return self._address(name, is_function=True)

    def find_symbol(self, name: str) -> int | None:
        """Return the address of a variable, the executable's own definition first, or None."""
        return self._address(name, is_function=False)

    def find_type(self, name: str) -> gdb.Type | None:
        """Return a C type by its name, or None where debug information lacks it or knows it by declaration only."""
        try:
            found = gdb.lookup_type(name).strip_typedefs()
        except gdb.error:
            return None
        return found if found.sizeof else None

    def field_offset(self, handle: gdb.Type, field: str) -> int | None:
        """Return the offset in bytes of a member of a struct type, anonymous members' included, or None."""
        try:
            members = handle.fields()
        except TypeError:
            return None
        for member in members:
            start, odd = divmod(getattr(member, "bitpos", 1), 8)
            if odd:
                continue
            if member.name == field:
                return start
            within = self.field_offset(member.type.strip_typedefs(), field) if member.type and not member.name else None
            if within is not None:
                return start + within
        return None

    def type_size(self, handle: gdb.Type) -> int | None:
        """Return the size in bytes of a type."""
        return int(handle.sizeof)

    def _address(self, name: str, *, is_function: bool) -> int | None:
        try:
            found = gdb.parse_and_eval(f"&'{name}'")
        except gdb.error:
            return None
        target = found.type.strip_typedefs().target()
        return int(found) if (target.code == gdb.TYPE_CODE_FUNC) == is_function else None


class GdbProcess(ReadInOnePiece):
    """An inferior, which stands still: gdb has stopped it, or has its core file (interface.TargetProcess)."""

    def __init__(self, inferior: gdb.Inferior) -> None:
        """Take an inferior as it is now.

        Raises:
            ProcessError: there is no process in it, or it runs.
        """
        self._inferior = inferior
        self._image = GdbImage()
        if not inferior.threads():
            raise ProcessError(f"gdb's inferior {inferior.num} has no process: attach to a rank, or open its core file")
        if any(thread.is_running() for thread in inferior.threads()):
            raise ProcessError(f"the process of gdb's inferior {inferior.num} runs: interrupt it first")

    @property
    def image(self) -> GdbImage:
        """The image that the process runs."""
        return self._image

    @property
    def pid(self) -> int:
        """Its PID, as gdb has it: of a remote process that of the other machine."""
        return self._inferior.pid

    @property
    def program(self) -> str:
        """The file that it runs; empty where gdb doesn't know it."""
        return self._inferior.progspace.filename or ""

    def _read(self, address: int, size: int) -> bytes:
        try:
            return bytes(self._inferior.read_memory(address, size)) if size else b""
        except gdb.error:  # gdb.MemoryError among them
            raise TargetReadError(address, size) from None


def read(process: GdbProcess, read_further: ReadFurther) -> Snapshot:
    """Return what the Python core reads of an inferior, which has to be the selected one.

    Raises:
        MqsError: it can't be read.
    """
    program = PurePath(process.program).name
    with ProcessReader(Library(), process, pid=process.pid, program=program) as reader:
        return reader.read(read_further)


@contextmanager
def selected(inferior: gdb.Inferior) -> Iterator[None]:
    """Switch gdb to an inferior, whose language is C for this while; afterwards at what the user has selected."""
    thread, frame, language = gdb.selected_thread(), _selected_frame(), gdb.parameter("language")
    try:
        if inferior.threads():
            inferior.threads()[0].switch()
        gdb.execute("set language c", to_string=True)  # a Fortran program's MPI is a C library all the same
        yield
    finally:
        gdb.execute(f"set language {language}", to_string=True)
        if thread is not None and thread.is_valid():
            thread.switch()
        if frame is not None and frame.is_valid():
            frame.select()


def _selected_frame() -> gdb.Frame | None:
    try:
        return gdb.selected_frame()
    except gdb.error:
        return None
