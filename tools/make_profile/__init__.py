"""Makes and checks layout profiles of Open MPI from what a program in a known state shows of itself.

program.py runs tools/calibrate.c, dump.py reads what it left, solver.py finds offsets from sightings, openmpi.py says
what is to be sighted, document.py writes the profile. No module here knows an offset.
"""
