"""The profiles that are there: where a new one goes, and what it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mqs_dll import profiles
from mqs_dll.calibrate.document import differences, write
from mqs_dll.errors import CalibrationError
from mqs_dll.layout import Layouts
from mqs_dll.profiles import Profile, parse


def write_for_user(profile: dict[str, Any]) -> Path:
    """Write a profile where libmqs looks first, and return its path.

    Raises:
        CalibrationError: it can't be written.
    """
    path = profiles.user_folder() / f"{profile['name']}.json"
    write(path, profile)
    return path


def known(profile: dict[str, Any]) -> Profile:
    """Return the profile that libmqs has for the same MPI: for this build, else for this release.

    Raises:
        CalibrationError: there is none.
    """
    made = parse(profile, "made just now")
    there, _ = profiles.available(made.mpi)
    same = [each for each in there if each.machine == made.machine]
    for each in (
        *(each for each in same if set(each.builds) & set(made.builds)),
        *(each for each in same if set(each.releases) & set(made.releases)),
    ):
        return each
    raise CalibrationError(f"libmqs has no profile of {made.mpi} {made.releases[0]} to compare with")


def comparison(found: Layouts, other: Layouts, name: str) -> tuple[bool, list[str]]:
    """Say how what was found differs from another layout, struct by struct that both have; and whether it doesn't."""
    structs = {struct.name for struct in found if struct.name in other}
    differ = differences(found, other, structs)
    lines = [f"the same as {name}"] if not differ else [f"found, and in {name}:", *(f"  {line}" for line in differ)]
    alone = sorted({struct.name for struct in (*found, *other)} - structs)
    if alone:
        lines.append(f"  not compared, since one lacks them: {', '.join(alone)}")
    return not differ, lines
