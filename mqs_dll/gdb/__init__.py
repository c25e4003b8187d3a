"""libmqs inside gdb: the commands ``mqs show``, ``mqs comms``, ``mqs queues`` and ``mqs job``, by gdb's own Python.

Nothing is compiled, and neither cffi nor drgn is needed: the Python core reads the process through gdb, whether gdb
runs it, was attached to it, has its core file, or speaks with a gdbserver beside it.

- ``start``: what the line in ~/.gdbinit runs, by whatever Python gdb has
- ``target``: a process as gdb shows it, and all of them as one job
- ``frames``: where its threads are
- ``commands``: the commands
"""
