"""What a rank of Open MPI's calibration runs, as ``main`` with the arguments LIBRARY DIRECTORY MODE.

It makes objects and operations whose values can be found again in memory, writes down what is true of them
(truth.RANK), and copies its memory (memory.RANK). A handle of Open MPI is the address of the struct behind it: that is
the one thing this program knows of Open MPI's insides, besides names of exported symbols. Modes: "plain"; "early",
messages overtake each other, which needs several TCP links; "cm", as plain with pml/cm; "posted", receives alone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import MpiBindings, MpiError
from mqs_dll.calibrate.copier import CopiedPart, find_symbols
from mqs_dll.calibrate.dump import Entry
from mqs_dll.calibrate.openmpi.c_calls import STACK_BYTES, call_in_thread, call_on_stack
from mqs_dll.calibrate.openmpi.family import wanted_symbols
from mqs_dll.calibrate.rank import CalibrationRank
from mqs_dll.debugger.proc import mappings

LARGE_ROWS = 1 << 20
"""Ints of a message that can't be sent in one piece."""

SECONDS_TO_LIVE = 300
EARLY_MESSAGES = 7
EARLY_FIRST_BYTES = 900_000
"""Eager, but more than the sockets take at once."""

MANY_REQUESTS = 150
ATTACHED_BYTES = 4 << 20
MAX_TAG = 32767
PML = "OMPI_MCA_pml"
CONTEXTS = "OMPI_MCA_mtl_ofi_num_ctxts"
"""What mpiexec got with --mca."""

TAG_UB = 0
"""MPI_TAG_UB (mpi.h, the same in 4.1 and 5.0)."""

FUNCTIONS = """
int PMPI_Comm_c2f(MPI_Comm);
int PMPI_Group_c2f(MPI_Group);
int PMPI_Type_c2f(MPI_Datatype);
int PMPI_Win_c2f(MPI_Win);
double PMPI_Wtime(void);
MPI_Group PMPI_Group_f2c(int);
int ompi_group_incl_strided(MPI_Group, int, const int *, MPI_Group *);
int ompi_group_incl_bmap(MPI_Group, int, const int *, MPI_Group *);
"""
"""Those that return no error code, and Open MPI's own."""

MODES = {
    "Isend": "standard",
    "Issend": "synchronous",
    "Irsend": "ready",
    "Ibsend": "buffered",
    "Send_init": "standard",
    "Ssend_init": "synchronous",
}
"""The functions that send, and how."""

NO_TOPOLOGY, CARTESIAN, GRAPH = range(3)

SPARSE_GROUPS = (("strided", [0, 2]), ("strided", [1, 2]), ("strided", [0, 1, 2]), ("bmap", [0, 2]), ("bmap", [1, 2]))
"""Groups that are stored as a part of their parent: how, as in the name of Open MPI's function, and their members."""

MAX_REGION_SIZE = 256 << 20
"""Bytes; larger mappings hold payloads, not structs."""


