"""Observations of Open MPI's object system and containers: classes, objects, lists, tables, pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise

from mqs_dll.calibrate.dump import WORD, Dump, Entry
from mqs_dll.calibrate.layout_solver import MemberRow, number, within
from mqs_dll.calibrate.offset_solver import Observation
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver

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
"""Exported objects and their classes: the linker's symbol table has the size of each."""

HANDLE_CLASSES = {"communicators": "ompi_communicator_t", "groups": "ompi_group_t", "windows": "ompi_win_t"}
MAX_HEADER_SIZE = 512


def text_here_or_behind(_: OpenMpiLayoutSolver, dump: Dump, address: int, entry: Entry) -> str:
    """See the name of an object with an entry, or the text behind a pointer: since 6.0.0 names lie there."""
    text = dump.text(address)
    return text if text == entry["name"] else dump.text(dump.word(address))


def text_behind(_: OpenMpiLayoutSolver, dump: Dump, address: int, __: Entry) -> str:
    """See the text behind a pointer."""
    return dump.text(dump.word(address))


def find_classes(solver: OpenMpiLayoutSolver) -> None:
    """Find the layout of class descriptors, and from them the size and the parent of each class."""
    struct = "opal_class_t"
    descriptors = [
        (dump, place.address, {"class": symbol.removesuffix("_class")})
        for dump in solver.all_dumps
        for symbol, place in dump.symbols.items()
        if symbol.endswith("_t_class")
    ]
    sized = [
        (dump, solver.descriptor(dump, of), {"size": symbol.size})
        for dump in solver.all_dumps
        for name, of in OBJECTS.items()
        if (symbol := dump.symbols.get(name))
    ]
    what = "the descriptor of the parent class"
    derived = [
        number(what, dump, solver.descriptor(dump, child), "Q", solver.descriptor(dump, parent))
        for dump in solver.all_dumps
        for child, parent in PARENTS.items()
    ]
    solver.sizes[struct] = solver.all_dumps[0].symbols["opal_list_t_class"].size
    words = range(0, solver.size(struct), WORD)
    name = MemberRow("cls_name", "the name of a class", "class", seen=text_behind)
    solver.solve_members(struct, descriptors, name, among=words)
    size = MemberRow("cls_sizeof", "the linker's size of an object of the class", "size")
    solver.solve_members(struct, sized, size, among=words)
    solver.solve(struct, "cls_parent", derived, words)
    for dump, at, entry in descriptors:
        solver.sizes[entry["class"]] = solver.member(dump, at, struct, "cls_sizeof")
        above = solver.member(dump, at, struct, "cls_parent")
        if above:
            solver.parents[entry["class"]] = dump.text(solver.member(dump, above, struct, "cls_name"))


def find_object(solver: OpenMpiLayoutSolver) -> None:
    """Find the head of every object."""
    classes = [
        (dump, at, solver.descriptor(dump, name))
        for kind, name in HANDLE_CLASSES.items()
        for dump, at, _ in solver.places(kind)
    ]
    solver.solve_number("opal_object_t", "obj_class", "the class of a known object", classes)
    count = MemberRow("obj_reference_count", "the references to an error handler", "references")
    solver.solve_members("opal_object_t", solver.places("error_handlers"), count)


# ---------------------------------------------------------------- lists


def posted_lists(dump: Dump) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the known lists of posted receives, in order, by communicator and source, which is -1 for any."""
    lists: dict[tuple[int, int], tuple[int, ...]] = {}
    for request in dump.of("requests", kind="receive", state="pending"):
        if request["label"].startswith("posted"):
            asked = request["comm"], max(request["peer"], -1)
            lists[asked] = (*lists.get(asked, ()), request["address"])
    return lists


def find_list(solver: OpenMpiLayoutSolver) -> None:
    """Find links and heads of lists from the known order of posted receives."""
    item, head = "opal_list_item_t", "opal_list_t"
    lists = [(dump, items) for dump in solver.dumps for items in posted_lists(dump).values()]
    following = [(dump, *pair) for dump, items in lists for pair in pairwise(items)]
    link = solver.solve_number(item, "opal_list_next", "the receive that was posted next", following)
    ends = [(dump, dump.word(items[-1] + link), {"items": items}) for dump, items in lists]
    rings = [(dump, end, entry) for dump, end, entry in ends if dump.word(end + link) == entry["items"][0]]
    at = solver.solve(head, "opal_list_sentinel", [_head_before(solver, *ring) for ring in rings])
    length = MemberRow("opal_list_length", "the length of a known list", lambda _, entry: len(entry["items"]))
    solver.solve_members(head, within(rings, -at), length)


def _head_before(solver: OpenMpiLayoutSolver, dump: Dump, sentinel: int, entry: Entry) -> Observation:
    def seen(offset: int) -> Hashable:
        return entry["items"] if solver.class_of(dump, sentinel - offset) == "opal_list_t" else None

    return Observation("an object of class opal_list_t before the link that closes a known ring", entry["items"], seen)


# ---------------------------------------------------------------- tables


FORTRAN_TABLES = {
    "ompi_comm_f_to_c_table": "communicators",
    "ompi_group_f_to_c_table": "groups",
    "ompi_datatype_f_to_c_table": "datatypes",
    "ompi_mpi_windows": "windows",
}
"""Tables whose slots are Fortran handles, and the truth's entries that are in them."""


