"""Which Open MPI the dumps are of, and what its profile is called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mqs_dll.calibrate.document import Subject
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.target import build_of
from mqs_dll.contract.errors import CalibrationError

SERIES_SYMBOLS = ("ompi_comm_hash",)
"""Symbols that only some series have."""

FAMILIES = {(4, 1, 0): "4.1", (5, 0, 0): "5.0.0", (5, 0, 7): "5.0.7", (6, 0, 0): "6.0.0"}
"""The first release of each family of layouts, and what the family is called."""

VERSION = "ompi_version_string"
"""A variable of the MPI's library itself, whatever libraries it is made of: the release, as the MPI spells it."""


def family_of(release: str) -> str:
    """Return the family of layouts that a release should belong to; one of no known family is a family of its own."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", release)
    numbers = tuple(map(int, match.groups())) if match else ()
    known = [first for first in FAMILIES if first <= numbers and first[:2] == numbers[:2]]
    return FAMILIES[max(known)] if known else release


def subject_of(dumps: Sequence[Dump]) -> Subject:
    """Return the MPI that all dumps are of.

    Raises:
        CalibrationError: they are of several.
        LayoutError: the library is not in them.
    """
    kinds = {(dump.text(dump.symbols[VERSION].address), str(dump.truth["machine"])) for dump in dumps}
    if len(kinds) != 1:
        raise CalibrationError(f"the dumps are of several MPIs: {sorted(kinds)}")
    release, machine = kinds.pop()
    return Subject(
        name=f"openmpi-{family_of(release)}-{machine}",
        mpi="openmpi",
        machine=machine,
        release=release,
        builds=sorted({build_of(dump, dump.symbols[VERSION].address) for dump in dumps}),
        present=[name for name in SERIES_SYMBOLS if name in dumps[0].symbols],
        absent=[name for name in SERIES_SYMBOLS if name not in dumps[0].symbols],
    )
