"""Calls of C functions that Python can't make as they are.

One leaves its traces on a stack that nobody else may use; another falls over when what it was to make is made.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

from cffi import FFI

STACK_BYTES = 1 << 20
CONTEXT_BYTES = 8192
"""More than a ucontext_t of glibc has on any machine."""

PATIENCE = 0.2
"""Seconds that a function may take that makes a small group."""

_LIBC = FFI()
_LIBC.cdef("""
int getcontext(void *);
int swapcontext(void *, void *);
void makecontext(void *, void *, int, ...);
""")


def call_on_stack(stack: int, function: Any, *arguments: int) -> None:
    """Call a C function with numbers and addresses, on STACK_BYTES of its own: what it leaves there stays.

    The members of ucontext_t are those of glibc on x86_64 and aarch64: flags, link, then the stack's start, flags, size
    (sys/ucontext.h); its makecontext takes words for ints there.
    """
    libc = _LIBC.dlopen(None)
    context, back = _LIBC.new("char[]", CONTEXT_BYTES), _LIBC.new("char[]", CONTEXT_BYTES)
    libc.getcontext(context)
    words = _LIBC.cast("uintptr_t *", context)
    words[1] = int(_LIBC.cast("uintptr_t", back))
    words[2] = stack
    words[4] = STACK_BYTES
    longs = [_LIBC.cast("long", word) for word in arguments]
    libc.makecontext(context, _LIBC.cast("void *", function), len(longs), *longs)
    libc.swapcontext(back, context)


def call_in_thread(function: Any, *arguments: Any) -> None:
    """Call a C function in a thread; where it falls over, the thread sleeps forever and the process goes on."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal.restype = ctypes.c_void_p
    before = libc.signal(signal.SIGSEGV, ctypes.cast(libc.pause, ctypes.c_void_p))
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    libc.signal(signal.SIGSEGV, before)
