"""What there is to run in a folder of MPI programs, and what the programs say of themselves.

The MPI Bugs Initiative writes for each run of a program, between BEGIN_MBI_TESTS and END_MBI_TESTS, the command and
"OK" or the name of the error; MUST writes a "RUN:" line for LLVM's lit, and a "CHECK:" line where it expects a
deadlock. Of other programs the folder is all that is known.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ENDINGS = (".c", ".cc", ".cpp")
DEADLOCK = "deadlock"
OK = "OK"
CORRECT = (OK, "correct")
"""Errors and folders of programs that have none."""
_MBI_TEST = re.compile(r"\$ *mpirun +-np +(\d+)(.*)\n\s*\| *(?:ERROR: *)?(\S+)")
_LIT_RANKS = re.compile(r"RUN:.*%mpiexec-numproc-flag +(\d+)")
_LIT_DEADLOCK = re.compile(r"CHECK.*detected a deadlock")
_FINE = re.compile(r"no-?(error|dl|loss)", re.IGNORECASE)
"""In the names of MUST's correct programs: no deadlock, no message lost."""
_MAIN = re.compile(r"\bmain *\(")


class Program(NamedTuple):
    """One program with the arguments that it is run with."""

    path: str
    """Below the folder."""
    arguments: tuple[str, ...]
    ranks: int
    error: str
    """The error that it has, as its suite calls it; OK for a correct one."""

    @property
    def title(self) -> str:
        """Its path and arguments."""
        return " ".join((self.path, *self.arguments))

    @property
    def correct(self) -> bool:
        """Whether its suite says so."""
        return self.error in CORRECT


def find_programs(folder: Path, ranks: int) -> list[Program]:
    """Return all programs below a folder by path; one that doesn't say with how many ranks it is run gets `ranks`."""
    found = []
    for path in sorted(each for each in folder.rglob("*") if each.suffix in ENDINGS):
        text = path.read_text(errors="replace")
        if "MPI_" in text and _MAIN.search(text):
            found += _runs(path.relative_to(folder), text, ranks)
    return list(dict.fromkeys(found))


def _runs(path: Path, text: str, ranks: int) -> list[Program]:
    if tests := _MBI_TEST.findall(text):
        return [
            Program(str(path), tuple(each for each in words.split() if "$" not in each), int(number), error)
            for number, words, error in tests
        ]
    number = _LIT_RANKS.search(text)
    if _LIT_DEADLOCK.search(text):
        error = DEADLOCK
    elif _FINE.search(path.stem):
        error = OK
    else:
        error = path.parent.name or "unknown"
    return [Program(str(path), (), int(number[1]) if number else ranks, error)]


def some(programs: Iterable[Program], each: int, seed: int) -> list[Program]:
    """Return at most so many programs of each error, by chance: the same for the same seed, and more add to them."""
    by_error = defaultdict(list)
    for program in programs:
        by_error[program.error].append(program)
    chosen: list[Program] = []
    for error, group in sorted(by_error.items()):
        random.Random(f"{seed} {error}").shuffle(group)
        chosen += group[:each]
    return sorted(chosen)
