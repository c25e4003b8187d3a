"""Which Open MPI a process runs, whether it is up, and which layouts hold in it.

Open MPI has the true size of each of its classes: ``X_class``, an exported object, has the sizeof of X, also in
a stripped library and before MPI_Init (opal/class/opal_object.h, the same in 4.1 and 5.0). A layout is accepted
only when every one of these sizes agrees and the invariants of MPI_COMM_WORLD close in this process.
"""

from __future__ import annotations

from collections.abc import Iterable

from mqs_dll.contract.abi import MpiFacts, Recognition
from mqs_dll.contract.errors import (
    BrokenStructureError,
    FinalizedError,
    LayoutError,
    NotInitializedError,
    TargetReadError,
)
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import DEBUG_INFORMATION, Layouts, from_debugger
from mqs_dll.library.layouts.profiles import Profile
from mqs_dll.library.layouts.selection import Identity, LayoutSelection, facts, nearest_first, of_machine
from mqs_dll.library.layouts.view import View, wanted_members
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.elf import LINKER_LIST, LoadedLibrary, library_at
from mqs_dll.library.mpi.openmpi import cm_views, views
from mqs_dll.library.mpi.openmpi.communicators import PML_ADDED, RESERVED_SLOT, WORLD_FLAGS, number_of, text_of
from mqs_dll.library.mpi.openmpi.containers import Containers
from mqs_dll.library.mpi.openmpi.symbols import Symbols, class_size

PRODUCT = "Open MPI"

ALL_VIEWS = (*views.ALL, *cm_views.ALL)

MAX_VERSION = 64
"""Bytes read of ompi_version_string; releases have about six, a packager may have added to them."""

# ompi/runtime/mpiruntime.h: ompi_mpi_state_t, the same in 4.1 and 5.0
STATE_INIT_COMPLETED = 2
STATE_FINALIZE_COMPLETED = 5

NULL_SLOT = 2
NULL_NAME = b"MPI_COMM_NULL"
"""No program can rename MPI_COMM_NULL, which always has slot 2 (ompi/communicator/comm_init.c)."""


def release_of(memory: Memory, symbols: Symbols) -> str:
    """Return the release as Open MPI spells it, "4.1.4", or "of an unknown release"."""
    address = symbols.get("ompi_version_string")
    if address is not None:
        text = memory.text(address, MAX_VERSION)
        if text and all(32 < byte < 127 for byte in text):
            return text.decode()
    return "of an unknown release"


def check_running(memory: Memory, symbols: Symbols) -> None:
    """Make sure that the process is between MPI_Init and the end of MPI_Finalize, or has a session (MPI 4).

    Raises:
        NotInitializedError, FinalizedError: it isn't.
    """
    state = _int32(memory, symbols.need("ompi_mpi_state"))
    if STATE_INIT_COMPLETED <= state < STATE_FINALIZE_COMPLETED:
        return
    if 0 < state < STATE_INIT_COMPLETED:
        raise NotInitializedError("the process is inside MPI_Init: its communicators are not made yet")
    if _has_session(memory, symbols):
        return
    if state >= STATE_FINALIZE_COMPLETED:
        raise FinalizedError("the process has called MPI_Finalize: its communicators and queues are gone")
    raise NotInitializedError("the process has not called MPI_Init yet: there are no communicators")


def _has_session(memory: Memory, symbols: Symbols) -> bool:
    """Return whether the process uses MPI through sessions, without MPI_Init (ompi/instance/instance.c since 5.0.0)."""
    address = symbols.get("ompi_instance_count")
    return address is not None and _int32(memory, address) > 0


def _int32(memory: Memory, address: int) -> int:
    return int.from_bytes(memory.read(address, 4), "little", signed=True)


def profiles_for(symbols: Symbols, profiles: Iterable[Profile]) -> list[Profile]:
    """Return those of the profiles that are for a series of Open MPI with these symbols."""
    return [
        profile
        for profile in profiles
        if all(symbols.get(name) is not None for name in profile.present)
        and all(symbols.get(name) is None for name in profile.absent)
    ]


def library_of(memory: Memory, symbols: Symbols) -> LoadedLibrary:
    """Return Open MPI's own library in a process's memory, or in its file's.

    Raises:
        LayoutError: it has no header.
    """
    return library_at(memory, symbols.need("ompi_version_string"), symbols.get(LINKER_LIST))


