"""What programs are made of: each thread has a list of acts. Ranks are those of MPI_COMM_WORLD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

ANY = -1
"""MPI_ANY_SOURCE, MPI_ANY_TAG."""


@dataclass(frozen=True)
class Comm:
    """A communicator."""

    name: str
    members: tuple[int, ...]
    """By rank in it."""


@dataclass(frozen=True)
class Send:
    """A message of a thread's, by MPI_Isend with a request of some name, or by MPI_Send where it has none."""

    peer: int
    tag: int
    comm: Comm
    name: str = ""
    is_eager: bool = False
    """Its send ends at once, since the MPI takes a copy (3.4: a send in standard mode may be buffered)."""


@dataclass(frozen=True)
class Receive:
    """A receive, by MPI_Irecv with a request of some name, or by MPI_Recv where it has none."""

    peer: int
    """Perhaps ANY, as the tag."""
    tag: int
    comm: Comm
    name: str = ""


@dataclass(frozen=True)
class Probe:
    """MPI_Probe; with ``tries`` a loop over MPI_Iprobe that gives up after so many, with 0 one that never does."""

    peer: int
    tag: int
    comm: Comm
    tries: int | None = None


@dataclass(frozen=True)
class Start:
    """The start of an operation that is no message: of a generalized request (13.2), or of a file."""

    name: str
    ends_itself: bool
    """As a file's; else it ends by Complete."""


@dataclass(frozen=True)
class Complete:
    """MPI_Grequest_complete, by whatever thread."""

    name: str


@dataclass(frozen=True)
class Wait:
    """MPI_Wait, MPI_Waitall, MPI_Waitany; with ``tries`` a loop over the call that only tests, as in Probe."""

    names: tuple[str, ...]
    """Of requests; one that was never started is MPI_REQUEST_NULL."""
    is_any: bool = False
    tries: int | None = None


@dataclass(frozen=True)
class Collective:
    """A blocking collective call."""

    call: str
    comm: Comm
    root: int = 0
    """Of MPI_Bcast and MPI_Reduce."""
    turns: int = 0
    """Of a reduction by a function of the program's: how long that takes."""


@dataclass(frozen=True)
class Compute:
    """Outside MPI, for some turns."""

    turns: int


@dataclass(frozen=True)
class Enter:
    """A call that calls the program back, as MPI_Comm_delete_attr: what follows, until Leave, is in the callback."""

    call: str


@dataclass(frozen=True)
class Leave:
    """The end of that call."""


@dataclass(frozen=True)
class Join:
    """The wait for all other threads of the rank, outside MPI."""


@dataclass(frozen=True)
class Finalize:
    """MPI_Finalize: the rank never sends or receives again."""


Act: TypeAlias = (
    "Send | Receive | Probe | Start | Complete | Wait | Collective | Compute | Enter | Leave | Join | Finalize"
)
