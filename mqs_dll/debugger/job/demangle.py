"""Names of functions as their source has them, from the names that compilers make of them."""

from __future__ import annotations

import ctypes
import re
import resource
import subprocess
import sys
from functools import lru_cache
from select import select

from mqs_dll.debugger import own_python

_FORTRAN = re.compile(r"__(\w+?)_MOD_(\w+)")
"""What gfortran makes of a module's procedure (GNU Fortran manual, "Naming conventions")."""
_MAX_NAME = 4096
"""Characters of a name that is looked at: templates of C++ have names of hundreds."""
_MAX_NAMES = 1 << 14
_MEMORY = 256 << 20
"""Bytes of address space that the names may take: a name of fifty letters can stand for one of gigabytes."""
_PATIENCE = 2.0
_MAX_FAILURES = 3
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
    return without_parameters(_demangler.ask(symbol)) or symbol


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


class _Demangler:
    """Asks a process, which is started for the first name and again when a name was too much for it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._failures = 0

    def ask(self, symbol: str) -> str:
        """Return what a name stands for; an empty text where that can't be determined."""
        if self._failures == _MAX_FAILURES:
            return ""
        try:
            if self._child is None:
                self._child = _start()
            return _ask(self._child, symbol)
        except OSError:
            self._failures += 1
            if self._child is not None:
                self._child.kill()
                self._child.communicate()
                self._child = None
            return ""


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        own_python.command(f"{own_python.BEGIN}; from {__name__} import serve; serve()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for us
    )


def _ask(child: subprocess.Popen[str], symbol: str) -> str:
    assert child.stdin
    assert child.stdout
    child.stdin.write(f"{symbol}\n")
    child.stdin.flush()
    if not select([child.stdout], [], [], _PATIENCE)[0]:
        raise TimeoutError
    answer = child.stdout.readline()
    if not answer.endswith("\n"):
        raise BrokenPipeError
    return answer[:-1]


def serve() -> None:
    """Write for each name on standard input what it stands for; the end of the input ends it."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        demangle = ctypes.CDLL(_LIBRARY)["__cxa_demangle"]
    except (OSError, AttributeError):
        return
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    for line in sys.stdin:
        status = ctypes.c_int()
        found = demangle(line.strip().encode(), None, None, ctypes.byref(status))
        text = ctypes.string_at(found)[: 4 * _MAX_NAME].decode("ascii", "replace") if found else ""
        free(found)
        print(text, flush=True)


_demangler = _Demangler()
