"""The two sides of the MQS interface, as protocols.

The *target side* is what a debugger offers: symbols, types and memory of a stopped process. The *library
side* is what an MQS library offers: communicators and their queues. Everything else in libmqs implements
one of them:

==================  ======================================  ==========================================
protocol            in a debugger of ours                   inside libmqs.so
==================  ======================================  ==========================================
TargetImage         debugger.live, debugger.core            _glue (the debugger's image callbacks)
TargetProcess       debugger.live, debugger.core            _glue (the debugger's process callbacks)
QueueLibrary        debugger.dll.DynamicLibrary (any .so)   session.Library
==================  ======================================  ==========================================

Failures are exceptions of errors.py throughout; what "not there" means is said at each call.
"""

from __future__ import annotations

from typing import Any, Protocol

from mqs_dll.contract.abi import Communicator, Label, Operation, Queue, TypeSizes

TypeHandle = Any
"""A type of the target as the debugger names it: opaque, never NULL or None."""


class TargetImage(Protocol):
    """The program that a process runs: its symbols and types, without its memory.

    Several processes may run one image, each with its libraries elsewhere: an address is good for the process that
    the call at hand is about. In a call about the image alone it says only that there is such a symbol.
    """

    def find_function(self, name: str) -> int | None:
        """Return the address of a function, or None when there is no such symbol."""
        ...

    def find_symbol(self, name: str) -> int | None:
        """Return the address of a variable, the executable's own definition first, or None."""
        ...

    def find_type(self, name: str) -> TypeHandle | None:
        """Return a handle for a C type by its (typedef) name, or None where debug information lacks it."""
        ...

    def field_offset(self, handle: TypeHandle, field: str) -> int | None:
        """Return the offset in bytes of a direct member of a struct type, or None when it has no such member."""
        ...

    def type_size(self, handle: TypeHandle) -> int | None:
        """Return the size in bytes of a type, or None when the debugger doesn't know it."""
        ...


def has_standard_handles(image: TargetImage) -> bool:
    """Return whether an Open MPI that a program runs is its library with the MPI standard's binary interface.

    That one has no function for Fortran's handles, since these have the same names there (MPI 5.0, chapter 20).
    """
    return image.find_function("MPI_Abi_get_version") is not None and image.find_function("PMPI_Comm_c2f") is None


class TargetProcess(Protocol):
    """A stopped process: its memory, and the image that it runs."""

    @property
    def image(self) -> TargetImage:
        """The image that the process runs."""
        ...

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the target's C types."""
        ...

    def fetch(self, address: int, size: int) -> bytes:
        """Return exactly ``size`` bytes at ``address`` as they lie in the target.

        Raises:
            TargetReadError: any of the bytes can't be read; nothing is returned then.
        """
        ...

    def to_host(self, data: bytes) -> bytes:
        """Return one scalar of the target (1, 2, 4 or 8 bytes) in the byte order of the host."""
        ...

    def global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD, or -1 while the debugger doesn't know it."""
        ...


class QueueLibrary(Protocol):
    """An MQS library: ours in Python, or any vendor's .so."""

    def version_string(self) -> str:
        """Return the library's own description of itself (mqs_version_string)."""
        ...

    def setup_image(self, image: TargetImage) -> ImageQueues:
        """Start to work with an image (mqs_setup_image).

        Raises:
            MqsError: the library refuses.
        """
        ...


class ImageQueues(Protocol):
    """What an MQS library knows of one image."""

    def has_queues(self) -> str:
        """Return the library's message about the image, empty when there is nothing to say (mqs_image_has_queues).

        Raises:
            MqsError: the image has no MPI that the library can read; the text says why.
        """
        ...

    def setup_process(self, process: TargetProcess) -> ProcessQueues:
        """Start to work with a process that runs this image (mqs_setup_process).

        Raises:
            MqsError: the library refuses.
        """
        ...

    def close(self) -> None:
        """Forget the image (mqs_destroy_image_info). Further calls raise BadCallError."""
        ...


class ProcessQueues(Protocol):
    """What an MQS library knows of one process: a cursor over communicators, and one over operations."""

    def has_queues(self) -> str:
        """Return the library's message about the process, empty when there is nothing to say (mqs_process_has_queues).

        Raises:
            MqsError: the queues of this process can't be read (now); the text says why and what to do.
        """
        ...

    def update_communicator_list(self) -> None:
        """Read the communicators again: the process may have run since the last time (mqs_update_communicator_list)."""
        ...

    def setup_communicator_iterator(self) -> None:
        """Put the cursor on the first communicator (mqs_setup_communicator_iterator)."""
        ...

    def get_communicator(self) -> Communicator | None:
        """Return the communicator under the cursor, or None past the end (mqs_get_communicator)."""
        ...

    def get_comm_group(self) -> list[int]:
        """Return the MPI_COMM_WORLD ranks of the local group, in order of local rank (mqs_get_comm_group).

        A process that is not in this process's MPI_COMM_WORLD is -1.
        """
        ...

    def get_comm_label(self) -> Label:
        """Return the parts of the name of the communicator under the cursor (libmqs_get_comm_label).

        Raises:
            NoInformation: the library isn't libmqs.
        """
        ...

    def next_communicator(self) -> bool:
        """Move the cursor on; False when it is past the end, where it stays (mqs_next_communicator)."""
        ...

    def setup_operation_iterator(self, queue: Queue) -> None:
        """Start to list one queue of the communicator under the cursor (mqs_setup_operation_iterator).

        Raises:
            NoInformation: this queue can't be seen in this process; the text says why.
        """
        ...

    def next_operation(self) -> Operation | None:
        """Return the next operation, or None at the end of the queue (mqs_next_operation).

        Raises:
            BrokenStructureError: the queue breaks off here; the text says after how many operations.
        """
        ...

    def get_global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD as its MPI has it (mqs_get_global_rank)."""
        ...

    def close(self) -> None:
        """Forget the process (mqs_destroy_process_info). Further calls raise BadCallError."""
        ...
