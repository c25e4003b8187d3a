"""Which MPICH a process runs, whether it is up, and which layouts hold in it.

The record of each pool of objects has the true size of its struct, also in a stripped library: a layout is accepted
only when the sizes agree and the invariants of the predefined communicators close in this process.

In a stripped library the variable MPIR_Process is found by two of its members, the addresses of MPI_COMM_WORLD and
MPI_COMM_SELF one behind the other, and believed when its rank and size are those of MPI_COMM_WORLD.
Source: src/include/mpir_process.h of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from mqs_dll.contract.abi import MpiFacts, Recognition
from mqs_dll.contract.errors import (
    FinalizedError,
    LayoutError,
    MqsError,
    NotInitializedError,
    TooMuchError,
)
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import Layouts, from_debugger
from mqs_dll.library.layouts.profiles import Profile
from mqs_dll.library.layouts.selection import Identity, LayoutSelection, facts, nearest_first, of_machine
from mqs_dll.library.layouts.view import wanted_members
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.elf import LINKER_LIST, LoadedLibrary, find_bytes, library_at
from mqs_dll.library.mpi.mpich import fitting, handles, pools, views
from mqs_dll.library.mpi.mpich.groups import RankDecoder
from mqs_dll.library.mpi.mpich.pools import MAX_SEARCH, Pools
from mqs_dll.library.mpi.mpich.release import INTEL_VERSION, Release, read_release
from mqs_dll.library.mpi.mpich.romio import HEAP_END

SYMBOLS = (
    LINKER_LIST,
    HEAP_END,
    *pools.SYMBOLS.values(),
    "MPIR_Comm_builtin",
    "MPIR_Process",
    "MPII_Version_string",
    "MPII_Version_device",
    INTEL_VERSION,
)
"""Variables that shorten the search; most are there only where the library is not stripped."""


class MpichIdentity(NamedTuple):
    """What a process's MPICH is, and what was found in it by the layouts that were accepted."""

    common: Identity
    release: Release
    library: LoadedLibrary
    pools: Pools
    builtin: int | None
    """Address of MPI_COMM_WORLD, the first of the predefined communicators; None where a session does without them."""
    heap_end: int | None
    """Address of the C library's variable with the end of the heap."""


def symbols_of(image: TargetImage) -> dict[str, int]:
    """Return the addresses of the variables that the debugger knows."""
    found = ((name, image.find_symbol(name)) for name in SYMBOLS)
    return {name: address for name, address in found if address is not None}


def types_of(image: TargetImage) -> Layouts:
    """Return the layouts of the structs that a debugger's types have wholly.

    It can't read the parts of a member, so that a struct of which a view reads a part of a member comes from a profile.
    """
    wanted = wanted_members(views.ALL)
    plain = {struct: members for struct, members in wanted.items() if not any("." in member for member in members)}
    return Layouts(struct for struct in from_debugger(image, plain) if _is_complete(struct.name, struct.offsets))


def _is_complete(struct: str, members: Iterable[str]) -> bool:
    """Return whether a struct has every member that is not optional in each view of it."""
    known = set(members)
    return all(
        (member.name or attribute) in known
        for view in views.ALL
        if view.struct == struct
        for attribute, member in view.members.items()
        if not member.optional
    )


def identify(
    memory: Memory, anchor: int, symbols: dict[str, int], from_types: Layouts, profiles: Iterable[Profile]
) -> MpichIdentity:
    """Return what MPICH a process runs, and the first layouts that hold in it.

    A profile completes what debug information lacks. The profile of exactly this build comes first, then those of its
    release, then all others. Where none holds, layouts are fitted from those of the same release line (fitting.py).

    Raises:
        NotInitializedError, FinalizedError: the process is not between MPI_Init and MPI_Finalize.
        LayoutError: no layouts hold; the text says what was tried and why each was refused.
    """
    library = library_at(memory, anchor, symbols.get(LINKER_LIST))
    release = read_release(memory, library, symbols)
    selection = LayoutSelection()
    of_other_sizes = 0
    profiles = nearest_first(of_machine(profiles, library.machine), library.build, release.version)
    for profile in profiles:
        found = pools.find(memory, from_types.followed_by(profile.layouts), library, symbols)
        if not found.by_class[handles.COMM]:
            of_other_sizes += 1
            continue
        accepted = selection.try_candidate(f"profile {profile.name}", _accept, memory, release, symbols, found, profile)
        if accepted is not None:
            return accepted._replace(common=accepted.common._replace(refusals=tuple(selection.refusals)))
    if of_other_sizes:
        selection.refusals.append(f"{of_other_sizes} profiles are for communicators of another size")
    fits = []
    for profile in profiles:
        if fitting.is_of_line(profile, release.version):
            name = f"profile {profile.name} can't be fitted"
            accepted = selection.try_candidate(name, _fit, memory, release, library, symbols, from_types, profile)
            fits += [] if accepted is None else [accepted]
    if fits and all(fitting.agree(fits[0].common.layouts, each.common.layouts) for each in fits):
        return fits[0]._replace(common=fits[0].common._replace(refusals=tuple(selection.refusals)))
    if fits:
        names = " and ".join(each.common.profile.name for each in fits if each.common.profile)
        selection.refusals.append(f"profiles {names} both can be fitted, and differ")
    raise selection.failure(f"{release} ({release.device})", "there is no profile")


