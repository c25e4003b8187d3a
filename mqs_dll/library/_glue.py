"""The border to C inside libmqs.so: the debugger's calls in, its callbacks out.

csrc/exports.c has checked the pointers and the order of calls, and csrc/python_start.c has imported this module
into an interpreter that is ours or the host's. What is left is translation; service.py answers.

A function here returns a result code plus 1; 0, which cffi returns in trouble, is no answer at all. This is the only
module that touches the embedded ffi; it exists inside libmqs.so alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from mqs_dll._libmqs import ffi, lib
from mqs_dll.contract.abi import ResultCode, TypeSizes
from mqs_dll.contract.errors import StartError, TargetReadError
from mqs_dll.contract.interface import TypeHandle
from mqs_dll.library.service import (
    END_OF_LIST,
    MAX_WORDS,
    OK,
    OPERATION_SIZE,
    Operations,
    Service,
    sentence_of_debugger,
    text_of,
)

_new = ffi.new
_buffer = ffi.buffer
_NULL = ffi.NULL

SIZES_CAPACITY = 8
"""In structs: other headers with the same revision have more sizes than ours, Open MPI's two more."""


# ---------------------------------------------------------------- the debugger's callbacks


class DebuggerImage:
    """A TargetImage over a debugger's mqs_image_callbacks."""

    def __init__(self, image: Any, callbacks: Any) -> None:
        """Take the callbacks out of their table, which need not outlive the call."""
        self._image = image
        self._find_function = callbacks.mqs_find_function_fp
        self._find_symbol = callbacks.mqs_find_symbol_fp
        self._find_type = callbacks.mqs_find_type_fp
        self._field_offset = callbacks.mqs_field_offset_fp
        self._sizeof = callbacks.mqs_sizeof_fp
        self._get_type_sizes = callbacks.mqs_get_type_sizes_fp

    def find_function(self, name: str) -> int | None:
        """Return the address of a function, or None."""
        address = _new("mqs_taddr_t *")
        if self._find_function(self._image, name.encode(), lib.mqs_lang_c, address) != ResultCode.OK:
            return None
        return int(address[0])

    def find_symbol(self, name: str) -> int | None:
        """Return the address of a variable, or None."""
        address = _new("mqs_taddr_t *")
        if self._find_symbol(self._image, name.encode(), address) != ResultCode.OK:
            return None
        return int(address[0])

    def find_type(self, name: str) -> TypeHandle | None:
        """Return the debugger's pointer for a type, or None."""
        return self._find_type(self._image, name.encode(), lib.mqs_lang_c) or None

    def field_offset(self, handle: TypeHandle, field: str) -> int | None:
        """Return the offset in bytes of a member of a struct type, or None."""
        offset = self._field_offset(handle, field.encode())
        return offset if offset >= 0 else None

    def type_size(self, handle: TypeHandle) -> int | None:
        """Return the size in bytes of a type, or None where the debugger doesn't know it."""
        size = self._sizeof(handle) if self._sizeof else 0
        return size if size > 0 else None

    def type_sizes(self, process: Any) -> TypeSizes:
        """Return the sizes of the C types of a process that runs this image."""
        sizes_of = _new("mqs_target_type_sizes[]", SIZES_CAPACITY)
        self._get_type_sizes(process, sizes_of)
        sizes = sizes_of[0]
        return TypeSizes(sizes.short_size, sizes.int_size, sizes.long_size, sizes.long_long_size, sizes.pointer_size)


