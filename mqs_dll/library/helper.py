"""The process in which libmqs's Python side works for a debugger whose own Python is another (csrc/helper.c).

libmqs.so starts it (helper_start.py) by any Python from 3.10 on, which needs no cffi.
It serves one debugger through the socket that is its descriptor 3, call by call, and ends when that closes.

A frame is a header and bytes: what it is, how many bytes, a code, a subject and a number (struct frame). During a call
the debugger's callbacks are asked for by frames of our own, each of which is answered by one.
"""

from __future__ import annotations

import platform
import socket
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from mqs_dll.contract.abi import ResultCode, TypeSizes
from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.interface import TypeHandle
from mqs_dll.library.service import END_OF_LIST, FIRST_TOKEN, MAX_WORDS, OK, Operations, Service, sentence_of_debugger

HEADER = struct.Struct("=IIqQQ")
SOCKET = 3
_WORD = 1 << 64
_RANK = struct.Struct("=i")
_SIZES = struct.Struct("=5i")


class What(IntEnum):
    """What a frame asks for; csrc/helper.c has the same numbers."""

    ANSWER = 0
    ERROR_STRING = 1
    SETUP_IMAGE = 2
    IMAGE_HAS_QUEUES = 3
    DESTROY_IMAGE = 4
    SETUP_PROCESS = 5
    PROCESS_HAS_QUEUES = 6
    DESTROY_PROCESS = 7
    UPDATE_COMMUNICATOR_LIST = 8
    SETUP_COMMUNICATOR_ITERATOR = 9
    GET_COMMUNICATOR = 10
    GET_COMM_GROUP = 11
    GET_COMM_LABEL = 12
    NEXT_COMMUNICATOR = 13
    SETUP_OPERATION_ITERATOR = 14
    NEXT_OPERATIONS = 15
    GET_GLOBAL_RANK = 16
    FIND_FUNCTION = 100
    FIND_SYMBOL = 101
    FIND_TYPE = 102
    FIELD_OFFSET = 103
    TYPE_SIZE = 104
    TYPE_SIZES = 105
    FETCH = 106
    TO_HOST = 107
    GLOBAL_RANK = 108
    LOG_LINE = 109


class WireFrame(NamedTuple):
    """What travels in either direction."""

    what: int
    code: int
    subject: int
    number: int
    data: bytes


class Channel:
    """The socket to the debugger."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connected socket."""
        self._connection = connection

    def send(self, what: int, code: int = 0, subject: int = 0, number: int = 0, data: bytes = b"") -> None:
        """Send a frame."""
        self._connection.sendall(HEADER.pack(what, len(data), code, subject, number) + data)

    def receive(self) -> WireFrame:
        """Return the next frame.

        Raises:
            EOFError: the debugger is gone, or needs the helper no more.
        """
        what, size, code, subject, number = HEADER.unpack(self._read(HEADER.size))
        return WireFrame(what, code, subject, number, self._read(size))

    def ask(self, what: What, subject: int, number: int = 0, data: bytes = b"", code: int = 0) -> WireFrame:
        """Return what the debugger answers."""
        self.send(what, code, subject, number, data)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            count = self._connection.recv_into(view[done:])
            if count == 0:
                raise EOFError
            done += count
        return bytes(data)


class HelperImage:
    """A TargetImage over a debugger's mqs_image_callbacks."""

    def __init__(self, channel: Channel, number: int) -> None:
        """Take the number by which libmqs.so knows the image."""
        self.channel = channel
        self.number = number

    def find_function(self, name: str) -> int | None:
        """Return the address of a function, or None."""
        return self._address(What.FIND_FUNCTION, name)

    def find_symbol(self, name: str) -> int | None:
        """Return the address of a variable, or None."""
        return self._address(What.FIND_SYMBOL, name)

    def find_type(self, name: str) -> TypeHandle | None:
        """Return the debugger's pointer for a type, or None."""
        return self.channel.ask(What.FIND_TYPE, self.number, data=name.encode()).number or None

    def field_offset(self, handle: TypeHandle, field: str) -> int | None:
        """Return the offset in bytes of a member of a struct type, or None."""
        offset = self.channel.ask(What.FIELD_OFFSET, self.number, handle, field.encode()).code
        return offset if offset >= 0 else None

    def type_size(self, handle: TypeHandle) -> int | None:
        """Return the size in bytes of a type, or None where the debugger doesn't know it."""
        size = self.channel.ask(What.TYPE_SIZE, self.number, handle).code
        return size if size > 0 else None

    def _address(self, what: What, name: str) -> int | None:
        found = self.channel.ask(what, self.number, data=name.encode())
        return found.number if found.code == ResultCode.OK else None


