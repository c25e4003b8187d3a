"""The arguments of the MPI call that a thread is in, from machine code, registers and stack alone; on x86_64.

- ``call``: of one call, as both sides know them; ``chain``: the sides: what is kept, and what was computed
- ``evaluate``: numbers for values
- ``loaded``: the code of a process, followed once for each place, and for so long; ``code``: that of one file
- ``remember``: what was followed once
- ``flow``: follows values through a function on all its ways
- ``transfer``: what one instruction does; ``state``: what is known at one point, and what two ways have in common
- ``values``: names for values
- ``decode``: instructions, by capstone; ``eh_frame``: where functions start and end, and how their frames lie
"""

from mqs_dll.debugger.job.stacks.arguments.call import CallArguments
from mqs_dll.debugger.job.stacks.arguments.loaded import TIME_BUDGET

__all__ = ["TIME_BUDGET", "CallArguments"]
