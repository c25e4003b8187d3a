"""What is known of an MPI's structs so far: sizes, offsets of members, and what pins each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.solver import Sighting, Solved, solve
from mqs_dll.errors import CalibrationError

SIZES = {"B": 1, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}


class NotFoundYet(CalibrationError):
    """An offset that a step builds on was not found."""


class Ledger:
    """The layouts as far as they are found."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        self.all_dumps = dumps
        self.dumps = list(dumps)
        """Those that most sightings are of."""
        self.sizes: dict[str, int] = {}
        self.offsets: dict[str, dict[str, int]] = {}
        self.evidence: dict[str, dict[str, str]] = {}

    def offset(self, struct: str, member: str) -> int:
        """Return an offset that was found.

        Raises:
            NotFoundYet: it wasn't.
        """
        try:
            return self.offsets[struct][member]
        except KeyError:
            raise NotFoundYet(f"{struct}.{member} is not known") from None

    def size(self, struct: str) -> int:
        """Return the size of a class that was found, as ``offset``."""
        try:
            return self.sizes[struct]
        except KeyError:
            raise NotFoundYet(f"the size of {struct} is not known") from None

    def pin(
        self,
        struct: str,
        member: str,
        sightings: Sequence[Sighting],
        candidates: Iterable[int],
        *,
        constant: bool = False,
    ) -> int:
        """Find a member and remember it.

        Raises:
            Unsolved: the sightings don't pin it.
        """
        solved = solve(f"{struct}.{member}", sightings, candidates, constant=constant)
        self.remember(struct, member, solved)
        return solved.offset

    def remember(self, struct: str, member: str, solved: Solved) -> None:
        """Take over an offset."""
        self.offsets.setdefault(struct, {})[member] = solved.offset
        self.evidence.setdefault(struct, {})[member] = solved.evidence

    def member(self, dump: Dump, address: int, struct: str, member: str, code: str = "Q") -> int:
        """Read a member of a struct whose offset was found."""
        return dump.scalar(address + self.offset(struct, member), code)

    def each(self, kind: str, /, **where: object) -> Iterator[tuple[Dump, dict[str, Any]]]:
        """Yield the truth's entries of a kind, of all ranks and runs."""
        for dump in self.dumps:
            for entry in dump.of(kind, **where):
                yield dump, entry

    def rank_of_run(self, dump: Dump, rank: int) -> Dump:
        """Return the dump of another rank of the same run."""
        return next(each for each in self.all_dumps if each.run == dump.run and each.truth["rank"] == rank)


def number(what: str, dump: Dump, address: int, code: str, expected: int) -> Sighting:
    """Sight a number or a pointer in the object at an address."""
    return Sighting(what, expected, lambda offset: dump.scalar(address + offset, code))


def step(what: str, dump: Dump, first: int, second: int, code: str, expected: int) -> Sighting:
    """Sight the difference between the numbers of two objects."""
    limit = 1 << 8 * SIZES[code]

    def seen(offset: int) -> Hashable:
        return (dump.scalar(second + offset, code) - dump.scalar(first + offset, code)) % limit

    return Sighting(what, expected % limit, seen)
