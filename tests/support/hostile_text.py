"""Hostile text, where a job's own words come in: saved jobs, agents' answers, environments and command lines.

``python -m tests.support.hostile_text --cases 20000`` tries as many, and prints as JSON what came of them. A hook of
Python's notices whatever would run or be written, and keeps it from happening; a case is a number, and the same each
time. Real ones are changed a little, or made up of what does harm elsewhere: to shells, to ClusterShell, to terminals.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import json
import os
import random
import resource
import shlex
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from mqs_dll.contract.errors import MqsError, NodesError
from mqs_dll.debugger.job.find import jobs as find
from mqs_dll.debugger.job.find import processes as found_processes
from mqs_dll.debugger.job.nodes import carrier, hosts, wire
from mqs_dll.debugger.job.nodes.merge import Answer, merged
from mqs_dll.debugger.proc import Stat
from mqs_dll.job import saved
from mqs_dll.job.codec import DamagedError
from mqs_dll.job.found import FoundRank, FoundWorld
from mqs_dll.report.text import render
from mqs_dll.verdict.conclude import conclude
from tests.support.limited import limited_memory
from tests.support.synthetic_job import any_source, barrier, halo, ring

MAX_MEMORY = 512 << 20
"""Bytes of address space, more than when it starts."""

RENDERED = 16
"""Of so many saved jobs one is written out, too."""

FIRST_PID = 1 << 29
"""No process of this machine has such a PID."""

RUNS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)
CHANGES = frozenset(
    {
        "os.chmod",
        "os.chown",
        "os.kill",
        "os.link",
        "os.mkdir",
        "os.putenv",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.truncate",
        "os.utime",
        "socket.connect",
        "ctypes.dlopen",
    }
)
"""Events of Python's (docs.python.org/3/library/audit_events.html), besides ``open`` with a mode that writes."""

TEXTS = (
    "@group",
    "n[1-3],@all",
    "n1,@local:p';touch${IFS}/tmp/mqs-was-here;'",
    "@*",
    "$(touch /tmp/mqs-was-here)",
    "`touch /tmp/mqs-was-here`",
    "; touch /tmp/mqs-was-here;",
    "| touch /tmp/mqs-was-here",
    "'\"\\",
    "%h",
    "%hosts%%%n",
    "-oProxyCommand=touch /tmp/mqs-was-here",
    "--nodelist=n[0-99999999]",
    "n[1-4294967295]",
    "n[0-9]" * 8,
    "n[1-3]x[1-3]y[1-3]",
    "[" * 500,
    "n[" + "1," * 2000 + "1]",
    "../../etc/passwd",
    "/dev/zero",
    "\0",
    "a\0b",
    "\n",
    "\x1b]0;title\x07\x1b[2J",
    "\u202etxt.exe",
    "\ud800",
    "\U0001f600" * 100,
    "x" * 100_000,
    "2147483648",
    "-1",
    "9" * 400,
    "1e999",
    "NaN",
    "",
    "localhost",
    "::1",
    "127.0.0.1",
    "=",
    "{}",
    "{0.__class__}",
)

NUMBERS = (
    0,
    -1,
    1,
    7,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    10**30,
    -(10**30),
)

NAMES = (
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_ID",
    "PMI_SIZE",
    "PMI_JOBID",
    "PMI_SPAWNED",
    "MPI_LOCALNRANKS",
    "FLUX_TASK_RANK",
    "FLUX_JOB_ID",
    "FLUX_JOB_SIZE",
    "PALS_RANKID",
    "PALS_APID",
    "SLURM_PROCID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NODELIST",
)

