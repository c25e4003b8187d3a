"""Ranks as people write them: "[0-3,7]", in linear time, and never longer than a line or so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

MAX_RUNS = 12
"""More parts than that are cut, and counted."""

Interval = tuple[int, int]
"""The first and the last of numbers that follow each other."""

MIN_STRIDE = 5
"""Members of a progression that is worth "0-98:2"."""


def ranges(ranks: Iterable[int], most: int | None = MAX_RUNS) -> str:
    """Return ranks in brackets: "[0-3,7]", every second one "[0-98:2]"; each once, ascending.

    Args:
        ranks: in any order.
        most: parts to show; of more the first are shown, and how many ranks there are in all; None shows every one.
    """
    ordered = sorted({*ranks})
    runs = _runs(ordered)
    if most is None or len(runs) <= most:
        return f"[{','.join(map(_run_text, runs))}]"
    return f"[{','.join(map(_run_text, runs[:most]))},... {len(ordered)} in all]"


def rank_words(ranks: Iterable[int], most: int | None = MAX_RUNS) -> str:
    """Return "rank 7" or "ranks [0-3,7]"."""
    distinct = {*ranks}
    if len(distinct) == 1:
        return f"rank {distinct.pop()}"
    return f"ranks {ranges(distinct, most)}"


def intervals(indices: Iterable[int]) -> Iterator[Interval]:
    """Yield the runs of numbers without a gap, ascending, each number once."""
    ordered = sorted({*indices})
    start = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or ordered[end] != ordered[end - 1] + 1:
            yield ordered[start], ordered[end - 1]
            start = end


def _runs(ordered: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return first, last and step of each run; a step of more than 1 only where the run is long."""
    runs = []
    start = 0
    while start < len(ordered):
        end = _end_of_run(ordered, start)
        step = ordered[start + 1] - ordered[start] if end - start > 1 else 1
        if step > 1 and end - start < MIN_STRIDE:
            end, step = start + 1, 1
        runs.append((ordered[start], ordered[end - 1], step))
        start = end
    return runs


def _end_of_run(ordered: Sequence[int], start: int) -> int:
    """Return the index behind the longest progression that starts at an index."""
    end = start + 1
    if end == len(ordered):
        return end
    step = ordered[end] - ordered[start]
    while end < len(ordered) and ordered[end] - ordered[end - 1] == step:
        end += 1
    return end


def _run_text(run: tuple[int, int, int]) -> str:
    first, last, step = run
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"
