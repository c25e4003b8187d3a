"""MPICH 3.4 to 5.0 and its derivatives.

- ``adapter``: ties all together, and selects the device; here a reader begins
- ``identity``: whether it is up, and which layouts hold; ``release``: which release it is; ``fitting``: layouts of a
  build that no profile is of; ``fitting_shm``: the same of active messages
- ``views``: the members that are read; ``handles``: what a handle tells
- ``pools``: where all objects are
- ``process_context``: MPICH in one process, which every module below reads from
- ``communicators``: which there are; ``contexts``: their numbers; ``groups``: their processes; ``internal``: those that
  MPICH keeps for itself; ``romio``: those of ROMIO's open files
- ``requests``: all requests in use; ``persistent``: what is behind those that are started; ``links``: in which order
- ``datatypes``: names and sizes; ``tags``: tags of collective operations
- ``device``: what all devices have in common; ``operations``: what they say alike
- ``partitioned``: partitioned requests; ``environment``: what the process was told when it started
- ``ch3``: the device ch3
- ``ch4``: the device ch4
- ``intel``: Intel MPI's ch4
- ``windows``: one-sided windows and their epochs
"""

from __future__ import annotations

from mqs_dll.library.mpi.mpich.adapter import MpichAdapter

__all__ = ["MpichAdapter"]