COMMANDS = (
    "mpirun -n 4 ./solver",
    "mpiexec -hosts n1,n2 ./solver",
    "orted -mca ess env -mca ess_base_jobid 12345 -mca orte_hnp_uri 12345.0;tcp://10.0.0.1,10.0.0.2:4711",
    "prted --prtemca ess_base_nspace prterun-n1-77@0 --prtemca prte_hnp_uri prterun-n1-77@0.0;tcp4://10.0.0.1:99",
    "hydra_pmi_proxy --control-port n1:4711 --rmk user",
    "srun --nodelist=n[1-4] --ntasks=4 hydra_bstrap_proxy",
    "ssh -x -o StrictHostKeyChecking=no n2 orted",
    "slurmstepd: [77.0]",
    "python3 -m mpi4py solver.py",
    "./solver",
)


class BannedError(BaseException):
    """Something would have run, or been written. No handler of errors keeps it from us."""


class Guard:
    """Notices what runs and what is written, while it is on; a hook can't be taken away again."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            path, mode, flags = arguments
            if path == os.devnull:
                return
            writes = any(letter in (mode or "") for letter in "wax+") or (
                isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            )
            if not writes:
                return
        elif event not in RUNS and event not in CHANGES:
            return
        self.seen.append(f"{event} {arguments!r}"[:200])
        raise BannedError(event)


# ---------------------------------------------------------------- changing what is real


def spoil(value: Any, chance: random.Random) -> Any:
    """Return a document, changed in a place or in a few."""
    for _ in range(chance.choice((1, 1, 1, 3))):
        if isinstance(value, dict | list) and value:
            value = _spoil_once(value, chance)
    return value


def _spoil_once(value: Any, chance: random.Random) -> Any:
    """Return a document with a change in one place: mostly one that keeps its form, so that it is read, and used."""
    parent: Any = None
    key: Any = None
    place = value
    if chance.random() < 0.9:
        parent, key = chance.choice([(of, at) for of, at in _leaves(value) if at != "format"])
        place = parent[key]
    while isinstance(place, dict | list) and place and (parent is None or chance.random() < 0.8):
        parent, key = place, chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        place = parent[key]
    if parent is None:
        return _anything(chance)
    if isinstance(place, str) and chance.random() < 0.8:
        at = chance.randrange(len(place) + 1)
        text = chance.choice(TEXTS)
        parent[key] = text if chance.random() < 0.5 else place[:at] + text + place[at:]
    elif type(place) is int and chance.random() < 0.8:
        parent[key] = chance.choice((place + 1, place - 1, place + (1 << 20), -1, 0, *NUMBERS))
    elif isinstance(parent, list) and chance.random() < 0.5:
        parent.extend([place] * chance.choice((1, 10, 1000)))
    elif isinstance(parent, dict) and chance.random() < 0.5:
        parent[chance.choice((*TEXTS[:8], "kinds", "of", "all", "each", "hex"))] = place
    elif chance.random() < 0.5:
        del parent[key]
    else:
        parent[key] = _anything(chance)
    return value


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where the values of a document lie that have no others in them."""
    keys: Any = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        if isinstance(value[key], dict | list) and value[key]:
            yield from _leaves(value[key])
        else:
            yield value, key


