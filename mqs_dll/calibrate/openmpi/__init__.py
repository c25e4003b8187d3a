"""Open MPI's calibration, for 4.1.0 to 5.0.11.

program.py runs the calibration program in several ways: calibrate.c, compiled, or where there is no compiler rank.py,
which makes the same through the library (library.py calls it, memory.py copies the rank's memory, asides.py makes what
Python can't). steps.py has the order in which the structs are found, and the rooms by what they know: opal (the object
system and containers), communicators, requests, matching (pml/ob1), objects (datatypes, windows, components), cm
(pml/cm and mtl/ofi). findings.py reads what is found so far, identity.py names the MPI, debug_types.py asks its debug
information, where it has some, for comparison. family.py is what the command sees of all this.
"""
