"""What each MPI leaves open of an operation, and what its transports don't keep: how a comparison treats them.

Nothing here lets a wrong value pass. A rule says where -1 ("not known") is honest, in which order nothing is defined,
and which operations an MPI has no object for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from mqs_dll.contract.abi import Operation, Queue, Status

if TYPE_CHECKING:
    from tests.support.truth.written import TrueCommunicator, TrueOperation

SAYS_UNKNOWN = re.compile(rb"not known|unknown|keeps no|not kept")
"""What a line of text says where a field is -1 because nobody keeps it."""

BUFFERED = ("MPI_Bsend", "MPI_Ibsend")
PROBES = ("MPI_Probe", "MPI_Mprobe")
PARTITIONED = ("MPI_Psend_init", "MPI_Precv_init")
LABELS = re.compile(rb"^(collective: |nonblocking collective|neighborhood collective|making of a|internal traffic)")
MAX_SMALL = 16384
"""More than any small synchronous message of the test programs, less than any that goes by rendezvous."""

HANDLE_KIND_SHIFT, PREDEFINED, HANDLE_BITS = 30, 1, 32
"""Of MPICH's handles, whose two highest bits say what kind of object they stand for."""

EARLY_NUMBERS = re.compile(rb"their numbers: ([\d, ]+)")
"""Context ids of messages whose communicator isn't there yet."""
PART_BITS = 0b1110
"""Of MPICH's context ids: which part of a communicator, made at its first collective (src/include/mpir_contextid.h)."""

RANK = frozenset({"desired_local_rank", "desired_global_rank", "actual_local_rank", "actual_global_rank"})
TAG = frozenset({"desired_tag", "actual_tag"})
LENGTH = frozenset({"desired_length", "actual_length"})
BUFFER = frozenset({"buffer"})
ACTUAL = frozenset({"actual_local_rank", "actual_global_rank", "actual_tag", "actual_length"})
ASKED = frozenset({"desired_local_rank", "desired_global_rank", "desired_tag", "desired_length"})
NOTHING: frozenset[str] = frozenset()

ONE_QUEUE = ("cm:sockets", "ch4:ofi sockets")
"""Transports whose unexpected messages have one order, whoever sent them."""
NO_RECEIVER = ("cm:rxm", "cm:lnx rxm", "ch4:ofi rxm")
"""Those that don't keep where a send goes."""
ALL_WAIT = "cm:lnx"
"""One over which small sends, too, wait for their match."""


class Rules:
    """Open MPI over pml/ob1: everything is kept, and all of it has an order."""

    ordered = True
    """Whether sends have an order, and unexpected messages one that the program can foretell."""
    describes_unnamed = True
    """Whether a communicator without a name is described in words."""
    hidden_traffic = False
    """Whether a collective on a communicator may run on one that the MPI keeps for itself."""

    strangers_tell_datatypes = True
    """Whether an operation with a process of another job keeps its datatype."""

    numbers_are_reused = False
    """Whether a freed communicator on which receives wait gives its number away: in our programs, to a window's."""

    arrival_has_order = True
    """Whether unexpected messages of several senders come in the order of their arrival."""

    one_order = True
    """Whether receives have one order, and not only those that can match the same message."""

    may_know_data_alone = False
    """Whether of a buffer it may only be known where its data start."""

    collectives_are_messages = True
    """Whether a rank that waits in a collective has a message pending which shows that."""

    def is_internal(self, operation: Operation) -> bool:
        """Return whether an operation is shown as the MPI's own: its tags are below MPI_ANY_TAG."""
        return operation.desired_tag < -1

    def is_of_any(self, operation: Operation) -> bool:
        """Return whether an operation is shown on a communicator that need not be its own."""
        return False

    def may_be_internal(self, operation: Operation) -> bool:
        """Return whether an operation is shown as one that may be a collective's: one that is done."""
        lines = operation.extra_text[:1]
        endings = (b"or a collective's", b"or a collective operation's")
        return operation.status is Status.COMPLETE and any(line.endswith(endings) for line in lines)

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Return an operation as this MPI carries it out; None for one of which it makes no object.

        Args:
            true: the operation.
            communicator: the one that it is on.
        """
        return replace(true, buffer=-1) if true.call in BUFFERED else true  # the message is a copy

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Return the fields that this MPI doesn't keep of an operation.

        Args:
            true: the operation.
            communicator: the one that it is on.
        """
        return NOTHING

    def may_refuse(self, queue: Queue, communicator: TrueCommunicator) -> bool:
        """Return whether a queue, or what is left of it, may be refused with a reason."""
        return False

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions that must be found in extra_text, beside the request's handle."""
        wanted = [re.escape(true.call.encode()) + rb"\b"]
        if true.count >= 0:
            wanted.append(datatype_text(true))
        if "init" in true.call:
            wanted.append(rb"\bpersistent\b")
        if true.call in BUFFERED:
            wanted.append(rb"the attached buffer, 0x|sent from a copy")
        return wanted


