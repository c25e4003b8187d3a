"""Ranks and nodes in brackets."""

from __future__ import annotations

import pytest

from mqs_dll.job.node_names import fold
from mqs_dll.job.ranges import MAX_RUNS, ranges, rank_words

# ---------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], "[]"),
        ([3], "[3]"),
        ([0, 1, 2, 3, 7], "[0-3,7]"),
        ([7, 2, 1, 0, 3, 3], "[0-3,7]"),
        ([0, 2, 4, 6], "[0,2,4,6]"),
        ([0, 2, 4, 6, 8], "[0-8:2]"),
        ([0, 2, 3, 4], "[0,2-4]"),
    ],
)
def test_ranks_are_written_in_ranges(ranks: list[int], text: str) -> None:
    """Neighbours are one range, long progressions have their step, order and repetition don't count."""
    assert ranges(ranks) == text


def test_ranges_that_fill_a_screen_are_cut_and_counted() -> None:
    """A sentence stays a sentence, however irregular the ranks are; a report that wants all of them asks for that."""
    squares = [number * number for number in range(100)]
    assert ranges(squares).endswith(",... 100 in all]")
    assert ranges(squares).count(",") == MAX_RUNS
    assert ranges(squares, most=None).endswith(",9801]")


def test_one_rank_is_no_range() -> None:
    """Sentences say "rank 7", and "ranks [7-8]"."""
    assert rank_words([7, 7]) == "rank 7"
    assert rank_words([8, 7]) == "ranks [7-8]"


# ---------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n3", "n1", "n2", "n7"], "n[1-3,7]"),
        (["node08", "node09", "node10", "login"], "node[08-09],node10,login"),
        (["n0", "n1", "n2", "n4", "n6", "n8"], "n[0-2,4,6,8]"),
        (["n1.a.org", "n2.a.org", "n1.b.org"], "n[1-2].a.org,n1.b.org"),
        (["10.0.0.1", "10.0.0.2", "n*", "@all"], "10.0.0.1,10.0.0.2,n*,@all"),
    ],
)
def test_nodes_are_folded_by_their_numbers(names: list[str], text: str) -> None:
    """As Slurm writes them: numbers with leading zeros are other names, and what has no number stands alone."""
    assert fold(names) == text


def test_many_nodes_are_folded_in_a_time_that_grows_with_their_number() -> None:
    """And cut and counted where a report has room for some."""
    assert len(fold(f"r{number % 100}n{number}" for number in range(30_000)).split("r")) == 101
    odd = [f"n{2 * number + 1}" for number in range(40)]
    assert fold(odd, MAX_RUNS).endswith(f",{2 * MAX_RUNS - 1},... 40 in all]")
