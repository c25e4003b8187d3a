"""MPICH's calibration program where the ranks of one of two nodes are slow to remove their shared memory."""

from __future__ import annotations

import time
from pathlib import Path

from mqs_dll.calibrate.mpich import program

LATE = 0.5
"""Seconds: a launcher that kills these ranks, since those of the other node have ended, is faster."""


def main() -> None:
    """Run one rank; MPICH 5.0 puts the number of the node last in its files' names."""
    remove = Path.unlink

    def remove_late(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith("_0"):
            time.sleep(LATE)
        remove(path, missing_ok)

    Path.unlink = remove_late  # type: ignore[method-assign,assignment]
    program.main()
