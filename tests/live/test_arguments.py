"""The arguments of blocked calls on live MPIs, stripped as they are."""

from __future__ import annotations

import math

import pytest

from mqs_dll.debugger.job.stacks.arguments import TIME_BUDGET
from tests.support.arguments_matrix import FILE, Argument, cells, row_of, table, write
from tests.support.blocked_calls import blocked_calls
from tests.support.jobs import Compiler
from tests.support.matrix import Matrix
from tests.support.mpis import Mpi, Transport, find_mpis
from tests.support.workers import Workers

SECONDS = 5.0
"""For which the MPI's own functions are followed on most, where the caller leaves something open."""
COMPARED = {"openmpi-debian": "ob1", "mpich-4.3.2-pypi": "ch4 shm"}
"""By MPI, the transport on which both sides are asked in any case."""
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
    with TIME_BUDGET.within(math.inf if COMPARED.get(mpi.name) == transport.name else SECONDS):
        found = blocked_calls(compiler, mpi, transport)
    assert [each for each in found if each.is_wrong] == []
    assert 4 * sum(each.is_right for each in found) > 3 * len(found)
    matrix.add(cells(mpi, transport.name, [Argument(each.name, each.is_right) for each in found]))


@pytest.mark.after_all
def test_the_table_has_a_row_for_each_mpi(request: pytest.FixtureRequest, matrix: Matrix, workers: Workers) -> None:
    """docs/call-arguments.md: with --write-matrix it is written by what these tests saw, if they were on all places."""
    here = [(mpi, transport) for mpi, transport in PLACES if not mpi.missing]
    if request.config.getoption("--write-matrix"):
        seen = [*matrix.seen, *(cell for each in workers.wait_for_others() for cell in each.seen)]
        if {(mpi.name, transport.name) for mpi, transport in here} <= {(each.mpi, each.transport) for each in seen}:
            write(table(row_of(mpi, transport, seen) for mpi, transport in here))
    page = FILE.read_text()
    missing = [row for mpi, transport in here if (row := row_of(mpi, transport, ())) not in page]
    assert missing == []
