"""The border to C inside libmqs.so: the debugger's calls in, its callbacks out.

csrc/exports.c has checked the pointers and the order of calls, and csrc/python_start.c has imported this module
into an interpreter that is ours or the host's. What is left is translation, and keeping sessions apart:

* A call names an image or a process by a *token*, a number that the debugger keeps for us as its mqs_image_info
  or mqs_process_info pointer. It is a key of a dictionary and never an address, so that no wrong pointer hurts.
* A function here returns a result code plus 1; 0, which cffi returns in trouble, is no answer at all.
* Exceptions end in ``_failed``, which keeps their text for mqs_dll_error_string.
* Several threads may call: a session takes one call at a time. exports.c refuses a call from within a callback.

This is the only module that touches the embedded ffi; it exists inside libmqs.so alone.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from mqs_dll import session
from mqs_dll._libmqs import ffi, lib
from mqs_dll.abi import NAME_SIZE, TEXT_LINES, TEXT_SIZE, Queue, ResultCode, TypeSizes
from mqs_dll.errors import BadCallError, BrokenStructureError, InternalError, MqsError, StartError, TargetReadError
from mqs_dll.interface import ImageQueues, ProcessQueues, TypeHandle

_OK: Final = ResultCode.OK + 1
_END_OF_LIST: Final = ResultCode.END_OF_LIST + 1

_LABEL = struct.Struct(f"={NAME_SIZE}s{NAME_SIZE}sqiiQ")
_COMMUNICATOR = struct.Struct(f"=Qqq{NAME_SIZE}s")
_OPERATION = struct.Struct("=i4xqqi4xqqi4xQqqqq" + f"{TEXT_SIZE}s" * TEXT_LINES)
_QUEUES = tuple(Queue)
_NO_LINES = (b"",) * TEXT_LINES
_WORD = 0xFFFF_FFFF_FFFF_FFFF

_new = ffi.new
_buffer = ffi.buffer
_NULL = ffi.NULL


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
        """Return the size in bytes of a type, or None where the debugger can't tell."""
        size = self._sizeof(handle) if self._sizeof else 0
        return size if size > 0 else None

    def type_sizes(self, process: Any) -> TypeSizes:
        """Return the sizes of the C types of a process that runs this image."""
        sizes = _new("mqs_target_type_sizes *")
        self._get_type_sizes(process, sizes)
        return TypeSizes(sizes.short_size, sizes.int_size, sizes.long_size, sizes.long_long_size, sizes.pointer_size)


_STANDARD_CODES = (ResultCode.NO_INFORMATION, ResultCode.END_OF_LIST)
_MOST_WORDS = 200
"""Bytes of a debugger's words; more is no sentence."""


def _words_of_debugger(code: int) -> str:
    """Return what the debugger says of a code of its own; empty where it has no words, or says what libmqs says."""
    words = _NULL if code in _STANDARD_CODES else lib.mqsc_words_of_debugger(code)
    if words == _NULL:
        return ""
    text = ffi.string(words, _MOST_WORDS).decode("utf-8", "replace")
    text = " ".join(text.split()).rstrip(".")
    return "" if text == session.explain(code) else text


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
            raise TargetReadError(address, size, why=_words_of_debugger(code))
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


# ---------------------------------------------------------------- sessions


class _Image:
    """What belongs to one mqs_image that the debugger has set up."""

    __slots__ = ("debugger", "message", "queues")

    def __init__(self, debugger: DebuggerImage, queues: ImageQueues) -> None:
        self.debugger = debugger
        self.queues = queues
        self.message: Any = _NULL


class _Process:
    """What belongs to one mqs_process that the debugger has set up."""

    __slots__ = ("message", "queues")

    def __init__(self, queues: ProcessQueues) -> None:
        self.queues = queues
        self.message: Any = _NULL


HeldT = TypeVar("HeldT")


class _Table(dict[int, HeldT]):
    """What the tokens stand for; an unknown one is the debugger's mistake."""

    def __missing__(self, token: int) -> HeldT:
        raise BadCallError(f"the info {token:#x} that the debugger keeps was destroyed, or is not libmqs's")


