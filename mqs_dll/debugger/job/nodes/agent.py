"""The agent's side: does on its node what the head says, and lets its ranks go when the head says nothing any more.

Its standard input ends when the head ends, or its link: then it ends, whatever it is doing, and with it the process
that holds its ranks (stop.py). A link that is down goes unnoticed: so an agent whose ranks stand, and which hears
nothing for WATCH seconds, lets them go by itself, and says that it was alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path, PurePath
from typing import Any

import mqs_dll
from mqs_dll.contract.errors import JobError, MqsError, NoSuchProcessError
from mqs_dll.debugger import rights
from mqs_dll.debugger.collect import OpenQueues, ReadFurther
from mqs_dll.debugger.job import cores
from mqs_dll.debugger.job.ending import runs
from mqs_dll.debugger.job.find.elsewhere import slurm_job
from mqs_dll.debugger.job.find.jobs import all_jobs
from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.job.nodes import wire
from mqs_dll.debugger.job.nodes.own_ranks import OwnRanks
from mqs_dll.debugger.job.nodes.wire import NodePart, NodeParts, Wanted
from mqs_dll.debugger.job.ranks import Here, ReadingOptions
from mqs_dll.debugger.proc import Owner, open_file, owner_of
from mqs_dll.job.codec import DamagedError
from mqs_dll.job.found import FoundJob, FoundRank

WATCH = 5.0
"""Seconds without a word for which ranks stand at most."""

_BUFFER = 1 << 16
_ROOT = str(Path(mqs_dll.__file__).parents[1])

More = Mapping[str, Callable[[Mapping[str, Any]], Any]]
"""What else an agent can be asked for, by its name: takes the message, and returns the answer in terms of JSON."""


def serve(
    open_queues: OpenQueues,
    read_further: ReadFurther | None,
    more: More,
    prepare: Callable[[], None] = lambda: None,
    folder: Path | None = None,
) -> None:
    """Do what the standard input says until it ends, and answer on the standard output.

    Args:
        open_queues: as read.read_job has it.
        read_further: as read.read_job has it.
        more: what else can be asked for.
        prepare: as rights.give_up_root has it.
        folder: where this package was unpacked for us alone (archive); it is removed at the end.
    """
    _leave_alone()
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever else prints, prints on standard error
    with Agent(open_queues, read_further, more, prepare) as agent:
        threading.Thread(target=_end_with, args=(0, folder, agent.ends_ranks), daemon=True).start()
        _say(answers, wire.GREETING)
        lines = _Lines(0)
        while (line := lines.next(WATCH if agent.holds else agent.patience)) is not None:
            if line:
                _say(answers, agent.answer(line))
            elif agent.holds:
                agent.let_go()
            else:
                break
    _remove(folder)


def _leave_alone() -> None:
    """Keep nothing of whoever started us but the standard streams: neither its files nor its terminal."""
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    with suppress(OSError):  # of one that leads a session already
        os.setsid()
    with suppress(OSError), open_file("/dev/tty") as terminal:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with(descriptor: int, folder: Path | None, busy: threading.Lock) -> None:
    """End this process when nobody can write to a descriptor any more, and it isn't busy, and remove a folder."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    poll.poll()
    busy.acquire()
    _remove(folder)
    os._exit(0)


def _say(descriptor: int, message: wire.Message) -> None:
    data = b"".join(wire.lines_of(message))
    while data:
        data = data[os.write(descriptor, data) :]