class OverUcx(Rules):
    """Open MPI over UCX: it matches messages, knows bytes and no datatypes, and nothing of probes."""

    ordered = False
    numbers_are_reused = True
    STANDARD = rb"\bMPI_(Is|S)end\b"

    def is_internal(self, operation: Operation) -> bool:
        """Decide by the tag; what is left of a neighborhood collective's resembles a program's, and a line says so."""
        tagged = super().is_internal(operation) or operation.actual_tag < -1
        return tagged or any(b"neighborhood" in line for line in operation.extra_text)

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Take UCX's word for whether a message is matched: its receiver does nothing before its next call."""
        if true.call in (*PROBES, "MPI_Improbe"):
            return None
        if true.call in BUFFERED:  # the program's request is done
            return replace(true, status=None, done=None, buffer=-1, request=0, optional=True)
        if true.queue is Queue.UNEXPECTED or true.status is Status.MATCHED:
            return replace(true, status=None)
        if is_done_send(true):  # one request serves all that is done at once
            return replace(true, optional=True)
        return true

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open what a receive got that UCX has not matched, and the tag of a send that is under way.

        And what a receive asked for that was done at once.
        """
        if true.queue is Queue.SENDS:
            return TAG if true.status is not Status.PENDING else NOTHING
        if true.status is not None:
            return ASKED | BUFFER if true.late else NOTHING
        return ACTUAL | BUFFER if true.queue is Queue.RECEIVES else TAG

    def may_refuse(self, queue: Queue, communicator: TrueCommunicator) -> bool:
        """Refuse sends: a blocking one may be deep in the stack."""
        return queue is Queue.SENDS

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions; the standard, ready and buffered modes are one."""
        wanted = [] if true.late else [rb"\b%d bytes\b" % true.length]
        if "init" in true.call:
            wanted += [re.escape(true.call.encode()), rb"\bpersistent\b", datatype_text(true)]
        elif true.queue is Queue.SENDS and "ssend" in true.call.lower():
            wanted.append(rb"MPI_Issend")
        elif true.queue is Queue.SENDS:
            wanted.append(self.STANDARD)
        elif true.queue is Queue.RECEIVES:
            wanted.append(re.escape(true.call.encode()) + rb"\b")
        return wanted


