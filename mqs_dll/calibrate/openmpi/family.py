"""Open MPI's calibration, as the command uses it: its runs, and the order in which the structs are found."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family, Observed, Report, SolvedLayouts
from mqs_dll.calibrate.launch import Installation, Run
from mqs_dll.calibrate.openmpi import cm, communicators, matching, objects, opal, requests
from mqs_dll.calibrate.openmpi.identity import subject_of
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver
from mqs_dll.library.layouts.view import wanted_members
from mqs_dll.library.mpi.openmpi import cm_views, views
from mqs_dll.library.mpi.openmpi.identity import ALL_VIEWS

# ---------------------------------------------------------------- the runs: each leaves a directory of dumps

RANKS = 3
LINKS = 3


def _mca(**parameters: object) -> tuple[str, ...]:
    return tuple(text for name, value in parameters.items() for text in ("--mca", name, str(value)))


def _variables() -> dict[str, str]:
    # malloc's memory is zeros, so that objects are recognized that were never used (glibc, mallopt(3), M_PERTURB)
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1", "MALLOC_PERTURB_": "255"}
    if os.geteuid() == 0:
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def _run(name: str, mode: str, *options: str, ranks: int = RANKS, optional: str = "") -> Run:
    common = ("--oversubscribe", *_mca(mpi_use_sparse_group_storage=0))
    return Run(name, mode, ranks, (*common, *options), _variables(), optional)


def _cm(name: str, mode: str, provider: str, **parameters: object) -> Run:
    chosen = {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": provider}
    return _run(name, mode, *_mca(**chosen, **parameters), optional="pml/cm with mtl/ofi")


FABRICS = (
    _run("UCX", "", *_mca(pml="ucx", opal_common_ucx_tls="any", opal_common_ucx_devices="any"), ranks=2),
    _run("libfabric", "", *_mca(pml="cm", mtl="ofi", mtl_ofi_provider_include="tcp"), ranks=2),
)
"""On which what libmqs knows of a fabric is tried."""

RUNS = (
    _run("plain", "plain", *_mca(pml="ob1", osc="^sm,ucx", pml_ob1_free_list_num=5, pml_ob1_free_list_inc=40)),
    _run(
        "early",
        "early",
        *_mca(pml="ob1", pml_ob1_free_list_num=7, pml_ob1_free_list_inc=24),
        # several TCP links between two processes, all used in turn
        *_mca(btl="tcp,self", btl_tcp_if_include="lo", btl_tcp_links=LINKS),
        *_mca(**{f"btl_tcp_latency_lo:{link}": 50 for link in range(LINKS)}),
        # the first message is eager although it is large, and doesn't fit into a socket's buffers
        *_mca(btl_tcp_eager_limit=1_000_000, btl_tcp_max_send_size=1_000_000),
        *_mca(btl_tcp_sndbuf=32_768, btl_tcp_rcvbuf=32_768),
    ),
    _cm("cm", "cm", "tcp"),
    # three ways to put communicator, source and tag into 64 bits
    _cm("cm-full", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_full"),
    _cm("cm-tag-1", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_1"),
    _cm("cm-tag-2", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_2"),
    _cm("cm-contexts", "posted", "sockets", mtl_ofi_enable_sep=1, mtl_ofi_num_ctxts=4),
)

# ---------------------------------------------------------------- what is to be found

STEPS: tuple[Callable[[OpenMpiLayoutSolver], None], ...] = (
    opal.find_classes,
    opal.find_object,
    opal.find_list,
    opal.find_pointer_array,
    opal.find_free_list,
    communicators.find_info,
    communicators.find_group,
    communicators.find_communicator,
    communicators.find_proc,
    requests.find_request,
    requests.find_pml_request,
    requests.find_ob1_requests,
    matching.find_comm,
    matching.find_proc,
    matching.find_fragment,
    matching.find_early,
    matching.find_component,
    objects.find_datatype,
    objects.find_window,
    objects.find_component,
)

CM_STEPS: tuple[Callable[[OpenMpiLayoutSolver], None], ...] = (
    cm.find_cm_request,
    cm.find_convertor,
    cm.find_cm_directions,
    cm.find_ofi_request,
    cm.find_ofi_module,
    cm.find_endpoint,
)
"""Those for a transport that not every MPI has."""

SIZES_ONLY = ("opal_free_list_item_t",)
"""Structs of which only the size is wanted."""

OTHER_SYMBOLS = (
    *opal.OBJECTS,
    *opal.FORTRAN_TABLES,
    *objects.COMPONENTS,
    *opal.POOLS,
    "mca_pml_ob1",
    "ompi_mtl_ofi",
    "ompi_comm_hash",
    "ompi_proc_local_proc",
    "ompi_version_string",
)


def wanted_symbols() -> list[str]:
    """Return the names of the symbols that the program searches for."""
    structs = {*wanted_members(ALL_VIEWS), *opal.PARENTS, *opal.PARENTS.values(), "opal_convertor_t", "opal_info_t"}
    structs |= {"opal_mutex_t", "ompi_message_t"}
    return sorted({*(f"{struct}_class" for struct in structs), *OTHER_SYMBOLS})


class OpenMpiFamily(Family):
    """Open MPI 4.1, 5.0 and 6.0."""

    name = "openmpi"
    title = "Open MPI"
    anchor = "ompi_mpi_communicators"
    launcher_says = r"OpenRTE|Open MPI|PRTE|open-mpi\.org"
    fabrics = FABRICS

    def observe(self, mpi: Installation, directory: Path, report: Report) -> Observed:
        """Run the program in each way."""
        return Observed(*launch.run_all(mpi, "mqs_dll.calibrate.openmpi.program", RUNS, directory, report))

    def solve(self, dumps: Sequence[Dump]) -> SolvedLayouts:
        """Find the members of Open MPI's structs, each step from those before it."""
        solver = OpenMpiLayoutSolver(dumps)
        failures = [*solver.take(STEPS), *solver.missing(views.ALL)]
        left_out = [*solver.take(CM_STEPS), *solver.missing(cm_views.ALL)] if solver.cm_dumps else []
        return SolvedLayouts(subject_of(dumps), solver, ALL_VIEWS, SIZES_ONLY, failures, left_out)
