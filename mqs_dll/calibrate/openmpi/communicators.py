"""Sightings of communicators, groups and processes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import Place, Row, number, text
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting
from mqs_dll.mpi.openmpi.communicators import INTER, NAME_IS_SET
from mqs_dll.mpi.openmpi.groups import BITMAP, SPORADIC, STRIDED

# ompi/communicator/communicator.h and ompi/group/group.h, the same in 4.1 and 5.0
INTRINSIC = 0x4
CARTESIAN = 0x100
GRAPH = 0x200
GROUP_DENSE = 0x4

COMM = "ompi_communicator_t"

INFO_KEY = "mpi_assert_allow_overtaking"
EXTENDED_ID_BYTES = 16
LARGEST_HASH_TABLE = 1 << 14
"""Words that are searched for an entry."""


def has_index(ledger: OpalLedger) -> bool:
    """Tell whether this is the series in which a communicator's number and its context id are different things."""
    return "ompi_comm_hash" in ledger.dumps[0].symbols


def find_info(ledger: OpalLedger) -> None:
    """Find the info keys of the objects that can have some."""
    sightings = [_info(ledger, dump, at, entry["label"]) for dump, at, entry in ledger.places("communicators", info=1)]
    ledger.pin("opal_infosubscriber_t", "s_info", sightings)


def _info(ledger: OpalLedger, dump: Dump, address: int, label: str) -> Sighting:
    def seen(offset: int) -> Hashable:
        info = dump.word(address + offset)
        if ledger.class_of(dump, info) != "opal_info_t":
            return None
        items = ledger.ring(dump, info + ledger.offset("opal_list_t", "opal_list_sentinel"))
        return label if any(_mentions(dump, item) for item in items) else None

    return Sighting("the info object that has the key that was set", label, seen)


def _mentions(dump: Dump, item: int) -> bool:
    """Tell whether an entry has the key in itself, or in what it points at."""
    pattern = INFO_KEY.encode()
    if pattern in dump.read(item, 128):
        return True
    for offset in range(0, 128, WORD):
        try:
            if pattern in dump.read(dump.word(item + offset), 128):
                return True
        except UnreadableError:
            continue
    return False


# ---------------------------------------------------------------- communicators


def _flags_of(_: Dump, comm: dict[str, Any]) -> int:
    flags = INTER * comm["inter"] | NAME_IS_SET * comm["named"] | INTRINSIC * comm["predefined"]
    return int(flags | (0, CARTESIAN, GRAPH)[comm["topology"]])


COMMUNICATOR_ROWS = (
    Row("c_my_rank", "the rank in a communicator", "rank"),
    Row(
        "c_flags",
        "the flags inter, named, predefined, cartesian, graph",
        _flags_of,
        INTER | NAME_IS_SET | INTRINSIC | CARTESIAN | GRAPH,
    ),
    Row("c_local_group", "the group of a communicator", "group"),
    Row(
        "c_remote_group",
        "the group that messages go to, the remote one of inter-communicators",
        lambda _, comm: comm["remote_group" if comm["inter"] else "group"],
    ),
)


def find_communicator(ledger: OpalLedger) -> None:
    """Find the members of communicators; the name lies in the struct in 4.1 and behind a pointer since 5.0.0."""
    comms = ledger.places("communicators")
    ledger.pin_rows(COMM, comms, *COMMUNICATOR_ROWS)
    names = [
        text("the name of a communicator", dump, at, comm["name"], behind=has_index(ledger))
        for dump, at, comm in comms
        if comm["named"]  # another may have a name that MPI_Comm_get_name doesn't tell
    ]
    ledger.pin(COMM, "c_name", names)
    what = "a pointer to an object of class mca_pml_ob1_comm_t"
    of_pml = [ledger.points_at(what, dump, at, "mca_pml_ob1_comm_t", comm["label"]) for dump, at, comm in comms]
    ledger.pin(COMM, "c_pml_comm", of_pml)
    _find_numbers(ledger, comms)
    _find_local_half(ledger)


