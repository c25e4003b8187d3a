"""A simulator of MPI programs, from the MPI standard (4.1): it runs random ones, and knows what is true of them.

It knows nothing of verdicts. A program runs by a random schedule to some moment, or until nothing moves any more; what
a sampler would read of it then becomes a job's records.

- ``programs``: what programs are made of; ``random_programs``: makes healthy ones, and breaks them
- ``state``: what all ranks and the network hold at one moment; ``matching``: which receive a message ends (3.5)
- ``collectives``: blocking collective calls as the messages of their algorithms
- ``running``: one turn of a thread, in and outside of MPI; ``schedule``: random schedules, and a network with latency
- ``truth``: which ranks some continuation lets go on
- ``sampling``: what a sampler reads of the ranks, as several MPIs keep it
"""
