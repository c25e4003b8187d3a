"""Nothing is wrong: ranks never rest. They tell their neighbours how much will come, send it, add up, gather."""

import random
from array import array

from hang import rank, ready, world
from mpi4py import MPI

MOST = 30000

numbers = random.Random(rank)
left, right = (rank - 1) % world.size, (rank + 1) % world.size
ready()
turn = 0
while True:
    turn += 1
    for to, source in ((left, right), (right, left)):
        going, coming = array("i", [numbers.randint(1000, MOST)]), array("i", [0])
        world.Sendrecv([going, MPI.INT], to, 0, [coming, MPI.INT], source, 0)
        theirs = array("d", [0.0]) * coming[0]
        request = world.Irecv([theirs, MPI.DOUBLE], source, 0)
        world.Send([array("d", [rank]) * going[0], MPI.DOUBLE], to, 0)
        request.Wait()
    world.sendrecv({"turn": turn, "text": "x" * numbers.randint(1, MOST)}, right, 5, source=left, recvtag=5)
    world.allreduce(numbers.random())
    world.gather("x" * numbers.randint(1, MOST), root=turn % world.size)
    if rank == 0:
        for _ in range(world.size - 1):
            world.recv(source=MPI.ANY_SOURCE, tag=9)
    else:
        world.send(bytes(numbers.randint(1, MOST)), 0, tag=9)
    sum(number * number for number in range(numbers.randint(1, MOST)))
