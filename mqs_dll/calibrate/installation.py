"""An MPI at hand: its library, and the command that starts a program with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mqs_dll.calibrate.dump import Dump
from mqs_dll.errors import CalibrationError


@dataclass(frozen=True)
class Installation:
    """What is needed to run a program under an MPI."""

    library: Path
    """The library that programs load: libmpi.so.40."""
    mpiexec: Sequence[str]
    """The command that starts a job, with arguments if need be."""

    def environment(self) -> dict[str, str]:
        """Return the variables that lead a job to this MPI's commands and library, and to no other MPI's."""
        environment = {}
        launcher = Path(self.mpiexec[0])
        if launcher.is_absolute():
            environment["PATH"] = _before(str(launcher.parent), os.environ.get("PATH"))
        environment["LD_LIBRARY_PATH"] = _before(str(self.library.parent), os.environ.get("LD_LIBRARY_PATH"))
        return environment

    def check_library(self, dumps: Iterable[Dump]) -> None:
        """Make sure that the program ran with this library: another MPI's may come first in its search path.

        Raises:
            CalibrationError: it ran with another one.
        """
        for dump in dumps:
            loaded = Path(dump.truth["library_file"])
            if not loaded.exists() or not loaded.samefile(self.library):
                raise CalibrationError(f"the calibration program ran with {loaded}, not with {self.library}")


def _before(first: str, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else first
