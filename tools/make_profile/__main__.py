"""The command: ``python -m tools.make_profile --mpicc mpicc --mpiexec mpiexec --out profile.json``."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mqs_dll.layout import Layouts
from mqs_dll.mpi.openmpi import cm_views, views
from mqs_dll.profiles import parse
from tools.make_profile import document, steps
from tools.make_profile.debug_types import debug_layouts
from tools.make_profile.dump import Dump, load_all
from tools.make_profile.errors import ProfileError
from tools.make_profile.program import Mpi, calibrate


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; return the exit status: 0 done, 1 layouts differ, 2 impossible."""
    options = _parser().parse_args(arguments)
    try:
        return _make(options)
    except ProfileError as error:
        print(f"make_profile: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make_profile", description="Make or check a layout profile of an Open MPI.")
    parser.add_argument("--mpicc", default="mpicc", help="the MPI's compiler wrapper, with arguments if need be")
    parser.add_argument("--mpiexec", default="mpiexec", help="the MPI's launcher, with arguments if need be")
    parser.add_argument("--emulator", default="", help="a command that runs programs of the MPI's machine on this one")
    parser.add_argument("--dump", type=Path, action="append", help="use the dumps in this directory; may be repeated")
    parser.add_argument("--keep", type=Path, help="keep the dumps in this new directory")
    parser.add_argument("--out", type=Path, help="write the profile")
    parser.add_argument("--check", type=Path, help="compare with this profile, and add the release to it if they agree")
    parser.add_argument("--compare-types", action="store_true", help="compare with the MPI's debug information")
    return parser


def _make(options: argparse.Namespace) -> int:
    mpi = Mpi(shlex.split(options.mpicc), shlex.split(options.mpiexec), shlex.split(options.emulator))
    with contextlib.ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqs-profile-")))
        directory.mkdir(exist_ok=True)
        dumps = _dumps(options.dump, mpi, directory)
        document.agreed_release(dumps)
        findings, failures, left_out = steps.find_all(dumps)
        missing = document.missing_members(findings, views.ALL)
        if failures or missing:
            raise ProfileError("\n".join(["not everything could be found:", *failures, *missing]))
        profile = document.document(findings)
        layouts = parse(profile, "made just now").layouts
        members = sum(len(struct.offsets) for struct in layouts)
        print(f"Open MPI {profile['releases'][0]} on {profile['machine']}: {members} members found")
        for reason in (*left_out, *document.missing_members(findings, cm_views.ALL)):
            print(f"  left out: {reason}")
        agrees = True
        if options.compare_types:
            agrees &= _agrees(layouts, debug_layouts(mpi, directory), "the debug information")
    if options.check:
        stored, shipped = document.read(options.check)
        agrees &= _agrees(layouts, shipped.layouts, str(options.check))
        if agrees and profile["releases"][0] not in stored["releases"]:
            stored["releases"] += profile["releases"]
            document.write(options.check, stored)
    if options.out:
        document.write(options.out, profile)
    return 0 if agrees else 1


def _agrees(found: Layouts, other: Layouts, name: str) -> bool:
    """Print how what was found differs from another layout, struct by struct that both have; say whether it doesn't."""
    structs = {struct.name for struct in found if struct.name in other}
    differ = document.differences(found, other, structs)
    print(f"the same as {name}" if not differ else f"found, and in {name}:")
    for line in differ:
        print(f"  {line}")
    alone = sorted({struct.name for struct in (*found, *other)} - structs)
    if alone:
        print(f"  not compared, since one lacks them: {', '.join(alone)}")
    return not differ


def _dumps(directories: list[Path] | None, mpi: Mpi, directory: Path) -> list[Dump]:
    if directories:
        return [dump for each in directories for dump in load_all(each)]
    return calibrate(mpi, directory)


if __name__ == "__main__":
    sys.exit(main())
