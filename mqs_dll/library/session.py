"""The library side in Python: Library -> ImageSession -> ProcessSession, the life cycle behind every mqs_ call.

``Library`` implements interface.QueueLibrary: what libmqs.so does, without the C around it. _glue.py drives it
inside libmqs.so; the command ``mqs`` and the tests drive it from outside.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from mqs_dll import __version__
from mqs_dll.contract.abi import (
    Communicator,
    Datatype,
    Label,
    LayoutOrigin,
    MpiFacts,
    Operation,
    Queue,
    Recognition,
    ResultCode,
    Window,
)
from mqs_dll.contract.errors import (
    BadCallError,
    BrokenStructureError,
    InternalError,
    MqsError,
    TooMuchError,
    UnknownMpiError,
    all_errors,
)
from mqs_dll.contract.interface import TargetImage, TargetProcess
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi import detect
from mqs_dll.library.mpi.base import Adapter, AttachedMpi
from mqs_dll.library.mpi.communicators import CommunicatorEntry

STANDARD_TEXTS = {
    ResultCode.OK: "success",
    ResultCode.NO_INFORMATION: "what was asked for can't be seen in this process",
    ResultCode.END_OF_LIST: "the end of the list",
}


_ALL_QUEUES = sum(1 << queue for queue in Queue)


@lru_cache(maxsize=256)
def explain(code: int) -> str:
    """Return a sentence for any result code, without the details of a particular failure."""
    for standard, text in STANDARD_TEXTS.items():
        if code == standard:
            return text
    for error in all_errors():
        if error.code == code and error.__doc__:
            return error.__doc__.partition("\n")[0].rstrip(".")
    return f"unknown result code {code}"


class Library:
    """libmqs itself, in Python."""

    def __init__(self, *, show_internal: bool = False) -> None:
        """Initialize.

        Args:
            show_internal: list also the communicators that the MPI keeps for itself, marked in their names.
        """
        self._show_internal = show_internal

    def version_string(self) -> str:
        """Return the name, the version and the Python that runs it."""
        return f"libmqs {__version__} (Python {sys.version.split()[0]})"

    def setup_image(self, image: TargetImage) -> ImageSession:
        """Start to work with an image; asks nothing of it yet."""
        return ImageSession(image, self._show_internal)


class _BaseSession:
    """What an image's and a process's session share: calls come one at a time, and none after the end."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.closed = False

    def start(self) -> None:
        """Start a call: what an earlier one did doesn't count any more."""

    def cut_off(self) -> None:
        """Expect that a call has left something half done."""


SessionT = TypeVar("SessionT", bound=_BaseSession)
Params = ParamSpec("Params")
Result = TypeVar("Result")


