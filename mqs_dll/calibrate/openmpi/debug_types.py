"""The layouts that an MPI's debug information tells, where it has some: another witness, for comparison only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.openmpi.program import HOLD, job_of
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.errors import CalibrationError, MqsError
from mqs_dll.layout import Layouts, from_debugger
from mqs_dll.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.view import wanted_members


def debug_layouts(mpi: Installation, program: Sequence[str], directory: Path) -> Layouts:
    """Run the program until it waits, and ask its debug information for the members that the walkers want.

    Raises:
        CalibrationError: it didn't run, or there is no debug information.
    """
    this = job_of(HOLD, program, directory)
    with launch.running(mpi, this) as launcher:
        launch.wait_until_written(this, launcher)
        pid: int = json.loads((this.directory / "truth.0").read_text())["pid"]
        try:
            with LiveProcess(pid) as process:
                layouts = from_debugger(process.image, wanted_members(ALL_VIEWS))
        except MqsError as error:
            raise CalibrationError(f"the debug information can't be read: {error}") from error
    if not list(layouts):
        raise CalibrationError("the MPI has no debug information to compare with")
    return layouts
