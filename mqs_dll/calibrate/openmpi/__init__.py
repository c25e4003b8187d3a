"""Open MPI's calibration, for 4.1.0 to 5.0.11.

- ``family``: what the command sees of all this
- ``program``: runs the calibration program in several ways: calibrate.c, compiled, or without a compiler ``rank``,
  which does the same by ``library``; ``rank``: that program; ``library``: calls Open MPI; ``asides``: makes what Python
  can't; ``memory``: copies a rank's memory
- ``steps``: the order in which the structs are found
- ``opal``: the object system and containers; ``communicators``: with groups and processes; ``requests``: of every kind;
  ``matching``: pml/ob1; ``objects``: datatypes, windows, components; ``cm``: pml/cm and mtl/ofi
- ``findings``: reads what is found so far; ``identity``: names the MPI; ``debug_types``: asks its debug information,
  where it has some, for comparison
"""
