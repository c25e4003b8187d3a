"""Open MPI's calibration, as the command uses it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mqs_dll.calibrate.document import missing_members
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family, Observed, Solution, Tell
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.openmpi import runs, steps
from mqs_dll.calibrate.openmpi.identity import subject_of
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.mpi.openmpi import cm_views, views
from mqs_dll.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.view import View


class OpenMpi(Family):
    """Open MPI 4.1 and 5.0."""

    name = "openmpi"
    title = "Open MPI"
    anchor = "ompi_mpi_communicators"
    launcher_says = r"OpenRTE|Open MPI|PRTE|open-mpi\.org"

    def observe(self, mpi: Installation, directory: Path, tell: Tell) -> Observed:
        """Run the program in each way."""
        dumps, reason = runs.observe(mpi, directory, tell)
        return Observed(dumps, [f"pml/cm with mtl/ofi: {reason}"] if reason else [])

    def solve(self, dumps: Sequence[Dump]) -> Solution:
        """Find the members of Open MPI's structs, each step from those before it."""
        ledger, failures, left_out = steps.find_all(dumps)
        return Solution(
            subject_of(dumps),
            ledger,
            ALL_VIEWS,
            steps.SIZES_ONLY,
            failures=[*failures, *_missing(ledger, views.ALL)],
            left_out=[*left_out, *_missing(ledger, cm_views.ALL)] if ledger.cm_dumps else [],
        )


def _missing(ledger: OpalLedger, wanted_by: Sequence[type[View]]) -> list[str]:
    members = missing_members(ledger.offsets, wanted_by)
    return [f"not found: {', '.join(members)}"] if members else []
