"""MPICH's calibration, for 3.4 to 5.0 on either device, and for Intel MPI.

- ``family``: what the command sees of all this: the runs of the program, the order in which the structs are found
- ``program``: what the ranks run
- ``allocation``: the pools; ``communicators``: the process, datatypes and windows too; ``processes``: maps, groups,
  virtual connections; ``requests``: what all have; ``ch4``: that device; ``ch3``: the other; ``intel``:
  Intel's
- ``layout_solver``: finds objects by their handles; ``identity``: names the MPI
"""
