"""Fits a profile to another build of its release line, where no profile is of the process's build.

What configure leaves out of a release moves the device's part of two structs, and nothing else:

    MPIR_Comm      dev.ch4.map ...    by what the struct has more or less than in the profile
    MPIR_Request   dev.ch4            16 bytes to the front without shared memory: no is_local, no anysrc_partner

The pools' records tell the sizes. Where both parts lie, the process shows: the maps of its communicators close at one
place alone, and dev.ch4 of a request starts with the address of UCX's request, which refers back to it; in a build with
shared memory, its receives show where their active messages are (fitting_shm). Members that a build without shared
memory doesn't have are left out, and so is all of dev.ch4 until a request has shown it.

Source: src/mpid/ch4/include/mpidpre.h (MPIDI_Devreq_t, MPIDI_Devcomm_t, MPIDI_rank_map_t) of 4.0.3 to 5.0.1,
src/mpid/ch4/netmod/ucx/ucx_pre.h; two pairs of builds (4.0.3 and Debian's 4.0.2, 4.2.3 and Debian's 4.2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from mqs_dll.contract.abi import INVALID_RANK
from mqs_dll.contract.errors import LayoutError, MqsError, TargetReadError, TooMuchError
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.layouts.profiles import Profile
from mqs_dll.library.memory import WORD, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary
from mqs_dll.library.mpi.mpich import fitting_shm, handles, pools, views
from mqs_dll.library.mpi.mpich.groups import RankDecoder
from mqs_dll.library.mpi.mpich.pools import Pools
from mqs_dll.library.mpi.mpich.release import Release

DIRECT_NETMOD = "ch4:ucx"
"""The device of a build without shared memory: all messages go through UCX."""

COMM, REQUEST, WIN = views.Comm.struct, views.MpirRequest.struct, views.MpirWin.struct
MAP = "dev.ch4.map"
UNION = "dev.ch4."
STARTS = ("dev.ch4.self.buf", "dev.ch4.preq.p_type", "dev.ch4.part_req.am.peer_req_ptr")
"""What members of the union of a request start with."""
IS_LOCAL = "dev.is_local"
OF_SHARED_MEMORY = (IS_LOCAL, "dev.anysrc_partner", "dev.type", "dev.ch4.am.")
"""Members of a request that only a build with shared memory has, or has a use for."""
WITHOUT_SHARED_MEMORY = -16
"""Bytes by which the union moves where the first two are missing."""
FOR_GOOD = " for good"
FITTED = "fitted from profile "
"""What the source of a fitted layout starts with."""

NONE = 11
"""The mode of the local map of a communicator that isn't between two groups (MPIDI_RANK_MAP_NONE)."""

NO_PROFILE = "no profile is of this build of MPICH, and"
NOT_SHOWN = (
    f"{NO_PROFILE} no request of this process has shown yet where the device's part of one lies",
    "sample it again after it has sent or received, or run mqs calibrate",
)
NEVER_SHOWN = (
    f"{NO_PROFILE} no profile of its release line has how requests of one with shared memory are laid out",
    "run mqs calibrate",
)
"""Why there are no queues where that part was left out, so far and at all; and the remedy."""

MAX_REQUESTS = 256
"""Requests that are asked where their union starts: those in use, and the first ones that were."""
FIRST_REQUESTS = 16
"""Those of each array that were used first."""
MAX_COMMUNICATORS = 256
"""Communicators that are checked."""
MAX_MOVE = 64
"""Bytes by which the union is looked for elsewhere, to either side."""
BEFORE = range(-384, -192, WORD)
"""Where a request of UCX's may refer back to MPICH's: in its first members, before the place that MPICH has of it
(``ucp_request.user_data``, in UCX 1.13 to 1.23 that is 248 to 264 bytes before), or else at that place."""

_known_starts: dict[tuple[str, int], int] = {}
"""Where the union starts, or with shared memory the active message in it, by the library's build and the size of its
requests, as another process of it has shown."""


def is_of_line(profile: Profile, version: str) -> bool:
    """Return whether a profile was made from a release of the line that a version is of: "4.2" of "4.2.1"."""
    return version.split(".")[:2] in [each.split(".")[:2] for each in profile.releases]


