"""Writes what was found as a profile (schema of mqs_dll/profiles.py), and compares profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from mqs_dll.errors import LayoutError
from mqs_dll.layout import Layouts
from mqs_dll.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.profiles import SCHEMA, Profile, parse
from mqs_dll.view import View, wanted_members
from tools.make_profile.dump import Dump
from tools.make_profile.errors import ProfileError
from tools.make_profile.findings import Findings

SERIES_SYMBOLS = ("ompi_comm_hash",)
"""Symbols that only some series have."""

FAMILIES = {(4, 1, 0): "4.1", (5, 0, 0): "5.0.0", (5, 0, 7): "5.0.7"}
"""The first release of each family of layouts, and what the family is called."""

SIZES_ONLY = ("opal_free_list_item_t",)


def release_of(dump: Dump) -> str:
    """Return the release of the MPI, as it spells it."""
    return dump.text(dump.symbols["ompi_version_string"].address)


def family_of(release: str) -> str:
    """Return the family of layouts that a release should belong to.

    Raises:
        ProfileError: it belongs to none that is known.
    """
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", release)
    numbers = tuple(map(int, match.groups())) if match else ()
    known = [first for first in FAMILIES if first <= numbers and first[:2] == numbers[:2]]
    if not known:
        raise ProfileError(f"Open MPI {release} is of none of the known families: {', '.join(FAMILIES.values())}")
    return FAMILIES[max(known)]


def missing_members(findings: Findings, wanted_by: Sequence[type[View]]) -> list[str]:
    """Return the members that some views want and that were not found, those that some releases lack left out."""
    optional = {
        step
        for view in wanted_by
        for attribute, member in view.members.items()
        if member.optional
        for step in member.steps(view.struct, attribute)
    }
    return [
        f"{struct}.{member}"
        for struct, members in wanted_members(wanted_by).items()
        for member in members
        if member not in findings.offsets.get(struct, {}) and (struct, member) not in optional
    ]


def document(findings: Findings) -> dict[str, Any]:
    """Return the profile of the MPI that the dumps are of."""
    first = findings.all_dumps[0]
    release, machine = release_of(first), first.truth["machine"]
    wanted = wanted_members(ALL_VIEWS)
    found = {
        struct: {member: findings.offsets[struct][member] for member in members if member in findings.offsets[struct]}
        for struct, members in wanted.items()
        if struct in findings.offsets
    }
    found |= {struct: {} for struct in SIZES_ONLY}
    return {
        "schema": SCHEMA,
        "name": f"openmpi-{family_of(release)}-{machine}",
        "mpi": "openmpi",
        "machine": machine,
        "releases": [release],
        "present": [name for name in SERIES_SYMBOLS if name in first.symbols],
        "absent": [name for name in SERIES_SYMBOLS if name not in first.symbols],
        "producer": {
            "tool": "tools/make_profile",
            "date": date.today().isoformat(),
            "processes": len(findings.all_dumps),
            "runs": sorted({Path(dump.run).name for dump in findings.all_dumps}),
        },
        "structs": {
            struct: {"size": findings.sizes.get(struct), "members": offsets} for struct, offsets in found.items()
        },
        "evidence": {
            struct: {member: findings.evidence[struct][member] for member in offsets}
            for struct, offsets in found.items()
            if offsets
        },
    }


def write(path: Path, profile: dict[str, Any]) -> None:
    """Write a profile, sorted, for people to read and for diffs."""
    path.write_text(json.dumps(profile, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(path: Path) -> tuple[dict[str, Any], Profile]:
    """Return a profile as it is in its file, and as the library reads it.

    Raises:
        ProfileError: it is not a profile.
    """
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
        return text, parse(text, str(path))
    except (OSError, ValueError, LayoutError) as error:
        raise ProfileError(str(error)) from error


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
            if left.offsets.get(member) != right.offsets.get(member):
                found.append(f"{name}.{member}: {left.offsets.get(member)} and {right.offsets.get(member)}")
    return found


def agreed_release(dumps: Sequence[Dump]) -> str:
    """Return the release that all dumps are of.

    Raises:
        ProfileError: they are of several builds.
    """
    kinds = {(release_of(dump), dump.truth["machine"]) for dump in dumps}
    if len(kinds) != 1:
        raise ProfileError(f"the dumps are of several MPIs: {sorted(kinds)}")
    return kinds.pop()[0]
