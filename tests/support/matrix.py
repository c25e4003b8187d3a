"""The support matrix: what the tests of a session saw, by MPI, transport and queue."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.mpis import Mpi, Transport

FILE = Path(__file__).parents[2] / "docs/support-matrix.md"
COLUMNS = ("layouts", "communicators", "sends", "receives", "unexpected")

HEAD = """\
# Support matrix

Written by the test run (`pytest --write-matrix`), not by hand; CI fails when it differs from what the tests see.

Each row is an MPI as its users have it, stripped and without debug information, on {machine}. The programs of
`tests/programs/` were brought into a known state on it, and what libmqs shows was compared with what MPI itself had
told the program: every field, the order, and that nothing is made up. It was looked at with the Python core, and in
the states of most interest also with `libmqs.so` loaded by Python and by a debugger in C.

Over UCX and over libfabric one release of each MPI stands for the others there. Where another release of the fabric or
another provider lies below, the states of most interest and random ones were compared; where nothing but the MPI's own
release is another, those of most interest.

- right: all that is pending is shown, and every field agrees.
- in part: what is shown agrees; what the MPI or its transport doesn't keep is given as -1 or left out.
- hidden: the queue answers `mqs_no_information`; the reason names the transport and, where there is one, the way out.

In MPICH's ch4, processes that MPI_Comm_spawn started are reached over a network, whatever the job's own transport.

What keeps MPICH's rows at *in part*: a receive that has its message no longer knows the source and the tag that it
had asked for; of one that is done ch4 and Intel MPI keep no buffer either, and Intel MPI loses sight of one that left
source or tag open and whose message was there before it. Open MPI over UCX keeps of a receive whose message was there
only that.
ch4 keeps no destination of a small synchronous send; the tag of a send, and all of one that is done
and not collected, are in its message's header, and known while that lies in shared memory. Intel MPI keeps of a send
its request alone, and over libfabric what MPICH does. Over libfabric Open MPI keeps no destination of a send that has
left, unless it is synchronous, and not what a receive that is done had asked for; over rxm, of a send that waits no
destination, either. Over libfabric MPICH keeps of a synchronous send its receiver (over rxm since libfabric 2.0 not
even that) and its tag alone, and of one that has left nothing that tells its communicator. In ch4, and in Open MPI
over UCX, a persistent request keeps what it was made with, also when it is done. Sends to one rank come in the order of
sending; where it isn't known, as in ch3, each of them says so.

| MPI | transport | layouts | communicators | sends | receives | unexpected messages |
|---|---|---|---|---|---|---|
"""


class Cell(NamedTuple):
    """What one comparison found."""

    mpi: str
    transport: str
    column: str
    value: str


class Matrix:
    """What was seen; a value is recorded once a comparison agreed."""

    def __init__(self, mpis: Iterable[Mpi]) -> None:
        """Begin an empty matrix for the MPIs that belong in it."""
        self._rows = [(mpi, transport) for mpi in mpis if mpi.in_matrix for transport in mpi.transports]
        self._seen: dict[tuple[str, str, str], set[str]] = {}

    @property
    def seen(self) -> list[Cell]:
        """All that was recorded."""
        return [Cell(*place, value) for place, values in self._seen.items() for value in values]

    def record(self, mpi: Mpi, transport: Transport, column: str, value: str) -> None:
        """Say what a comparison found."""
        self.add([Cell(mpi.name, transport.name, column, value)])

    def add(self, seen: Iterable[Cell]) -> None:
        """Say what comparisons found, here or in another process."""
        for each in seen:
            self._seen.setdefault((each.mpi, each.transport, each.column), set()).add(each.value)

    def missing(self) -> list[str]:
        """Return what this session did not look at."""
        return [
            f"{mpi.name} {transport.name} {column}"
            for mpi, transport in self._rows
            for column in COLUMNS
            if (mpi.name, transport.name, column) not in self._seen
        ]

    def not_in(self, page: str) -> str:
        """Return the machine or the MPI of this session that another session's page does not speak of, or ""."""
        titles = [platform.machine(), *(mpi.title for mpi, _ in self._rows)]
        return next((title for title in titles if title not in page), "")

    def text(self) -> str:
        """Return the page."""
        rows = [line([mpi.title, transport.name, *self._cells(mpi, transport)]) for mpi, transport in self._rows]
        return HEAD.format(machine=platform.machine()) + "".join(f"{row}\n" for row in rows)

    def _cells(self, mpi: Mpi, transport: Transport) -> list[str]:
        return [", ".join(sorted(weakest(self._seen[mpi.name, transport.name, column]))) for column in COLUMNS]


def weakest(values: set[str]) -> set[str]:
    """Return what holds of a column in all states: one that was right or hidden here and in part there is in part."""
    return {"in part"} if "in part" in values else values


def line(cells: Sequence[str]) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
