"""UCX: what one worker holds, whatever MPI it works for.

- ``views``: the members that are read.
- ``releases``: where they lie in each release and kind of build.
- ``worker``: a worker, believed once all that it shows of itself fits together.
- ``matching``: receives that wait, and messages that wait for one.
- ``pool``: the requests in use, and what each of them is.
"""
