"""All are workers: each waits for a task from anybody, and nobody hands out any."""

from hang import MPI, ready, world

ready()
task = bytearray(8)
world.Recv([task, MPI.BYTE], source=MPI.ANY_SOURCE, tag=1)
