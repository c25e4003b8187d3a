"""Libraries that move messages for MPIs, and know nothing of them: from a worker or an endpoint to what it holds.

``ucx``: UCX's worker. An MPI's adapter finds the worker, and reads the bits of tags into communicators, ranks and tags.
"""