def fit(
    memory: Memory, release: Release, library: LoadedLibrary, symbols: dict[str, int], layouts: Layouts, name: str
) -> tuple[Pools, str]:
    """Return the pools of a process, with layouts that are fitted from those of another build of its release line.

    Args:
        memory: of the process.
        release: of its MPICH.
        library: its MPICH.
        symbols: as for pools.find.
        layouts: those of the other build.
        name: of the profile that they are from.

    Returns:
        The pools with the layouts, and a sentence: what held in the process.

    Raises:
        LayoutError: none fit, or more than one; the text says why.
        TargetReadError: what would show it can't be read.
    """
    if not release.device.startswith("ch4:"):
        raise LayoutError(f"only builds of ch4 can be fitted, and this one is {release.device or 'of no known device'}")
    sizes = pools.sizes(memory, layouts, library)
    unknown = [struct for cls, struct in handles.CLASSES.items() if cls not in sizes]
    if unknown:
        raise LayoutError(f"the records of the pools don't tell the size of {' and '.join(unknown)}")
    for cls, struct in handles.CLASSES.items():
        if struct not in (COMM, REQUEST, WIN) and sizes[cls] != layouts.size(struct):
            raise LayoutError(f"{struct} has {sizes[cls]} bytes, and nothing tells which of its members moved")
    by = sizes[handles.COMM] - layouts.size(COMM)
    comm = _moved(layouts.struct(COMM), sizes[handles.COMM], by)
    base = layouts.struct(REQUEST)
    start = base.offsets.get(STARTS[0], -1)
    if {base.offsets.get(each, -1) for each in STARTS} != {start} or start < 0:
        raise LayoutError(f"it doesn't tell where dev.ch4 of {REQUEST} starts")
    window = layouts.struct(WIN)._replace(size=sizes[handles.WIN])
    request = _without(base, *OF_SHARED_MEMORY)._replace(size=sizes[handles.REQUEST])
    found = pools.find(memory, Layouts([comm, request, window, *layouts]), library, symbols)
    checked = _check_communicators(memory, found)
    _check_requests(memory, found)
    parts, words, held = [_without(request, UNION)], f"dev of {REQUEST} left out", ""
    if release.device == DIRECT_NETMOD:
        shown = _start_of_union(memory, found, start)
        if shown is not None:
            moved = shown - start
            expected = WITHOUT_SHARED_MEMORY if IS_LOCAL in base.offsets else 0
            if moved != expected:
                raise LayoutError(f"requests show their dev.ch4 shifted by {moved:+}, and it should be by {expected:+}")
            _known_starts[library.build, sizes[handles.REQUEST]] = shown
            parts, words = [_moved(request, sizes[handles.REQUEST], moved)], f"dev shifted by {moved:+} in {REQUEST}"
            held = "; requests refer to requests of UCX's there, which refer back to them"
    elif (record := fitting_shm.record_of(layouts, release.version)) is None:
        words += FOR_GOOD
    else:
        moved = 0 if IS_LOCAL in base.offsets else -WITHOUT_SHARED_MEMORY
        whole = fitting_shm.with_shared_memory(_moved(request, sizes[handles.REQUEST], moved), start + moved)
        shared = Pools(memory, Layouts([whole, *found.layouts]), library, found.by_class)
        at = _start_of_messages(memory, shared, record, start + moved)
        if at is not None:
            parts = [fitting_shm.with_record(whole, record, at), *fitting_shm.outside(layouts)]
            words = f"dev shifted by {moved:+} in {REQUEST}, whose active messages lie at {at}"
            held = "; the active messages of receives are there, and at no other place"
    if MAP in comm.offsets:
        words = f"dev shifted by {by:+} in {COMM}, {words}"
    fitted = Layouts([comm, *parts, window, *layouts]).named(f"{FITTED}{name}: {words}")
    return Pools(memory, fitted, library, found.by_class), checked + held


def agree(one: Layouts, other: Layouts) -> bool:
    """Return whether two layouts have each member that both know at the same place."""
    return not any(
        struct.name in other and other.offset(struct.name, member) not in (None, offset)
        for struct in one
        for member, offset in struct.offsets.items()
    )


