"""Sightings of communicators, groups and processes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import number
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting
from mqs_dll.mpi.openmpi.communicators import INTER, NAME_IS_SET
from mqs_dll.mpi.openmpi.groups import BITMAP, SPORADIC, STRIDED

# ompi/communicator/communicator.h and ompi/group/group.h, the same in 4.1 and 5.0
INTRINSIC = 0x4
CARTESIAN = 0x100
GRAPH = 0x200
GROUP_DENSE = 0x4

INFO_KEY = "mpi_assert_allow_overtaking"
EXTENDED_ID_BYTES = 16
LARGEST_HASH_TABLE = 1 << 14
"""Words that are searched for an entry."""


def has_index(ledger: OpalLedger) -> bool:
    """Tell whether this is the series in which a communicator's number and its context id are different things."""
    return "ompi_comm_hash" in ledger.dumps[0].symbols


def find_info(ledger: OpalLedger) -> None:
    """Find the info keys of the objects that can have some."""
    sightings = []
    for dump, entry in ledger.each("communicators", info=1):
        sightings.append(_info(ledger, dump, entry["address"], entry["label"]))
    struct = "opal_infosubscriber_t"
    ledger.pin(struct, "s_info", sightings, ledger.own_offsets(struct, WORD))


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


def find_communicator(ledger: OpalLedger) -> None:
    """Find the members of communicators."""
    struct = "ompi_communicator_t"
    comms = list(ledger.each("communicators"))
    instances = [(dump, comm["address"]) for dump, comm in comms]
    words = ledger.own_offsets(struct, WORD, instances)
    numbers = ledger.own_offsets(struct, 4, instances)

    _find_name(ledger, comms, ledger.own_offsets(struct, WORD, instances))
    ranks, flags, local, remote, pml = [], [], [], [], []
    for dump, comm in comms:
        address = comm["address"]
        ranks.append(number("the rank in a communicator", dump, address, "i", comm["rank"]))
        flags.append(_flags(dump, comm))
        local.append(number("the group of a communicator", dump, address, "Q", comm["group"]))
        peers = comm["remote_group"] if comm["inter"] else comm["group"]
        what = "the group that messages go to, the remote one of inter-communicators"
        remote.append(number(what, dump, address, "Q", peers))
        pml.append(_points_at(ledger, dump, address, "mca_pml_ob1_comm_t", comm["label"]))
    ledger.pin(struct, "c_my_rank", ranks, numbers)
    ledger.pin(struct, "c_flags", flags, numbers)
    ledger.pin(struct, "c_local_group", local, words)
    ledger.pin(struct, "c_remote_group", remote, words)
    ledger.pin(struct, "c_pml_comm", pml, words)
    _find_numbers(ledger, comms, words, numbers)
    _find_local_half(ledger, words)


def _find_name(ledger: OpalLedger, comms: list[tuple[Dump, dict[str, Any]]], candidates: list[int]) -> None:
    """Find the name, which lies in the struct in 4.1 and behind a pointer since 5.0.0."""
    inline, behind = [], []
    for dump, comm in comms:
        if not comm["named"]:  # it may have a name that MPI_Comm_get_name doesn't tell
            continue
        name, address = comm["name"], comm["address"]
        inline.append(_text("the name of a communicator", dump, address, name, pointer=False))
        behind.append(_text("the name of a communicator, behind a pointer", dump, address, name, pointer=True))
    ledger.pin("ompi_communicator_t", "c_name", behind if has_index(ledger) else inline, candidates)


def _text(what: str, dump: Dump, address: int, name: str, *, pointer: bool) -> Sighting:
    def seen(offset: int) -> Hashable:
        place = dump.word(address + offset) if pointer else address + offset
        return dump.text(place, 64) if place else ""

    return Sighting(what, name, seen)


def _flags(dump: Dump, comm: dict[str, Any]) -> Sighting:
    known = INTER | NAME_IS_SET | INTRINSIC | CARTESIAN | GRAPH
    expected = INTER * comm["inter"] | NAME_IS_SET * comm["named"] | INTRINSIC * comm["predefined"]
    expected |= (0, CARTESIAN, GRAPH)[comm["topology"]]
    address = comm["address"]
    return Sighting(
        "the flags inter, named, predefined, cartesian, graph",
        expected,
        lambda offset: dump.scalar(address + offset, "I") & known,
    )


def _points_at(ledger: OpalLedger, dump: Dump, address: int, name: str, label: str) -> Sighting:
    """Sight a pointer to an object of a class; the label says of which of several."""

    def seen(offset: int) -> Hashable:
        return label if ledger.class_of(dump, dump.word(address + offset)) == name else None

    return Sighting(f"a pointer to an object of class {name}", label, seen)


