"""Profiles: layouts of MPIs without debug information, as checked JSON.

A profile is made by ``mqs calibrate`` from what a live MPI shows of itself, never typed in. It is used only when what
identifies it holds in the process at hand: here the symbols and the sizes of structs; the MPI's adapter then checks
invariants before anything is believed. libmqs ships some; those that a user made lie in the user's folder, and are
tried first.

The file (schema "mqs-profile/1"; unknown keys are refused)::

    schema    "mqs-profile/1"
    name      "openmpi-4.1-x86_64"; reports call the layouts "profile NAME"
    mpi       name of the adapter: "openmpi"
    machine   "x86_64" or "aarch64"
    releases  the releases that it was made from or checked on: the first one is the producer's
    builds    optional: the builds of the library that it was made from (elf.LoadedLibrary.build)
    present   symbols that the MPI must have      absent  symbols that it must not have
    producer  what made it, and when
    structs   name -> {"size": bytes or null, "members": {name: offset in bytes}}
    evidence  name of a struct -> {member -> what pinned it}; for people and for tests
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
_OPTIONAL_KEYS: dict[str, type] = {"builds": list}


class Profile(NamedTuple):
    """The layouts of one family of builds of an MPI."""

    name: str
    mpi: str
    machine: str
    releases: tuple[str, ...]
    builds: tuple[str, ...]
    source: str
    """The file that it came from."""
    present: tuple[str, ...]
    absent: tuple[str, ...]
    layouts: Layouts

    @property
    def of_user(self) -> bool:
        """Whether the user made it; else libmqs ships it."""
        return Path(self.source).parent != FOLDER

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
    unknown = sorted(set(document) - set(_KEYS) - set(_OPTIONAL_KEYS))
    check(not unknown, f"unknown key {', '.join(unknown)}")
    for key, kind in _KEYS.items():
        check(isinstance(document.get(key), kind), f"{key} is missing or not a {kind.__name__}")
    for key, kind in _OPTIONAL_KEYS.items():
        check(isinstance(document.get(key, kind()), kind), f"{key} is not a {kind.__name__}")
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
        builds=tuple(document.get("builds", ())),
        source=source,
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


def user_folder() -> Path:
    """Return where ``mqs calibrate`` puts profiles, and where libmqs looks for them, also inside a debugger."""
    chosen = os.environ.get("MQS_PROFILES")
    if chosen:
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME") or Path(os.environ.get("HOME", "/"), ".local", "share")
    return Path(data) / "libmqs" / "profiles"


def available(mpi: str) -> tuple[list[Profile], list[str]]:
    """Return the user's profiles and then the shipped ones for one MPI's adapter.

    Returns:
        The profiles, and for each file of the user's that is none a sentence that says why: such a file must not
        keep libmqs from working.
    """
    profiles: list[Profile] = []
    refused: list[str] = []
    folder = user_folder()
    try:
        files = sorted(folder.glob("*.json"))
    except OSError as error:
        files = []
        refused.append(f"the profiles in {folder} can't be listed: {error}")
    for path in files:
        try:
            profiles.append(load(path))
        except LayoutError as error:
            refused.append(str(error))
    profiles = [profile for profile in profiles if profile.mpi == mpi]
    return [*profiles, *shipped(mpi)], refused


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20
