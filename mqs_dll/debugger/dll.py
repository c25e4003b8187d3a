"""Any MQS library as a QueueLibrary: a vendor's .so or libmqs.so, opened and driven as a debugger does it.

The mirror image of _glue.py. Result codes become exceptions: mqs_no_information becomes NoInformation,
mqs_end_of_list None or False, and every other code ForeignLibraryError with the library's own sentence. The codes
of libmqs become the classes of errors.py that stand for them, so that for a caller libmqs.so is no different from
session.Library.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from mqs_dll.contract.abi import (
    TEXT_LINES,
    VERSION_COMPATIBILITY,
    Communicator,
    Label,
    Operation,
    Queue,
    ResultCode,
    Status,
)
from mqs_dll.contract.errors import (
    BadCallError,
    BrokenStructureError,
    DllError,
    ForeignLibraryError,
    MqsError,
    NoInformation,
    TargetReadError,
    all_errors,
)
from mqs_dll.contract.interface import TargetImage, TargetProcess
from mqs_dll.debugger.c_interface import REQUIRED_CALLS, TADDR_WIDTH, ffi
from mqs_dll.debugger.callbacks import (
    BASIC_CALLBACKS,
    IMAGE_CALLBACKS,
    PROCESS_CALLBACKS,
    ImageHandle,
    ProcessHandle,
    go_to,
    take_trouble,
)

_RTLD_NOW_LOCAL = os.RTLD_NOW | os.RTLD_LOCAL
_PAST_THE_END = (ResultCode.NO_INFORMATION, ResultCode.END_OF_LIST)
_MAX_GROUP_SIZE = 1 << 22
"""More processes than any MPI job has had: a size above it is garbage, not a reason to allocate."""

_LIBMQS_ERRORS = {error.code: error for error in all_errors() if "code" in vars(error)}
_opened: dict[str, Any] = {}
"""Libraries stay open: some can't bear to be closed, and debuggers never do it."""


class DynamicLibrary:
    """An MQS library in a file (interface.QueueLibrary)."""

    def __init__(self, path: str | Path, file: int | None = None) -> None:
        """Open the library at ``path``; a name without a slash is searched for as dlopen does.

        Args:
            path: of the library.
            file: a descriptor of the file to load, whatever lies at the path by now; it has to stay open forever.

        Raises:
            DllError: it can't be opened, lacks an entry point, or speaks another revision of the interface.
        """
        self.path = str(path)
        self.calls = _open(self.path, self.path if file is None else f"/proc/self/fd/{file}")
        missing = [name for name in REQUIRED_CALLS if not self.has(name)]
        if missing:
            raise DllError(f"{self.path} is no MQS library: it lacks {_enumerate(missing)}")
        revision, width = self.calls.mqs_version_compatibility(), self.calls.mqs_dll_taddr_width()
        if revision != VERSION_COMPATIBILITY:
            raise DllError(f"{self.path} speaks revision {revision} of MQS, not revision {VERSION_COMPATIBILITY}")
        if width != TADDR_WIDTH:
            raise DllError(f"{self.path} was built for addresses of {width} bytes")
        self.calls.mqs_setup_basic_callbacks(BASIC_CALLBACKS)
        self._is_libmqs = self.version_string().startswith("libmqs")

    def has(self, name: str) -> bool:
        """Return whether the library exports a call."""
        try:
            getattr(self.calls, name)
        except ffi.error:
            return False
        return True

    def version_string(self) -> str:
        """Return the library's own description of itself."""
        return _text(self.calls.mqs_version_string())

    def error_string(self, code: int) -> str:
        """Return the library's sentence for a result code."""
        return _text(self.calls.mqs_dll_error_string(code)) or f"the library has no text for code {code}"

    def setup_image(self, image: TargetImage) -> DynamicImage:
        """Start to work with an image.

        Raises:
            MqsError: the library refuses.
        """
        return DynamicImage(self, image)

    def call(self, name: str, *arguments: Any) -> int:
        """Make one call that answers a result code, and return it when it is one that is no failure.

        Raises:
            NoInformation: mqs_no_information.
            MqsError: any other code; what went wrong in a callback is its cause.
        """
        code = self.try_call(name, *arguments)
        if code not in (ResultCode.OK, ResultCode.END_OF_LIST):
            raise self.failure(name, code, self.error_string(code))
        return code

    def try_call(self, name: str, *arguments: Any) -> int:
        """Make one call and return its code whatever it is; only a Ctrl-C that struck in a callback is raised."""
        take_trouble()
        code: int = getattr(self.calls, name)(*arguments)
        self._trouble = take_trouble()
        if self._trouble is not None and not isinstance(self._trouble, Exception):
            raise self._trouble
        return code

    def call_for_message(self, name: str, handle: Any) -> str:
        """Make one of the has_queues calls and return its message.

        Raises:
            MqsError: the library can't read the queues; its message is the text.
        """
        message = ffi.new("char **")
        code = self.try_call(name, handle, message)
        text = _text(message[0])
        if code != ResultCode.OK:
            raise self.failure(name, code, self._failure_text(code, text))
        return text

    def _failure_text(self, code: int, message: str) -> str:
        """Return the library's message; a vendor's is often but the name of something, so with the code's sentence."""
        if message and self._is_libmqs:
            return message
        return f"{self.error_string(code)}: {message}" if message else self.error_string(code)

    def failure(self, name: str, code: int, text: str) -> MqsError:
        """Return the exception for a code that the call ``name`` answered."""
        error = self._failure(name, code, text)
        error.__cause__ = self._trouble
        return error

    def _failure(self, name: str, code: int, text: str) -> MqsError:
        kind = _LIBMQS_ERRORS.get(code) if self._is_libmqs or code == ResultCode.NO_INFORMATION else None
        if kind is None:
            return ForeignLibraryError(name, code, text)
        text = text.removesuffix(f" ({kind.help})")  # libmqs's texts end in it; the exception has it by itself
        if kind is not TargetReadError:
            return kind(text)
        if isinstance(self._trouble, TargetReadError):
            error = TargetReadError(self._trouble.address, self._trouble.size)
            error.args = (text,)
            return error
        return ForeignLibraryError(name, code, text)

    _trouble: BaseException | None = None


