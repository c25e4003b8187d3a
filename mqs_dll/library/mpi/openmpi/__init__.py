"""Open MPI 4.1, 5.0 and 6.0.

- ``adapter``: ties all together; here a reader begins
- ``identity``: which release it is, whether it is up, and which layouts hold
- ``symbols``: exported variables, and the descriptors of classes; ``views``: the members that are read
- ``containers``: lists, tables, pools of objects, blocks of the heap
- ``process_context``: Open MPI in one process, which every walker reads from
- ``communicators``: which there are; ``groups``: their processes; ``processes``: what
  transports keep of each; ``lineage``: what those without a name come from;
  ``internal``: those that Open MPI keeps for itself
- ``pml``: which point-to-point layer a process uses, and what hides there
- ``ob1``: pml/ob1; ``ob1_matching``: its lists of receives and messages; ``ob1_unexpected``: messages without a receive
- ``cm``: pml/cm, by its requests alone; ``cm_views``: its members, and mtl/ofi's
- ``mtl_ofi``: mtl/ofi below it; ``cm_mtl_ofi``: both, by what libfabric holds
- ``ucx``: pml/ucx, by what UCX holds
- ``tag_codecs``: what the tags of UCX and libfabric carry
- ``requests``: the pools of requests; ``datatypes``: names and sizes; ``tags``: internal tags; ``describe``: in words
- ``windows``: one-sided windows and their epochs
"""

from __future__ import annotations

from mqs_dll.library.mpi.openmpi.adapter import OpenMpiAdapter

__all__ = ["OpenMpiAdapter"]
