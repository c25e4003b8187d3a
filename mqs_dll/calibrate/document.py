"""Writes what was found as a profile (schema of library/layouts/profiles.py), and compares it with what libmqs has."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from mqs_dll import __version__
from mqs_dll.calibrate.layout_solver import LayoutSolver
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.job.files import write_whole
from mqs_dll.library.layouts import profiles
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.layouts.profiles import SCHEMA, Profile, parse
from mqs_dll.library.layouts.view import View, wanted_members


@dataclass(frozen=True)
class Subject:
    """The MPI that the dumps are of, as its profile names it."""

    name: str
    """Of the profile: "openmpi-4.1-x86_64"."""
    mpi: str
    machine: str
    release: str
    builds: Sequence[str] = ()
    """Identities of the builds of its library (mpi/elf.py); more than one where ranks differ."""
    present: Sequence[str] = ()
    """Symbols that tell it from its siblings."""
    absent: Sequence[str] = ()

    @property
    def name_of_build(self) -> str:
        """What a profile of this build alone is called: "openmpi-4.1.4-x86_64-8f3c21d0"."""
        build = self.builds[0].removeprefix("page-")[:8] if self.builds else "build"
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.mpi}-{self.release}-{self.machine}-{build}")


def profile_of(subject: Subject, structs: Iterable[StructLayout], **more: object) -> dict[str, Any]:
    """Return a profile of some structs, with more than all profiles have."""
    return {
        "schema": SCHEMA,
        "name": subject.name,
        "mpi": subject.mpi,
        "machine": subject.machine,
        "releases": [subject.release],
        "present": list(subject.present),
        "absent": list(subject.absent),
        "producer": {"tool": f"mqs calibrate {__version__}", "date": date.today().isoformat()},
        "structs": {each.name: {"size": each.size, "members": dict(each.offsets)} for each in structs},
        "evidence": {},
        **more,
    }


def document(
    subject: Subject, solver: LayoutSolver, wanted_by: Sequence[type[View]], sizes_only: Collection[str] = ()
) -> dict[str, Any]:
    """Return the profile of the MPI that the dumps are of.

    Args:
        subject: which MPI that is.
        solver: what was found.
        wanted_by: the views of that MPI: the profile has the members that they want, and no other.
        sizes_only: structs that no view wants a member of, but whose size is wanted.
    """
    wanted = wanted_members(wanted_by)
    found = {
        struct: {member: solver.offsets[struct][member] for member in members if member in solver.offsets[struct]}
        for struct, members in wanted.items()
        if struct in solver.offsets
    }
    evidence = {
        struct: {member: solver.evidence[struct][member] for member in offsets}
        for struct, offsets in found.items()
        if offsets
    }
    found |= {struct: {} for struct in sizes_only}
    structs = [StructLayout(struct, solver.sizes.get(struct), offsets, "") for struct, offsets in found.items()]
    profile = profile_of(subject, structs, builds=list(subject.builds), evidence=evidence)
    runs = sorted({Path(dump.run).name for dump in solver.all_dumps})
    profile["producer"] |= {"processes": len(solver.all_dumps), "runs": runs}
    return profile


def write(path: Path, profile: Mapping[str, Any]) -> None:
    """Write a profile, sorted, for people to read and for diffs; all of it or nothing, since libmqs may read it now.

    Raises:
        CalibrationError: it can't be written (files.write_whole).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(profile, indent=1, sort_keys=True) + "\n").encode("utf-8"))
    except OSError as error:
        raise CalibrationError(f"the profile can't be written to {path}: {error.strerror}") from error


def write_for_user(profile: dict[str, Any]) -> Path:
    """Write a profile where libmqs looks first, and return its path.

    Raises:
        CalibrationError: it can't be written.
    """
    path = Path(profiles.user_folder()) / f"{profile['name']}.json"
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
    of_build = [each for each in same if set(each.builds) & set(made.builds)]
    for each in (*of_build, *(each for each in same if set(each.releases) & set(made.releases))):
        return each
    raise CalibrationError(f"libmqs has no profile of {made.mpi} {made.releases[0]} to compare with")


def differences(one: Layouts, other: Layouts, structs: Iterable[str]) -> list[str]:
    """Say where two layouts of some structs differ: "ompi_group_t.grp_flags: 40 and 48".

    A size that one of them doesn't know is no difference.
    """
    found = []
    for name in sorted(structs):
        left, right = one.struct(name), other.struct(name)
        if left.size != right.size and None not in (left.size, right.size):
            found.append(f"sizeof {name}: {left.size} and {right.size}")
        for member in sorted({*left.offsets, *right.offsets}):
            offsets = left.offsets.get(member), right.offsets.get(member)
            if offsets[0] != offsets[1]:
                found.append(f"{name}.{member}: {offsets[0]} and {offsets[1]}")
    return found


def comparison(found: Layouts, other: Layouts, name: str) -> tuple[bool, list[str]]:
    """Say how what was found differs from another layout, struct by struct that both have; and whether it doesn't."""
    structs = {struct.name for struct in found if struct.name in other}
    differ = differences(found, other, structs)
    lines = [f"the same as {name}"] if not differ else [f"found, and in {name}:", *(f"  {line}" for line in differ)]
    alone = sorted({struct.name for struct in (*found, *other)} - structs)
    if alone:
        lines.append(f"  not compared, since one lacks them: {', '.join(alone)}")
    return not differ, lines