def _fit(
    memory: Memory,
    release: Release,
    library: LoadedLibrary,
    symbols: dict[str, int],
    from_types: Layouts,
    profile: Profile,
) -> MpichIdentity:
    known = from_types.followed_by(profile.layouts)
    found, checked = fitting.fit(memory, release, library, symbols, known, profile.name)
    accepted = _accept(memory, release, symbols, found, profile)
    return accepted._replace(common=accepted.common._replace(checks=(*accepted.common.checks, checked)))


def facts_of(release: Release, library: LoadedLibrary, transport: str, profile: Profile | None) -> MpiFacts:
    """Return what is known of an MPICH whose layouts come from a profile."""
    return facts(release.product, release.version, transport, library.build, library.base, profile)


def recognise(
    memory: Memory, anchor: int, symbols: dict[str, int], from_types: Layouts, profiles: Iterable[Profile]
) -> Recognition:
    """Return what is known from the library's constants and from the records of pools that are filled at link time.

    Raises:
        LayoutError: the library's header is missing.
    """
    library = library_at(memory, anchor, symbols.get(LINKER_LIST))
    release = read_release(memory, library, symbols)
    used, checks, refusals = None, [], []
    for profile in nearest_first(of_machine(profiles, library.machine), library.build, release.version):
        near = library.build in profile.builds or release.version in profile.releases
        found = pools.find(memory, from_types.followed_by(profile.layouts), library, symbols)
        if found.by_class[handles.COMM]:
            used, checks = profile, [sizes_agree(found)]
            break
        if near:
            size = found.layouts.struct(views.Comm.struct).size
            refusals.append(f"profile {profile.name}: the library has no pool of {views.Comm.struct} with {size} bytes")
    layouts = from_types if used is None else from_types.followed_by(used.layouts)
    known = facts_of(release, library, release.device, used)
    return Recognition(known, tuple(layouts.origins()), used is not None, tuple(checks), tuple(refusals))


def _accept(memory: Memory, release: Release, symbols: dict[str, int], found: Pools, profile: Profile) -> MpichIdentity:
    layouts = found.layouts
    builtin = builtin_comms(found, symbols.get("MPIR_Comm_builtin"))
    check_running(memory, layouts, found, builtin)
    if not found.by_class[handles.REQUEST]:
        size = layouts.struct(views.MpirRequest.struct).size
        raise LayoutError(f"the library has no pool of {views.MpirRequest.struct} with {size} bytes")
    if builtin is None:
        checks = _check_some_communicator(memory, layouts, found)
    else:
        size = found.size_of(handles.COMM)
        process = find_process(memory, layouts, found.library, builtin, size, symbols.get("MPIR_Process"))
        checks = _check_predefined(memory, layouts, builtin, size, process)
    return MpichIdentity(
        Identity(str(release), layouts, profile, (sizes_agree(found), *checks)),
        release=release,
        library=found.library,
        pools=found,
        builtin=builtin,
        heap_end=symbols.get(HEAP_END),
    )


def sizes_agree(found: Pools) -> str:
    """Return which sizes the pools have: they were found by those of the layouts."""
    sizes = {handles.CLASSES[pool.cls]: pool.size for pools in found.by_class.values() for pool in pools}
    sizes_known = ", ".join(f"{struct} has {size} bytes" for struct, size in sizes.items())
    return f"the records of the pools of objects say that {sizes_known}, as the layouts do"


def check_running(memory: Memory, layouts: Layouts, found: Pools, builtin: int | None) -> None:
    """Make sure that the process is between MPI_Init and the end of MPI_Finalize, or has a session (MPI 4).

    Raises:
        NotInitializedError, FinalizedError: it isn't.
    """
    if builtin is not None and _comm_view(layouts).bind(layouts).at(memory, builtin).ref_count > 0:
        return
    if found.live(handles.COMM):
        return
    if builtin is not None:
        raise FinalizedError("the process has called MPI_Finalize: its communicators and queues are gone")
    raise NotInitializedError("the process has not called MPI_Init yet: there are no communicators")


def _comm_view(layouts: Layouts) -> type[views.Comm]:
    return views.by_context_id(views.Comm, views.NarrowComm, layouts)


