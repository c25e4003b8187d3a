"""Libraries that move messages for MPIs, and know nothing of them: from a worker or an endpoint to what it holds.

An MPI's adapter finds the worker, and reads the bits of tags into communicators, ranks and tags. The folders:

- ``ucx``: UCX, whose workers match messages for Open MPI's pml/ucx and for MPICH's ch4:ucx.
- ``ofi``: libfabric, whose providers do so for Open MPI's mtl/ofi and for MPICH's ch4:ofi.
"""
