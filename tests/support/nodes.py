"""Several machines on this one, for jobs that span nodes: nodes.sh makes them of namespaces, with an sshd in each."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.debugger.proc import Stat, numbers_in, processes_with, read_stat
from tests.support import slow_link
from tests.support.jobs import READY_SECONDS, TAG, Compiler, JobError, kill, make_patient
from tests.support.mpis import OFI_TCP, Mpi, skip_without
from tests.support.targets import command_line, is_readable, session_of
from tests.support.wheels import WHEELS_DIRECTORY

ROOT = Path(__file__).parents[2]
NODES = ("n1", "n2", "n3")
_SCRIPT = Path(__file__).with_name("nodes.sh")
_NEEDED = ("unshare", "nsenter", "ip", "ssh", "ssh-keygen", "/usr/sbin/sshd")
_UP_SECONDS = 90.0
_END = "mqs-end-of-output"


@dataclass(frozen=True)
class Said:
    """What a command on a node has said."""

    code: int
    out: str
    err: str


class Nodes:
    """Machines n1, n2 and n3; commands run on n1, or by ssh from there. All see one directory."""

    def __init__(self, directory: Path) -> None:
        """Make them.

        Args:
            directory: what all of them see; others are there only if they don't lie below /tmp.
        """
        missing = [name for name in _NEEDED if shutil.which(name) is None]
        if missing:
            pytest.skip(f"no nodes can be made without {', '.join(missing)}: tools/setup installs them")
        self.directory = directory
        seen = [str(path) for path in (directory, ROOT, WHEELS_DIRECTORY) if path.is_relative_to("/tmp")]
        self._log = directory / "nodes.log"
        with self._log.open("wb") as log:
            self._shell = subprocess.Popen(
                [str(_SCRIPT), str(len(NODES)), ":".join(seen)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PATH": f"{sys.base_prefix}/bin:{os.environ['PATH']}"},  # --send needs that Python
            )
        try:
            self.run("true", seconds=_UP_SECONDS)
        except (JobError, OSError):
            self.close()
            said = self._log.read_text(errors="backslashreplace").strip()
            pytest.skip(f"this machine doesn't let us make nodes of namespaces: {said[-500:]}")

    def close(self) -> None:
        """End all that runs on them, and them."""
        self._shell.kill()  # the kernel ends all that is inside
        self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            if pipe is not None:
                pipe.close()

    def kill(self, node: str) -> None:
        """End a node and all that runs on it, as when its power fails."""
        for pid, command in self._shells():
            if command.endswith(f"\0node {node.removeprefix('n')}\0"):
                kill(pid)

    def _shells(self) -> Iterator[tuple[int, str]]:
        """Yield the processes that this machine has for its nodes, with their command lines."""
        return (each for each in command_lines() if session_of(each[0]) == self._shell.pid)

    @contextmanager
    def slow_link(self, seconds: float) -> Iterator[str]:
        """Give the name of a network device of all nodes, on which each packet is under way for so many seconds."""
        shells = [
            next(pid for pid, command in self._shells() if command.endswith(f"\0node {node.removeprefix('n')}\0"))
            for node in NODES
        ]
        words = [sys.executable, slow_link.__file__, str(seconds), *map(str, shells)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as link:
            try:
                assert link.stdout is not None
                if link.stdout.readline() != b"ready\n":
                    pytest.skip("this machine doesn't let us make TUN devices in network namespaces")
                for number, node in enumerate(NODES, 1):
                    device = f"dev {slow_link.NAME}"
                    up = f"ip addr add 10.78.0.{number}/24 {device}; ip link set {device} up"
                    assert self.run(up, node=node).code == 0
                yield slow_link.NAME
            finally:
                link.kill()

    def run(self, command: str, *, node: str = NODES[0], seconds: float = 60.0) -> Said:
        """Run a command of a shell on a node, and wait for its end.

        Raises:
            JobError: it takes longer than a time, or there are no nodes any more.
        """
        if node != NODES[0]:
            command = f"ssh {node} {shlex.quote(command)}"
        errors = self.directory / "stderr"
        script = f"( {command}\n) </dev/null 2>{errors}; printf '\\n%s %s\\n' {_END} $?\n"
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(script.encode())
        self._shell.stdin.flush()
        said, end = b"", time.monotonic() + seconds
        while _END.encode() not in said or not said.endswith(b"\n"):
            if not is_readable(self._shell.stdout.fileno(), end):
                raise JobError(f"{command} takes longer than {seconds} s:\n{errors.read_text(errors='replace')}")
            piece = os.read(self._shell.stdout.fileno(), 1 << 16)
            if not piece:
                raise JobError("the nodes have ended")
            said += piece
        out, _, code = said.decode(errors="backslashreplace").rpartition(f"\n{_END} ")
        return Said(int(code), out, errors.read_text(errors="backslashreplace"))

    def mqs(self, *arguments: object, node: str = NODES[0], before: str = "") -> Said:
        """Run the command ``mqs`` on a node; ``before`` stands before it."""
        words = shlex.join(self.command(*arguments))
        return self.run(f"{before} {words}", node=node, seconds=120.0)

    @staticmethod
    def command(*arguments: object) -> list[str]:
        """Return the words of the command ``mqs``, for a shell where no sources lie, which Python would take first."""
        return [sys.executable, "-m", "mqs_dll", *map(str, arguments)]


@dataclass
class NodesJob:
    """A job that runs on all nodes."""

    nodes: Nodes
    directory: Path
    launcher: int
    """Its PID on n1."""
    ranks: int

    def wait_until_ready(self) -> list[dict[str, Any]]:
        """Wait until each rank has written its truth; return them by rank, with the PIDs of its node.

        From then on they leave the processor to others.

        Raises:
            JobError: it didn't, in READY_SECONDS.
        """
        paths = [self.directory / f"truth.{rank}.1.json" for rank in range(self.ranks)]
        end = time.monotonic() + READY_SECONDS
        while missing := [path.name for path in paths if not path.exists()]:
            if time.monotonic() > end:
                raise JobError(f"no {', '.join(missing)}:\n{(self.directory / 'output').read_text(errors='replace')}")
            time.sleep(0.02)
        make_patient(pid for pid, _ in self._processes())
        return [json.loads(path.read_text()) for path in paths]

    def standing(self) -> list[str]:
        """Return the ranks that somebody traces or has stopped, with their states."""
        ranks = [pid for pid, command in self._processes() if command.startswith(f"{self.directory}/")]
        assert len(ranks) == self.ranks
        states = [re.findall(r"^(?:State|TracerPid):\t(\w+)", status_of(pid), re.MULTILINE) for pid in ranks]
        return [f"{state}, traced by {tracer}" for state, tracer in states if state in "Tt" or tracer != "0"]

    def oldest_of_n1(self, command: str) -> Stat:
        """Return the first process that it has started on n1 with such a command line: others may have some, too."""
        started = {*processes_with(f"{TAG}={self.directory.name}")}
        found = (read_stat(pid) for pid, line in command_lines() if pid in started and re.search(command, line))
        return min(filter(None, found), key=lambda stat: stat.started)

    def end(self) -> None:
        """Kill its processes on all nodes."""
        for pid, _ in self._processes():
            kill(pid)

    def left(self) -> Iterator[str]:
        """Yield the command lines of its ranks that run."""
        return (command for _, command in self._processes() if command.startswith(f"{self.directory}/"))

    def _processes(self) -> Iterator[tuple[int, str]]:
        """Yield its processes with their command lines, by the PIDs that they have here: one sees into namespaces."""
        return (each for each in command_lines() if f"{self.directory}/" in each[1])


def command_lines() -> Iterator[tuple[int, str]]:
    """Yield all processes of this machine with their command lines."""
    return ((pid, command_line(pid)) for pid in numbers_in("/proc"))


def status_of(pid: int) -> str:
    """Return what the kernel says of a process of this machine."""
    return Path(f"/proc/{pid}/status").read_text()


def launch_command(mpi: Mpi, ranks: int, sleeps: Mapping[str, str], device: str = "eth0") -> tuple[str, list[str]]:
    """Return the variables and the command that start so many ranks on all nodes, round robin; some are for ranks.

    Messages go by a network device.
    """
    variables = {**mpi.environment, **sleeps, "OMPI_MCA_mpi_yield_when_idle": "1"}
    if mpi.product == "MPICH":
        command = [str(mpi.mpiexec), "-n", str(ranks), "-ppn", "1", "-hosts", ",".join(NODES), "-iface", device]
        if device != "eth0":  # UCX takes Ethernet only
            variables |= {**OFI_TCP.environment, "FI_TCP_IFACE": device}
    else:
        slots = -(-ranks // len(NODES))
        hosts = ",".join(f"{node}:{slots}" for node in NODES)
        prefix = (
            [] if mpi.mpiexec is None or mpi.mpiexec.is_relative_to("/usr") else ["--prefix", mpi.mpiexec.parents[1]]
        )
        network = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", device]
        network += [word for name in sleeps for word in ("-x", name)]
        command = [str(mpi.mpiexec), "-n", str(ranks), "--host", hosts, "--map-by", "node", *map(str, prefix), *network]
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items()), command


@contextmanager
def running_on(
    nodes: Nodes,
    compiler: Compiler,
    mpi: Mpi,
    program: str,
    ranks: int,
    arguments: Sequence[str] = (),
    device: str = "eth0",
    before: Sequence[str] = (),
) -> Iterator[NodesJob]:
    """Start a program of tests/programs, in C or Python, on all nodes and give the job; at the end kill it.

    What stands ``before`` the launcher's command starts it.
    """
    skip_without(mpi)
    *interpreter, source = compiler.command(mpi, program)
    directory = Path(tempfile.mkdtemp(prefix=f"{Path(source).name}-", dir=nodes.directory))
    binary = shutil.copy2(source, directory)  # by which its processes are known
    if interpreter:
        shutil.copy2(Path(source).with_name("hang.py"), directory)
    sleeps = compiler.sleeps(mpi, mpi.transports[0])
    if library := sleeps.get("LD_PRELOAD"):
        sleeps["LD_PRELOAD"] = str(shutil.copy2(library, directory))  # where all nodes see it
    variables, command = launch_command(mpi, ranks, sleeps, device)
    words = shlex.join([*before, *command, *interpreter, str(binary), str(directory), *arguments])
    words = f"{TAG}={directory.name} {variables} setsid {words}"  # make_patient means no session in which mqs is run
    said = nodes.run(f"cd {directory}; {words} >{directory}/output 2>&1 & echo $!")
    job = NodesJob(nodes, directory, int(said.out), ranks)
    try:
        yield job
    finally:
        job.end()