class OverOfi(Rules):
    """Open MPI over libfabric: it matches messages; of a send that it is done with it isn't known where it went.

    tcp takes in large messages, too, before they are asked for: their sends end.
    """

    ordered = False

    def __init__(self, transport: str, *, keeps_blocking: bool) -> None:
        """Start.

        Args:
            transport: which provider's.
            keeps_blocking: whether a blocking send keeps what describes its buffer.
        """
        self.arrival_has_order = transport in ONE_QUEUE
        self._keeps_no_receiver = transport in NO_RECEIVER
        self._keeps_blocking = keeps_blocking
        self._all_wait = transport == ALL_WAIT

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Take MPI's word for what is done, and libfabric's for whether a message is matched."""
        if true.call in PROBES:
            return None
        if true.call == "MPI_Improbe":  # util_srx takes such a message out of its lists
            return replace(true, optional=True)
        if true.queue is Queue.UNEXPECTED:
            return replace(true, status=None)
        sent = true.queue is Queue.SENDS
        found = replace(true, buffer=-1, status=None, optional=True) if true.call in BUFFERED else true
        if true.done:
            return replace(found, status=Status.COMPLETE, optional=true.optional or sent)
        if sent and self._all_wait:  # and a small one's may not have come
            found = replace(found, status=None if true.done is None else Status.PENDING)
        if sent and true.freed:  # nobody was told whether it is done
            found = replace(found, optional=True)
        comes = not sent and true.status is Status.PENDING and true.length > MAX_SMALL  # all at once, maybe
        return replace(found, status=None) if comes or true.status is Status.MATCHED else found

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open what a receive had asked for that has its message, and where a send goes that has left."""
        if true.queue is Queue.SENDS:
            has_ack = "ssend" in true.call.lower() and true.status is Status.PENDING
            unknown = NOTHING if has_ack or (not true.request and not self._keeps_no_receiver) else RANK
            return unknown if self._keeps_blocking or true.request else unknown | BUFFER
        if true.status is Status.PENDING:
            return NOTHING
        return ASKED | ACTUAL if true.status is None else ASKED

    def may_refuse(self, queue: Queue, communicator: TrueCommunicator) -> bool:
        """Refuse what comes behind the first message of a stranger."""
        return queue is Queue.UNEXPECTED and communicator.has_strangers

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions; 4.1 knows no datatype of a blocking send."""
        unknown = true.queue is Queue.SENDS and not self._keeps_blocking and not true.request
        return super().texts(replace(true, count=-1) if unknown else true)


class Mpich(Rules):
    """MPICH: probes leave no trace, sends have no order, unexpected messages come as they arrived.

    What it says of a receive once a message has matched it is the message's; where the receive had left source or tag
    open, that isn't known any more.
    """

    ordered = False
    describes_unnamed = False
    hidden_traffic = True
    other_call = b""
    """An alternative to the call's name."""
    packed = b"MPI_PACKED"
    """The datatype of a buffered message."""

    def is_internal(self, operation: Operation) -> bool:
        """Tell by the label: MPICH's own tags are like a program's.

        What a collective sends on a part of its communicator may come before this process has made that part.
        """
        numbers = [match[1] for line in operation.extra_text if (match := EARLY_NUMBERS.fullmatch(line))]
        early = [int(number) for each in numbers for number in each.split(b",")]
        return any(LABELS.match(line) for line in operation.extra_text) or bool(early and all(map(_is_of_part, early)))

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Take MPI's word for what is done, however large: a transport may have buffers of its own."""
        if true.call in PROBES:
            return None
        if true.queue is Queue.UNEXPECTED and communicator.alone:  # its data stays in the send's buffer
            return replace(true, status=None)
        if true.call in BUFFERED:  # the send is MPICH's own, from the attached buffer
            return self._buffered(true)
        if true.request >> HANDLE_KIND_SHIFT == PREDEFINED:  # the one request for all that is done at once
            return None
        if true.done and true.status is not Status.COMPLETE:
            optional = true.optional or true.queue is Queue.SENDS
            return replace(true, status=Status.COMPLETE, optional=optional)
        if true.call in PARTITIONED:
            return replace(true, status=None, done=None)
        return true

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open what a receive had asked for once it is matched, and all of what is partitioned."""
        if true.call in PARTITIONED:
            return RANK | TAG | LENGTH | BUFFER | ACTUAL
        if true.queue is Queue.RECEIVES and true.status is not Status.PENDING:
            return ASKED
        return NOTHING

    def _buffered(self, true: TrueOperation) -> TrueOperation:
        """Return a buffered send as MPICH makes it: bytes from the attached buffer, the program's request is done."""
        sent = replace(true, datatype=self.packed, datatype_size=1, count=true.length)
        return replace(sent, status=None, done=None, buffer=-1, request=0)

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions; MPICH doesn't keep each call apart."""
        wanted = []
        if true.call in PARTITIONED:
            wanted.append(rb"\bpartitioned\b")
        elif true.call in BUFFERED:
            wanted.append(rb"send")
        elif true.call == "MPI_Improbe":
            wanted.append(rb"MPI_I?[Mm]probe\b")
        elif true.call == "MPI_Irsend":
            wanted.append(rb"MPI_I(rs|s)end\b")
        else:
            wanted.append(re.escape(true.call.encode()) + rb"\b" + self.other_call)
        if true.count >= 0 and true.call not in PARTITIONED:
            wanted.append(datatype_text(true))
        if "init" in true.call and true.call not in PARTITIONED:
            wanted.append(rb"\bpersistent\b")
        return wanted


