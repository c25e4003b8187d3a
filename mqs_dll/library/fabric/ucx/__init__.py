"""UCX: what one worker holds, whatever MPI it works for.

- ``views``: the members that are read.
- ``version``: which release of UCX a process has.
- ``worker``: a worker, believed once all that it shows of itself fits together.
- ``matching``: receives that wait, and messages that wait for one.
- ``pool``: the requests in use, and what each of them is.
"""
