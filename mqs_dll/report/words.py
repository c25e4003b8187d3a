"""What a rank does, the tag that it waits for, and how sure it is that it is stuck: words that all reports share."""

from __future__ import annotations

from typing import NamedTuple

from mqs_dll.job.records import Job, JobProcess, RankState
from mqs_dll.verdict.results import Activity, Certainty, Mode, Verdict, Wait, WaitKind

Tag = int | str | None
"""A tag; "any"; "?" where it isn't known; None where there can't be one."""

FROM_CALL = "from the call"
"""Marks a wait that no queue has: the arguments of the MPI call have it."""

MESSAGES = frozenset({WaitKind.RECEIVE, WaitKind.SEND})
_NEEDS = {Mode.ALL: "needs all", Mode.ANY: "needs any"}


class Sure(NamedTuple):
    """What is said of one certainty."""

    stuck: str
    """Of a rank, before what it does; empty where it may go on."""
    state: str
    """Of a rank, in a column of its own."""
    wait: str
    """Of a wait, in a column of its own."""
    meaning: str
    """Of a wait, in a legend."""


SURE: dict[Certainty | None, Sure] = {
    Certainty.PROVED: Sure("stuck", "stuck: proved", "proved: can't end", "can't end any more: proved"),
    Certainty.SUSPECTED: Sure("seems stuck", "seems stuck", "suspected", "seems stuck: suspected"),
    Certainty.NOTED: Sure("", "waits", "may well end", "may well end"),
    None: Sure("", "", "", ""),
}
"""By what a verdict says of ranks and waits, the gravest first."""

GRAVITY = tuple(Certainty)


class RankView(NamedTuple):
    """One process of a job with what a verdict says of it."""

    process_index: int
    process: JobProcess
    activity: Activity
    waits: list[Wait]

    @property
    def unseen(self) -> str:
        """What has become of one that wasn't read: "exited"; empty for one that was."""
        if self.process.starts:
            return self.activity.phrase
        return "" if self.process.state is RankState.READ else self.process.state.value

    @property
    def calls(self) -> list[str]:
        """The call that it is in; where no stack has it, those that made what it waits for."""
        return [self.activity.call] if self.activity.call else list(dict.fromkeys(wait.what for wait in self.waits))

    @property
    def needs(self) -> str:
        """How many of several waits have to end: "needs all", "needs any"; empty where that isn't known."""
        return _NEEDS.get(self.activity.mode, "") if len(self.waits) > 1 else ""

    @property
    def program(self) -> str:
        """The name of what it runs, without directories."""
        return self.process.program.rpartition("/")[2]


def ranks_of(job: Job, verdict: Verdict) -> list[RankView]:
    """Return the processes of a job in its order."""
    waits: list[list[Wait]] = [[] for _ in job.processes]
    for wait in verdict.waits:
        waits[wait.process].append(wait)
    together = zip(job.processes, verdict.activities, waits, strict=True)
    return [RankView(process, *each) for process, each in enumerate(together)]


def tag_of(wait: Wait) -> Tag:
    """Return the tag of a wait."""
    if wait.kind not in MESSAGES:
        return None
    return "any" if wait.any_tag else "?" if wait.tag is None else wait.tag


def tag_words(wait: Wait) -> str:
    """Return the same as text, empty where there can't be a tag."""
    tag = tag_of(wait)
    return "" if tag is None else str(tag)
