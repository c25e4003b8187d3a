"""The stack of a process's first thread, as a library can find it that sees memory and symbols, and no registers."""

from __future__ import annotations

from mqs_dll.library.memory import BLOCK, PAGE, WORD, Memory

MAPPED = 1 << 17
"""Bytes below its begin that Linux maps when it starts a program (setup_arg_pages in fs/exec.c). Nothing below them is
read: the stack of the process would grow by that."""


def first_words(memory: Memory, begin: int) -> tuple[int, tuple[int, ...]]:
    """Return the address of the lowest word that is read, and the words from there to the begin of the stack.

    Some of them are stale: where the stack ends just now only registers tell.

    Args:
        memory: of the process.
        begin: what the dynamic linker's __libc_stack_end says: where the stack was when the program started.

    Raises:
        TargetReadError: it can't be read.
    """
    low = -(-(begin - begin % PAGE - MAPPED) // BLOCK) * BLOCK  # fetches begin at whole blocks
    return low, memory.pointers(low, (begin - low) // WORD)
