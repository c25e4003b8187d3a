"""Nothing is wrong: all ranks compute, and nothing is pending."""

from hang import ready, world

world.Barrier()
ready()
total = 0.0
while True:
    total += 1.0
