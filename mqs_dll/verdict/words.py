"""What an operation's lines of extra_text say: the one place that reads them, and a communicator's marks.

The lines are written by ``mpi/describe.py`` and by each MPI's own room for words; another vendor's library may write
anything, which then means nothing here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_CALL = re.compile(r"MPI_[A-Z][A-Za-z_]*")
_COLLECTIVE = re.compile(r"collective: (MPI_\w+)")
_NONBLOCKING = re.compile(r"nonblocking collective no\. \d+")
_INTERNAL = re.compile(
    r"collective:|collective by |nonblocking collective|neighborhood collective|making of a communicator"
    r"|fault tolerance|internal traffic of "
)
_IN_WAIT = re.compile(r"in a wait for several requests(?:, needs (\d+) more of them)?")
_GONE_ON = re.compile(r"the program has gone on|freed by the program|not delivered; copy in the attached buffer")
_NUMBER = re.compile(r"\bno\. \d+ (?:of the communicator's receives|to it)")
_HELD = "message held, not received"
_CANCELLED = re.compile(r"(?:^|, )cancelled$")
_MARKS = re.compile(r"(?:^| )\[((?:inter, \d+ remote|freed|internal)(?:, (?:freed|internal))*)\]$")


class Words(NamedTuple):
    """What the lines of one operation say."""

    calls: tuple[str, ...]
    """The MPI functions that may have made it; empty where nothing tells."""
    internal: bool
    """It is traffic of the MPI's own, mostly of a collective operation: no receive of the program can match it."""
    collective: str | None
    """The blocking collective that it is a part of, or whose piece: MPI_Allreduce may be made of MPI_Reduce."""
    nonblocking_collective: bool
    """It may be a part of MPI_Ibarrier and the like, for which a program waits by a request."""
    in_wait: bool
    """Some thread waits for it right now, in MPI_Waitall, MPI_Waitany or the like."""
    needs: int | None
    """How many of the requests that the thread waits for have to end; None where that isn't known."""
    gone_on: bool
    """No program waits for it: freed, or a buffered send."""
    held: bool
    """A message that a matched probe has taken."""
    cancelled: bool
    counted: bool
    """It has a number of its own, so that another one in its place would show."""

    @property
    def probe(self) -> bool:
        """Whether it is a probe, which has no buffer."""
        return self.held or "MPI_Probe" in self.calls or "MPI_Mprobe" in self.calls


@lru_cache(maxsize=1 << 16)
def read_words(extra_text: tuple[bytes, ...]) -> Words:
    """Return what the lines of an operation say."""
    lines = [line.decode("utf-8", "replace") for line in extra_text]
    first = lines[0] if lines else ""
    internal = any(_INTERNAL.match(line) for line in lines)
    collective = next((found[1] for line in lines if (found := _COLLECTIVE.match(line))), None)
    wait = next((found for line in lines if (found := _IN_WAIT.search(line))), None)
    return Words(
        calls=tuple(_CALL.findall(first)) if not _INTERNAL.match(first) else (),
        internal=internal,
        collective=collective,
        nonblocking_collective=any(_NONBLOCKING.match(line) for line in lines),
        in_wait=wait is not None,
        needs=int(wait[1]) if wait and wait[1] else None,
        gone_on=any(_GONE_ON.search(line) for line in lines),
        held=_HELD in first,
        counted=any(_NUMBER.search(line) for line in lines),
        cancelled=any(_CANCELLED.search(line) for line in lines),
    )


class Marks(NamedTuple):
    """What libmqs puts behind a communicator's name."""

    name: bytes
    """The program's own name for it."""
    remote: int | None
    """Processes of the remote group; None for an intra-communicator."""
    internal: bool
    """The MPI keeps it for itself."""


@lru_cache(maxsize=1 << 12)
def read_marks(name: bytes) -> Marks:
    """Split a communicator's name from its marks."""
    found = _MARKS.search(name.decode("latin-1"))
    if found is None:
        return Marks(name, None, False)
    marks = found[1].split(", ")
    remote = int(marks[1].partition(" ")[0]) if marks[0] == "inter" else None
    return Marks(name[: found.start()], remote, "internal" in marks)
