"""Which MPI call each thread of a process is in, from its stack: an extra, never a condition.

- ``unwind``: the stacks of all threads of a process or of a core file; start reading here
- ``capture``: copies registers and stacks while the process stands; all else works on the copy
- ``follow``: goes from frame to frame, by drgn; ``callee``: which function a call instruction calls
- ``modules``: whose code a frame runs
- ``constants``: what MPIs call the values of arguments; ``pointed``: the requests that a call was given by address
- ``arguments``: what the MPI call was called with
- ``thread``: makes the record of one thread: its MPI call and who called it; ``lines``: their source lines
- ``python``: where a thread is in Python
"""

from mqs_dll.debugger.job.stacks.capture import Captured, capture
from mqs_dll.debugger.job.stacks.follow import StackTracer
from mqs_dll.debugger.job.stacks.unwind import NOT_ASKED, NOT_CAPTURED, NOT_STOPPED, unwind, unwind_core

__all__ = [
    "NOT_ASKED",
    "NOT_CAPTURED",
    "NOT_STOPPED",
    "Captured",
    "StackTracer",
    "capture",
    "unwind",
    "unwind_core",
]
