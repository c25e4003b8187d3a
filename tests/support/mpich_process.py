"""A made-up process of MPICH: requests and communicators of a shipped layout, in memory made for the purpose."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import cast

from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import available
from mqs_dll.library.layouts.view import Rows, View
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary
from mqs_dll.library.mpi.mpich import handles, views
from mqs_dll.library.mpi.mpich.communicators import MpichCommunicators, MpichEntry
from mqs_dll.library.mpi.mpich.groups import RankDecoder
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.pools import Pools
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.release import Release
from mqs_dll.library.mpi.mpich.requests import RequestKind, kinds_of
from tests.support.memory_image import MemoryImage, NoSymbols

REQUESTS = 0x7F0000000000
COMMUNICATORS = 0x7F1000000000
ROOM = 64 * PAGE
FIRST_HANDLE = 0xAC000000
MPI_INT = 0x4C000405
SIZE = 4
"""Processes of each communicator: the ranks of MPI_COMM_WORLD except for those of another job."""


class _Pools:
    """Says which objects are in use."""

    def __init__(self) -> None:
        self.addresses: dict[int, list[int]] = {handles.COMM: [], handles.REQUEST: []}
        self.by_class: dict[int, list[object]] = {handles.DATATYPE: []}
        self.memory: Memory | None = None

    def live(self, cls: int, most: int | None = None) -> list[int]:
        return self.addresses.get(cls, [])[:most]

    def in_use(self, cls: int) -> Iterator[tuple[Rows, list[int]]]:
        assert self.memory is not None
        addresses = self.addresses[cls]
        if addresses:
            data = self.memory.locate(addresses[0], PAGE * len(addresses))
            yield Rows(addresses[0], len(addresses), PAGE, *data), list(range(len(addresses)))

    def size_of(self, cls: int) -> int:
        return PAGE

    def neighbours(self, cls: int, pair: tuple[int, int], likely: object) -> None:
        """Say that the library's variables are not there."""


class _Ranks(RankDecoder):
    """Gives every communicator the ranks of MPI_COMM_WORLD, or those of another job."""

    def __init__(self) -> None:
        self.strangers: set[int] = set()

    def local(self, comm: views.Comm) -> tuple[int, ...]:
        return self.peers(comm)

    def peers(self, comm: views.Comm) -> tuple[int, ...]:
        return (-1,) * SIZE if comm.address in self.strangers else tuple(range(SIZE))

    def lowest(self, comm: views.Comm) -> int:
        return min(self.peers(comm))


def layouts_with(struct_name: str, member: str) -> Layouts:
    """Return the layouts of the shipped profile that has a member which identifies the device."""
    for profile in available("mpich")[0]:
        if struct_name in profile.layouts and profile.layouts.offset(struct_name, member) is not None:
            return profile.layouts
    raise AssertionError(f"no profile has {struct_name}.{member}")


class MpichProcess:
    """Communicators and requests, each at the start of a page; MPI_COMM_WORLD is there."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.requests = bytearray(ROOM)
        self.communicators = bytearray(ROOM)
        self._pools = _Pools()
        self._ranks = _Ranks()
        self._comm = views.by_context_id(views.Comm, views.NarrowComm, layouts)
        self.world = self.comm(0, handle=COMM_WORLD)

    def put(self, view: type[View], address: int, **members: int) -> None:
        """Write members of a struct, by the names of a view's attributes."""
        place, base = (self.requests, REQUESTS) if address < COMMUNICATORS else (self.communicators, COMMUNICATORS)
        reader = view.bind(self.layouts)
        for name, value in members.items():
            struct.pack_into("<" + view.members[name].code, place, address - base + reader.offsets[name], value)

    def comm(self, context_id: int, *, strangers: bool = False, **members: int) -> int:
        """Make a communicator; return its address."""
        known = self._pools.addresses[handles.COMM]
        address = COMMUNICATORS + len(known) * PAGE
        known.append(address)
        defaults = {"handle": 0x84000000 + len(known), "ref_count": 1, "local_size": SIZE, "remote_size": SIZE}
        self.put(self._comm, address, context_id=context_id, recvcontext_id=context_id, **{**defaults, **members})
        if strangers:
            self._ranks.strangers.add(address)
        return address

    def next_address(self) -> int:
        """Return where the next request will be."""
        return REQUESTS + len(self._pools.addresses[handles.REQUEST]) * PAGE

    def request(self, kind: int, **members: int) -> int:
        """Make a request with the members that all devices have; return its address."""
        address = self.next_address()
        known = self._pools.addresses[handles.REQUEST]
        handle = FIRST_HANDLE + len(known)
        known.append(address)
        counter = address + views.MpirRequest.bind(self.layouts).offsets["cc"]
        defaults = {"handle": handle, "ref_count": 2, "kind": kind, "cc": 1, "cc_ptr": counter}
        self.put(views.MpirRequest, address, **{**defaults, **members})
        return address

    def kind(self, kind: RequestKind) -> int:
        """Return the number of a kind of request."""
        return next(number for number, meaning in kinds_of(self.layouts).items() if meaning is kind)

    def parts(self, device: str) -> MpichProcessContext:
        """Return what a device reads from."""
        memory, pools = self._memory(), cast(Pools, self._pools)
        self._pools.memory = memory
        return MpichProcessContext(
            NoSymbols(),
            memory,
            LoadedLibrary(0, (), ""),
            self.layouts,
            Release("made up", device),
            pools,
            None,
            self._ranks,
        )

    def entry(self, address: int) -> MpichEntry:
        """Return a communicator as the session has it."""
        return next(each for each in self._read_communicators(self._memory()).read() if each.view.address == address)

    def _read_communicators(self, memory: Memory) -> MpichCommunicators:
        return MpichCommunicators(memory, self.layouts, cast(Pools, self._pools), None, self._ranks)

    def _memory(self) -> Memory:
        return Memory(MemoryImage({REQUESTS: bytes(self.requests), COMMUNICATORS: bytes(self.communicators)}))
