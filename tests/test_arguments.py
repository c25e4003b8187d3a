"""The arguments of blocked calls on live MPIs, stripped as they are."""

from __future__ import annotations

import pytest

from mqs_dll.debugger.job.stacks.arguments import PATIENCE
from tests.support.arguments_matrix import Argument, cells
from tests.support.blocked_calls import blocked_calls
from tests.support.jobs import Compiler
from tests.support.matrix import Matrix
from tests.support.mpis import Mpi, Transport, find_mpis

SECONDS = 5.0
"""For which the MPI's own functions are followed on each: the rest rests on the caller alone."""
PLACES = [
    (mpi, transport)
    for mpi in find_mpis()
    for transport in mpi.transports[: len(mpi.transports) if mpi.name == "openmpi-debian" else 1]
]
"""Each MPI, and one on all its transports: what lies between a call and its transport differs little."""


@pytest.mark.parametrize(("mpi", "transport"), PLACES, ids=[f"{mpi.name}-{way.name}" for mpi, way in PLACES])
def test_the_arguments_of_a_blocked_call_are_right_or_unknown(
    mpi: Mpi, transport: Transport, compiler: Compiler, matrix: Matrix
) -> None:
    """Nothing is wrong, and most is known."""
    with PATIENCE.within(SECONDS):
        found = blocked_calls(compiler, mpi, transport)
    assert [each for each in found if each.is_wrong] == []
    assert 4 * sum(each.is_right for each in found) > 3 * len(found)
    matrix.add(cells(mpi, transport.name, [Argument(each.name, each.is_right) for each in found]))
