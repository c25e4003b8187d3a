"""What is known of an MPI's structs so far: sizes, offsets of members, and what determines each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from mqs_dll.calibrate.dump import Dump, Entry
from mqs_dll.calibrate.offset_solver import Observation, Solved, solve_offset
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, wanted_members

SIZES = {"B": 1, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}

Place = tuple[Dump, int, Entry]
"""An object that the truth knows: in which process, at which address, and the truth's entry of it."""

KnownNumber = tuple[Dump, int, int]
"""A process, an address in it, and the value of a member of the object there."""

Seen = Callable[[Any, Dump, int, Entry], Hashable]
"""Tells, with what the solver knows, what a member of an object with an entry is, if it lies at an address."""


class MemberRow(NamedTuple):
    """A member, and its value in objects that the truth knows."""

    member: str
    what: str
    """The value in words."""
    value: str | Callable[[Dump, Entry], Hashable]
    """A key of the truth's entry, or what makes the value of it; None leaves the object out."""
    mask: int = -1
    """The bits that are known, of a number."""
    seen: Seen | None = None
    """For what isn't that number, flag, pointer or text itself."""
    constant: bool = False
    """See ``solve_offset``."""


INSIDE = "0s"
"""The type of a member that is a struct, as views declare it."""


class Neighbour(NamedTuple):
    """A member that lies in every release at the same distance from another one, for where no program shows it."""

    struct: str
    member: str
    other: str
    by: int
    """Bytes from the other one."""
    source: str
    """Which says so."""

    def take(self, solver: LayoutSolver) -> None:
        """Take it over from what was found, if the other one was, and if there is room for it beside all others."""
        members = solver.offsets.get(self.struct, {})
        if self.other in members and self.member not in members:
            offset, bytes_ = members[self.other] + self.by, SIZES[solver.code_of(self.struct, self.member)]
            sizes = {name: SIZES.get(solver.code_of(self.struct, name), 1) for name in members if name != self.member}
            if all(members[name] + size <= offset or offset + bytes_ <= members[name] for name, size in sizes.items()):
                evidence = f"{self.by:+} bytes from {self.other} ({self.source}), which is pinned by "
                solver.remember(
                    self.struct, self.member, Solved(offset, evidence + solver.evidence[self.struct][self.other])
                )


class NotFoundYet(CalibrationError):
    """An offset that a step builds on was not found."""


