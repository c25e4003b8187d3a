"""Random programs that block in functions named like MPI's, whose arguments those write down themselves.

- ``library``: writes the functions; ``program``: writes what calls them
- ``harness``: compiles and runs programs, and compares their arguments with what is reported of them
"""
