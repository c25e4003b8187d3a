"""Sightings of Open MPI's object system and containers: classes, objects, lists, tables, pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import Row, number, text
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting

PARENTS = {
    "opal_list_item_t": "opal_object_t",
    "opal_list_t": "opal_object_t",
    "opal_free_list_item_t": "opal_list_item_t",
    "opal_free_list_t": "opal_lifo_t",
    "ompi_request_t": "opal_free_list_item_t",
}
"""Classes that derive from one another in every release."""

OBJECTS = {
    "ompi_proc_list": "opal_list_t",
    "ompi_mpi_communicators": "opal_pointer_array_t",
    "mca_pml_base_send_requests": "opal_free_list_t",
    "mca_pml_base_recv_requests": "opal_free_list_t",
    "ompi_request_empty": "ompi_request_t",
}
"""Exported objects and their classes: the linker's symbol table tells the size of each."""

HANDLE_CLASSES = {"communicators": "ompi_communicator_t", "groups": "ompi_group_t", "windows": "ompi_win_t"}
LARGEST_HEADER = 512


def find_classes(ledger: OpalLedger) -> None:
    """Find the layout of class descriptors, and from them the size and the parent of each class."""
    struct = "opal_class_t"
    descriptors = [
        (dump, place.address, symbol.removesuffix("_class"))
        for dump in ledger.all_dumps
        for symbol, place in dump.symbols.items()
        if symbol.endswith("_t_class")
    ]
    names = [text("the name of a class", dump, at, name, behind=True) for dump, at, name in descriptors]
    sizes = [
        number("the linker's size of an object of the class", dump, ledger.descriptor(dump, of), "Q", symbol.size)
        for dump in ledger.all_dumps
        for name, of in OBJECTS.items()
        if (symbol := dump.symbols.get(name))
    ]
    what = "the descriptor of the parent class"
    parents = [
        number(what, dump, ledger.descriptor(dump, child), "Q", ledger.descriptor(dump, parent))
        for dump in ledger.all_dumps
        for child, parent in PARENTS.items()
    ]
    ledger.sizes[struct] = ledger.all_dumps[0].symbols["opal_list_t_class"].size
    words = range(0, ledger.size(struct), WORD)
    name_at, size_at, parent_at = (
        ledger.pin(struct, member, sightings, words)
        for member, sightings in (("cls_name", names), ("cls_sizeof", sizes), ("cls_parent", parents))
    )
    for dump, at, name in descriptors:
        ledger.sizes[name] = dump.word(at + size_at)
        above = dump.word(at + parent_at)
        if above:
            ledger.parents[name] = dump.text(dump.word(above + name_at))


def find_object(ledger: OpalLedger) -> None:
    """Find the head of every object."""
    classes = [
        (dump, at, ledger.descriptor(dump, name))
        for kind, name in HANDLE_CLASSES.items()
        for dump, at, _ in ledger.places(kind)
    ]
    ledger.pin_numbers("opal_object_t", "obj_class", "the class of a known object", classes)
    count = Row("obj_reference_count", "the references to an error handler", "references")
    ledger.pin_rows("opal_object_t", ledger.places("error_handlers"), count)


# ---------------------------------------------------------------- lists


def posted_lists(dump: Dump) -> list[tuple[str, tuple[int, ...]]]:
    """Return the known lists of posted receives: what each is, and its items in order."""
    lists: dict[str, list[int]] = {}
    for request in dump.of("requests", kind="receive", state="pending"):
        if str(request["label"]).startswith("posted"):
            name = f"{request['label']} from {max(int(request['peer']), -1)}"
            lists.setdefault(name, []).append(int(request["address"]))
    return [(name, tuple(items)) for name, items in lists.items()]


def find_list(ledger: OpalLedger) -> None:
    """Find links and heads of lists from the known order of posted receives."""
    item, head = "opal_list_item_t", "opal_list_t"
    lists = [(dump, name, items) for dump in ledger.dumps for name, items in posted_lists(dump)]
    pairs = [(dump, *pair) for dump, _, items in lists for pair in pairwise(items)]
    following = [number("the receive that was posted next", dump, one, "Q", other) for dump, one, other in pairs]
    preceding = [number("the receive that was posted before", dump, other, "Q", one) for dump, one, other in pairs]
    link = ledger.pin(item, "opal_list_next", following)
    back = ledger.pin(item, "opal_list_prev", preceding, ledger.room(item, "Q"))
    rings = [(dump, dump.word(items[0] + back), name, items) for dump, name, items in lists]
    sentinels = [
        _head_before(ledger, dump, sentinel, name)
        for dump, sentinel, name, items in rings
        if dump.word(items[-1] + link) == sentinel
    ]
    at = ledger.pin(head, "opal_list_sentinel", sentinels)
    lengths = [(dump, sentinel - at, len(items)) for dump, sentinel, _, items in rings]
    ledger.pin_numbers(head, "opal_list_length", "the length of a known list", lengths)


def _head_before(ledger: OpalLedger, dump: Dump, sentinel: int, name: str) -> Sighting:
    descriptor = ledger.descriptor(dump, "opal_list_t")

    def seen(offset: int) -> Hashable:
        head = sentinel - offset
        return name if dump.word(head + ledger.offset("opal_object_t", "obj_class")) == descriptor else ""

    return Sighting("an object of class opal_list_t before the link that closes a known ring", name, seen)


# ---------------------------------------------------------------- tables


FORTRAN_TABLES = {
    "ompi_comm_f_to_c_table": "communicators",
    "ompi_group_f_to_c_table": "groups",
    "ompi_datatype_f_to_c_table": "datatypes",
    "ompi_mpi_windows": "windows",
}
"""Tables whose slots are Fortran handles, and the truth's entries that are in them."""


