"""The table of MPI's functions and their parameters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mqs_dll.debugger.job.stacks.constants import Constants, constants_of
from mqs_dll.job import bindings, calls
from mqs_dll.job.bindings import MPI_ABI, MPICH, OPEN_MPI, Parameter, Role
from mqs_dll.job.records import Argument, ArgumentEvidence
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.wheels import WHEELS_DIRECTORY
from tools.mpi_bindings import ABI, HEADERS, constants_in, functions, main

WITH_HEADERS = [mpi for mpi in find_mpis() if not mpi.name.startswith("impi")]
NOT_IN_STANDARD = {"MPI_Comm_shrink", "MPI_Comm_agree", "MPIX_Comm_shrink", "MPIX_Comm_agree"}


def _declared(mpi: Mpi, folder: Path) -> dict[str, str]:
    """Return the functions that an MPI's mpi.h declares, as the table has them."""
    return dict(functions(_preprocessed(mpi, folder)))


def _preprocessed(mpi: Mpi, folder: Path, *options: str) -> str:
    program = folder / "empty.c"
    program.write_text("#include <mpi.h>\n")
    command = [str(mpi.mpicc), "-E", *options, str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("mpi", WITH_HEADERS, ids=lambda mpi: mpi.name)
def test_every_mpis_header_gives_the_constants_the_values_of_its_family(mpi: Mpi, tmp_path: Path) -> None:
    """No release differs in one that it has."""
    skip_without(mpi)
    family = MPI_ABI if mpi.name.endswith("-abi") else OPEN_MPI if mpi.product == "Open MPI" else MPICH
    declared = {name: value for _, name, value in constants_in(_preprocessed(mpi, tmp_path, "-dD"))}
    known = {name: value for _, name, value in bindings.constants()[family]}
    common = declared.keys() & known.keys()
    assert len(common) > 80
    assert {
        name: value
        for name, value in declared.items()
        if name in common and _as_number(value) != _as_number(known[name])
    } == {}


def _as_number(value: str) -> int | str:
    return int(value, 0) if value.lstrip("-")[:1].isdigit() else value


def _types(declarations: str) -> list[tuple[str, int]]:
    return [(each.split()[0], each.count("*") + each.count("[")) for each in declarations.split(", ") if declarations]


def test_the_tables_are_what_the_tool_makes_of_the_headers(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in them was written by hand, and nothing of the headers is left out."""
    missing = [name for name in (ABI, *HEADERS.values()) if not (WHEELS_DIRECTORY / name).exists()]
    if missing:
        pytest.skip(f"{missing} are not there: python tests/install_mpis.py")
    assert main([str(WHEELS_DIRECTORY)]) == 0
    assert capsys.readouterr().out == bindings.FILE.read_text() + bindings.CONSTANTS.read_text()


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


class _Image:
    """A program with the symbols of an MPI."""

    def __init__(self, **symbols: int) -> None:
        self._symbols = symbols

    def find_symbol(self, name: str) -> int | None:
        """Return its address."""
        return self._symbols.get(name)

    find_function = find_symbol


def test_values_of_arguments_are_called_what_their_mpi_calls_them() -> None:
    """By the parameter's role, since one number means many things; a derivative of MPICH has MPICH's."""

    def called(mpi: Constants | None, function: str, **values: int) -> list[str]:
        assert mpi is not None
        arguments = (Argument(name, value, ArgumentEvidence.BOTH) for name, value in values.items())
        return [each.called for each in mpi.named(function, arguments)]

    mpich = constants_of(_Image(MPIR_Dup_fn=1))  # type: ignore[arg-type]
    recv = {"buf": 0, "count": -1, "datatype": 0x4C00080B, "source": -2, "tag": -1, "comm": 0x44000000, "status": 1}
    assert called(mpich, "MPI_Recv", **recv) == [
        "NULL", "", "MPI_DOUBLE", "MPI_ANY_SOURCE", "MPI_ANY_TAG", "MPI_COMM_WORLD", "MPI_STATUS_IGNORE",
    ]  # fmt: skip
    assert called(mpich, "MPI_Allreduce", sendbuf=2**64 - 1, count=-2) == ["MPI_IN_PLACE", ""]
    assert called(mpich, "MPI_Waitall", array_of_statuses=1) == ["MPI_STATUSES_IGNORE"]
    assert called(mpich, "MPI_Win_lock", lock_type=234, rank=-1) == ["MPI_LOCK_EXCLUSIVE", "MPI_PROC_NULL"]
    open_mpi = constants_of(_Image(ompi_mpi_comm_world=0x7F10, ompi_mpi_byte=0x7F20))  # type: ignore[arg-type]
    assert called(open_mpi, "MPI_Bcast", datatype=0x7F20, root=0, comm=0x7F10) == ["MPI_BYTE", "", "MPI_COMM_WORLD"]
    own = constants_of(_Image(ompi_mpi_comm_world=1, MPI_Abi_get_version=1, PMPI_Comm_c2f=1))  # type: ignore[arg-type]
    assert called(own, "MPI_Send", dest=-2) == ["MPI_PROC_NULL"]
    for library in ({}, {"ompi_mpi_comm_world": 1}):  # MPICH's, and Open MPI's since 6.0
        abi = constants_of(_Image(MPI_Abi_get_version=1, **library))  # type: ignore[arg-type]
        assert called(abi, "MPI_Send", dest=-3, comm=0x101, datatype=1) == ["MPI_PROC_NULL", "MPI_COMM_WORLD", ""]
    assert constants_of(_Image()) is None  # type: ignore[arg-type]


def test_arguments_that_no_call_can_have_are_distinguished_from_others() -> None:
    """Counts, ranks and tags are not negative, except those that have names; a handle is of the parameter's type."""
    mpich = constants_of(_Image(MPIR_Dup_fn=1))  # type: ignore[arg-type]
    open_mpi = constants_of(_Image(ompi_mpi_comm_world=0x7F10))  # type: ignore[arg-type]

    def may_be(mpi: Constants | None, **values: int) -> bool:
        assert mpi is not None
        return mpi.may_be("MPI_Recv", [Argument(name, value, ArgumentEvidence.BOTH) for name, value in values.items()])

    assert may_be(mpich, count=0, datatype=0x8C000001, source=-2, tag=-1, comm=0x84000003, status=1)
    assert not may_be(mpich, count=4, tag=-7)
    assert not may_be(mpich, count=-1)
    assert not may_be(mpich, comm=0x4C000405)
    assert may_be(open_mpi, comm=0x55D422C97100, source=-1)
    assert not may_be(open_mpi, comm=0xC)
