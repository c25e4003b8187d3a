"""Does decoding a group take time in proportion to its processes? Open MPI's four ways to store one, in made-up memory.

``python -m benchmarks.groups`` prints for each the seconds of a million processes, and how many times as long they take
for one as a hundred thousand do: about 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mqs_dll.library.mpi.openmpi.groups import Groups
from tests.support.made_up_groups import CHILD, bitmap, groups_of, ranges, strided

FEW, MANY = 100_000, 1_000_000

WAYS: dict[str, Callable[[int], Groups]] = {
    "dense": lambda size: groups_of(size, 0, size, b""),
    "strided": lambda size: strided(size, 0, 1),
    "ranges": lambda size: ranges(size, [(rank, 1) for rank in range(size)]),
    "bitmap": lambda size: bitmap(size, range(size)),
}


def measure(groups: Groups) -> float:
    """Return the seconds of processor time that the ranks of the group take."""
    begin = time.process_time()
    groups.world_ranks(CHILD)
    return time.process_time() - begin


def main() -> None:
    """Print a line for each way."""
    for name, make in WAYS.items():
        few, many = measure(make(FEW)), measure(make(MANY))
        print(f"{name:8} {many:5.2f} s, {many / few / (MANY // FEW):4.2f} times as long for each process")


if __name__ == "__main__":
    main()
