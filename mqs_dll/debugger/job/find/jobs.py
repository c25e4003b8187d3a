"""From slots to jobs: which ranks have the same launcher, and which of them the same MPI_COMM_WORLD."""

from __future__ import annotations

import os
import socket
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mqs_dll.contract.errors import NoSuchProcessError
from mqs_dll.debugger.access import not_permitted
from mqs_dll.debugger.job.find.elsewhere import claimed_hosts, hosts_of, marks_of, slurm_job
from mqs_dll.debugger.job.find.processes import Processes, is_name_of_daemon
from mqs_dll.debugger.job.find.proctable import ProcDesc, read_proctable
from mqs_dll.debugger.job.find.slots import Slot, find_slots
from mqs_dll.debugger.proc import Stat, read_status, user_name
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.job.records import RankState


@dataclass
class _Group:
    """The slots of one job."""

    above: list[Stat] = field(default_factory=list)
    """The daemons and launchers above them, the nearest first."""
    slots: list[Slot] = field(default_factory=list)
    closed: list[Stat] = field(default_factory=list)
    """What a launcher of ours has started but the kernel doesn't let us read."""
    table: Sequence[ProcDesc] = ()
    """What its launcher has listed for debuggers."""


def all_jobs(processes: Processes) -> list[FoundJob]:
    """Return the jobs of this machine, as far as their processes can be read; the oldest first."""
    groups: dict[Hashable, _Group] = {}
    slots = find_slots(processes)
    heads = {pid: slot.head.pid for slot in slots for pid in slot.members}
    for slot in slots:
        above = _above(processes, slot.head)
        group = groups.setdefault(_job_of(processes, slot, above, heads), _Group())
        group.slots.append(slot)
        group.above.extend(each for each in above if each not in group.above)
    for process, above in _closed(processes, heads):
        group = groups.setdefault(above[-1].pid, _Group(above=above))
        group.closed.append(process)
    of_pid = {pid: group for group in groups.values() for slot in group.slots for pid in slot.members}
    for launcher, table in _other_launchers(processes, groups.values()):
        own = [of_pid[entry.pid] for entry in table if entry.pid in of_pid]
        group = own[0] if own else groups.setdefault(launcher.pid, _Group())  # else they run elsewhere, or have exited
        group.above.append(launcher)
        group.table = group.table or table
    for launcher, group in _distant_launchers(processes, list(groups.values())):
        group.above.append(launcher)
    return [_Builder(processes, group).job() for group in groups.values()]


# ---------------------------------------------------------------- which launcher


def _above(processes: Processes, head: Stat) -> list[Stat]:
    """Return the daemons and launchers above a slot, the nearest first: no launcher above a launcher's own daemon."""
    found: list[Stat] = []
    for ancestor in processes.ancestors(head.pid):
        daemon = processes.is_daemon(ancestor.pid)
        if not (daemon or processes.is_launcher(ancestor.pid)):
            break
        if daemon and any(processes.is_launcher(each.pid) for each in found):
            break
        found.append(ancestor)
    return found


def _job_of(processes: Processes, slot: Slot, above: Sequence[Stat], heads: dict[int, int]) -> Hashable:
    """Return what distinguishes a slot's job from others."""
    world = slot.marker.world if slot.marker else ""
    if not above:
        parent = slot.head.pid if slot.marker is None else slot.head.parent
        return (parent, world.rpartition("@")[0] or world)  # its launcher has ended; PRRTE counts behind the @
    top = above[-1]
    if processes.is_launcher(top.pid):
        return top.pid
    if top.parent in heads:  # a rank that nobody launched starts a daemon when it spawns others
        return (heads[top.parent], "")
    return (top.pid, world) if world else top.pid


def _closed(processes: Processes, heads: dict[int, int]) -> Iterator[tuple[Stat, list[Stat]]]:
    """Yield what launchers have started for this user but the kernel keeps closed, with what is above it."""
    for process in processes:
        above = processes.get(process.parent)
        if above is None or process.pid in heads or not processes.starts_ranks(above.pid):
            continue
        if not processes.starts_ranks(process.pid) and processes.is_closed(process.pid) and _is_ours(process.pid):
            yield process, _above(processes, process)


def _is_ours(pid: int) -> bool:
    try:
        return os.geteuid() in (0, read_status(pid).user)
    except NoSuchProcessError:
        return False


