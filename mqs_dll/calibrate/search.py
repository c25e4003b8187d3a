"""Searches for the layouts of a release that is not known near those that are, by how much each shows right of a job.

Where a release adds or drops members, those behind them move together: a candidate has, in one struct, all members from
one on moved. What is found so holds for the members of which no other place shows as much; the others are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from mqs_dll.library.layouts.layout import Layouts, StructLayout

Score = Callable[[Layouts], int]
"""Tells how much layouts show right, NOTHING where they aren't believed."""

NOTHING = -1

FARTHEST = 64
"""Bytes that a member may move by in one step."""

SHIFTS = sorted((shift for shift in range(-FARTHEST, FARTHEST + 1, 8) if shift), key=abs)
PLACES = sorted({*range(-40, 41, 4), -2, -1, 1, 2} - {0}, key=abs)
"""Where else a member is looked for, relative to where it was found."""

MAX_STARTS = 4
MAX_EQUALS = 8
"""Known layouts, and candidates that show as much, from which a search goes on."""


def shifted(layouts: Layouts) -> Iterator[Layouts]:
    """Yield what differs from layouts by one struct, in which all members from one on have moved, but past no other.

    All of the struct's, or all of one arm of its unions: "recv" of "recv.queue".
    """
    for struct in layouts:
        arms = sorted({name.partition(".")[0] for name in struct.offsets if "." in name})
        for arm in ("", *(arms if len(arms) > 1 else ())):
            members = {name: at for name, at in struct.offsets.items() if name.startswith(arm)}
            places = sorted(set(members.values()))
            for before, first in zip((-1, *places), places, strict=False):
                for shift in SHIFTS:
                    if first + shift > before:
                        moved = {name: at + shift for name, at in members.items() if at >= first}
                        yield _with(layouts, struct._replace(offsets={**struct.offsets, **moved}))


def near(known: Iterable[Layouts], score: Score) -> tuple[int, list[Layouts]]:
    """Return the most that is shown right by known layouts or by what is reached from them, and all that show as much.

    Args:
        known: the nearest first; their sizes don't count.
        score: of any layouts.
    """
    tried: dict[object, int] = {}

    def best(candidates: Iterable[Layouts]) -> tuple[int, list[Layouts]]:
        most = NOTHING - 1
        found: list[Layouts] = []
        for each in candidates:
            key = tuple((struct.name, *sorted(struct.offsets.items())) for struct in each)
            if key not in tried:
                tried[key] = points = score(each)
                found = [*(found if points == most else ()), each] if points >= most else found
                most = max(most, points)
        return most, found

    most, found = best(Layouts(struct._replace(size=None) for struct in each) for each in known)
    del found[MAX_STARTS:]
    while True:
        more, candidates = best(other for each in found[:MAX_EQUALS] for other in shifted(each))
        if more <= most:
            return most, found + candidates * (more == most)
        most, found = more, candidates


def proven(found: list[Layouts], most: int, score: Score, sizes: Mapping[str, int]) -> tuple[Layouts, list[str]]:
    """Return the layouts without the members that another place would do for, and which these or whole structs are.

    Args:
        found: all that show the most; in the first one each member is moved alone, too.
        most: what they show.
        score: of any layouts.
        sizes: bytes of structs in a known layout, that the sought one may differ from.
    """
    first = found[0]
    made: list[StructLayout] = []
    doubtful: list[str] = []
    for struct in first:
        sure, differing = {}, _differing(struct, found)
        for member, at in struct.offsets.items():
            others = (struct._replace(offsets={**struct.offsets, member: at + by}) for by in PLACES if at + by >= 0)
            if member not in differing and all(score(_with(first, other)) < most for other in others):
                sure[member] = at
        doubtful += [f"{struct.name}.{name}" for name in struct.offsets if name not in sure] if sure else [struct.name]
        known = sizes.get(struct.name)
        candidates = [struct._replace(size=known + by) for by in (0, *SHIFTS)] if known else []
        fitting = [each.size for each in candidates if score(_with(first, each)) == most]
        if sure:
            made.append(struct._replace(offsets=sure, size=fitting[0] if len(fitting) == 1 else None))
    return Layouts(made), doubtful


def _differing(struct: StructLayout, others: Iterable[Layouts]) -> set[str]:
    """Return the members that lie elsewhere in other layouts; where all do by as much, the same is read from a list."""
    found: set[str] = set()
    for other in others:
        there = other.struct(struct.name).offsets if struct.name in other else {}
        moves = {name: there.get(name, NOTHING) - at for name, at in struct.offsets.items()}
        if len(set(moves.values())) > 1:
            found.update(name for name, by in moves.items() if by)
    return found


def _with(layouts: Layouts, struct: StructLayout) -> Layouts:
    return Layouts(struct if each.name == struct.name else each for each in layouts)
