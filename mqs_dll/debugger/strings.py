"""Strings in a target's memory."""

from __future__ import annotations

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.interface import TargetProcess

_LONGEST = 4096
"""PATH_MAX of Linux, the closing NUL included."""
_PAGE = 4096


def string_at(process: TargetProcess, address: int) -> bytes | None:
    """Return the string at an address without its NUL, None where none ends within what a path may have."""
    text = b""
    while b"\0" not in text and len(text) < _LONGEST:
        here = address + len(text)
        try:
            text += process.fetch(here, _PAGE - here % _PAGE)  # never into the next page, which may not be there
        except TargetReadError:
            return None
    string, nul, _ = text.partition(b"\0")
    return string if nul else None