def _other_launchers(processes: Processes, groups: Iterable[_Group]) -> Iterator[tuple[Stat, Sequence[ProcDesc]]]:
    """Yield the launchers that list ranks but have started none of those here: batch systems' daemons did (srun)."""
    known = {each.pid for group in groups for each in group.above}
    for process in sorted(processes, key=lambda each: each.pid):
        if processes.is_launcher(process.pid) and process.pid not in known:
            table = read_proctable(process.pid)
            if table and not any(is_name_of_daemon(entry.program) for entry in table):  # mpiexec has srun start those
                yield process, table


def _distant_launchers(processes: Processes, groups: Sequence[_Group]) -> Iterator[tuple[Stat, _Group]]:
    """Yield the launchers that have had a batch system start the daemons above ranks here, with the groups of these."""
    known = {each.pid for group in groups for each in group.above}
    without = [group for group in groups if not any(processes.is_launcher(each.pid) for each in group.above)]
    marked = [(group, marks) for group in without if (marks := marks_of(processes, group.above, ()))]
    for process in processes if marked else ():
        if process.pid in known or not processes.is_launcher(process.pid) or processes.is_launcher(process.parent):
            continue
        own = marks_of(processes, [process], ())
        yield from ((process, group) for group, marks in marked if not own.isdisjoint(marks))


# ---------------------------------------------------------------- one job


class _Builder:
    """Makes the record of one job."""

    def __init__(self, processes: Processes, group: _Group) -> None:
        self._processes = processes
        self._group = group
        self._host = socket.gethostname()
        self._launchers = [each for each in group.above if processes.is_launcher(each.pid)]

    def job(self) -> FoundJob:
        """Return it."""
        group = self._group
        table = group.table or next((table for each in self._launchers if (table := read_proctable(each.pid))), ())
        places = {entry.pid: rank for rank, entry in enumerate(table) if self._is_here(entry)}
        worlds = _split_worlds(self._processes, group.slots) or [[]]
        ranks = [self._rank(number, slot, places) for number, world in enumerate(worlds) for slot in world]
        ranks += [self._closed_rank(process) for process in group.closed]
        ranks += self._only_in_table(table, {rank.rank for rank in ranks if rank.world == 0})
        alone = [slot.rank for slot in group.slots if _is_alone(self._processes, slot)]
        launcher = next(iter(self._launchers or ([] if alone else group.above)), None)
        title = launcher or next(iter(alone), group.slots[0].rank if group.slots else group.closed[0])
        return FoundJob(
            launcher=launcher.pid if launcher else None,
            title=self._processes.command_line(title.pid),
            user=_user(title.pid),
            started=self._processes.start_time(title.pid),
            host=self._host,
            worlds=tuple(self._world(world, table if number == 0 else ()) for number, world in enumerate(worlds)),
            ranks=tuple(sorted(ranks, key=lambda each: (each.world, each.rank is None, each.rank or 0, each.pid))),
            members=frozenset(
                {each.pid for each in (*group.above, *group.closed)}
                | {rank.pid for rank in ranks if rank.state is None}
                | {pid for slot in group.slots for pid in slot.members}
            ),
            marks=marks_of(self._processes, group.above, [slot.head for slot in group.slots]),
            hosts=tuple(dict.fromkeys((*self._elsewhere(table), *hosts_of(self._processes, group.above)))),
            claimed=claimed_hosts(self._processes, [*group.above, *(slot.head for slot in group.slots)]),
            slurm=self._slurm_job(title),
        )

    def _slurm_job(self, title: Stat) -> str:
        """Return the number of the Slurm job, which a srun that made the job itself doesn't have, but its ranks do."""
        pids = [title.pid, *(slot.head.pid for slot in self._group.slots)]
        return next(filter(None, (slurm_job(self._processes.environment(pid)) for pid in pids)), "")

    def _elsewhere(self, table: Sequence[ProcDesc]) -> Iterator[str]:
        return (entry.host for entry in table if not self._is_here(entry))

    def _world(self, slots: Sequence[Slot], table: Sequence[ProcDesc]) -> FoundWorld:
        markers = [slot.marker for slot in slots if slot.marker]
        size = len(table) or next((marker.size for marker in markers if marker.size), None)
        local = next((marker.local_size for marker in markers if marker.local_size), None)
        key = next((marker.world or ("spawned" if marker.spawned else "") for marker in markers), "")
        if table:
            return FoundWorld(size, all(self._is_here(entry) for entry in table), key, local)
        here = any(marker.size is not None and marker.size == marker.local_size for marker in markers)
        return FoundWorld(size, here, key, local)

    def _rank(self, world: int, slot: Slot, places: Mapping[int, int]) -> FoundRank:
        listed = next((places[pid] for pid in slot.members if pid in places), None)
        rank = slot.marker.rank if slot.marker else listed
        process = slot.rank
        program = self._processes.program(process.pid)
        return FoundRank(world, rank, process.pid, program, self._host, started=process.started)

    def _closed_rank(self, process: Stat) -> FoundRank:
        rank = FoundRank(0, None, process.pid, process.name, self._host, RankState.UNREADABLE)
        try:
            error = not_permitted(process.pid)
        except NoSuchProcessError as gone:
            return replace(rank, state=RankState.EXITED, why=str(gone))
        return replace(rank, why=str(error), remedy=error.help)

    def _only_in_table(self, table: Sequence[ProcDesc], known: set[int | None]) -> Iterator[FoundRank]:
        """Yield the ranks that the launcher has listed but that weren't found among the processes of this machine."""
        for number, entry in enumerate(table):
            if number in known:
                continue
            rank = FoundRank(0, number, entry.pid, entry.program, entry.host)
            process = self._processes.get(entry.pid)
            if not self._is_here(entry):
                yield _elsewhere_rank(rank)
            elif process is None or process.gone:
                why = f"rank {number}{f' (process {entry.pid})' if entry.pid else ''} has exited"
                yield replace(rank, state=RankState.EXITED, why=why)
            else:
                yield replace(rank, started=process.started)

    def _is_here(self, entry: ProcDesc) -> bool:
        above = {each.pid for each in self._group.above}
        below = any(each.pid in above for each in self._processes.ancestors(entry.pid))
        return below or _short(entry.host) in (_short(self._host), "localhost", "")


