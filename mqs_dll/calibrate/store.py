"""The profiles that are there: where a new one goes, and what it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mqs_dll import profiles
from mqs_dll.calibrate.document import differences, read, write
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


def write_shipped(profile: dict[str, Any]) -> Path:
    """Write a profile among those that libmqs ships, and return its path.

    Where one of that name is there, the new one takes over the releases and builds that it was made from, if both agree
    in all that both know; and where the new one knows less, the old one stays, with the new release and build.

    Raises:
        CalibrationError: it can't be written.
    """
    path = profiles.FOLDER / f"{profile['name']}.json"
    if path.exists():
        old, _ = read(path)
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


def comparison(found: Layouts, other: Layouts, name: str, *, only_shared: bool = False) -> tuple[bool, list[str]]:
    """Say how what was found differs from another layout, struct by struct that both have; and whether it doesn't.

    With ``only_shared``, members that only one of them has don't count: a release's debug information has no members
    of other releases, and calibration finds no member that nothing shows.
    """
    structs = {struct.name for struct in found if struct.name in other}
    differ = differences(found, other, structs, only_shared=only_shared)
    lines = [f"the same as {name}"] if not differ else [f"found, and in {name}:", *(f"  {line}" for line in differ)]
    alone = sorted({struct.name for struct in (*found, *other)} - structs)
    if alone:
        lines.append(f"  not compared, since one lacks them: {', '.join(alone)}")
    return not differ, lines
