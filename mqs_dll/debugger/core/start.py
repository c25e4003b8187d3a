"""What the kernel laid on a process's stack at its start: the program's arguments and its environment.

The notes of a core file have 79 bytes of the arguments at most, gcore's the program alone, and no environment.
Source: create_elf_tables() of Linux's fs/binfmt_elf.c. By address: the number of arguments, pointers to them, 0,
pointers to the variables, 0, the auxiliary vector, which the notes have too, and behind it all the strings.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError

_MAX_POINTERS = 1 << 20
"""Bytes in front of the auxiliary vector: pointers to more variables than any launcher sets."""
_MAX_STRINGS = 1 << 25
_WORD = 8


class CoreStart(NamedTuple):
    """How a process was started; both are empty where the core doesn't have it."""

    arguments: Sequence[str]
    """The program's name first."""
    environment: Mapping[str, str]


def find(read: Callable[[int, int], bytes], stack: int, start: int, end: int, vector: bytes) -> CoreStart:
    """Return the arguments and the environment of a process.

    Args:
        read: reads memory; raises TargetReadError.
        stack: where the part of memory starts in which the stack lies.
        start: an address between the auxiliary vector and the strings (AT_RANDOM).
        end: one behind the strings (AT_EXECFN).
        vector: the auxiliary vector, as the notes have it.
    """
    lowest = max(stack, start - len(vector) - _MAX_POINTERS)
    if not vector or not lowest < start < end < start + _MAX_STRINGS:
        return CoreStart([], {})
    try:
        below, strings = read(lowest, start - lowest), read(start, end - start)
    except TargetReadError:
        return CoreStart([], {})
    pointers = below[: max(below.rfind(vector), 0)]
    words = [word for (word,) in struct.iter_unpack("<Q", pointers[len(pointers) % _WORD :])]
    variables = _back_to(words, lambda word, count: word == 0)
    arguments = _back_to(words, lambda word, count: word == count)
    texts = _strings(strings, [address - start for address in (*arguments, *variables)])
    pairs = (text.partition("=") for text in texts[len(arguments) :])
    return CoreStart(texts[: len(arguments)], {name: value for name, equals, value in pairs if equals})


def _back_to(words: list[int], is_end: Callable[[int, int], bool]) -> list[int]:
    """Take the pointers in front of a 0 from the end of a list of words; none where they have no start."""
    words[-1:] = []
    found: list[int] = []
    while words and not is_end(words[-1], len(found)):
        found.append(words.pop())
    return found[::-1] if words else []


def _strings(strings: bytes, places: Sequence[int]) -> list[str]:
    """Return the string at each place; none of them where they would be longer than where they lie: they overlap."""
    found = []
    left = len(strings)
    for at in places:
        end = strings.find(b"\0", at) if at >= 0 else -1
        left -= max(end - at, 0) if end >= 0 else 0
        if left < 0:
            return [""] * len(places)
        found.append(os.fsdecode(strings[at:end]) if end >= 0 else "")
    return found