def find_pointer_array(ledger: OpalLedger) -> None:
    """Find the members of tables from the objects whose Fortran handles, which are slots, are known."""
    struct = "opal_pointer_array_t"
    tables = [
        (dump, dump.symbols[table].address, kind) for dump in ledger.dumps for table, kind in FORTRAN_TABLES.items()
    ]
    addr = ledger.pin(struct, "addr", [_slots_of(*each) for each in tables])
    sizes = [_allocated_for(dump, array, dump.word(array + addr)) for dump, array, _ in tables]
    size = ledger.pin(struct, "size", sizes)
    free = [
        (dump, array, dump.words(dump.word(array + addr), dump.scalar(array + size, "i")).count(0))
        for dump, array, _ in tables
    ]
    ledger.pin_numbers(struct, "number_free", "the number of empty slots", free)


def _slots_of(dump: Dump, array: int, kind: str) -> Sighting:
    entries = [(entry["fortran"], entry["address"]) for entry in dump.of(kind)]

    def seen(offset: int) -> Hashable:
        pointers = dump.word(array + offset)
        return tuple(dump.word(pointers + WORD * slot) for slot, _ in entries)

    return Sighting("objects in the slots of their Fortran handles", tuple(address for _, address in entries), seen)


def _allocated_for(dump: Dump, array: int, block: int) -> Sighting:
    """Sight a count of pointers that the allocator's block is just large enough for (glibc's word before it)."""
    usable = (dump.word(block - WORD) & ~7) - WORD

    def seen(offset: int) -> Hashable:
        count = dump.scalar(array + offset, "i")
        return usable if 0 <= usable - WORD * count < 4 * WORD else None

    return Sighting("the pointers that fit into the memory allocated for them", usable, seen)


# ---------------------------------------------------------------- pools


def elements(ledger: OpalLedger, dump: Dump, name: str) -> list[list[int]]:
    """Return the chunks of objects of a class, each the addresses of its objects at equal distances."""
    descriptor = ledger.descriptor(dump, name)
    at = ledger.offset("opal_object_t", "obj_class")
    addresses = [address - at for address in dump.find_word(descriptor)]
    distances = Counter(second - first for first, second in pairwise(addresses))
    if not distances:
        return []
    stride = distances.most_common(1)[0][0]
    chunks = [[addresses[0]]]
    for first, second in pairwise(addresses):
        if second - first == stride:
            chunks[-1].append(second)
        else:
            chunks.append([second])
    return [chunk for chunk in chunks if len(chunk) > 1]


POOLS = {
    "mca_pml_base_send_requests": "mca_pml_ob1_send_request_t",
    "mca_pml_base_recv_requests": "mca_pml_ob1_recv_request_t",
    "ompi_message_free_list": "ompi_message_t",
}


def find_free_list(ledger: OpalLedger) -> None:
    """Find the members of pools from their elements, which lie in memory at equal distances."""
    struct = "opal_free_list_t"
    pools = [
        (dump, dump.symbols[symbol].address, name, chunks)
        for dump in ledger.dumps
        for symbol, name in POOLS.items()
        if (chunks := elements(ledger, dump, name))
    ]
    lengths = [(dump, pool, Counter(map(len, chunks))) for dump, pool, _, chunks in pools]
    for member, what, values in (
        ("fl_frag_class", "the class of the elements", [(d, at, ledger.descriptor(d, of)) for d, at, of, _ in pools]),
        ("fl_num_allocated", "the number of elements in memory", [(d, at, sum(n.elements())) for d, at, n in lengths]),
        (
            "fl_num_per_alloc",
            "the elements in most chunks",
            [(dump, at, n.most_common(1)[0][0]) for dump, at, n in lengths if n.total() > 2],
        ),
    ):
        ledger.pin_numbers(struct, member, what, values)
    lists = [_chunks(ledger, dump, pool, [chunk[0] for chunk in chunks]) for dump, pool, _, chunks in pools]
    ledger.pin(struct, "fl_allocations", lists)
    strides = [(dump, pool, chunks[0][1] - chunks[0][0], ledger.size(name)) for dump, pool, name, chunks in pools]
    ledger.pin(struct, "fl_frag_size", [_size(*each) for each in strides])
    alignments = [_alignment(dump, pool, [at for chunk in chunks for at in chunk]) for dump, pool, _, chunks in pools]
    ledger.pin(struct, "fl_frag_alignment", alignments)


def _chunks(ledger: OpalLedger, dump: Dump, pool: int, starts: list[int]) -> Sighting:
    """Sight a list whose items lie right before the first elements of the chunks."""

    def seen(offset: int) -> Hashable:
        items = ledger.list_items(dump, pool + offset)
        near = sorted(start for start in starts for item in items if 0 < start - item < LARGEST_HEADER)
        return (*near, len(items))

    return Sighting("a list of the chunks", (*sorted(starts), len(starts)), seen)


def _size(dump: Dump, pool: int, stride: int, smallest: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        size = dump.word(pool + offset)
        return stride if smallest <= size <= stride < size + LARGEST_HEADER else None

    return Sighting("the distance of elements, less the rounding", stride, seen)


def _alignment(dump: Dump, pool: int, addresses: list[int]) -> Sighting:
    def seen(offset: int) -> Hashable:
        alignment = dump.word(pool + offset)
        if alignment < WORD or alignment & (alignment - 1) or alignment > LARGEST_HEADER:
            return None
        return len(addresses) if all(address % alignment == 0 for address in addresses) else None

    return Sighting("a power of two that divides the address of each element", len(addresses), seen)
