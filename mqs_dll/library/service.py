"""What answers a debugger's calls, whoever carries them: the sessions by their tokens, and the C structs as bytes.

* A call names an image or a process by a *token*, a number that the debugger keeps for us as its mqs_image_info
  or mqs_process_info pointer. It is a key of a dictionary and never an address, so that no wrong pointer hurts.
* A call of ``Service`` gives what the debugger is to get, and raises where it gets a result code instead.
* Exceptions end in ``failed``, which keeps their text for mqs_dll_error_string.
* Several threads may call: a session takes one call at a time. csrc/exports.c refuses a call from within a callback.

_glue.py carries calls within a process, by cffi; helper.py from another process, by a socket.
"""

from __future__ import annotations

import itertools
import struct
import threading
from types import TracebackType
from typing import Final, NamedTuple, Protocol, TypeVar

from mqs_dll.contract.abi import NAME_SIZE, TEXT_LINES, TEXT_SIZE, Operation, Queue, ResultCode
from mqs_dll.contract.errors import BadCallError, BrokenStructureError, InternalError, MqsError
from mqs_dll.contract.interface import TargetImage, TargetProcess
from mqs_dll.library import session

OK: Final = ResultCode.OK + 1
END_OF_LIST: Final = ResultCode.END_OF_LIST + 1
"""Answers: result codes plus 1. 0, which cffi returns in trouble, is no answer at all."""

_LABEL = struct.Struct(f"={NAME_SIZE}s{NAME_SIZE}sqiiQ")
_COMMUNICATOR = struct.Struct(f"=Qqq{NAME_SIZE}s")
_OPERATIONS = [
    struct.Struct("=i4xqqi4xqqi4xQqqqq" + f"{TEXT_SIZE - 1}sx" * lines + f"{TEXT_SIZE * (TEXT_LINES - lines)}x")
    for lines in range(TEXT_LINES + 1)
]
"""The C struct, in its order; by the number of lines of its text."""
OPERATION_SIZE: Final = _OPERATIONS[0].size
_QUEUES = tuple(Queue)
IS_END: Final = 1
"""The lowest bit of Operations.ends."""
_WORD = 0xFFFF_FFFF_FFFF_FFFF
FIRST_TOKEN = 0x4D51_5300_0001

_STANDARD_CODES = (ResultCode.NO_INFORMATION, ResultCode.END_OF_LIST)
MAX_WORDS = 200
"""Bytes of a debugger's words; more is no sentence."""


def sentence_of_debugger(code: int, words: bytes | None) -> str:
    """Return what a debugger says of a code of its own; empty where it has no words, or says what libmqs says."""
    if words is None or code in _STANDARD_CODES:
        return ""
    text = " ".join(words.decode("utf-8", "replace").split()).rstrip(".")
    return "" if text == session.explain(code) else text


class Operations(NamedTuple):
    """Some operations of a queue."""

    data: bytes
    """An mqs_pending_operation each."""
    ends: int
    """A bit, whether the queue has no more; then one for each queue of the communicator, by its number, whether it is
    known to be empty. Who sets up one of these all the same starts a new sweep."""


class Log(Protocol):
    """The log that MQS_LOG asks for."""

    def is_open(self) -> bool:
        """Return whether there is one."""
        ...

    def line(self, text: str) -> None:
        """Append a line."""
        ...


HeldT = TypeVar("HeldT")


class _Table(dict[int, HeldT]):
    """What the tokens stand for; an unknown one is the debugger's mistake."""

    def __missing__(self, token: int) -> HeldT:
        raise BadCallError(f"the info {token:#x} that the debugger keeps was destroyed, or is not libmqs's")


