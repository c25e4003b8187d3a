"""The arguments of the MPI call that a thread is in, from machine code, registers and stack alone.

- ``parameters``: what a call's parameters are
"""
