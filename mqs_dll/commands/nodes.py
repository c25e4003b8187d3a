"""The ranks of a job wherever they run: on this machine, or on several, by options that commands share."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqs_dll.commands import which_library
from mqs_dll.contract.errors import CoreError, MqsError, NodesError, NoSuchProcessError

if TYPE_CHECKING:
    from mqs_dll.debugger.job.nodes.agents import Agents, AgentStart
    from mqs_dll.debugger.job.ranks import Ranks, ReadingOptions
    from mqs_dll.job.found import FoundJob
    from mqs_dll.job.records import Job

WHERE = ("hosts", "hostfile", "here")
"""The names of options that say where to search for a job's ranks."""
WAY = ("slurm", "via", "agent", "send")
"""Of those that say how nodes are reached."""

_SSH, _SRUN = "ssh", "srun"

_MAX_TEXT = 2000
"""Characters of a set of nodes that is printed."""

PATIENCE = 30.0
"""Seconds that a node has for one process, besides the limit for which that may stand."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which nodes a job runs on, and how they are reached."""
    group = parser.add_argument_group("a job on several nodes (docs/clusters.md)")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--hosts", metavar="NODES", help="its nodes, if mqs doesn't find them: n[1-4,7], @group")
    where.add_argument("--hostfile", metavar="FILE", help="its nodes, from a file: the first word of each line")
    where.add_argument("--here", action="store_true", help="read only the ranks of this machine")
    add_way(group)


def add_way(group: argparse._ArgumentGroup) -> None:
    """Add the options that say how nodes are reached."""
    group.add_argument("--slurm", metavar="JOBID", type=_slurm, help="the Slurm job that it runs in")
    group.add_argument(
        "--via", choices=(_SSH, _SRUN), help="how to reach nodes (default: srun in a Slurm job, else ssh)"
    )
    group.add_argument("--agent", metavar="COMMAND", help="what starts `mqs agent` there, if libmqs is at another path")
    group.add_argument("--send", action="store_true", help="copy libmqs to the nodes, if they only have Python")


def _slurm(text: str) -> str:
    if not text.isascii() or not text.replace("_", "").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a Slurm job")
    return text


def are_named(options: argparse.Namespace) -> bool:
    """Return whether options say where a job runs, so that it needs no other name."""
    return bool(options.hosts or options.hostfile or options.slurm)


def find_ranks(options: argparse.Namespace, how: ReadingOptions) -> tuple[FoundJob, Ranks]:
    """Return the job that was asked for, and its ranks on all machines, which the caller closes.

    Args:
        options: of a command with ``what``, which_library's and ours.
        how: how its ranks are to be read.

    Raises:
        MqsError: there is no such job, or it can't be reached.
    """
    asked = _asked_nodes(options)
    local = _find_here(options, bool(asked))
    from mqs_dll.debugger.job.nodes import hosts

    foreign = is_foreign(_process_of(options, local))
    named = asked if asked is not None else list(hosts.named(local.hosts)) if local and not options.here else []
    if local and not foreign and (options.here or all(map(hosts.is_here, named))):
        return local, _here(options, local, how)
    try:
        return _find_on(options, how, named, local)
    except NodesError:
        if local is None or asked is not None or foreign:
            raise
        return local, _here(options, local, how)  # its other ranks are unread, and say what is missing


def are_elsewhere(options: argparse.Namespace, found: FoundJob) -> bool:
    """Return whether a job that was found on this machine has other nodes that may be asked."""
    from mqs_dll.debugger.job.nodes import hosts

    if options.here:
        return False
    asked = _asked_nodes(options)
    known = found.hosts if _is_root() else (*found.hosts, *found.claimed)
    return not all(map(hosts.is_here, hosts.named(known) if asked is None else asked))


def is_foreign(what: int | Path | None) -> bool:
    """Return whether a process or a file is another user's and we are root: then an agent reads it, as that user."""
    if os.geteuid() != 0 or what is None:
        return False
    from mqs_dll.debugger import rights
    from mqs_dll.debugger.proc import owner_of

    try:
        return rights.must_give_up(owner_of(what) if isinstance(what, int) else rights.owner_of_file(what))
    except (OSError, NoSuchProcessError):
        return False  # whoever opens it says what is the matter with it


def ask(options: argparse.Namespace, node: str, message: Mapping[str, Any], kind: type[Any], seconds: float) -> Any:
    """Return what the agent on one node answers to a message within some seconds, as a record of a kind.

    Raises:
        NodesError: it can't be reached, or couldn't do what it was asked.
    """
    from mqs_dll.debugger.job.nodes import hosts

    names = hosts.chosen(node)
    if len(names) != 1:
        raise NodesError(f"{node!r} is no single node")
    return _ask(_start(options, None), names[0], message, kind, seconds)


