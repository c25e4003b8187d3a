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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import Mpi, MpiError
from mqs_dll.calibrate.copier import Part, find_symbols
from mqs_dll.calibrate.dump import PAGE
from mqs_dll.calibrate.launch import python_code
from mqs_dll.calibrate.rank import Rank
from mqs_dll.debugger.proc import Mapping, mappings
from mqs_dll.mpi import MPICH

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
"""Of the tag at the begin of each message."""

SURPRISES = ("eager", "synchronous", "rendezvous", "synchronous rendezvous")
"""Labels of messages that nobody receives."""

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

SHARED_MEMORY = ("/dev/shm/mpich", "/dev/shm/Intel_MPI")
"""Files with messages between the processes of a node."""


class MpichRank(Rank):
    """One process of MPICH, and what it has made."""

    def __init__(self, library: Path, directory: Path, mode: str) -> None:
        mpi = Mpi.load(library)
        mpi.do("Init", mpi.NULL, mpi.NULL)
        super().__init__(mpi, directory, mode)
        self._library = library.resolve()
        self.comms: dict[str, Any] = {"world": mpi.COMM_WORLD, "self": mpi.COMM_SELF}
        self.types: list[Any] = []
        anchor = find_symbols((MPICH,))[MPICH]
        self.truth |= {
            "library_file": str(self._library),
            "library": min(mapping.begin for mapping in mappings("self") if mapping.path == str(self._library)),
            "variables": self._variables(),
            "status": [mpi.ffi.offsetof("MPI_Status", "MPI_SOURCE"), mpi.ffi.sizeof("MPI_Status")],
            "any_source": mpi.ANY_SOURCE,
            "any_tag": mpi.ANY_TAG,
            "symbols": {MPICH: [anchor.address, anchor.size]},
            **{kind: [] for kind in ("comms", "datatypes", "operations", "windows", "requests", "messages")},
        }
        self._number = 0

    # ------------------------------------------------------------ communicators

    def know_predefined(self) -> None:
        """Write down MPI_COMM_WORLD and MPI_COMM_SELF."""
        everyone = list(range(self.ranks))
        self._add_comm("world", self.mpi.COMM_WORLD, everyone, name="MPI_COMM_WORLD")
        self._add_comm("self", self.mpi.COMM_SELF, [self.rank], name="MPI_COMM_SELF")

    def intra(self, label: str, members: Ranks, name: str = "") -> None:
        """Make a communicator of some processes, in that order."""
        self._split(label, [members], name)

    def inter(self, label: str, one: Ranks, other: Ranks, name: str = "", used: bool = False) -> None:
        """Make an inter-communicator; merging it makes MPICH build the communicator of its own group."""
        self._split(f"side {label}", [one, other], "")
        if self.rank not in (*one, *other):
            return
        mine, peers = (one, other) if self.rank in one else (other, one)
        sides = self.comms[f"side {label}"]
        if mine is one:  # so that the groups choose different context ids
            self.mpi.create("MPI_Comm", "Comm_dup", sides)
        arguments = (sides, 0, self.mpi.COMM_WORLD, peers[0], INTER_TAG)
        comm = self.mpi.create("MPI_Comm", "Intercomm_create", *arguments)
        self._add_comm(label, comm, mine, peers, name, used)
        if not used:
            return
        merged = self.mpi.create("MPI_Comm", "Intercomm_merge", comm, mine is other)
        self._add_comm(f"merged {label}", merged, [*one, *other])

    def _split(self, label: str, parts: Sequence[Ranks], name: str) -> None:
        """Make a communicator of each part of MPI_COMM_WORLD; only the own one is kept."""
        mine = next((number for number, members in enumerate(parts) if self.rank in members), None)
        if mine is None:
            self.mpi.create("MPI_Comm", "Comm_split", self.mpi.COMM_WORLD, self.mpi.UNDEFINED, 0)
            return
        members = parts[mine]
        comm = self.mpi.create("MPI_Comm", "Comm_split", self.mpi.COMM_WORLD, mine, members.index(self.rank))
        self._add_comm(label, comm, members, name=name)

    def _add_comm(
        self, label: str, comm: Any, members: Ranks, peers: Ranks | None = None, name: str = "", used: bool = False
    ) -> None:
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
                "group": 0,
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
        self.mpi.do(
            "Comm_spawn",
            *(
                sys.executable.encode(),
                arguments,
                len(SPAWNED),
                self.mpi.INFO_NULL,
                0,
                self.mpi.COMM_WORLD,
                comm,
                codes,
            ),
        )
        return comm[0]

    def add_inter(self, label: str, comm: Any, peers: Ranks, name: str = "") -> None:
        """Write down an inter-communicator to processes of another job."""
        self._add_comm(label, comm, list(range(self.ranks)), peers, name)

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

    def make_datatypes(self) -> None:
        """Make datatypes of different sizes; every other has a name. The last one has holes."""
        for index, ints in enumerate(INTS):
            datatype = self.mpi.create("MPI_Datatype", "Type_contiguous", ints, self.mpi.INT)
            self._add_datatype(datatype, 4 * ints, 4 * ints, f"{ints} ints" if index % 2 else "")
        blocks, block, stride = HOLES
        holes = self.mpi.create("MPI_Datatype", "Type_vector", blocks, block, stride, self.mpi.INT)
        self._add_datatype(holes, 4 * blocks * block, 4 * ((blocks - 1) * stride + block), "with holes")

    def _add_datatype(self, datatype: Any, size: int, extent: int, name: str) -> None:
        datatype = self.mpi.change("MPI_Datatype", "Type_commit", datatype)
        if name:
            self.mpi.do("Type_set_name", datatype, name.encode())
        self.types.append(datatype)
        entry = {"handle": self.mpi.number_of(datatype), "size": size, "extent": extent, "name": name}
        self.truth["datatypes"].append(entry)

    def make_operation(self) -> None:
        """Make a reduction operation, so that its pool, whose size is another than most, is used."""
        never_called = self.mpi.ffi.cast("void *", self.truth["symbols"][MPICH][0])
        operation = self.mpi.create("MPI_Op", "Op_create", never_called, 1)
        self.truth["operations"].append({"handle": self.mpi.number_of(operation)})

    def make_window(self, label: str, name: str) -> None:
        """Make a window on a communicator."""
        comm = self.comms[label]
        size = 4096 * (len(self.truth["windows"]) + 1)
        memory = self.allocate(size)
        window = self.mpi.create("MPI_Win", "Win_create", memory, size, 1, self.mpi.INFO_NULL, comm)
        if name:
            self.mpi.do("Win_set_name", window, name.encode())
        entry = {"handle": self.mpi.number_of(window), "name": name, "comm": label}
        self.truth["windows"].append(entry)

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
        holes: bool = False,
        started: bool = False,
    ) -> None:
        """Start an operation, or make a persistent one, and write it down.

        Args:
            function: of MPI: "Isend".
            label: what the solver knows it by.
            comm: label of the communicator.
            peer: rank in it, or ANY_SOURCE.
            tag: its tag, or ANY_TAG.
            elements: the least count; it is made different from all others.
            partitions: of a partitioned operation.
            holes: whether the datatype has holes.
            started: whether to start what is persistent.
        """
        self._number += 1
        mpi, count = self.mpi, elements + self._number
        which = len(INTS) if holes else self._number % len(INTS)
        datatype = self.truth["datatypes"][which]
        buffer = self.allocate((partitions or 1) * count * datatype["extent"])
        kind = "receive" if "recv" in function.lower() else "send"
        if kind == "send":  # what is in the message tells where a copy of it lies
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
                "peer": "any" if peer == mpi.ANY_SOURCE else peer,
                "tag": "any" if tag == mpi.ANY_TAG else tag,
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

    def peers_of(self, comm: str) -> int:
        """Return how many processes the ranks in a communicator refer to."""
        return next(len(entry["peers"]) for entry in self.truth["comms"] if entry["label"] == comm)

    def many_requests(self) -> None:
        """Make so many inactive requests that their pool needs several blocks."""
        buffer = self.allocate(64)
        for _ in range(MANY_REQUESTS):
            self.mpi.create("MPI_Request", "Recv_init", buffer, 1, self.mpi.INT, 0, 1, self.mpi.COMM_SELF)

    # ------------------------------------------------------------ waiting and writing

    def settle(self) -> None:
        """Let MPI take in all messages of all ranks."""
        note = self.directory / f"sent.{self.rank}"
        note.write_text(json.dumps(self._sent()))
        self.meet("posted", self.poll)
        notes = [json.loads((self.directory / f"sent.{rank}").read_text()) for rank in range(self.ranks)]
        coming = [message for messages in notes for message in messages if message[0] == self.rank]
        self._wait_for([message[1:] for message in coming])
        self.poll_for(SETTLED_SECONDS)
        self.meet("settled", self.poll)

    def look(self) -> None:
        """Learn which operations are complete."""
        for entry, request in zip(self.truth["requests"], self.handles, strict=True):
            status = self.status_of(request) if entry["state"] == "pending" else None
            if status:
                entry["state"] = "cancelled" if status.pop("cancelled") else "complete"
                entry["status"] = status

    def _wait_for(self, messages: Sequence[Sequence[Any]]) -> None:
        """Wait until messages have come: communicator, source and tag of each. What doesn't come is missed later."""
        deadline = time.monotonic() + PATIENCE_FOR_MESSAGES
        while not all(self._is_there(*message) for message in messages) and time.monotonic() < deadline:
            self.poll()

    def _sent(self) -> list[tuple[int, str, int, int]]:
        """Return the messages that nobody receives: receiver, communicator, the own rank in it, tag."""
        comms = {entry["label"]: entry for entry in self.truth["comms"]}
        return [
            (comms[entry["comm"]]["peers"][entry["peer"]], entry["comm"], comms[entry["comm"]]["rank"], entry["tag"])
            for entry in self.truth["requests"]
            if entry["label"] in SURPRISES
        ]

    def _is_there(self, comm: str, source: int, tag: int) -> bool:
        flag = self.mpi.ffi.new("int *")
        self.mpi.do("Iprobe", source, tag, self.comms[comm], flag, self.mpi.STATUS_IGNORE)
        return bool(flag[0])

    def stall(self) -> None:
        """Leave the data of messages half-way: a part has come, and who sends doesn't go on."""
        pair, place = divmod(self.rank, 2)
        peer = self.rank + 1 - 2 * place
        sends, receives = (peer < self.ranks and place == each for each in (0, 1))
        tag = STALLED_TAG + pair
        if sends:
            self.post("Isend", "stalled", "calm", peer, tag, HUGE * (pair + 1), holes=True)
        self.meet("asked to send")
        if receives:
            self._wait_for([("calm", peer, tag)])
            source = peer if pair else self.mpi.ANY_SOURCE
            self.post("Irecv", "stalled", "calm", source, tag, HUGE * (pair + 2), holes=True)
        self.meet("asked for data")
        if sends:
            self.poll_for(SETTLED_SECONDS)
        self.meet("sent what there is room for")
        if receives:
            self.poll_for(SETTLED_SECONDS)

    # ------------------------------------------------------------ the own memory

    def _variables(self) -> list[tuple[int, int]]:
        """Return the place of the library's variables: what its file backs, and the anonymous mapping behind (.bss)."""
        found: list[tuple[int, int]] = []
        for mapping in mappings("self"):
            follows = bool(found) and mapping.path == "" and mapping.begin == found[-1][1]
            if mapping.writable and (mapping.path == str(self._library) or follows):
                found.append((mapping.begin, mapping.end))
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
        parts = [Part(header, header + PAGE, False), *(Part(begin, end, True) for begin, end in variables)]
        for mapping in mapped:
            wanted = mapping.path in ("", "[heap]") or mapping.path.startswith(SHARED_MEMORY)
            if wanted and mapping.writable and (mapping.begin, mapping.end) not in variables:
                parts += _touched(mapping)
        self.write(parts)

    def end(self) -> None:
        """Wait for all ranks to have written, remove their shared memory, and end without MPI_Finalize."""
        self.meet("written")
        for name in self.truth["shared_files"]:  # some are deleted as soon as all have them
            Path(name).unlink(missing_ok=True)
        os._exit(0)