def refusal(layouts: Layouts) -> tuple[str, str]:
    """Return why layouts that were fitted don't tell where the device's part of a request lies, and the remedy.

    Both are empty where they do.
    """
    struct = layouts.struct(REQUEST)
    if not struct.origin.startswith(FITTED) or STARTS[0] in struct.offsets:
        return "", ""
    return NEVER_SHOWN if struct.origin.endswith(FOR_GOOD) else NOT_SHOWN


def _moved(struct: StructLayout, size: int, by: int) -> StructLayout:
    """Return a struct of another size, with its union elsewhere.

    Raises:
        LayoutError: there is no room for it.
    """
    offsets = {name: offset + by if name.startswith(UNION) else offset for name, offset in struct.offsets.items()}
    before = max(offset for name, offset in offsets.items() if not name.startswith("dev."))
    if any(not before < offset < size for name, offset in offsets.items() if name.startswith(UNION)):
        raise LayoutError(f"{struct.name} has {size} bytes, too few for its dev.ch4 shifted by {by:+}")
    return struct._replace(size=size, offsets=offsets)


def _without(struct: StructLayout, *prefixes: str) -> StructLayout:
    return struct._replace(offsets={name: at for name, at in struct.offsets.items() if not name.startswith(prefixes)})


# ---------------------------------------------------------------- communicators


def _check_communicators(memory: Memory, found: Pools) -> str:
    """Make sure that what communicators refer to is there, and that their maps of ranks close here alone; say so.

    Raises:
        LayoutError: it isn't, or they don't.
    """
    size = found.size_of(handles.COMM)
    addresses, live = _addresses(found), found.live(handles.COMM)
    comms = _read(memory, found.layouts, addresses)
    for comm in comms:
        if not {comm.node_comm, comm.node_roots_comm, comm.local_comm} <= {None, 0, *addresses, *live}:
            raise LayoutError(f"communicator {comm.handle:#x} refers to others that aren't there")
    offset = found.layouts.offset(COMM, MAP)
    if offset is None:
        return f"what {len(comms)} communicators refer to is there"
    reader = views.RankMap.bind(found.layouts)
    sizes = [(comm.address + reader.offsets["size"], comm.remote_size) for comm in comms]
    possible = [
        at
        for at in range(0, size - reader.end + 1, WORD)
        if all(memory.read(place + at, 4) == count.to_bytes(4, "little") for place, count in sizes)
    ]
    closing = [at for at in possible if _closes(memory, found.layouts, at - offset, addresses)]
    if closing != [offset]:
        raise LayoutError(f"the maps of {len(comms)} communicators close at {closing}, and should at {offset} alone")
    return f"the maps of {len(comms)} communicators close at one place alone, by which their dev was shifted"


def _addresses(found: Pools) -> list[int]:
    """Return where the communicators are that are checked.

    Raises:
        LayoutError: there is no MPI_COMM_WORLD.
    """
    size = found.size_of(handles.COMM)
    behind = (found.behind_direct(pool) for pool in found.by_class[handles.COMM])
    builtin = found.neighbours(handles.COMM, (handles.COMM_WORLD, handles.COMM_SELF), behind)
    if builtin is None:
        raise LayoutError("there is no MPI_COMM_WORLD to show where dev lies")
    return [builtin, builtin + size, *found.live(handles.COMM)[:MAX_COMMUNICATORS]]


def _read(memory: Memory, layouts: Layouts, addresses: Sequence[int]) -> list[views.Comm]:
    reader = views.by_context_id(views.Comm, views.NarrowComm, layouts).bind(layouts)
    return [comm for comm in (reader.at(memory, address) for address in addresses) if comm.ref_count > 0]


def _closes(memory: Memory, layouts: Layouts, by: int, addresses: Sequence[int]) -> bool:
    """Return whether the maps of all communicators are sound, if they lie some bytes from where they should."""
    try:
        comm = _moved(layouts.struct(COMM), layouts.size(COMM), by)
        moved = Layouts([comm, *layouts])
        comms, ranks, map = _read(memory, moved, addresses), RankDecoder(memory, moved), views.RankMap.bind(moved)
        for each in comms:
            own = ranks.local(each)
            between_groups = map.at(memory, each.address + (each.local_map or 0)).mode != NONE
            known = [rank for rank in own if rank != INVALID_RANK]
            if between_groups != bool(each.comm_kind) or len({*known}) != len(known):
                return False
            if own[each.rank] != comms[0].rank:
                return False
            ranks.peers(each)
    except TooMuchError:
        raise
    except (MqsError, IndexError, ValueError):
        return False
    return True


