"""What a rank has in its environment now: a program may have changed it since it was started.

/proc/PID/environ shows what it was started with. What setenv(3) has made of that is where the variable ``environ`` of
its C library leads (POSIX.1, section 8.1).
"""

from __future__ import annotations

import struct

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.strings import string_at

MAX_VARIABLES = 1 << 12
_POINTER = 8
_ENVIRON = ("environ", "__environ", "_environ")


def variable(process: LiveProcess, name: str) -> bytes:
    """Return the value of a variable; empty where it has none, or that can't be read.

    Args:
        process: it may run: what it changes meanwhile is not found, or read half.
        name: of the variable.
    """
    found = (process.image.find_symbol(symbol) for symbol in _ENVIRON)
    place = next((address for address in found if address is not None), None)
    wanted = f"{name}=".encode()
    try:
        address = 0 if place is None else _pointer(process, place)
        for _ in range(MAX_VARIABLES if address else 0):
            text = _pointer(process, address)
            if not text:
                break
            if process.fetch(text, len(wanted)) == wanted:
                return (string_at(process, text) or b"").removeprefix(wanted)
            address += _POINTER
    except TargetReadError:  # the end of a page, or of what it was
        pass
    return b""


def _pointer(process: LiveProcess, address: int) -> int:
    value: int = struct.unpack("<Q", process.fetch(address, _POINTER))[0]
    return value
