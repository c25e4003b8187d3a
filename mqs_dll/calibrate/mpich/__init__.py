"""MPICH's calibration, for 3.4 to 5.0 on either device, and for Intel MPI.

- ``family``: what the command sees of all this
- ``program``: what the ranks run; ``snapshot``: copies their memory; ``runs``: starts it in several ways
- ``steps``: the order in which the structs are found
- ``allocation``: the pools; ``communicators``: and the process; ``ranks``: maps, groups, virtual connections;
  ``objects``: datatypes, windows; ``requests``: what all have; ``ch4``: that device; ``ch3``: the other; ``intel``:
  Intel's
- ``findings``: finds objects by their handles; ``identity``: names the MPI; ``debug_types``: asks its debug
  information, where it has some, for comparison
"""
