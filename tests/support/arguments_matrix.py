"""The table of docs/call-arguments.md: which arguments of blocked calls were reported, by MPI and transport.

How many are told depends on where a rank is stopped, and differs by a few from run to run; that none is wrong doesn't.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.matrix import Cell, line
from tests.support.mpis import Mpi, Transport

FILE = Path(__file__).parents[2] / "docs/call-arguments.md"
COLUMN = "arguments of "
BEGIN, END = "<!-- by the test run -->\n", "<!-- end -->\n"

COLUMNS: Mapping[str, Collection[str]] = {
    "all": (),
    "peer": ("source", "dest"),
    "tag": ("tag", "sendtag", "recvtag"),
    "communicator": ("comm",),
    "root": ("root",),
    "requests": ("request", "array_of_requests"),
}
"""The names of arguments that each column counts; of the first, all."""


class Argument(NamedTuple):
    """What was reported of one argument of a blocked call."""

    name: str
    is_known: bool


def cells(mpi: Mpi, transport: str, found: Sequence[Argument]) -> list[Cell]:
    """Return a row: how many of the arguments of each column were reported, all of which are right."""
    made = []
    for title, names in COLUMNS.items():
        asked = [each for each in found if not names or each.name in names]
        value = f"{sum(each.is_known for each in asked)} of {len(asked)}"
        made.append(Cell(mpi.name, transport, COLUMN + title, value))
    return made


def row_of(mpi: Mpi, transport: Transport, seen: Iterable[Cell]) -> str:
    """Return the row of what was seen on an MPI, without an end; of nothing only its start."""
    values = {each.column: each.value for each in seen if (each.mpi, each.transport) == (mpi.name, transport.name)}
    told = [values[COLUMN + title] for title in COLUMNS if COLUMN + title in values]
    return line([mpi.title, transport.name, *told, "0"] if told else [mpi.title, transport.name])


def table(rows: Iterable[str]) -> str:
    """Return the table of some rows."""
    lines = [line(["MPI", "transport", *COLUMNS, "wrong"]), "|---" * (len(COLUMNS) + 3) + "|", *rows]
    return "".join(f"{each}\n" for each in lines)


def write(text: str) -> None:
    """Put a table into the page, in place of the one that it has."""
    page = FILE.read_text()
    before, _, rest = page.partition(BEGIN)
    FILE.write_text(before + BEGIN + text + END + rest.partition(END)[2])
