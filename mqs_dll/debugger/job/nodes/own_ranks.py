"""What an agent does with the ranks of its node for `mqs run`: it compares their memory, and ends them with the job.

Between two looks no rank is open: one that is takes 8 MB. None is ever stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from mqs_dll.debugger.collect import OpenQueues
from mqs_dll.debugger.job.ending import Left
from mqs_dll.debugger.job.footprint import BETWEEN_LIVE, LIVE_SAMPLES, Watched, digest_of
from mqs_dll.debugger.job.nodes.wire import Compared, Looked
from mqs_dll.debugger.job.ranks import Here, ReadingOptions
from mqs_dll.job.found import FoundRank


class OwnRanks:
    """The ranks of one node, while a job runs."""

    def __init__(self, open_queues: OpenQueues) -> None:
        """Initialize; nothing is read yet. The argument is serve's."""
        self._open_queues = open_queues
        self._watched = Watched()
        self._left = Left(())

    def look(self, ranks: Sequence[FoundRank]) -> Looked:
        """Read ranks without stopping them; where their queues are as they were, ignore what else has changed."""
        with Here(ranks, self._open_queues, None, ReadingOptions(stop=False, stacks=False)) as here:
            for left in reversed(range(LIVE_SAMPLES)):
                here.open()
                here.read()
                time.sleep(BETWEEN_LIVE if left else 0.0)
            queues, footprints = digest_of(here.processes(0.0)), here.footprints()
        return Looked(len(footprints), self._watched.looked(queues, footprints, found=bool(footprints)))

    def compare(self) -> Compared:
        """Compare their memory with what it was."""
        changed = self._watched.changed()
        return Compared(changed, len(self._watched))

    def mark(self, ranks: Iterable[FoundRank]) -> None:
        """Note which processes are the job's here: only these are ended."""
        self._left = Left((rank.pid, rank.started) for rank in ranks if rank.started is not None)

    def end(self) -> int:
        """End these, once their launcher had time to; return how many are left."""
        return self._left.end()
