"""MPICH's calibration, as the command uses it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mqs_dll.calibrate.document import missing_members
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family, Observed, Solution, Tell
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.mpich import runs, steps
from mqs_dll.calibrate.mpich.identity import kind_of, subject_of
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.mpi.mpich.identity import ANCHOR
from mqs_dll.mpi.mpich.views import CONTEXT_ID


class Mpich(Family):
    """MPICH 3.4 to 5.0, on ch3 and ch4, and Intel MPI."""

    name = "mpich"
    title = "MPICH"
    anchor = ANCHOR
    launcher_says = r"HYDRA|Intel\(R\) MPI"

    def observe(self, mpi: Installation, directory: Path, tell: Tell) -> Observed:
        """Run the program in each way."""
        return Observed(*runs.observe(mpi, directory, tell))

    def solve(self, dumps: Sequence[Dump]) -> Solution:
        """Find the members of MPICH's structs, each step from those before it."""
        kind = kind_of(dumps)
        ledger = PoolLedger(dumps)
        wanted, failures = steps.find_all(ledger, kind.device)
        missing = missing_members(ledger.offsets, wanted)
        if missing:
            failures.append(f"not found: {', '.join(missing)}")
        structs = {view.struct for view in wanted}
        return Solution(
            subject_of(dumps, kind),
            ledger,
            wanted,
            [struct for struct in (CONTEXT_ID, "MPIR_Group") if struct not in structs],
            failures=failures,
        )