def _find_numbers(ledger: OpalLedger, comms: list[Place]) -> None:
    """Find the communicator's number: its slot; since 5.0.0 the context id is another one."""
    slots = {id(dump): ledger.slots(dump, "ompi_mpi_communicators") for dump in ledger.dumps}
    what = "the slot in the table of communicators"
    by_slot = [number(what, dump, at, "I", slots[id(dump)][at]) for dump, at, _ in comms]
    numbers = ledger.room(COMM, "I")
    if not has_index(ledger):
        ledger.pin(COMM, "c_contextid", by_slot, numbers)
        return
    index = ledger.pin(COMM, "c_index", by_slot, numbers)
    others = [at for at in ledger.room(COMM, "Q") if at + EXTENDED_ID_BYTES <= index or at > index]
    ledger.pin(COMM, "c_contextid", list(_extended_ids(ledger, comms)), others)


def _extended_ids(ledger: OpalLedger, comms: list[Place]) -> Iterator[Sighting]:
    """Sight the 16 bytes of a context id: made of the slot, or from a session and then a key in a hash table."""
    for dump, address, comm in comms:
        if comm["session"]:
            key = _hash_key(dump, address)
            if key is not None:
                yield _words("the key in the hash table of communicators", dump, address, key)
        elif not comm["predefined"]:
            slot = ledger.slots(dump, "ompi_mpi_communicators")[address]
            yield _words("0 and the slot, of a communicator made from another", dump, address, (0, slot))


def _hash_key(dump: Dump, comm: int) -> tuple[int, int] | None:
    """Return the key of a hash table's entry for a communicator: a pointer to 16 bytes, and this count, before it."""
    table = dump.symbols["ompi_comm_hash"]
    for place in range(table.address, table.address + table.size, WORD):
        try:
            entries = dump.words(dump.word(place), LARGEST_HASH_TABLE)
        except UnreadableError:
            continue
        for at in range(2, len(entries)):
            if entries[at] == comm and entries[at - 1] == EXTENDED_ID_BYTES:
                return dump.word(entries[at - 2]), dump.word(entries[at - 2] + WORD)
    return None


def _words(what: str, dump: Dump, address: int, expected: tuple[int, int]) -> Sighting:
    return Sighting(what, expected, lambda offset: (dump.word(address + offset), dump.word(address + offset + WORD)))


def _find_local_half(ledger: OpalLedger) -> None:
    """Find the intra-communicator that an inter-communicator keeps for its local group."""
    sightings = []
    for dump, comm in ledger.each("communicators", inter=1):
        known = {entry["address"] for entry in dump.of("communicators")}
        hidden = {*ledger.slots(dump, "ompi_mpi_communicators")} - known
        sightings.append(_local_half(ledger, dump, comm, hidden))
    ledger.pin(COMM, "c_local_comm", sightings)


def _local_half(ledger: OpalLedger, dump: Dump, comm: dict[str, Any], hidden: set[int]) -> Sighting:
    def seen(offset: int) -> Hashable:
        local = dump.word(comm["address"] + offset)
        if local not in hidden:
            return None
        group = ledger.member(dump, local, "ompi_communicator_t", "c_local_group")
        rank = ledger.member(dump, local, "ompi_communicator_t", "c_my_rank", "i")
        size = ledger.member(dump, group, "ompi_group_t", "grp_proc_count", "i")
        return (comm["label"], rank, size)

    what = "a communicator that the program has no handle of, with the local group's size and rank"
    return Sighting(what, (comm["label"], comm["rank"], comm["size"]), seen)


# ---------------------------------------------------------------- groups and processes


SPARSE = {"strided": STRIDED, "bitmap": BITMAP}


