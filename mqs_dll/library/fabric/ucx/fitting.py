"""Where a worker has the members that are read of it, found in the worker itself.

Releases and ways of building UCX differ most in what a worker has beside them: 1.23 has 16 and 40 bytes more before
them than 1.22. Each of the three shows what it is, wherever it lies.
"""

from __future__ import annotations

from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.library.fabric.ucx import views
from mqs_dll.library.fabric.ucx.matching import QUEUE, TABLE, TABLE_SLOTS, has_messages, has_receives
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.layouts.view import Reader
from mqs_dll.library.memory import WORD, Memory

WITHIN = 2048
"""Bytes at the begin of a worker, in which these members are (up to 976 in 1.13 to 1.23)."""


def fitted(memory: Memory, address: int, layouts: Layouts, ops: int) -> Layouts:
    """Return layouts with a worker's members where this one has them.

    Args:
        memory: of the process.
        address: of what is_worker.
        layouts: of a release whose other structs may be those of this one.
        ops: the address of ucp_request_mpool_ops.

    Raises:
        LayoutError: a member is nowhere, or may be at several places.
        TargetReadError: the worker can't be read.
    """
    worker = memory.read(address, WITHIN)
    offsets = {
        "name": [worker.find(f"{address:#x}\0".encode())],
        "req_mp": _pools(memory, address, layouts, ops),
        "tm": _matchings(memory, address, layouts),
    }
    unclear = [f"{name} at {len(places)} places" for name, places in offsets.items() if len(places) != 1]
    if unclear or offsets["name"] == [-1]:
        raise LayoutError(f"its worker may have {' and '.join(unclear)}" if unclear else "its worker has no name")
    struct = views.UcpWorker.struct
    known = layouts.struct(struct)
    moved = sorted({places[0] - known.offsets[name] for name, places in offsets.items()})
    by = ", ".join(f"{each:+}" for each in moved)
    found = {name: places[0] for name, places in offsets.items()}
    return Layouts([StructLayout(struct, None, found, known.origin), *layouts]).named(
        f"{known.origin} fitted (members of ucp_worker moved by {by})"
    )


def _pools(memory: Memory, address: int, layouts: Layouts, ops: int) -> list[int]:
    """Return the offsets at which a worker has a pool of requests: its operations are those of requests."""
    data_at = views.UcsMpool.bind(layouts).offsets["data"]
    ops_at = views.UcsMpoolData.bind(layouts).offsets["ops"]
    found = []
    for index, data in enumerate(memory.pointers(address + data_at, (WITHIN - data_at) // WORD)):
        try:
            if data and memory.pointer(data + ops_at) == ops:
                found.append(WORD * index)
        except TargetReadError:
            continue
    return found


def _matchings(memory: Memory, address: int, layouts: Layouts) -> list[int]:
    """Return the offsets at which a worker has what it matches: a queue, a table of queues and a list that close."""
    matching = views.TagMatch.bind(layouts)
    found = []
    for offset in range(0, WITHIN, WORD):
        try:
            if _is_matching(memory, matching, address + offset):
                found.append(offset)
        except TargetReadError:
            continue
    return found


def _is_matching(memory: Memory, reader: Reader[views.TagMatch], address: int) -> bool:
    """Tell whether a ucp_tag_match is at an address.

    Raises:
        TargetReadError: what it would refer to can't be read.
    """
    matching = reader.at(memory, address)
    if not has_messages(memory, matching):
        return False
    table = TABLE.unpack(memory.read(matching.hash, TABLE.size))
    places = (matching.hash + QUEUE.size * slot for slot in range(TABLE_SLOTS))
    queues = [*zip(places, table[1::3], table[2::3], strict=True)]
    _, last, count, _ = memory.unpack(QUEUE, address + matching.wildcard)
    queues.append((address + matching.wildcard, last, count))
    return all((last == place) != has_receives(counts) for place, last, counts in queues)