def _touched(mapping: Mapping) -> Iterator[Part]:
    """Yield the parts of a mapping that were touched."""
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        entries = os.pread(file.fileno(), (mapping.end - mapping.begin) // PAGE * 8, mapping.begin // PAGE * 8)
    begin = end = None
    for index, (entry,) in enumerate(struct.iter_unpack("<Q", entries)):
        if not entry & TOUCHED:
            continue
        if begin is None or end is None:
            begin = index
        elif index - end > GAP:
            yield Part(mapping.begin + begin * PAGE, mapping.begin + end * PAGE, True)
            begin = index
        end = index + 1
    if begin is not None and end is not None:
        yield Part(mapping.begin + begin * PAGE, mapping.begin + end * PAGE, True)


# ---------------------------------------------------------------- what is made


def make_communicators(rank: MpichRank) -> None:
    """Make communicators of every shape of ranks that MPICH stores in its own way."""
    everyone = list(range(rank.ranks))
    rank.know_predefined()
    rank.intra("quiet", everyone)
    rank.intra("calm", everyone)
    rank.intra("busy", everyone, name="busy communicator")
    rank.intra("done", everyone[::-1], name="reversed")
    shapes = ([0, 2, 4], [4, 2, 0], [1, 3], [0, 3], [0, 1, 3, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [2, 1], [0, 1, 2, 4])
    for number, shape in enumerate(shapes):
        members = [member for member in shape if member < rank.ranks]
        rank.intra(f"shape {number}", members, name=f"shape {number}" if number % 2 else "")
    halves = (([0, 1, 2], [4, 3]), ([4, 0, 2], [1, 3]), ([3], [0, 2, 1, 4]), ([0, 1], [2, 3, 4]), ([0, 3], [1, 2, 4]))
    for number, (one, other) in enumerate(halves):
        left, right = ([member for member in half if member < rank.ranks] for half in (one, other))
        rank.inter(f"inter {number}", left, right, name=f"inter {number}" if number % 2 else "", used=number % 2 == 0)
    alone = [rank.rank]
    for number in range(2):
        comm = rank.mpi.create("MPI_Comm", "Comm_dup", rank.mpi.COMM_SELF)
        rank._add_comm(f"alone {number}", comm, alone)
    rank.set_attributes("world", "quiet", "shape 1", "inter 1", "inter 2")
    rank.ask_for_groups("done", "shape 1", "shape 4", "inter 0", "inter 1", "inter 3", "quiet")


def make_objects(rank: MpichRank) -> None:
    """Make datatypes and windows."""
    rank.make_datatypes()
    rank.make_operation()
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
            rank.post("Irecv", "posted", label, source, 1000 + rank._number)
        if label in ("quiet", "inter 1"):
            rank.post("Irecv", "posted", label, anyone, 1000 + rank._number)
            rank.post("Irecv", "posted", label, 0, anything)
            rank.post("Irecv", "posted", label, anyone, anything)
            rank.post("Irecv", "posted", label, anyone, 1000 + rank._number)


def send_messages(rank: MpichRank) -> None:
    """Send messages that nobody receives, each to two ranks and on two communicators."""
    for comm in ("busy", "done"):
        place = next(entry["rank"] for entry in rank.truth["comms"] if entry["label"] == comm)
        for distance in (1, 2):
            peer = (place + distance) % rank.ranks
            for function, label, elements in (
                ("Isend", "eager", SMALL),
                ("Issend", "synchronous", SMALL),
                ("Isend", "rendezvous", LARGE),
                ("Issend", "synchronous rendezvous", LARGE),
                ("Issend", "synchronous", SMALL),
                ("Isend", "rendezvous", LARGE),
            ):
                rank.post(function, label, comm, peer, 10_000 + 200 * rank.rank + rank._number, elements)


def complete_some(rank: MpichRank) -> None:
    """Complete receives, those too that took what came, and cancel some."""
    peers, mpi = rank.ranks, rank.mpi
    named = ((False, False), (True, False), (False, True), (True, True))
    for distance, (any_source, any_tag) in enumerate(named):
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
            peer = (index + rank.rank) % rank.peers_of(comm)
            rank.post(function, "inactive", comm, peer, 5000 + rank._number)
    for comm in ("world", "busy"):  # nowhere else: it would meet the receives that take anything
        rank.post("Recv_init", "started", comm, 1, 6000 + rank._number, started=True)
        rank.post("Ssend_init", "started", comm, 1, 6000 + rank._number, started=True)


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


ALL: Sequence[Callable[[MpichRank], None]] = (
    make_communicators,
    make_objects,
    complete_some,
    post_receives,
    send_messages,
    make_persistent,
    make_partitioned,
    talk_to_itself,
    MpichRank.many_requests,
    MpichRank.settle,
    MpichRank.look,
)


def plain(rank: MpichRank) -> None:
    """Make everything."""
    for step in ALL:
        step(rank)
    if rank.truth["mode"] == "plain":  # over a network a message doesn't come while its sender waits
        rank.stall()
    rank.write_all()
    rank.end()


def spawn(rank: MpichRank) -> None:
    """Spawn processes, or be spawned."""
    rank.know_predefined()
    if rank.truth["mode"] == "spawned":
        rank.add_inter("parent", rank.mpi.create("MPI_Comm", "Comm_get_parent"), SPAWNERS, name="MPI_COMM_PARENT")
    else:
        try:
            rank.add_inter("children", rank.spawn(), SPAWNED)
        except MpiError as error:  # some transports can't
            rank.truth["no_spawn"] = str(error)
    rank.write_all()
    rank.meet("written")
    rank.mpi.do("Finalize")


MODES = {"plain": plain, "cliques": plain, "spawn": spawn, "spawned": spawn}


def main() -> None:
    """Run one rank."""
    library, directory, mode = sys.argv[1:]
    Path(directory).mkdir(exist_ok=True)  # that of spawned processes is not there yet
    MODES[mode](MpichRank(Path(library), Path(directory), mode))
