"""Describes what was found: which source a layout came from, and the remedy for what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mqs_dll.commands.doctor.diagnosis import Capability, Remedy, Rung
from mqs_dll.contract.abi import LayoutOrigin, ProfileFacts
from mqs_dll.job.shared import grouped


def rungs(origins: Iterable[LayoutOrigin], profile: ProfileFacts | None) -> tuple[Rung, ...]:
    """Return the sources of layouts, that of most structs first."""
    structs = grouped((layout.origin, layout.struct) for layout in origins)
    ordered = sorted(structs.items(), key=lambda each: -len(each[1]))
    return tuple(Rung(_in_words(origin, profile), tuple(names)) for origin, names in ordered)


def used(origins: Iterable[LayoutOrigin], profile: ProfileFacts | None) -> ProfileFacts | None:
    """Return the profile if any layout came from it."""
    if profile is None or not any(layout.origin == _origin_of(profile) for layout in origins):
        return None
    return profile


def _origin_of(profile: ProfileFacts) -> str:
    return f"profile {profile.name}"


def _in_words(origin: str, profile: ProfileFacts | None) -> str:
    if profile is None or origin != _origin_of(profile):
        return origin
    owner = f"your own {origin}" if profile.of_user else origin
    return f"{owner}, made from {_nearness(profile)}"


def _nearness(profile: ProfileFacts) -> str:
    if profile.of_build:
        return "exactly this build"
    return "this release, but from another build" if profile.of_release else "another build of its family"


def remedies(
    parts: Iterable[Capability],
    profile: ProfileFacts | None,
    refused_profiles: Iterable[str],
    calibrate: str,
    no_layout: bool,
) -> tuple[Remedy, ...]:
    """Return what a user can do, what helps most first.

    Args:
        parts: what can be seen and what can't.
        profile: where layouts came from.
        refused_profiles: why files of the user's are no profiles.
        calibrate: the command that learns the layouts of this MPI.
        no_layout: whether none fits.
    """
    found = []
    if no_layout:
        found.append(Remedy(calibrate, "no layout that libmqs has fits this MPI"))
    found += _remedies(parts)
    if profile is not None and not profile.of_build:
        near = _nearness(profile)
        found.append(
            Remedy(calibrate, f"profile {profile.name} was made from {near}; one of exactly this build is surer")
        )
    found += [Remedy("remove the file, or make it again with `mqs calibrate`", reason) for reason in refused_profiles]
    return tuple(found)


def _remedies(parts: Iterable[Capability]) -> Iterator[Remedy]:
    helped: dict[str, list[str]] = {}
    for part in parts:
        for obstacle in part.obstacles:
            names = helped.setdefault(obstacle.remedy, [])
            if part.name not in names:
                names.append(part.name)
    for remedy, names in helped.items():
        if remedy:
            yield Remedy(remedy, f"for {', '.join(names)}")