def facts_of(memory: Memory, symbols: Symbols, transport: str, profile: Profile | None) -> MpiFacts:
    """Return what is known of an Open MPI whose layouts come from a profile."""
    release, build = release_of(memory, symbols), _build_of(memory, symbols)
    return facts(PRODUCT, release, transport, build, symbols.get("ompi_version_string") or 0, profile)


def _build_of(memory: Memory, symbols: Symbols) -> str:
    try:
        return library_of(memory, symbols).build
    except LayoutError:
        return ""


def recognise(memory: Memory, symbols: Symbols, from_types: Layouts, profiles: Iterable[Profile]) -> Recognition:
    """Return what is known from the library's constants and class descriptors alone.

    Raises:
        LayoutError: its header, or a symbol that leads there, is missing.
    """
    release = release_of(memory, symbols)
    library = library_of(memory, symbols)
    used, checks, selection = None, [], LayoutSelection()
    if _covers(from_types, ALL_VIEWS):
        profiles = ()
    for profile in nearest_first(of_machine(profiles, library.machine), library.build, release):
        compared = selection.try_candidate(f"profile {profile.name}", check_sizes, memory, symbols, profile.layouts)
        if compared is not None:
            used, checks = profile, [_sizes_agree(compared)]
            break
    layouts = from_types if used is None else from_types.followed_by(used.layouts)
    known = facts_of(memory, symbols, "", used)
    complete = _covers(layouts, views.ALL)
    return Recognition(known, tuple(layouts.origins()), complete, tuple(checks), tuple(selection.refusals))


def identify(memory: Memory, symbols: Symbols, from_types: Layouts, profiles: Iterable[Profile]) -> Identity:
    """Return the release and the first layouts that hold in this process.

    The debugger's own types come first; a profile completes what they lack, and must hold itself. The profile that
    was made from exactly this release is tried before its siblings. Types that lack only what this process's transport
    needs are better than none.

    Raises:
        LayoutError: none holds; the text says what was tried and why each was refused.
    """
    release = release_of(memory, symbols)
    title = f"{PRODUCT} {release}"
    selection = LayoutSelection()
    without_transport: Identity | None = None
    if _covers(from_types, views.ALL):
        checks = selection.try_candidate(DEBUG_INFORMATION, check, memory, symbols, from_types)
        if checks is not None:
            without_transport = Identity(title, from_types, None, checks)
            if _covers(from_types, _transport_views(memory, symbols, from_types)):
                return without_transport
    for profile in _in_order(memory, symbols, profiles, release):
        layouts = from_types.followed_by(profile.layouts)
        checks = selection.try_candidate(f"profile {profile.name}", _check_profile, memory, symbols, profile, layouts)
        if checks is not None:
            return Identity(title, layouts, profile, checks, tuple(selection.refusals))
    if without_transport is not None:
        return without_transport
    raise selection.failure(title, "there is neither debug information nor a profile")


def _check_profile(memory: Memory, symbols: Symbols, profile: Profile, layouts: Layouts) -> tuple[str, ...]:
    """Check a profile's own sizes, those that debug information takes the place of too, and all layouts together."""
    check_sizes(memory, symbols, profile.layouts)
    return check(memory, symbols, layouts)


def _in_order(memory: Memory, symbols: Symbols, profiles: Iterable[Profile], release: str) -> list[Profile]:
    """Return the nearest profiles first; which build it is costs some reads, and matters where the user made some."""
    candidates = list(profiles)
    build = _build_of(memory, symbols) if any(profile.of_user for profile in candidates) else ""
    return nearest_first(candidates, build, release)


def _covers(layouts: Layouts, needed: tuple[type[View], ...]) -> bool:
    return all(struct in layouts for struct in wanted_members(needed))


def _transport_views(memory: Memory, symbols: Symbols, layouts: Layouts) -> tuple[type[View], ...]:
    """Return the views that this process needs for its transport: those of pml/cm, if its requests are of that."""
    pool = views.OpalFreeList.bind(layouts).at(memory, symbols.need("mca_pml_base_recv_requests"))
    if pool.fl_frag_class != symbols.get("mca_pml_cm_hvy_recv_request_t_class"):
        return ()
    return cm_views.PML if symbols.get("ompi_mtl_ofi") is None else cm_views.ALL


def types_of(image: TargetImage) -> Layouts:
    """Return the layouts that the debugger knows from debug information."""
    return from_debugger(image, wanted_members(ALL_VIEWS))


