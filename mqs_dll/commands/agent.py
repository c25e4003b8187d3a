"""``mqs agent``: what ``mqs job`` starts on each node of a job. It is no command for people."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import mqs_dll
from mqs_dll.commands import show, which_library
from mqs_dll.contract.errors import DllError

EXIT_DONE = 0

_ELSEWHERE = ("mqs_dll.gdb", "mqs_dll.calibrate", "mqs_dll.library._", "mqs_dll.library.helper", "mqs_dll.libmqs")
"""Modules that run in other processes."""
_DISASSEMBLER = "capstone"
"""What ours import when it is needed, where it is installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = "Read ranks of this machine for an `mqs` on another, by messages on standard input and output."
    which_library.add_arguments(parser)
    parser.add_argument(
        "--folder", type=_own_folder, metavar="DIR", help="where libmqs was unpacked: remove it at the end"
    )


def _own_folder(text: str) -> Path:
    """Return the folder that this package lies in; anything else is none to be removed."""
    folder = Path(text).resolve()
    if Path(__file__).resolve().parents[2] != folder:
        raise argparse.ArgumentTypeError(f"{text!r} is not where libmqs was unpacked")
    return folder


def run(options: argparse.Namespace) -> int:
    """Do what the standard input says, until it ends.

    Returns:
        EXIT_DONE.
    """
    from mqs_dll.commands.doctor import command as doctor
    from mqs_dll.debugger import rights
    from mqs_dll.debugger.job.nodes import wire
    from mqs_dll.debugger.job.nodes.agent import serve

    def read(message: Mapping[str, Any]) -> Any:
        asked = {name: message[name] for name in ("pid", "core", *show.ASKED)}
        rights.become_owner_of(message["core"] or message["pid"], prepare)
        return wire.write(show.read_shown(argparse.Namespace(**vars(options), **asked)))

    def diagnose(message: Mapping[str, Any]) -> Any:
        where = message["pid"] or message["path"]
        rights.become_owner_of(where, prepare)
        return wire.write(doctor.diagnose(where, message["limit"]))

    more = {"show": read, "diagnose": diagnose}
    open_queues = which_library.opener(options.dll)
    serve(open_queues, which_library.windows(), more, prepare, options.folder)
    return EXIT_DONE


def prepare() -> None:
    """Import and read what may be needed: this process is about to lose the right to read root's folders."""
    from mqs_dll.debugger.job.stacks.arguments import remember
    from mqs_dll.job import bindings
    from mqs_dll.library.layouts import profiles

    for module in pkgutil.walk_packages(mqs_dll.__path__, "mqs_dll."):
        if not module.name.startswith(_ELSEWHERE):
            with suppress(DllError, ImportError):  # without cffi, or what is built, no MQS library can be loaded
                importlib.import_module(module.name)
    with suppress(ImportError):
        importlib.import_module(_DISASSEMBLER)
    profiles.keep_all()
    for read in (bindings.functions, bindings.constants, remember.version):
        read()
