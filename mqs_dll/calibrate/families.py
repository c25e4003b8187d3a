"""The families of MPIs that can be calibrated."""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family
from mqs_dll.calibrate.mpich.family import Mpich
from mqs_dll.calibrate.openmpi.family import OpenMpi
from mqs_dll.errors import CalibrationError

FAMILIES: tuple[type[Family], ...] = (OpenMpi, Mpich)


def family_of(dumps: Sequence[Dump]) -> Family:
    """Return the family of the MPI that dumps are of, by the symbol that tells it.

    Raises:
        CalibrationError: it is of none.
    """
    for family in FAMILIES:
        if all(family.anchor in dump.symbols for dump in dumps):
            return family()
    raise CalibrationError("the dumps are not of one family of MPIs")
