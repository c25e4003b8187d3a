"""How much memory JSON will take when it is read: a short text can stand for much.

A byte of "[[[[" becomes an object of 56 bytes, and one of "{}," of 64 and more. So the marks of a text are counted,
which takes a thousandth of the time, and what would be too large is refused before Python makes anything of it.
"""

from __future__ import annotations

import resource
from pathlib import Path

from mqs_dll.job.codec import DamagedError

_VALUE, _LIST, _OBJECT = 64, 72, 240
"""Bytes that a value takes with its place in what it lies in, and besides that a list and an object with a member."""

MAX_GROWTH = 128
"""Bytes that one byte of JSON can take at most: of "{}," each takes a third of an object and of its place."""

_TEXT = 2
"""Bytes for each byte: the text itself, and the strings in it."""

_BEYOND_ASCII = 4
"""Times as much memory takes a text that has letters of other alphabets."""

_KIBIBYTE = 1024


def cost(text: bytes | bytearray) -> int:
    """Return about how many bytes of memory the values take that a text of JSON stands for; mostly it is less."""
    values = text.count(b",") * _VALUE + text.count(b"[") * _LIST + text.count(b"{") * _OBJECT
    return values + len(text) * _TEXT * (1 if text.isascii() else _BEYOND_ASCII)


def check(text: bytes | bytearray, most: int) -> int:
    """Return the cost of a text of JSON, which may be so many bytes.

    Raises:
        DamagedError: it is more.
    """
    found = cost(text)
    if found > most:
        raise DamagedError(f"stands for more than {most >> 20} MiB")
    return found


def left() -> int:
    """Return how many bytes of memory this process may still take, by its limits and by what the machine has."""
    own = {name: _size(value) for name, value in _fields("/proc/self/status")}
    found = [_size(value) for name, value in _fields("/proc/meminfo") if name == "MemAvailable"]
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY and name in own:
            found.append(most - own[name])
    return max(min(found, default=1 << 62), 0)


def _fields(path: str) -> list[tuple[str, str]]:
    try:
        lines = Path(path).read_bytes().decode("ascii", "replace").splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in lines if line.endswith(" kB"))
    return [(name, value) for name, _, value in pairs]


def _size(value: str) -> int:
    return int(value.split()[0]) * _KIBIBYTE
