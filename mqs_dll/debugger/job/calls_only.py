"""What stands in a library's place where an MPI's queues can't be read: MPI_COMM_WORLD as the environment has it.

With the calls that ranks are in, and their arguments, that is enough to suspect who waits for whom; never to prove it.
"""

from __future__ import annotations

from mqs_dll.contract.abi import Communicator, Label, Operation, Queue
from mqs_dll.contract.errors import NoInformation
from mqs_dll.contract.interface import TargetImage, TargetProcess
from mqs_dll.debugger.job.stacks.constants import constants_of

ALONE = "judged by calls, stacks and environment alone"
"""Stands where a library names the MPI."""

NO_FUNCTIONS = "nor does it name any function of MPI: one that is linked statically and stripped can't be read"
"""The end of a sentence on a process that has_mpi doesn't know."""

MAX_IN_GROUP = 1 << 20
"""Ranks of a group that is listed: the size is a text in a process's environment."""

_WORLD = b"MPI_COMM_WORLD"
_ANY_MPI = "PMPI_Init"


def has_mpi(image: TargetImage) -> bool:
    """Return whether a program has an MPI's functions by name: else it isn't known which of them it is in."""
    return image.find_function(_ANY_MPI) is not None


class CallsOnly:
    """A library that lists one communicator and no queue (interface.QueueLibrary)."""

    def __init__(self, image: TargetImage, rank: int | None, size: int, reason: str) -> None:
        """Take what is known of a rank.

        Args:
            image: its program.
            rank: in MPI_COMM_WORLD, None where it isn't known.
            size: of MPI_COMM_WORLD.
            reason: a sentence: why its queues can't be read.
        """
        constants = constants_of(image)
        self._label = Label(_WORLD, b"", handle=constants.world if constants else 0)
        self._record = Communicator(0, -1 if rank is None else rank, size, _WORLD)
        self._reason = reason
        self._listed = True

    def version_string(self) -> str:
        """Return that it is none."""
        return "no library"

    def setup_image(self, image: TargetImage) -> CallsOnly:
        """Return itself."""
        return self

    def setup_process(self, process: TargetProcess) -> CallsOnly:
        """Return itself."""
        return self

    def has_queues(self) -> str:
        """Return what a verdict stands on, and why."""
        return f"{ALONE}; {self._reason}"

    def get_global_rank(self) -> int:
        """Return the rank in MPI_COMM_WORLD.

        Raises:
            NoInformation: the rank isn't known.
        """
        if self._record.local_rank < 0:
            raise NoInformation("the environment doesn't have the rank")
        return self._record.local_rank

    def update_communicator_list(self) -> None:
        """Do nothing."""

    def setup_communicator_iterator(self) -> None:
        """Go to MPI_COMM_WORLD."""
        self._listed = False

    def get_communicator(self) -> Communicator | None:
        """Return MPI_COMM_WORLD, the only one."""
        return None if self._listed else self._record

    def get_comm_group(self) -> list[int]:
        """Return all ranks.

        Raises:
            NoInformation: the environment says that there are more than any job has.
        """
        if not 0 <= self._record.size <= MAX_IN_GROUP:
            raise NoInformation(f"the environment says that MPI_COMM_WORLD has {self._record.size} ranks")
        return [*range(self._record.size)]

    def get_comm_label(self) -> Label:
        """Return its name and its handle."""
        return self._label

    def next_communicator(self) -> bool:
        """Return that there is no other one."""
        self._listed = True
        return False

    def setup_operation_iterator(self, queue: Queue) -> None:
        """Refuse.

        Raises:
            NoInformation: always.
        """
        raise NoInformation(self._reason)

    def next_operation(self) -> Operation | None:
        """Return that there is none."""
        return None

    def close(self) -> None:
        """Do nothing."""
