"""Which communicators MPICH keeps for itself, in made-up memory: those of windows, and the parts of these."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.communicators import MpichCommunicators, MpichEntry
from mqs_dll.library.mpi.mpich.internal import MpichInternalCommunicators
from mqs_dll.library.mpi.mpich.romio import Files
from mqs_dll.library.mpi.mpich.windows import MpichWindows
from tests.support.mpich_process import MpichProcess, layouts_with


class Entries(list[MpichEntry]):
    """Counts how often somebody goes through all communicators."""

    passes = 0

    def __iter__(self) -> Iterator[MpichEntry]:
        self.passes += 1
        return super().__iter__()


class _Windows:
    def __init__(self, communicators: list[int]) -> None:
        self._communicators = communicators

    def live(self) -> list[views.MpirWin]:
        return [
            cast(views.MpirWin, SimpleNamespace(address=0, comm_ptr=comm, name=b"of %d" % number))
            for number, comm in enumerate(self._communicators)
        ]


class _NoSelf:
    def predefined(self, index: int) -> None:
        """Say that there is no MPI_COMM_SELF."""


def marked(windows: int) -> Entries:
    """Return the communicators of a process with some windows, each with a part of its own."""
    process = MpichProcess(layouts_with("MPIR_Request", "dev.ch4.self.tag"))
    parts = [process.comm(0x100 + 16 * number + 2) for number in range(windows)]
    wholes = [process.comm(0x100 + 16 * number, node_comm=part) for number, part in enumerate(parts)]
    entries = Entries(process.entry(address) for address in (process.world, *parts, *wholes))
    entries.passes = 0
    windows_of_process = cast(MpichWindows, _Windows(wholes))
    MpichInternalCommunicators(cast(MpichCommunicators, _NoSelf()), windows_of_process, cast(Files, None)).mark(entries)
    return entries


def test_the_communicator_of_a_window_and_its_parts_say_whose_they_are() -> None:
    """Both are MPICH's own; MPI_COMM_WORLD is not."""
    world, *parts_and_wholes = marked(2)
    assert (world.internal, world.label.description) == (False, b"")
    assert all(entry.internal for entry in parts_and_wholes)
    assert [entry.label.description for entry in parts_and_wholes] == [b"window 'of 0'", b"window 'of 1'"] * 2


def test_many_windows_are_no_reason_to_go_through_all_communicators_for_each() -> None:
    """The stop lasts in proportion to communicators and windows, not to their product."""
    assert marked(20).passes == marked(1).passes
