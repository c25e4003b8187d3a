"""Stands in for mqs_dll/library/session.py in a copy of the package: an MQS library with made-up communicators.

So the border to C can be tested, with values that no MPI would give, where there is no MPI.
"""

import threading
from collections.abc import Iterator
from itertools import islice

from mqs_dll.contract.abi import Communicator, Operation, Queue, Status
from mqs_dll.contract.errors import BadCallError, BrokenStructureError, NoInformation
from mqs_dll.contract.interface import TargetImage, TargetProcess

COMMUNICATORS = [
    (Communicator(0xFFFF_0000_0000_0001, 1, 3, b"caf\xe9"), [7, -1, 9]),
    (Communicator(2, 0, 2, b"n" * 100), [0, 1]),
    (Communicator(3, 0, 2, b"a group that is too long"), [0, 1, 2, 3]),
]

OPERATION = Operation(
    Status.MATCHED, 1, -2, True, -3, 1 << 40, True, 0xFFFF_FFFF_FFFF_F000, 4, 5, 6, 7, (b"one", b"2" * 100, b"three")
)
WITHOUT_SENDS = 1
"""The place of a communicator."""
MORE = 100
"""Receives behind it, whose tags are numbers from 0: more than cross the border at once (csrc/exports.c)."""


def explain(code: int) -> str:
    """Return a sentence for a result code."""
    return f"made-up text for {code}"


class Library:
    """The library: one image at a time is all that it is used for."""

    def setup_image(self, image: TargetImage) -> "Image":
        """Start with an image."""
        return Image(image)


class Image:
    """An image: its message shows what the debugger's callbacks answered."""

    def __init__(self, image: TargetImage) -> None:
        self.image = image

    def has_queues(self) -> str:
        """Return what the image callbacks answered."""
        image = self.image
        handle = image.find_type("a_struct")
        answers = [
            image.find_function("a_function"),
            image.find_function("missing"),
            image.find_symbol("a_variable"),
            image.find_symbol("missing"),
            image.find_type("missing"),
            image.field_offset(handle, "a_field"),
            image.field_offset(handle, "missing"),
            image.type_size(handle),
        ]
        return repr(answers)

    def setup_process(self, process: TargetProcess) -> "Process":
        """Start with a process."""
        return Process(process)

    def close(self) -> None:
        """Forget the image."""


class Process:
    """A process with the communicators above; calls come one at a time, as in the true session."""

    def __init__(self, process: TargetProcess) -> None:
        self.process = process
        self.lock = threading.RLock()
        self.place = 0
        self.operations: Iterator[Operation] = iter(())
        self.breaks_off = False
        self.empty = 0

    def has_queues(self) -> str:
        """Return what the process callbacks answered."""
        process = self.process
        answers = [
            process.fetch(0x10010, 3),
            process.fetch(0x10000, 4096)[255:257],
            process.to_host(b"\x01\x00"),
            process.global_rank(),
            tuple(process.type_sizes()),
            process.image.find_symbol("a_variable"),
        ]
        return repr(answers)

    def update_communicator_list(self) -> None:
        """Read beyond the memory that there is."""
        self.process.fetch(0x10FFF, 2)

    def setup_communicator_iterator(self) -> None:
        """Start."""
        with self.lock:
            self.place = 0

    def get_communicator(self) -> Communicator | None:
        """Return the one under the cursor."""
        with self.lock:
            return COMMUNICATORS[self.place][0] if self.place < len(COMMUNICATORS) else None

    def get_comm_group(self) -> list[int]:
        """Return its group."""
        with self.lock:
            if self.place == len(COMMUNICATORS):
                raise BadCallError("past the end")
            return COMMUNICATORS[self.place][1]

    def next_communicator(self) -> bool:
        """Move on."""
        with self.lock:
            self.place = min(self.place + 1, len(COMMUNICATORS))
            return self.place < len(COMMUNICATORS)

    def setup_operation_iterator(self, queue: Queue) -> None:
        """Start with a queue: sends break off, receives are fine, unexpected messages can't be seen.

        The second communicator has no sends, and says that the messages aren't there either.
        """
        if queue is Queue.UNEXPECTED:
            raise NoInformation("this transport hides them")
        with self.lock:
            receives = [OPERATION, *(OPERATION._replace(actual_tag=number) for number in range(MORE))]
            is_empty = queue is Queue.SENDS and self.place == WITHOUT_SENDS
            self.empty = is_empty << Queue.UNEXPECTED
            self.breaks_off = queue is Queue.SENDS and not is_empty
            self.operations = iter(receives if queue is Queue.RECEIVES else [OPERATION] * self.breaks_off)

    def take_empty(self) -> int:
        """Return what was said with the queue."""
        return self.empty

    def next_operations(self, listed: list[Operation], most: int) -> bool:
        """Append the next operations."""
        with self.lock:
            found = list(islice(self.operations, most))
            listed.extend(found)
            if len(found) < most and self.breaks_off:
                raise BrokenStructureError("the list breaks off")
            return len(found) < most

    def get_global_rank(self) -> int:
        """Fail as no foreseen error does."""
        raise ZeroDivisionError("a bug")

    def close(self) -> None:
        """Forget the process."""
