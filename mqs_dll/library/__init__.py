"""All that runs inside libmqs.so: needs cffi alone, and reads a process through a debugger's callbacks.

- ``_glue``: carries a debugger's calls within a process: the one module that touches the embedded ffi
- ``helper``: carries them to a process of its own, in which any Python from 3.10 on will do
- ``helper_start``: what csrc/helper.c starts there
- ``service``: what answers a debugger's calls: sessions by their tokens, C structs as bytes
- ``session``: the life cycle behind every call
- ``mpi``: an adapter for each family of MPIs
- ``fabric``: what UCX and libfabric hold, whatever MPI they work for
- ``layouts``: where the members of structs lie, and how we know
- ``memory``: reads of the target: few, large, bounded; they, and what walkers make of them, are cached for one
  sweep, and for the next one where nothing has changed
- ``bounds``: what one call may do at most, whatever lies in the target: steps, fetches, bytes, objects, seconds
"""