class DebuggerProcess:
    """A TargetProcess over a debugger's mqs_process_callbacks."""

    def __init__(self, process: Any, callbacks: Any, image: DebuggerImage) -> None:
        """Take the callbacks out of their table, which need not outlive the call."""
        self.image = image
        self._process = process
        self._get_global_rank = callbacks.mqs_get_global_rank_fp
        self._fetch_data = callbacks.mqs_fetch_data_fp
        self._target_to_host = callbacks.mqs_target_to_host_fp
        self._room = 0
        self._memory: Any = None  # one buffer for all fetches: a process answers one call at a time

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the process's C types."""
        return self.image.type_sizes(self._process)

    def fetch(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``, or raise TargetReadError."""
        if size > self._room:
            self._room = max(size, 1 << 16)
            self._memory = _new("char[]", self._room)
        code = self._fetch_data(self._process, address, size, self._memory)
        if code != ResultCode.OK:
            words = lib.mqsc_words_of_debugger(code)
            known = None if words == _NULL else ffi.string(words, MAX_WORDS)
            raise TargetReadError(address, size, why=sentence_of_debugger(code, known))
        return cast(bytes, _buffer(self._memory, size)[:])

    def to_host(self, data: bytes) -> bytes:
        """Return one scalar of the target in the byte order of the host."""
        size = len(data)
        host = _new("char[]", size)
        self._target_to_host(self._process, data, host, size)
        return bytes(_buffer(host, size))

    def global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD as the debugger has it, or -1."""
        return int(self._get_global_rank(self._process))


class _Log:
    """The log of csrc/log.c."""

    def is_open(self) -> bool:
        """Return whether there is one."""
        return bool(lib.mqsc_log_is_open())

    def line(self, text: str) -> None:
        """Append a line."""
        lib.mqsc_log_line(text.encode("utf-8", "replace"))


_service = Service(_Log())
_messages: dict[int, Any] = {}
"""By token: the last message about it, which the debugger may still read."""
_handed_out: deque[Any] = deque(maxlen=1000)  # strings that the debugger may still read


def _c_string(text: str) -> Any:
    return _new("char[]", text.encode("utf-8", "replace").replace(b"\0", b" "))


def _failed(_: type[BaseException], error: BaseException, place: TracebackType | None) -> int:
    return _service.failed(error, place)


_attached: set[str] = set()


def _answers(function: Callable[..., int]) -> Callable[..., int]:
    """Attach a function to its place in csrc/glue.h, which has the same name."""
    attached: Callable[..., int] = ffi.def_extern(name=function.__name__, onerror=_failed)(function)
    _attached.add(function.__name__)
    return attached


def _fill(struct: Any, data: bytes | None) -> int:
    """Give the debugger a struct, or the end of a list."""
    if data is None:
        return END_OF_LIST
    _buffer(struct, len(data))[:] = data
    return OK


@_answers
def mqspy_error_string(code: int, text: Any) -> int:
    """Set ``*text`` to a sentence for a result code: the last failure with it in this thread, or a general one."""
    string = _c_string(_service.error_string(code))
    _handed_out.append(string)
    text[0] = string
    return OK


# ---------------------------------------------------------------- images


def _tell(token: int, message: Any, ask: Callable[[int], str]) -> None:
    """Set ``*message`` to what a has_queues call says, be it an answer or the reason of a failure."""
    said = _NULL
    try:
        text = ask(token)
        said = _c_string(text) if text else _NULL
    except Exception as error:
        said = _c_string(text_of(error))
        raise
    finally:
        _messages[token] = message[0] = said


@_answers
def mqspy_setup_image(image: Any, callbacks: Any, token: Any) -> int:
    """Start with an image; set ``*token`` to the name that further calls use."""
    token[0] = _service.setup_image(DebuggerImage(image, callbacks))
    return OK


@_answers
def mqspy_image_has_queues(token: int, message: Any) -> int:
    """Say whether the image has an MPI that libmqs knows."""
    _tell(token, message, _service.image_has_queues)
    return OK


@_answers
def mqspy_destroy_image(token: int) -> int:
    """Forget an image."""
    _messages.pop(token, None)
    _service.destroy_image(token)
    return OK


# ---------------------------------------------------------------- processes


@_answers
def mqspy_setup_process(image_token: int, process: Any, callbacks: Any, token: Any) -> int:
    """Start with a process; set ``*token`` to the name that further calls use."""
    image = cast(DebuggerImage, _service.image_of(image_token))
    token[0] = _service.setup_process(image_token, DebuggerProcess(process, callbacks, image))
    return OK


@_answers
def mqspy_process_has_queues(token: int, message: Any) -> int:
    """Say whether the queues of the process can be read."""
    _tell(token, message, _service.process_has_queues)
    return OK


@_answers
def mqspy_destroy_process(token: int) -> int:
    """Forget a process."""
    _messages.pop(token, None)
    _service.destroy_process(token)
    return OK


@_answers
def mqspy_get_global_rank(token: int, rank: Any) -> int:
    """Set ``*rank`` to the process's rank in MPI_COMM_WORLD as its MPI has it."""
    rank[0] = _service.get_global_rank(token)
    return OK


# ---------------------------------------------------------------- communicators


@_answers
def mqspy_update_communicator_list(token: int) -> int:
    """Read the communicators again."""
    _service.update_communicator_list(token)
    return OK


@_answers
def mqspy_setup_communicator_iterator(token: int) -> int:
    """Put the cursor on the first communicator."""
    _service.setup_communicator_iterator(token)
    return OK


@_answers
def mqspy_get_communicator(token: int, communicator: Any) -> int:
    """Fill ``*communicator`` with the one under the cursor."""
    return _fill(communicator, _service.get_communicator(token))


@_answers
def mqspy_get_comm_group(token: int, ranks: Any) -> int:
    """Fill ``ranks`` with as many ranks as mqs_get_communicator says that the communicator has."""
    return _fill(ranks, _service.get_comm_group(token))


@_answers
def mqspy_get_comm_label(token: int, label: Any) -> int:
    """Fill ``*label`` with what the communicator under the cursor is called."""
    return _fill(label, _service.get_comm_label(token))


@_answers
def mqspy_next_communicator(token: int) -> int:
    """Move the cursor on."""
    return OK if _service.next_communicator(token) else END_OF_LIST


# ---------------------------------------------------------------- operations


def _give(found: Operations, operations: Any, count: Any, ends: Any) -> int:
    if found.data:
        _fill(operations, found.data)
    count[0], ends[0] = len(found.data) // OPERATION_SIZE, found.ends
    return OK


@_answers
def mqspy_setup_operation_iterator(token: int, queue: int, operations: Any, count: Any, ends: Any) -> int:
    """Start to list a queue of the communicator under the cursor, and give its first operations, as below."""
    return _give(_service.setup_operation_iterator(token, queue, count[0]), operations, count, ends)


@_answers
def mqspy_next_operations(token: int, operations: Any, count: Any, ends: Any) -> int:
    """Fill ``operations`` with the next, ``*count`` at most; set that to how many, and ``*ends`` as Operations.ends."""
    return _give(_service.next_operations(token, count[0]), operations, count, ends)


# cffi prints when C calls a function that has no Python: csrc/exports.c is notified that it may call when all have.
if missing := {name for name in dir(lib) if name.startswith("mqspy_")} - _attached:
    raise StartError(f"nothing is attached to {', '.join(sorted(missing))}")
lib.mqsc_glue_is_ready()