class LayoutSolver(ABC):
    """The layouts as far as they are found."""

    views: ClassVar[Sequence[type[View]]]
    """Those that declare the members that are wanted, and their types."""
    neighbours: ClassVar[Sequence[Neighbour]]
    """Members that follow from those that are found."""
    fixed: ClassVar[Layouts]
    """Structs that lie alike in every release, of which nothing is to be found."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        self.all_dumps = dumps
        self.dumps = list(dumps)
        """Those that most observations are of."""
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

    def solve(
        self,
        struct: str,
        member: str,
        observations: Sequence[Observation],
        among: Iterable[int] | None = None,
        *,
        places: Sequence[Place] = (),
        constant: bool = False,
    ) -> int:
        """Find a member and remember it; return its offset.

        Args:
            struct: that it is a member of.
            member: its name.
            observations: where its value is known.
            among: candidates; all offsets at which a member of its type can lie, if not given.
            places: objects that the struct has been seen in, which give those offsets.
            constant: see ``solve_offset``.

        Raises:
            Unsolved: the observations don't determine it.
        """
        candidates = self.possible_offsets(struct, self.code_of(struct, member), places) if among is None else among
        solved = solve_offset(f"{struct}.{member}", observations, candidates, constant=constant)
        self.remember(struct, member, solved)
        return solved.offset

    def solve_members(
        self, struct: str, places: Sequence[Place], *rows: MemberRow, among: Iterable[int] | None = None
    ) -> None:
        """Find members by their values in some objects, each as ``solve``, and from those before it."""
        for row in rows:
            seen = row.seen or _declared(self.code_of(struct, row.member), row.mask)
            observations = [each for place in places for each in self._observations(row, seen, *place)]
            self.solve(struct, row.member, observations, among, places=places, constant=row.constant)

    def _observations(
        self, row: MemberRow, seen: Seen, dump: Dump, address: int, entry: Entry
    ) -> Iterator[Observation]:
        value: Any = entry[row.value] if isinstance(row.value, str) else row.value(dump, entry)
        if value is not None:
            expected = int(value) if isinstance(value, bool) and row.seen is None else value
            yield Observation(row.what, expected, lambda offset: seen(self, dump, address + offset, entry))

    def solve_number(
        self,
        struct: str,
        member: str,
        what: str,
        known_numbers: Iterable[KnownNumber],
        among: Iterable[int] | None = None,
    ) -> int:
        """Find a member that is a number by its values in some objects, as ``solve``."""
        code = self.code_of(struct, member)
        return self.solve(
            struct, member, [number(what, dump, at, code, value) for dump, at, value in known_numbers], among
        )

    def take(self, steps: Iterable[Callable[[Any], None]]) -> list[str]:
        """Find what some steps find, each from those before it; return a sentence for each that failed."""
        failures = []
        for step in steps:
            try:
                step(self)
            except CalibrationError as error:
                failures.append(str(error))
            except LookupError as error:
                failures.append(f"{step.__name__}: the dumps have no {error}")
        for neighbour in self.neighbours:
            neighbour.take(self)
        return failures

    def missing(self, wanted_by: Sequence[type[View]]) -> list[str]:
        """Return a sentence that names the members that some views want and that were not found, if there are any.

        Those that some releases lack don't count.
        """
        optional = {
            step
            for view in wanted_by
            for attribute, member in view.members.items()
            if member.optional
            for step in view.steps[attribute]
        }
        missing = [
            f"{struct}.{member}"
            for struct, members in wanted_members(wanted_by).items()
            for member in members
            if struct not in self.fixed
            and member not in self.offsets.get(struct, {})
            and (struct, member) not in optional
        ]
        return [f"not found: {', '.join(missing)}"] if missing else []

    @abstractmethod
    def possible_offsets(self, struct: str, code: str, places: Sequence[Place]) -> Sequence[int]:
        """Return the offsets that a member of a type can have in a struct, of which some objects are known."""

    def code_of(self, struct: str, member: str) -> str:
        """Return the type of a member, as some view declares it.

        Raises:
            LookupError: none does.
        """
        for view in self.views:
            for attribute, declared in view.members.items():
                *outer, last = view.steps[attribute]
                if (struct, member) == last:
                    return declared.code
                if (struct, member) in outer:
                    return INSIDE
        raise LookupError(f"no view has {struct}.{member}")

    def remember(self, struct: str, member: str, solved: Solved) -> None:
        """Take over an offset."""
        self.offsets.setdefault(struct, {})[member] = solved.offset
        self.evidence.setdefault(struct, {})[member] = solved.evidence

    def member(self, dump: Dump, address: int, struct: str, member: str, code: str = "Q") -> int:
        """Read a member of a struct whose offset was found."""
        return dump.scalar(address + self.offset(struct, member), code)

    def each(self, kind: str, /, **where: object) -> Iterator[tuple[Dump, Entry]]:
        """Yield the truth's entries of a kind, of all ranks and runs."""
        for dump in self.dumps:
            for entry in dump.of(kind, **where):
                yield dump, entry

    def rank_of_run(self, dump: Dump, rank: int) -> Dump:
        """Return the dump of another rank of the same run."""
        return next(each for each in self.all_dumps if each.run == dump.run and each.truth["rank"] == rank)


def _declared(code: str, mask: int) -> Seen:
    if code.endswith("s"):
        return lambda _, dump, address, __: dump.text(address)
    return lambda _, dump, address, __: dump.scalar(address, code) & mask


def within(places: Iterable[Place], offset: int) -> list[Place]:
    """Return where structs lie that are some bytes into objects."""
    return [(dump, address + offset, entry) for dump, address, entry in places]


def number(what: str, dump: Dump, address: int, code: str, expected: int) -> Observation:
    """Observe a number or a pointer in the object at an address."""
    return Observation(what, expected, lambda offset: dump.scalar(address + offset, code))


def step(what: str, dump: Dump, first: int, second: int, code: str, expected: int) -> Observation:
    """Observe the difference between the numbers of two objects."""
    limit = 1 << 8 * SIZES[code]

    def seen(offset: int) -> Hashable:
        return (dump.scalar(second + offset, code) - dump.scalar(first + offset, code)) % limit

    return Observation(what, expected % limit, seen)
