"""Leaving Python's search for garbage out of work on a whole job, whose records are all in use."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 300_000
"""Objects through which a search takes long."""


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """Suspend garbage collection: among millions of new objects, all in use, that takes as long as the work itself.

    Where it has made many, all that there is at the end counts as old at once, so that the next search doesn't go
    through it either. Else garbage from before would stay long: each process that was read leaves some, and open files.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if (
                gc.get_count()[0] > MANY and not gc.get_freeze_count()
            ):  # else thawing would undo what somebody else has frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
