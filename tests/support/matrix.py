"""The support matrix: what the tests of a session saw, by MPI, transport and queue."""

from __future__ import annotations

import enum
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.mpis import Mpi, Transport

FILE = Path(__file__).parents[2] / "docs/support-matrix.md"
COLUMNS = ("layouts", "communicators", "sends", "receives", "unexpected")

HEAD = """\
# Support matrix

The test run writes this page (`pytest --write-matrix`); CI fails if it differs from what the tests see.
[transports.md](transports.md) explains what each MPI keeps.

Each row is an MPI as its users have it, stripped and without debug information, on {machine}. The tests bring the
programs of `tests/programs/` into a known state on it. They compare what libmqs shows with what MPI itself reported
to the program: every field, the order, and that nothing is invented. They read with the Python core, and in the most
important states also with `libmqs.so`, loaded by Python and by a debugger in C.

The last rows are those of other releases of Debian. Their jobs run in trees of their own (`tests/make_releases.py`),
and libmqs reads them from outside, in the most important states and random ones.

Over UCX and over libfabric one release of each MPI stands for the others there. With another release of the fabric or
another provider, the tests compare the most important states and random ones; if only the MPI's own release is
another, the most important ones.

- right: all that is pending is shown, and every field agrees.
- in part: what is shown agrees; what the MPI or its transport doesn't keep is given as -1 or left out.
- hidden: the queue answers `mqs_no_information`; the reason names the transport and, if there is one, the remedy.

Ranks that MPI_Comm_spawn started reach each other over a network in MPICH's ch4, whatever the job's own transport.

libfabric's provider cxi has no row: it takes a NIC of HPE Slingshot, and was never tried on one
([transports.md](transports.md#libfabrics-cxi-hpe-slingshot)).

These fields are not kept where a row is *in part*:

- Receives on MPICH: one that has its message no longer has the source and the tag that it asked for. One that is done
  has no buffer in ch4 and Intel MPI either. Intel MPI loses one that left source or tag open and whose message was
  there before it.
- Receives on Open MPI over UCX whose message was there before them: everything except the message.
- Sends in ch4: a small synchronous one has no destination. The tag of a send, and all of one that is done and not
  collected, are in its message's header, and known while that lies in shared memory.
- Sends on Intel MPI: everything except the request. Over libfabric it keeps what MPICH does.
- Open MPI over libfabric: the destination of a send that has left, unless it is synchronous; over rxm also that of a
  send that waits. What a receive that is done had asked for.
- MPICH over libfabric: everything of a synchronous send except its receiver (over rxm since libfabric 2.0 not even
  that) and its tag. The communicator of a send that has left.

In ch4, and in Open MPI over UCX, a persistent request keeps what it was made with, also when it is done. Sends to one
rank come in the order of sending; if it isn't known, as in ch3, each of them says so.

| MPI | transport | layouts | communicators | sends | receives | unexpected messages |
|---|---|---|---|---|---|---|
"""

WITHOUT_PROFILES = "without the profiles of its release"
TAIL = """
## Releases that no profile is of

A release of Open MPI or MPICH is read by the profile of another one if that holds in the process. The layouts of an
MPICH that none describes are fitted, from a profile of the same release line
([layouts.md](layouts.md#layouts-that-are-fitted)). For each MPI the tests take away all profiles of its release,
and compare what libmqs then shows.

- right: as above, for every field.
- refused: libmqs shows nothing, and says why.

| MPI | without the profiles of its release |
|---|---|
"""

PLACES = """
## Places

In each of these places the tests start [tag_mismatch.c](gallery.md#tag_mismatchc) on an Open MPI or an MPICH, in a
whole Debian on both, and compare what `mqs job` reports.

- queues are right: the receive of rank 1 and the message that came to it, with their sender, tag and length.
- stacks are right: the MPI call that each rank is in, and the program's line there.
- verdict: the gallery's sentences, proved; or suspected, where ranks are seen once, maybe at different moments.

Containers are an ordinary user's, of namespaces as Apptainer and rootless Podman make them. The program lies inside
alone. How `mqs` gets into one is in [containers.md](containers.md#from-inside).

| job | `mqs` | queues | stacks | verdict |
|---|---|---|---|---|
"""
PLACE_COLUMNS = ("queues", "stacks", "verdict")


