"""How reports name processes and communicators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqs_dll.contract.escape import visible
from mqs_dll.contract.names import is_of_owner
from mqs_dll.job.ranges import ranges
from mqs_dll.job.records import Job
from mqs_dll.verdict.results import Verdict, Wait, WaitKind

_WORLD = "MPI_COMM_WORLD"


def name_one(job: Job, process: int) -> str:
    """Return how a process is called: "3", "3 of world 1" of several, "PID 4711" where no rank is known."""
    return name_many(job, (process,))


def name_many(job: Job, processes: Iterable[int]) -> str:
    """Return how processes are called: "[0-3,7]", one alone "3"."""
    by_world: dict[int, list[int]] = {}
    others = []
    for index in processes:
        process = job.processes[index]
        if process.rank is None:
            others.append(process.pid)
        else:
            by_world.setdefault(process.world, []).append(process.rank)
    worlds = len(job.sizes) > 1
    named = [f"{brief_ranges(each)}{f' of world {world}' if worlds else ''}" for world, each in by_world.items()]
    return ", ".join((*named, *([f"PID {brief_ranges(others)}"] if others else [])))


def titled(job: Job, processes: Sequence[int]) -> str:
    """Return "rank 3", "ranks [0-3,7]", or "PID 4711" where no rank is known."""
    name = name_many(job, processes)
    return name if name.startswith("PID") else f"rank {name}" if len(processes) == 1 else f"ranks {name}"


def brief_ranges(ranks: Sequence[int]) -> str:
    """Return ranks as "[0-3,7]", one alone as "3"."""
    return ranges(ranks) if len(ranks) > 1 else str(ranks[0])


class CommunicatorNames:
    """The communicators of a verdict by names that distinguish them, and the ranks that processes have in them."""

    def __init__(self, job: Job, verdict: Verdict) -> None:
        """Look which names several communicators share."""
        self._job = job
        self._facts = verdict.communicators
        self._local = [
            {process: local for local, process in enumerate(facts.members) if process is not None}
            for facts in self._facts
        ]
        ids: dict[str, set[int]] = {}
        for facts in self._facts:
            ids.setdefault(facts.name, set()).add(facts.unique_id)
        self._ambiguous = {name for name, different in ids.items() if len(different) > 1}

    def label(self, wait: Wait) -> str:
        """Return the name of the communicator that a wait is about; with its id where other ones have that name."""
        if wait.window is not None:
            return visible(wait.window)
        if wait.communicator is None:
            return "" if wait.kind is WaitKind.CALL else "not known"
        facts = None if wait.communicator_id is None else self._facts[wait.communicator_id]
        if wait.communicator:
            name = _WORLD if wait.communicator == _WORLD else f"'{visible(wait.communicator)}'"
        else:
            name = f"[{visible(facts.description)}]" if facts and facts.description else "unnamed"
        if facts is not None and not wait.communicator and is_of_owner(facts.description.encode()):
            return visible(facts.description)
        if facts is None or (wait.communicator and wait.communicator not in self._ambiguous):
            return name
        return f"{name} id {facts.unique_id:#x}"

    def ranks_there(
        self, communicator: int | None, processes: Sequence[int], peers: Iterable[tuple[Sequence[int], Iterable[int]]]
    ) -> str:
        """Return the ranks that processes, and those that they wait for, have in a communicator.

        Empty where these are their ranks in MPI_COMM_WORLD, or aren't known.

        Args:
            communicator: its index in the verdict.
            processes: of the processes.
            peers: whom each of them waits for, and their ranks in the communicator where they are known.
        """
        if communicator is None:
            return ""
        own = [rank for process in processes if (rank := self._local[communicator].get(process)) is not None]
        there = sorted({rank for _, ranks in peers for rank in ranks})
        if len(own) < len(processes) or (
            self._are_world_ranks(processes, own) and all(self._are_world_ranks(*each) for each in peers if each[1])
        ):
            return ""
        own_words, wait = brief_ranges(own), "waits" if len(processes) == 1 else "wait"
        if self._facts[communicator].remote is None:
            return f" (there {own_words}{f' {wait} for {brief_ranges(there)}' if there else ''})"
        return f" ({own_words} of its group{f' {wait} for {brief_ranges(there)} of the remote one' if there else ''})"

    def _are_world_ranks(self, processes: Iterable[int], ranks: Iterable[int]) -> bool:
        return sorted(self._job.processes[process].rank or 0 for process in processes) == sorted(ranks)
