"""Who waits for whom among those who are stuck: the strongly connected parts of that graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqs_dll.verdict.graph import circles
from mqs_dll.verdict.needs import Need


class Parts:
    """The parts in which each waits for all others, if only by way of others.

    A set of peers that several processes wait for is one node between them: 10,000 receives from any source are
    10,000 arrows to it, and 10,000 from it.
    """

    def __init__(self, unmet: Mapping[int, Sequence[Need]], processes: int) -> None:
        """Find them.

        Args:
            unmet: by stuck process, its needs that can't be met.
            processes: how many the job has.
        """
        self._unmet = unmet
        self._processes = processes
        self._groups: dict[tuple[int | None, ...], int] = {}
        self._members: list[list[int]] = []
        self.of_process: dict[int, int] = {}
        """By stuck process, the number of its part."""
        self.all: list[list[int]] = []
        """The processes of each part, ascending."""
        for part in circles(sorted(unmet), self._successors):
            places = sorted(node for node in part if node >= 0)
            self.of_process.update(dict.fromkeys(places, len(self.all)))
            self.all.append(places)

    def together(self, one: int, other: int) -> bool:
        """Tell whether two processes wait for each other, if only by way of others."""
        number = self.of_process.get(one)
        return number is not None and number == self.of_process.get(other)

    def _successors(self, node: int) -> Sequence[int]:
        if node < 0:
            return self._members[-1 - node]
        found: list[int] = []
        for need in self._unmet[node]:
            if len(need.peers) == 1:
                found.extend(peer for peer in need.peers if peer is not None and peer in self._unmet)
            else:
                found.append(self._group(need.peers))
        return found

    def _group(self, peers: tuple[int | None, ...]) -> int:
        if peers not in self._groups:
            self._groups[peers] = -1 - len(self._members)
            candidates = peers if peers else range(self._processes)
            self._members.append([peer for peer in candidates if peer is not None and peer in self._unmet])
        return self._groups[peers]
