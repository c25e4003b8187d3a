"""Open MPI's calibration, as the command uses it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mqs_dll.calibrate.document import missing_members
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family, Observed, Solution, Tell
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.openmpi import program, steps
from mqs_dll.calibrate.openmpi.debug_types import debug_layouts
from mqs_dll.calibrate.openmpi.findings import OpalFindings
from mqs_dll.calibrate.openmpi.identity import subject_of
from mqs_dll.errors import CalibrationError
from mqs_dll.layout import Layouts
from mqs_dll.mpi.openmpi import cm_views, views
from mqs_dll.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.view import View


class OpenMpi(Family):
    """Open MPI 4.1 and 5.0."""

    name = "openmpi"
    title = "Open MPI"
    anchor = "ompi_mpi_communicators"
    launcher_says = r"OpenRTE|Open MPI|PRTE|open-mpi\.org"

    def observe(self, mpi: Installation, directory: Path, tell: Tell, *, compiler: bool = True) -> Observed:
        """Run the program in each way: compiled where there is a compiler, else in Python."""
        command = program.python_program(mpi)
        if compiler and mpi.mpicc:
            tell("compiling the calibration program")
            with suppress(CalibrationError):  # an mpicc without a compiler, or of another MPI
                command = [str(program.compile_program(mpi, directory))]
        dumps, reason = program.observe(mpi, command, directory, tell=tell)
        return Observed(dumps, [f"pml/cm with mtl/ofi: {reason}"] if reason else [])

    def solve(self, dumps: Sequence[Dump]) -> Solution:
        """Find the members of Open MPI's structs, each step from those before it."""
        findings, failures, left_out = steps.find_all(dumps)
        return Solution(
            subject_of(dumps),
            findings,
            ALL_VIEWS,
            steps.SIZES_ONLY,
            failures=[*failures, *_missing(findings, views.ALL)],
            left_out=[*left_out, *_missing(findings, cm_views.ALL)] if findings.cm_dumps else [],
        )

    def debug_layouts(self, mpi: Installation, directory: Path) -> Layouts:
        """Ask a process of the program."""
        return debug_layouts(mpi, program.python_program(mpi), directory)


def _missing(findings: OpalFindings, wanted_by: Sequence[type[View]]) -> list[str]:
    members = missing_members(findings.offsets, wanted_by)
    return [f"not found: {', '.join(members)}"] if members else []
