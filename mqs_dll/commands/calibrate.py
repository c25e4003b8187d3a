"""``mqs calibrate``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqs_dll.contract.errors import CalibrationError
from mqs_dll.debugger.stopping.interrupts import ended

if TYPE_CHECKING:
    from mqs_dll.calibrate.family import Family, Report, SolvedLayouts
    from mqs_dll.calibrate.launch import Installation

EXIT_DONE = 0
EXIT_DIFFERENT = 1

DESCRIPTION = """\
Learn the layout of an MPI, without its sources and without its debug information. A small program runs under the MPI
and makes objects whose values can be found again in its memory. The result is a profile in the folder where libmqs
looks first, also inside a debugger: $MQS_PROFILES, else $XDG_DATA_HOME/libmqs/profiles, else
~/.local/share/libmqs/profiles."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "where",
        nargs="?",
        metavar="MPI",
        help="its prefix, its mpiexec, its library, or the PID of a process that uses it (default: mpiexec in PATH)",
    )
    result = parser.add_argument_group("the result")
    result.add_argument("--name", type=_name, help="the name of the profile; reports show it")
    goal = result.add_mutually_exclusive_group()
    goal.add_argument("--out", type=Path, metavar="FILE", help="write the profile to this file")
    goal.add_argument("--check", action="store_true", help="write nothing: compare it with the profile that libmqs has")
    runs = parser.add_argument_group("the runs")
    runs.add_argument("--mpiexec", type=_command, default=[], metavar="COMMAND", help="the command that starts jobs")
    runs.add_argument("--keep", type=Path, metavar="DIR", help="keep what the runs left in this new directory")
    runs.add_argument(
        "--dump",
        type=Path,
        action="append",
        metavar="DIR",
        help="run nothing: use what --keep kept; may be repeated",
    )


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name for a profile: letters, digits, '.', '_' and '-' are")
    return text


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a command: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("an empty command")
    return words


@dataclass(frozen=True)
class Learned:
    """What was learnt of an MPI."""

    title: str
    """What people call it."""
    solution: SolvedLayouts
    fabrics: Sequence[tuple[str, dict[str, Any] | None]] = ()
    """Sentences: of which fabrics what libmqs knows was confirmed, or why not; with the profiles that were found."""

    @property
    def name(self) -> str:
        """The MPI, as it is named in sentences: "Open MPI 5.0.11 on x86_64"."""
        subject = self.solution.subject
        return f"{self.title} {subject.release} on {subject.machine}"


def run(options: argparse.Namespace) -> int:
    """Do what the command line asks for, and print what came of it.

    Returns:
        EXIT_DIFFERENT when it was to be compared with something and differs.

    Raises:
        MqsError: it can't be done; nothing was written.
    """
    return _conclude(options, learn(options))


def learn(options: argparse.Namespace) -> Learned:
    """Return what is learned of the MPI that the command line names.

    Raises:
        CalibrationError: it can't be found or run, or members that libmqs can't do without were not found.
    """
    from mqs_dll.report.progress import doing

    with doing() as report, _workplace(options.keep) as directory:
        learned = _learn(options, directory, report)
    if learned.solution.failures:
        raise CalibrationError(
            f"{learned.name} has members that were not found: {'; '.join(learned.solution.failures)}"
        )
    return learned


@contextlib.contextmanager
def _workplace(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with ended(_made) as directory:
            yield directory
        return
    from mqs_dll.job.files import is_open, is_trusted

    try:
        keep.mkdir(0o755, parents=True, exist_ok=True)
        seen = keep.stat()
        filled = any(keep.iterdir())
    except OSError as error:
        raise CalibrationError(f"{keep} can't be made: {error.strerror}") from error
    if not is_trusted(seen) or is_open(seen):
        raise CalibrationError(f"others may write into {keep}: --keep wants a directory of your own")
    if filled:
        raise CalibrationError(f"{keep} is not empty: --keep wants a new directory")
    yield keep.resolve()


def _made(stack: contextlib.ExitStack) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="mqs-calibrate-"))
    stack.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _learn(options: argparse.Namespace, directory: Path, report: Report) -> Learned:
    from mqs_dll.calibrate.discovery import family_of, find
    from mqs_dll.calibrate.dump import load_all

    if options.dump:
        dumps = [dump for each in options.dump for dump in load_all(each)]
        family = family_of(dumps)
        return Learned(family.title, family.solve(dumps))
    kind, mpi = find(options.where, options.mpiexec)
    family = kind()
    observed = family.observe(mpi, directory, report)
    mpi.check_library(observed.dumps)
    report("finding each member in what the runs left")
    solution = family.solve(observed.dumps)
    solution = replace(solution, left_out=[*observed.left_out, *solution.left_out])
    fabrics = () if solution.failures else _confirm(family, mpi, solution, report)
    return Learned(family.title, solution, fabrics)


def _confirm(
    family: Family, mpi: Installation, solution: SolvedLayouts, report: Report
) -> Sequence[tuple[str, dict[str, Any] | None]]:
    """Return of each fabric whether what libmqs knows of it was confirmed, by the profile that was just made."""
    from mqs_dll.calibrate.document import document, write_for_user
    from mqs_dll.calibrate.fabric import confirm

    profile = document(solution.subject, solution.solver, solution.views, solution.sizes_only)
    found = []
    with _workplace(None) as directory, _profiles_in(directory / "profiles"):
        write_for_user(profile)
        for run in family.fabrics:
            report(f"what libmqs shows over {run.name}")
            found.append(confirm(mpi, run, directory, family.name))
    return found


@contextlib.contextmanager
def _profiles_in(folder: Path) -> Iterator[None]:
    """Let libmqs look for the user's profiles in a folder."""
    before = os.environ.get("MQS_PROFILES")
    os.environ["MQS_PROFILES"] = str(folder)
    try:
        yield
    finally:
        del os.environ["MQS_PROFILES"]
        if before is not None:
            os.environ["MQS_PROFILES"] = before


def _conclude(options: argparse.Namespace, learned: Learned) -> int:
    """Compare or write, and print."""
    from mqs_dll.calibrate.document import comparison, document, known, write, write_for_user
    from mqs_dll.library.layouts.profiles import parse

    solution = learned.solution
    subject = replace(solution.subject, name=options.name or solution.subject.name_of_build)
    profile = document(subject, solution.solver, solution.views, solution.sizes_only)
    layouts = parse(profile, "made just now").layouts
    members = sum(len(struct.offsets) for struct in layouts)
    say(f"{learned.name}, build {' and '.join(subject.builds)}: {members} members of structs found")
    for reason in solution.left_out:
        say(f"  left out: {reason}")
    for sentence, _ in learned.fabrics:
        say(f"  {sentence}")
    if options.check:
        there = known(profile)
        agrees, lines = comparison(layouts, there.layouts, f"profile {there.name}")
        for line in lines:
            say(line)
        return EXIT_DONE if agrees else EXIT_DIFFERENT
    for made in (profile, *(found for _, found in learned.fabrics if found)):
        if options.out:
            path = options.out if made is profile else options.out.parent / f"{made['name']}.json"
            write(path, made)
            say(f"written to {path}")
        else:
            say(f"written to {write_for_user(made)}, where libmqs finds it from now on")
    return EXIT_DONE


def say(line: str) -> None:
    """Print a line, in which may be what an MPI has printed."""
    from mqs_dll.contract.escape import visible

    print(visible(line))
