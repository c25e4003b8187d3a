"""Profiles: layouts of MPIs and fabrics without debug information, as checked JSON. All offsets are in these files.

A profile of an MPI is made by ``mqs calibrate`` from what a live MPI shows of itself, never typed in. It is used only
when what identifies it holds in the process at hand: here the symbols and the sizes of structs; the MPI's adapter then
checks invariants before anything is believed. A profile of a fabric is used only where what a worker or an endpoint
shows of itself fits. libmqs ships some; those that a user made lie in the user's folder, and are tried first.

What lies alike in every release, such as the headers of messages, is in one file of each library ("fixed"), which
completes all others of it.

The file (schema "mqs-profile/1"; unknown keys are refused)::

    schema    "mqs-profile/1"
    name      "openmpi-4.1-x86_64"; reports call the layouts "profile NAME"
    mpi       name of the adapter: "openmpi"; "" for a fabric's that serve all MPIs
    machine   "x86_64" or "aarch64"
    releases  the releases that it was made from or checked on: the first one is the producer's
    builds    optional: the builds of the library that it was made from (elf.LoadedLibrary.build)
    fabric    optional: "UCX" or "libfabric", whose structs and releases these are
    build     optional: the kind of build of that fabric, "with assertions"; reports call it "layout UCX 1.18 BUILD"
    fixed     optional: true where these structs lie so in every release
    present   symbols that the MPI must have      absent  symbols that it must not have
    producer  what made it, and when
    structs   name -> {"size": bytes or null, "members": {name: offset in bytes}}
    evidence  name of a struct -> {member -> what pinned it}; for people and for tests, never read at run time
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mqs_dll.contract.errors import LayoutError
from mqs_dll.library.layouts.layout import Layouts, StructLayout

if TYPE_CHECKING:
    from pathlib import Path  # to import it would cost a debugger's first call 2.5 of some 30 ms

SCHEMA = "mqs-profile/1"
BY_CALIBRATION = ", found by calibration"
"""Behind the name of a fabric's layouts that the user made."""

FOLDER = os.path.join(os.path.dirname(__file__), "profiles")

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
_OPTIONAL_KEYS: dict[str, type] = {"builds": list, "fabric": str, "build": str, "fixed": bool}


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
    """Also of the structs that lie alike in every release."""
    fabric: str = ""
    """Whose structs they are where they aren't the MPI's."""
    build: str = ""
    """The kind of build of the fabric, for people."""
    fixed: bool = False
    """Whether these structs lie so in every release."""

    @property
    def of_user(self) -> bool:
        """Whether the user made it; else libmqs ships it."""
        return os.path.dirname(self.source) != FOLDER

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each struct whose size is known."""
        return {struct.name: struct.size for struct in self.layouts if struct.size is not None}


def load(path: Path | str) -> Profile:
    """Read one profile.

    Raises:
        LayoutError: the file is not a profile; the text says which part of it isn't.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
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
    fabric = document.get("fabric", "")
    origin = f"profile {document['name']}"
    for name, entry in document["structs"].items():
        check(isinstance(entry, dict) and set(entry) == {"size", "members"}, f"struct {name}")
        size, members = entry["size"], entry["members"]
        check(size is None or _is_offset(size), f"size of {name}")
        check(isinstance(members, dict) and all(map(_is_offset, members.values())), f"members of {name}")
        structs.append(StructLayout(name, size, members, origin))
    is_fixed = document.get("fixed", False)
    layouts = Layouts(structs)
    if not is_fixed:
        layouts = layouts.followed_by(fixed(fabric or document["mpi"]).named(origin))
    return Profile(
        name=document["name"],
        mpi=document["mpi"],
        machine=document["machine"],
        releases=tuple(document["releases"]),
        builds=tuple(document.get("builds", ())),
        source=source,
        present=tuple(document["present"]),
        absent=tuple(document["absent"]),
        layouts=layouts,
        fabric=fabric,
        build=document.get("build", ""),
        fixed=is_fixed,
    )


def shipped(library: str, folder: Path | str = FOLDER) -> Iterator[Profile]:
    """Yield the profiles for one MPI's adapter, or of a fabric, in alphabetical order of their files."""
    return (profile for profile in _shipped(library, folder) if not profile.fixed)