class _Lines:
    """The lines of a descriptor, each as soon as it is there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = b""

    def next(self, seconds: float | None) -> bytes | None:
        """Return the next line; an empty one when there is none within a time, None at the end."""
        end = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._data:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            if not select.select([self._descriptor], [], [], left)[0]:
                return b""
            piece = os.read(self._descriptor, _BUFFER)
            if not piece:
                return None
            self._data += piece
        line, _, self._data = self._data.partition(b"\n")
        return line or b" "


class Agent(ExitStack):
    """What an agent knows between two messages; a context manager that lets go of all ranks at the end."""

    def __init__(
        self,
        open_queues: OpenQueues,
        read_further: ReadFurther | None,
        more: More,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Initialize; nothing is touched yet. The arguments are those of serve."""
        super().__init__()
        self._open_queues = open_queues
        self._look_further = read_further
        self._prepare = prepare
        self._marks: tuple[str, ...] = ()
        self._found: dict[int, FoundRank] = {}
        self._own = OwnRanks(open_queues)
        self._here: Here | None = None
        self._standing = self.enter_context(ExitStack())
        self.holds = False
        """Whether ranks stand still."""
        self.patience: float | None = None
        """Seconds without a word after which it ends, though its link seems to be there."""
        self.ends_ranks = threading.Lock()
        """Held while it ends ranks: its link may end with the launcher, whose allocation that uses (srun)."""
        self._alone = False
        self._acts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "find": self._find,
            "open": self._open,
            "stop": self._stop,
            "read": self._read,
            "keep_alive": lambda message: None,
            "resume": self._resume,
            "read_copies": self._read_copies,
            "report": self._report,
            "watch": self._watch,
            "look": self._look,
            "compare": lambda message: wire.write(self._own.compare()),
            "mark": self._mark,
            "end": self._end,
            "list_cores": self._list_cores,
            "read_core": self._read_core,
            **more,
        }

    def answer(self, line: bytes) -> wire.Message:
        """Return the answer to a line, which is a whole message; what failed as a sentence."""
        what = None
        try:
            message = json.loads(line)
            what = message["do"]
            return {"to": what, "done": self._acts[what](message)}
        except MqsError as error:
            return {"to": what, "failed": str(error), "help": error.help}
        except (DamagedError, LookupError, TypeError, ValueError) as error:
            return {"to": what, "failed": f"it got a message that it doesn't understand: {error!r}", "help": ""}

    def let_go(self) -> None:
        """Let the ranks go: nobody says anything any more."""
        self._alone = True
        self._release()

    def _release(self) -> None:
        self.holds = False
        self._standing.close()

    # ------------------------------------------------------------ the head's messages

    def _find(self, message: Mapping[str, Any]) -> Any:
        wanted: Wanted = wire.read(Wanted, message["wanted"])
        processes = Processes()
        jobs = _jobs(processes, wanted)
        owner = _whose(processes, jobs, wanted) if os.geteuid() == 0 else None
        if owner is not None and rights.must_give_up(owner):
            rights.give_up_root(owner, self._prepare)
            processes = Processes()
            jobs = _jobs(processes, wanted)  # what launchers have in their memory, too
        self._marks = wanted.marks
        self._found = _ranks_here(jobs)
        gone = tuple(pid for pid in wanted.pids if (stat := processes.get(pid)) is None or stat.gone)
        return wire.write(NodeParts(tuple(map(_part, jobs)), gone))

    def _open(self, message: Mapping[str, Any]) -> int:
        if self._here is None:
            how = wire.read(ReadingOptions, message["how"])
            ranks = [self._found[pid] for pid in message["pids"]]
            self._here = self.enter_context(Here(ranks, self._open_queues, self._look_further, how))
        self._here.open(windows=bool(message["windows"]))
        return len(self._found)

    def _stop(self, message: Mapping[str, Any]) -> None:
        self._alone = False
        self._standing.enter_context(self._ranks.stopped())
        self.holds = True

    def _read(self, message: Mapping[str, Any]) -> None:
        self._check_not_alone()
        self._ranks.read()

    def _resume(self, message: Mapping[str, Any]) -> None:
        self._check_not_alone()
        self._release()

    def _read_copies(self, message: Mapping[str, Any]) -> bool:
        return self._ranks.read_copies()

    def _report(self, message: Mapping[str, Any]) -> Any:
        return wire.write_processes(self._ranks.processes(float(message["at"])))

    def _watch(self, message: Mapping[str, Any]) -> None:
        self._ranks.watch(min(float(message["seconds"]), 3600.0))

    def _look(self, message: Mapping[str, Any]) -> Any:
        self.patience = min(float(message["patience"]), 1e6)
        self._found = self._found_again(Wanted(self._marks, tuple(self._found)))
        return wire.write(self._own.look(list(self._found.values())))

    def _mark(self, message: Mapping[str, Any]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Slurm sends it to all of a job whose srun has ended
        self._own.mark(self._found_again(wire.read(Wanted, message["wanted"])).values())

    def _end(self, message: Mapping[str, Any]) -> int:
        with self.ends_ranks:
            return self._own.end()

    def _found_again(self, wanted: Wanted) -> dict[int, FoundRank]:
        """Return the ranks that have the wanted marks, and those of the wanted PIDs that were found and still run."""
        known = [self._found[pid] for pid in wanted.pids if pid in self._found]
        still = [rank for rank in known if rank.started is not None and runs((rank.pid, rank.started))]
        asked = Wanted(marks=wanted.marks, pids=tuple(rank.pid for rank in still))
        return {**{rank.pid: rank for rank in still}, **_ranks_here(_jobs(Processes(), asked))}

    def _list_cores(self, message: Mapping[str, Any]) -> list[str]:
        return [str(path) for path in cores.files_of(message["paths"])]

    def _read_core(self, message: Mapping[str, Any]) -> Any:
        rights.become_owner_of(message["path"], self._prepare)
        sysroot = Path(message["sysroot"]) if message["sysroot"] else None
        how = cores.HowCores(self._open_queues, self._look_further, sysroot, bool(message["stacks"]))
        read = cores.read_core(Path(message["path"]), how)
        core = wire.Core(read.command, read.marker, read.size, read.mpi, read.written)
        return {"process": wire.write_processes([read.process]), "core": wire.write(core)}

    @property
    def _ranks(self) -> Here:
        if self._here is None:
            raise LookupError("nothing is open")
        return self._here

    def _check_not_alone(self) -> None:
        if self._alone:
            self._alone = False
            raise _AloneError(f"heard nothing for {WATCH:g} s while its ranks stood, and let them go")


class _AloneError(MqsError):
    """The agent had to let its ranks go."""

    help = "The link to that node, or the machine that mqs runs on, is slow: sample again."


def _jobs(processes: Processes, wanted: Wanted) -> list[FoundJob]:
    return [job for job in all_jobs(processes) if _is_wanted(processes, job, wanted)]


def _ranks_here(jobs: Iterable[FoundJob]) -> dict[int, FoundRank]:
    """Return the ranks of jobs that run on this machine, by PID."""
    return {rank.pid: rank for job in jobs for rank in job.ranks if rank.pid and rank.host == job.host}


def _whose(processes: Processes, jobs: Iterable[FoundJob], wanted: Wanted) -> Owner | None:
    """Return whose the processes of what is wanted are; None where there are none.

    Raises:
        JobError: they are of several users.
    """
    pids = {pid for job in jobs for pid in _pids(job)} or {pid for pid in wanted.pids if processes.get(pid)}
    owners = set()
    for pid in pids:
        with suppress(NoSuchProcessError):
            owners.add(owner_of(pid))
    if wanted.user is not None:
        owners = {owner for owner in owners if owner.user == wanted.user}
    if len({owner.user for owner in owners}) > 1:
        raise JobError("what is wanted are jobs of several users")
    return next(iter(owners), None)


def _pids(job: FoundJob) -> set[int]:
    """Return the ranks of a job that run on this machine."""
    return {rank.pid for rank in job.ranks if rank.pid and rank.host == job.host}


def _is_wanted(processes: Processes, job: FoundJob, wanted: Wanted) -> bool:
    pids = _pids(job)
    return (
        wanted.any
        or (not job.marks.isdisjoint(wanted.marks) and not _is_another(processes, job, wanted))
        or not job.members.isdisjoint(wanted.pids)
        or (bool(wanted.program) and any(PurePath(rank.program).name == wanted.program for rank in job.ranks))
        or (bool(wanted.slurm) and any(slurm_job(processes.environment(pid)) == wanted.slurm for pid in pids))
    )


def _is_another(processes: Processes, job: FoundJob, wanted: Wanted) -> bool:
    """Return whether a job of the same marks isn't the one that is wanted: its launcher is here, but no wanted process.

    Open MPI makes its marks of the host and the launcher's PID, which is 1 or the like in each container.
    """
    is_here = job.launcher is not None and processes.is_launcher(job.launcher)
    return bool(wanted.pids) and is_here and job.members.isdisjoint(wanted.pids)


def _part(job: FoundJob) -> NodePart:
    marks = tuple(sorted(job.marks))
    hosts = (*job.hosts, *job.claimed)
    return NodePart(job.host, job.title, job.launcher, job.user, job.started, job.worlds, job.ranks, marks, hosts)


_KEPT = re.compile(r"PATH|HOME|LANG|LC_.*|XDG_.*_HOME|LD_LIBRARY_PATH|MQS_.*|OMP_.*|DRGN_.*")
"""Variables that an agent needs. It keeps no others of root's: they stay in its memory when it gives up root."""


def command_here() -> list[str]:
    """Return what starts an agent on this machine."""
    if os.geteuid() != 0:
        return command()
    return [
        "env",
        "-i",
        *(f"{name}={value}" for name, value in os.environ.items() if _KEPT.fullmatch(name)),
        *command(),
    ]


def command() -> list[str]:
    """Return what starts an agent where this Python and this package lie at the same paths.

    It is isolated: Python would search for modules in the current directory first, which may be anybody's.
    """
    start = f"import sys; sys.path.append({_ROOT!r}); from mqs_dll.__main__ import run; sys.exit(run())"
    return [sys.executable, "-I", "-c", start, "agent"]
