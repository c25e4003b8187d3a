"""Blocks of the C library's heap, as far as what Open MPI allocates there needs them."""

from __future__ import annotations

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.memory import WORD, Memory


def heap_bytes(memory: Memory, address: int, limit: int) -> int:
    """Return how many bytes belong to the heap block at an address, ``limit`` at most; 0 when it is none.

    The size that glibc's malloc keeps before each block (its low bits are flags) shows where the neighbour begins,
    whose words must not speak for this one.
    """
    if address % (2 * WORD):
        return 0
    try:
        size = (memory.pointer(address - WORD) & ~7) - WORD
    except TargetReadError:
        return 0
    return min(size, limit) if WORD <= size < 1 << 32 else 0
