"""Observations of communicators, groups and processes."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from mqs_dll.calibrate.dump import WORD, Dump, Entry, UnreadableError
from mqs_dll.calibrate.layout_solver import MemberRow
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver
from mqs_dll.calibrate.openmpi.opal import text_behind
from mqs_dll.library.mpi.openmpi.communicators import INTER, NAME_IS_SET
from mqs_dll.library.mpi.openmpi.groups import BITMAP, SPORADIC, STRIDED

# ompi/communicator/communicator.h and ompi/group/group.h, the same in 4.1 and 5.0
INTRINSIC = 0x4
CARTESIAN = 0x100
GRAPH = 0x200
GROUP_DENSE = 0x4

COMM = "ompi_communicator_t"
GROUP = "ompi_group_t"

INFO_KEY = b"mpi_assert_allow_overtaking"
INFO_BYTES = 128
"""Of an entry, or of what it points at, that are searched for the key."""

EXTENDED_ID_BYTES = 16
MAX_HASH_TABLE_SIZE = 1 << 14
"""Words that are searched for an entry."""


def find_info(solver: OpenMpiLayoutSolver) -> None:
    """Find the info keys of the objects that can have some."""
    keys = MemberRow("s_info", "the info object that has the key that was set", "label", seen=_info)
    solver.solve_members("opal_infosubscriber_t", solver.places("communicators", info=1), keys)


def _info(solver: OpenMpiLayoutSolver, dump: Dump, address: int, comm: Entry) -> Hashable:
    info = dump.word(address)
    if solver.class_of(dump, info) != "opal_info_t":
        return None
    items = solver.ring(dump, info + solver.offset("opal_list_t", "opal_list_sentinel"))
    return comm["label"] if any(_mentions(dump, item) for item in items) else None


def _mentions(dump: Dump, item: int) -> bool:
    """Return whether an entry has the key in itself, or in what it points at."""
    for place in (item, *dump.words(item, INFO_BYTES // WORD)):
        with suppress(UnreadableError):
            if INFO_KEY in dump.read(place, INFO_BYTES):
                return True
    return False


# ---------------------------------------------------------------- communicators


def _flags_of(_: Dump, comm: Entry) -> int:
    flags = INTER * comm["inter"] | NAME_IS_SET * comm["named"] | INTRINSIC * comm["predefined"]
    return int(flags | (0, CARTESIAN, GRAPH)[comm["topology"]])


def _pml_comm(solver: OpenMpiLayoutSolver, dump: Dump, address: int, comm: Entry) -> Hashable:
    return comm["label"] if solver.class_of(dump, dump.word(address)) == "mca_pml_ob1_comm_t" else None


COMMUNICATOR_ROWS = (
    MemberRow("c_my_rank", "the rank in a communicator", "rank"),
    MemberRow(
        "c_flags",
        "the flags inter, named, predefined, cartesian, graph",
        _flags_of,
        INTER | NAME_IS_SET | INTRINSIC | CARTESIAN | GRAPH,
    ),
    MemberRow("c_local_group", "the group of a communicator", "group"),
    MemberRow("c_remote_group", "the group that messages go to, the remote one of inter-communicators", "remote_group"),
    MemberRow("c_pml_comm", "a pointer to an object of class mca_pml_ob1_comm_t", "label", seen=_pml_comm),
)


def find_communicator(solver: OpenMpiLayoutSolver) -> None:
    """Find the members of communicators; the name lies in the struct in 4.1 and behind a pointer since 5.0.0.

    The number is the slot; since 5.0.0 the context id is another one.
    """
    comms, later = solver.places("communicators"), "ompi_comm_hash" in solver.dumps[0].symbols
    name = MemberRow(
        "c_name",
        "the name of a communicator",
        lambda _, comm: comm["name"] if comm["named"] else None,  # another may have one that MPI doesn't return
        seen=text_behind if later else None,
    )
    solver.solve_members(COMM, comms, *COMMUNICATOR_ROWS, name)
    index = MemberRow(
        "c_index" if later else "c_contextid",
        "the slot in the table of communicators",
        lambda dump, comm: solver.slots(dump)[comm["address"]],
        seen=lambda _, dump, at, __: dump.scalar(at, "I"),
    )
    solver.solve_members(COMM, comms, index, among=solver.possible_offsets(COMM, "I"))
    if later:
        at = solver.offset(COMM, "c_index")
        others = [each for each in solver.possible_offsets(COMM, "Q") if each + EXTENDED_ID_BYTES <= at or each > at]
        extended = MemberRow(
            "c_contextid",
            "0 and the slot; of one that was made from a session the key in the hash table of communicators",
            lambda dump, comm: _extended_id(solver, dump, comm),
            seen=lambda _, dump, at, __: dump.words(at, 2),
        )
        solver.solve_members(COMM, comms, extended, among=others)
    local = MemberRow(
        "c_local_comm",
        "a communicator that the program has no handle of, with the local group's size and rank",
        lambda _, comm: (comm["label"], comm["rank"], comm["size"]),
        seen=_local_half,
    )
    solver.solve_members(COMM, solver.places("communicators", inter=1), local)


def _extended_id(solver: OpenMpiLayoutSolver, dump: Dump, comm: Entry) -> tuple[int, ...] | None:
    """Return the 16 bytes of a context id: made of the slot, or from a session and then a key in a hash table."""
    if comm["session"]:
        return _hash_key(dump, comm["address"])
    return None if comm["predefined"] else (0, solver.slots(dump)[comm["address"]])


def _hash_key(dump: Dump, comm: int) -> tuple[int, ...] | None:
    """Return the key of a hash table's entry for a communicator: a pointer to 16 bytes, and this count, before it."""
    table = dump.symbols["ompi_comm_hash"]
    for place in range(table.address, table.address + table.size, WORD):
        with suppress(UnreadableError):
            entries = dump.words(dump.word(place), MAX_HASH_TABLE_SIZE)
            for at in range(2, len(entries)):
                if entries[at] == comm and entries[at - 1] == EXTENDED_ID_BYTES:
                    return dump.words(entries[at - 2], 2)
    return None


