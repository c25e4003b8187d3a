"""The commands that gdb learns: ``mqs show``, ``mqs comms``, ``mqs queues`` and ``mqs job``.

They print through gdb, so that its pager, its logging and its redirections work; a failure is one sentence.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from typing import Any, NoReturn

import gdb

from mqs_dll.commands import job as job_command
from mqs_dll.commands import which_library
from mqs_dll.contract.errors import MqsError
from mqs_dll.contract.escape import printable, visible
from mqs_dll.contract.names import called
from mqs_dll.gdb.target import GdbProcess, read, read_inferiors, selected
from mqs_dll.job.snapshot import Snapshot
from mqs_dll.report import process_json, process_text, terminal

_UNLIMITED = 4096
"""Columns where gdb folds no lines (`set width 0`)."""


class Parser(argparse.ArgumentParser):
    """A parser that never leaves gdb."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Go back to gdb's prompt."""
        raise gdb.GdbError((message or "").strip())

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments."""
        raise gdb.GdbError(f"{self.prog}: {message}; see `help {self.prog}`")


class Mqs(gdb.Command):
    """The message queues of MPI programs: `mqs job` for all inferiors, the others for the one that is selected."""

    def __init__(self) -> None:
        super().__init__("mqs", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class _Subcommand(gdb.Command):
    """What the commands have in common: arguments, and one place where a failure becomes gdb's error."""

    name = ""

    def __init__(self) -> None:
        super().__init__(f"mqs {self.name}", gdb.COMMAND_DATA)
        self.parser = Parser(prog=f"mqs {self.name}", add_help=False)
        self.add_arguments()

    def add_arguments(self) -> None:
        """Add the command's arguments to its parser."""

    def run(self, options: argparse.Namespace) -> None:
        """Do what the command is for."""
        raise NotImplementedError

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Run the command for gdb."""
        self.dont_repeat()
        try:
            self.run(self.parser.parse_args(gdb.string_to_argv(argument)))
        except MqsError as error:
            raise gdb.GdbError(f"mqs: {visible(str(error).rstrip('.'))}.\n     {visible(error.help)}") from None
        except (gdb.GdbError, KeyboardInterrupt):
            raise
        except Exception as error:
            if os.environ.get("MQS_DEBUG") == "1":
                raise
            raise gdb.GdbError(
                f"mqs: this is a bug in mqs, sorry: {visible(f'{type(error).__name__}: {error}')}\n"
                "     Please report it with what `python os.environ['MQS_DEBUG'] = '1'` makes it print."
            ) from None


class Show(_Subcommand):
    """Show the communicators and queues of the selected inferior: mqs show [--json] [--windows] [--datatypes].

    --json       print JSON (docs/json-schema.md)
    --windows    list the one-sided windows too
    --datatypes  list the datatypes in use too
    """

    name = "show"

    def add_arguments(self) -> None:
        """Add the options."""
        for option in ("--json", "--windows", "--datatypes"):
            self.parser.add_argument(option, action="store_true")

    def run(self, options: argparse.Namespace) -> None:
        """Print all that is read."""
        began = time.monotonic()
        snapshot = _look(windows=options.windows, datatypes=options.datatypes)
        if options.json:
            print(process_json.render(snapshot))
        else:
            _print(process_text.render(snapshot))
            print(f"\ngdb took {time.monotonic() - began:.2f} s for {snapshot.reads} reads")


class Comms(_Subcommand):
    """List the communicators of the selected inferior, with how much is in their queues: mqs comms."""

    name = "comms"

    def run(self, options: argparse.Namespace) -> None:
        """Print a row for each."""
        _print(process_text.render_communicators(_look()))


class QueuesCommand(_Subcommand):
    """Show the queues of the selected inferior, or of one communicator by its name: mqs queues [COMM]."""

    name = "queues"

    def add_arguments(self) -> None:
        """Add the communicator."""
        self.parser.add_argument("communicator", nargs="*", metavar="COMM")

    def run(self, options: argparse.Namespace) -> None:
        """Print the queues, and of what else is known the heading."""
        snapshot, wanted = _look(), " ".join(options.communicator)
        chosen = tuple(each for each in snapshot.communicators if wanted in ("", _name(each)))
        if not chosen:
            raise gdb.GdbError(f"mqs: there is no communicator {visible(wanted)!r}; `mqs comms` lists them")
        _print(process_text.render(replace(snapshot, communicators=chosen, core=replace(snapshot.core, layouts=None))))

    def complete(self, text: str, word: str) -> list[str]:
        """Return the names that start so; what is before the last word stays as it is."""
        done = len(text) - len(word or "")
        try:
            names = [_name(each) for each in _look().communicators]
        except MqsError:
            return []
        return sorted({name[done:] for name in names if name.startswith(text)})


class JobCommand(_Subcommand):
    """Say what is wrong with the job whose ranks are gdb's inferiors: who waits for whom, and why: mqs job [OPTION]...

    --json, --csv, --dot, --tree  print it so
    --all-ranks                   print every rank with all of its queues too
    --svg, --html, --save FILE    write the picture, a page, or all that was read (`mqs job --load FILE` in a shell)
    """

    name = "job"

    def add_arguments(self) -> None:
        """Add the options that the shell's `mqs job` has for its output."""
        job_command.add_output(self.parser)

    def run(self, options: argparse.Namespace) -> None:
        """Print the verdict."""
        job_command.report(options, read_inferiors(gdb.inferiors()))


def register() -> None:
    """Make the commands known to gdb."""
    for command in (Mqs, Show, Comms, QueuesCommand, JobCommand):
        command()


def _look(*, windows: bool = False, datatypes: bool = False) -> Snapshot:
    """Return what the selected inferior shows.

    Raises:
        MqsError: it can't be read.
    """
    inferior = gdb.selected_inferior()
    with selected(inferior):
        return read(GdbProcess(inferior), which_library.further(windows=windows, datatypes=datatypes))


def _name(communicator: Any) -> str:
    return printable(called(communicator.label))


def _print(report: Any) -> None:
    width = gdb.parameter("width")
    terminal.console(width if isinstance(width, int) and width else _UNLIMITED).print(report)
