"""What the agents of several nodes have found, as one job.

Each agent numbers the MPI_COMM_WORLDs of its node in its own order, and two nodes may use one PID: ranks are
distinguished by their world's key and their node. Whoever has found a rank among its processes knows more of it than
the launcher's table does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mqs_dll.debugger.job.nodes.hosts import short
from mqs_dll.debugger.job.nodes.wire import NodePart
from mqs_dll.job.facts import Obstacle
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.job.node_names import fold
from mqs_dll.job.records import RankState

_NAME = "\0"
"""Stands for a node's name in a reason that several have."""


@dataclass
class Answer:
    """What became of one node that was asked for the job's ranks."""

    parts: Sequence[NodePart] = ()
    gone: frozenset[int] = frozenset()
    """PIDs of the launcher's table that aren't there any more."""
    lost: Obstacle | None = None
    """Why it didn't answer."""


@dataclass
class _World:
    key: str
    size: int | None = None
    local: int = 0
    """Ranks that were started on the nodes that answered, as their environment says."""
    ranks: dict[tuple[str, int], FoundRank] = field(default_factory=dict)
    """What agents have found among their processes, by node and PID."""
    table: dict[int, FoundRank] = field(default_factory=dict)
    """What a launcher has listed, by rank."""


def merged(answers: Mapping[str, Answer], host: str, local: FoundJob | None) -> FoundJob:
    """Return one job.

    Args:
        answers: by the node's name; one at least has found something.
        host: this machine's name.
        local: what was found on this machine, where it was asked first.
    """
    worlds: dict[str, _World] = {}
    for node, answer in answers.items():
        for part in answer.parts:
            _take(worlds, node, part)
    ordered = sorted(worlds.values(), key=lambda each: (each.key.startswith("spawned"), len(each.key), each.key))
    ranks = [
        replace(rank, world=number) for number, world in enumerate(ordered) for rank in _ranks(world, answers, local)
    ]
    lost = [answer.lost for answer in answers.values() if answer.lost]
    parts = [part for answer in answers.values() for part in answer.parts]
    first = min(parts, key=lambda part: (part.launcher is None, part.started))  # daemons were started after it
    return FoundJob(
        launcher=first.launcher if first.host == host else None,
        title=first.title,
        user=first.user,
        started=first.started,
        host=host,
        worlds=tuple(_world(world, answers) for world in ordered) or (FoundWorld(None, False),),
        ranks=tuple(sorted(ranks, key=lambda each: (each.world, each.rank is None, each.rank or 0, each.host))),
        members=local.members if local else frozenset(),
        nodes=tuple(answers),
        lost=(*(local.lost if local else ()), *lost_nodes(answers)),
        remedy=next((obstacle.remedy for obstacle in lost if obstacle.remedy), local.remedy if local else ""),
    )


def lost_nodes(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yield sentences on the nodes that didn't answer, one for all with the same reason."""
    alike: dict[str, list[str]] = {}
    for node, answer in answers.items():
        if answer.lost:
            reason = re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", _NAME, answer.lost.why)
            alike.setdefault(reason, []).append(node)
    for reason, nodes in alike.items():
        yield reason.replace(_NAME, fold(nodes))


def _take(worlds: dict[str, _World], node: str, part: NodePart) -> None:
    """Take in what one node has found."""
    seen: dict[str, int] = {}
    numbered = []
    for found in part.worlds:
        count = seen[found.key] = seen.get(found.key, 0) + 1
        key = found.key if count == 1 else f"{found.key} {count}"
        world = worlds.setdefault(key, _World(key))
        world.size = world.size or found.size
        world.local += found.local or 0
        numbered.append(world)
    for rank in part.ranks:
        if not 0 <= rank.world < len(numbered):
            continue
        world = numbered[rank.world]
        if rank.host == part.host:
            world.ranks[node, rank.pid] = replace(rank, host=node)
        elif rank.rank is not None:
            world.table.setdefault(rank.rank, rank)


def _ranks(world: _World, answers: Mapping[str, Answer], local: FoundJob | None) -> Iterable[FoundRank]:
    """Yield the ranks of a world: those that were found, and of the others what their launcher says."""
    nodes = {short(node): node for node in answers}
    listed = {rank.rank: rank for rank in local.ranks if rank.pid and rank.world == 0} if local else {}
    known = set()
    for (node, pid), rank in world.ranks.items():
        entry = listed.get(rank.rank) if len(listed) > 1 and rank.rank in world.table else None
        if entry is not None and short(entry.host) != short(node) and short(entry.host) in nodes:
            why = (
                f"process {pid} on {node} says that it is rank {rank.rank}, which its launcher started on {entry.host}"
            )
            yield replace(rank, rank=None, state=RankState.UNREADABLE, why=why)
            continue
        known.add(rank.rank)
        yield rank
    for number, entry in world.table.items():
        if number not in known:
            node = nodes.get(short(entry.host), entry.host)
            obstacle = _unseen(entry, node, answers.get(node))
            yield replace(entry, host=node, state=obstacle.state, why=obstacle.why, remedy=obstacle.remedy)


def _unseen(rank: FoundRank, node: str, answer: Answer | None) -> Obstacle:
    """Return what is in the way of reading a rank that only its launcher's table has."""
    if answer is None:
        return Obstacle(
            RankState.UNREADABLE, f"rank {rank.rank} runs on {node}, which wasn't asked", "name it by --hosts"
        )
    if answer.lost:
        return answer.lost
    if rank.pid in answer.gone:
        return Obstacle(RankState.EXITED, f"rank {rank.rank} was started on {node} and has exited", "")
    return Obstacle(RankState.UNREADABLE, f"process {rank.pid} on {node} isn't known as rank {rank.rank}", "")


def _world(world: _World, answers: Mapping[str, Answer]) -> FoundWorld:
    """Return a world, and whether all of it was started on nodes that answered."""
    size = world.size or len(world.table) or None
    reached = {short(node) for node, answer in answers.items() if not answer.lost}
    listed = bool(world.table) and len({rank.rank for rank in world.ranks.values()} | world.table.keys()) == size
    here = (listed and all(short(rank.host) in reached for rank in world.table.values())) or world.local == size
    return FoundWorld(size, bool(here), world.key)
