"""The MQS interface in C's terms, for cffi in ABI mode: include/mqs_interface.h from the debugger's side.

Only layouts and signatures are here; dll.py makes the calls, callbacks.py answers them.
"""

from __future__ import annotations

import re
from typing import Any

import cffi

from mqs_dll import library_path

_OPTIONAL_CALLS = ("mqs_get_global_rank", "libmqs_get_comm_label")
"""Not of MQS 1.0, and libmqs's own."""

_types, _functions = library_path.declarations()

ffi: Any = cffi.FFI()
ffi.cdef(_types + _functions + "void *malloc(unsigned long); void free(void *);")

REQUIRED_CALLS = [name for name in re.findall(r"^extern .*?(\w+)\(", _functions, re.M) if name not in _OPTIONAL_CALLS]
"""What a library must export."""

TADDR_WIDTH: int = ffi.sizeof("mqs_taddr_t")
"""Bytes of an address in the interface as this debugger speaks it."""
