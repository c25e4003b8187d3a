"""What reads a process: libmqs's Python core, or an MQS library that the user names.

Debuggers read a library's path from ``MPIR_dll_name`` in the target. Few of the libraries named there work (they
need debug information that no distribution installs), and it would be the target that says what a user runs, so here
the user does:

1. ``--dll PATH``, or ``--dll auto`` for the one that ``MPIR_dll_name`` names;
2. the environment variable ``MQS_DLL``, which takes the same;
3. else the Python core: it is what libmqs.so runs, without the way through C.
"""

from __future__ import annotations

import argparse
import os
import shlex
import stat
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mqs_dll.contract.errors import DllError, MqsError, TargetReadError, UnknownMpiError
from mqs_dll.debugger.bases import string_at

if TYPE_CHECKING:
    from mqs_dll.contract.interface import ProcessQueues, QueueLibrary, TargetProcess
    from mqs_dll.debugger.collect import OpenQueues, ReadFurther
    from mqs_dll.debugger.dll import DynamicLibrary
    from mqs_dll.job.snapshot import Hidden
    from mqs_dll.library.session import ProcessSession

Item = TypeVar("Item")

AUTO = "auto"
"""The choice that follows MPIR_dll_name."""

_FIRST_PRINTABLE = 0x20


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--dll`` to a command's parser, or to a group of its options."""
    parser.add_argument("--dll", metavar="PATH", help="read by this MQS library; `auto`: the one that the MPI names")


def opener(dll: str | None = None, *, show_internal: bool = False, queues: bool = True) -> OpenQueues:
    """Return what opens the library that a user asked for, or the Python core.

    Args:
        dll: an MQS library's path, "auto" for the one that the MPI names, None for what MQS_DLL says, if anything.
        show_internal: use the Python core, and list the communicators too that an MPI keeps for itself.
        queues: False refuses every process, as if its MPI were unknown.
    """
    named = dll or os.environ.get("MQS_DLL")

    def refuse(process: TargetProcess) -> tuple[QueueLibrary, str | None]:
        raise UnknownMpiError("the queues were left aside (--no-queues)")

    def open_core(process: TargetProcess) -> tuple[QueueLibrary, str | None]:
        from mqs_dll.library.session import Library

        return Library(show_internal=show_internal), None

    if not queues:
        return refuse
    return partial(_open_named, choice=named) if named and not show_internal else open_core


def _open_named(process: TargetProcess, choice: str) -> tuple[QueueLibrary, str | None]:
    library = open_library(process, choice)
    return library, library.path


def further(*, layouts: bool = False, windows: bool, datatypes: bool) -> ReadFurther:
    """Return the option for what only the Python core knows: where layouts are from, windows, datatypes.

    It asks the session that is there, or one of its own.
    """
    from mqs_dll.job.snapshot import CoreView

    def read_further(queues: ProcessQueues, target: TargetProcess) -> CoreView:
        session = core_session(queues, target)
        return CoreView(
            layouts=tuple(session.layout_origins()) if layouts else None,
            windows=or_hidden(session.windows) if windows else None,
            datatypes=or_hidden(session.datatypes) if datatypes else None,
        )

    return read_further


def windows() -> ReadFurther:
    """Return what lists the one-sided windows of processes, by the Python core, whose way in each it remembers."""
    from mqs_dll.job.snapshot import CoreView

    sessions: dict[TargetProcess, ProcessSession] = {}

    def read_further(queues: ProcessQueues, target: TargetProcess) -> CoreView:
        session = sessions.get(target) or core_session(queues, target)
        if session is not queues:
            sessions[target] = session
        return CoreView(windows=or_hidden(session.windows))

    return read_further


def core_session(queues: ProcessQueues, target: TargetProcess) -> ProcessSession:
    """Return what the Python core makes of a process: the session that reads it, or one of its own, not yet started."""
    from mqs_dll.library.session import Library, ProcessSession

    return queues if isinstance(queues, ProcessSession) else Library().setup_image(target.image).setup_process(target)


def or_hidden(read: Callable[[], list[Item]]) -> tuple[Item, ...] | Hidden:
    """Return what the Python core reads; why it can't, where it can't: the library that was asked may know the rest."""
    from mqs_dll.job.snapshot import Hidden

    try:
        return tuple(read())
    except MqsError as error:
        return Hidden(str(error))