class HelperProcess:
    """A TargetProcess over a debugger's mqs_process_callbacks."""

    def __init__(self, image: HelperImage, number: int) -> None:
        """Take the number by which libmqs.so knows the process."""
        self.image = image
        self._channel = image.channel
        self._number = number

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the process's C types."""
        return TypeSizes(*_SIZES.unpack(self._channel.ask(What.TYPE_SIZES, self.image.number, self._number).data))

    def fetch(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``, or raise TargetReadError."""
        found = self._channel.ask(What.FETCH, self._number, address, code=size)
        if found.code == ResultCode.OK:
            return found.data
        words = found.data[:MAX_WORDS] if found.number else None
        raise TargetReadError(address, size, why=sentence_of_debugger(found.code, words))

    def to_host(self, data: bytes) -> bytes:
        """Return one scalar of the target in the byte order of the host."""
        return self._channel.ask(What.TO_HOST, self._number, data=data).data

    def global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD as the debugger has it, or -1."""
        return self._channel.ask(What.GLOBAL_RANK, self._number).code


class HelperLog:
    """The log of csrc/log.c."""

    def __init__(self, channel: Channel) -> None:
        """Write through the debugger's process."""
        self._channel = channel

    def is_open(self) -> bool:
        """Return whether there is one."""
        return bool(self._channel.ask(What.LOG_LINE, 0).number)

    def line(self, text: str) -> None:
        """Append a line."""
        self._channel.ask(What.LOG_LINE, 0, data=text.encode("utf-8", "replace"))


def serve(generation: int) -> None:
    """Serve the debugger until it closes the socket.

    Args:
        generation: how many helpers it has had with this one: tokens of others are unknown to it.
    """
    channel = Channel(socket.socket(fileno=SOCKET))
    service = Service(HelperLog(channel), FIRST_TOKEN + (generation << 32))
    calls = _calls(channel, service)
    channel.send(What.ANSWER, OK, data=f"{platform.python_version()}, in a process of its own".encode())
    while True:
        try:
            call = channel.receive()
        except (EOFError, OSError):
            return
        try:
            answer = calls[call.what](call)
        except OSError:
            return  # the debugger is gone
        except Exception as error:
            code = service.failed(error, error.__traceback__)
            channel.send(What.ANSWER, code, data=service.error_string(code - OK).encode("utf-8", "replace"))
        else:
            code, number = END_OF_LIST if answer is END else OK, 0
            if isinstance(answer, Operations):
                answer, number = answer
            elif isinstance(answer, int):
                number = answer
            data = answer.encode("utf-8", "replace") if isinstance(answer, str) else answer
            channel.send(What.ANSWER, code, number, data=data if isinstance(data, bytes) else b"")


END = object()
"""What stands for the end of a list."""


def _calls(channel: Channel, service: Service) -> dict[int, Callable[[WireFrame], object]]:
    """Return what each call does: it gives a token, the bytes of a struct, Operations, a text, END, or None."""

    def setup_process(call: WireFrame) -> int:
        image = service.image_of(call.subject)
        assert isinstance(image, HelperImage)
        return service.setup_process(call.subject, HelperProcess(image, call.number))

    def or_end(data: bytes | None) -> object:
        return END if data is None else data

    return {
        What.ERROR_STRING: lambda call: service.error_string((call.number + _WORD // 2) % _WORD - _WORD // 2),
        What.SETUP_IMAGE: lambda call: service.setup_image(HelperImage(channel, call.number)),
        What.IMAGE_HAS_QUEUES: lambda call: service.image_has_queues(call.subject),
        What.DESTROY_IMAGE: lambda call: service.destroy_image(call.subject),
        What.SETUP_PROCESS: setup_process,
        What.PROCESS_HAS_QUEUES: lambda call: service.process_has_queues(call.subject),
        What.DESTROY_PROCESS: lambda call: service.destroy_process(call.subject),
        What.UPDATE_COMMUNICATOR_LIST: lambda call: service.update_communicator_list(call.subject),
        What.SETUP_COMMUNICATOR_ITERATOR: lambda call: service.setup_communicator_iterator(call.subject),
        What.GET_COMMUNICATOR: lambda call: or_end(service.get_communicator(call.subject)),
        What.GET_COMM_GROUP: lambda call: or_end(service.get_comm_group(call.subject)),
        What.GET_COMM_LABEL: lambda call: service.get_comm_label(call.subject),
        What.NEXT_COMMUNICATOR: lambda call: None if service.next_communicator(call.subject) else END,
        What.SETUP_OPERATION_ITERATOR: lambda call: service.setup_operation_iterator(
            call.subject, call.number, call.code
        ),
        What.NEXT_OPERATIONS: lambda call: service.next_operations(call.subject, call.code),
        What.GET_GLOBAL_RANK: lambda call: _RANK.pack(service.get_global_rank(call.subject)),
    }
