"""Who has entered a collective call, and who has not: in one that nobody leaves before all have, all wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from mqs_dll.job.calls import Blocks, what_ends
from mqs_dll.job.shared import Shared
from mqs_dll.verdict.communicators import JobCommunicators
from mqs_dll.verdict.evidence import Evidence, unknown_if
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.results import WaitKind
from mqs_dll.verdict.states import ProcessWait, ThreadWait

MAX_CANDIDATES = 16
"""Communicators that a call of which nothing else is known may be on; with more it proves nothing."""


def add_missing(
    communicators: JobCommunicators, waits: Sequence[ProcessWait], progressed_in: Sequence[frozenset[str]]
) -> None:
    """Let each such call wait for all members of its communicator that are not in the same call.

    Where it isn't known which communicator a call is on, it waits for the members of one of the candidates. Whoever is
    in such a call counts as inside on all candidates, which proves less. A process that isn't in the call may have left
    it: then all have entered, and those inside wait for what a member has still to pass on that has progressed in the
    call since the last sample, or for a message that is on its way.
    """
    calls = _Calls(communicators, waits, progressed_in)
    for thread in calls.threads:
        if thread.communicator is not None:
            need = calls.need(thread.communicator, thread)
            if need is not None:
                thread.also.append(need)
            continue
        if len(thread.candidates) > MAX_CANDIDATES:
            continue
        needs = [calls.need(candidate, thread) for candidate in thread.candidates]
        if None not in needs:
            thread.either.extend(need for need in needs if need is not None)


class _Calls:
    """The collective calls of a job that wait for all."""

    def __init__(
        self, communicators: JobCommunicators, waits: Sequence[ProcessWait], progressed_in: Sequence[frozenset[str]]
    ) -> None:
        self._communicators = communicators
        self._progressed_in = progressed_in
        self._goes_on: dict[tuple[int, str], bool] = {}
        self._coming: set[tuple[int, str]] = set()
        """Calls on a communicator in which somebody's message is here, or under way."""
        self.threads: list[ThreadWait] = []
        self._inside: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        self._missing: dict[tuple[int, str], Shared[int]] = {}
        for process, wait in enumerate(waits):
            for thread in wait.threads:
                if thread.call is not None and what_ends(thread.call) is Blocks.TOGETHER:
                    self.threads.append(thread)
                    for candidate in thread.candidates:
                        self._inside[candidate, thread.call].add(process)
                    if any(need.satisfied is Evidence.YES or need.coming for need in thread.needs):
                        self._coming.update((candidate, thread.call) for candidate in thread.candidates)

    def need(self, communicator: int, thread: ThreadWait) -> Need | None:
        """Return what a call waits for if it is on a communicator; None where nobody is known to be missing."""
        call = thread.call
        facts = self._communicators.all[communicator]
        if call is None or facts.remote_size is not None:
            return None
        key = communicator, call
        if key not in self._missing:
            inside = self._inside[key]
            self._missing[key] = Shared(each for each in facts.members if each is not None and each not in inside)
            members = (each for each in facts.members if each is not None)
            self._goes_on[key] = key in self._coming or any(call in self._progressed_in[each] for each in members)
        missing = self._missing[key]
        if not missing:
            return None
        return Need(
            WaitKind.COLLECTIVE,
            call,
            communicator,
            None,
            missing,
            all_of=True,
            satisfied=unknown_if(self._goes_on[key]),
        )


class Begun:
    """How far each process is in the nonblocking collective operations of each communicator: their tags count them.

    Source: ompi/mca/coll/libnbc of Open MPI 4.1.4, src/mpid/common/sched and src/mpi/coll/transports/gentran of MPICH
    4.3.2.
    """

    def __init__(self, joined: Joined) -> None:
        self._last: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """By communicator and process, the last that its traffic shows."""
        for operations in joined.operations:
            for each in operations:
                number = each.words.nonblocking
                if number is not None and each.sender is not None:
                    last = self._last[joined.communicators.whole(each.communicator)]
                    last[each.sender] = max(last.get(each.sender, 0), number)

    def by(self, communicator: int, number: int) -> set[int]:
        """Return the processes that are known to have started an operation, or a later one.

        One that has started it has traffic of it pending, or something that others wait for: who is waited for, and
        isn't among these, has not started it.
        """
        return {process for process, last in self._last[communicator].items() if last >= number}
