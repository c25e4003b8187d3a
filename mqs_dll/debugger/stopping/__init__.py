"""Stopping processes for a sample, and noticing what they do while they run.

- ``stop``: stopping processes for a sample; start reading here
- ``limit``: for how long; ``interrupts``: what a Ctrl-C has to wait for
- ``holder``: has a process of its own hold them, or notice returns; ``messages``: what both say to each other
- ``holder_process``: that process; ``tracer``: how it stops threads; ``signal_filter``: how it notices that threads
  return from calls, and keeps from them what could come of that; ``returns``: the kernel's part in it;
  ``ptrace``: the kernel's ptrace(2)
"""
