"""Learns the layout of an MPI at hand, without its sources (``mqs calibrate``).

A program of ours makes objects and operations whose values can be found again in its memory, writes down what is true
of them, and copies its memory; each member's offset is solved from the places where its value is known.

- ``families``: all families of MPIs; ``family``: what each has to offer
- ``discovery``: finds an MPI; ``installation``: what is found; ``exports``: what its library exports
- ``launch``: runs the program; ``bindings``: its calls of the library; ``dump``: what a rank left
- ``solver``: finds an offset from sightings; ``findings``: what is found so far
- ``target``: lets the library side read a dump
- ``document``: writes the profile; ``store``: where it goes
- ``openmpi``: Open MPI's program, and what is to be sighted in which order
- ``mpich``: the same for MPICH

No module here knows an offset, and only the command line imports this package.
"""
