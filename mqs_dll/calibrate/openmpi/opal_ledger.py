"""What is known of Open MPI's classes so far, and readers of objects that need no more than that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqs_dll.calibrate.dump import LONGEST_LIST, WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import Ledger, NotFoundYet


class OpalLedger(Ledger):
    """The layouts as far as they are found, and readers of objects that need no more than them."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        super().__init__(dumps)
        self.dumps = [dump for dump in dumps if dump.truth["pml"] != "cm"]
        """Those of processes with pml/ob1."""
        self.cm_dumps = [dump for dump in dumps if dump.truth["pml"] == "cm"]
        self.parents: dict[str, str] = {}
        self._class_names: dict[tuple[int, int], str] = {}

    def own_offsets(self, struct: str, step: int = 1, instances: Iterable[tuple[Dump, int]] = ()) -> list[int]:
        """Return the offsets of a class's own members: behind those of its parent, and not inside an embedded object.

        An embedded object is recognised by its descriptor's address, at the same offset in each of ``instances``.
        """
        end = self.size(struct)
        taken: set[int] = set()
        for offset, size in self.embedded(struct, instances):
            taken.update(range(offset, offset + size))
        return [offset for offset in range(self._begin(struct), end - step + 1, step) if offset not in taken]

    def _begin(self, struct: str) -> int:
        parent = self.parents.get(struct)
        return self.size(parent) if parent else 0

    def embedded(self, struct: str, instances: Iterable[tuple[Dump, int]]) -> list[tuple[int, int]]:
        """Return offset and size of each object that lies inside all instances of a class."""
        places = list(instances)
        found = []
        for offset in range(self._begin(struct), self.size(struct) - WORD + 1, WORD) if places else ():
            names = {self.class_of(dump, address + offset) for dump, address in places}
            name = names.pop()
            if not names and name in self.sizes:
                found.append((offset, self.sizes[name]))
        return found

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

    def descriptor(self, dump: Dump, name: str) -> int:
        """Return the address of a class's descriptor.

        Raises:
            NotFoundYet: the program found no such symbol.
        """
        try:
            return dump.symbols[f"{name}_class"].address
        except KeyError:
            raise NotFoundYet(f"there is no symbol {name}_class") from None

    def list_items(self, dump: Dump, head: int) -> tuple[int, ...]:
        """Return the items of an opal_list_t.

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
            if len(items) > LONGEST_LIST:
                raise UnreadableError(f"an endless ring at {sentinel:#x}")
            item = dump.word(item + following)
        return tuple(items)

    def slots(self, dump: Dump, table: str) -> dict[int, int]:
        """Return the slot of each object in an opal_pointer_array_t that is a symbol."""
        array = dump.symbols[table].address
        pointers = dump.word(array + self.offset("opal_pointer_array_t", "addr"))
        size = dump.scalar(array + self.offset("opal_pointer_array_t", "size"), "i")
        slots: dict[int, int] = {}
        for slot in range(size):
            pointer = dump.word(pointers + WORD * slot)
            if pointer:
                slots.setdefault(pointer, slot)
        return slots
