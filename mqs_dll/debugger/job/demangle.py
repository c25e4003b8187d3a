"""Names of functions as their source has them, from the names that compilers make of them."""

from __future__ import annotations

import ctypes
import re
from functools import cache, lru_cache
from typing import Any

from mqs_dll.debugger.apart import Apart

_FORTRAN = re.compile(r"__(\w+?)_MOD_(\w+)")
"""What gfortran makes of a module's procedure (GNU Fortran manual, "Naming conventions")."""
_MAX_NAME = 4096
"""Characters of a name that is looked at: templates of C++ have names of hundreds."""
_MAX_NAMES = 1 << 14
_MEMORY = 256 << 20
"""Bytes that the names may take: a name of fifty letters can stand for one of gigabytes."""
_PATIENCE = 2.0
_LIBRARY = "libstdc++.so.6"
_OPERATOR = re.compile(r"\boperator(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|\(\)| ?[^\w(]+)?")


@lru_cache(_MAX_NAMES)
def demangled(symbol: str) -> str:
    """Return a function's name with namespace, class or module, but without parameters; any other name as it is.

    Names come from the target and are hostile: the C++ library takes them apart in a process of its own.
    """
    if fortran := _FORTRAN.fullmatch(symbol):
        return f"{fortran[1]}::{fortran[2]}"
    if not symbol.startswith("_Z") or len(symbol) > _MAX_NAME or not (symbol.isascii() and symbol.isprintable()):
        return symbol
    return without_parameters(_apart.ask(symbol, _PATIENCE) or "") or symbol


def without_parameters(name: str) -> str:
    """Return "solver::Halo<double>::swap" of "void solver::Halo<double>::swap(int) const".

    Parentheses belong to the name where another part of it follows: "run()::{lambda(int)#1}::operator()(int) const".
    """
    depth, start = 0, 0
    place = 0
    while place < len(name):
        operator = _OPERATOR.match(name, place)
        if operator and (place == 0 or not (name[place - 1].isalnum() or name[place - 1] == "_")):
            place = operator.end() + name.startswith(" <", operator.end())
            continue
        letter = name[place]
        if letter == "(" and depth == 0:
            end = _closing(name, place)
            if not name.startswith("::", end) and not name.startswith(" const::", end):
                return name[start:place]
            place = end
            continue
        depth += {"<": 1, "(": 1, "{": 1, "[": 1, ">": -1, ")": -1, "}": -1, "]": -1}.get(letter, 0)
        if letter == " " and depth == 0:
            start = place + 1  # what stood before is the type of what a template returns
        place += 1
    return name[start:]


def _closing(name: str, place: int) -> int:
    depth = 0
    for at in range(place, len(name)):
        depth += {"(": 1, ")": -1}.get(name[at], 0)
        if depth == 0:
            return at + 1
    return len(name)


def answer(symbol: str) -> str:
    """Return what a name stands for, in a process apart; an empty text where the C++ library can't tell."""
    demangle, free = _functions()
    status = ctypes.c_int()
    found = demangle(symbol.encode(), None, None, ctypes.byref(status))
    text = ctypes.string_at(found)[: 4 * _MAX_NAME].decode("ascii", "replace") if found else ""
    free(found)
    return text


@cache
def _functions() -> tuple[Any, Any]:
    try:
        demangle = ctypes.CDLL(_LIBRARY)["__cxa_demangle"]
    except (OSError, AttributeError):
        return lambda *_: None, lambda _: None
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    return demangle, free


_apart = Apart(__name__, _MEMORY)
