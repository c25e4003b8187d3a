"""Open MPI's calibration, for 4.1.0 to 5.0.11.

family.py is what the command sees of it, with the order in which the structs are found. program.py is what the ranks
run: it calls the library (library.py; asides.py makes what Python can't); runs.py has the ways in which it is started.
The rooms by what they know: opal (the object system and containers), communicators, requests, matching (pml/ob1),
objects (datatypes, windows, components), cm (pml/cm and mtl/ofi). opal_ledger.py reads objects by what is found so far,
identity.py names the MPI.
"""
