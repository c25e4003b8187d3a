"""Circles of processes that are stuck: who is in them, and who needs whom."""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.parts import Parts
from mqs_dll.verdict.results import Mode


class Circles:
    """The circles of a job, proved and suspected ones together."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._stuck = analysis.proved.stuck | analysis.suspected.stuck
        self._never = self._stuck | analysis.waits.gone
        self._outside: dict[tuple[int | None, ...], bool] = {}
        unmet = {place: analysis.unmet(place) for place in self._stuck}
        self.parts = Parts(unmet, len(analysis.job.processes))

    def circles(self) -> list[list[int]]:
        """Return the processes of each part in which each waits for others of the same part."""
        return [part for part in self.parts.all if len(part) > 1]

    def leads_out(self, part: Sequence[int]) -> bool:
        """Tell whether some process of a part waits for one that isn't stuck, and may come."""
        return any(self._leads_out(need.peers) for place in part for need in self._analysis.unmet(place))

    def _leads_out(self, peers: tuple[int | None, ...]) -> bool:
        if peers not in self._outside:
            candidates = peers if peers else range(len(self._analysis.job.processes))
            self._outside[peers] = any(peer not in self._never for peer in candidates)
        return self._outside[peers]

    def single_peers(self, place: int) -> list[int]:
        """Return the stuck processes without which a process can't go on."""
        return [need.peers[0] for need in self.firm(place) if need.peers[0] is not None]

    def firm(self, place: int) -> list[Need]:
        """Return the unmet needs of a process that one stuck peer alone could end, and without which it can't go on."""
        threads = self._analysis.waits.of_process[place].threads
        if len(threads) != 1:
            return []
        thread = threads[0]
        firm = {*thread.also}
        if len(thread.needs) == 1 or (thread.sure and thread.mode is Mode.ALL):
            firm |= {*thread.needs}
        return [
            need
            for need in self._analysis.unmet(place)
            if need in firm and len(need.peers) == 1 and need.peers[0] in self._stuck
        ]
