"""Which Open MPI a process runs, whether it is up, and which layouts hold in it.

Open MPI tells the true size of each of its classes: ``X_class``, an exported object, has the sizeof of X, also in
a stripped library and before MPI_Init (opal/class/opal_object.h, the same in 4.1 and 5.0). A layout is accepted
only when every one of these sizes agrees and the invariants of MPI_COMM_WORLD close in this process.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqs_dll.errors import (
    BrokenStructureError,
    FinalizedError,
    LayoutError,
    MqsError,
    NotInitializedError,
    TargetReadError,
)
from mqs_dll.interface import TargetImage
from mqs_dll.layout import Layouts, from_debugger
from mqs_dll.memory import Memory
from mqs_dll.mpi.openmpi import cm_views, views
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.symbols import Symbols, class_size
from mqs_dll.profiles import shipped
from mqs_dll.view import wanted_members

ALL_VIEWS = (*views.ALL, *cm_views.ALL)

LARGEST_VERSION = 64
"""Bytes read of ompi_version_string; releases have about six, a packager may have added to them."""

# ompi/runtime/mpiruntime.h: ompi_mpi_state_t, the same in 4.1 and 5.0
STATE_INIT_COMPLETED = 2
STATE_FINALIZE_COMPLETED = 5


@dataclass(frozen=True)
class Identity:
    """What a process's Open MPI is, and the layouts that were accepted for it."""

    release: str
    layouts: Layouts


def release_of(memory: Memory, symbols: Symbols) -> str:
    """Return the release as Open MPI spells it, "4.1.4", or "of an unknown release"."""
    address = symbols.get("ompi_version_string")
    if address is not None:
        text = memory.text(address, LARGEST_VERSION)
        if text and all(32 < byte < 127 for byte in text):
            return text.decode()
    return "of an unknown release"


def check_running(memory: Memory, symbols: Symbols) -> None:
    """Make sure that the process is between MPI_Init and the end of MPI_Finalize.

    Raises:
        NotInitializedError, FinalizedError: it isn't.
    """
    address = symbols.need("ompi_mpi_state")
    state = int.from_bytes(memory.read(address, 4), "little", signed=True)
    if state >= STATE_FINALIZE_COMPLETED:
        raise FinalizedError("the process has called MPI_Finalize: its communicators and queues are gone")
    if state < STATE_INIT_COMPLETED and not _has_session(memory, symbols):
        if state == 0:
            raise NotInitializedError("the process has not called MPI_Init yet: there are no communicators")
        raise NotInitializedError("the process is inside MPI_Init: its communicators are not made yet")


def _has_session(memory: Memory, symbols: Symbols) -> bool:
    """Tell whether a program without MPI_Init has begun a session (MPI 4, since 5.0.0)."""
    address = symbols.get("ompi_mpi_instance_default")
    return address is not None and memory.pointer(address) != 0


def identify(memory: Memory, symbols: Symbols, from_types: Layouts) -> Identity:
    """Return the release and the first layouts that hold in this process.

    The debugger's own types come first; a profile completes what they lack, and must hold itself.

    Raises:
        LayoutError: none holds; the text says what was tried and why each was refused.
    """
    release = release_of(memory, symbols)
    refusals: list[str] = []
    wanted = wanted_members(ALL_VIEWS)
    if all(struct in from_types for struct in wanted):
        try:
            check(memory, symbols, from_types)
        except MqsError as error:
            refusals.append(f"debug information: {error}")
        else:
            return Identity(release, from_types)
    profiles = [profile for profile in shipped("openmpi") if _applies(profile.present, profile.absent, symbols)]
    profiles.sort(key=lambda profile: release not in profile.releases)
    for profile in profiles:
        layouts = from_types.followed_by(profile.layouts)
        try:
            check_sizes(memory, symbols, profile.layouts)
            check(memory, symbols, layouts)
        except MqsError as error:
            refusals.append(f"profile {profile.name}: {error}")
        else:
            return Identity(release, layouts)
    tried = "; ".join(refusals) or "there is neither debug information nor a profile"
    raise LayoutError(f"no layout fits this Open MPI {release}: {tried}")


def types_of(image: TargetImage) -> Layouts:
    """Return the layouts that the debugger knows from debug information."""
    return from_debugger(image, wanted_members(ALL_VIEWS))


def _applies(present: tuple[str, ...], absent: tuple[str, ...], symbols: Symbols) -> bool:
    return all(symbols.get(name) is not None for name in present) and all(symbols.get(name) is None for name in absent)


def check_sizes(memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
    """Compare the size of each struct with what its class descriptor in the process says.

    Raises:
        LayoutError: they differ, or no descriptor could be compared.
    """
    compared = 0
    for struct in layouts:
        size = class_size(memory, symbols, layouts, struct.name)
        if struct.size is None or size is None:
            continue
        if size != struct.size:
            raise LayoutError(f"{struct.name} has {size} bytes in the process and {struct.size} there")
        compared += 1
    if not compared:
        raise LayoutError("the process has no class descriptors to compare with")


def check(memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
    """Check the invariants that tie Open MPI's structs together.

    The table of communicators holds objects of that class under their own numbers; their groups are groups; this
    process's rank in each is within its size, and the same in communicator and group; and the elements of the request
    pools are of the pool's class.

    Raises:
        LayoutError: one doesn't hold.
    """
    check_sizes(memory, symbols, layouts)
    try:
        _check_communicators(memory, symbols, layouts)
        _check_pools(memory, symbols, layouts)
    except (BrokenStructureError, TargetReadError) as error:
        raise LayoutError(str(error)) from error


def _check_communicators(memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
    containers = Containers(memory, symbols, layouts)
    communicator = views.Communicator.bind(layouts)
    group = views.Group.bind(layouts)
    communicator_class = symbols.need("ompi_communicator_t_class")
    group_class = symbols.need("ompi_group_t_class")
    checked = 0
    for slot, address in containers.pointer_array(symbols.need("ompi_mpi_communicators")):
        if address == 1:  # a number that is being agreed on, since 5.0.4
            continue
        comm = communicator.at(memory, address)
        if comm.obj_class != communicator_class:
            raise LayoutError(f"slot {slot} of ompi_mpi_communicators holds no communicator")
        local = group.at(memory, comm.c_local_group)
        if local.obj_class != group_class or group.at(memory, comm.c_remote_group).obj_class != group_class:
            raise LayoutError(f"communicator {slot} has no groups")
        if local.grp_my_rank != comm.c_my_rank:
            raise LayoutError(f"communicator {slot} and its group have different ranks for this process")
        if slot == 0 and not 0 <= comm.c_my_rank < local.grp_proc_count:
            raise LayoutError(f"MPI_COMM_WORLD has rank {comm.c_my_rank} of {local.grp_proc_count}")
        checked += 1
    if not checked:
        raise LayoutError("there are no communicators to check the layouts with")


def _check_pools(memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
    containers = Containers(memory, symbols, layouts)
    state = views.Request.bind(layouts).offsets["req_state"]
    for name in ("mca_pml_base_recv_requests", "mca_pml_base_send_requests"):
        containers.pool_elements(symbols.need(name), state)