class _Failures(threading.local):
    """Of each thread the text of its last failure with each result code."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}


class Service:
    """All that a debugger has set up."""

    def __init__(self, log: Log, first_token: int = FIRST_TOKEN) -> None:
        """Initialize with nothing.

        Args:
            log: where failures and layouts are written down.
            first_token: of the numbers that name images and processes.
        """
        self._log = log
        self._library = session.Library()
        self._tokens = itertools.count(first_token)  # never used twice: a token that was destroyed stays unknown
        self._images: _Table[tuple[TargetImage, session.ImageSession]] = _Table()
        self._processes: _Table[session.ProcessSession] = _Table()
        self._behind: dict[int, Exception] = {}
        """By token: the failure behind the operations that the debugger was given."""
        self._failures = _Failures()

    # ------------------------------------------------------------ failures

    def failed(self, error: BaseException, place: TracebackType | None) -> int:
        """Keep the text of an exception, and return its answer; negative when Ctrl-C has to be raised again."""
        code = int(error.code) if isinstance(error, MqsError) else InternalError.code
        text = text_of(error)
        self._failures.texts[code] = text
        if self._log.is_open():
            self._log.line(f"error {code}: {text}")
            if code == InternalError.code:
                import traceback

                for line in "".join(traceback.format_exception(type(error), error, place)).splitlines():
                    self._log.line(line)
        return -(code + 1) if isinstance(error, KeyboardInterrupt) else code + 1

    def error_string(self, code: int) -> str:
        """Return a sentence for a result code: the last failure with it in this thread, or a general one."""
        return self._failures.texts.get(code) or session.explain(code)

    # ------------------------------------------------------------ images

    def setup_image(self, image: TargetImage) -> int:
        """Start with an image; return the name that further calls use."""
        token = next(self._tokens)
        self._images[token] = image, self._library.setup_image(image)
        return token

    def image_of(self, token: int) -> TargetImage:
        """Return what was set up as an image."""
        return self._images[token][0]

    def image_has_queues(self, token: int) -> str:
        """Return what there is to say of an image that has an MPI which libmqs knows."""
        return self._images[token][1].has_queues()

    def destroy_image(self, token: int) -> None:
        """Forget an image."""
        _, queues = self._images[token]
        self._images.pop(token, None)
        queues.close()

    # ------------------------------------------------------------ processes

    def setup_process(self, image_token: int, process: TargetProcess) -> int:
        """Start with a process; return the name that further calls use."""
        queues = self._images[image_token][1].setup_process(process)
        token = next(self._tokens)
        self._processes[token] = queues
        return token

    def process_has_queues(self, token: int) -> str:
        """Return what there is to say of a process whose queues can be read."""
        queues = self._moved(token)
        message = queues.has_queues()
        if self._log.is_open():
            for origin in getattr(queues, "layout_origins", list)():
                self._log.line(f"layout of {origin.struct}: {origin.origin}")
        return message

    def destroy_process(self, token: int) -> None:
        """Forget a process."""
        queues = self._moved(token)
        self._processes.pop(token, None)
        queues.close()

    def get_global_rank(self, token: int) -> int:
        """Return the process's rank in MPI_COMM_WORLD as its MPI has it."""
        return self._processes[token].get_global_rank()

    def _moved(self, token: int) -> session.ProcessSession:
        """Return a process in which something is moved: the end of an earlier list doesn't count any more."""
        self._behind.pop(token, None)
        return self._processes[token]

    # ------------------------------------------------------------ communicators

    def update_communicator_list(self, token: int) -> None:
        """Read the communicators again."""
        self._moved(token).update_communicator_list()

    def setup_communicator_iterator(self, token: int) -> None:
        """Put the cursor on the first communicator."""
        self._moved(token).setup_communicator_iterator()

    def get_communicator(self, token: int) -> bytes | None:
        """Return an mqs_communicator of the one under the cursor, None past the end."""
        current = self._processes[token].get_communicator()
        if current is None:
            return None
        unique_id, local_rank, size, name = current
        return _COMMUNICATOR.pack(unique_id & _WORD, local_rank, size, name[: NAME_SIZE - 1])

    def get_comm_group(self, token: int) -> bytes | None:
        """Return as many ranks as get_communicator says that the communicator has, None past the end."""
        queues = self._processes[token]
        current = queues.get_communicator()
        group = queues.get_comm_group()
        size = 0 if current is None else current.size
        if len(group) != size:  # another thread has moved the cursor
            raise BrokenStructureError(f"the communicator has {size} processes, its group {len(group)}")
        return None if current is None else struct.pack(f"={size}i", *group)

    def get_comm_label(self, token: int) -> bytes:
        """Return a libmqs_comm_label of what the communicator under the cursor is called."""
        name, description, remote, freed, internal, handle = self._processes[token].get_comm_label()
        texts = name[: NAME_SIZE - 1], description[: NAME_SIZE - 1]
        return _LABEL.pack(*texts, -1 if remote is None else remote, freed, internal, handle & _WORD)

    def next_communicator(self, token: int) -> bool:
        """Move the cursor on; False past the end."""
        return self._moved(token).next_communicator()

    # ------------------------------------------------------------ operations

    def setup_operation_iterator(self, token: int, queue: int, most: int) -> Operations:
        """Start to list a queue of the communicator under the cursor; return the first, as next_operations does."""
        queues = self._moved(token)
        queues.setup_operation_iterator(_QUEUES[queue])
        empty = queues.take_empty()
        if empty:
            return Operations(b"", IS_END | empty << 1)
        try:
            return self.next_operations(token, most)
        except Exception as failure:
            self._behind[token] = failure
            return Operations(b"", 0)

    def next_operations(self, token: int, most: int) -> Operations:
        """Return as many operations as are left in the queue, ``most`` at most.

        csrc/exports.c hands them to the debugger one by one. A failure behind some of them is that of the next call.
        """
        queues = self._processes[token]
        if token in self._behind:
            raise self._behind.pop(token)
        listed: list[Operation] = []
        ends = 0
        try:
            ends = IS_END if queues.next_operations(listed, most) else 0
        except Exception as failure:
            if not listed:
                raise
            self._behind[token] = failure
        return Operations(b"".join(map(_packed, listed)), ends)


def _packed(operation: Operation) -> bytes:
    """Return an mqs_pending_operation, whose text is the last of its fields."""
    text = operation[-1][:TEXT_LINES]
    pack = _OPERATIONS[len(text)].pack
    try:
        return pack(*operation[:-1], *text)
    except struct.error:  # an address beyond a word
        return pack(*operation._replace(buffer=operation.buffer & _WORD)[:-1], *text)


def text_of(error: BaseException) -> str:
    """Return what happened and what to do next, for the debugger's user."""
    if isinstance(error, MqsError):
        return f"{error} ({error.help})"
    if isinstance(error, KeyboardInterrupt):
        return "the call was interrupted"
    return f"{type(error).__name__}: {error} ({InternalError.help})"