def ask_here(message: Mapping[str, Any], kind: type[Any], seconds: float, *, dll: str | None = None) -> Any:
    """Return the same of an agent on this machine, which gives up root for what it is asked to read.

    Args:
        message: as ask has it, as are kind and seconds.
        kind: of record.
        seconds: that it has.
        dll: as which_library.opener has it.
    """
    from mqs_dll.debugger.job.nodes import agent
    from mqs_dll.debugger.job.nodes.agents import AgentStart

    own = shlex.join([*agent.command_here(), *_flags(dll)])
    return _ask(AgentStart(own, own), socket.gethostname(), message, kind, seconds)


def _ask(start: AgentStart, node: str, message: Mapping[str, Any], kind: type[Any], seconds: float) -> Any:
    from mqs_dll.debugger.job.nodes import wire
    from mqs_dll.debugger.job.nodes.agents import Agents
    from mqs_dll.debugger.job.ranks import ReadingOptions

    answers: list[Any] = []
    with Agents(ReadingOptions(), start) as agents:
        agents.start([node])
        obstacles = agents.ask({node: message}, seconds, lambda _, answer: answers.append(wire.read(kind, answer)))
    for obstacle in obstacles.values():
        raise NodesError("; ".join(filter(None, (obstacle.why, obstacle.remedy))))
    return answers[0]


def _flags(dll: str | None) -> list[str]:
    return ["--dll", dll] if dll else []


def read_cores(options: argparse.Namespace, on_progress: Callable[[int, int], None] | None) -> Job:
    """Return the job of the core files that were named, wherever they lie.

    Raises:
        MqsError: there are none, or they are of several jobs.
    """
    from mqs_dll.debugger.job import cores
    from mqs_dll.debugger.job.nodes import hosts

    placed = [hosts.of_path(path) for path in options.core]
    open_queues = which_library.opener(options.dll)
    how = cores.HowCores(open_queues, which_library.windows(), options.sysroot, not options.no_stacks)
    here = [path for nodes, path in placed if not nodes]
    there: dict[str, list[str]] = {}
    for nodes, path in placed:
        for node in hosts.chosen(nodes) if nodes else ():
            there.setdefault(node, []).append(path)
    foreign = [path for path in here if any(map(is_foreign, cores.files_of([path])))]
    here = [path for path in here if path not in foreign]
    if foreign:
        there.setdefault(socket.gethostname(), []).extend(str(Path(path).absolute()) for path in foreign)
    read = cores.read_all(here, how, on_progress)
    lost: list[str] = []
    if there:
        from mqs_dll.debugger.job.nodes.agents import Agents
        from mqs_dll.debugger.job.nodes.cores import read_there
        from mqs_dll.debugger.job.ranks import ReadingOptions

        with Agents(ReadingOptions(), _start(options, None)) as agents:
            found = read_there(agents, there, stacks=how.stacks, sysroot=how.sysroot, on_progress=on_progress)
        read, lost = [*read, *found.cores], found.lost
    if not read:
        raise CoreError("; ".join(lost))
    return cores.job_of(read, " ".join(options.core), lost)


def _asked_nodes(options: argparse.Namespace) -> list[str] | None:
    """Return the nodes that the user names; None where he doesn't."""
    from mqs_dll.debugger.job.nodes import hosts

    if options.hosts:
        return hosts.chosen(options.hosts)
    if options.hostfile:
        return hosts.of_file(options.hostfile)
    if options.slurm:
        from mqs_dll.debugger.job.nodes import slurm

        return hosts.of_slurm(slurm.nodes_of(options.slurm))
    return None


def _find_here(options: argparse.Namespace, elsewhere: bool) -> FoundJob | None:
    """Return the job as far as this machine knows it; None where only other machines may."""
    from mqs_dll.debugger.job.find import find_job

    if options.slurm and options.what is None:
        return None
    try:
        found = find_job(options.what)
        return found if elsewhere or options.here else _believed(found)
    except MqsError:
        if isinstance(options.what, int) and is_foreign(options.what):
            return None  # what a launcher has in its memory isn't known yet
        if not elsewhere or isinstance(options.what, int):
            raise
        return None


def _process_of(options: argparse.Namespace, local: FoundJob | None) -> int | None:
    """Return a process of this machine whose owner is the job's; None where none is known."""
    if local is None:
        return options.what if isinstance(options.what, int) else None
    return next((rank.pid for rank in local.ranks if rank.pid and rank.host == local.host), local.launcher)


