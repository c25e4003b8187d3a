"""libfabric: what one endpoint holds, whatever MPI it works for.

- ``libfabric``: libfabric in a process: its release, and what is an object of it.
- ``endpoint``: what an endpoint tells, whatever provider it is of.
- ``lists``: its containers; ``buffers``: its pools.
- ``views``: the members that are read.
- ``srx``: the shared receives that several providers match by, sm2 among them.
- ``tcp``: that provider; ``sockets``: that one; ``shm``: that one, and its sends; ``rxm``: that one, and its sends.
- ``providers``: which provider an endpoint is of, believed once all that it shows of itself fits together.
"""
