"""What could not be read, and what to do about it: the same reason once for all processes that have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from mqs_dll.contract.escape import printable, visible
from mqs_dll.contract.names import called
from mqs_dll.job.facts import without_node
from mqs_dll.job.node_names import nodes_of, several
from mqs_dll.job.records import Job, JobProcess, RankState
from mqs_dll.job.snapshot import QUEUES, CommunicatorSnapshot, Hidden, QueueSnapshot
from mqs_dll.report.names import name_many
from mqs_dll.report.terminal import indented

_MAX_OBSTACLES = 12
_MAX_COMMUNICATORS = 3


class _Obstacle(NamedTuple):
    """Something that is in the way of seeing a part of some processes."""

    part: str
    """Of the process; empty where its reason says that."""
    why: str
    remedy: str


class _Affected(NamedTuple):
    processes: list[int]
    communicators: dict[str, None]
    """Their names in the order in which they were met."""


def parts(job: Job) -> Iterator[RenderableType]:
    """Yield what could not be read, with the remedy; nothing where all could be."""
    found = list(_merged(job).items())
    if not found:
        return
    yield Text("\nWhat could not be read", style="bold")
    for obstacle, affected in found[:_MAX_OBSTACLES]:
        yield indented(Text(_sentence(job, obstacle, affected), style="yellow"))
        if obstacle.remedy and obstacle.remedy not in obstacle.why:
            yield indented(Text(visible(obstacle.remedy), style="cyan"), 4)
    if len(found) > _MAX_OBSTACLES:
        yield indented(Text(f"and {len(found) - _MAX_OBSTACLES} more (--json has them all)"))


def _sentence(job: Job, obstacle: _Obstacle, affected: _Affected) -> str:
    one = len(affected.processes) == 1
    names = list(affected.communicators)
    more = f" and {len(names) - _MAX_COMMUNICATORS} more" if len(names) > _MAX_COMMUNICATORS else ""
    on = f" on {', '.join(names[:_MAX_COMMUNICATORS])}{more}" if names else ""
    ranks = name_many(job, affected.processes)
    what = f"{obstacle.part}{on}: " if obstacle.part else ""
    where = f" on {nodes_of(job, affected.processes)}" if several(job) and nodes_of(job, affected.processes) else ""
    return visible(f"{'rank' if one else 'ranks'} {ranks}{where}: {what}{obstacle.why or 'no reason is known'}")


def _merged(job: Job) -> dict[_Obstacle, _Affected]:
    merged: dict[_Obstacle, _Affected] = {}
    for index, process in enumerate(job.processes):
        for obstacle, communicator in _obstacles(process):
            affected = merged.setdefault(obstacle, _Affected([], {}))
            if affected.processes[-1:] != [index]:
                affected.processes.append(index)
            if communicator:
                affected.communicators.setdefault(communicator)
    return merged


def _obstacles(process: JobProcess) -> Iterator[tuple[_Obstacle, str]]:
    """Yield what is in the way, and on which communicator."""
    if process.state is not RankState.READ or process.why:
        part = "" if process.why else process.state.value
        yield _Obstacle(part, _without_numbers(process), process.remedy), ""
    for sample in process.samples[-1:]:
        if isinstance(sample.stacks, Hidden):
            yield _Obstacle("call stack", sample.stacks.reason, sample.stacks.remedy), ""
        for communicator in sample.snapshot.communicators:
            yield from _hidden_in(communicator)


def _without_numbers(process: JobProcess) -> str:
    """Return why a process could not be read, in words that are the same for all processes with the same reason."""
    number, pid = rf"rank {process.rank}\b", rf"process {process.pid}\b"
    return re.sub(rf"{number} \({pid}\)|{number}|{pid}", "it", without_node(process))


def _hidden_in(communicator: CommunicatorSnapshot) -> Iterator[tuple[_Obstacle, str]]:
    obstacles = [obstacle for queue in communicator.queues if (obstacle := _of_queue(queue)) is not None]
    if isinstance(communicator.group, Hidden):
        obstacles.insert(0, _Obstacle("group", communicator.group.reason, communicator.group.remedy))
    for obstacle in obstacles:
        yield obstacle, f'"{printable(called(communicator.label))}"'


def _of_queue(queue: QueueSnapshot) -> _Obstacle | None:
    if queue.hidden is None and queue.broken is None:
        return None
    title = QUEUES[queue.queue]
    if queue.hidden is not None:
        return _Obstacle(title, queue.hidden.reason, queue.hidden.remedy)
    why = queue.broken or ""
    return _Obstacle(f"{title}, the list breaks off after {len(queue.operations)}", why, queue.remedy)
