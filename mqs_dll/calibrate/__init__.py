"""Learns the layout of an MPI at hand, without its sources (``mqs calibrate``).

A program of ours makes objects and operations whose values can be found again in its memory, writes down what is true
of them, and copies its memory; each member's offset is solved from the places where its value is known.

In the order of reading: discovery.py finds the MPI, launch.py runs the program; bindings.py, rank.py and copier.py are
what its ranks have in common; dump.py reads what a rank left, solver.py finds an offset from sightings, ledger.py keeps
what is found and has the tables of members; target.py lets the library side read a dump, document.py writes and
compares profiles. A folder for each family of MPIs (family.py) has the program, and says what is to be sighted in which
order. No module here knows an offset, and only the command line imports this package.
"""
