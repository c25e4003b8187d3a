"""What a rank of MPICH's calibration runs, as ``main`` with the arguments LIBRARY DIRECTORY MODE.

It makes objects and operations whose values can be found again, waits until every message has come, writes down what is
true (truth.RANK), and copies its memory (memory.RANK). Modes: "plain", all objects and operations; "cliques", the same
on several nodes; "spawn", few, and a process that is spawned.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import MpiBindings, MpiError
from mqs_dll.calibrate.copier import CopiedPart, find_symbols
from mqs_dll.calibrate.dump import PAGE
from mqs_dll.calibrate.launch import SHARED_MEMORY, python_code
from mqs_dll.calibrate.rank import CalibrationRank, Entry
from mqs_dll.debugger.proc import Mapping, mappings
from mqs_dll.library.mpi import MPICH

PROGRAM = "mqs_dll.calibrate.mpich.program"
SETTLED_SECONDS = 0.5
PATIENCE_FOR_MESSAGES = 10.0
"""Seconds that a rank waits for the messages that the others sent it."""

INTS = (3, 5, 7, 11)
"""Elements of the datatypes: their names and sizes follow."""

HOLES = (3, 2, 3)
"""Blocks, elements of a block and distance of blocks of a datatype with holes."""

SMALL = 2
"""Elements of a message that goes at once."""

LARGE = 40_000
"""Elements of a message that waits for its receiver."""

HUGE = 500_000
"""Elements with holes of a message that doesn't fit into the shared memory between two processes."""

ROOMY = 1000
"""Elements of a receive that any small message fits into."""

MANY_REQUESTS = 4500
"""More than fit into one block of any release's pool."""

TAG_BYTES = 8
"""Of the tag at the start of each message."""

SURPRISES = {
    "eager": ("Isend", SMALL),
    "synchronous": ("Issend", SMALL),
    "rendezvous": ("Isend", LARGE),
    "synchronous rendezvous": ("Issend", LARGE),
}
"""Messages that nobody receives, by their labels: the function that sends them, and their elements."""

INTER_TAG = 77
STALLED_TAG = 40_000
SPAWNERS = [0, 1]
SPAWNED = [0, 1, 2]
"""Ranks of the processes that spawn, and of those that are spawned."""

Ranks = list[int]

TOUCHED = 0b11 << 62
"""Bits of an entry of /proc/PID/pagemap: the page is in memory, or swapped out (Documentation/admin-guide/mm)."""

GAP = 256
"""Pages that were never touched, between two that were, that are taken along as zeros."""


