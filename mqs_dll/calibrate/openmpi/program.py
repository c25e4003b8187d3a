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
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import MpiError
from mqs_dll.calibrate.copier import Part, find_symbols
from mqs_dll.calibrate.dump import Entry
from mqs_dll.calibrate.openmpi.asides import STACK_BYTES, Stack, call_aside
from mqs_dll.calibrate.openmpi.family import wanted_symbols
from mqs_dll.calibrate.openmpi.library import OpenMpiLibrary
from mqs_dll.calibrate.rank import Rank
from mqs_dll.debugger.proc import Mapping, mappings

LARGE_ROWS = 1 << 20
"""Ints of a message that can't be sent in one piece."""

SECONDS_TO_LIVE = 300
EARLY_MESSAGES = 7
EARLY_FIRST_BYTES = 900_000
"""Eager, but more than the sockets take at once."""

MANY_REQUESTS = 150
ATTACHED_BYTES = 4 << 20
PACKS = 3
WINDOWS = 4
LARGEST_TAG = 32767
TAG_UB = 0
"""MPI_TAG_UB (mpi.h, the same in 4.1 and 5.0)."""

PML = "OMPI_MCA_pml"
CONTEXTS = "OMPI_MCA_mtl_ofi_num_ctxts"
"""What mpiexec was told with --mca."""

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

LARGEST_REGION = 256 << 20
"""Bytes; larger mappings hold payloads, not structs."""


