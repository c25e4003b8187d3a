"""The table of MPI's functions and their parameters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mqs_dll.debugger.job.stacks import bindings
from mqs_dll.debugger.job.stacks.bindings import Parameter, Role
from mqs_dll.verdict import calls
from tests.support.mpis import Mpi, find_mpis, skip_without
from tools.mpi_bindings import functions

WITH_HEADERS = [mpi for mpi in find_mpis() if not mpi.name.startswith("impi")]
NOT_IN_STANDARD = {"MPI_Comm_shrink", "MPI_Comm_agree", "MPIX_Comm_shrink", "MPIX_Comm_agree"}


def _declared(mpi: Mpi, folder: Path) -> dict[str, str]:
    """Return the functions that an MPI's mpi.h declares, as the table has them."""
    program = folder / "empty.c"
    program.write_text("#include <mpi.h>\n")
    output = subprocess.run([str(mpi.mpicc), "-E", program], capture_output=True, text=True, check=True)
    return dict(functions(output.stdout))


def _types(declarations: str) -> list[tuple[str, int]]:
    return [(each.split()[0], each.count("*") + each.count("[")) for each in declarations.split(", ") if declarations]


@pytest.mark.parametrize("mpi", WITH_HEADERS, ids=lambda mpi: mpi.name)
def test_every_mpis_header_declares_the_same_parameters(mpi: Mpi, tmp_path: Path) -> None:
    """Their number, their order and their types, whatever names a header has for them."""
    skip_without(mpi)
    declared = _declared(mpi, tmp_path)
    known = {name: bindings.parameters(name) or () for name in bindings.functions()}
    common = known.keys() & declared.keys()
    assert len(common) > 300
    wrong = {
        name: declared[name]
        for name in common
        if _types(declared[name]) != [(each.type, each.pointers) for each in known[name]]
    }
    assert wrong == {}


def test_every_call_that_may_block_has_its_parameters() -> None:
    """The verdict's calls are all in the table, those for large counts too."""
    known = {*bindings.functions()}
    assert calls.known() - known == NOT_IN_STANDARD
    with_count = {name for name in known if name + "_c" in known}
    assert {"MPI_Recv", "MPI_Bcast", "MPI_Alltoallw", "MPI_Neighbor_alltoallv", "MPI_File_read_all"} <= with_count


def test_a_parameter_says_what_it_is_for_and_how_large_its_argument_is() -> None:
    """The kind of the value, its role, and for an array the parameter that has its length."""
    assert bindings.parameters("MPI_Finalize") == ()
    assert bindings.parameters("MPI_Exchange") is None
    assert bindings.parameters("MPI_Waitall") == (
        Parameter("count", "int", 0, Role.COUNT),
        Parameter("array_of_requests", "MPI_Request", 1, Role.REQUEST, "count"),
        Parameter("array_of_statuses", "MPI_Status", 1, Role.STATUS, "count"),
    )
    received = {each.name: each for each in bindings.parameters("MPI_Recv_c") or ()}
    assert {name: (each.role, each.size(4), each.size(8)) for name, each in received.items()} == {
        "buf": (Role.BUFFER, 8, 8),
        "count": (Role.COUNT, 8, 8),
        "datatype": (Role.DATATYPE, 4, 8),
        "source": (Role.SOURCE, 4, 4),
        "tag": (Role.TAG, 4, 4),
        "comm": (Role.COMMUNICATOR, 4, 8),
        "status": (Role.STATUS, 8, 8),
    }
    lock = {each.name: each.role for each in bindings.parameters("MPI_Win_lock") or ()}
    assert (lock["rank"], lock["win"]) == (Role.TARGET, Role.WINDOW)
