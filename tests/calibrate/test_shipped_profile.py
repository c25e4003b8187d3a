"""tools/shipped_profile.py: what developers do with profiles, beyond mqs calibrate."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.calibrate.document import comparison
from mqs_dll.calibrate.launch import Installation
from mqs_dll.calibrate.mpich.family import MpichFamily
from mqs_dll.library.layouts import profiles
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from tools import shipped_profile

WITH_DEBUG_INFORMATION = "MQS_TEST_MPICH_DEBUG_PREFIX"


def test_members_that_one_layout_lacks_may_be_passed_over() -> None:
    """Debug information has no members of other releases: only what both know is compared with it."""
    one = Layouts([StructLayout("a_t", 16, {"x": 0, "y": 8}, "here"), StructLayout("b_t", 8, {}, "here")])
    for offsets, alike in (({"x": 0, "z": 4}, True), ({"x": 4}, False)):
        other = Layouts([StructLayout("a_t", 16, offsets, "there")])
        common = shipped_profile.shared(one, other), shipped_profile.shared(other, one)
        assert comparison(*common, "the types")[0] is alike
        assert not comparison(one, other, "the types")[0]


def small_profile(offset: int, release: str, **more: dict[str, Any]) -> dict[str, Any]:
    """Return a profile with one struct, or more."""
    return {
        "schema": profiles.SCHEMA,
        "name": "openmpi-0-x86_64",
        "mpi": "openmpi",
        "machine": "x86_64",
        "releases": [release],
        "builds": [f"build of {release}"],
        "present": [],
        "absent": [],
        "producer": {},
        "structs": {"a_t": {"size": 16, "members": {"x": offset}}, **more},
        "evidence": {},
    }


def test_a_shipped_profile_keeps_the_releases_that_it_holds_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that agrees takes them over; one that knows less only adds its own; one that differs stands alone."""
    monkeypatch.setattr(profiles, "FOLDER", tmp_path)
    more = {"b_t": {"size": 8, "members": {"y": 0}}}

    def written(profile: dict[str, Any]) -> tuple[list[str], list[str], set[str]]:
        text = json.loads(shipped_profile.write_shipped(profile).read_text())
        return text["releases"], text["builds"], set(text["structs"])

    assert written(small_profile(8, "1")) == (["1"], ["build of 1"], {"a_t"})
    assert written(small_profile(8, "2", **more)) == (["2", "1"], ["build of 2", "build of 1"], {"a_t", "b_t"})
    assert written(small_profile(8, "3"))[0::2] == (["2", "1", "3"], {"a_t", "b_t"})
    assert written(small_profile(0, "4")) == (["4"], ["build of 4"], {"a_t"})


def test_the_calibration_agrees_with_debug_information(tmp_path: Path) -> None:
    """Of a build that has some, all members that both know lie at the same offsets."""
    prefix = os.environ.get(WITH_DEBUG_INFORMATION)
    if not prefix:
        pytest.skip(f"{WITH_DEBUG_INFORMATION} names no prefix of an MPICH that was built with -g")
    mpi = Installation(Path(prefix) / "lib/libmpi.so", [f"{prefix}/bin/mpiexec"])
    family = MpichFamily()
    solution = family.solve(family.observe(mpi, tmp_path, lambda _: None).dumps)
    types = shipped_profile.debug_layouts(mpi, solution.views)
    found = solution.solver.offsets
    both = [(each.name, member) for each in types for member in each.offsets if member in found.get(each.name, {})]
    assert len(both) > 50
    assert {name: found[name[0]][name[1]] for name in both} == {name: types.offset(*name) for name in both}