def find_group(ledger: OpalLedger) -> None:
    """Find the members of groups."""
    struct = "ompi_group_t"
    groups, sparse = ledger.places("groups"), ledger.places("sparse_groups")
    ledger.pin_rows(
        struct,
        groups,
        Row("grp_proc_count", "the size of a group", "size"),
        Row("grp_my_rank", "the rank in a group", "rank"),
    )
    ledger.pin(struct, "grp_proc_pointers", [_own_process(dump, each) for dump, _, each in groups if each["rank"] >= 0])
    empty = [each for each in groups if each[2]["predefined"]]
    ledger.pin_rows(
        struct,
        [*groups, *sparse],
        Row(
            "grp_flags",
            "how a group is stored: dense, sporadic, strided, bitmap",
            lambda _, group: SPARSE.get(group.get("kind", ""), GROUP_DENSE),
            GROUP_DENSE | SPORADIC | STRIDED | BITMAP,
        ),
    )
    what = "the parent of a sparse group, none of the empty one"
    parent = Row("grp_parent_group_ptr", what, lambda _, group: group.get("parent", 0))
    ledger.pin_rows(struct, [*sparse, *empty], parent)
    data = [_sparse_data(dump, group) for dump, _, group in sparse]
    ledger.pin(struct, "sparse_data", data, ledger.room(struct, "Q"))


def _own_process(dump: Dump, group: dict[str, Any]) -> Sighting:
    """Sight a table of processes in which this process is at its rank."""
    own = dump.word(dump.symbols["ompi_proc_local_proc"].address)

    def seen(offset: int) -> Hashable:
        table = dump.word(group["address"] + offset)
        return group["rank"] if dump.word(table + WORD * group["rank"]) == own else None

    return Sighting("a table with this process at its rank", group["rank"], seen)


def _sparse_data(dump: Dump, group: dict[str, Any]) -> Sighting:
    """Sight how a sparse group describes its members: a first one, a step and a last one; or bits and their bytes."""
    members, address = group["members"], group["address"]

    def strided(offset: int) -> Hashable:
        return tuple(dump.scalar(address + offset + 4 * place, "i") for place in range(3))

    def bitmap(offset: int) -> Hashable:
        length = dump.scalar(address + offset + WORD, "i")
        if length != group["length"]:
            return None
        bits = int.from_bytes(dump.read(dump.word(address + offset), length), "little")
        return tuple(bit for bit in range(8 * length) if bits >> bit & 1)

    if group["kind"] == "strided":
        expected = (members[0], members[1] - members[0], members[-1])
        return Sighting("first, step and last of a strided group", expected, strided)
    return Sighting("the bits of a group's members in its parent", tuple(members), bitmap)


def find_proc(ledger: OpalLedger) -> None:
    """Find the name of processes: their job, and their rank in it."""
    sightings = []
    for dump in ledger.dumps:
        world = next(entry["address"] for entry in dump.of("communicators", label="world"))
        group = ledger.member(dump, world, "ompi_communicator_t", "c_local_group")
        table = ledger.member(dump, group, "ompi_group_t", "grp_proc_pointers")
        namespace = dump.truth["namespace"]
        job = int(namespace) if namespace.isdigit() else None
        for rank in range(dump.truth["ranks"]):
            proc = dump.word(table + WORD * rank)
            if proc & 1:  # a process that nobody has talked to
                continue
            own = dump.word(dump.symbols["ompi_proc_local_proc"].address)
            sightings.append(_proc_name(dump, proc, rank, own, job))
    ledger.pin("opal_proc_t", "proc_name", sightings)


def _proc_name(dump: Dump, proc: int, rank: int, own: int, job: int | None) -> Sighting:
    """Sight a job number, the same as this process's, and the rank in MPI_COMM_WORLD behind it."""

    def seen(offset: int) -> Hashable:
        number_of_job = dump.scalar(proc + offset, "I")
        if number_of_job != dump.scalar(own + offset, "I") or job not in (None, number_of_job) or not number_of_job:
            return None
        return dump.scalar(proc + offset + 4, "I")

    return Sighting("the job's number, and behind it the rank in MPI_COMM_WORLD", rank, seen)
