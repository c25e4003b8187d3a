"""The vocabulary of the MQS interface: result codes, queues, status, and the two records.

Both sides of libmqs, and every layer of each, speak in these terms. The numbers are those of
``include/mqs_interface.h``, which debuggers compile against. This module imports nothing of libmqs.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

VERSION_COMPATIBILITY = 2
"""What mqs_version_compatibility() answers: the revision of the interface that everybody speaks."""

NAME_SIZE = 64
"""Bytes of ``mqs_communicator.name``, the closing NUL included."""

TEXT_LINES = 5
"""Lines of ``mqs_pending_operation.extra_text``."""

TEXT_SIZE = 64
"""Bytes of one line of extra_text, the closing NUL included."""

INVALID_RANK = -1
"""A rank that is not known, or that a receive leaves open (MPI_ANY_SOURCE)."""

UNKNOWN = -1
"""A length or tag that can't be known; a line of extra_text says why."""


class ResultCode(enum.IntEnum):
    """What every mqs_ call returns; libmqs's own codes start at FIRST_USER_CODE (see errors.py)."""

    OK = 0
    NO_INFORMATION = 1
    END_OF_LIST = 2
    FIRST_USER_CODE = 100


class Queue(enum.IntEnum):
    """The three kinds of queue that mqs_setup_operation_iterator takes (mqs_op_class)."""

    SENDS = 0
    RECEIVES = 1
    UNEXPECTED = 2


class Status(enum.IntEnum):
    """How far an operation is (mqs_status)."""

    PENDING = 0
    MATCHED = 1
    COMPLETE = 2


NUMBER_BITS = 40
"""Of libmqs's unique_id, the lower bits: the number of the communicator in its MPI, which disjoint ones share."""

SEVERAL_WORLDS = 0x7FFFFF
"""In the bits above: no rank, since not all processes can determine the same lowest one."""


class Communicator(NamedTuple):
    """One communicator, as one process sees it (mqs_communicator)."""

    unique_id: int
    """The same number in every process of the communicator, another one for each communicator of the job.

    In libmqs it joins the MPI's own number with the lowest rank in MPI_COMM_WORLD of its processes (mqs_interface.h).
    """
    local_rank: int
    """This process's rank in the communicator."""
    size: int
    """Processes in the local group."""
    name: bytes
    """At most 63 bytes, without the NUL, in whatever encoding the program used; marks may follow (names.py)."""


class Operation(NamedTuple):
    """One pending operation (mqs_pending_operation).

    Local ranks are ranks of the communicator that the cursor is on (for an inter-communicator, of its
    remote group), global ranks are ranks of MPI_COMM_WORLD, lengths are bytes, -1 is "any" or "not known".
    """

    status: Status
    desired_local_rank: int
    desired_global_rank: int
    tag_wild: bool
    desired_tag: int
    desired_length: int
    system_buffer: bool
    buffer: int
    actual_local_rank: int
    actual_global_rank: int
    actual_tag: int
    actual_length: int
    extra_text: tuple[bytes, ...]
    """At most five lines of at most 63 bytes, without NULs."""


class TypeSizes(NamedTuple):
    """Sizes in bytes of the target's C types (mqs_target_type_sizes)."""

    short_size: int
    int_size: int
    long_size: int
    long_long_size: int
    pointer_size: int


# ---------------------------------------------------------------- beyond the MQS interface
# The MPI standard (4.1, section 8.8) names three kinds of object; MQS has calls for communicators alone.
# These records come from the Python core (session.ProcessSession), never through the C interface; Label has a call of
# libmqs's own there.


class Label(NamedTuple):
    """What a communicator is called in one process, and what libmqs says of it besides (libmqs_comm_label).

    It has the parts of the 64-byte field of mqs_communicator, each whole even where that field is too short.
    """

    name: bytes
    """As MPI_Comm_get_name gives it, at most 63 bytes of it; empty when none was set."""
    description: bytes
    """Of one without a name, in words of libmqs: "dup of halo exchange"; empty where nothing helps."""
    remote: int | None = None
    """Processes of the remote group; None for an intra-communicator."""
    freed: bool = False
    """The program has freed it; operations that are pending hold it."""
    internal: bool = False
    """The MPI keeps it for itself: no handle of it was ever given to the program."""
    handle: int = 0
    """Its MPI_Comm, as the program has it; 0 where it isn't known."""


class Window(NamedTuple):
    """A one-sided window that is alive in the process."""

    name: bytes
    """As MPI_Win_get_name returns it; empty when none was set."""
    size: int
    """Processes in the window's group."""
    address: int
    """Of the MPI's own struct, which is the handle MPI_Win in Open MPI."""
    communicator: int | None = None
    """The unique_id of its communicator, which is the same in all its processes; None where it can't be determined."""
    ranks: tuple[int, ...] = ()
    """The MPI_COMM_WORLD rank of each process of its group; empty where they can't be determined."""
    started: tuple[int, ...] | None = None
    """MPI_COMM_WORLD ranks of the group of this process's MPI_Win_start that isn't complete, or waits for its posts;
    empty without one, None where it can't be determined. So it is with the next two."""
    posted: tuple[int, ...] | None = None
    """The same of its MPI_Win_post that MPI_Win_wait hasn't ended."""
    locked: tuple[int, ...] | None = None
    """Of the processes whose part of the window it has locked, or with MPI_Win_lock_all wants to."""
    queued: tuple[int, ...] | None = None
    """Of those who wait in this process for the lock of its part; None where the MPI keeps no queue, or it is empty."""
    handle: int = 0
    """Its MPI_Win, as the program has it; 0 where it isn't known."""


class Datatype(NamedTuple):
    """A datatype that a pending operation or a window of the process uses."""

    name: bytes
    """As MPI_Type_get_name returns it; empty when none was set."""
    size: int
    """Bytes of data in one element, as MPI_Type_size returns it."""
    predefined: bool
    operations: int
    """Pending operations that use it."""
    address: int
    """Of the MPI's own struct, which is the handle MPI_Datatype in Open MPI."""


class LayoutOrigin(NamedTuple):
    """Where the layout of one of the MPI's structs came from."""

    struct: str
    origin: str
    """Either "debug information" or "profile NAME"."""


class ProfileFacts(NamedTuple):
    """Which profile layouts came from, and how near it is to the MPI at hand."""

    name: str
    file: str
    of_user: bool
    """The user made it; else libmqs ships it."""
    of_build: bool
    """It was made from exactly this build of the library."""
    of_release: bool
    """It was made from this release, or checked on it."""


class MpiFacts(NamedTuple):
    """What is known of the MPI of a process, or in a library's file."""

    name: str
    """As people call it: "Open MPI"."""
    release: str
    """As the MPI spells it: "4.1.4"; "of an unknown release" where it can't be found."""
    transport: str
    """What moves its messages: "pml/ob1"; of a file what it was configured for, empty where that isn't known."""
    build: str
    """The build-id of its library, or what stands for one where the linker gave none; empty where it isn't known."""
    address: int
    """Of something in its library."""
    profile: ProfileFacts | None
    """Where layouts come from that debug information doesn't have; None when there is no such profile."""


class Recognition(NamedTuple):
    """What is known of an MPI before any of its objects is believed: also when it is a file and no process."""

    mpi: MpiFacts
    layouts: tuple[LayoutOrigin, ...]
    """Those that would be used; for some structs there may be none."""
    complete: bool
    """Whether they are all that the queues need."""
    checks: tuple[str, ...]
    """Sentences: what was compared, and agrees."""
    refusals: tuple[str, ...]
    """Sentences: which near profiles were refused, and why."""