def _find_numbers(
    ledger: OpalLedger, comms: list[tuple[Dump, dict[str, Any]]], words: list[int], numbers: list[int]
) -> None:
    """Find the communicator's number: its slot; since 5.0.0 the context id is another one."""
    struct = "ompi_communicator_t"
    slots = {id(dump): ledger.slots(dump, "ompi_mpi_communicators") for dump in ledger.dumps}
    by_slot = [
        number("the slot in the table of communicators", dump, comm["address"], "I", slots[id(dump)][comm["address"]])
        for dump, comm in comms
    ]
    ledger.pin(struct, "c_index" if has_index(ledger) else "c_contextid", by_slot, numbers)
    if not has_index(ledger):
        return
    index = ledger.offset(struct, "c_index")
    others = [offset for offset in words if offset + EXTENDED_ID_BYTES <= index or offset > index]
    ledger.pin(struct, "c_contextid", list(_extended_ids(ledger, comms)), others)


def _extended_ids(ledger: OpalLedger, comms: list[tuple[Dump, dict[str, Any]]]) -> Iterator[Sighting]:
    """Sight the 16 bytes of a context id: made of the slot, or from a session and then a key in a hash table."""
    for dump, comm in comms:
        if comm["session"]:
            key = _hash_key(dump, comm["address"])
            if key is not None:
                yield _words("the key in the hash table of communicators", dump, comm["address"], key)
        elif not comm["predefined"]:
            slot = ledger.slots(dump, "ompi_mpi_communicators")[comm["address"]]
            yield _words("0 and the slot, of a communicator made from another", dump, comm["address"], (0, slot))


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


def _find_local_half(ledger: OpalLedger, words: list[int]) -> None:
    """Find the intra-communicator that an inter-communicator keeps for its local group."""
    struct = "ompi_communicator_t"
    sightings = []
    for dump, comm in ledger.each("communicators", inter=1):
        slots = ledger.slots(dump, "ompi_mpi_communicators")
        known = {entry["address"] for entry in dump.of("communicators")}
        sightings.append(_local_half(ledger, dump, comm, set(slots) - known))
    ledger.pin(struct, "c_local_comm", sightings, words)


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


def find_group(ledger: OpalLedger) -> None:
    """Find the members of groups."""
    struct = "ompi_group_t"
    words, numbers = ledger.own_offsets(struct, WORD), ledger.own_offsets(struct, 4)
    sizes, ranks, members, flags = [], [], [], []
    for dump, group in ledger.each("groups"):
        address = group["address"]
        sizes.append(number("the size of a group", dump, address, "i", group["size"]))
        ranks.append(number("the rank in a group", dump, address, "i", group["rank"]))
        if group["rank"] >= 0:
            members.append(_own_process(dump, group))
        flags.append(_group_flags(dump, address, GROUP_DENSE))
    ledger.pin(struct, "grp_proc_count", sizes, numbers)
    ledger.pin(struct, "grp_my_rank", ranks, numbers)
    ledger.pin(struct, "grp_proc_pointers", members, words)
    parents, data = [], []
    for dump, group in ledger.each("sparse_groups"):
        flags.append(_group_flags(dump, group["address"], {"strided": STRIDED, "bitmap": BITMAP}[group["kind"]]))
        parents.append(number("the parent of a sparse group", dump, group["address"], "Q", group["parent"]))
        data.append(_sparse_data(dump, group))
    for dump, group in ledger.each("groups", predefined=1):
        parents.append(number("no parent of the empty group", dump, group["address"], "Q", 0))
    ledger.pin(struct, "grp_flags", flags, numbers)
    ledger.pin(struct, "grp_parent_group_ptr", parents, words)
    ledger.pin(struct, "sparse_data", data, words)


def _own_process(dump: Dump, group: dict[str, Any]) -> Sighting:
    """Sight a table of processes in which this process is at its rank."""
    own = dump.word(dump.symbols["ompi_proc_local_proc"].address)

    def seen(offset: int) -> Hashable:
        table = dump.word(group["address"] + offset)
        return group["rank"] if dump.word(table + WORD * group["rank"]) == own else None

    return Sighting("a table with this process at its rank", group["rank"], seen)


def _group_flags(dump: Dump, address: int, expected: int) -> Sighting:
    known = GROUP_DENSE | SPORADIC | STRIDED | BITMAP
    what = "how a group is stored: dense, sporadic, strided, bitmap"
    return Sighting(what, expected, lambda offset: dump.scalar(address + offset, "I") & known)


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
    struct = "opal_proc_t"
    ledger.pin(struct, "proc_name", sightings, ledger.own_offsets(struct, 4))


def _proc_name(dump: Dump, proc: int, rank: int, own: int, job: int | None) -> Sighting:
    """Sight a job number, the same as this process's, and the rank in MPI_COMM_WORLD behind it."""

    def seen(offset: int) -> Hashable:
        number_of_job = dump.scalar(proc + offset, "I")
        if number_of_job != dump.scalar(own + offset, "I") or job not in (None, number_of_job) or not number_of_job:
            return None
        return dump.scalar(proc + offset + 4, "I")

    return Sighting("the job's number, and behind it the rank in MPI_COMM_WORLD", rank, seen)
