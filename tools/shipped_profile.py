"""For developers: makes a profile among those that libmqs ships, and compares it with an MPI's debug information.

    .venv/bin/python -m tools.shipped_profile MPI --write
    .venv/bin/python -m tools.shipped_profile MPI --compare-types

MPI and the options of the runs are those of ``mqs calibrate``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import drgn

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.bindings import MpiBindings
from mqs_dll.calibrate.discovery import find
from mqs_dll.calibrate.document import comparison, document, write
from mqs_dll.calibrate.launch import Installation
from mqs_dll.commands import calibrate
from mqs_dll.contract.errors import CalibrationError, MqsError
from mqs_dll.debugger.live import LiveImage, LiveProcess
from mqs_dll.library.layouts import profiles
from mqs_dll.library.layouts.layout import DEBUG_INFORMATION, Layouts, StructLayout
from mqs_dll.library.layouts.view import View, wanted_members

# ---------------------------------------------------------------- what is shipped


def write_shipped(profile: dict[str, Any]) -> Path:
    """Write a profile among those that libmqs ships, and return its path.

    Where one of that name is there, the new one takes over the releases and builds that it was made from, if both agree
    in all that both know; and where the new one knows less, the old one stays, with the new release and build.

    Raises:
        CalibrationError: it can't be written.
    """
    path = Path(profiles.FOLDER) / f"{profile['name']}.json"
    if path.exists():
        old = json.loads(path.read_text(encoding="utf-8"))
        if _agree(profile, old):
            richer = old if _members(old) > _members(profile) else profile
            profile = richer | {
                key: list(dict.fromkeys([*richer.get(key, []), *profile[key], *old.get(key, [])]))
                for key in ("releases", "builds")
            }
    write(path, profile)
    return path


def _agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return not any(
        one["structs"][struct]["members"][member] != other["structs"][struct]["members"][member]
        for struct, member in _members(one) & _members(other)
    )


def _members(profile: dict[str, Any]) -> set[tuple[str, str]]:
    return {(struct, member) for struct, entry in profile["structs"].items() for member in entry["members"]}


# ---------------------------------------------------------------- debug information


def hold() -> None:
    """Be a rank that waits after MPI_Init, which loads an MPI's plugins: LIBRARY DIRECTORY."""
    library, directory = sys.argv[1:]
    mpi = MpiBindings.load(Path(library))
    mpi.do("Init", mpi.NULL, mpi.NULL)
    unfinished = Path(directory) / "unfinished"
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(Path(directory) / "truth.0")
    signal.pause()


def debug_layouts(mpi: Installation, views: Sequence[type[View]]) -> Layouts:
    """Return what the debug information of an MPI says of the members that some views want.

    Raises:
        CalibrationError: a process of it can't be started, or there is no debug information.
    """
    with tempfile.TemporaryDirectory(prefix="mqs-types-") as directory:
        command = launch.python_rank("tools.shipped_profile", str(mpi.library), directory, entry="hold")
        job = launch.CalibrationJob(launch.Run("hold", "", 1), Path(directory), command)
        with launch.running(mpi, job) as launcher:
            deadline = time.monotonic() + launch.RUN_SECONDS
            while not job.is_written():
                if launch.has_ended(launcher) or time.monotonic() > deadline:
                    raise CalibrationError(f"the process to be asked did not get ready: {job.words()}")
                time.sleep(0.1)
            try:
                with LiveProcess(int((Path(directory) / "truth.0").read_text())) as process:
                    found = [*_structs(process.image, views)]
            except MqsError as error:
                raise CalibrationError(f"the debug information can't be read: {error}") from error
    if not found:
        raise CalibrationError("the MPI has no debug information to compare with")
    return Layouts(found)


def _structs(image: LiveImage, views: Sequence[type[View]]) -> Iterator[StructLayout]:
    for name, members in wanted_members(views).items():
        struct = image.find_type(name)
        if struct is not None:
            offsets = {member: _offset(struct, member) for member in members}
            known = {member: offset for member, offset in offsets.items() if offset is not None}
            yield StructLayout(name, image.type_size(struct), known, DEBUG_INFORMATION)


def _offset(struct: drgn.Type, designator: str) -> int | None:
    """Return the offset of what a designator of C leads to, which debuggers' own field_offset doesn't understand."""
    try:
        offset: int = drgn.offsetof(struct, designator)
    except (LookupError, TypeError, ValueError):
        return None
    return offset


def shared(one: Layouts, other: Layouts) -> Layouts:
    """Return a layout without the members that another lacks: debug information has none of other releases."""
    return Layouts(
        [
            StructLayout(
                struct.name,
                struct.size,
                {member: at for member, at in struct.offsets.items() if member in other.struct(struct.name).offsets},
                struct.origin,
            )
            for struct in one
            if struct.name in other
        ]
    )


# ---------------------------------------------------------------- the command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for, and return the exit code: 1 where debug information says otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tools.shipped_profile", description=__doc__.partition("\n")[0])
    calibrate.add_arguments(parser)
    parser.add_argument("--write", action="store_true", help="write the profile among those that libmqs ships")
    parser.add_argument("--compare-types", action="store_true", help="compare it with the MPI's debug information")
    options = parser.parse_args(arguments)
    solution = calibrate.learn(options).solution
    profile = document(solution.subject, solution.solver, solution.views, solution.sizes_only)
    agrees = True
    if options.compare_types:
        found = profiles.parse(profile, "made just now").layouts
        types = debug_layouts(find(options.where, options.mpiexec)[1], solution.views)
        agrees, lines = comparison(shared(found, types), shared(types, found), "the debug information")
        for line in lines:
            calibrate.say(line)
    if options.write and agrees:
        calibrate.say(f"written to {write_shipped(profile)}")
    return calibrate.EXIT_DONE if agrees else calibrate.EXIT_DIFFERENT


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MqsError as error:
        sys.exit(f"{error}")
