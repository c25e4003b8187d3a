"""The contract between ``mqs calibrate`` and the calibration of one family of MPIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mqs_dll.calibrate.document import Subject
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.launch import Installation, Run
from mqs_dll.calibrate.layout_solver import LayoutSolver
from mqs_dll.library.layouts.view import View

Report = Callable[[str], None]
"""Says in a few words what takes a while."""


@dataclass(frozen=True)
class Observed:
    """What the runs left, and what was not tried."""

    dumps: Sequence[Dump]
    left_out: Sequence[str] = ()
    """Sentences: which runs could not be made, and why; what they would have shown may be missing."""


@dataclass(frozen=True)
class SolvedLayouts:
    """What the dumps show, and what they don't."""

    subject: Subject
    solver: LayoutSolver
    views: Sequence[type[View]]
    """Those that the profile is for."""
    sizes_only: Collection[str] = ()
    """Structs of which the profile has the size alone."""
    failures: Sequence[str] = ()
    """Sentences: the members that libmqs can't do without and that are not solved, and why."""
    left_out: Sequence[str] = ()
    """Sentences: the members that only some of the MPI's transports need and that are not solved, and why."""


class Family(ABC):
    """The MPIs that one calibration program and one solver are for."""

    name: ClassVar[str]
    """The folder of its adapter: "openmpi"; profiles are for that."""
    title: ClassVar[str]
    """What people call it."""
    anchor: ClassVar[str]
    """A symbol that each of its libraries exports, and no other MPI's."""
    launcher_says: ClassVar[str]
    """A regular expression for what its mpiexec answers to --version."""
    fabrics: ClassVar[Sequence[Run]]
    """Ways to run it over each fabric, named after that."""

    @abstractmethod
    def observe(self, mpi: Installation, directory: Path, report: Report) -> Observed:
        """Run the calibration program in each way that the solver needs.

        Args:
            mpi: which MPI.
            directory: where the runs leave what they saw; it is there, and empty.
            report: what takes a while.

        Raises:
            CalibrationError: a run that can't be done without failed; no process of it is left.
        """

    @abstractmethod
    def solve(self, dumps: Sequence[Dump]) -> SolvedLayouts:
        """Return what the dumps of one or several runs show.

        Raises:
            CalibrationError: they are of several MPIs, or of one of another family.
        """
