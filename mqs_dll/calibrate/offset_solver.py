"""Finds where a member lies from observations: places where its value is known.

An offset is believed when the member reads as expected in every observation, no other offset does, and the observations
expect at least two different values: a member that always reads the same has not been observed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from mqs_dll.contract.errors import CalibrationError


@dataclass(frozen=True)
class Observation:
    """One place where the value of a member is known."""

    what: str
    """In words, the same for all observations of a kind: "the rank in a communicator"."""
    expected: Hashable
    seen: Callable[[int], Hashable]
    """What is there if the member has a given offset; LookupError when nothing is."""

    def fits(self, offset: int) -> bool:
        """Return whether the member may have an offset."""
        try:
            return self.seen(offset) == self.expected
        except LookupError:
            return False


@dataclass(frozen=True)
class Solved:
    """An offset, and in words what determines it."""

    offset: int
    evidence: str


class Unsolved(CalibrationError):
    """The observations don't determine a member."""


def solve_offset(
    member: str, observations: Sequence[Observation], candidates: Iterable[int], *, constant: bool = False
) -> Solved:
    """Return the only candidate that fits all observations.

    Args:
        member: what it is called in errors.
        observations: where its value is known.
        candidates: the offsets to choose from.
        constant: every MPI has the same value in it. The evidence says so: it is weaker.

    Raises:
        Unsolved: there are too few different observations, or not exactly one candidate fits.
    """
    values = {observation.expected for observation in observations}
    if len(values) < (1 if constant else 2):
        raise Unsolved(
            f"{member}: {len(observations)} observations expect {len(values)} different values; two are needed"
        )
    candidates = list(candidates)
    fitting = [offset for offset in candidates if all(observation.fits(offset) for observation in observations)]
    if not fitting:
        raise Unsolved(f"{member}: no offset fits {evidence(observations)}{_nearest(observations, candidates)}")
    if len(fitting) > 1:
        raise Unsolved(f"{member}: offsets {', '.join(map(str, fitting))} all fit {evidence(observations)}")
    return Solved(fitting[0], evidence(observations) + (", the same everywhere" if constant else ""))


def _nearest(observations: Sequence[Observation], candidates: Sequence[int]) -> str:
    """Say which offset fits most of the observations, and the first that it doesn't fit."""
    if not candidates:
        return ""
    nearest = max(candidates, key=lambda offset: sum(observation.fits(offset) for observation in observations))
    misfits = [observation for observation in observations if not observation.fits(nearest)]
    try:
        seen: object = misfits[0].seen(nearest)
    except LookupError as error:
        seen = error
    return f" ({nearest} all but {len(misfits)}: {misfits[0].what} would be {seen!r} for {misfits[0].expected!r})"


def evidence(observations: Sequence[Observation]) -> str:
    """Say what was seen: "the rank in a communicator: 57 places, 4 values"."""
    kinds: dict[str, list[Observation]] = {}
    for observation in observations:
        kinds.setdefault(observation.what, []).append(observation)
    return "; ".join(
        f"{what}: {len(seen)} places, {len({observation.expected for observation in seen})} values"
        for what, seen in kinds.items()
    )
