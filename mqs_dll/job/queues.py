"""Which library reads a process: libmqs.so, another MQS library, or libmqs's Python core."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqs_dll.debugger.collect import LookFurther
    from mqs_dll.interface import ProcessQueues, QueueLibrary, TargetProcess

    OpenQueues = Callable[[TargetProcess], tuple[QueueLibrary, str | None]]
    """Takes a process and returns the library to read it with, and the library's file if it has one."""


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--dll`` and ``--direct`` to a command's parser, or to a group of its options."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--dll", metavar="PATH", help="the MQS library to load, or `auto` for the one that the MPI names"
    )
    source.add_argument("--direct", action="store_true", help="use libmqs's Python core, without an MQS library")


def opener(dll: str | None = None, *, direct: bool = False, show_internal: bool = False) -> OpenQueues:
    """Return what opens the library that a user asked for.

    Args:
        dll: an MQS library's path, "auto" for the one that the MPI names, None for the default (debugger.find).
        direct: use the Python core.
        show_internal: use the Python core, and list the communicators too that an MPI keeps for itself.
    """

    def open_core(process: TargetProcess) -> tuple[QueueLibrary, str | None]:
        from mqs_dll.session import Library

        return Library(show_internal=show_internal), None

    def open_dll(process: TargetProcess) -> tuple[QueueLibrary, str | None]:
        from mqs_dll.debugger.dll import DynamicLibrary
        from mqs_dll.debugger.find import choose_library

        path = choose_library(process, dll)
        return DynamicLibrary(path), path

    return open_core if direct or show_internal else open_dll


def windows() -> LookFurther:
    """Return what lists the one-sided windows of processes, by the Python core, whose way in each it remembers."""
    from mqs_dll.debugger.snapshot import CoreView, Hidden
    from mqs_dll.errors import MqsError
    from mqs_dll.session import Library, ProcessSession

    sessions: dict[TargetProcess, ProcessSession] = {}

    def look_further(queues: ProcessQueues, target: TargetProcess) -> CoreView:
        if isinstance(queues, ProcessSession):
            session = queues
        else:
            session = sessions.get(target) or Library().setup_image(target.image).setup_process(target)
            sessions[target] = session
        try:
            return CoreView(windows=tuple(session.windows()))
        except MqsError as error:
            return CoreView(windows=Hidden(str(error)))

    return look_further
