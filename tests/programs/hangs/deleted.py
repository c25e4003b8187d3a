"""Rank 1 has garbage that waits for rank 0's goodbye when it is collected; rank 0 has said none."""

import gc

from hang import rank, ready, world


class Field:
    """A part of what both compute."""

    def __init__(self) -> None:
        self.neighbor = self

    def __del__(self) -> None:
        """Wait for the other part's goodbye."""
        world.recv(source=0, tag=6)


if rank == 1:
    gc.disable()
    Field()
ready()
gc.collect()
world.barrier()
