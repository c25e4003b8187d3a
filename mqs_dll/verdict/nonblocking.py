"""Which processes have begun which nonblocking collective operation: their tags count them on each communicator.

Source: ompi/mca/coll/libnbc of Open MPI 4.1.4, src/mpid/common/sched and src/mpi/coll/transports/gentran of MPICH
4.3.2.
"""

from __future__ import annotations

from collections import defaultdict

from mqs_dll.verdict.join import Joined


class Begun:
    """How far each process is in the nonblocking collective operations of each communicator."""

    def __init__(self, joined: Joined) -> None:
        self._last: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """By communicator and process, the last that its traffic tells of."""
        for operations in joined.operations:
            for each in operations:
                number = each.words.nonblocking
                if number is not None and each.sender is not None:
                    last = self._last[joined.communicators.whole(each.communicator)]
                    last[each.sender] = max(last.get(each.sender, 0), number)

    def by(self, communicator: int, number: int) -> set[int]:
        """Return the processes that are known to have begun an operation, or a later one.

        One that has begun has traffic of it pending, or something that others wait for: who is waited for, and isn't
        among these, has not begun.
        """
        return {place for place, last in self._last[communicator].items() if last >= number}