class Place(enum.Enum):
    """Where a job runs, and where ``mqs`` does."""

    HERE = "on this machine", "as the same user"
    OTHER_USER = "of another user", "as root"
    CONTAINER = "in a container", "outside, as its user"
    CONTAINER_BY_ROOT = "in a container", "outside, as root"
    CONTAINER_INSIDE = "in a container", "inside"
    CONTAINERS = "each rank in a container of its own", "outside, as their user or root"
    NUMBERED = "in a container with PIDs of its own", "outside, as its user or root"
    NUMBERED_INSIDE = "in a container with PIDs of its own", "inside"
    RELEASE = "in a whole Debian 11, 13 or testing", "outside, as root"
    RELEASE_INSIDE = "in a whole Debian 13 or testing", "inside, by the wheel and that release's Python"
    NODES = "on three nodes", "on one of them"
    GDB = "on this machine", "in gdb"
    CORES = "core files of all ranks", "where they lie"


class Cell(NamedTuple):
    """What one comparison found; of a place, ``mpi`` is empty."""

    mpi: str
    transport: str
    column: str
    value: str


class Matrix:
    """What was seen; a value is recorded once a comparison agreed."""

    def __init__(self, mpis: Iterable[Mpi]) -> None:
        """Start an empty matrix for the MPIs that belong in it."""
        mpis = list(mpis)
        self._rows = [(mpi, transport) for mpi in mpis if mpi.in_matrix for transport in mpi.transports]
        self._fitted = [(mpi, mpi.transports[0]) for mpi in mpis if mpi.in_matrix]
        self._seen: dict[tuple[str, str, str], set[str]] = {}

    @property
    def seen(self) -> list[Cell]:
        """All that was recorded."""
        return [Cell(*place, value) for place, values in self._seen.items() for value in values]

    def record(self, mpi: Mpi, transport: Transport, column: str, value: str) -> None:
        """Say what a comparison found."""
        self.add([Cell(mpi.name, transport.name, column, value)])

    def record_place(self, place: Place, found: Mapping[str, str]) -> None:
        """Say what comparisons in a place found, by column."""
        self.add(Cell("", place.name, column, found[column]) for column in PLACE_COLUMNS)

    def add(self, seen: Iterable[Cell]) -> None:
        """Say what comparisons found, here or in another process."""
        for each in seen:
            self._seen.setdefault((each.mpi, each.transport, each.column), set()).add(each.value)

    def missing(self) -> list[str]:
        """Return what this session did not cover."""
        wanted = [(*row, column) for row in self._rows for column in COLUMNS]
        wanted += [(*row, WITHOUT_PROFILES) for row in self._fitted]
        cells = [(mpi.name, transport.name, column) for mpi, transport, column in wanted]
        cells += [("", place.name, column) for place in Place for column in PLACE_COLUMNS]
        return [" ".join(cell).lstrip() for cell in cells if cell not in self._seen]

    def not_in(self, page: str) -> str:
        """Return the machine or the MPI of this session that another session's page does not speak of, or ""."""
        titles = [platform.machine(), *(mpi.title for mpi, _ in self._rows)]
        return next((title for title in titles if title not in page), "")

    def text(self) -> str:
        """Return the page."""
        rows = [
            line([mpi.title, transport.name, *self._cells(mpi.name, transport.name, COLUMNS)])
            for mpi, transport in self._rows
        ]
        fitted = [
            line([mpi.title, *self._seen[mpi.name, transport.name, WITHOUT_PROFILES]])
            for mpi, transport in self._fitted
        ]
        places = [line([*place.value, *self._cells("", place.name, PLACE_COLUMNS)]) for place in Place]
        tables = (HEAD.format(machine=platform.machine()), rows), (TAIL, fitted), (PLACES, places)
        return "".join(text for head, lines in tables for text in (head, *(f"{each}\n" for each in lines)))

    def _cells(self, mpi: str, where: str, columns: Sequence[str]) -> list[str]:
        return [", ".join(sorted(weakest(self._seen[mpi, where, column]))) for column in columns]


def weakest(values: set[str]) -> set[str]:
    """Return what holds of a column in all states: one that was right or hidden here and in part there is in part."""
    return {"in part"} if "in part" in values else values


def line(cells: Sequence[str]) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
