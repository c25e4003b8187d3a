"""The kernel's ptrace(2), as far as we use it. ctypes, because holder_process.py has to start quickly."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable

CONT = 7
DETACH = 17
GETSIGINFO = 0x4202
GETREGSET = 0x4204
SEIZE = 0x4206
INTERRUPT = 0x4207
LISTEN = 0x4208

EVENT_STOP = 128
"""What wait() has above a stop's signal where no signal is about to be delivered."""

_LETTING_GO = 1.0
"""Seconds in which a thread that is to be let go has to stand; when its tracer exits, the kernel lets it go."""

_FIRST_DELAY, _MAX_DELAY = 0.00005, 0.01
"""Seconds between two requests for news."""

_STANDSTILL = 0.5
"""Seconds between two requests in which neither we nor the thread can have run: the machine stood still, or had none
left. They don't count."""

_AT_LEAST = 0.02
"""Seconds that a thread gets after them."""

_NT_PRSTATUS = 1
_WALL = 0x40000000
"""__WALL of waitpid: threads too, not only processes."""

_MAX_REGISTERS_SIZE = 1024
_SIGINFO_SIZE = 128
_SIGINFO = struct.Struct("<iii4xQ")
"""Up to si_addr: si_signo, si_errno, si_code."""


class Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def call(request: int, thread: int, data: int = 0) -> bool:
    """Make a request of the kernel; return whether it was granted, else error() has the reason."""
    return bool(_libc.ptrace(request, thread, None, data) == 0)


def error() -> int:
    """Return errno of the last request that was refused."""
    return ctypes.get_errno()


def wait(thread: int) -> tuple[int, int]:
    """Return a thread of which there is news and its status; 0 and 0 where there is none yet.

    Args:
        thread: which one; -1 for any of those that we trace.

    Raises:
        ChildProcessError: there is none to wait for.
    """
    return os.waitpid(thread, _WALL | os.WNOHANG)


def news(thread: int, deadline: float, sleep: Callable[[float], None] = time.sleep) -> int | None:
    """Wait until a thread stands; return its status, None for one that has ended.

    Args:
        thread: which one.
        deadline: until when; time.monotonic().
        sleep: waits for seconds, at most.

    Raises:
        TimeoutError: it runs on.
    """
    delay = _FIRST_DELAY
    last = time.monotonic()
    deadline = max(deadline, last + _AT_LEAST)
    while True:
        try:
            seen, status = wait(thread)
        except ChildProcessError:  # gone with an exec of another thread
            return None
        if seen:
            return status if os.WIFSTOPPED(status) else None
        now = time.monotonic()
        if now - last > _STANDSTILL:  # nor did the thread run then
            deadline += now - last
        if now > deadline:
            raise TimeoutError
        last = now
        sleep(delay)
        delay = min(delay * 2, _MAX_DELAY)


def let_go(thread: int, to_deliver: Callable[[int], int | None]) -> bool:
    """Detach from a thread that runs, as soon as it stands; return False where it doesn't come to stand in time.

    Args:
        thread: which one.
        to_deliver: gives the signal that a thread gets with which status it stands, 0 for none; None to let it run on
            to the next one first.
    """
    call(INTERRUPT, thread)
    deadline = time.monotonic() + _LETTING_GO
    try:
        while (status := news(thread, deadline)) is not None:
            number = to_deliver(status)
            if number is None:
                call(CONT, thread)
            elif call(DETACH, thread, number):
                return True
    except TimeoutError:
        return False
    return True


def registers(thread: int) -> bytes:
    """Return the general registers of a thread that stands, as the kernel gives them; none of one that was killed."""
    buffer = ctypes.create_string_buffer(_MAX_REGISTERS_SIZE)
    piece = Piece(ctypes.addressof(buffer), len(buffer))
    if _libc.ptrace(GETREGSET, thread, _NT_PRSTATUS, ctypes.addressof(piece)) != 0:
        return b""
    return buffer.raw[: piece.length]


def signal_of(thread: int) -> tuple[int, int]:
    """Return si_code and si_addr of the signal that a thread which stands for it is about to get; zeros for none."""
    buffer = ctypes.create_string_buffer(_SIGINFO_SIZE)
    if _libc.ptrace(GETSIGINFO, thread, None, ctypes.addressof(buffer)) != 0:
        return 0, 0
    _, _, code, address = _SIGINFO.unpack_from(buffer.raw)
    return code, address
