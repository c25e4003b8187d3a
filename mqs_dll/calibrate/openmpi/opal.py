"""Sightings of Open MPI's object system and containers: classes, objects, lists, tables, pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import number
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
    names, sizes, parents = [], [], []
    for dump in ledger.all_dumps:
        for symbol, place in dump.symbols.items():
            if symbol.endswith("_t_class"):
                names.append(_text_behind("the name of a class", dump, place.address, symbol.removesuffix("_class")))
        for name, of in OBJECTS.items():
            if name in dump.symbols:
                descriptor = ledger.descriptor(dump, of)
                what = "the linker's size of an object of the class"
                sizes.append(number(what, dump, descriptor, "Q", dump.symbols[name].size))
        for child, parent in PARENTS.items():
            address = ledger.descriptor(dump, parent)
            parents.append(
                number("the descriptor of the parent class", dump, ledger.descriptor(dump, child), "Q", address)
            )
    ledger.sizes["opal_class_t"] = ledger.all_dumps[0].symbols["opal_list_t_class"].size
    candidates = range(0, ledger.size("opal_class_t"), WORD)
    name_at = ledger.pin("opal_class_t", "cls_name", names, candidates)
    size_at = ledger.pin("opal_class_t", "cls_sizeof", sizes, candidates)
    parent_at = ledger.pin("opal_class_t", "cls_parent", parents, candidates)
    for dump in ledger.all_dumps:
        for symbol, place in dump.symbols.items():
            if symbol.endswith("_t_class"):
                found = symbol.removesuffix("_class")
                ledger.sizes[found] = dump.word(place.address + size_at)
                above = dump.word(place.address + parent_at)
                if above:
                    ledger.parents[found] = dump.text(dump.word(above + name_at))


def _text_behind(what: str, dump: Dump, address: int, expected: str) -> Sighting:
    return Sighting(what, expected, lambda offset: dump.text(dump.word(address + offset)))


def find_object(ledger: OpalLedger) -> None:
    """Find the head of every object."""
    classes = []
    for kind, name in HANDLE_CLASSES.items():
        for dump, entry in ledger.each(kind):
            descriptor = ledger.descriptor(dump, name)
            classes.append(number("the class of a known object", dump, entry["address"], "Q", descriptor))
    ledger.pin("opal_object_t", "obj_class", classes, ledger.own_offsets("opal_object_t", WORD))
    counts = [
        number("the references to an error handler", dump, entry["address"], "i", entry["references"])
        for dump, entry in ledger.each("error_handlers")
    ]
    ledger.pin("opal_object_t", "obj_reference_count", counts, ledger.own_offsets("opal_object_t", 4))


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
    following, preceding = [], []
    for dump in ledger.dumps:
        for _, items in posted_lists(dump):
            for one, other in pairwise(items):
                following.append(number("the receive that was posted next", dump, one, "Q", other))
                preceding.append(number("the receive that was posted before", dump, other, "Q", one))
    candidates = ledger.own_offsets("opal_list_item_t", WORD)
    link = ledger.pin("opal_list_item_t", "opal_list_next", following, candidates)
    back = ledger.pin("opal_list_item_t", "opal_list_prev", preceding, candidates)
    sentinels, lengths = [], []
    for dump in ledger.dumps:
        descriptor = ledger.descriptor(dump, "opal_list_t")
        for name, items in posted_lists(dump):
            sentinel = dump.word(items[0] + back)
            if dump.word(items[-1] + link) == sentinel:
                sentinels.append(_head_before(ledger, dump, sentinel, descriptor, name))
    sentinel_offset = ledger.pin(
        "opal_list_t", "opal_list_sentinel", sentinels, ledger.own_offsets("opal_list_t", WORD)
    )
    for dump in ledger.dumps:
        for _, items in posted_lists(dump):
            head = dump.word(items[0] + back) - sentinel_offset
            lengths.append(number("the length of a known list", dump, head, "Q", len(items)))
    ledger.pin("opal_list_t", "opal_list_length", lengths, ledger.own_offsets("opal_list_t", WORD))


def _head_before(ledger: OpalLedger, dump: Dump, sentinel: int, descriptor: int, name: str) -> Sighting:
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
    candidates = ledger.own_offsets("opal_pointer_array_t", WORD)
    numbers = ledger.own_offsets("opal_pointer_array_t", 4)
    tables = [
        (dump, dump.symbols[table].address, kind) for dump in ledger.dumps for table, kind in FORTRAN_TABLES.items()
    ]
    slots = [_slots_of(dump, array, kind) for dump, array, kind in tables]
    addr = ledger.pin("opal_pointer_array_t", "addr", slots, candidates)
    sizes = [_allocated_for(dump, array, dump.word(array + addr)) for dump, array, _ in tables]
    size = ledger.pin("opal_pointer_array_t", "size", sizes, numbers)
    free = []
    for dump, array, _ in tables:
        count = dump.scalar(array + size, "i")
        pointers = dump.words(dump.word(array + addr), count)
        free.append(number("the number of empty slots", dump, array, "i", pointers.count(0)))
    ledger.pin("opal_pointer_array_t", "number_free", free, numbers)


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
    words = ledger.own_offsets(struct, WORD)
    classes, allocated, per_chunk, chunks_seen, sizes, alignments = [], [], [], [], [], []
    for dump in ledger.dumps:
        for symbol, name in POOLS.items():
            pool = dump.symbols[symbol].address
            chunks = elements(ledger, dump, name)
            if not chunks:
                continue
            stride = chunks[0][1] - chunks[0][0]
            lengths = Counter(map(len, chunks))
            total = sum(map(len, chunks))
            classes.append(number("the class of a pool's elements", dump, pool, "Q", ledger.descriptor(dump, name)))
            allocated.append(number("the number of elements in memory", dump, pool, "Q", total))
            if len(chunks) > 2:
                per_chunk.append(number("the elements in most chunks", dump, pool, "Q", lengths.most_common(1)[0][0]))
            chunks_seen.append(_chunks(ledger, dump, pool, [chunk[0] for chunk in chunks]))
            sizes.append(_size(dump, pool, stride, ledger.size(name)))
            alignments.append(_alignment(dump, pool, [address for chunk in chunks for address in chunk]))
    ledger.pin(struct, "fl_frag_class", classes, words)
    ledger.pin(struct, "fl_num_allocated", allocated, words)
    ledger.pin(struct, "fl_num_per_alloc", per_chunk, words)
    ledger.pin(struct, "fl_allocations", chunks_seen, words)
    ledger.pin(struct, "fl_frag_size", sizes, words)
    ledger.pin(struct, "fl_frag_alignment", alignments, words)


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
