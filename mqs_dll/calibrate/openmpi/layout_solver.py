"""What is known of Open MPI's classes so far, and readers of objects that need no more than that."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from mqs_dll.calibrate.dump import MAX_LIST_LENGTH, WORD, Dump, UnreadableError
from mqs_dll.calibrate.layout_solver import INSIDE, SIZES, LayoutSolver, Neighbour, NotFoundYet, Place
from mqs_dll.calibrate.offset_solver import Observation
from mqs_dll.library.layouts import profiles
from mqs_dll.library.mpi.openmpi.identity import ALL_VIEWS


class OpenMpiLayoutSolver(LayoutSolver):
    """The layouts as far as they are found, and the readers."""

    views = ALL_VIEWS
    neighbours = (
        Neighbour(
            "mca_pml_ob1_comm_proc_t",
            "send_sequence",
            "expected_sequence",
            4,
            "nothing but an int16 lies between, which 5.0 has for the peer's number of the communicator "
            "(pml_ob1_comm.h of 4.1.0 to 6.0.0rc2)",
        ),
        Neighbour("ompi_mtl_ofi_request_t", "completion_count", "comm", -56, "mtl_ofi_request.h of 4.1.0 to 6.0.0rc2"),
        Neighbour("ompi_mtl_ofi_request_t", "buffer", "length", -8, "mtl_ofi_request.h of 4.1.0 to 6.0.0rc2"),
        Neighbour("ompi_mtl_ofi_request_t", "parent", "remote_addr", 8, "mtl_ofi_request.h of 4.1.0 to 6.0.0rc2"),
        Neighbour("opal_convertor_t", "pDesc", "count", -16, "opal_convertor.h of 4.1.0 to 6.0.0rc2"),
        Neighbour("mca_mtl_ofi_module_t", "rx_ctx_bits", "any_addr", -32, "mtl_ofi_types.h of 4.1.0 to 6.0.0rc2"),
        Neighbour("mca_mtl_ofi_module_t", "provider_name", "any_addr", 8, "mtl_ofi_types.h of 4.1.0 to 6.0.0rc2"),
    )
    fixed = profiles.fixed("openmpi")

    def __init__(self, dumps: Sequence[Dump]) -> None:
        super().__init__(dumps)
        self.dumps = [dump for dump in dumps if dump.truth["pml"] != "cm"]
        """Those of processes with pml/ob1."""
        self.cm_dumps = [dump for dump in dumps if dump.truth["pml"] == "cm"]
        self.parents: dict[str, str] = {}
        self._embedded: dict[str, list[tuple[int, int]]] = {}
        self._class_names: dict[tuple[int, int], str] = {}
        self._slots: dict[int, dict[int, int]] = {}

    def places(self, kind: str, /, **where: object) -> list[Place]:
        """Return the objects that the truth has of a kind: process, address and entry."""
        return [(dump, entry["address"], entry) for dump, entry in self.each(kind, **where)]

    def possible_offsets(self, struct: str, code: str, places: Sequence[Place] = ()) -> list[int]:
        """Return the offsets of a class's own members: behind those of its parent, and not inside an embedded object.

        An embedded object is recognised by its descriptor's address, at the same offset in all of ``places``; a member
        that is a struct may be one.
        """
        step = WORD if code == INSIDE else SIZES.get(code, 1)
        parent = self.parents.get(struct)
        start, end = self.size(parent) if parent else 0, self.size(struct)
        if places and struct not in self._embedded:
            self._embedded[struct] = [*self._find_embedded(range(start, end - WORD + 1, WORD), places)]
        embedded = () if code == INSIDE else self._embedded.get(struct, ())
        taken = {at for offset, size in embedded for at in range(offset, offset + size)}
        return [offset for offset in range(start, end - step + 1, step) if offset not in taken]

    def _find_embedded(self, offsets: range, places: Sequence[Place]) -> Iterator[tuple[int, int]]:
        """Yield offset and size of each object that lies inside all instances of a class."""
        for offset in offsets:
            name = self.class_of(places[0][0], places[0][1] + offset)
            if name in self.sizes and all(self.class_of(dump, at + offset) == name for dump, at, _ in places):
                yield offset, self.sizes[name]

    def class_of(self, dump: Dump, address: int) -> str:
        """Return the name of the class of an object, "" where there is none."""
        try:
            descriptor = dump.word(address + self.offset("opal_object_t", "obj_class"))
            key = (id(dump), descriptor)
            if key not in self._class_names:
                self._class_names[key] = self._name_of_class(dump, descriptor)
            return self._class_names[key]
        except UnreadableError:
            return ""

    def _name_of_class(self, dump: Dump, descriptor: int) -> str:
        try:
            name = dump.text(dump.word(descriptor + self.offset("opal_class_t", "cls_name")))
            size = dump.word(descriptor + self.offset("opal_class_t", "cls_sizeof"))
        except UnreadableError:
            return ""
        return name if name.endswith("_t") and size < 1 << 20 and self.sizes.get(name, size) == size else ""

    def points_at(self, what: str, dump: Dump, address: int, name: str, expected: Hashable) -> Observation:
        """Observe a pointer, in the object at an address, to an object of a class; ``expected`` says which it is."""

        def seen(offset: int) -> Hashable:
            return expected if self.class_of(dump, dump.word(address + offset)) == name else None

        return Observation(what, expected, seen)

    def descriptor(self, dump: Dump, name: str) -> int:
        """Return the address of a class's descriptor.

        Raises:
            NotFoundYet: the program found no such symbol.
        """
        try:
            return dump.symbols[f"{name}_class"].address
        except KeyError:
            raise NotFoundYet(f"there is no symbol {name}_class") from None

    def instances(self, dump: Dump, name: str) -> list[int]:
        """Return where objects of a class lie, those that nobody uses too."""
        at = self.offset("opal_object_t", "obj_class")
        pointer = self.descriptor(dump, name).to_bytes(WORD, "little")
        return [address - at for address in dump.find_bytes(pointer, WORD)]

    def list_items(self, dump: Dump, head: int, _: object = None) -> tuple[int, ...]:
        """Return the items of an opal_list_t; also for a ``MemberRow``, whose entry isn't needed.

        Raises:
            UnreadableError: there is no list.
        """
        if self.class_of(dump, head) != "opal_list_t":
            raise UnreadableError(f"no list at {head:#x}")
        return self.ring(dump, head + self.offset("opal_list_t", "opal_list_sentinel"))

    def ring(self, dump: Dump, sentinel: int) -> tuple[int, ...]:
        """Return the items of a closed ring, without the one that it is given.

        Raises:
            UnreadableError: the ring doesn't close.
        """
        following = self.offset("opal_list_item_t", "opal_list_next")
        items = []
        item = dump.word(sentinel + following)
        while item != sentinel:
            items.append(item)
            if len(items) > MAX_LIST_LENGTH:
                raise UnreadableError(f"an endless ring at {sentinel:#x}")
            item = dump.word(item + following)
        return tuple(items)

    def slots(self, dump: Dump) -> dict[int, int]:
        """Return the slot of each communicator in the table of them, those that the program has no handle of too."""
        if id(dump) not in self._slots:
            array = dump.symbols["ompi_mpi_communicators"].address
            pointers = self.member(dump, array, "opal_pointer_array_t", "addr")
            size = self.member(dump, array, "opal_pointer_array_t", "size", "i")
            table = reversed([*enumerate(dump.words(pointers, size))])
            self._slots[id(dump)] = {pointer: slot for slot, pointer in table if pointer}
        return self._slots[id(dump)]

    def hidden(self, dump: Dump) -> set[int]:
        """Return the communicators that the program has no handle of."""
        return {*self.slots(dump)} - {entry["address"] for entry in dump.of("communicators")}

    def process(self, dump: Dump, rank: int) -> int:
        """Return what Open MPI keeps of a process of MPI_COMM_WORLD."""
        world = dump.of("communicators", label="world")[0]["address"]
        group = self.member(dump, world, "ompi_communicator_t", "c_local_group")
        return dump.word(self.member(dump, group, "ompi_group_t", "grp_proc_pointers") + WORD * rank)