class MpichRank(CalibrationRank):
    """One process of MPICH, and what it has made."""

    def __init__(self, library: Path, directory: Path, mode: str) -> None:
        mpi = MpiBindings.load(library)
        mpi.do("Init", mpi.NULL, mpi.NULL)
        super().__init__(mpi, directory, mode)
        self._library = library.resolve()
        self.comms: dict[str, Any] = {}
        self.types: list[Any] = []
        anchor = find_symbols((MPICH,))[MPICH]
        self.truth |= {
            "library_file": str(self._library),
            "library": min(mapping.start for mapping in mappings("self") if mapping.path == str(self._library)),
            "variables": self._variables(),
            "status": [mpi.ffi.offsetof("MPI_Status", "MPI_SOURCE"), mpi.ffi.sizeof("MPI_Status")],
            "symbols": {MPICH: [anchor.address, anchor.size]},
            **{kind: [] for kind in ("comms", "merged", "datatypes", "operations", "windows", "requests", "messages")},
        }
        self.number = 0
        """Of the requests so far: what makes each another."""
        self.everyone = list(range(self.ranks))
        self.add_comm("world", mpi.COMM_WORLD, self.everyone, name="MPI_COMM_WORLD")
        self.add_comm("self", mpi.COMM_SELF, [self.rank], name="MPI_COMM_SELF")
        self.truth["alone"] = mode != "plain" and self.is_alone()

    # ------------------------------------------------------------ communicators

    def comm(self, label: str) -> Entry:
        """Return the truth of a communicator."""
        return next(entry for entry in self.truth["comms"] if entry["label"] == label)

    def inter(self, label: str, one: Ranks, other: Ranks, name: str = "", used: bool = False) -> None:
        """Make an inter-communicator; merging it makes MPICH build the communicator of its own group."""
        self.split(f"side {label}", one, other)
        if self.rank not in (*one, *other):
            return
        mine, peers = (one, other) if self.rank in one else (other, one)
        sides = self.comms[f"side {label}"]
        arguments = (sides, 0, self.mpi.COMM_WORLD, peers[0], INTER_TAG)
        comm = self.mpi.create("MPI_Comm", "Intercomm_create", *arguments)
        self.add_comm(label, comm, mine, peers, name, used)
        if used:
            merged = self.mpi.create("MPI_Comm", "Intercomm_merge", comm, mine is other)
            self.add_comm(f"merged {label}", merged, [*one, *other])

    def split(self, label: str, *parts: Ranks, name: str = "") -> None:
        """Make a communicator of each part of MPI_COMM_WORLD, in that order; only the own one is kept."""
        color, members = next(((color, part) for color, part in enumerate(parts) if self.rank in part), (None, []))
        if color is None:
            self.mpi.create("MPI_Comm", "Comm_split", self.mpi.COMM_WORLD, self.mpi.UNDEFINED, 0)
            return
        comm = self.mpi.create("MPI_Comm", "Comm_split", self.mpi.COMM_WORLD, color, members.index(self.rank))
        self.add_comm(label, comm, members, name=name)

    def add_comm(
        self, label: str, comm: Any, members: Ranks, peers: Ranks | None = None, name: str = "", used: bool = False
    ) -> None:
        """Write down a communicator; peers are those of an inter-communicator."""
        mpi = self.mpi
        if name and not name.startswith("MPI_"):
            mpi.do("Comm_set_name", comm, name.encode())
        mpi.do("Comm_set_errhandler", comm, mpi.ERRORS_RETURN)
        self.comms[label] = comm
        self.truth["comms"].append(
            {
                "label": label,
                "handle": mpi.number_of(comm),
                "inter": peers is not None,
                "rank": members.index(self.rank),
                "members": members,
                "peers": members if peers is None else peers,
                "name": name,
                "used": used,
                "attribute": 0,
                "group": None,
                "remote_group": 0 if peers is None else None,
            }
        )

    def is_alone(self) -> bool:
        """Return whether MPI sees no other rank on this one's node."""
        mpi = self.mpi
        node = mpi.create("MPI_Comm", "Comm_split_type", mpi.COMM_WORLD, mpi.COMM_TYPE_SHARED, 0, mpi.INFO_NULL)
        size: int = mpi.create("int", "Comm_size", node)
        mpi.do("Comm_free", mpi.ffi.new("MPI_Comm *", node))
        return size == 1

    def merge(self, between: Any, own: int, others: int, *, is_high: bool) -> None:
        """Merge two jobs, and write down the communicator: MPI doesn't number the nodes of its ranks."""
        comm = self.mpi.create("MPI_Comm", "Intercomm_merge", between, is_high)
        ranks = list(range(own + others))
        self.truth["merged"].append(
            {
                "handle": self.mpi.number_of(comm),
                "inter": False,
                "rank": self.rank + (others if is_high else 0),
                "members": ranks,
                "peers": ranks,
                "name": "",
                "group": None,
                "remote_group": 0,
            }
        )

    def set_attributes(self, *labels: str) -> None:
        """Give some communicators an attribute, each another one."""
        ffi = self.mpi.ffi
        key = ffi.new("int *")
        self.mpi.do("Comm_create_keyval", ffi.NULL, ffi.NULL, key, ffi.NULL)
        values = self.allocate(len(self.truth["comms"]))
        for index, entry in enumerate(self.truth["comms"]):
            if entry["label"] in labels:
                self.mpi.do("Comm_set_attr", self.comms[entry["label"]], key[0], values + index)
                entry["attribute"] = int(ffi.cast("uintptr_t", values + index))

    def spawn(self) -> Any:
        """Spawn processes that run this program, and return the inter-communicator that leads to them."""
        ffi = self.mpi.ffi
        words = [str(self._library), str(self.directory / "spawned"), "spawned"]
        script = self.directory / "spawned.py"  # commands of mpiexec's protocol are short lines
        script.write_text(f"import sys\nsys.argv[1:] = {words!r}\n{python_code(PROGRAM)}\n")
        texts = [ffi.new("char[]", str(script).encode())]
        arguments = ffi.new("char *[]", [*texts, ffi.NULL])
        codes = ffi.new("int[]", len(SPAWNED))
        comm = ffi.new("MPI_Comm *")
        where = len(SPAWNED), self.mpi.INFO_NULL, 0, self.mpi.COMM_WORLD
        self.mpi.do("Comm_spawn", sys.executable.encode(), arguments, *where, comm, codes)
        return comm[0]

    def ask_for_groups(self, *labels: str) -> None:
        """Ask some communicators for their groups: before 5.0 they have none until then."""
        for entry in self.truth["comms"]:
            if entry["label"] in labels:
                comm = self.comms[entry["label"]]
                entry["group"] = self.mpi.number_of(self.mpi.create("MPI_Group", "Comm_group", comm))
                if entry["inter"]:
                    group = self.mpi.create("MPI_Group", "Comm_remote_group", comm)
                    entry["remote_group"] = self.mpi.number_of(group)

    # ------------------------------------------------------------ datatypes, windows

    def make_datatype(self, name: str, extent: int, function: str, *arguments: int) -> None:
        """Make a datatype of ints that extends over some of them, with a name or without."""
        datatype = self.mpi.create("MPI_Datatype", function, *arguments, self.mpi.INT)
        datatype = self.mpi.change("MPI_Datatype", "Type_commit", datatype)
        self.types.append(datatype)
        size = self.mpi.create("int", "Type_size", datatype)
        self._add("datatypes", "Type_set_name", datatype, name, size=size, extent=4 * extent)

    def make_window(self, label: str, name: str) -> None:
        """Make a window on a communicator, with a name or without."""
        size = 4096 * (len(self.truth["windows"]) + 1)
        arguments = self.allocate(size), size, 1, self.mpi.INFO_NULL, self.comms[label]
        self._add("windows", "Win_set_name", self.mpi.create("MPI_Win", "Win_create", *arguments), name, comm=label)

    def _add(self, kind: str, set_name: str, handle: Any, name: str, **more: Any) -> None:
        if name:
            self.mpi.do(set_name, handle, name.encode())
        self.truth[kind].append({"handle": self.mpi.number_of(handle), "name": name, **more})

    # ------------------------------------------------------------ operations

    def post(
        self,
        function: str,
        label: str,
        comm: str,
        peer: int,
        tag: int,
        elements: int = SMALL,
        *,
        partitions: int = 0,
        started: bool = False,
    ) -> None:
        """Start an operation, or make a persistent one, and write it down.

        Args:
            function: of MPI: "Isend".
            label: what the solver knows it by; a stalled one has a datatype with holes.
            comm: label of the communicator.
            peer: rank in it, or ANY_SOURCE.
            tag: its tag, or ANY_TAG.
            elements: the least count; it is made different from all others.
            partitions: of a partitioned operation.
            started: whether to start what is persistent.
        """
        self.number += 1
        mpi, count = self.mpi, elements + self.number
        which = len(INTS) if label == "stalled" else self.number % len(INTS)
        datatype = self.truth["datatypes"][which]
        buffer = self.allocate((partitions or 1) * count * datatype["extent"])
        kind = "receive" if "recv" in function.lower() else "send"
        if kind == "send":  # the message's content shows where a copy of it lies
            mpi.ffi.buffer(buffer)[:TAG_BYTES] = tag.to_bytes(TAG_BYTES, "little")
        arguments = [buffer, count, self.types[which], peer, tag, self.comms[comm]]
        if partitions:
            arguments = [buffer, partitions, *arguments[1:], mpi.INFO_NULL]
        request = mpi.create("MPI_Request", function, *arguments)
        again = function.endswith("_init")
        if started:
            mpi.change("MPI_Request", "Start", request)
        self.handles.append(request)
        self.truth["requests"].append(
            {
                "label": label,
                "function": function,
                "kind": f"{'partitioned ' if partitions else 'persistent ' if again else ''}{kind}",
                "handle": mpi.number_of(request),
                "state": "started" if started else "inactive" if again else "pending",
                "comm": comm,
                "peer": peer,
                "tag": tag,
                "count": count,
                "datatype": datatype["handle"],
                "bytes": count * datatype["size"],
                "buffer": mpi.number_of(buffer),
                "partitions": partitions,
            }
        )

    def take(self, comm: str, tag: int) -> None:
        """Take a message off its queue without receiving it, where MPI can (MPI 3.0)."""
        ffi = self.mpi.ffi
        flag, message, status = ffi.new("int *"), ffi.new("MPI_Message *"), ffi.new("MPI_Status *")
        self.mpi.do("Improbe", 0, tag, self.comms[comm], flag, message, status)
        if flag[0]:
            self.truth["messages"].append({"handle": self.mpi.number_of(message[0]), "tag": tag})

    # ------------------------------------------------------------ waiting and writing

    def settle(self) -> None:
        """Let MPI take in all messages of all ranks."""
        sent = []
        for entry in self.truth["requests"]:
            if entry["label"] in SURPRISES:
                comm = self.comm(entry["comm"])
                sent.append((comm["peers"][entry["peer"]], entry["comm"], comm["rank"], entry["tag"]))
        (self.directory / f"sent.{self.rank}").write_text(json.dumps(sent))
        self.meet("posted", self.poll)
        notes = [json.loads((self.directory / f"sent.{rank}").read_text()) for rank in self.everyone]
        self._wait_for([message for note in notes for receiver, *message in note if receiver == self.rank])
        self.poll_for(SETTLED_SECONDS)
        self.meet("settled", self.poll)

    def poll(self) -> None:
        """Learn which operations are complete."""
        for entry, request in zip(self.truth["requests"], self.handles, strict=True):
            status = self.status_of(request) if entry["state"] == "pending" else None
            if status:
                entry["state"] = "cancelled" if status.pop("cancelled") else "complete"
                entry["status"] = status

    def _wait_for(self, messages: Sequence[Sequence[Any]]) -> None:
        """Wait until messages have come: communicator, source and tag of each. What doesn't come is missed later."""
        deadline = time.monotonic() + PATIENCE_FOR_MESSAGES
        flag = self.mpi.ffi.new("int *")
        for comm, source, tag in messages:
            flag[0] = 0
            while not flag[0] and time.monotonic() < deadline:
                self.poll()
                self.mpi.do("Iprobe", source, tag, self.comms[comm], flag, self.mpi.STATUS_IGNORE)

    def stall(self) -> None:
        """Leave the data of messages half-way: a part has come, and who sends doesn't go on."""
        pair, place = divmod(self.rank, 2)
        peer = self.rank ^ 1
        sends, receives = (peer < self.ranks and place == each for each in (0, 1))
        tag = STALLED_TAG + pair
        if sends:
            self.post("Isend", "stalled", "calm", peer, tag, HUGE * (pair + 1))
        self.meet("asked to send")
        if receives:
            self._wait_for([("calm", peer, tag)])
            source = peer if pair else self.mpi.ANY_SOURCE
            self.post("Irecv", "stalled", "calm", source, tag, HUGE * (pair + 2))
        self.meet("asked for data")
        if sends:
            self.poll_for(SETTLED_SECONDS)
        self.meet("sent what fits")
        if receives:
            self.poll_for(SETTLED_SECONDS)

    # ------------------------------------------------------------ the own memory

    def _variables(self) -> list[tuple[int, int]]:
        """Return the place of the library's variables: what its file backs, and the anonymous mapping behind (.bss)."""
        found: list[tuple[int, int]] = []
        for mapping in mappings("self"):
            follows = bool(found) and mapping.path == "" and mapping.start == found[-1][1]
            if mapping.writable and (mapping.path == str(self._library) or follows):
                found.append((mapping.start, mapping.end))
        return found

    def write_all(self) -> None:
        """Write down what is true, and copy the memory, as far as MPICH's state can be in it.

        That is the library's header and its variables, the heap, and the anonymous and shared mappings. Intel MPI maps
        gigabytes of shared memory: of each mapping only the parts that were ever touched count.
        """
        mapped = [mapping for mapping in mappings("self") if mapping.readable]
        shared = [mapping for mapping in mapped if mapping.path.startswith(SHARED_MEMORY)]
        self.truth["shared"] = [part[:2] for mapping in shared if mapping.writable for part in _touched(mapping)]
        self.truth["shared_files"] = [mapping.path for mapping in shared]
        header, variables = self.truth["library"], self._variables()
        parts = [CopiedPart(header, header + PAGE, False), *(CopiedPart(start, end, True) for start, end in variables)]
        for mapping in mapped:
            wanted = mapping.path in ("", "[heap]") or mapping.path.startswith(SHARED_MEMORY)
            if wanted and mapping.writable and (mapping.start, mapping.end) not in variables:
                parts += _touched(mapping)
        self.write(parts)

    def end(self) -> None:
        """Wait for all ranks to have written, remove their shared memory, and end without MPI_Finalize."""
        self.meet("copied")
        for name in self.truth["shared_files"]:  # some are deleted as soon as all have them
            Path(name).unlink(missing_ok=True)
        super().end()  # all together: when one has ended so, the launcher kills the others