def find_pointer_array(solver: OpenMpiLayoutSolver) -> None:
    """Find the members of tables from the objects whose Fortran handles, which are slots, are known."""
    struct = "opal_pointer_array_t"
    tables = [
        (dump, dump.symbols[table].address, {"slots": {each["fortran"]: each["address"] for each in dump.of(kind)}})
        for dump in solver.dumps
        for table, kind in FORTRAN_TABLES.items()
    ]
    what = "objects in the slots of their Fortran handles"
    solver.solve_members(
        struct, tables, MemberRow("addr", what, lambda _, each: tuple(each["slots"].values()), seen=_in_slots)
    )
    blocks = [(dump, at, {"start": solver.member(dump, at, struct, "addr")}) for dump, at, _ in tables]
    what = "the pointers that fit into the memory allocated for them"
    solver.solve_members(struct, blocks, MemberRow("size", what, _usable, seen=_allocated_for))
    free = [
        (dump, at, dump.words(block["start"], solver.member(dump, at, struct, "size", "i")).count(0))
        for dump, at, block in blocks
    ]
    solver.solve_number(struct, "number_free", "the number of empty slots", free)


def _in_slots(_: OpenMpiLayoutSolver, dump: Dump, address: int, table: Entry) -> Hashable:
    pointers = dump.word(address)
    return tuple(dump.word(pointers + WORD * slot) for slot in table["slots"])


def _usable(dump: Dump, block: Entry) -> int:
    """Return the bytes of the allocator's block, by glibc's word before it."""
    return (dump.word(block["start"] - WORD) & ~7) - WORD


def _allocated_for(_: OpenMpiLayoutSolver, dump: Dump, address: int, block: Entry) -> Hashable:
    """See a count of pointers that the allocator's block is just large enough for."""
    usable = _usable(dump, block)
    return usable if 0 <= usable - WORD * dump.scalar(address, "i") < 4 * WORD else None


# ---------------------------------------------------------------- pools


def elements(solver: OpenMpiLayoutSolver, dump: Dump, name: str) -> list[list[int]]:
    """Return the chunks of objects of a class, each the addresses of its objects at equal distances."""
    addresses = solver.instances(dump, name)
    distances = Counter(second - first for first, second in pairwise(addresses))
    stride = max(distances, key=lambda each: distances[each], default=0)
    chunks: list[list[int]] = []
    for address in addresses:
        if not chunks or address - chunks[-1][-1] != stride:
            chunks.append([])
        chunks[-1].append(address)
    return [chunk for chunk in chunks if len(chunk) > 1]


POOLS = {
    "mca_pml_base_send_requests": "mca_pml_ob1_send_request_t",
    "mca_pml_base_recv_requests": "mca_pml_ob1_recv_request_t",
    "ompi_message_free_list": "ompi_message_t",
}


def find_free_list(solver: OpenMpiLayoutSolver) -> None:
    """Find the members of pools from their elements, which lie in memory at equal distances."""
    pools = [
        (dump, dump.symbols[symbol].address, _pool(solver, dump, name, chunks))
        for dump in solver.dumps
        for symbol, name in POOLS.items()
        if (chunks := elements(solver, dump, name))
    ]
    solver.solve_members("opal_free_list_t", pools, *POOL_ROWS)


def _pool(solver: OpenMpiLayoutSolver, dump: Dump, name: str, chunks: list[list[int]]) -> Entry:
    """Return what is known of a pool by the chunks of its elements."""
    return {
        "class": solver.descriptor(dump, name),
        "smallest": solver.size(name),
        "elements": [element for chunk in chunks for element in chunk],
        "count": sum(map(len, chunks)),
        "of most": Counter(map(len, chunks)).most_common(1)[0][0] if len(chunks) > 2 else None,
        "starts": (*sorted(chunk[0] for chunk in chunks), len(chunks)),
        "stride": chunks[0][1] - chunks[0][0],
    }


def _chunks(solver: OpenMpiLayoutSolver, dump: Dump, address: int, pool: Entry) -> Hashable:
    """See a list whose items lie right before the first elements of the chunks."""
    items, starts = solver.list_items(dump, address), pool["starts"][:-1]
    return (*(start for start in starts for item in items if 0 < start - item < MAX_HEADER_SIZE), len(items))


def _size(_: OpenMpiLayoutSolver, dump: Dump, address: int, pool: Entry) -> Hashable:
    size, stride = dump.word(address), pool["stride"]
    return stride if pool["smallest"] <= size <= stride < size + MAX_HEADER_SIZE else None


def _alignment(_: OpenMpiLayoutSolver, dump: Dump, address: int, pool: Entry) -> Hashable:
    alignment = dump.word(address)
    if alignment < WORD or alignment & (alignment - 1) or alignment > MAX_HEADER_SIZE:
        return None
    return None if any(element % alignment for element in pool["elements"]) else pool["count"]


POOL_ROWS = (
    MemberRow("fl_frag_class", "the class of the elements", "class"),
    MemberRow("fl_num_allocated", "the number of elements in memory", "count"),
    MemberRow("fl_num_per_alloc", "the elements in most chunks", "of most"),
    MemberRow("fl_allocations", "a list of the chunks", "starts", seen=_chunks),
    MemberRow("fl_frag_size", "the distance of elements, less the rounding", "stride", seen=_size),
    MemberRow("fl_frag_alignment", "a power of two that divides the address of each element", "count", seen=_alignment),
)
