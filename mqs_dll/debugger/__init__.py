"""The debugger side: live processes, core files and libraries' files as targets, and MQS libraries driven over them.

- ``collect``: a library's way over one process into a record; start reading here
- ``live``: a live process, its symbols and types by drgn, its memory and environment
- ``many_reads``: reads of many places of a process's memory in one call
- ``access``: whether a process may be read and stopped, and what is in the way
- ``inside``: the files that a process has mapped, in its container too
- ``proc``: what /proc shows of processes and their threads
- ``stopping``: stopping processes for a sample, and noticing what they do while they run
- ``own_python``: a Python of our own for what may not disturb this one
- ``apart``: a process of its own for what reads hostile input in C
- ``rights``: giving up root for what is another user's; ``become``: that step
- ``dll``: any MQS library; ``callbacks``: what it asks of a debugger; ``c_interface``: both in C's terms, for both;
  ``_declared``: what cffi made of the header for that
- ``library_file``: a library's file as a target, before anything runs
- ``library_path``: where libmqs's own files lie: the libraries, the header
- ``bases``: what targets, and those who keep them open, have in common; strings in any target's memory
- ``core``: a core file as a target
- ``job``: all ranks of a job
"""