class _LibrarySession:
    """What the library keeps for one image or one process, until it is closed."""

    _kind: ClassVar[str]

    def __init__(self, library: DynamicLibrary, handle: ImageHandle | ProcessHandle) -> None:
        self._library = library
        self._handle = handle
        self._closed = False

    def has_queues(self) -> str:
        """Return the library's message about the image or the process, empty when there is nothing to say.

        Raises:
            MqsError: the image has no MPI that the library can read, or the queues can't be read (now).
        """
        self._begin()
        return self._library.call_for_message(f"mqs_{self._kind}_has_queues", self._handle.c)

    def close(self) -> None:
        """Forget it. Further calls raise BadCallError."""
        self._begin()
        self._closed = True
        try:
            if self._handle.info != ffi.NULL:
                self._library.call(f"mqs_destroy_{self._kind}_info", self._handle.info)
        finally:
            self._handle.let_go()

    def _begin(self) -> None:
        """Start a call: what the library asks in it is about this image or process."""
        if self._closed:
            raise BadCallError(f"the {self._kind} was closed")
        go_to(self._handle)


class DynamicImage(_LibrarySession):
    """What the library knows of one image (interface.ImageQueues)."""

    _kind = "image"
    _handle: ImageHandle

    def __init__(self, library: DynamicLibrary, image: TargetImage) -> None:
        """Set the image up in the library."""
        super().__init__(library, ImageHandle(image))
        self._begin()
        library.call("mqs_setup_image", self._handle.c, IMAGE_CALLBACKS)

    def setup_process(self, process: TargetProcess) -> DynamicProcess:
        """Start to work with a process that runs this image.

        Raises:
            MqsError: the library refuses.
        """
        self._begin()
        return DynamicProcess(self._library, process, self._handle)


