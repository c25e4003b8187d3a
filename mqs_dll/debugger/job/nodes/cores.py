"""Core files that lie on nodes, as the head has them: agents read them there, one at a time, all nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from mqs_dll.debugger.job.nodes import wire
from mqs_dll.debugger.job.nodes.agents import Agents
from mqs_dll.debugger.job.worlds import RankRead
from mqs_dll.job.codec import DamagedError
from mqs_dll.job.facts import MAX_RANKS

_LIST = 60.0
READ = 600.0
"""Seconds for the names of a node's core files, and for one of them: some are as large as the memory."""

_MAX_FILES = 1 << 17
_END_OF_TIME = 1e11
"""Seconds since the epoch: beyond, there is no date."""


class There(NamedTuple):
    """What the core files on nodes contain."""

    cores: list[RankRead]
    lost: list[str]
    """Sentences: what couldn't be read, and why."""


def read_there(
    agents: Agents,
    patterns: Mapping[str, Sequence[str]],
    *,
    stacks: bool = True,
    sysroot: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> There:
    """Read core files on nodes.

    Args:
        agents: none is started yet.
        patterns: by node, as cores.read_cores has paths.
        stacks: whether to follow the call stacks.
        sysroot: where their programs and libraries lie on their node.
        on_progress: called before each round with the number of those that are done, and of all.
    """
    files: dict[str, list[str]] = {}
    jobs = wire.Jobs()
    cores: list[RankRead] = []
    asked: dict[str, str] = {}

    def take_names(node: str, answer: Any) -> None:
        files[node] = _names(answer)

    def take_core(node: str, answer: Any) -> None:
        cores.append(_core(jobs, node, asked[node], answer))

    agents.start(patterns)
    lost = agents.ask(
        {node: {"do": "list_cores", "paths": list(paths)} for node, paths in patterns.items()}, _LIST, take_names
    )
    why = [obstacle.why for obstacle in lost.values()]
    total = sum(map(len, files.values()))
    how = {"do": "read_core", "stacks": stacks, "sysroot": sysroot and str(sysroot)}
    while any(files.values()):
        if on_progress:
            on_progress(total - sum(map(len, files.values())), total)
        asked = {node: names.pop(0) for node, names in files.items() if names}
        refused = agents.ask({node: {**how, "path": path} for node, path in asked.items()}, READ, take_core)
        why += [f"{node}:{asked[node]}: {obstacle.why}" for node, obstacle in refused.items()]
    return There(cores, list(dict.fromkeys(why)))


def _names(answer: Any) -> list[str]:
    if type(answer) is not list or len(answer) > _MAX_FILES or any(type(each) is not str for each in answer):
        raise DamagedError("has no names of core files")
    return answer


def _core(jobs: wire.Jobs, node: str, path: str, answer: Any) -> RankRead:
    """Return what a core file contains, as if it had been read here."""
    if type(answer) is not dict or answer.keys() != {"process", "core"}:
        raise DamagedError("has other parts than a core file has")
    core: wire.Core = wire.read(wire.Core, answer["core"])
    processes = jobs.read(answer["process"], most=1)
    if len(processes) != 1 or len(processes[0].samples) > 1:
        raise DamagedError("has other than one process of a core file")
    if not (0 <= (core.size or 0) <= MAX_RANKS and 0.0 <= core.written < _END_OF_TIME):
        raise DamagedError("has a size or a time that is none")
    process = replace(processes[0], world=0, host=node)
    return RankRead(f"{node}:{path}", process, core.command, core.marker, core.size, core.mpi, core.written)
