"""What the point-to-point layers of Open MPI (its "pml" components) have in common for a reader.

Datatypes' handles are their addresses.
"""

from __future__ import annotations

from typing import TypeAlias

from mqs_dll.contract import phrases
from mqs_dll.contract.errors import NoInformation
from mqs_dll.library.mpi.openmpi.communicators import Entry
from mqs_dll.library.mpi.transport import HiddenTransport, Transport

Pml: TypeAlias = Transport[Entry]
"""One point-to-point layer in one process."""


def hidden(what: str, transport: str, why: str) -> NoInformation:
    """Return the refusal to list a queue that a transport hides, with the way out."""
    return NoInformation(
        phrases.unseen(what, f"Open MPI's transport {transport} {why}"), "run the job with --mca pml ob1 to see them"
    )


def hidden_pml(name: str, why: str) -> Pml:
    """Return a layer that keeps its operations where they can't be read."""
    return HiddenTransport(name, lambda what: hidden(what, name, why))