_library = session.Library()
_tokens = itertools.count(0x4D51_5300_0001)  # never used twice: a token that was destroyed stays unknown
_images: _Table[_Image] = _Table()
_processes: _Table[_Process] = _Table()


# ---------------------------------------------------------------- failures


class _Failures(threading.local):
    """Of each thread the text of its last failure with each result code."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}


_failures = _Failures()
_handed_out: deque[Any] = deque(maxlen=1000)  # strings that the debugger may still look at


def _c_string(text: str) -> Any:
    return _new("char[]", text.encode("utf-8", "replace").replace(b"\0", b" "))


def _text_of(error: BaseException) -> str:
    """Return what happened and what to do next, for the debugger's user."""
    if isinstance(error, MqsError):
        return f"{error} ({error.help})"
    if isinstance(error, KeyboardInterrupt):
        return "the call was interrupted"
    return f"{type(error).__name__}: {error} ({InternalError.help})"


def _log_failure(code: int, error: BaseException, place: TracebackType | None, text: str) -> None:
    lib.mqsc_log_line(f"error {code}: {text}".encode("utf-8", "replace"))
    if code == InternalError.code:
        import traceback

        for line in "".join(traceback.format_exception(type(error), error, place)).splitlines():
            lib.mqsc_log_line(line.encode("utf-8", "replace"))


def _failed(_: type[BaseException], error: BaseException, place: TracebackType | None) -> int:
    """Keep the text of an exception, and return its answer; negative when Ctrl-C has to be raised again."""
    code = int(error.code) if isinstance(error, MqsError) else InternalError.code
    text = _text_of(error)
    _failures.texts[code] = text
    if lib.mqsc_log_is_open():
        _log_failure(code, error, place, text)
    return -(code + 1) if isinstance(error, KeyboardInterrupt) else code + 1


_attached: set[str] = set()


def _answers(function: Callable[..., int]) -> Callable[..., int]:
    """Attach a function to its place in csrc/glue.h, which has the same name."""
    attached: Callable[..., int] = ffi.def_extern(name=function.__name__, onerror=_failed)(function)
    _attached.add(function.__name__)
    return attached


@_answers
def mqspy_error_string(code: int, text: Any) -> int:
    """Set ``*text`` to a sentence for a result code: the last failure with it in this thread, or a general one."""
    string = _c_string(_failures.texts.get(code) or session.explain(code))
    _handed_out.append(string)
    text[0] = string
    return _OK


# ---------------------------------------------------------------- images


def _tell(held: _Image | _Process, message: Any, ask: Callable[[], str]) -> None:
    """Set ``*message`` to what a has_queues call says, be it an answer or the reason of a failure."""
    try:
        text = ask()
    except Exception as error:
        held.message = _c_string(_text_of(error))
        raise
    else:
        held.message = _c_string(text) if text else _NULL
    finally:
        message[0] = held.message


@_answers
def mqspy_setup_image(image: Any, callbacks: Any, token: Any) -> int:
    """Begin with an image; set ``*token`` to the name that further calls use."""
    debugger = DebuggerImage(image, callbacks)
    held = _Image(debugger, _library.setup_image(debugger))
    token[0] = number = next(_tokens)
    _images[number] = held
    return _OK


@_answers
def mqspy_image_has_queues(token: int, message: Any) -> int:
    """Say whether the image has an MPI that libmqs knows."""
    held = _images[token]
    _tell(held, message, held.queues.has_queues)
    return _OK


@_answers
def mqspy_destroy_image(token: int) -> int:
    """Forget an image."""
    held = _images[token]
    _images.pop(token, None)
    held.queues.close()
    return _OK


# ---------------------------------------------------------------- processes


@_answers
def mqspy_setup_process(image_token: int, process: Any, callbacks: Any, token: Any) -> int:
    """Begin with a process; set ``*token`` to the name that further calls use."""
    image = _images[image_token]
    queues = image.queues.setup_process(DebuggerProcess(process, callbacks, image.debugger))
    token[0] = number = next(_tokens)
    _processes[number] = _Process(queues)
    return _OK


