"""Several machines on this one, for jobs that span nodes: nodes.sh makes them of namespaces, with an sshd in each."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs import READY_SECONDS, TAG, Compiler, JobError
from tests.support.mpis import WHEELS_DIRECTORY, Mpi

ROOT = Path(__file__).parents[2]
NODES = ("n1", "n2", "n3")
_SCRIPT = Path(__file__).with_name("nodes.sh")
_NEEDED = ("pkill", "unshare", "nsenter", "ip", "ssh", "ssh-keygen", "/usr/sbin/sshd")
_UP_SECONDS = 30.0
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
            if not select.select([self._shell.stdout], [], [], max(end - time.monotonic(), 0.0))[0]:
                raise JobError(f"{command} takes longer than {seconds} s:\n{errors.read_text(errors='replace')}")
            piece = os.read(self._shell.stdout.fileno(), 1 << 16)
            if not piece:
                raise JobError("the nodes have ended")
            said += piece
        out, _, code = said.decode(errors="backslashreplace").rpartition(f"\n{_END} ")
        return Said(int(code), out, errors.read_text(errors="backslashreplace"))

    def mqs(self, *arguments: object, node: str = NODES[0], before: str = "") -> Said:
        """Run the command ``mqs`` on a node; ``before`` stands before it."""
        words = shlex.join([sys.executable, "-m", "mqs_dll", *map(str, arguments)])
        return self.run(f"cd {shlex.quote(str(ROOT))}; {before} {words}", node=node, seconds=120.0)


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

        Raises:
            JobError: it didn't, in READY_SECONDS.
        """
        paths = [self.directory / f"truth.{rank}.1.json" for rank in range(self.ranks)]
        end = time.monotonic() + READY_SECONDS
        while missing := [path.name for path in paths if not path.exists()]:
            if time.monotonic() > end:
                raise JobError(f"no {', '.join(missing)}:\n{(self.directory / 'output').read_text(errors='replace')}")
            time.sleep(0.02)
        return [json.loads(path.read_text()) for path in paths]

    def end(self) -> None:
        """Kill its processes on all nodes."""
        for node in NODES:  # the brackets keep the pattern from being in a command line itself
            self.nodes.run(f"pkill -9 -f '[/]{str(self.directory)[1:]}/'", node=node)


def launch_command(mpi: Mpi, ranks: int) -> tuple[str, list[str]]:
    """Return the variables and the command that start so many ranks on all nodes, round robin."""
    variables = {**mpi.environment, "OMPI_MCA_mpi_yield_when_idle": "1"}
    if mpi.product == "MPICH":
        command = [str(mpi.mpiexec), "-n", str(ranks), "-ppn", "1", "-hosts", ",".join(NODES), "-iface", "eth0"]
    else:
        slots = -(-ranks // len(NODES))
        hosts = ",".join(f"{node}:{slots}" for node in NODES)
        prefix = (
            [] if mpi.mpiexec is None or mpi.mpiexec.is_relative_to("/usr") else ["--prefix", mpi.mpiexec.parents[1]]
        )
        network = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0"]
        command = [str(mpi.mpiexec), "-n", str(ranks), "--host", hosts, "--map-by", "node", *map(str, prefix), *network]
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items()), command


@contextmanager
def running_on(
    nodes: Nodes, compiler: Compiler, mpi: Mpi, program: str, ranks: int, arguments: Sequence[str] = ()
) -> Iterator[NodesJob]:
    """Start a program of tests/programs on all nodes and give the job; at the end kill it."""
    source = compiler.compile(mpi, program)
    directory = Path(tempfile.mkdtemp(prefix=f"{source.name}-", dir=nodes.directory))
    binary = shutil.copy2(source, directory / source.name)
    variables, command = launch_command(mpi, ranks)
    words = shlex.join([*command, str(binary), str(directory), *arguments])
    said = nodes.run(f"cd {directory}; {TAG}={directory.name} {variables} {words} >{directory}/output 2>&1 & echo $!")
    job = NodesJob(nodes, directory, int(said.out), ranks)
    try:
        yield job
    finally:
        job.end()
