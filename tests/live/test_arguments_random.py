"""The arguments of calls in random programs, whose own library writes down what it was called with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.random_programs.harness import OPTIONS, compile_program, outcomes

pytestmark = pytest.mark.slow

UNITS = 13
"""Programs that are compiled together: with all the ways to compile them, more than 300."""


@pytest.mark.parametrize("options", OPTIONS)
def test_nothing_wrong_is_reported_of_a_random_programs_call(options: str, tmp_path: Path) -> None:
    """However it is compiled: an argument is right or unknown, and most are right."""
    found = outcomes(compile_program(tmp_path, f"CI {options}", options, UNITS))
    assert [each for each in found if each.is_wrong] == []
    assert 2 * sum(each.told is not None for each in found) > len(found)
