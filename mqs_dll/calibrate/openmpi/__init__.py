"""Open MPI's calibration, for 4.1.0 to 5.0.11.

program.py is what the ranks run: it calls the library (library.py; asides.py makes what Python can't). runs.py starts
it in several ways. steps.py has the order in which the structs are found, and the rooms by what they know: opal (the
object system and containers), communicators, requests, matching (pml/ob1), objects (datatypes, windows, components), cm
(pml/cm and mtl/ofi). opal_ledger.py reads objects by what is found so far, identity.py names the MPI. family.py is what
the command sees of all this.
"""
