"""Intel MPI: a ch4 of 3.4a2 that Intel has changed, whose shared memory keeps receives and messages in requests.

- ``device``: what is shown of a request; here a reader begins
- ``messages``: what a request is, and what it asked for
- ``traffic``: which request is on which queue
- ``ofi``: what libfabric holds of messages

No sources are public: what is said here holds in processes of Intel MPI 2021.19; the names of members, and most of
their meaning, are those of src/mpid/ch4 of 3.4a2.
"""

from __future__ import annotations

from mqs_dll.library.mpi.mpich.intel.device import Intel

__all__ = ["Intel"]
