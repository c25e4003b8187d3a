"""Rank 2 believes that it has converged: it skips the others' Allreduce, and waits for rank 0's last word."""

from array import array

from hang import rank, ready, world

solver = world.Dup()
solver.Set_name("solver")
residual, total = array("d", [1.0]), array("d", [0.0])
ready()
if rank != 2:
    solver.Allreduce(residual, total)
if rank == 0:
    world.Send(total, dest=2, tag=1)
if rank == 2:
    world.Recv(total, source=0, tag=1)