def fixed(library: str) -> Layouts:
    """Return the layouts of the structs of an MPI or a fabric that lie alike in every release."""
    path = os.path.join(FOLDER, f"{library.lower()}-every-release.json")
    return _load_once(path).layouts if path in _shipped_files(FOLDER) else Layouts()


def _shipped(library: str, folder: Path | str) -> Iterator[Profile]:
    for path in _shipped_files(folder):
        if os.path.basename(path).startswith(f"{library.lower()}-"):
            profile = _load_once(path)
            if library == (profile.fabric or profile.mpi):
                yield profile


@cache
def _shipped_files(folder: Path | str) -> list[str]:
    return _files(folder)


@cache
def _load_once(path: str) -> Profile:
    """Return a profile that stays as it is: a job has many processes, and each asks for it."""
    return load(path)


def _files(folder: Path | str) -> list[str]:
    """Return the paths of the profiles in a folder, in alphabetical order; none where there is no such folder.

    Raises:
        OSError: it can't be listed.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(".json")]


def user_folder() -> str:
    """Return where ``mqs calibrate`` puts profiles, and where libmqs looks for them, also inside a debugger."""
    chosen = os.environ.get("MQS_PROFILES")
    if chosen:
        return chosen
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.environ.get("HOME", "/"), ".local", "share")
    return os.path.join(data, "libmqs", "profiles")


def available(mpi: str) -> tuple[list[Profile], list[str]]:
    """Return the user's profiles and then the shipped ones for one MPI's adapter.

    Returns:
        The profiles, and for each file of the user's that is none a sentence that says why: such a file must not
        keep libmqs from working.
    """
    profiles, refused = _of_user()
    profiles = [profile for profile in profiles if profile.mpi == mpi and not profile.fabric]
    return [*profiles, *shipped(mpi)], refused


def of_fabric(fabric: str, mpi: str, release: str) -> Iterator[Layouts]:
    """Yield layouts of a fabric in the order in which to try them on a release, as "1.18.1".

    First those that the user has made for it over an MPI (``available`` has the sentences on bad files), then those
    that libmqs ships, its own release's before its neighbours'.
    """
    for profile in _of_user()[0]:
        if (profile.fabric, profile.mpi) == (fabric, mpi) and release in profile.releases:
            origin = f"layout {fabric} {release}{BY_CALIBRATION}"
            yield profile.layouts.named(origin)
    yield from shipped_of_fabric(fabric, release)


def shipped_of_fabric(fabric: str, release: str) -> Iterator[Layouts]:
    """Yield the layouts of a fabric that libmqs ships, the nearest to a release first."""

    def distance(known: str) -> int:
        return abs(_number(known) - _number(release))

    nearest = ((min(profile.releases, key=distance), profile) for profile in shipped(fabric))
    for known, profile in sorted(nearest, key=lambda each: (distance(each[0]), each[0], each[1].build)):
        yield profile.layouts.named(" ".join(filter(None, ("layout", fabric, known, profile.build))))


def is_of_line(layouts: Layouts, release: str) -> bool:
    """Return whether layouts that of_fabric has yielded are of a release's line: its major and minor number."""
    known = layouts.summary().split()[2]  # as named above
    return _number(known) == _number(release)


def _number(release: str) -> int:
    """Return a number that grows with major and minor release."""
    major, minor = release.split(".")[:2]
    return 100 * int(major) + int(minor)


_kept: tuple[list[Profile], list[str]] | None = None


def keep_all() -> None:
    """Read all profiles now: this process is about to lose the right to read their folders."""
    global _kept
    _kept = _of_user()
    for path in _shipped_files(FOLDER):
        _load_once(path)


def _of_user() -> tuple[list[Profile], list[str]]:
    """Return the profiles in the user's folder, and sentences on the files there that are none."""
    if _kept is not None:
        return list(_kept[0]), list(_kept[1])
    folder = user_folder()
    try:
        files = _files(folder)
    except OSError as error:
        return [], [f"the profiles in {folder} can't be listed: {error}"]
    profiles: list[Profile] = []
    refused: list[str] = []
    for path in files:
        try:
            profiles.append(load(path))
        except LayoutError as error:
            refused.append(str(error))
    return profiles, refused


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20
