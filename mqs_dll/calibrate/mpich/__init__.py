"""MPICH's calibration, for 3.4 to 5.0 on either device, and for Intel MPI.

program.py is what the ranks run: it makes objects and operations whose values can be found again. runs.py starts it in
several ways. steps.py has the order in which the structs are found, and the rooms by what they know: allocation (the
pools), communicators, processes (maps, groups, virtual connections), objects (datatypes, windows), requests, ch4, ch3,
intel. pool_ledger.py finds the objects by their handles, identity.py names the MPI. family.py is what the command sees
of all this.
"""
