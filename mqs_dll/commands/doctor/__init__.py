"""``mqs doctor``: what libmqs knows of an MPI, in a process or in a file, what it can't see and why, and what to do.

It asks the library side and the debugger side alike, so it composes both.

- ``command``: its arguments; start reading here
- ``diagnosis``: what was found out, as records
- ``process``: examines a live process
- ``library``: examines a file, where nothing runs or stops
- ``advice``: finds the remedies for what they lack
- ``report``: text and JSON
"""