def _believed(found: FoundJob) -> FoundJob:
    """Return a job with the hosts that may be gone to: as root, those alone that its launcher names."""
    from mqs_dll.debugger.job.nodes import hosts

    if not _is_root():
        return replace(found, hosts=(*found.hosts, *found.claimed))
    known = {hosts.short(name) for name in (*hosts.named(found.hosts), found.host)}
    aside = [name for name in hosts.named(found.claimed) if hosts.short(name) not in known and not hosts.is_here(name)]
    return _without(found, aside, [found.host, *hosts.named(found.hosts)])


def _without(found: FoundJob, aside: Sequence[str], asked: Iterable[str]) -> FoundJob:
    """Return a job that says which nodes were left out, and how to ask them; standard error says it, too."""
    from mqs_dll.job.node_names import fold

    if not aside:
        return found
    why = f"{_short_fold(aside)} not asked: the job's launcher names no such node, and as root mqs asks no others"
    remedy = f"if the job runs there: --hosts {shlex.quote(fold((*asked, *aside)))}"
    print(f"mqs: {why}\n     {remedy}", file=sys.stderr)
    return replace(found, lost=(*found.lost, why), remedy=remedy)


def _is_root() -> bool:
    return os.geteuid() == 0


def _short_fold(names: Sequence[str]) -> str:
    """Return nodes as a set, cut where it is longer than anybody reads."""
    from mqs_dll.job.node_names import fold

    text = fold(names)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(names)} in all)"


def _here(options: argparse.Namespace, found: FoundJob, how: ReadingOptions) -> Ranks:
    from mqs_dll.debugger.job.ranks import Here

    queues = not options.no_queues
    open_queues = which_library.opener(options.dll, queues=queues)
    return Here(found.ranks, open_queues, which_library.windows() if queues else None, how, found.sizes)


def _find_on(
    options: argparse.Namespace, how: ReadingOptions, named: list[str], local: FoundJob | None
) -> tuple[FoundJob, Agents]:
    from mqs_dll.debugger.job.nodes import hosts
    from mqs_dll.debugger.job.nodes.agents import Agents
    from mqs_dll.debugger.job.nodes.wire import Wanted
    from mqs_dll.debugger.proc import owner_of
    from mqs_dll.report.progress import ranks_done

    asked = options.hosts or options.hostfile or options.here
    process = _process_of(options, local)
    follow = not asked and not _is_root()
    wanted = Wanted(
        marks=tuple(sorted(local.marks)) if local else (),
        pids=(process,) if process and not local else (),
        program=options.what if isinstance(options.what, str) else "",
        slurm=options.slurm or "",
        any=options.what is None and local is None and not options.slurm,
        user=owner_of(process).user if process else None,
    )
    if (local or process) and not any(map(hosts.is_here, named)) and (not asked or local is None or local.ranks):
        named = [socket.gethostname(), *named]
    start = _start(options, local)
    agents = Agents(how, start, lambda names: _say_reached(names, start))
    try:
        with ranks_done("nodes found") as on_progress:
            found = agents.find(named, wanted, local=local, follow=follow, on_progress=on_progress)
        if not (asked or follow or options.slurm):
            found = _without(found, agents.left_out, found.nodes)
    except BaseException:
        agents.close()
        raise
    return found, agents


def _say_reached(names: Sequence[str], start: AgentStart) -> None:
    from mqs_dll.debugger.job.nodes import carrier

    by = _SSH if start.engine == carrier.SSH else _SRUN
    print(f"mqs: asking {_short_fold(names)} by {by}", file=sys.stderr, flush=True)


def _start(options: argparse.Namespace, local: FoundJob | None) -> AgentStart:
    from mqs_dll.debugger.job.nodes import agent, archive, carrier
    from mqs_dll.debugger.job.nodes.agents import AgentStart

    flags = _flags(options.dll)
    here = shlex.join([*agent.command_here(), *flags])
    there = shlex.join([*agent.command(), *flags])
    command = f"{options.agent} {shlex.join(flags)}".strip() if options.agent else there
    job = options.slurm or (local.slurm if local else "")
    via = options.via or (_SRUN if job and shutil.which(_SRUN) else _SSH)
    if via == _SRUN and not job:
        raise NodesError("--via srun goes with a job of Slurm's: --slurm JOBID names one")
    data = b""
    if options.send:
        data = archive.packed()
        command = archive.command(len(data), [])
    return AgentStart(command, here, carrier.slurm(job) if via == _SRUN else carrier.SSH, data)
