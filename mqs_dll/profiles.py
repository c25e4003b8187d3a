"""Profiles: layouts that libmqs ships for MPIs without debug information, as checked JSON.

A profile is made by ``python -m tools.make_profile`` from what a live MPI shows of itself, never typed in. It is
used only when what identifies it holds in the process at hand: here the symbols and the sizes of structs;
the MPI's adapter then checks invariants before anything is believed.

The file (schema "mqs-profile/1"; unknown keys are refused)::

    schema    "mqs-profile/1"
    name      "openmpi-4.1-x86_64"; reports call the layouts "profile NAME"
    mpi       name of the adapter: "openmpi"
    machine   "x86_64" or "aarch64"
    releases  the releases that it was made from or checked on: the first one is the producer's
    present   symbols that the MPI must have      absent  symbols that it must not have
    producer  what made it, and when
    structs   name -> {"size": bytes or null, "members": {name: offset in bytes}}
    evidence  name of a struct -> {member -> what pinned it}; for people and for tests
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqs_dll.errors import LayoutError
from mqs_dll.layout import Layouts, StructLayout

SCHEMA = "mqs-profile/1"
FOLDER = Path(__file__).with_name("profiles")

_KEYS: dict[str, type] = {
    "schema": str,
    "name": str,
    "mpi": str,
    "machine": str,
    "releases": list,
    "present": list,
    "absent": list,
    "producer": dict,
    "structs": dict,
    "evidence": dict,
}


@dataclass(frozen=True)
class Profile:
    """The layouts of one family of builds of an MPI."""

    name: str
    mpi: str
    machine: str
    releases: tuple[str, ...]
    present: tuple[str, ...]
    absent: tuple[str, ...]
    layouts: Layouts

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each struct whose size is known."""
        return {struct.name: struct.size for struct in self.layouts if struct.size is not None}


def load(path: Path) -> Profile:
    """Read one profile.

    Raises:
        LayoutError: the file is not a profile; the text says which part of it isn't.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LayoutError(f"profile {path} can't be read: {error}") from error
    return parse(document, str(path))


def parse(document: Any, source: str) -> Profile:
    """Return the profile in a JSON document that came from ``source``.

    Raises:
        LayoutError: it doesn't follow the schema.
    """

    def check(holds: bool, what: str) -> None:
        if not holds:
            raise LayoutError(f"profile {source} is not of schema {SCHEMA}: {what}")

    check(isinstance(document, dict), "not an object")
    check(document.get("schema") == SCHEMA, f"schema is {document.get('schema')!r}")
    unknown = sorted(set(document) - set(_KEYS))
    check(not unknown, f"unknown key {', '.join(unknown)}")
    for key, kind in _KEYS.items():
        check(isinstance(document.get(key), kind), f"{key} is missing or not a {kind.__name__}")
    structs = []
    for name, entry in document["structs"].items():
        check(isinstance(entry, dict) and set(entry) == {"size", "members"}, f"struct {name}")
        size, members = entry["size"], entry["members"]
        check(size is None or _is_offset(size), f"size of {name}")
        check(isinstance(members, dict) and all(map(_is_offset, members.values())), f"members of {name}")
        structs.append(StructLayout(name, size, members, f"profile {document['name']}"))
    return Profile(
        name=document["name"],
        mpi=document["mpi"],
        machine=document["machine"],
        releases=tuple(document["releases"]),
        present=tuple(document["present"]),
        absent=tuple(document["absent"]),
        layouts=Layouts(structs),
    )


def shipped(mpi: str, folder: Path = FOLDER) -> Iterator[Profile]:
    """Yield the profiles for one MPI's adapter, in alphabetical order of their files."""
    for path in sorted(folder.glob(f"{mpi}-*.json")):
        profile = load(path)
        if profile.mpi == mpi:
            yield profile


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20