class DynamicProcess(_LibrarySession):
    """What the library knows of one process (interface.ProcessQueues)."""

    _kind = "process"

    def __init__(self, library: DynamicLibrary, process: TargetProcess, image: ImageHandle) -> None:
        """Set the process up in the library."""
        super().__init__(library, ProcessHandle(process, image))
        self._communicator = ffi.new("mqs_communicator *")
        self._label = ffi.new("libmqs_comm_label *")
        self._operation = ffi.new("mqs_pending_operation *")
        self._begin()
        library.call("mqs_setup_process", self._handle.c, PROCESS_CALLBACKS)

    def update_communicator_list(self) -> None:
        """Read the communicators again."""
        self._call("mqs_update_communicator_list")

    def setup_communicator_iterator(self) -> None:
        """Put the cursor on the first communicator; there may be none."""
        self._try_call("mqs_setup_communicator_iterator")

    def get_communicator(self) -> Communicator | None:
        """Return the communicator under the cursor, or None past the end."""
        if not self._try_call("mqs_get_communicator", self._communicator):
            return None
        record = self._communicator
        return Communicator(record.unique_id, record.local_rank, record.size, ffi.string(record.name))

    def get_comm_group(self) -> list[int]:
        """Return the MPI_COMM_WORLD ranks of the local group, in order of local rank.

        Raises:
            NoInformation: the library doesn't know.
        """
        communicator = self.get_communicator()
        if communicator is None:
            raise BadCallError("the cursor is past the last communicator")
        if not 0 <= communicator.size <= _MAX_GROUP_SIZE:
            raise BrokenStructureError(f"the library says that a communicator has {communicator.size} processes")
        ranks = ffi.new("int[]", communicator.size)
        self._call("mqs_get_comm_group", ranks)
        return list(ranks)

    def get_comm_label(self) -> Label:
        """Return the parts of the name of the communicator under the cursor.

        Raises:
            NoInformation: the library isn't libmqs.
        """
        if not self._library.has("libmqs_get_comm_label"):
            raise NoInformation("the library has no libmqs_get_comm_label")
        self._call("libmqs_get_comm_label", self._label)
        label = self._label
        return Label(
            name=ffi.string(label.name),
            description=ffi.string(label.description),
            remote=None if label.remote_size < 0 else label.remote_size,
            freed=bool(label.is_freed),
            internal=bool(label.is_internal),
            handle=label.handle,
        )

    def next_communicator(self) -> bool:
        """Move the cursor on; False when it is past the end."""
        return self._try_call("mqs_next_communicator")

    def setup_operation_iterator(self, queue: Queue) -> None:
        """Start to list one queue of the communicator under the cursor.

        Raises:
            NoInformation: this queue can't be seen in this process.
        """
        self._call("mqs_setup_operation_iterator", int(queue))

    def next_operation(self) -> Operation | None:
        """Return the next operation, or None at the end of the queue.

        Raises:
            MqsError: the queue breaks off here.
        """
        if self._call("mqs_next_operation", self._operation) == ResultCode.END_OF_LIST:
            return None
        record = self._operation
        if record.status not in list(Status):
            raise ForeignLibraryError("mqs_next_operation", ResultCode.OK, f"{record.status} is no status")
        return Operation(
            status=Status(record.status),
            desired_local_rank=record.desired_local_rank,
            desired_global_rank=record.desired_global_rank,
            tag_wild=bool(record.tag_wild),
            desired_tag=record.desired_tag,
            desired_length=record.desired_length,
            system_buffer=bool(record.system_buffer),
            buffer=record.buffer,
            actual_local_rank=record.actual_local_rank,
            actual_global_rank=record.actual_global_rank,
            actual_tag=record.actual_tag,
            actual_length=record.actual_length,
            extra_text=_lines(record.extra_text),
        )

    def get_global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD.

        Raises:
            NoInformation: the library lacks the call, which is optional, or doesn't know.
        """
        self._begin()
        if not self._library.has("mqs_get_global_rank"):
            raise NoInformation("the library has no mqs_get_global_rank")
        rank = self._library.try_call("mqs_get_global_rank", self._handle.c)
        if rank < 0:
            raise NoInformation("the library doesn't know the process's rank in MPI_COMM_WORLD")
        return rank

    def _call(self, name: str, *arguments: Any) -> int:
        self._begin()
        return self._library.call(name, self._handle.c, *arguments)

    def _try_call(self, name: str, *arguments: Any) -> bool:
        """Make a call of the communicator cursor: True for mqs_ok, False past the end, which has two codes in use."""
        self._begin()
        code = self._library.try_call(name, self._handle.c, *arguments)
        if code == ResultCode.OK:
            return True
        if code in _PAST_THE_END:
            return False
        raise self._library.failure(name, code, self._library.error_string(code))


def _open(path: str, name: str) -> Any:
    """Return the library that dlopen knows by a name; errors call it by its path."""
    if name not in _opened:
        try:
            _opened[name] = ffi.dlopen(name, _RTLD_NOW_LOCAL)
        except OSError as error:
            reason = _reason(name, str(error)).replace(name, path)
            raise DllError(f"the MQS library {path} can't be loaded: {reason}") from None
    return _opened[name]


def _reason(name: str, text: str) -> str:
    """Return what the dynamic linker said, without the advice that cffi adds to it."""
    text = text.split("  Additionally,")[0].removeprefix(f"cannot load library '{name}': ")
    return text.removeprefix(f"{name}: ").rstrip(".")


def _enumerate(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _text(string: Any) -> str:
    text: str = "" if string == ffi.NULL else ffi.string(string).decode("utf-8", "backslashreplace")
    return text


def _lines(texts: Any) -> tuple[bytes, ...]:
    lines = (ffi.string(texts[number]) for number in range(TEXT_LINES))
    return tuple(line for line in lines if line)
