"""The layouts that an MPI's debug information tells, where it has some: another witness, for comparison only."""

from __future__ import annotations

import json
import time
from pathlib import Path

from mqs_dll.debugger.live import LiveProcess
from mqs_dll.errors import MqsError
from mqs_dll.layout import Layouts, from_debugger
from mqs_dll.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.view import wanted_members
from tools.make_profile.errors import ProfileError
from tools.make_profile.program import HOLD, RUN_SECONDS, Mpi, end


def debug_layouts(mpi: Mpi, directory: Path) -> Layouts:
    """Run the program until it waits, and ask its debug information for the members that the walkers want.

    Raises:
        ProfileError: it didn't run, or there is no debug information.
    """
    program = mpi.compile(directory)
    place = directory / HOLD.name
    launcher = mpi.start(program, HOLD, place)
    try:
        with LiveProcess(_pid(place)) as process:
            layouts = from_debugger(process.image, wanted_members(ALL_VIEWS))
    except MqsError as error:
        raise ProfileError(f"the debug information can't be read: {error}") from error
    finally:
        end(launcher)
    if not list(layouts):
        raise ProfileError("the MPI has no debug information to compare with")
    return layouts


def _pid(directory: Path) -> int:
    truth = directory / "truth.0"
    deadline = time.monotonic() + RUN_SECONDS
    while not truth.exists():
        if time.monotonic() > deadline:
            raise ProfileError(f"the run {HOLD.name!r} did not get ready")
        time.sleep(0.1)
    pid: int = json.loads(truth.read_text())["pid"]
    return pid
