"""Two ranks swap Python objects, and both receive first."""

from hang import rank, ready, world

other = 1 - rank
ready()
theirs = world.recv(source=other, tag=5)
world.send({"rank": rank}, dest=other, tag=5)
