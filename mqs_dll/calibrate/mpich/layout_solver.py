"""MPICH's objects in the dumps: by their handles, as soon as the pools are known; and observations of their members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.layout_solver import SIZES, LayoutSolver, MemberRow, Neighbour, NotFoundYet, Place
from mqs_dll.calibrate.offset_solver import Observation, Solved
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.library.layouts import profiles
from mqs_dll.library.mpi.mpich import handles, views

HEAD = "MPIR_Handle_common"

COMMS = (0x44000000, 0x44000001)
"""MPI_COMM_WORLD and MPI_COMM_SELF inside MPICH, whatever the program calls them."""

STANDARD_COMMS = {0x101: COMMS[0], 0x102: COMMS[1]}
"""What a program calls them that uses the MPI standard's ABI."""

MAX_PREDEFINED = 0x3FF
"""The greatest predefined handle of the MPI standard's ABI, where others are addresses (MPI 5.0, appendix A)."""

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


class MpichLayoutSolver(LayoutSolver):
    """What is found so far, and where the objects are."""

    views = views.ALL
    neighbours = (
        Neighbour("MPIR_Request", "status.MPI_ERROR", "status.MPI_TAG", 4, "mpi.h, in every ABI"),
        Neighbour("MPIR_Object_alloc_t", "num_allocated", "kind", -8, "mpir_objects.h since 4.0"),
        Neighbour("MPIR_Object_alloc_t", "num_avail", "kind", -4, "mpir_objects.h since 4.0"),
    )
    fixed = profiles.fixed("mpich")

    def __init__(self, dumps: Sequence[Dump]) -> None:
        super().__init__(dumps)
        self.dumps = self.of_mode("plain")
        self.arrays: defaultdict[tuple[Dump, int], list[Array]] = defaultdict(list)
        """By the process and the class of objects."""
        self.extents: dict[str, int] = {}
        """Bytes within which the members of a struct lie whose size is not known."""
        self.of_maps: set[int] = set()
        """Offsets in a communicator that belong to its maps of ranks."""

    def of_mode(self, mode: str) -> list[Dump]:
        """Return the dumps of one kind of run; none where that run could not be made."""
        return [each for each in self.all_dumps if each.truth["mode"] == mode]

    # ------------------------------------------------------------ objects

    def address(self, dump: Dump, handle: int) -> int:
        """Return where the object with a handle lies.

        Raises:
            NotFoundYet: its pool is not known, or has no such object.
        """
        address = self.find(dump, handle)
        if not address:
            by = "at" if is_address(dump, handle) else "with the handle"
            raise NotFoundYet(f"there is no object {by} {STANDARD_COMMS.get(handle, handle):#x}")
        return address

    def find(self, dump: Dump, handle: int) -> int:
        """Return the same, 0 where there is none: a send that is over at once has a predefined request."""
        if is_address(dump, handle):
            return handle if any(self.is_object(dump, cls, handle) for cls in handles.CLASSES) else 0
        handle = STANDARD_COMMS.get(handle, handle)
        arrays = self.arrays[dump, handles.class_of(handle)]
        found = (
            array.addresses()[handle - array.first_handle]
            for array in arrays
            if 0 <= handle - array.first_handle < array.count
        )
        return next(found, 0)

    def comm(self, dump: Dump, label: str) -> int:
        """Return the address of a communicator of a process, by its label."""
        return self.address(dump, comm_of(dump, label)["handle"])

    def handle_inside(self, dump: Dump, handle: int) -> int:
        """Return the handle that MPICH itself uses for an object of the program."""
        if not is_address(dump, handle):
            return handle
        return self.member(dump, self.address(dump, handle), HEAD, "handle", "I")

    def is_object(self, dump: Dump, cls: int, address: int) -> bool:
        """Return whether an object of a class lies at an address."""
        return any(address in array.addresses() for array in self.arrays[dump, cls])

    def objects(self, dump: Dump, cls: int) -> Iterator[int]:
        """Yield the addresses of the live objects of a class; predefined ones count where they are known."""
        for array in self.arrays[dump, cls]:
            for address in array.addresses():
                if self.member(dump, address, HEAD, "ref_count", "i"):
                    yield address

    def places(self, kind: str, mode: str = "plain", /, **where: object) -> list[Place]:
        """Return the objects that the truth of one kind of run has of a kind: process, address and entry."""
        entries = ((dump, entry) for dump in self.of_mode(mode) for entry in dump.of(kind, **where))
        return [(dump, self.address(dump, entry["handle"]), entry) for dump, entry in entries]

    def requests(self, mode: str = "plain", /, **where: object) -> list[Place]:
        """Return the same of the program's requests, as far as they have an object."""
        entries = ((dump, entry) for dump in self.of_mode(mode) for entry in dump.of("requests", **where))
        return [(dump, at, entry) for dump, entry in entries if (at := self.find(dump, entry["handle"]))]

    # ------------------------------------------------------------ members

    def possible_offsets(self, struct: str, code: str, places: Sequence[Place] = ()) -> range:
        """Return the offsets that a member of a type can have in a struct."""
        size = SIZES.get(code, 4)
        extent = self.extents[struct] if struct in self.extents else self.size(struct)
        return range(0, extent - size + 1, size)

    def code_of(self, struct: str, member: str) -> str:
        """Return the type of a member, as some view declares it; context ids are as wide as they were found to be."""
        code = super().code_of(struct, member)
        return "H" if code == "I" and member.endswith("context_id") and self.size(views.CONTEXT_ID) == 2 else code

    def inherit_head(self, struct: str) -> None:
        """Take over the members that all objects start with."""
        for member in ("handle", "ref_count"):
            self.remember(struct, member, Solved(self.offset(HEAD, member), self.evidence[HEAD][member]))

    def count_from_first(self, struct: str) -> None:
        """Count the offsets of a struct from its first member: what precedes that doesn't show."""
        first = min(self.offsets[struct].values())
        self.offsets[struct] = {member: offset - first for member, offset in self.offsets[struct].items()}

    def solve_seen(
        self,
        struct: str,
        member: str,
        what: str,
        places: Iterable[tuple[Dump, int, Hashable]],
        seen: Callable[[Dump, int], Hashable],
        among: Iterable[int] | None = None,
        *,
        constant: bool = False,
    ) -> int:
        """Find a member by what is to be seen in some objects; ``seen`` reads an address. Otherwise as ``solve``."""

        def observation(dump: Dump, at: int, expected: Hashable) -> Observation:
            return Observation(what, expected, lambda offset: seen(dump, at + offset))

        return self.solve(struct, member, [observation(*place) for place in places], among, constant=constant)

    def optionally(
        self, struct: str, places: Sequence[Place], row: MemberRow, among: Iterable[int] | None = None
    ) -> bool:
        """Try to find a member that not every release has; return whether it was found."""
        try:
            self.solve_members(struct, places, row, among=among)
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


def comm_of(dump: Dump, label: str) -> dict[str, Any]:
    """Return the truth's entry of a communicator of a process."""
    return dump.of("comms", label=label)[0]


def is_address(dump: Dump, handle: int) -> bool:
    """Return whether a handle of the program is an object's address, which may be as small as a number of MPICH's."""
    return handle > MAX_PREDEFINED and comm_of(dump, "world")["handle"] in STANDARD_COMMS


def is_near(dump: Dump, rank: int) -> bool:
    """Return whether a process is on the same node in the run with several: even or odd ranks (SEVERAL_NODES)."""
    return bool(rank % 2 == dump.truth["rank"] % 2)


def find_number(dump: Dump, value: int, size: int, where: str = "variables") -> list[int]:
    """Return where a number stands among the library's variables, or in what the processes of a node have "shared"."""
    return dump.find_bytes(value.to_bytes(size, "little"), size, dump.truth[where])