# ---------------------------------------------------------------- requests


def _check_requests(memory: Memory, found: Pools) -> None:
    """Make sure of what all requests in use have in common.

    Raises:
        LayoutError: a request's communicator is none, or its counter of completion is no request's.
    """
    reader = views.MpirRequest.bind(found.layouts)
    for address in found.live(handles.REQUEST, MAX_REQUESTS):
        request = reader.at(memory, address)
        counted = _is_of(memory, request.cc_ptr - reader.offsets["cc"], handles.REQUEST)
        if not counted or not (request.comm == 0 or _is_of(memory, request.comm, handles.COMM)):
            raise LayoutError(f"request {request.handle:#x} has no communicator, or no counter of completion")


def _is_of(memory: Memory, address: int, cls: int) -> bool:
    """Return whether an object of a class lies at an address."""
    try:
        handle = int.from_bytes(memory.read(address, 4), "little")
    except TargetReadError:
        return False
    return handles.class_of(handle) == cls and handles.kind_of(handle) != 0


def _start_of_union(memory: Memory, found: Pools, elsewhere: int) -> int | None:
    """Return where dev.ch4 starts in a request, None where no request shows it.

    Args:
        memory: of the process.
        found: its pools.
        elsewhere: where it starts in another build.

    Raises:
        LayoutError: requests show it in several places.
    """
    arrays = [array for pool in found.by_class[handles.REQUEST] for array in found.arrays(pool)]
    size = found.size_of(handles.REQUEST)
    used_first = (a.address + n * size for a in arrays for n in range(min(a.objects, FIRST_REQUESTS)))
    asked = islice(chain(found.live(handles.REQUEST, MAX_REQUESTS), used_first), MAX_REQUESTS)
    own = [range(array.address, array.address + array.objects * size) for array in arrays]
    possible = range(elsewhere - MAX_MOVE, min(elsewhere + MAX_MOVE, size - WORD) + 1, WORD)
    places = {
        place
        for address in asked
        for place, word in zip(possible, memory.pointers(address + possible.start, len(possible)), strict=True)
        if _is_of_ucx(found.library, word, own) and _refers_back(memory, word, address)
    }
    key = found.library.build, size
    if key in _known_starts:
        places.add(_known_starts[key])
    if len(places) > 1:
        raise LayoutError(f"requests refer to UCX's at {sorted(places)}, and should at one place")
    return next(iter(places), None)


def _start_of_messages(memory: Memory, found: Pools, record: StructLayout, start: int) -> int | None:
    """Return where requests of a build with shared memory have their active messages.

    None where no request shows it, or not one place alone.

    Args:
        memory: of the process.
        found: its pools, with the members before the union.
        record: how an active message is laid out.
        start: where the union starts.

    Raises:
        LayoutError: another process showed another place.
    """
    key = found.library.build, found.size_of(handles.REQUEST)
    requests = found.live(handles.REQUEST, MAX_REQUESTS)
    comms = _read(memory, found.layouts, _addresses(found))
    number, closing = fitting_shm.places(memory, found, record, requests, comms, start)
    if not number:
        return _known_starts.get(key)
    if len(closing) != 1:
        return None
    (place,) = closing
    if place != _known_starts.setdefault(key, place):
        raise LayoutError(f"active messages lie at {place} in this process, and in another one at {_known_starts[key]}")
    return place


def _is_of_ucx(library: LoadedLibrary, word: int, own: Sequence[range]) -> bool:
    """Return whether a word may be the address of a request of UCX's: of nothing that is MPICH's."""
    is_pointer = 1 << 16 < word < 1 << 47 and not word % WORD
    return is_pointer and not library.holds(word) and not any(word in each for each in own)


def _refers_back(memory: Memory, word: int, address: int) -> bool:
    """Return whether a request of UCX's refers to MPICH's request at an address."""
    try:
        return address == memory.pointer(word) or address in memory.pointers(word + BEFORE.start, len(BEFORE))
    except TargetReadError:
        return False  # it is no pointer
