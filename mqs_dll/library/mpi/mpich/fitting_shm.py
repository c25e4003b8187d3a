"""Where requests of a build with shared memory have their active messages, in layouts that are fitted.

Shared memory puts two members before dev.ch4, and the part of active messages into it, behind room for the netmods that
configure chose:

    MPIR_Request   ... | is_local | anysrc_partner | type, since 4.1 | dev.ch4: netmods' | am.req ... am.u

Where that part begins, receives and unexpected messages show: the address of their extension, a handle of a datatype,
a rank, the context id of their communicator and a tag are together at one place alone in all of them. Sends don't: ch4
leaves some of these members as they were.
Source: src/mpid/ch4/include/mpidpre.h (MPIDI_Devreq_t, MPIDIG_req_t, MPIDIG_req_ext_t) of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.layouts.view import View, int32, pointer, uint16, uint32, uint64
from mqs_dll.library.memory import WORD, Memory
from mqs_dll.library.mpi.mpich import contexts, handles, views
from mqs_dll.library.mpi.mpich.pools import Pools
from mqs_dll.library.mpi.mpich.requests import AM_UNEXPECTED, RequestKind, kinds_of, values_of

REQUEST = views.MpirRequest.struct
AM = "dev.ch4.am."
IS_LOCAL, PARTNER, TYPE = "dev.is_local", "dev.anysrc_partner", "dev.type"
BEFORE_UNION = 2 * WORD
"""Bytes of the first two."""
RECORD = "MPIDIG_req_t"
RECORD_TO_4_2 = "MPIDIG_req_t_to_4_2"
EXTENSION = views.AmExtension.struct
OUTSIDE = (EXTENSION, views.MessageHeader.struct)
SINCE_4_0, SINCE_4_1 = "_since_4_0", "_since_4_1"
"""Behind their names, in the file of what releases have in common."""
ACTIVE_MESSAGE = 1
"""A request's type."""
STATES = range(0x400)
"""What an active message may be at (MPIDIG_REQ_*), together."""
MOST_PROCESSES = 1 << 31
"""More than the communicator of a message has whose request doesn't name it."""
LINES_OF_RECORD = ("4.0.", "4.1.", "4.2.")


class Record(View):
    """An active message (MPIDIG_req_t), with context ids of 4 bytes."""

    struct = RECORD
    req: int = pointer()
    datatype: int = uint32()
    source: int | None = int32(name="u.recv.source", optional=True)  # to 4.2; later in status
    context_id: int = uint32(name="u.recv.context_id")
    tag: int | None = int32(name="u.recv.tag", optional=True)


class NarrowRecord(Record):
    """The same with context ids of 2 bytes."""

    context_id: int = uint16(name="u.recv.context_id")


class State(View):
    """What it is at."""

    struct = EXTENSION
    status: int = uint64()


def record_of(layouts: Layouts, version: str) -> StructLayout | None:
    """Return how active messages of a release are laid out, from where they begin; None where that isn't known."""
    known = layouts.struct(REQUEST).offsets
    if f"{AM}req" in known:
        start = known[f"{AM}req"]
        members = {name.removeprefix(AM): at - start for name, at in known.items() if name.startswith(AM)}
        return StructLayout(RECORD, None, members, layouts.struct(REQUEST).origin)
    if version.startswith(LINES_OF_RECORD):
        return layouts.struct(RECORD_TO_4_2)._replace(name=RECORD)
    return None


def with_shared_memory(request: StructLayout, start: int) -> StructLayout:
    """Return a request's layout with the members that shared memory puts before its union.

    Args:
        request: its layout.
        start: where its union starts.
    """
    own = {IS_LOCAL: start - BEFORE_UNION, PARTNER: start - WORD}
    if has_type(request):
        own = {IS_LOCAL: start - BEFORE_UNION - WORD, PARTNER: start - BEFORE_UNION, TYPE: start - WORD}
    return request._replace(offsets={**request.offsets, **own})


def has_type(request: StructLayout) -> bool:
    """Tell whether requests have a type: 4.1.0 made it, and moved a member from before the communicator into dev."""
    return request.offsets["comm"] == 4 * WORD


