"""The order in which Open MPI's structs are found: each step builds on those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.openmpi import cm, communicators, matching, objects, opal, requests
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.openmpi.identity import ALL_VIEWS
from mqs_dll.view import wanted_members

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


def find_all(dumps: Sequence[Dump]) -> tuple[OpalLedger, list[str], list[str]]:
    """Return what the dumps show, and what they don't: one sentence for each step that failed.

    The last list is of the steps for a transport that an MPI may lack.
    """
    ledger = OpalLedger(dumps)
    return ledger, _failures(ledger, STEPS), _failures(ledger, CM_STEPS)


def _failures(ledger: OpalLedger, steps: Sequence[Callable[[OpalLedger], None]]) -> list[str]:
    failures = []
    for step in steps:
        try:
            step(ledger)
        except CalibrationError as error:
            failures.append(str(error))
        except LookupError as error:
            failures.append(f"the dumps have no {error}")
    return failures
