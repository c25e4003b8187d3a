"""Rank 1 waits for tag 7777 from rank 2 on "halo exchange", but rank 2 sends 7776, and then waits for an answer."""

from hang import MPI, rank, ready, world

halo = world.Dup()
halo.Set_name("halo exchange")
cells, answer = bytearray(100), bytearray(1)
if rank == 2:
    halo.Send([cells, MPI.BYTE], dest=1, tag=7776)
ready()
if rank == 1:
    halo.Recv([cells, MPI.BYTE], source=2, tag=7777)
    halo.Send([answer, MPI.BYTE], dest=2, tag=7778)
elif rank == 2:
    halo.Recv([answer, MPI.BYTE], source=1, tag=7778)
world.Barrier()