def _touched(mapping: Mapping) -> Iterator[CopiedPart]:
    """Yield the parts of a mapping that were touched."""
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        entries = os.pread(file.fileno(), (mapping.end - mapping.start) // PAGE * 8, mapping.start // PAGE * 8)
    touched = [index for index, (entry,) in enumerate(struct.iter_unpack("<Q", entries)) if entry & TOUCHED]
    gaps = [(one, other) for one, other in pairwise(touched) if other - one - 1 > GAP]
    ends = [*touched[:1], *chain(*gaps), *touched[-1:]]  # the first and the last page of each part, in turn
    for first, last in zip(ends[::2], ends[1::2], strict=True):
        yield CopiedPart(mapping.start + first * PAGE, mapping.start + (last + 1) * PAGE, True)


# ---------------------------------------------------------------- what is made


def make_communicators(rank: MpichRank) -> None:
    """Make communicators of every shape of ranks that MPICH stores in its own way."""
    rank.split("quiet", rank.everyone)
    rank.split("calm", rank.everyone)
    rank.split("busy", rank.everyone, name="busy communicator")
    rank.split("done", rank.everyone[::-1], name="reversed")
    shapes = ([0, 2, 4], [4, 2, 0], [1, 3], [0, 3], [0, 1, 3, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [2, 1], [0, 1, 2, 4])
    for number, shape in enumerate(shapes):
        members = [member for member in shape if member < rank.ranks]
        rank.split(f"shape {number}", members, name=f"shape {number}" if number % 2 else "")
    halves = (([0, 1, 2], [4, 3]), ([4, 0, 2], [1, 3]), ([3], [0, 2, 1, 4]), ([0, 1], [2, 3, 4]), ([0, 3], [1, 2, 4]))
    for number, (one, other) in enumerate(halves):
        left, right = ([member for member in half if member < rank.ranks] for half in (one, other))
        rank.inter(f"inter {number}", left, right, name=f"inter {number}" if number % 2 else "", used=number % 2 == 0)
    for number in range(2):
        comm = rank.mpi.create("MPI_Comm", "Comm_dup", rank.mpi.COMM_SELF)
        rank.add_comm(f"alone {number}", comm, [rank.rank])
    rank.set_attributes("world", "quiet", "shape 1", "inter 1", "inter 2")
    rank.ask_for_groups("done", "shape 1", "shape 4", "inter 0", "inter 1", "inter 3", "quiet")


def make_objects(rank: MpichRank) -> None:
    """Make datatypes of different sizes, every other with a name, the last with holes; an operation; and windows."""
    for index, ints in enumerate(INTS):
        rank.make_datatype(f"{ints} ints" if index % 2 else "", ints, "Type_contiguous", ints)
    blocks, block, stride = HOLES
    rank.make_datatype("with holes", (blocks - 1) * stride + block, "Type_vector", blocks, block, stride)
    # so that the pool of operations, whose size is another than most, is used
    never_called = rank.mpi.ffi.cast("void *", rank.truth["symbols"][MPICH][0])
    operation = rank.mpi.create("MPI_Op", "Op_create", never_called, 1)
    rank.truth["operations"].append({"handle": rank.mpi.number_of(operation)})
    rank.make_window("world", "a window")
    rank.make_window("done", "")
    rank.make_window("self", "lonely window")


def post_receives(rank: MpichRank) -> None:
    """Post receives that nothing matches, also on inter-communicators, and from anywhere."""
    anyone, anything = rank.mpi.ANY_SOURCE, rank.mpi.ANY_TAG
    for entry in list(rank.truth["comms"]):
        label, peers = entry["label"], len(entry["peers"])
        if label not in ("world", "quiet", "done") and not label.startswith(("shape", "inter ")):
            continue
        for source in range(peers):
            rank.post("Irecv", "posted", label, source, 1000 + rank.number)
        if label in ("quiet", "inter 1"):
            rank.post("Irecv", "posted", label, anyone, 1000 + rank.number)
            rank.post("Irecv", "posted", label, 0, anything)
            rank.post("Irecv", "posted", label, anyone, anything)
            rank.post("Irecv", "posted", label, anyone, 1000 + rank.number)


def send_messages(rank: MpichRank) -> None:
    """Send messages that nobody receives, each to two ranks and on two communicators."""
    for comm in ("busy", "done"):
        for distance in (1, 2):
            peer = (rank.comm(comm)["rank"] + distance) % rank.ranks
            for label in (*SURPRISES, "synchronous", "rendezvous"):
                function, elements = SURPRISES[label]
                rank.post(function, label, comm, peer, 10_000 + 200 * rank.rank + rank.number, elements)


def complete_some(rank: MpichRank) -> None:
    """Complete receives, those too that took what came, and cancel some."""
    peers, mpi = rank.ranks, rank.mpi
    for distance, (any_tag, any_source) in enumerate(product((False, True), repeat=2)):
        source, target = (rank.rank - distance - 1) % peers, (rank.rank + distance + 1) % peers
        if target == rank.rank:
            continue
        tag = 30_000 + distance
        rank.post("Isend", "received", "calm", target, tag + 10 * rank.rank, SMALL * (distance + 1))
        wanted = mpi.ANY_SOURCE if any_source else source, mpi.ANY_TAG if any_tag else tag + 10 * source
        rank.post("Irecv", "received", "calm", *wanted, ROOMY)
        rank.post("Irecv", "cancelled", "busy", source, 31_000 + distance)
        mpi.change("MPI_Request", "Cancel", rank.handles[-1])


def make_persistent(rank: MpichRank) -> None:
    """Make persistent operations, some started."""
    for index, function in enumerate(("Send_init", "Recv_init", "Ssend_init", "Rsend_init", "Recv_init", "Bsend_init")):
        for comm in ("busy", "quiet", "inter 1", "inter 4"):
            peer = (index + rank.rank) % len(rank.comm(comm)["peers"])
            rank.post(function, "inactive", comm, peer, 5000 + rank.number)
    for comm in ("world", "busy"):  # nowhere else: it would meet the receives that take anything
        rank.post("Recv_init", "started", comm, 1, 6000 + rank.number, started=True)
        rank.post("Ssend_init", "started", comm, 1, 6000 + rank.number, started=True)


def make_partitioned(rank: MpichRank) -> None:
    """Make partitioned operations; some find their partner, some are started."""
    if not rank.mpi.has("Psend_init"):
        return
    left, right = (rank.rank - 1) % rank.ranks, (rank.rank + 1) % rank.ranks
    for number in range(4):
        for function, label, peer, tag, partitions in (
            ("Psend_init", "partitioned", right, 7000 + 10 * rank.rank + number, 2 + number),
            ("Precv_init", "partitioned", left, 7000 + 10 * left + number, 2 + number),
            ("Precv_init", "lonely", right, 7500 + number, 3 + number),
        ):
            rank.post(function, label, "world", peer, tag, partitions=partitions, started=number % 2 == 0)


def talk_to_itself(rank: MpichRank) -> None:
    """Post receives and sends on communicators of one process; none of them match."""
    for number, comm in enumerate(("self", "alone 0", "alone 1")):
        for index in range(2):
            rank.post("Irecv", "self", comm, 0, 8000 + 10 * number + index)
            rank.post("Isend", "self", comm, 0, 8500 + 10 * number + index)
        rank.post("Isend", "probed", comm, 0, 8900 + number)
        rank.take(comm, 8900 + number)


def fill_the_pool(rank: MpichRank) -> None:
    """Make so many inactive requests that their pool needs several blocks."""
    mpi, buffer = rank.mpi, rank.allocate(64)
    for _ in range(MANY_REQUESTS):
        mpi.create("MPI_Request", "Recv_init", buffer, 1, mpi.INT, 0, 1, mpi.COMM_SELF)


def plain(rank: MpichRank) -> None:
    """Make everything."""
    make_communicators(rank)
    make_objects(rank)
    complete_some(rank)
    post_receives(rank)
    send_messages(rank)
    make_persistent(rank)
    make_partitioned(rank)
    talk_to_itself(rank)
    fill_the_pool(rank)
    rank.settle()
    rank.poll()
    if rank.truth["mode"] == "plain":  # over a network a message doesn't come while its sender waits
        rank.stall()
    rank.write_all()
    rank.end()


def spawn(rank: MpichRank) -> None:
    """Spawn processes, or be spawned."""
    if rank.truth["mode"] == "spawned":
        parent = rank.mpi.create("MPI_Comm", "Comm_get_parent")
        rank.add_comm("parent", parent, rank.everyone, SPAWNERS, "MPI_COMM_PARENT")
        if rank.truth["alone"]:
            rank.merge(parent, len(SPAWNED), len(SPAWNERS), is_high=True)
    else:
        try:
            children = rank.spawn()
            rank.add_comm("children", children, rank.everyone, SPAWNED)
            if rank.truth["alone"]:
                rank.merge(children, len(SPAWNERS), len(SPAWNED), is_high=False)
        except MpiError as error:  # some transports can't
            rank.truth["no_spawn"] = str(error)
    rank.write_all()
    rank.meet("written")
    rank.mpi.do("Finalize")


def main() -> None:
    """Run one rank."""
    library, directory, mode = sys.argv[1:]
    Path(directory).mkdir(exist_ok=True)  # that of spawned processes is not there yet
    run = spawn if mode.startswith("spawn") else plain
    run(MpichRank(Path(library), Path(directory), mode))
