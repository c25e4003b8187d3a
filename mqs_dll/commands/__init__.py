"""The subcommands of ``mqs``, one module or folder each, and what they share.

A module has its arguments and ``run``; it composes the debugger side and the library side, and only cli and api import
it. which_library: what reads a process. times: times and ``--limit``. demo_rank: a rank of the demo's job.
"""
