"""UCX: what one worker holds, whatever MPI it works for.

``views``: the members that are read. ``releases``: where they lie in each release, and which build it is. ``worker``:
the worker, checked before it is believed. ``matching``: receives that wait, and messages that wait for one. ``pool``:
the requests in use, and what each of them is.
"""
