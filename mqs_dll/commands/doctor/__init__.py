"""``mqs doctor``: what libmqs knows of an MPI, in a process or in a file, what it can't see and why, and what to do.

It asks the library side and the debugger side alike, so it composes both: ``process`` looks at a live one,
``library`` at a file, ``advice`` finds what would mend what they lack, ``command`` has the arguments and prints.
"""
