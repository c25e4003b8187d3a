"""Bytes from a target as text that is safe to print: names and paths of a program are anybody's to choose.

Whatever prints imports this, and nothing else with it.
"""

from __future__ import annotations

import unicodedata

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of what doesn't show, or moves what does: controls, formats (bidirectional overrides), ..."""


def printable(data: bytes) -> str:
    r"""Return bytes as text in which whatever isn't plainly visible is a backslash escape.

    Bytes that are no UTF-8 become ``\xNN``, control characters ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``, and a
    backslash becomes two, so that different bytes never appear the same.
    """
    text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return visible(text)


def visible(text: str) -> str:
    """Return text with every character that isn't plainly visible as a backslash escape."""
    if text.isprintable():  # of those categories it has none, but there are more
        return text
    return "".join(_escape(character) if _is_unsafe(character) else character for character in text)


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in _UNSAFE_CATEGORIES


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
