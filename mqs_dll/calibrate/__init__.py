"""Learns the layout of an MPI at hand, without its sources (``mqs calibrate``).

A program of ours makes objects and operations whose values can be found again in its memory, writes down what is true
of them, and copies its memory; each member's offset is solved from the places where its value is known.

- ``family``: what each family of MPIs has to offer
- ``discovery``: finds an MPI; ``exports``: what its library exports
- ``launch``: runs the program; ``rank``: what its ranks have in common; ``bindings``: their calls of the library;
  ``copier``: copies their memory; ``dump``: what they left
- ``offset_solver``: finds an offset from observations; ``layout_solver``: keeps what is found, by tables of members
- ``target``: lets the library side read a dump
- ``document``: writes and compares profiles
- ``fabric``: confirms what libmqs knows of UCX and libfabric; ``search``: finds layouts near known ones
- ``openmpi``: Open MPI's program, and what is to be observed in which order
- ``mpich``: the same for MPICH

No module here knows an offset, and only the command line imports this package.
"""