def check_sizes(memory: Memory, symbols: Symbols, layouts: Layouts) -> int:
    """Compare the size of each struct with what its class descriptor in the process says; return how many there are.

    Raises:
        LayoutError: they differ, or there is no descriptor to compare with.
    """
    known = [struct for struct in layouts if struct.size is not None]  # a debugger may not know sizes
    compared = 0
    for struct in known:
        size = class_size(memory, symbols, layouts, struct.name)
        if size is None:
            continue
        if size != struct.size:
            raise LayoutError(f"{struct.name} has {size} bytes in the process and {struct.size} there")
        compared += 1
    if known and not compared:
        raise LayoutError("the process has no class descriptors to compare with")
    return compared


def _sizes_agree(compared: int) -> str:
    return f"Open MPI's class descriptors say the sizes of {compared} structs, and the layouts say the same"


def check(memory: Memory, symbols: Symbols, layouts: Layouts) -> tuple[str, ...]:
    """Check the invariants that tie Open MPI's structs together, and return them as sentences.

    The table of communicators holds objects of that class; their groups are groups; this process's rank in each is
    within its size, and the same in communicator and group; MPI_COMM_NULL lies under its number and carries its name;
    and the elements of the request pools are of the pool's class.

    Raises:
        LayoutError: one doesn't hold.
    """
    compared = check_sizes(memory, symbols, layouts)
    sizes = (_sizes_agree(compared),) if compared else ()
    try:
        return *sizes, *_check_communicators(memory, symbols, layouts), *_check_pools(memory, symbols, layouts)
    except (BrokenStructureError, TargetReadError) as error:
        raise LayoutError(str(error)) from error


def _check_communicators(memory: Memory, symbols: Symbols, layouts: Layouts) -> tuple[str, ...]:
    containers = Containers(memory, symbols, layouts)
    communicator = views.OmpiCommunicator.bind(layouts)
    communicator_class = symbols.need("ompi_communicator_t_class")
    names = {}
    for slot, address in containers.pointer_array(symbols.need("ompi_mpi_communicators")):
        if address == RESERVED_SLOT:
            continue
        comm = communicator.at(memory, address)
        if comm.obj_class != communicator_class:
            raise LayoutError(f"slot {slot} of ompi_mpi_communicators holds no communicator")
        if number_of(memory, comm) == slot:
            _check_communicator(slot, comm, memory, symbols, layouts)
            names[slot] = text_of(memory, comm)
    if names.get(NULL_SLOT) != NULL_NAME:
        raise LayoutError(f"communicator {NULL_SLOT} is not called {NULL_NAME.decode()}")
    return (
        f"the table of communicators holds {len(names)} objects of that class under their own numbers",
        "each has groups, and in communicator and group the same rank of this process, within the size",
        f"communicator {NULL_SLOT} is called {NULL_NAME.decode()}",
    )


def _check_communicator(
    slot: int, comm: views.OmpiCommunicator, memory: Memory, symbols: Symbols, layouts: Layouts
) -> None:
    group = views.OmpiGroup.bind(layouts)
    local, remote = (group.at(memory, address) for address in (comm.c_local_group, comm.c_remote_group))
    if not local.obj_class == remote.obj_class == symbols.need("ompi_group_t_class"):
        raise LayoutError(f"communicator {slot} has no groups")
    if local.grp_my_rank != comm.c_my_rank:
        raise LayoutError(f"communicator {slot} and its group have different ranks for this process")
    if comm.c_flags & PML_ADDED and not 0 <= comm.c_my_rank < local.grp_proc_count:
        raise LayoutError(f"communicator {slot} has rank {comm.c_my_rank} of {local.grp_proc_count}")
    if slot == 0 and comm.c_flags & WORLD_FLAGS != WORLD_FLAGS:
        raise LayoutError(f"MPI_COMM_WORLD has the flags {comm.c_flags:#x}")


def _check_pools(memory: Memory, symbols: Symbols, layouts: Layouts) -> tuple[str, ...]:
    containers = Containers(memory, symbols, layouts)
    request = views.OmpiRequest.bind(layouts)
    for name in ("mca_pml_base_recv_requests", "mca_pml_base_send_requests"):
        containers.pool_elements(symbols.need(name), request)
    return ("every request in the pools of receives and of sends is of its pool's class",)