class Ch4(Mpich):
    """MPICH's ch4 over shared memory.

    The tag of a send is only in the header of its message, in a cell of shared memory; of a small synchronous send
    there is nothing else. Of a receive that is done only what it got is kept. On a communicator of one process it
    isn't kept which source a receive had asked for, nor the mode of a send.
    """

    other_call = b"|or in another mode"
    strangers_tell_datatypes = False

    length_of_matched = False
    """Whether a receive under way knows the length of a message that doesn't fill its buffer."""

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Return the operation; under the MPI 5 ABI the one request for all that is done at once is an address."""
        found = super().as_it_is(true, communicator)
        is_standard = true.request >> HANDLE_BITS != 0
        return replace(found, optional=True) if is_standard and found is not None and is_done_send(found) else found

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open receiver and buffer of a small synchronous send; all of what is done or goes to another job."""
        if communicator.has_strangers or is_done_send(true):
            return RANK | TAG | LENGTH | BUFFER | ACTUAL
        if true.call in PARTITIONED:
            return super().may_be_unknown(true, communicator)
        if communicator.alone:
            return RANK if true.queue is Queue.RECEIVES else NOTHING
        if true.overwritten and "init" not in true.call:
            return RANK | TAG | LENGTH | BUFFER
        if is_small_synchronous(true):
            return RANK | BUFFER
        found = super().may_be_unknown(true, communicator)
        if true.queue is Queue.RECEIVES and true.done and "init" not in true.call:
            found |= BUFFER
        fits = self.length_of_matched or true.length == true.actual_length
        return found if fits or true.status is not Status.MATCHED else found | {"actual_length"}

    def may_refuse(self, queue: Queue, communicator: TrueCommunicator) -> bool:
        """Refuse what goes to another job: it doesn't go through shared memory."""
        return communicator.has_strangers


class Ch4Of43(Ch4):
    """The same since MPICH 4.3."""

    length_of_matched = True


class Ch4Of5(Ch4Of43):
    """The same in MPICH 5."""

    packed = b"MPI_BYTE"