class OpenMpiRank(CalibrationRank):
    """One process of Open MPI, and what it has made."""

    quiet_tag = MAX_TAG

    def __init__(self, mpi: MpiBindings, directory: Path, mode: str) -> None:
        super().__init__(mpi, directory, mode)
        mpi.ffi.cdef(FUNCTIONS)
        self.comms: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self.requests: list[Entry] = []
        kinds = ("communicators", "groups", "sparse_groups", "datatypes", "error_handlers", "windows")
        self.truth |= {kind: [] for kind in (*kinds, "messages", "probes", "packs")} | {"requests": self.requests}

    # ------------------------------------------------------------ communicators and groups

    def _know(self, label: str, comm: Any, *, named: bool = False, **more: int) -> Any:
        """Write down what MPI says of a communicator and its groups."""
        mpi = self.mpi
        if named:
            mpi.do("Comm_set_name", comm, f"calibrate: {label}".encode())
        inter = mpi.create("int", "Comm_test_inter", comm)
        group = self._tell_group(mpi.create("MPI_Group", "Comm_group", comm))
        peers = self._tell_group(mpi.create("MPI_Group", "Comm_remote_group", comm)) if inter else group
        entry = {
            "label": label,
            "address": mpi.number_of(comm),
            "name": mpi.text("Comm_get_name", comm),
            "named": int(named or "predefined" in more),
            "inter": inter,
            "rank": group["rank"],
            "size": group["size"],
            "group": group["address"],
            "remote_size": peers["size"],
            "remote_group": peers["address"],
            "fortran": mpi.own("PMPI_Comm_c2f")(comm),
            **{"predefined": 0, "topology": NO_TOPOLOGY, "session": 0, "info": 0, **more},
        }
        self.truth["communicators"].append(entry)
        self.comms[label] = comm
        return comm

    def _make(self, label: str, function: str, *arguments: Any, named: bool = True, **more: int) -> Any:
        """Make a communicator, which this rank may have no part in, and write it down."""
        comm = self.mpi.create("MPI_Comm", function, *arguments)
        return comm if comm == self.mpi.COMM_NULL else self._know(label, comm, named=named, **more)

    def _named_dup(self, label: str) -> Any:
        return self._make(label, "Comm_dup", self.mpi.COMM_WORLD)

    def make_communicators(self) -> None:
        """Make communicators of all kinds, each rank another number of its own."""
        mpi, world = self.mpi, self.mpi.COMM_WORLD
        self._know("world", world, predefined=1)
        self._know("self", mpi.COMM_SELF, predefined=1)
        for number in range(self.rank + 1):
            self._make(f"own {number}", "Comm_dup", mpi.COMM_SELF)
        self._make("unnamed", "Comm_dup", world, named=False)
        self._make("reversed", "Comm_split", world, 0, self.ranks - self.rank)
        half = self._make("half", "Comm_split", world, int(self.rank == 0), self.rank)
        self._make("cartesian", "Cart_create", world, 1, [self.ranks], [1], 0, topology=CARTESIAN)
        self._make("cartesian half", "Cart_create", half, 1, [1], [1], 0, named=False, topology=CARTESIAN)
        self._make("graph", "Graph_create", world, 1, [0], [0], 0, topology=GRAPH)
        info = mpi.create("MPI_Info", "Info_create")
        mpi.do("Info_set", info, b"mpi_assert_allow_overtaking", b"false")
        for number in range(2):
            comm = self._make(f"info {number}", "Comm_dup_with_info", world, info, info=1)
            mpi.do("Comm_set_info", comm, info)
            leaders = half, 0, world, int(self.rank == 0)
            self._make(f"inter {number}", "Intercomm_create", *leaders, 5 + number, named=number == 1)
        if mpi.has("Session_init"):
            session = mpi.create("MPI_Session", "Session_init", mpi.INFO_NULL, mpi.ERRORS_ARE_FATAL)
            group = mpi.create("MPI_Group", "Group_from_session_pset", session, b"mpi://WORLD")
            for number in range(2):
                arguments = (group, f"calibrate {number}".encode(), mpi.INFO_NULL, mpi.ERRORS_ARE_FATAL)
                comm = self._make(f"session {number}", "Comm_create_from_group", *arguments, named=False, session=1)
                self._make(f"session {number} dup", "Comm_dup", comm, named=False, session=1)

    def _tell_group(self, group: Any) -> Entry:
        mpi = self.mpi
        entry = {
            "address": mpi.number_of(group),
            "size": mpi.create("int", "Group_size", group),
            "rank": mpi.create("int", "Group_rank", group),
            "fortran": mpi.own("PMPI_Group_c2f")(group),
            "predefined": int(group == mpi.GROUP_EMPTY),
        }
        self.truth["groups"].append(entry)
        return entry

    def make_groups(self) -> None:
        """Make groups of every size."""
        mpi = self.mpi
        world = mpi.create("MPI_Group", "Comm_group", mpi.COMM_WORLD)
        backwards = list(range(self.ranks))[::-1]
        self._tell_group(mpi.GROUP_EMPTY)
        for number in range(1, self.ranks + 1):
            self._tell_group(mpi.create("MPI_Group", "Group_incl", world, number, backwards))
            self._tell_group(mpi.create("MPI_Group", "Group_excl", world, number, backwards))

    def make_sparse_groups(self) -> None:
        """Make groups that are stored as a part of their parent."""
        mpi = self.mpi
        parent = mpi.create("MPI_Group", "Comm_group", mpi.COMM_WORLD)
        for kind, members in SPARSE_GROUPS:
            include = mpi.own(f"ompi_group_incl_{kind}")
            if include is None:
                continue
            before = mpi.create("MPI_Group", "Group_incl", parent, 1, members)
            number = mpi.own("PMPI_Group_c2f")(before)  # that the next group gets, once this one is gone
            mpi.change("MPI_Group", "Group_free", before)
            call_in_thread(include, parent, len(members), members, mpi.ffi.new("MPI_Group *"))
            group = mpi.own("PMPI_Group_f2c")(number)
            if group not in (mpi.GROUP_NULL, mpi.NULL):
                addresses = {"address": mpi.number_of(group), "parent": mpi.number_of(parent)}
                self.truth["sparse_groups"].append({"kind": kind, "members": members, **addresses})

    # ------------------------------------------------------------ datatypes, error handlers, windows

    def make_datatypes(self) -> None:
        """Make datatypes: named and not, committed and not, and two that don't start at their buffer."""
        mpi = self.mpi
        for predefined in (mpi.INT, mpi.DOUBLE, mpi.CHAR, mpi.BYTE):
            self._tell_type(predefined, predefined=1)
        self._add_type("cell", "Type_contiguous", 2, mpi.DOUBLE, named=True)
        self._add_type("column", "Type_vector", LARGE_ROWS, 1, 2, mpi.INT, named=True)
        self._add_type("unnamed", "Type_contiguous", 3, mpi.SHORT)
        self._add_type("uncommitted", "Type_vector", 5, 1, 3, mpi.CHAR, named=True, committed=0)
        for name, by, lower, extent in (("shifted", 40, 8, 200), ("shifted more", 72, -16, 300)):
            block = mpi.create("MPI_Datatype", "Type_create_hindexed", 1, [1], [by], mpi.DOUBLE)
            self._add_type(name, "Type_create_resized", block, lower, extent)

    def _add_type(self, name: str, function: str, *arguments: Any, named: bool = False, committed: int = 1) -> None:
        datatype = self.mpi.create("MPI_Datatype", function, *arguments)
        if named:
            self.mpi.do("Type_set_name", datatype, f"calibrate: {name}".encode())
        self.types[name] = self.mpi.change("MPI_Datatype", "Type_commit", datatype) if committed else datatype
        self._tell_type(self.types[name], committed=committed)

    def _tell_type(self, datatype: Any, *, predefined: int = 0, committed: int = 1) -> None:
        mpi = self.mpi
        entry = {
            "address": mpi.number_of(datatype),
            "name": mpi.text("Type_get_name", datatype),
            "size": mpi.create("int", "Type_size", datatype),
            "predefined": predefined,
            "committed": committed,
            "true_lower_bound": self._extent("Type_get_true_extent", datatype)[0],
            "fortran": mpi.own("PMPI_Type_c2f")(datatype),
        }
        self.truth["datatypes"].append(entry)

    def _extent(self, function: str, datatype: Any) -> tuple[int, int]:
        lower, extent = self.mpi.ffi.new("MPI_Aint *"), self.mpi.ffi.new("MPI_Aint *")
        self.mpi.do(function, datatype, lower, extent)
        return lower[0], extent[0]

    def make_error_handlers(self) -> None:
        """Make error handlers: one reference from the handle, and one from each communicator that uses it."""
        mpi, comms = self.mpi, iter(self.comms.values())
        never_called = mpi.ffi.cast("void *", mpi.own("PMPI_Wtime"))
        for uses in range(5):
            handler = mpi.create("MPI_Errhandler", "Comm_create_errhandler", never_called)
            for comm in islice(comms, uses):
                mpi.do("Comm_set_errhandler", comm, handler)
            self.truth["error_handlers"].append({"address": mpi.number_of(handler), "references": 1 + uses})

    def make_windows(self) -> None:
        """Make windows that refuse locks, and windows that don't."""
        mpi = self.mpi
        for number in range(4):
            info = mpi.create("MPI_Info", "Info_create")
            mpi.do("Info_set", info, b"no_locks", b"true" if number % 2 else b"false")
            comm = mpi.COMM_WORLD if number < 2 else self.comms["reversed"]
            window = mpi.create("MPI_Win", "Win_allocate", 1024, 1, info, comm, mpi.ffi.new("void **"))
            mpi.do("Win_set_name", window, f"calibrate: window {number}".encode())
            group = mpi.create("MPI_Group", "Win_get_group", window)
            entry = {
                "address": mpi.number_of(window),
                "name": mpi.text("Win_get_name", window),
                "group": mpi.number_of(group),
                "no_locks": int(self._refuses_locks(window, mpi.create("int", "Group_rank", group))),
                "fortran": mpi.own("PMPI_Win_c2f")(window),
            }
            self.truth["windows"].append(entry)

    def _refuses_locks(self, window: Any, rank: int) -> bool:
        mpi = self.mpi
        mpi.do("Win_set_errhandler", window, mpi.ERRORS_RETURN)
        try:
            mpi.do("Win_lock", mpi.LOCK_SHARED, rank, 0, window)
        except MpiError:
            return True
        mpi.do("Win_unlock", rank, window)
        return False

    # ------------------------------------------------------------ operations

    def _post(
        self, function: str, label: str, peer: int, tag: int, count: int, datatype: Any, fate: str = "pending"
    ) -> Entry:
        """Start an operation, or make a persistent one, and write it down.

        Args:
            function: of MPI: "Isend".
            label: of the communicator.
            peer: a rank in it, or ANY_SOURCE.
            tag: its tag, or ANY_TAG.
            count: of elements.
            datatype: of an element.
            fate: the state that it is in, or "freed" or "started" for what is to be done with it.
        """
        mpi = self.mpi
        mode = MODES.get(function, "")
        size = self._extent("Type_get_extent", datatype)[1] * count
        buffer = self._payload(size, tag) if mode else self.allocate(size)
        request = mpi.create("MPI_Request", function, buffer, count, datatype, peer, tag, self.comms[label])
        if fate == "started":
            request = mpi.change("MPI_Request", "Start", request)
        self.handles.append(request)
        packed = mpi.create("int", "Type_size", datatype) * count
        entry = {
            "kind": "send" if mode else "receive",
            "address": mpi.number_of(request),
            "state": "pending" if fate in ("freed", "started") else fate,
            "label": label,
            "comm": mpi.number_of(self.comms[label]),
            "peer": peer,
            "tag": tag,
            "count": count,
            "bytes": packed,
            "datatype": mpi.number_of(datatype),
            "buffer": mpi.number_of(buffer),
            "mode": mode,
            "persistent": int(function.endswith("_init")),
            "freed": int(fate == "freed"),
            "transferred": packed if mode else 0,
        }
        self.requests.append(entry)
        if fate == "freed":
            mpi.change("MPI_Request", "Request_free", request)
        return entry

    def _payload(self, size: int, tag: int) -> Any:
        """Return the bytes of a message: its tag, then 1, 2, 3, ..."""
        buffer = self.allocate(size)
        self.mpi.ffi.buffer(buffer, size)[:] = bytes([tag % 256]) + (bytes(range(256)) * (size // 256 + 1))[1:size]
        return buffer

    def _send_blocking(self, size: int, to: int, tag: int, comm: Any) -> None:
        self.mpi.do("Send", self._payload(size, tag), size, self.mpi.BYTE, to, tag, comm)

    def _expect(self, where: str, label: str, source: int, tag: int, size: int, *, rendezvous: bool = False) -> None:
        comm = self.mpi.number_of(self.comms.get(label, self.mpi.COMM_NULL))
        entry = {"where": where, "comm": comm, "source": source, "tag": tag, "bytes": size, "rendezvous": rendezvous}
        self.truth["messages"].append(entry)

    def post_unmatched(self) -> None:
        """Post receives that nothing matches, in lists of different lengths; some freed, some persistent."""
        mpi, before, after, anyone = self.mpi, self.previous, self.next, self.mpi.ANY_SOURCE
        for label in ("posted 0", "posted 1", "posted 2"):
            self._named_dup(label)
        for count, datatype, source, tag, number, function, fate in (
            (10, mpi.INT, before, 7, 0, "Irecv", "pending"),
            (3, mpi.DOUBLE, anyone, 8, 0, "Irecv", "pending"),
            (100, mpi.BYTE, before, mpi.ANY_TAG, 0, "Irecv", "pending"),
            (5, self.types["cell"], anyone, 9, 0, "Irecv", "pending"),
            (7, mpi.CHAR, before, 7, 0, "Irecv", "pending"),
            (64, mpi.PACKED, anyone, mpi.ANY_TAG, 0, "Irecv", "pending"),
            (11, self.types["unnamed"], self.rank, MAX_TAG, 0, "Irecv", "pending"),
            (13, mpi.SHORT, before, 12, 0, "Irecv", "pending"),
            (17, mpi.INT, anyone, 13, 1, "Irecv", "pending"),
            (19, mpi.INT, anyone, 14, 1, "Irecv", "pending"),
            (23, mpi.DOUBLE, after, 15, 1, "Irecv", "pending"),
            (24, mpi.DOUBLE, after, 16, 1, "Irecv", "pending"),
            (25, mpi.DOUBLE, after, 17, 1, "Irecv", "pending"),
            (29, mpi.INT, anyone, 18, 2, "Irecv", "pending"),
            (31, mpi.INT, before, 19, 1, "Irecv", "freed"),
            (32, mpi.INT, anyone, 20, 2, "Irecv", "freed"),
            (37, mpi.LONG, before, 21, 2, "Recv_init", "inactive"),
            (38, mpi.LONG, anyone, 22, 2, "Recv_init", "inactive"),
            (39, mpi.LONG, before, 23, 2, "Recv_init", "started"),
            (40, mpi.LONG, anyone, 24, 2, "Recv_init", "started"),
        ):
            self._post(function, f"posted {number}", source, tag, count, datatype, fate)

    def use_pools(self) -> None:
        """Fill the pools beyond their first chunks, and leave requests behind that nobody uses."""
        self._named_dup("pool")
        known = len(self.requests)
        for number in range(MANY_REQUESTS):
            self._post("Irecv", "pool", self.rank, 100 + number, 1, self.mpi.INT, "gone")
        for request in self.handles[known:]:
            self.mpi.change("MPI_Request", "Cancel", request)
            self.mpi.change("MPI_Request", "Wait", request, self.mpi.STATUS_IGNORE)
        del self.requests[known + 3 :], self.handles[known + 3 :]  # the others, given back later, are taken again

    def make_complete(self) -> None:
        """Make receives and sends that are complete, and that the program has not waited for."""
        mpi, before, known = self.mpi, self.previous, len(self.requests)
        self._named_dup("done")
        wanted = ((1000, before, 30), (700, mpi.ANY_SOURCE, 31), (600, before, mpi.ANY_TAG), (900, before, 33))
        received = [self._post("Irecv", "done", source, tag, count, mpi.INT) for count, source, tag in wanted]
        mpi.do("Barrier", mpi.COMM_WORLD)
        functions = ("Issend", "Issend", "Irsend", "Isend")
        sent = [
            self._post(each, "done", self.next, 30 + number, 1000 + 200 * number, mpi.BYTE)
            for number, each in enumerate(functions)
        ]
        for entry, request in zip(self.requests[known:], self.handles[known:], strict=True):
            while not (status := self.status_of(request)):
                pass
            entry |= {"state": "complete", "status": status}
        for entry, message in zip(received, sent, strict=True):
            entry["transferred"] = message["bytes"]

    def leave_unexpected(self) -> None:
        """Send messages that no receive matches: the sender has a request for each that waits for the receiver."""
        mpi, source = self.mpi, self.previous
        first, second = "surprise 0", "surprise 1"
        for label in (first, second):
            self._named_dup(label)
        attached = self.allocate(ATTACHED_BYTES)
        mpi.do("Buffer_attach", attached, ATTACHED_BYTES)
        self.truth["attached"] = [mpi.number_of(attached), ATTACHED_BYTES]
        for label, function, size, tag, fate, waits in (
            (first, "Isend", 400, 40, "complete", False),
            (first, "Isend", 3000, 41, "complete", False),
            (first, "Send", 16, 42, "", False),
            (first, "Issend", 500, 43, "pending", True),
            (first, "Issend", 2100, 44, "pending", True),
            (first, "Isend", 1 << 20, 45, "pending", True),
            (first, "Ibsend", 1 << 20, 46, "complete", True),
            (first, "Ibsend", 3 << 19, 47, "complete", True),
            (second, "Send", 48, 50, "", False),
            (second, "Isend", 5 << 18, 51, "freed", True),
            (second, "Issend", 777, 52, "freed", True),
            (second, "Send_init", 1 << 20, 53, "inactive", False),
            (second, "Ssend_init", (1 << 20) + 8, 54, "inactive", False),
            (second, "Send_init", (1 << 20) + 16, 55, "started", True),
            (second, "Ssend_init", (1 << 20) + 24, 56, "started", True),
        ):
            if function == "Send":
                self._send_blocking(size, self.next, tag, self.comms[label])
            else:
                self._post(function, label, self.next, tag, size, mpi.BYTE, fate)
            if fate != "inactive":
                self._expect("unexpected", label, source, tag, size, rendezvous=waits)

    def probe_each_source(self) -> None:
        """Probe for anybody's message where only one rank has sent one: a communicator for each source."""
        mpi = self.mpi
        for source in range(self.ranks):
            label = f"probe {source}"
            comm = self._named_dup(label)
            if self.rank == source:
                for to in range(self.ranks):
                    self._send_blocking(20, to, 60 + source, comm)
            flag = mpi.ffi.new("int *")
            while not flag[0]:
                mpi.do("Iprobe", mpi.ANY_SOURCE, mpi.ANY_TAG, comm, flag, mpi.STATUS_IGNORE)
            self._expect("unexpected", label, source, 60 + source, 20)
            self.truth["probes"].append({"comm": mpi.number_of(comm), "source": source})

    def send_to_freed(self, ghosts: Sequence[Any]) -> None:
        """Send messages on communicators that their receiver has freed, and the others have not."""
        mpi = self.mpi
        mpi.change("MPI_Comm", "Comm_free", ghosts[self.rank])
        mpi.do("Barrier", mpi.COMM_WORLD)
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        for to in others:
            for _ in range(to + 1):
                self._send_blocking(24, to, 80 + self.rank, ghosts[to])
        for source in others * (self.rank + 1):
            self._expect("foreign", "", source, 80 + source, 24)
        self.meet("sent", self.poll)
        self.poll_for(0.5)

    def begin_transfers(self, label: str) -> None:
        """Start transfers that can't end: each rank in turn polls once, matches what was announced, and goes quiet."""
        column = self.types["column"]
        received = self._post("Irecv", label, self.mpi.ANY_SOURCE, 70, 1, column)
        self.meet("ready")
        sent = self._post("Isend", label, self.next, 70, 1, column)
        if self.rank == self.ranks - 1:  # it polls last, and finds the answer to its own message
            sent["state"] = "in progress"
        self.meet("announced")
        for turn in range(self.ranks):
            if turn == self.rank:
                self.poll_for(0.3)
            self.meet(f"polled.{turn}")
        received |= {"state": "in progress", "transferred": 4 * LARGE_ROWS}

    def overtake(self, label: str) -> None:
        """Send messages that overtake one which never arrives whole."""
        known = len(self.requests)
        for turn in range(self.ranks):
            if turn == self.rank:
                for number in range(EARLY_MESSAGES):
                    size = 300 if number else EARLY_FIRST_BYTES
                    self._post("Isend", label, self.next, 90 + number, size, self.mpi.BYTE)
            self.meet(f"overtook.{turn}")
            if turn == self.previous:
                self.poll_for(1.0)
            self.meet(f"noticed.{turn}")
        for number in range(1, EARLY_MESSAGES):
            self._expect("early", label, self.previous, 90 + number, 300)
        del self.requests[known:]  # which of these are complete isn't known

    def make_packs(self) -> None:
        """Convert to a format in which a long has another size, each time on a stack of its own."""
        mpi = self.mpi
        for count in (37, 53, 69):
            size = 8 * count
            stack = mpi.number_of(self.allocate(STACK_BYTES))
            name, position = mpi.ffi.new("char[]", b"external32"), mpi.ffi.new("MPI_Aint *")
            self._buffers += [name, position]
            source, target = self.allocate(size), self.allocate(2 * size)
            arguments = (name, source, count, mpi.LONG, target, 2 * size, position)
            call_on_stack(stack, mpi.function("Pack_external"), *map(mpi.number_of, arguments))
            self.truth["packs"].append({"stack": [stack, STACK_BYTES], "count": count, "bytes": size})

    # ------------------------------------------------------------ writing

    def tell_machine(self) -> None:
        """Write down how the job was started, and what is public of its structs."""
        mpi = self.mpi
        largest, flag = mpi.ffi.new("int **"), mpi.ffi.new("int *")
        mpi.do("Comm_get_attr", mpi.COMM_WORLD, TAG_UB, largest, flag)
        members = ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR", "_cancelled", "_ucount")
        status = {member: mpi.ffi.offsetof("MPI_Status", member) for member in members}
        self.truth |= {
            "namespace": os.environ.get("PMIX_NAMESPACE", ""),
            "pml": os.environ.get(PML, ""),
            "contexts": int(os.environ.get(CONTEXTS, "0")),
            "largest_tag": largest[0][0] if flag[0] else 0,
            "ompi_status_public_t": {"size": mpi.ffi.sizeof("MPI_Status"), **status},
        }

    def write_all(self) -> None:
        """Copy what can be written of the memory, and all of the objects with a wanted symbol: names are there."""
        symbols = find_symbols({*wanted_symbols(), "PMPI_Init"})
        self.truth["library_file"] = symbols.pop("PMPI_Init").path
        self.truth["symbols"] = {name: [symbol.address, symbol.size] for name, symbol in symbols.items()}
        objects = {symbol.path for symbol in symbols.values()}
        private = (each for each in mappings("self") if each.readable and not each.permissions.endswith("s"))
        self.write(
            CopiedPart(each.start, each.end, each.writable)
            for each in private
            if each.end - each.start <= MAX_REGION_SIZE and (each.writable or each.path in objects)
        )


def main() -> None:
    """Run one rank: make everything of its mode, and write it down."""
    library, directory, mode = sys.argv[1:]
    signal.alarm(SECONDS_TO_LIVE)
    mpi = MpiBindings.load(Path(library))
    mpi.do("Init", mpi.NULL, mpi.NULL)
    rank = OpenMpiRank(mpi, Path(directory), mode)
    rank.make_communicators()
    rank.make_groups()
    rank.make_datatypes()
    rank.make_packs()
    ghosts = [mpi.create("MPI_Comm", "Comm_dup", mpi.COMM_WORLD) for _ in range(rank.ranks)]
    for label in ("flow", "early"):
        rank._named_dup(label)
    rank.post_unmatched()
    if mode != "posted":
        rank.make_windows()
        rank.use_pools()
        rank.make_complete()
        rank.probe_each_source()
        rank.leave_unexpected()
        rank.send_to_freed(ghosts)
        mpi.do("Barrier", mpi.COMM_WORLD)
        rank.meet("settled", rank.poll)
        rank.poll_for(0.3)
        rank.meet("still", rank.poll)
        if mode == "early":
            rank.overtake("early")
        else:
            rank.begin_transfers("flow")
    rank.make_sparse_groups()
    rank.make_error_handlers()
    rank.tell_machine()
    rank.write_all()
    rank.end()