def with_record(request: StructLayout, record: StructLayout, at: int) -> StructLayout:
    """Return a request's layout with its active message at a place."""
    return request._replace(offsets={**request.offsets, **{AM + name: at + by for name, by in record.offsets.items()}})


def outside(layouts: Layouts) -> list[StructLayout]:
    """Return what of active messages lies outside of requests: as in these layouts, or else as in all releases."""
    found = [
        layouts.struct(name) if name in layouts else layouts.struct(name + SINCE_4_0)._replace(name=name)
        for name in OUTSIDE
    ]
    if EXTENSION not in layouts and has_type(layouts.struct(REQUEST)):
        found[0] = found[0]._replace(offsets={**found[0].offsets, **layouts.struct(EXTENSION + SINCE_4_1).offsets})
    return found


def places(
    memory: Memory, found: Pools, record: StructLayout, requests: Sequence[int], comms: Sequence[views.Comm], start: int
) -> tuple[int, list[int]]:
    """Return how many receives and messages there are, and where the active messages of all of them can begin.

    Args:
        memory: of the process.
        found: its pools, with layouts as ``with_shared_memory`` returns them.
        record: how an active message is laid out.
        requests: the addresses of those in use.
        comms: the communicators.
        start: where the union of a request starts.

    Raises:
        LayoutError: a layout is missing.
        TargetReadError: a request can't be read.
    """
    layouts = Layouts([record, *outside(found.layouts), *found.layouts])
    reader = views.by_context_id(Record, NarrowRecord, layouts).bind(layouts)
    asked = _Asked(memory, layouts, comms)
    common, own = views.MpirRequest.bind(layouts), frozenset(requests)
    waiting = [each for each in (common.at(memory, at) for at in requests) if asked.waits(each, own)]
    size = found.size_of(handles.REQUEST)
    possible = range(start, size - reader.end + 1, WORD)
    closing = [
        at for at in possible if all(asked.is_message(reader.at(memory, each.address + at), each) for each in waiting)
    ]
    return len(waiting), closing


class _Asked:
    """Tells what an active message is, in one process."""

    def __init__(self, memory: Memory, layouts: Layouts, comms: Sequence[views.Comm]) -> None:
        self._memory = memory
        self._state = State.bind(layouts)
        self._kinds = kinds_of(layouts)
        self._values = values_of(layouts)
        self._comms = {comm.address: comm for comm in comms}

    def waits(self, request: views.MpirRequest, own: frozenset[int]) -> bool:
        """Return whether a request is one of shared memory that waits: a receive, or a message without one."""
        comm = self._comms.get(request.comm)
        if request.comm and (comm is None or (comm.local_size == 1 and not comm.comm_kind)):  # it sends to itself
            return False
        is_receive = bool(request.cc) and self._kinds.get(request.kind) is RequestKind.RECV
        is_active = request.is_local == 1 and request.type in (None, ACTIVE_MESSAGE)
        return is_receive and is_active and (not request.anysrc_partner or request.anysrc_partner in own)

    def is_message(self, found: Record, request: views.MpirRequest) -> bool:
        """Return whether the active message of a request that waits lies where this was read."""
        comm = self._comms.get(request.comm)
        size = MOST_PROCESSES if comm is None else comm.remote_size
        source, tag = found.source, found.tag
        return (
            handles.class_of(found.datatype) == handles.DATATYPE
            and handles.kind_of(found.datatype) != 0
            and (comm is None or contexts.communicator_of(found.context_id) == comm.recvcontext_id)
            and (source is None or source == self._values.any_source or 0 <= source < size)
            and (tag is None or tag == self._values.any_tag or tag >= 0)
            and self._has_state(found.req, has_arrived=comm is None)
        )

    def _has_state(self, address: int, *, has_arrived: bool) -> bool:
        try:
            state = self._state.at(self._memory, address).status
        except TargetReadError:
            return False
        return state in STATES and (not has_arrived or bool(state & AM_UNEXPECTED))
