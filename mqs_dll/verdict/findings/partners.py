"""Calls that wait for processes beyond their communicator: spawned ones, clients and servers, other groups' leaders.

Their sections of MPI 4.1: 7.6.2 (inter-communicators), 11.8 (spawning), 11.9 (clients and servers).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from mqs_dll.contract.escape import visible
from mqs_dll.job.calls import reaches_beyond
from mqs_dll.job.facts import IS_ALONE
from mqs_dll.job.records import RankState
from mqs_dll.verdict.called import stacks_of
from mqs_dll.verdict.findings.common import Case, are
from mqs_dll.verdict.progress import Motion
from mqs_dll.verdict.results import Cause, Certainty, Finding


class _Partner(NamedTuple):
    """What a call needs beyond its communicator."""

    ends_when: str
    advice: str


_STARTED = "all that it starts have called MPI_Init"
_PARTNERS = {
    "MPI_Comm_spawn": _Partner(
        _STARTED, "Look at what was started: is it an MPI program, and what keeps it from MPI_Init?"
    ),
    "MPI_Comm_spawn_multiple": _Partner(
        _STARTED, "Look at what was started: are these MPI programs, and what keeps them from MPI_Init?"
    ),
    "MPI_Comm_accept": _Partner(
        "a client calls MPI_Comm_connect with its port",
        "Start the client, and compare the port that it was given with this one's.",
    ),
    "MPI_Comm_connect": _Partner(
        "the server calls MPI_Comm_accept on its port",
        "Look whether the server runs, and compare the port that it has opened with this one's.",
    ),
    "MPI_Intercomm_create": _Partner(
        "both leaders are in it with the same peer communicator and tag, each naming the other",
        "Compare the leaders, the peer communicator and the tag on both sides.",
    ),
    "MPI_Intercomm_create_from_groups": _Partner(
        "both groups are in it with the same string tag, each naming the other",
        "Compare the groups, the leaders and the string tags on both sides.",
    ),
    "MPI_Comm_create_from_group": _Partner(
        "all of the group are in it with the same string tag", "Compare the groups and the string tags of all of them."
    ),
}
"""By the calls that reach beyond their communicator (job.calls), large counts aside."""

MAX_LEADERS = 4
"""Processes whose arguments are listed one by one."""

_TOLD = ("remote_leader", "tag")
"""Arguments of MPI_Intercomm_create that a finding lists of its leaders."""


def of_partners(case: Case) -> Iterator[Finding]:
    """Yield who stands in a call that needs others than those of its communicator, all of whom are in it."""
    analysis = case.analysis
    inside: defaultdict[str, list[int]] = defaultdict(list)
    for process, wait in enumerate(analysis.waits.of_process):
        if wait.call is not None and reaches_beyond(wait.call) and analysis.motions[process] is Motion.SAME:
            inside[wait.call].append(process)
    for call, processes in inside.items():
        together = _together(case, processes)
        if together:
            yield _finding(case, call, together)


def _together(case: Case, processes: list[int]) -> list[int]:
    """Return those in a call who have all others there that are known to have to be."""
    everyone: set[int | None] = {*processes, None}  # one that isn't known may be in it, too
    communicators = case.analysis.communicators.all
    is_whole = cache(
        lambda communicator: communicator is None or everyone.issuperset(communicators[communicator].members)
    )
    return [
        process
        for process in processes
        if is_whole(_communicator(case, process)) and _awaited(case, process) <= everyone
    ]


def _communicator(case: Case, process: int) -> int | None:
    """Return the communicator that a process is in a call on, None where it isn't known."""
    threads = case.analysis.waits.of_process[process].threads
    return threads[0].communicator if threads else None


def _awaited(case: Case, process: int) -> set[int | None]:
    """Return whose messages a process surely waits for in its call: a leader's, say; none where nothing is known."""
    needs = case.analysis.unmet(process)
    return {need.peers[0] for need in needs if need.pending is not None and len(need.peers) == 1}


def _finding(case: Case, call: str, processes: list[int]) -> Finding:
    names, partner = case.names, _PARTNERS[call.removesuffix("_c")]
    said = _started(case) if partner.ends_when is _STARTED else _leaders(case, call, processes)
    sentence = (
        f"{names.ranks(processes)} {are(processes)} in {call}{names.at(processes)}, which ends when "
        f"{partner.ends_when}{said}."
    )
    certainty = case.certainty(processes) if call == "MPI_Intercomm_create" else Certainty.SUSPECTED
    return case.finding(Cause.PARTNER, certainty, sentence, partner.advice, processes, ends=case.unmet(processes))


def _started(case: Case) -> str:
    """Return ": rank 0 of world 1 (sleep) has not", for those that are not known to have called MPI_Init."""
    processes = case.analysis.job.processes
    before = (RankState.NOT_INITIALIZED, RankState.UNREADABLE)
    indices = [process for process, each in enumerate(processes) if each.world and each.pid and each.state in before]
    if not indices:
        return ""
    programs = ", ".join(dict.fromkeys(visible(processes[process].program.rpartition("/")[2]) for process in indices))
    return f": {case.names.ranks(indices)} ({programs}) {'has' if len(indices) == 1 else 'have'} not"


def _leaders(case: Case, call: str, processes: list[int]) -> str:
    """Return ": rank 0 has remote_leader 1, tag 0, rank 1 has remote_leader 0, tag 1" of those that are known."""
    given = []
    for process in processes if call == "MPI_Intercomm_create" else ():
        stack = next((each for each in stacks_of(case.analysis.job.processes[process]) if each.call == call), None)
        known = [(name, stack.argument(name)) for name in _TOLD] if stack is not None else []
        values = ", ".join(f"{name} {each.called or each.value}" for name, each in known if each is not None)
        if values:
            given.append(f"{case.names.ranks([process])} has {values}")
    return f": {'; '.join(given)}" if 1 < len(given) <= MAX_LEADERS else ""


def of_launchers(case: Case) -> Iterator[Finding]:
    """Yield where one launcher's processes each have an MPI_COMM_WORLD of their own: it is another MPI's."""
    job = case.analysis.job
    alone: defaultdict[int, list[int]] = defaultdict(list)
    for index, process in enumerate(job.processes):
        if IS_ALONE in process.why or (process.samples and job.sizes[process.world] == 1):
            alone[process.world].append(index)
    for processes in alone.values():
        if len(processes) < 2:
            continue
        stuck = [index for index in processes if case.analysis.certainty(index) is not None]
        sentence = (
            f"Each of {len(processes)} processes that one launcher started has an MPI_COMM_WORLD of its own, of 1: it "
            "is not the launcher of their MPI, and they don't know of each other."
        )
        mpi = job.mpi.partition(",")[0]
        advice = f"Start them with the mpiexec of their MPI{f', {mpi}' if mpi else ''}."
        certainty = case.certainty(stuck) if stuck else Certainty.NOTED
        yield case.finding(Cause.LAUNCHER, certainty, sentence, advice, processes, ends=case.unmet(stuck))