def _anything(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 3:
        return chance.choice(TEXTS)
    if kind < 5:
        return chance.choice(NUMBERS)
    if kind == 5:
        return chance.choice((None, True, False, 1.5, -0.0, [], {}, [[]], {"hex": "zz"}, {"all": 0}))
    if kind == 6:
        return [chance.choice(NUMBERS)] * chance.choice((1, 3, 3000))
    deep: Any = 1
    for _ in range(chance.choice((5, 200, 900))):
        deep = [deep] if chance.random() < 0.5 else {"of": deep}
    return deep


def _bytes_of(document: Any, chance: random.Random) -> bytes:
    """Return a document as bytes, of which a few may be others."""
    text = bytearray(json.dumps(document).encode())
    if chance.random() < 0.1:
        for _ in range(chance.choice((1, 3, 30))):
            text[chance.randrange(len(text))] = chance.choice(b'{}[]",:0\xff\0e')
    if chance.random() < 0.05:
        del text[chance.randrange(len(text)) :]
    return bytes(text)


# ---------------------------------------------------------------- what is tried


class World:
    """What cases start with: real ones, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = [saved.to_bytes(make(3)) for make in (ring, any_source, barrier, halo)]
        self.answers = [json.dumps(wire.write_processes(make(3).processes)) for make in (ring, halo)]
        ranks = tuple(FoundRank(0, number, 100 + number, "./solver", "n1") for number in range(3))
        part = wire.NodePart(
            "n1",
            "mpirun ./solver",
            99,
            "alice",
            7.0,
            (FoundWorld(6, False, "job@1", 3),),
            ranks,
            ("pmix job",),
            ("n2",),
        )
        self.parts = json.dumps(wire.write(wire.NodeParts((part, part._replace(host="n2")), (1, 2))))


def saved_job(world: World, chance: random.Random) -> None:
    """Load a saved job, judge it, and now and then write it out."""
    content = _bytes_of(spoil(json.loads(chance.choice(world.jobs)), chance), chance)
    if not content.startswith(b'{"format"'):
        content = b'{"format": "mqs-job/2", ' + content[1:]
    if chance.random() < 0.02:
        path = world.folder / chance.choice(("job", "job.gz"))
        path.write_bytes(gzip.compress(content, 1) if path.suffix else content)
        with _guard_on():
            job = saved.load(str(path))
    else:
        job = saved.from_bytes(content, "job")
    verdict = conclude(job)
    if chance.randrange(RENDERED) == 0:
        shown = io.StringIO()
        Console(file=shown, width=100, force_terminal=False).print(render(job, verdict))
        assert not any(letter in shown.getvalue() for letter in "\x1b\x07\0\u202e"), "a control character is printed"


def answer(world: World, chance: random.Random) -> None:
    """Take in a line of an agent's, and what it says of ranks."""
    document = spoil({"to": "report", "done": json.loads(chance.choice(world.answers))}, chance)
    text = _bytes_of(document, chance)
    if chance.random() < 0.5:
        text = b"=" + base64.b64encode(zlib.compress(text, 1))
    message = wire.Assembler().add(text)
    if message is not None:
        wire.Jobs().read(message.get("done"), most=3)


def parts(world: World, chance: random.Random) -> None:
    """Take in what an agent has found, put it together, and go on to the nodes that it names."""
    document = {"to": "find", "done": spoil(json.loads(world.parts), chance)}
    message = wire.Assembler().add(_bytes_of(document, chance))
    assert message is not None, "a line is no message"
    read = wire.read_parts(message.get("done"))
    for part in read.parts:
        _name([*part.hosts, *(rank.host for rank in part.ranks)])
    if read.parts:
        job = merged({"n1": Answer(read.parts, frozenset(read.gone))}, "n1", None)
        assert job.ranks is not None


def processes(world: World, chance: random.Random) -> None:
    """Find jobs among processes that say anything, and go on to the nodes that they name."""
    count = chance.randrange(2, 8)
    known: dict[int, dict[str, bytes]] = {}
    stats = []
    for number in range(count):
        pid = FIRST_PID + number
        words = chance.choice(COMMANDS).split()
        if chance.random() < 0.6:
            words[chance.randrange(len(words))] = chance.choice(TEXTS)
        if chance.random() < 0.3:
            words.insert(chance.randrange(len(words) + 1), chance.choice(TEXTS))
        variables = {name: _variable(chance) for name in chance.sample(NAMES, chance.randrange(8))}
        environment = "\0".join(f"{name}={value}" for name, value in variables.items())
        known[pid] = {"cmdline": _encoded("\0".join(words)), "environ": _encoded(environment)}
        name = chance.choice((words[0].rpartition("/")[2] if words else "", "slurmstepd", "mpirun", "srun", "solver"))
        parent = FIRST_PID + chance.randrange(number) if number and chance.random() < 0.9 else 1
        stats.append(Stat(pid, name[:15], chance.choice("SRTZ"), parent, number))
    with _patched(known, stats):
        for job in find.all_jobs(found_processes.Processes()):
            _name(job.hosts)
            engine = carrier.slurm(job.slurm)
            assert shlex.split(engine)[1] == f"--jobid={job.slurm}", engine


def _variable(chance: random.Random) -> str:
    if chance.random() < 0.6:
        return chance.choice(("0", "1", "3", "4", "job@1", "12345", "n[1-3]"))
    return chance.choice(TEXTS) if chance.random() < 0.7 else str(chance.choice(NUMBERS))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _name(names: Any) -> None:
    for count, name in enumerate(hosts.named(names)):
        assert hosts.checked(name) is not None, f"{name!r} is a node"
        if count > 200:
            break


class _patched:
    """Lets these be the processes of this machine."""

    def __init__(self, known: Mapping[int, Mapping[str, bytes]], stats: list[Stat]) -> None:
        self._now: dict[str, Any] = {
            "_read": lambda pid, file: known.get(pid, {}).get(file, b""),
            "_read_all": lambda: iter(stats),
            "_executable": lambda pid: f"/usr/bin/{next((each.name for each in stats if each.pid == pid), '')}",
            "_mpi_library": lambda pid: "/usr/lib/libmpi.so.40" if pid % 2 else None,
        }
        self._before = {name: getattr(found_processes, name) for name in self._now}

    def __enter__(self) -> None:
        vars(found_processes).update(self._now)

    def __exit__(self, *error: object) -> None:
        vars(found_processes).update(self._before)


KINDS: tuple[Callable[[World, random.Random], None], ...] = (saved_job, answer, parts, processes)

GUARD: list[Guard] = []
"""The one of this process, once there is one."""


class _guard_on:
    """Turns the guard on, and then back to what it was."""

    def __enter__(self) -> None:
        self._was, GUARD[0].is_on = GUARD[0].is_on, True

    def __exit__(self, *error: object) -> None:
        GUARD[0].is_on = self._was


class Result(NamedTuple):
    """What came of one case."""

    kind: str
    seed: int
    refused: str
    """The class of the error that was foreseen; empty where it was read."""
    wrong: str


def cases(folder: Path, seeds: range) -> Iterator[Result]:
    """Yield what comes of each case."""
    if not GUARD:
        GUARD.append(Guard())
    guard, world = GUARD[0], World(folder)
    for seed in seeds:
        chance = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        refused = wrong = ""
        guard.seen.clear()
        guard.is_on = kind is not saved_job  # which writes the files that it reads
        try:
            kind(world, chance)
        except (MqsError, DamagedError) as error:
            refused = type(error).__name__
        except BannedError:
            wrong = f"would have run or written: {guard.seen}"
        except BaseException as error:
            wrong = f"{type(error).__name__}: {error}"[:300]
        finally:
            guard.is_on = False
        yield Result(kind.__name__, seed, refused, wrong or "; ".join(guard.seen))


def main(words: list[str] | None = None) -> int:
    """Print what came of many cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(words)
    with suppress(NodesError):
        hosts.chosen("n1")  # ClusterShell is imported before anything is watched
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    count: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong: list[Result] = []
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder, limited_memory(MAX_MEMORY):
        start = time.process_time()
        for case in cases(Path(folder), range(options.first, options.first + options.cases)):
            now = time.process_time()
            longest, start = max(longest, now - start), now
            count[case.kind] += 1
            refused[case.kind] += bool(case.refused)
            if case.wrong:
                wrong.append(case)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = {
        "cases": count,
        "refused": refused,
        "wrong": len(wrong),
        "first wrong": [each._asdict() for each in wrong[:20]],
        "MiB": peak - before >> 10,
        "seconds": round(time.process_time() - began, 1),
        "longest": round(longest, 2),
    }
    print(json.dumps(report, indent=1))
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