class Intel(Ch4):
    """Intel MPI: its shared heap takes messages of any size, so that only synchronous sends wait.

    Collectives of one node go through memory that all share, some without any message, some with others inside.
    """

    collectives_are_messages = False

    def is_of_any(self, operation: Operation) -> bool:
        """Tell a send that is done: only its request is left, which MPI_COMM_WORLD has."""
        return any(line.startswith(b"of this or another communicator") for line in operation.extra_text)

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Return the operation; whether all of a large message is here is open."""
        if true.queue is Queue.UNEXPECTED:
            return replace(true, status=None)
        if true.call in BUFFERED:
            return replace(self._buffered(true), optional=True)
        found = super().as_it_is(true, communicator)
        is_gone = is_done_send(true) or (true.freed and true.queue is Queue.SENDS)
        is_lost = is_gone or (true.late and -1 in (true.peer, true.tag))  # its communicator isn't told
        return replace(found, optional=True) if found is not None and is_lost else found

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open the buffer of a send to oneself, and that of a receive which found its message already there."""
        if communicator.alone and true.queue is Queue.SENDS:
            return BUFFER
        found = super().may_be_unknown(true, communicator)
        return found if true.queue is Queue.SENDS or true.status is Status.PENDING else found | BUFFER

    def may_refuse(self, queue: Queue, communicator: TrueCommunicator) -> bool:
        """Refuse sends: of one that waits nothing is kept but its request, unless it is persistent."""
        return queue is Queue.SENDS


class Ch4OverUcx(Ch4):
    """MPICH's ch4 over UCX, where messages of a communicator of one process, and some others, go another way."""

    one_order = False
    numbers_are_reused = True
    may_know_data_alone = True

    def is_apart(self, communicator: TrueCommunicator) -> bool:
        """Return whether the messages of a communicator go another way."""
        return communicator.alone

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Take UCX's word for whether a message is matched: its receiver does nothing before its next call."""
        if self.is_apart(communicator):
            return super().as_it_is(true, communicator)
        if true.call in BUFFERED:
            return replace(self._buffered(true), optional=True)
        if true.queue is Queue.UNEXPECTED:
            return replace(true, status=None)
        if true.done:  # a request that is done may not say of which communicator
            found = super().as_it_is(true, communicator)
            return None if found is None else replace(found, optional=True)
        if true.status is Status.MATCHED and true.call != "MPI_Improbe":
            waits = replace(true, status=Status.PENDING, actual_peer=-1, actual_world_peer=-1, actual_tag=-1)
            return replace(waits, actual_length=-1) if true.peer == -1 else replace(true, status=None)
        found = super().as_it_is(true, communicator)
        return replace(found, optional=True) if found is not None and true.call == "MPI_Improbe" else found

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open what only the request of something done could tell, what a receive got in UCX, and strangers."""
        if self.is_apart(communicator):
            return super().may_be_unknown(true, communicator)
        if true.status is Status.COMPLETE or true.call in (*BUFFERED, *PARTITIONED, "MPI_Improbe"):
            return RANK | TAG | LENGTH | BUFFER | ACTUAL
        if true.queue is Queue.SENDS and communicator.has_strangers:
            return RANK  # MPICH has another table of processes for each job
        return ACTUAL | RANK | TAG if true.status is None else NOTHING

    def may_refuse(self, queue: Queue, communicator: TrueCommunicator) -> bool:
        """Refuse sends where one is under way of which the communicator isn't known."""
        return super().may_refuse(queue, communicator) or queue is Queue.SENDS

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions; of datatypes only some requests know."""
        return super().texts(replace(true, count=-1))


class Ch4OverOfi(Ch4OverUcx):
    """The same over libfabric: receives know their datatype, a synchronous send neither its length nor its buffer.

    A large message is taken in before it is received: of a send that the program has freed there is nothing then.
    Over sockets it searches for a receive only when the receiver is in an MPI call.
    """

    may_know_data_alone = False

    def __init__(self, transport: str) -> None:
        """Initialize; ``transport`` names the provider."""
        self.arrival_has_order = transport in ONE_QUEUE
        self._no_receiver = RANK | BUFFER if transport in NO_RECEIVER else NOTHING

    def as_it_is(self, true: TrueOperation, communicator: TrueCommunicator) -> TrueOperation | None:
        """Return the operation; one that nobody waits for leaves no trace once its message has been taken in."""
        found = super().as_it_is(true, communicator)
        if self.arrival_has_order and found is not None and found.status is None and true.status is Status.MATCHED:
            waits = replace(found, status=Status.PENDING, actual_peer=-1, actual_world_peer=-1, actual_tag=-1)
            found = replace(waits, actual_length=-1)
        gone = found is not None and found.queue is Queue.SENDS and found.freed
        return replace(found, optional=True) if gone and found is not None else found

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open length and buffer of a synchronous send, and what a receive asked for whose message has come."""
        found = super().may_be_unknown(true, communicator)
        if self.is_apart(communicator) or true.queue is Queue.UNEXPECTED:
            return found
        if true.queue is Queue.SENDS:
            found |= BUFFER & self._no_receiver if "init" in true.call else self._no_receiver
            if "ssend" in true.call.lower():
                return found | LENGTH | BUFFER
            return found if true.datatype.startswith(b"MPI_") else found | BUFFER  # it may be sent from a copy
        return found | LENGTH if true.status is None else found

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions; sends know no datatypes."""
        return Ch4.texts(self, true if true.queue is Queue.RECEIVES else replace(true, count=-1))


class IntelOverOfi(Ch4OverOfi):
    """The same in Intel MPI: all messages go that way, and a blocking receive has no request that knows its datatype.

    The program's request of a buffered send is one of those that are done, of which nothing is known.
    """

    def is_apart(self, communicator: TrueCommunicator) -> bool:
        """Return False: those to oneself go the same way."""
        return False

    is_of_any = Intel.is_of_any

    def may_be_unknown(self, true: TrueOperation, communicator: TrueCommunicator) -> frozenset[str]:
        """Leave open all of a buffered send, where others go, and the buffer of a receive that is matched."""
        found = super().may_be_unknown(true, communicator)
        if true.call in BUFFERED:
            return found | RANK | TAG | LENGTH
        if true.queue is Queue.SENDS and "ssend" not in true.call.lower() and "init" not in true.call:
            return found | RANK
        return found | BUFFER if true.queue is Queue.RECEIVES and true.status is not Status.PENDING else found

    def texts(self, true: TrueOperation) -> Sequence[bytes]:
        """Return the expressions; only requests know datatypes."""
        return super().texts(true if true.request else replace(true, count=-1))


def datatype_text(true: TrueOperation) -> bytes:
    """Return the expression of a datatype's name, the count and the bytes."""
    return re.escape(true.datatype) + rb".* x %d, %d bytes" % (true.count, true.length)