def _user(pid: int) -> str:
    try:
        return user_name(read_status(pid).user)
    except NoSuchProcessError:
        return ""


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _elsewhere_rank(rank: FoundRank) -> FoundRank:
    where = rank.host or "another host"
    return replace(
        rank,
        state=RankState.UNREADABLE,
        why=f"rank {rank.rank} runs on {where}, and only the processes of this machine were read",
        remedy="without --here `mqs job` reads other machines too (docs/clusters.md)",
    )


# ---------------------------------------------------------------- worlds


def _split_worlds(processes: Processes, slots: Sequence[Slot]) -> list[list[Slot]]:
    """Return the slots of one job by MPI_COMM_WORLD, in order of start, by rank."""
    worlds: dict[Hashable, list[list[Slot]]] = {}
    unknown = []
    for slot in slots:  # the oldest first
        if slot.marker is None and not _is_alone(processes, slot):
            unknown.append(slot)
            continue
        alike = worlds.setdefault(_world_of(processes, slot), [])
        if not alike or _begins_world(alike[-1], slot):
            alike.append([])
        alike[-1].append(slot)
    found = sorted((world for alike in worlds.values() for world in alike), key=lambda world: world[0].head.started)
    if unknown and not found:
        found.append([])
    if unknown:
        found[0].extend(unknown)
    return [_one_of_each(world) for world in found]


def _world_of(processes: Processes, slot: Slot) -> Hashable:
    """Return what ranks of one MPI_COMM_WORLD have in common."""
    marker = slot.marker
    if marker is None:
        return slot.head.pid
    if marker.world or not marker.spawned:
        return marker.world
    return (slot.head.parent, marker.size)  # MPICH before 4.1 starts a proxy for each MPI_Comm_spawn, later ones don't


def _begins_world(world: Sequence[Slot], slot: Slot) -> bool:
    """Return whether a spawned rank is of another MPI_Comm_spawn: hydra starts the ranks of each in their order."""
    last, marker = world[-1].marker, slot.marker
    if last is None or marker is None or marker.world or not marker.spawned:
        return False
    return marker.rank <= last.rank


def _is_alone(processes: Processes, slot: Slot) -> bool:
    """Return whether nobody launched it: the first rank of a job that grew by MPI_Comm_spawn alone, or its only one."""
    return slot.marker is None and not _above(processes, slot.head)


def _one_of_each(world: Iterable[Slot]) -> list[Slot]:
    """Return the slots of a world without those that a daemon of a rank's own has inherited."""
    best: dict[Hashable, Slot] = {}
    for slot in sorted(world, key=lambda each: (not each.uses_mpi, each.head.started, each.head.pid)):
        best.setdefault(slot.marker.rank if slot.marker else (slot.head.pid, None), slot)
    return list(best.values())