@_answers
def mqspy_process_has_queues(token: int, message: Any) -> int:
    """Say whether the queues of the process can be read."""
    held = _processes[token]
    _tell(held, message, held.queues.has_queues)
    if lib.mqsc_log_is_open():
        for origin in getattr(held.queues, "layout_origins", list)():
            lib.mqsc_log_line(f"layout of {origin.struct}: {origin.origin}".encode())
    return _OK


@_answers
def mqspy_destroy_process(token: int) -> int:
    """Forget a process."""
    held = _processes[token]
    _processes.pop(token, None)
    held.queues.close()
    return _OK


@_answers
def mqspy_get_global_rank(token: int, rank: Any) -> int:
    """Set ``*rank`` to the process's rank in MPI_COMM_WORLD as its MPI has it."""
    held = _processes[token]
    rank[0] = held.queues.get_global_rank()
    return _OK


# ---------------------------------------------------------------- communicators


@_answers
def mqspy_update_communicator_list(token: int) -> int:
    """Read the communicators anew."""
    held = _processes[token]
    held.queues.update_communicator_list()
    return _OK


@_answers
def mqspy_setup_communicator_iterator(token: int) -> int:
    """Put the cursor on the first communicator."""
    held = _processes[token]
    held.queues.setup_communicator_iterator()
    return _OK


@_answers
def mqspy_get_communicator(token: int, communicator: Any) -> int:
    """Fill ``*communicator`` with the one under the cursor."""
    held = _processes[token]
    current = held.queues.get_communicator()
    if current is None:
        return _END_OF_LIST
    unique_id, local_rank, size, name = current
    _buffer(communicator)[:] = _COMMUNICATOR.pack(unique_id & _WORD, local_rank, size, name[: NAME_SIZE - 1])
    return _OK


@_answers
def mqspy_get_comm_group(token: int, ranks: Any) -> int:
    """Fill ``ranks`` with as many ranks as mqs_get_communicator says that the communicator has."""
    held = _processes[token]
    current = held.queues.get_communicator()
    group = held.queues.get_comm_group()
    size = 0 if current is None else current.size
    if len(group) != size:
        raise BrokenStructureError(f"the communicator has {size} processes, its group {len(group)}")
    if size:
        _buffer(ranks, 4 * size)[:] = struct.pack(f"={size}i", *group)
    return _OK if current is not None else _END_OF_LIST


@_answers
def mqspy_get_comm_label(token: int, label: Any) -> int:
    """Fill ``*label`` with what the communicator under the cursor is called."""
    held = _processes[token]
    name, description, remote, freed, internal, handle = held.queues.get_comm_label()
    texts = name[: NAME_SIZE - 1], description[: NAME_SIZE - 1]
    _buffer(label)[:] = _LABEL.pack(*texts, -1 if remote is None else remote, freed, internal, handle & _WORD)
    return _OK


@_answers
def mqspy_next_communicator(token: int) -> int:
    """Move the cursor on."""
    held = _processes[token]
    return _OK if held.queues.next_communicator() else _END_OF_LIST


# ---------------------------------------------------------------- operations


@_answers
def mqspy_setup_operation_iterator(token: int, queue: int) -> int:
    """Begin to list a queue of the communicator under the cursor."""
    held = _processes[token]
    held.queues.setup_operation_iterator(_QUEUES[queue])
    return _OK


@_answers
def mqspy_next_operation(token: int, operation: Any) -> int:
    """Fill ``*operation`` with the next one."""
    held = _processes[token]
    current = held.queues.next_operation()
    if current is None:
        return _END_OF_LIST
    lines = [line[: TEXT_SIZE - 1] for line in (*current.extra_text, *_NO_LINES)[:TEXT_LINES]]
    # The fields are in the order of the C struct, and the text is the last of them.
    _buffer(operation)[:] = _OPERATION.pack(*current[:7], current.buffer & _WORD, *current[8:12], *lines)
    return _OK


# cffi prints when C calls a function that has no Python: csrc/exports.c is told that it may call when all have.
if missing := {name for name in dir(lib) if name.startswith("mqspy_")} - _attached:
    raise StartError(f"nothing is attached to {', '.join(sorted(missing))}")
lib.mqsc_glue_is_ready()
