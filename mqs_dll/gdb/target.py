"""A process as gdb shows it: running under it, a core file, or a remote one (interface.TargetImage, TargetProcess).

All inferiors together are a job: each is a rank, and what they say is put together as core files are.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

import gdb

from mqs_dll.commands import which_library
from mqs_dll.contract.errors import MqsError, ProcessError, TargetReadError
from mqs_dll.debugger.bases import ReadInOnePiece
from mqs_dll.debugger.collect import ProcessReader, ReadFurther
from mqs_dll.debugger.job.worlds import RankRead, put_together
from mqs_dll.gdb import frames
from mqs_dll.job.facts import explain, mpi_name, world_rank, world_size
from mqs_dll.job.records import GDB, Job, JobProcess, RankState, Sample
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


def read_inferiors(inferiors: Iterable[gdb.Inferior]) -> Job:
    """Read the ranks that gdb holds, one after the other.

    Returns:
        The job, with a process for each inferior that has one, read or not, and for each rank that gdb doesn't hold.

    Raises:
        ProcessError: no inferior has a process.
        MixedRanksError: they are of several jobs, or two are of the same rank.
    """
    ranks = [_read_rank(each) for each in inferiors if each.threads()]
    if not ranks:
        raise ProcessError("no inferior of gdb has a process: attach to the ranks of a job (`help add-inferior`)")
    return put_together(
        ranks,
        title="the inferiors of gdb",
        source=GDB,
        taken=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        stopped=True,
        absent="gdb has no inferior with it",
    )


def _read_rank(inferior: gdb.Inferior) -> RankRead:
    name, program = f"inferior {inferior.num}", inferior.progspace.filename or ""
    try:
        with selected(inferior):
            snapshot = read(GdbProcess(inferior), which_library.windows())
            sample = Sample(0.0, snapshot, frames.stacks(inferior))
    except MqsError as error:
        obstacle = explain(error)
        process = JobProcess(0, None, "", inferior.pid, program, obstacle.state, obstacle.why, obstacle.remedy, ())
        return RankRead(name, process)
    rank = world_rank(snapshot)
    process = JobProcess(0, rank, "", inferior.pid, program, RankState.READ, "", "", (sample,))
    return RankRead(name, process, size=world_size(snapshot), mpi=mpi_name(snapshot))


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
