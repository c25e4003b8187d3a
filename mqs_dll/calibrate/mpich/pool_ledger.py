"""MPICH's objects in the dumps: by their handles, as soon as the pools are known; and sightings of their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import SIZES, Ledger, NotFoundYet, Place, Row
from mqs_dll.calibrate.solver import Solved
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.mpich import handles, views

COMMS = (0x44000000, 0x44000001)
"""MPI_COMM_WORLD and MPI_COMM_SELF inside MPICH, whatever the program calls them."""

STANDARD_COMMS = {0x101: COMMS[0], 0x102: COMMS[1]}
"""What a program calls them that uses the MPI standard's ABI."""

PART = 1 << 16
"""Bytes that are searched at once."""

LARGEST_HANDLE = (1 << 32) - 1

INDEX_BITS = 12
"""Of a handle: the place in a block; the block's number is above."""


@dataclass(frozen=True)
class Array:
    """Objects of one class, one behind the other."""

    address: int
    count: int
    first_handle: int
    stride: int

    def addresses(self) -> range:
        """Return those of the objects."""
        return range(self.address, self.address + self.count * self.stride, self.stride)


class PoolLedger(Ledger):
    """What is found so far, and where the objects are."""

    views = views.ALL

    def __init__(self, dumps: Sequence[Dump]) -> None:
        super().__init__(dumps)
        self.dumps = [dump for dump in dumps if dump.truth["mode"] == "plain"]
        self.arrays: dict[tuple[int, int], list[Array]] = {}
        """By the dump's place in ``all_dumps`` and the class of objects."""
        self.rooms: dict[str, int] = {}
        """Bytes within which the members of a struct lie whose size is not known."""
        self._read: dict[tuple[int, str], list[tuple[int, bytes]]] = {}
        self.of_maps: set[int] = set()
        """Offsets in a communicator that belong to its maps of ranks."""

    def of_mode(self, mode: str) -> list[Dump]:
        """Return the dumps of one kind of run; none where that run could not be made."""
        return [each for each in self.all_dumps if each.truth["mode"] == mode]

    # ------------------------------------------------------------ objects

    def keep_arrays(self, dump: Dump, cls: int, arrays: Iterable[Array]) -> None:
        """Remember where the objects of a class lie in a process."""
        self.arrays[self._key(dump, cls)] = list(arrays)

    def _key(self, dump: Dump, cls: int) -> tuple[int, int]:
        return next(index for index, each in enumerate(self.all_dumps) if each is dump), cls

    def arrays_of(self, dump: Dump, cls: int) -> list[Array]:
        """Return the arrays of a class in a process."""
        return self.arrays.get(self._key(dump, cls), [])

    def address(self, dump: Dump, handle: int) -> int:
        """Return where the object with a handle lies.

        Raises:
            NotFoundYet: its pool is not known, or has no such object.
        """
        if handle > LARGEST_HANDLE:  # the MPI standard's ABI: handles are addresses
            if not any(self.is_object(dump, cls, handle) for cls in handles.CLASSES):
                raise NotFoundYet(f"there is no object at {handle:#x}")
            return handle
        handle = STANDARD_COMMS.get(handle, handle)
        for array in self.arrays_of(dump, handle >> 26 & 0xF):
            index = handle - array.first_handle
            if 0 <= index < array.count:
                return array.address + index * array.stride
        raise NotFoundYet(f"there is no object with the handle {handle:#x}")

    def has_object(self, dump: Dump, handle: int) -> bool:
        """Tell whether a handle is of an object in a pool: a send that is over at once has a predefined request."""
        try:
            self.address(dump, handle)
        except NotFoundYet:
            return False
        return True

    def handle_inside(self, dump: Dump, handle: int) -> int:
        """Return the handle that MPICH itself uses for an object of the program."""
        if handle <= LARGEST_HANDLE:
            return handle
        return self.member(dump, self.address(dump, handle), "MPIR_Handle_common", "handle", "I")

    def is_object(self, dump: Dump, cls: int, address: int) -> bool:
        """Tell whether an object of a class lies at an address."""
        return any(address in array.addresses() for array in self.arrays_of(dump, cls))

    def objects(self, dump: Dump, cls: int) -> Iterator[int]:
        """Yield the addresses of the live objects of a class; predefined ones count where they are known."""
        for array in self.arrays_of(dump, cls):
            for address in array.addresses():
                if self.member(dump, address, "MPIR_Handle_common", "ref_count", "i"):
                    yield address

    def shape(self, dump: Dump, comm: int) -> tuple[int, int]:
        """Return the rank in a communicator, and how many processes it has."""
        rank, size = (self.member(dump, comm, "MPIR_Comm", member, "i") for member in ("rank", "local_size"))
        return rank, size

    def inherit_head(self, struct: str) -> None:
        """Take over the members that all objects begin with."""
        for member in ("handle", "ref_count"):
            offset = self.offset("MPIR_Handle_common", member)
            self.remember(struct, member, Solved(offset, self.evidence["MPIR_Handle_common"][member]))

    def places_in(self, mode: str, kind: str, /, **where: object) -> list[Place]:
        """Return the objects that the truth has of a kind in another run, as ``places``."""
        return [
            (dump, self.address(dump, entry["handle"]), entry)
            for dump in self.of_mode(mode)
            for entry in dump.of(kind, **where)
        ]

    def places(self, kind: str, /, **where: object) -> list[Place]:
        """Return the objects that the truth has of a kind: process, address and entry."""
        return [(dump, self.address(dump, entry["handle"]), entry) for dump, entry in self.each(kind, **where)]

    def variables(self, dump: Dump, pattern: bytes, alignment: int = 4) -> list[int]:
        """Return where some bytes stand among the library's variables, at aligned addresses."""
        return self._search(dump, "variables", pattern, alignment)

    def shared(self, dump: Dump, address: int) -> list[int]:
        """Return where an address stands in the memory that the processes of a node share."""
        return self._search(dump, "shared", address.to_bytes(WORD, "little").rstrip(b"\0"), WORD)

    def _search(self, dump: Dump, kind: str, pattern: bytes, alignment: int) -> list[int]:
        found = []
        for start, data in self._parts(dump, kind):
            at = data.find(pattern)
            while at >= 0:
                if (start + at) % alignment == 0:
                    found.append(start + at)
                at = data.find(pattern, at + 1)
        return found

    def _parts(self, dump: Dump, kind: str) -> list[tuple[int, bytes]]:
        key = self._key(dump, 0)[0], kind
        if key not in self._read:
            self._read[key] = [part for start, end in dump.truth[kind] for part in _not_empty(dump, start, end)]
        return self._read[key]

    # ------------------------------------------------------------ members

    def room(self, struct: str, code: str, places: Sequence[Place] = ()) -> range:
        """Return the offsets that a member of a type can have in a struct."""
        size = SIZES.get(code, 0)
        room = self.rooms[struct] if struct in self.rooms else self.size(struct)
        return range(0, room - max(size, 1) + 1, size or 4)

    def optionally(self, struct: str, places: Sequence[Place], row: Row, among: Iterable[int] | None = None) -> bool:
        """Try to find a member that not every release has; tell whether it was found."""
        try:
            self.pin_rows(struct, places, row, among=among)
        except CalibrationError:
            return False
        return True

    def first_that_works(self, *attempts: Callable[[], object]) -> None:
        """Try several ways to find the same, the best first.

        Raises:
            CalibrationError: none worked; it is the first one's.
        """
        failures: list[CalibrationError] = []
        for attempt in attempts:
            try:
                attempt()
                return
            except CalibrationError as error:
                failures.append(error)
        raise failures[0]


def _not_empty(dump: Dump, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a range that aren't all zeros: Intel MPI has 150 MB of variables, most of them never used."""
    for address in range(start, end, PART):
        data = dump.read(address, min(PART, end - address))
        if data.count(0) != len(data):
            yield address, data
