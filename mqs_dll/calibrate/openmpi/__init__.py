"""Open MPI's calibration, for 4.1.0 to 5.0.11.

- ``family``: what the command sees of all this: the runs of the program, the order in which the structs are found
- ``program``: what the ranks run; ``c_calls``: calls on a stack of their own, or that may fall over
- ``opal``: the object system and containers; ``communicators``: with groups and processes; ``requests``: of every kind;
  ``matching``: pml/ob1; ``objects``: datatypes, windows, components; ``cm``: pml/cm and mtl/ofi
- ``layout_solver``: reads objects by what is found so far; ``identity``: names the MPI
"""
