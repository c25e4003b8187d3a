"""libfabric: what one endpoint holds, whatever MPI it works for.

- ``library``: libfabric in a process: its release, and what is an object of it.
- ``endpoint``: what an endpoint tells, whatever provider it is of.
- ``lists``: its containers; ``buffers``: its pools.
- ``views``: the members that are read; ``releases``: where they lie in each release.
- ``tcp``: that provider; ``sockets``: that one; ``rxm``: that one until 2.0, and its sends.
- ``srx``: what several providers match by, rxm since 2.0 among them; ``shm``: another, and its sends.
- ``providers``: which provider an endpoint is of, believed once all that it shows of itself fits together.
"""
