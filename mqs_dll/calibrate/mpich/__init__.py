"""MPICH's calibration, for 3.4 to 5.0 on either device, and for Intel MPI.

program.py is what the ranks run: it calls the library through bindings.py, makes objects and operations whose values
can be found again, and copies its memory (snapshot.py). runs.py starts it in several ways. steps.py has the order in
which the structs are found, and the rooms by what they know: allocation (the pools), communicators, ranks (maps,
groups, virtual connections), objects (datatypes, windows), requests, ch4, ch3. findings.py finds the objects by their
handles, identity.py names the MPI, debug_types.py asks its debug information, where it has some, for comparison.
"""