def _call(
    method: Callable[Concatenate[SessionT, Params], Result],
) -> Callable[Concatenate[SessionT, Params], Result]:
    """Make a method one call of the interface: one at a time, never after close, every failure an MqsError."""

    @wraps(method)
    def guarded(self: SessionT, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        with self.lock:
            try:
                if self.closed:
                    raise BadCallError(f"{method.__name__} was called after the session's end")
                self.start()
                return method(self, *args, **kwargs)
            except TooMuchError:
                self.cut_off()
                raise
            except MqsError:
                raise
            except MemoryError as error:
                self.cut_off()
                raise TooMuchError("taking all the memory that there is") from error
            except Exception as error:
                self.cut_off()
                raise InternalError(f"{method.__name__} failed: {type(error).__name__}: {error}") from error
            except BaseException:
                self.cut_off()
                raise

    return guarded


class ImageSession(_BaseSession):
    """One image: which MPI it uses."""

    def __init__(self, image: TargetImage, show_internal: bool) -> None:
        super().__init__()
        self._image = image
        self._show_internal = show_internal
        self.adapter: Adapter | None = None

    @_call
    def has_queues(self) -> str:
        """Return which MPI the image uses.

        Raises:
            UnknownMpiError: none that libmqs knows.
            LayoutError: a symbol is missing that every build of this MPI has.
        """
        adapter = self.need_adapter()
        adapter.check_symbols()
        return adapter.describe()

    def need_adapter(self) -> Adapter:
        """Return the adapter of the image's MPI, detected at the first call that finds one."""
        if self.adapter is None:
            found = detect(self._image)
            if found is None:
                raise UnknownMpiError(
                    "the program uses no MPI that libmqs knows: it has neither Open MPI's ompi_mpi_communicators "
                    "nor MPICH's MPIR_Err_create_code"
                )
            self.adapter = found(self._image)
        return self.adapter

    @_call
    def setup_process(self, process: TargetProcess) -> ProcessSession:
        """Start to work with a process that runs this image; reads nothing of it yet."""
        return ProcessSession(self, process, self._show_internal)

    @_call
    def close(self) -> None:
        """Forget the image."""
        self.closed = True


class ProcessSession(_BaseSession):
    """One process: its MPI once it is up, a cursor over communicators, a generator over operations."""

    def __init__(self, image: ImageSession, process: TargetProcess, show_internal: bool) -> None:
        super().__init__()
        self._image = image
        self._process = process
        self._show_internal = show_internal
        self._mpi: AttachedMpi[Any] | None = None
        self._memory: Memory | None = None
        self._entries: list[CommunicatorEntry] | None = None
        self._cursor: int | None = None
        self._operations: Iterator[Operation] | None = None
        self._failure: MqsError | None = None
        self._listed: dict[int, int] = {}
        """By the place of a communicator: the queues that were set up in this sweep, a bit for each."""
        self._is_known_empty = False
        """Whether the communicator whose queue was set up last is known to have no operation in any."""

    def start(self) -> None:
        """Start a call: it may read as much as any."""
        if self._memory is not None:
            self._memory.start()

    def cut_off(self) -> None:
        """Have the next sweep start with nothing of this one."""
        if self._memory is not None:
            self._memory.distrust()

    # ------------------------------------------------------------ the process

    @_call
    def has_queues(self) -> str:
        """Return the MPI's release, its transport and where the layouts of its structs came from.

        Raises:
            NotInitializedError, FinalizedError: the process is not between MPI_Init and MPI_Finalize.
            LayoutError: no layout of the MPI's structs fits this process.
            WordSizeError: the process is not a 64-bit one.
        """
        if self._mpi is not None and self._mpi.is_provisional:
            self._mpi = self._cursor = self._operations = self._entries = None
        return self._attach().describe()

    @_call
    def get_global_rank(self) -> int:
        """Return the rank in MPI_COMM_WORLD as the MPI has it."""
        mpi = self._attach()
        with self._nothing_kept_of_failures():
            return mpi.global_rank()

    @_call
    def layout_origins(self) -> list[LayoutOrigin]:
        """Return where the layout of each of the MPI's structs came from."""
        return self._attach().layout_origins()

    @_call
    def facts(self) -> MpiFacts:
        """Return what is known of the process's MPI."""
        return self._attach().facts()

    @_call
    def checks(self) -> list[str]:
        """Return what was checked in the process and held: a sentence each."""
        return list(self._attach().checks)

    @_call
    def refusals(self) -> list[str]:
        """Return which nearer layouts were refused before these were believed, and why: a sentence each."""
        return list(self._attach().refusals)

    @_call
    def recognise(self) -> Recognition:
        """Return what is known of the MPI before any of its objects is believed."""
        return self._image.need_adapter().recognise(self._process.image, Memory(self._process))

    @_call
    def refused_profiles(self) -> list[str]:
        """Return which of the user's files are no profiles, and why: a sentence each."""
        return self._image.need_adapter().refused_profiles

    @_call
    def windows(self) -> list[Window]:
        """Return the one-sided windows that are alive, read again."""
        self._forget()
        return self._attach().windows()

    @_call
    def datatypes(self) -> list[Datatype]:
        """Return the datatypes that pending operations use, read again."""
        self._forget()
        return self._attach().datatypes()

    def _attach(self) -> AttachedMpi[Any]:
        """Return the MPI in the process; one that was not up at an earlier call is tried again."""
        if self._mpi is None:
            self._memory = Memory(self._process)
            self._mpi = self._image.need_adapter().attach(self._process.image, self._memory)
        return self._mpi

    # ------------------------------------------------------------ communicators

    @_call
    def update_communicator_list(self) -> None:
        """Read the communicators again; the cursor is on none of them until the iterator is set up."""
        self._cursor = self._operations = self._entries = None
        self._revalidate()
        mpi = self._attach()
        with self._nothing_kept_of_failures():
            entries = mpi.communicators()
        self._entries = [entry for entry in entries if self._show_internal or not entry.internal]

    @_call
    def setup_communicator_iterator(self) -> None:
        """Put the cursor on the first communicator; reads them where update_communicator_list has not."""
        if self._entries is None:
            self.update_communicator_list()
        is_new_sweep, self._cursor, self._operations = self._cursor is not None, None, None
        if is_new_sweep:
            self._revalidate()
        self._cursor = 0

    @_call
    def get_communicator(self) -> Communicator | None:
        """Return the communicator under the cursor, None past the end."""
        entry = self._current()
        return None if entry is None else entry.record

    @_call
    def get_comm_group(self) -> list[int]:
        """Return the MPI_COMM_WORLD ranks of the local group of the communicator under the cursor.

        Raises:
            BrokenStructureError: they aren't as many as get_communicator says, as when the process has run since.
        """
        entry = self._need_current()
        ranks = list(entry.world_ranks())
        if len(ranks) != entry.size:
            raise BrokenStructureError(f"the communicator has {entry.size} processes, its group {len(ranks)}")
        return ranks

    @_call
    def get_comm_label(self) -> Label:
        """Return the parts of the name of the communicator under the cursor."""
        return self._need_current().label

    @_call
    def next_communicator(self) -> bool:
        """Move the cursor on; False past the end, where it stays."""
        if self._current() is None:
            return False
        assert self._cursor is not None
        self._cursor += 1
        self._operations = None
        return self._current() is not None

    def _current(self) -> CommunicatorEntry | None:
        if self._cursor is None or self._entries is None:
            raise BadCallError("there is no communicator iterator: mqs_setup_communicator_iterator comes first")
        return self._entries[self._cursor] if self._cursor < len(self._entries) else None

    def _need_current(self) -> CommunicatorEntry:
        entry = self._current()
        if entry is None:
            raise BadCallError("the communicator iterator is past its end")
        return entry

    # ------------------------------------------------------------ operations

    @_call
    def setup_operation_iterator(self, queue: Queue) -> None:
        """Start to list one queue of the communicator under the cursor.

        What was read of the process is kept for one sweep over all queues: setting up the same queue of the same
        communicator again starts a new one, since the process may have run in between.

        Raises:
            NoInformation: the queue can't be seen in this process.
        """
        self._operations, self._is_known_empty = None, False
        entry = self._need_current()
        assert self._cursor is not None
        if self._listed.get(self._cursor, 0) & 1 << queue:
            self._revalidate()
        self._listed[self._cursor] = self._listed.get(self._cursor, 0) | 1 << queue
        mpi = self._attach()
        self._operations = mpi.operations(entry, queue)
        self._failure = None
        self._is_known_empty = mpi.is_known_empty(entry)

    def take_empty(self) -> int:
        """Return the queues that are as empty as the one that was set up last, a bit for each; they count as set up.

        Who sets up one of them all the same starts a new sweep.
        """
        if not self._is_known_empty:
            return 0
        with self.lock:
            here = self._cursor
            if here is None:
                return 0
            empty = _ALL_QUEUES & ~self._listed.get(here, 0)
            self._listed[here] = _ALL_QUEUES
        return empty

    @_call
    def next_operation(self) -> Operation | None:
        """Return the next operation, None at the end.

        Raises:
            BrokenStructureError: the queue breaks off here; an iteration that failed stays failed.
        """
        listed: list[Operation] = []
        return None if self._list(listed, 1) else listed[0]

    @_call
    def next_operations(self, listed: list[Operation], most: int) -> bool:
        """Append the next operations to a list, ``most`` at most; return whether there are no more.

        Raises:
            BrokenStructureError: the queue breaks off behind what was appended; the iteration stays failed.
        """
        return self._list(listed, most)

    def _list(self, listed: list[Operation], most: int) -> bool:
        if self._operations is None:
            raise BadCallError("there is no operation iterator: mqs_setup_operation_iterator comes first")
        if self._failure is not None:
            raise self._failure
        before = len(listed)
        try:
            for operation in islice(self._operations, most):
                listed.append(operation)
        except MqsError as error:
            self._failure = error
            raise
        except BaseException:  # after which the generator would end as if the queue did
            self._failure = BrokenStructureError("the iteration was cut off before the end of the queue")
            raise
        return len(listed) - before < most

    def _revalidate(self) -> None:
        self._listed.clear()
        if self._mpi is not None:
            self._mpi.revalidate()

    @contextmanager
    def _nothing_kept_of_failures(self) -> Iterator[None]:
        """Make the next call read everything again after a failure: the process may have been amid a change."""
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        self._listed.clear()
        if self._mpi is not None:
            self._mpi.forget()

    @_call
    def close(self) -> None:
        """Forget the process, and let go of its files at once, not when Python finds circles of garbage."""
        self.closed = True
        if self._memory is not None:
            self._memory.forget()  # which holds the walkers that hold it
        self._mpi = self._memory = self._entries = self._operations = None