# ---------------------------------------------------------------- which MQS library


def open_library(process: TargetProcess, choice: str) -> DynamicLibrary:
    """Return the MQS library for a process, loaded; the arguments are those of choose_library.

    Raises:
        DllError: it can't be loaded, or the MPI names none, or one that isn't to be run.
    """
    from mqs_dll.debugger.dll import DynamicLibrary

    path = choose_library(process, choice)
    if choice != AUTO or "/" not in path:  # without one, dlopen looks in its own folders
        return DynamicLibrary(path, None)
    _check_outside(process, path)
    return DynamicLibrary(path, _checked(path))


def choose_library(process: TargetProcess, choice: str) -> str:
    """Return the path of the MQS library to load for a process.

    Args:
        process: needed when its MPI is to be asked.
        choice: a path, or "auto".

    Raises:
        DllError: the MPI names none.
    """
    if choice == AUTO:
        return named_by_mpi(process)
    return str(Path(choice).resolve()) if Path(choice).exists() else choice


def _check_outside(process: TargetProcess, path: str) -> None:
    """Make sure that the path which a process names is, here, the file that it is for the process.

    Raises:
        DllError: it is another one, or none: the process is in a container.
    """
    from mqs_dll.debugger.inside import is_same_outside
    from mqs_dll.debugger.live import LiveProcess

    if isinstance(process, LiveProcess) and not is_same_outside(process.pid, path):
        raise DllError(f"{path}, which the program names, is a file of its container, and isn't loaded outside")


_checked_files: dict[tuple[int, int], int] = {}
"""Descriptors of the libraries that processes name and that may be run, by device and inode.

The file that was checked is the one that is loaded: it is opened once, and dlopen gets it as /proc/self/fd/N. It knows
a library by its name or its inode, so that N must stay open: another file of the same number would be taken for it.
Such a library's $ORIGIN, and its path by dladdr, is /proc/self/fd: one that searches for others beside itself has to be
named by --dll PATH.
"""


def _checked(path: str) -> int:
    """Return a descriptor of the file that a process names, unless others could have us run their code by it.

    Raises:
        DllError: they could, or it can't be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise DllError(f"the MQS library {path} can't be loaded: {getattr(error, 'strerror', error)}") from None
    seen = os.fstat(file)
    if (wrong := _distrusted(seen)) or (seen.st_dev, seen.st_ino) in _checked_files:
        os.close(file)
    if wrong:
        raise DllError(
            f"{path}, which the program names, {wrong}: if you trust it, `--dll {shlex.quote(path)}` loads it"
        )
    return _checked_files.setdefault((seen.st_dev, seen.st_ino), file)


def _distrusted(file: os.stat_result) -> str:
    """Return why a file isn't loaded though a process names it; empty where nothing is wrong."""
    from mqs_dll.job.files import is_open, is_trusted

    if not stat.S_ISREG(file.st_mode):
        return "is no regular file"
    if not is_trusted(file):
        return f"belongs to user {file.st_uid}, whose code would run as you"
    if is_open(file):
        return "may be written by others, whose code would run as you"
    return ""


def named_by_mpi(process: TargetProcess) -> str:
    """Return the path in the target's ``MPIR_dll_name``, an array of char or, as in the standard's text, a pointer.

    Raises:
        DllError: there is no such variable, or it holds no path.
    """
    address = process.image.find_symbol("MPIR_dll_name")
    if address is None:
        raise DllError("the program names no MQS library: it has no symbol MPIR_dll_name")
    for candidate in (_pointer_at(process, address), address):
        path = _path_at(process, candidate)
        if path:
            return path
    raise DllError(f"MPIR_dll_name at {address:#x} holds no path")


def _pointer_at(process: TargetProcess, address: int) -> int:
    """Return what lies at an address as a pointer, 0 when nothing does. A path's letters point nowhere."""
    try:
        (pointer,) = struct.unpack("=Q", process.to_host(process.fetch(address, 8)))
    except TargetReadError:
        return 0
    return int(pointer)


def _path_at(process: TargetProcess, address: int) -> str | None:
    """Return the printable string at an address, None when there is no such thing."""
    string = string_at(process, address)
    return None if string is None or any(byte < _FIRST_PRINTABLE for byte in string) else os.fsdecode(string)