def _check_predefined(
    memory: Memory, layouts: Layouts, builtin: int, size: int, process: views.MpirProcess | None
) -> tuple[str, ...]:
    """Check what must hold of MPI_COMM_WORLD and MPI_COMM_SELF, and return it as sentences.

    Raises:
        LayoutError: it doesn't.
    """
    reader = _comm_view(layouts).bind(layouts)
    world, own = reader.at(memory, builtin), reader.at(memory, builtin + size)
    if (world.handle, own.handle) != (handles.COMM_WORLD, handles.COMM_SELF):
        raise LayoutError("MPI_COMM_WORLD and MPI_COMM_SELF are not one behind the other")
    if not 0 <= world.rank < world.local_size == world.remote_size or world.context_id or world.comm_kind:
        raise LayoutError(f"MPI_COMM_WORLD says rank {world.rank} of {world.local_size}, {world.remote_size}")
    if (own.rank, own.local_size, own.remote_size) != (0, 1, 1):
        raise LayoutError(f"MPI_COMM_SELF says rank {own.rank} of {own.local_size}")
    if not (world.name.strip(b"\0") or own.name.strip(b"\0")) or not (b"\0" in world.name and b"\0" in own.name):
        raise LayoutError("neither MPI_COMM_WORLD nor MPI_COMM_SELF has a name, or one of them does not end")
    if process is not None and (process.rank, process.size) != (world.rank, world.local_size):
        raise LayoutError(f"MPIR_Process says rank {process.rank} of {process.size}, MPI_COMM_WORLD {world.rank}")
    decoded = _check_ranks(memory, layouts, world, own)
    agreeing = "" if process is None else ", and so does MPIR_Process"
    return (
        "MPI_COMM_WORLD and MPI_COMM_SELF lie one behind the other, with their handles",
        f"MPI_COMM_WORLD says rank {world.rank} of {world.local_size}{agreeing}; MPI_COMM_SELF says rank 0 of 1",
        f"they are called {_text(world.name)} and {_text(own.name)}",
        decoded,
    )


def _text(name: bytes) -> str:
    return repr(name.partition(b"\0")[0].decode("utf-8", "replace"))


def _check_some_communicator(memory: Memory, layouts: Layouts, found: Pools) -> tuple[str, ...]:
    """Check what must hold of a communicator that was made from a session, and return it as sentences.

    Raises:
        LayoutError: it doesn't.
    """
    comm = _comm_view(layouts).bind(layouts).at(memory, found.live(handles.COMM)[0])
    if not (comm.comm_kind or 0 <= comm.rank < comm.local_size == comm.remote_size):
        raise LayoutError(f"a communicator says rank {comm.rank} of {comm.local_size}, {comm.remote_size}")
    RankDecoder(memory, layouts).local(comm)
    return (
        "there is no MPI_COMM_WORLD: the process uses MPI through sessions",
        f"a communicator says rank {comm.rank} of {comm.local_size}, and its processes can be decoded",
    )


def _check_ranks(memory: Memory, layouts: Layouts, world: views.Comm, own: views.Comm) -> str:
    ranks = RankDecoder(memory, layouts)
    try:
        ranks.know_world(world)
        if list(ranks.local(world)) != list(range(world.local_size)) or list(ranks.local(own)) != [world.rank]:
            raise LayoutError("MPI_COMM_WORLD's processes are not in order, or MPI_COMM_SELF is another process")
    except TooMuchError:
        raise
    except MqsError as error:
        raise LayoutError(f"the processes of MPI_COMM_WORLD can't be decoded: {error}") from error
    return "the processes of MPI_COMM_WORLD are in order, and that of MPI_COMM_SELF is this one"


# ---------------------------------------------------------------- the predefined communicators, and MPIR_Process


def builtin_comms(pools: Pools, symbol: int | None) -> int | None:
    """Return the address of the array of predefined communicators, None where MPI_Init has not filled it.

    It lies behind the array of direct ones in most builds; elsewhere it is found by the handles of its first two.
    """
    behind_direct = (pools.behind_direct(pool) for pool in pools.by_class[handles.COMM])
    return pools.neighbours(
        handles.COMM, (handles.COMM_WORLD, handles.COMM_SELF), chain([symbol] if symbol else [], behind_direct)
    )


def find_process(
    memory: Memory, layouts: Layouts, library: LoadedLibrary, builtin: int, comm_size: int, symbol: int | None
) -> views.MpirProcess | None:
    """Return the variable MPIR_Process, None where nothing resembles it."""
    reader = views.MpirProcess.bind(layouts)
    offset = reader.offsets["comm_world"]
    pair = struct.pack("<QQ", builtin, builtin + comm_size)
    found = chain(
        [symbol + offset] if symbol else [],  # unless the layout doesn't count from the struct's start
        find_bytes(memory, library, pair, MAX_SEARCH, symbol or builtin),
    )
    for place in found:
        try:
            process = reader.at(memory, place - offset)
        except MqsError:
            continue
        if process.comm_world == builtin and 0 <= process.rank < process.size:
            return process
    return None
