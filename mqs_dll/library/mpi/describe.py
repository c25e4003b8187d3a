"""Lines of extra_text that all MPIs have in common: at most five lines of 63 bytes."""

from __future__ import annotations

from typing import NamedTuple

from mqs_dll.contract.abi import TEXT_LINES, TEXT_SIZE
from mqs_dll.contract.names import fit

LINE = TEXT_SIZE - 1

NO_ORDER = "its order among those to this rank is not known"
"""Of a send."""


class DatatypeFacts(NamedTuple):
    """What is known of one datatype."""

    name: bytes
    """Empty for a derived datatype that the program didn't name."""
    size: int
    """Bytes of data in one element."""
    predefined: bool


def lines(*texts: str | bytes | None) -> tuple[bytes, ...]:
    """Return the texts that are there, each cut to its line."""
    encoded = [text[:LINE] if isinstance(text, bytes) else text.encode()[:LINE] for text in texts if text]
    return tuple(encoded[:TEXT_LINES])


def buffer_text(facts: DatatypeFacts | None, count: int, handle: int) -> bytes:
    """Return "MPI_INT x 4, 16 bytes"; the name is cut when it is long, the numbers never."""
    if facts is None:
        return b"%d elements of an unreadable datatype at %#x" % (count, handle)
    numbers = b" x %d, %d bytes" % (count, count * facts.size)
    name = facts.name or b"unnamed datatype %#x" % handle
    return fit(name, LINE - len(numbers)) + numbers
