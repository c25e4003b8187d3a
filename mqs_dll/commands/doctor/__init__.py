"""``mqs doctor``: what libmqs knows of an MPI, in a process or in a file, and what this machine lets it see.

It asks the library side and the debugger side alike, so it composes both.

- ``command``: its arguments; start reading here
- ``diagnosis``: what was found out, as records
- ``process``: examines a live process
- ``library``: examines a file, where nothing runs or stops
- ``machine``: examines this machine, where no process is named
- ``advice``: finds the remedies for what they lack
- ``report``: text and JSON
"""