class OpenMpiRank(Rank):
    """One process of Open MPI, and what it has made."""

    quiet_tag = LARGEST_TAG
    mpi: OpenMpiLibrary

    def __init__(self, mpi: OpenMpiLibrary, directory: Path, mode: str) -> None:
        super().__init__(mpi, directory, mode)
        self.mode = mode
        self.comms: dict[str, tuple[Any, Entry]] = {}
        self.groups: list[Any] = []
        self.types: dict[str, Any] = {}
        self.windows: list[tuple[Any, bool]] = []
        self.requests: list[Entry] = []
        kinds = ("messages", "probes", "packs", "sparse_groups", "error_handlers", "communicators", "windows")
        self.truth |= {"requests": self.requests, **{kind: [] for kind in kinds}}
        self._attached: Any = mpi.NULL

    @property
    def _next(self) -> int:
        return (self.rank + 1) % self.ranks

    @property
    def _previous(self) -> int:
        return (self.rank - 1) % self.ranks

    # ------------------------------------------------------------ communicators and groups

    def _know(self, label: str, comm: Any, *, named: bool = False, **more: int) -> Any:
        entry = {"label": label, "predefined": 0, "topology": NO_TOPOLOGY, "session": 0, "info": 0, **more}
        if named:
            self.mpi.do("Comm_set_name", comm, f"calibrate: {label}".encode())
        entry["named"] = int(named or bool(entry["predefined"]))
        self.comms[label] = comm, entry
        return comm

    def _named_dup(self, label: str) -> Any:
        mpi = self.mpi
        return self._know(label, mpi.create("MPI_Comm", "Comm_dup", mpi.COMM_WORLD), named=True)

    def make_communicators(self) -> None:
        """Make communicators of all kinds, each rank another number of its own."""
        mpi, world = self.mpi, self.mpi.COMM_WORLD
        self._know("world", world, predefined=1)
        self._know("self", mpi.COMM_SELF, predefined=1)
        for number in range(self.rank + 1):
            self._know(f"own {number}", mpi.create("MPI_Comm", "Comm_dup", mpi.COMM_SELF), named=True)
        self._know("unnamed", mpi.create("MPI_Comm", "Comm_dup", world))
        self._know("reversed", mpi.create("MPI_Comm", "Comm_split", world, 0, self.ranks - self.rank), named=True)
        half = mpi.create("MPI_Comm", "Comm_split", world, int(self.rank == 0), self.rank)
        self._know("half", half, named=True)
        comm = mpi.create("MPI_Comm", "Cart_create", world, 1, [self.ranks], [1], 0)
        self._know("cartesian", comm, named=True, topology=CARTESIAN)
        comm = mpi.create("MPI_Comm", "Cart_create", half, 1, [1], [1], 0)
        if comm != mpi.COMM_NULL:
            self._know("cartesian half", comm, topology=CARTESIAN)
        comm = mpi.create("MPI_Comm", "Graph_create", world, 1, [0], [0], 0)
        if comm != mpi.COMM_NULL:
            self._know("graph", comm, named=True, topology=GRAPH)
        info = mpi.create("MPI_Info", "Info_create")
        mpi.do("Info_set", info, b"mpi_assert_allow_overtaking", b"false")
        for number in range(2):
            comm = mpi.create("MPI_Comm", "Comm_dup_with_info", world, info)
            mpi.do("Comm_set_info", comm, info)
            self._know(f"info {number}", comm, named=True, info=1)
        for number in range(2 if self.ranks > 1 else 0):
            comm = mpi.create("MPI_Comm", "Intercomm_create", half, 0, world, int(self.rank == 0), 5 + number)
            self._know(f"inter {number}", comm, named=number == 1)
        if mpi.has("Session_init"):
            self._make_session_communicators()

    def _make_session_communicators(self) -> None:
        mpi = self.mpi
        session = mpi.create("MPI_Session", "Session_init", mpi.INFO_NULL, mpi.ERRORS_ARE_FATAL)
        group = mpi.create("MPI_Group", "Group_from_session_pset", session, b"mpi://WORLD")
        for number in range(2):
            arguments = (group, f"calibrate {number}".encode(), mpi.INFO_NULL, mpi.ERRORS_ARE_FATAL)
            comm = mpi.create("MPI_Comm", "Comm_create_from_group", *arguments)
            self._know(f"session {number}", comm, session=1)
            self._know(f"session {number} dup", mpi.create("MPI_Comm", "Comm_dup", comm), session=1)

    def tell_communicators(self) -> None:
        """Write down what MPI says of each communicator."""
        mpi = self.mpi
        self.truth["communicators"] = entries = []
        for comm, entry in self.comms.values():
            inter = mpi.create("int", "Comm_test_inter", comm)
            remote = mpi.create("MPI_Group", "Comm_remote_group", comm) if inter else mpi.NULL
            entries.append(
                {
                    **entry,
                    "address": mpi.number_of(comm),
                    "name": mpi.name("Comm_get_name", comm),
                    "inter": inter,
                    "rank": mpi.create("int", "Comm_rank", comm),
                    "size": mpi.create("int", "Comm_size", comm),
                    "remote_size": mpi.create("int", "Comm_remote_size", comm) if inter else 0,
                    "group": mpi.number_of(mpi.create("MPI_Group", "Comm_group", comm)),
                    "remote_group": mpi.number_of(remote),
                    "fortran": mpi.ask("Comm_c2f", comm),
                }
            )

    def make_groups(self) -> None:
        """Make groups of every size."""
        mpi = self.mpi
        world = mpi.create("MPI_Group", "Comm_group", mpi.COMM_WORLD)
        backwards = list(range(self.ranks))[::-1]
        self.groups = [world, mpi.GROUP_EMPTY]
        self.groups += [
            mpi.create("MPI_Group", "Group_incl", world, size, backwards) for size in range(1, self.ranks + 1)
        ]
        self.groups += [
            mpi.create("MPI_Group", "Group_excl", world, first, backwards) for first in range(1, self.ranks)
        ]

    def tell_groups(self) -> None:
        """Write down what MPI says of each group, those of communicators too."""
        mpi = self.mpi
        groups = list(self.groups)
        for comm, _ in self.comms.values():
            groups.append(mpi.create("MPI_Group", "Comm_group", comm))
            if mpi.create("int", "Comm_test_inter", comm):
                groups.append(mpi.create("MPI_Group", "Comm_remote_group", comm))
        self.truth["groups"] = [self._group(group) for group in groups]

    def _group(self, group: Any) -> Entry:
        mpi = self.mpi
        size = mpi.create("int", "Group_size", group)
        world = mpi.create("MPI_Group", "Comm_group", mpi.COMM_WORLD)
        in_world = mpi.ffi.new("int[]", max(size, 1))
        mpi.do("Group_translate_ranks", group, size, list(range(size)), world, in_world)
        return {
            "address": mpi.number_of(group),
            "size": size,
            "rank": mpi.create("int", "Group_rank", group),
            "fortran": mpi.ask("Group_c2f", group),
            "predefined": int(group == mpi.GROUP_EMPTY),
            "members": list(in_world)[:size],
        }

    def tell_sparse_groups(self) -> None:
        """Make groups that are stored as a part of their parent, and write them down."""
        if self.ranks < 3:
            return
        for kind, function, members, length in (
            ("strided", "ompi_group_incl_strided", [0, 2], 0),
            ("strided", "ompi_group_incl_strided", [1, 2], 0),
            ("strided", "ompi_group_incl_strided", [0, 1, 2], 0),
            ("bitmap", "ompi_group_incl_bmap", [0, 2], 1),
            ("bitmap", "ompi_group_incl_bmap", [1, 2], 1),
        ):
            include = self.mpi.own(function)
            if include is not None:
                self._sparse_group(kind, include, members, length)

    def _sparse_group(self, kind: str, include: Any, members: list[int], length: int) -> None:
        mpi = self.mpi
        parent = mpi.create("MPI_Group", "Comm_group", mpi.COMM_WORLD)
        before = mpi.create("MPI_Group", "Group_incl", parent, 1, members)
        number = mpi.ask("Group_c2f", before)  # that the next group gets, once this one is gone
        mpi.change("MPI_Group", "Group_free", before)
        call_aside(include, parent, len(members), members, mpi.ffi.new("MPI_Group *"))
        group = mpi.ask("Group_f2c", number)
        if group in (mpi.GROUP_NULL, mpi.NULL):
            return
        self.truth["sparse_groups"].append(
            {
                "kind": kind,
                "address": mpi.number_of(group),
                "parent": mpi.number_of(parent),
                "size": len(members),
                "length": length,
                "members": members,
            }
        )

    # ------------------------------------------------------------ datatypes, error handlers, windows

    def make_datatypes(self) -> None:
        """Make datatypes: named and not, committed and not, and two that don't begin at their buffer."""
        mpi = self.mpi
        self._add_type("cell", mpi.create("MPI_Datatype", "Type_contiguous", 2, mpi.DOUBLE), named=True)
        self._add_type("column", mpi.create("MPI_Datatype", "Type_vector", LARGE_ROWS, 1, 2, mpi.INT), named=True)
        self._add_type("unnamed", mpi.create("MPI_Datatype", "Type_contiguous", 3, mpi.SHORT))
        uncommitted = mpi.create("MPI_Datatype", "Type_vector", 5, 1, 3, mpi.CHAR)
        self._add_type("uncommitted", uncommitted, named=True, committed=False)
        for name, by, lower, extent in (("shifted", 40, 8, 200), ("shifted more", 72, -16, 300)):
            block = mpi.create("MPI_Datatype", "Type_create_hindexed", 1, [1], [by], mpi.DOUBLE)
            self._add_type(name, mpi.create("MPI_Datatype", "Type_create_resized", block, lower, extent))

    def _add_type(self, name: str, datatype: Any, *, named: bool = False, committed: bool = True) -> None:
        if named:
            self.mpi.do("Type_set_name", datatype, f"calibrate: {name}".encode())
        self.types[name] = self.mpi.change("MPI_Datatype", "Type_commit", datatype) if committed else datatype

    def tell_datatypes(self) -> None:
        """Write down what MPI says of each datatype."""
        mpi = self.mpi
        predefined = [(datatype, 1, 1) for datatype in (mpi.INT, mpi.DOUBLE, mpi.CHAR, mpi.BYTE)]
        derived = [(datatype, 0, int(name != "uncommitted")) for name, datatype in self.types.items()]
        self.truth["datatypes"] = [
            {
                "address": mpi.number_of(datatype),
                "name": mpi.name("Type_get_name", datatype),
                "size": mpi.create("int", "Type_size", datatype),
                "predefined": is_predefined,
                "committed": committed,
                "true_lower_bound": self._extent("Type_get_true_extent", datatype)[0],
                "fortran": mpi.ask("Type_c2f", datatype),
            }
            for datatype, is_predefined, committed in (*predefined, *derived)
        ]

    def _extent(self, function: str, datatype: Any) -> tuple[int, int]:
        lower, extent = self.mpi.ffi.new("MPI_Aint *"), self.mpi.ffi.new("MPI_Aint *")
        self.mpi.do(function, datatype, lower, extent)
        return lower[0], extent[0]

    def _nothing(self) -> Any:
        """Return a function for MPI to keep and never to call."""
        return self.mpi.ffi.cast("void *", self.mpi.own("PMPI_Wtime"))

    def tell_error_handlers(self) -> None:
        """Make error handlers: one reference from the handle, and one from each communicator that uses it."""
        mpi = self.mpi
        comms = [comm for comm, _ in self.comms.values()]
        used = 0
        for uses in range(5):
            handler = mpi.create("MPI_Errhandler", "Comm_create_errhandler", self._nothing())
            for _ in range(uses):
                mpi.do("Comm_set_errhandler", comms[used % len(comms)], handler)
                used += 1
            self.truth["error_handlers"].append({"address": mpi.number_of(handler), "references": 1 + uses})
            if used + uses + 1 > len(comms):
                break

    def make_windows(self) -> None:
        """Make windows that refuse locks, and windows that don't."""
        mpi = self.mpi
        for number in range(WINDOWS):
            info = mpi.create("MPI_Info", "Info_create")
            mpi.do("Info_set", info, b"no_locks", b"true" if number % 2 else b"false")
            comm = mpi.COMM_WORLD if number < 2 else self.comms["reversed"][0]
            base = mpi.ffi.new("void **")
            window = mpi.create("MPI_Win", "Win_allocate", 1024, 1, info, comm, base)
            mpi.do("Win_set_name", window, f"calibrate: window {number}".encode())
            self.windows.append((window, self._refuses_locks(window)))

    def _refuses_locks(self, window: Any) -> bool:
        mpi = self.mpi
        rank = mpi.create("int", "Group_rank", mpi.create("MPI_Group", "Win_get_group", window))
        mpi.do("Win_set_errhandler", window, mpi.ERRORS_RETURN)
        try:
            mpi.do("Win_lock", mpi.LOCK_SHARED, rank, 0, window)
        except MpiError:
            return True
        mpi.do("Win_unlock", rank, window)
        return False

    def tell_windows(self) -> None:
        """Write down what MPI says of each window."""
        mpi = self.mpi
        self.truth["windows"] = [
            {
                "address": mpi.number_of(window),
                "name": mpi.name("Win_get_name", window),
                "group": mpi.number_of(mpi.create("MPI_Group", "Win_get_group", window)),
                "no_locks": int(refuses),
                "fortran": mpi.ask("Win_c2f", window),
            }
            for window, refuses in self.windows
        ]

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
        request = mpi.create("MPI_Request", function, buffer, count, datatype, peer, tag, self.comms[label][0])
        if fate == "started":
            request = mpi.change("MPI_Request", "Start", request)
        self.handles.append(request)
        entry = {
            "kind": "send" if mode else "receive",
            "address": mpi.number_of(request),
            "state": "pending" if fate in ("freed", "started") else fate,
            "label": label,
            "comm": mpi.number_of(self.comms[label][0]),
            "peer": peer,
            "tag": tag,
            "count": count,
            "bytes": mpi.create("int", "Type_size", datatype) * count,
            "datatype": mpi.number_of(datatype),
            "buffer": mpi.number_of(buffer),
            "mode": mode,
            "persistent": int(function.endswith("_init")),
            "freed": int(fate == "freed"),
            "pair": 0,
            "transferred": -1,
        }
        self.requests.append(entry)
        if fate == "freed":
            mpi.change("MPI_Request", "Request_free", request)
        return entry

    def _payload(self, size: int, tag: int) -> Any:
        """Return the bytes of a message: its tag, then 1, 2, 3, ..."""
        buffer = self.allocate(size)
        self.mpi.ffi.buffer(buffer, size)[:] = (bytes(range(256)) * (size // 256 + 1))[:size]
        self.mpi.ffi.buffer(buffer, size)[0:1] = bytes([tag % 256])
        return buffer

    def _send(self, function: str, size: int, tag: int, label: str, fate: str = "pending") -> Entry:
        return self._post(function, label, self._next, tag, size, self.mpi.BYTE, fate)

    def _send_blocking(self, size: int, to: int, tag: int, comm: Any) -> None:
        self.mpi.do("Send", self._payload(size, tag), size, self.mpi.BYTE, to, tag, comm)

    def _expect(self, where: str, label: str, source: int, tag: int, size: int, *, rendezvous: bool = False) -> None:
        comm = self.mpi.COMM_NULL if not label else self.comms[label][0]
        self.truth["messages"].append(
            {
                "where": where,
                "label": label,
                "comm": self.mpi.number_of(comm),
                "source": source,
                "tag": tag,
                "bytes": size,
                "rendezvous": int(rendezvous),
            }
        )

    def post_unmatched(self) -> None:
        """Post receives that nothing matches, in lists of different lengths; some freed, some persistent."""
        mpi, before, after, anyone = self.mpi, self._previous, self._next, self.mpi.ANY_SOURCE
        for label in ("posted 0", "posted 1", "posted 2"):
            self._named_dup(label)
        for count, datatype, source, tag, number, function, fate in (
            (10, mpi.INT, before, 7, 0, "Irecv", "pending"),
            (3, mpi.DOUBLE, anyone, 8, 0, "Irecv", "pending"),
            (100, mpi.BYTE, before, mpi.ANY_TAG, 0, "Irecv", "pending"),
            (5, self.types["cell"], anyone, 9, 0, "Irecv", "pending"),
            (7, mpi.CHAR, before, 7, 0, "Irecv", "pending"),
            (64, mpi.PACKED, anyone, mpi.ANY_TAG, 0, "Irecv", "pending"),
            (11, self.types["unnamed"], self.rank, LARGEST_TAG, 0, "Irecv", "pending"),
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
            place = self.mpi.ffi.new("MPI_Request *", request)
            self.mpi.do("Cancel", place)
            self.mpi.do("Wait", place, self.mpi.STATUS_IGNORE)
        del self.requests[known + 3 :], self.handles[known + 3 :]  # the others, given back later, are taken again

    def make_complete(self) -> None:
        """Make receives and sends that are complete, and that the program has not waited for."""
        mpi, before, known = self.mpi, self._previous, len(self.requests)
        self._named_dup("done")
        wanted = ((1000, before, 30), (700, mpi.ANY_SOURCE, 31), (600, before, mpi.ANY_TAG), (900, before, 33))
        received = [self._post("Irecv", "done", source, tag, count, mpi.INT) for count, source, tag in wanted]
        mpi.do("Barrier", mpi.COMM_WORLD)
        functions = ("Issend", "Issend", "Irsend", "Isend")
        sent = [self._send(each, 1000 + 200 * number, 30 + number, "done") for number, each in enumerate(functions)]
        for entry, request in zip(self.requests[known:], self.handles[known:], strict=True):
            while not self.status_of(request):
                pass
            entry["state"] = "complete"
        for number, entry in enumerate(received):
            entry["transferred"] = 1000 + 200 * number
        for pair in (1, 2):
            received[pair - 1]["pair"] = sent[pair - 1]["pair"] = pair

    def leave_unexpected(self) -> None:
        """Send messages that no receive matches: the sender has a request for each that waits for the receiver."""
        mpi, source = self.mpi, self._previous
        first, second = "surprise 0", "surprise 1"
        for label in (first, second):
            self._named_dup(label)
        self._attached = self.allocate(ATTACHED_BYTES)
        mpi.do("Buffer_attach", self._attached, ATTACHED_BYTES)
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
                self._send_blocking(size, self._next, tag, self.comms[label][0])
            else:
                self._send(function, size, tag, label, fate)
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
        for to in range(self.ranks):
            for _ in range(to + 1 if to != self.rank else 0):
                self._send_blocking(24, to, 80 + self.rank, ghosts[to])
        for source in range(self.ranks):
            for _ in range(self.rank + 1 if source != self.rank else 0):
                self._expect("foreign", "", source, 80 + source, 24)
        self.meet("sent", self.poll)
        self.poll_for(0.5)

    def begin_transfers(self, label: str) -> None:
        """Begin transfers that can't end: each rank in turn looks once, matches what was announced, and goes quiet."""
        if self.ranks == 1:
            return
        column = self.types["column"]
        received = self._post("Irecv", label, self.mpi.ANY_SOURCE, 70, 1, column)
        received["pair"] = 3
        self.meet("ready")
        sent = self._post("Isend", label, self._next, 70, 1, column)
        if self.rank == self.ranks - 1:  # it looks last, and finds the answer to its own message
            sent |= {"state": "in progress", "pair": 3}
        self.meet("announced")
        for turn in range(self.ranks):
            if turn == self.rank:
                self.poll_for(0.3)
            self.meet(f"looked.{turn}")
        received["state"] = "in progress"
        received["transferred"] = 4 * LARGE_ROWS

    def overtake(self, label: str) -> None:
        """Send messages that overtake one which never arrives whole."""
        known = len(self.requests)
        for turn in range(self.ranks):
            if turn == self.rank:
                for number in range(EARLY_MESSAGES):
                    self._send("Isend", 300 if number else EARLY_FIRST_BYTES, 90 + number, label)
            self.meet(f"overtook.{turn}")
            if turn == self._previous:
                self.poll_for(1.0)
            self.meet(f"noticed.{turn}")
        for number in range(1, EARLY_MESSAGES):
            self._expect("early", label, self._previous, 90 + number, 300)
        del self.requests[known:]  # which of these are complete isn't known

    def make_packs(self) -> None:
        """Convert to a format in which a long has another size, each time on a stack of its own."""
        mpi = self.mpi
        for number in range(PACKS):
            count = 37 + 16 * number
            size = 8 * count
            stack = Stack()
            name, position = mpi.ffi.new("char[]", b"external32"), mpi.ffi.new("MPI_Aint *")
            self._buffers += [stack, name, position]
            source, target = self.allocate(size), self.allocate(2 * size)
            pointers = [mpi.number_of(each) for each in (name, source, mpi.LONG, target, position)]
            arguments = (pointers[0], pointers[1], count, pointers[2], pointers[3], 2 * size, pointers[4])
            stack.call(mpi.ffi.cast("void *", mpi.function("Pack_external")), *arguments)
            self.truth["packs"].append(
                {"stack": stack.address, "stack_bytes": STACK_BYTES, "count": count, "bytes": size}
            )

    # ------------------------------------------------------------ writing

    def tell_requests(self) -> None:
        """Write down the status of the requests that are complete."""
        for entry, request in zip(self.requests, self.handles, strict=False):
            status = self.status_of(request) if entry["state"] == "complete" else None
            if status:
                entry["status"] = status

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
            "attached": mpi.number_of(self._attached),
            "attached_bytes": ATTACHED_BYTES if self._attached else 0,
            "ompi_status_public_t": {"size": mpi.ffi.sizeof("MPI_Status"), **status},
        }

    def write_all(self) -> None:
        """Copy what can be written of the memory, and all of the objects with a wanted symbol: names are there."""
        symbols = find_symbols({*wanted_symbols(), "PMPI_Init"})
        self.truth["library_file"] = symbols.pop("PMPI_Init").path
        self.truth["symbols"] = {name: [symbol.address, symbol.size] for name, symbol in symbols.items()}
        objects = {symbol.path for symbol in symbols.values()}
        self.write(
            Part(mapping.begin, mapping.end, "w" in mapping.permissions)
            for mapping in mappings("self")
            if _is_private(mapping) and ("w" in mapping.permissions or mapping.path in objects)
        )


def _is_private(mapping: Mapping) -> bool:
    small = mapping.end - mapping.begin <= LARGEST_REGION
    return mapping.readable and not mapping.permissions.endswith("s") and small


def calibrate(rank: OpenMpiRank) -> None:
    """Make everything of the rank's mode, and write it down."""
    mpi = rank.mpi
    receives_only = rank.mode == "posted"
    rank.make_communicators()
    rank.make_groups()
    rank.make_datatypes()
    rank.make_packs()
    if not receives_only:
        rank.make_windows()
    ghosts = [mpi.create("MPI_Comm", "Comm_dup", mpi.COMM_WORLD) for _ in range(rank.ranks)]
    for label in ("flow", "early"):
        rank._named_dup(label)
    rank.post_unmatched()
    if not receives_only:
        rank.use_pools()
        rank.make_complete()
        rank.probe_each_source()
        rank.leave_unexpected()
        rank.send_to_freed(ghosts)
    rank.tell_communicators()
    rank.tell_groups()
    rank.tell_sparse_groups()
    rank.tell_datatypes()
    rank.tell_error_handlers()
    rank.tell_windows()
    if not receives_only:
        mpi.do("Barrier", mpi.COMM_WORLD)
        rank.meet("settled", rank.poll)
        rank.poll_for(0.3)
        rank.meet("still", rank.poll)
        if rank.mode == "early":
            rank.overtake("early")
        else:
            rank.begin_transfers("flow")
    rank.tell_requests()
    rank.tell_machine()
    rank.write_all()
    rank.end()


def main() -> None:
    """Run one rank."""
    library, directory, mode = sys.argv[1:]
    signal.alarm(SECONDS_TO_LIVE)
    mpi = OpenMpiLibrary(Path(library))
    mpi.do("Init", mpi.NULL, mpi.NULL)
    calibrate(OpenMpiRank(mpi, Path(directory), mode))
