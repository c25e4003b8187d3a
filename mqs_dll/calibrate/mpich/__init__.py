"""MPICH's calibration, for 3.4 to 5.0 on either device, and for Intel MPI.

family.py is what the command sees of it, with the order in which the structs are found. program.py is what the ranks
run; runs.py has the ways in which it is started. The rooms by what they know: allocation (the pools), communicators,
processes (maps, groups, virtual connections), objects (datatypes, windows), requests, ch4, ch3, intel. pool_ledger.py
finds the objects by their handles, identity.py names the MPI.
"""
