"""The MQS interface in C's terms, from the debugger's side: include/mqs_interface.h as cffi wrote it down.

Only layouts and signatures are here; dll.py makes the calls, callbacks.py answers them. It is written down when libmqs
is built: to parse the header takes cffi longer than to read a process.
"""

from __future__ import annotations

import re
from typing import Any

from mqs_dll.debugger import library_path

try:
    from mqs_dll.debugger import _declared
except ImportError:
    library_path.built("debugger/_declared.py")  # else it is cffi's own part that can't be imported
    raise

ffi: Any = _declared.ffi

_OPTIONAL_CALLS = ("mqs_get_global_rank", "libmqs_get_comm_label")
"""Not of MQS 1.0, and libmqs's own."""

REQUIRED_CALLS = [
    name
    for name in re.findall(r"^extern .*?(\w+)\(", library_path.declarations()[1], re.M)
    if name not in _OPTIONAL_CALLS
]
"""What a library must export."""

TADDR_WIDTH: int = ffi.sizeof("mqs_taddr_t")
"""Bytes of an address in the interface as this debugger speaks it."""
