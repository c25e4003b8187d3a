"""Which MPI call each thread of a process is in, from its stack: an extra, never a condition.

capture.py copies registers and stacks while the process stands; all else works on the copy. follow.py goes from frame
to frame by drgn, modules.py says whose code a frame runs, calls.py finds the MPI call and its caller, lines.py their
source lines, thread.py makes the record, unwind.py does that for all threads of a process or of a core file.
"""

from mqs_dll.debugger.job.stacks.capture import Captured, capture
from mqs_dll.debugger.job.stacks.follow import StackTracer
from mqs_dll.debugger.job.stacks.unwind import NOT_STOPPED, unwind, unwind_core

__all__ = ["NOT_STOPPED", "Captured", "StackTracer", "capture", "unwind", "unwind_core"]
