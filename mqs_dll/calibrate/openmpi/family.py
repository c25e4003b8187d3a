"""Open MPI's calibration, as the command uses it: its runs, and the order in which the structs are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family, Observed, Solution, Tell
from mqs_dll.calibrate.launch import Installation
from mqs_dll.calibrate.openmpi import cm, communicators, matching, objects, opal, requests
from mqs_dll.calibrate.openmpi.identity import subject_of
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.openmpi.runs import FABRICS, RUNS
from mqs_dll.library.layouts.view import wanted_members
from mqs_dll.library.mpi.openmpi import cm_views, views
from mqs_dll.library.mpi.openmpi.identity import ALL_VIEWS

STEPS: tuple[Callable[[OpalLedger], None], ...] = (
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

CM_STEPS: tuple[Callable[[OpalLedger], None], ...] = (
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
    """Return the names of the symbols that the program looks for."""
    structs = {*wanted_members(ALL_VIEWS), *opal.PARENTS, *opal.PARENTS.values(), "opal_convertor_t", "opal_info_t"}
    structs |= {"opal_mutex_t", "ompi_message_t"}
    return sorted({*(f"{struct}_class" for struct in structs), *OTHER_SYMBOLS})


class OpenMpi(Family):
    """Open MPI 4.1 and 5.0."""

    name = "openmpi"
    title = "Open MPI"
    anchor = "ompi_mpi_communicators"
    launcher_says = r"OpenRTE|Open MPI|PRTE|open-mpi\.org"
    fabrics = FABRICS

    def observe(self, mpi: Installation, directory: Path, tell: Tell) -> Observed:
        """Run the program in each way."""
        return Observed(*launch.run_all(mpi, "mqs_dll.calibrate.openmpi.program", RUNS, directory, tell))

    def solve(self, dumps: Sequence[Dump]) -> Solution:
        """Find the members of Open MPI's structs, each step from those before it."""
        ledger = OpalLedger(dumps)
        failures = [*ledger.take(STEPS), *ledger.missing(views.ALL)]
        left_out = [*ledger.take(CM_STEPS), *ledger.missing(cm_views.ALL)] if ledger.cm_dumps else []
        return Solution(subject_of(dumps), ledger, ALL_VIEWS, SIZES_ONLY, failures, left_out)