def _local_half(solver: OpenMpiLayoutSolver, dump: Dump, address: int, comm: Entry) -> Hashable:
    """See the intra-communicator that an inter-communicator keeps for its local group."""
    local = dump.word(address)
    if local not in solver.hidden(dump):
        return None
    group = solver.member(dump, local, COMM, "c_local_group")
    rank = solver.member(dump, local, COMM, "c_my_rank", "i")
    return comm["label"], rank, solver.member(dump, group, GROUP, "grp_proc_count", "i")


# ---------------------------------------------------------------- groups and processes


SPARSE = {"strided": STRIDED, "bmap": BITMAP}


def find_group(solver: OpenMpiLayoutSolver) -> None:
    """Find the members of groups."""
    groups, sparse = solver.places("groups"), solver.places("sparse_groups")
    solver.solve_members(
        GROUP,
        groups,
        MemberRow("grp_proc_count", "the size of a group", "size"),
        MemberRow("grp_my_rank", "the rank in a group", "rank"),
        MemberRow(
            "grp_proc_pointers",
            "a table with this process at its rank",
            lambda _, group: group["rank"] if group["rank"] >= 0 else None,
            seen=_own_process,
        ),
    )
    flags = MemberRow(
        "grp_flags",
        "how a group is stored: dense, sporadic, strided, bitmap",
        lambda _, group: SPARSE.get(group.get("kind", ""), GROUP_DENSE),
        GROUP_DENSE | SPORADIC | STRIDED | BITMAP,
    )
    solver.solve_members(GROUP, [*groups, *sparse], flags)
    what = "the parent of a sparse group, none of the empty one"
    parent = MemberRow("grp_parent_group_ptr", what, lambda _, group: group.get("parent", 0))
    solver.solve_members(GROUP, [*sparse, *(each for each in groups if each[2]["predefined"])], parent)
    what = "first, step and last of a strided group, the bits of another one's members in its parent"
    data = MemberRow("sparse_data", what, _members_of, seen=_sparse_data)
    solver.solve_members(GROUP, sparse, data, among=solver.possible_offsets(GROUP, "Q"))


def _own_process(_: OpenMpiLayoutSolver, dump: Dump, address: int, group: Entry) -> Hashable:
    own = dump.word(dump.symbols["ompi_proc_local_proc"].address)
    return group["rank"] if dump.word(dump.word(address) + WORD * group["rank"]) == own else None


def _members_of(_: Dump, group: Entry) -> tuple[int, ...]:
    members = group["members"]
    return (members[0], members[1] - members[0], members[-1]) if group["kind"] == "strided" else tuple(members)


def _sparse_data(_: OpenMpiLayoutSolver, dump: Dump, address: int, group: Entry) -> Hashable:
    """See how a sparse group describes its members: a first one, a step and a last one; or bits and their bytes."""
    if group["kind"] == "strided":
        return tuple(dump.scalar(address + 4 * place, "i") for place in range(3))
    length = dump.scalar(address + WORD, "i")
    if length != -(-dump.truth["ranks"] // 8):
        return None
    bits = int.from_bytes(dump.read(dump.word(address), length), "little")
    return tuple(bit for bit in range(8 * length) if bits >> bit & 1)


def find_proc(solver: OpenMpiLayoutSolver) -> None:
    """Find the name of processes: their job, and their rank in it."""
    procs = [
        (dump, proc, {"address": proc, "rank": rank})
        for dump in solver.dumps
        for rank in range(dump.truth["ranks"])
        if not (proc := solver.process(dump, rank)) & 1  # else nobody has talked to it
    ]
    what = "the job's number, and behind it the rank in MPI_COMM_WORLD"
    solver.solve_members("opal_proc_t", procs, MemberRow("proc_name", what, "rank", seen=_proc_name))


def _proc_name(_: OpenMpiLayoutSolver, dump: Dump, address: int, proc: Entry) -> Hashable:
    """See a job number, the same as this process's, and the rank in MPI_COMM_WORLD behind it."""
    own = dump.word(dump.symbols["ompi_proc_local_proc"].address)
    job, namespace = dump.scalar(address, "I"), dump.truth["namespace"]
    known = {dump.scalar(own + address - proc["address"], "I"), int(namespace) if namespace.isdigit() else job}
    return dump.scalar(address + 4, "I") if job and known == {job} else None