def is_done_send(true: TrueOperation) -> bool:
    """Return whether a send is done and not persistent."""
    return true.queue is Queue.SENDS and true.status is Status.COMPLETE and "init" not in true.call


def is_small_synchronous(true: TrueOperation) -> bool:
    """Return whether a send waits for its receive although its data has left."""
    return true.queue is Queue.SENDS and true.call in ("MPI_Ssend", "MPI_Issend") and true.length <= MAX_SMALL


@cache
def rules_of(library_version: str, transport: str) -> Rules:
    """Return the rules of the MPI that calls itself this (MPI_Get_library_version), over a transport."""
    if library_version.startswith("Intel"):
        return IntelOverOfi(transport) if transport.startswith("ch4:ofi") else Intel()
    if library_version.startswith("MPICH"):
        if "ch3:" in library_version:
            return Mpich()
        if transport == "ch4:ucx":
            return Ch4OverUcx()
        if transport.startswith("ch4:ofi"):
            return Ch4OverOfi(transport)
        release = re.match(r"MPICH Version:\s*(\d+)\.(\d+)", library_version)
        known = (0, 0) if release is None else (int(release[1]), int(release[2]))
        return Ch4Of5() if known >= (5, 0) else Ch4Of43() if known >= (4, 3) else Ch4()
    if transport.startswith("cm"):
        return OverOfi(transport, keeps_blocking="v4.1" not in library_version)
    return OverUcx() if transport == "ucx" else Rules()


def _is_of_part(context_id: int) -> bool:
    return bool(context_id & PART_BITS)
