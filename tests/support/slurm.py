"""Slurm on the nodes of namespaces: Debian's daemons, with a configuration of their own, in place of the site's."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.jobs import Compiler, JobError
from tests.support.mpis import Mpi
from tests.support.nodes import NODES, Nodes, NodesJob, Said

_NEEDED = ("munged", "slurmctld", "slurmd", "srun", "squeue")
_UP_SECONDS = 90.0
_SETTINGS = {
    "ClusterName": "nodes",
    "SlurmctldHost": NODES[0],
    "SlurmUser": "root",
    "SlurmdUser": "root",
    "AuthType": "auth/munge",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageType": "accounting_storage/none",
    "SlurmdParameters": "config_overrides",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    "StateSaveLocation": "/run/slurm/state",
    "SlurmdSpoolDir": "/run/slurm/spool",
    "SlurmctldPidFile": "/run/slurm/ctld.pid",
    "SlurmdPidFile": "/run/slurm/d.pid",
    "SlurmctldLogFile": "/run/slurm/ctld.log",
    "SlurmdLogFile": "/run/slurm/d.log",
    "NodeName": f"{','.join(NODES)} CPUs=4",
    "PartitionName": "all Nodes=ALL Default=YES",
}
_ENDED = ("CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT")
_START = """
[ ! -e /run/slurm/d.pid ] || exit 0  # another test file has started it
mkdir -p /run/slurm/state /run/slurm/spool
install -d -o munge /run/munge
runuser -u munge -- munged --pid-file /run/munge/pid --seed-file /run/munge/seed --log-file /run/munge/log
[ $(hostname) != n1 ] || slurmctld
slurmd
"""


class Slurm:
    """Slurm, with nothing to run yet; its commands are given on n1."""

    def __init__(self, nodes: Nodes) -> None:
        """Start it; skips the test where it isn't installed.

        Raises:
            JobError: its nodes don't come up.
        """
        missing = [name for name in _NEEDED if shutil.which(name) is None]
        if missing:
            pytest.skip(f"there is no Slurm without {', '.join(missing)}: tools/setup installs them")
        self.nodes = nodes
        settings = nodes.directory / "slurm.conf"
        settings.write_text("".join(f"{name}={value}\n" for name, value in _SETTINGS.items()))
        self.environment = f"SLURM_CONF={settings}"
        for node in NODES:
            nodes.run(f"export {self.environment}{_START}", node=node)
        end = time.monotonic() + _UP_SECONDS
        while self.run("sinfo --noheader --format='%D %t'").out.strip() != f"{len(NODES)} idle":
            if time.monotonic() > end:
                raise JobError(nodes.run("cat /run/slurm/*.log").out)
            time.sleep(0.1)

    def run(self, command: str) -> Said:
        """Run a command of Slurm's."""
        return self.nodes.run(f"export {self.environment}; {command}")

    def submit(self, script: Path, environment: str) -> str:
        """Hand in a script, which runs in its folder, with some variables; return the job's number."""
        said = self.run(f"cd {script.parent}; {environment} sbatch --parsable {script}")
        assert said.out.strip().isdigit(), said
        return said.out.strip()

    def state(self, number: str) -> tuple[str, str]:
        """Return a job's state, and its exit code with the signal that it died of: 0:0."""
        said = self.run(f"scontrol --oneliner show job {number}").out
        found = re.search(r"JobState=(\w+) .*ExitCode=(\S+)", said)
        assert found, said
        return found[1], found[2]

    def has_ended(self, number: str) -> bool:
        """Return whether a job is in a state that it stays in; SIGNALING, for one, is none."""
        return self.state(number)[0] in _ENDED

    @contextmanager
    def running(
        self,
        compiler: Compiler,
        mpi: Mpi,
        program: str,
        start: Sequence[str] = ("srun", "--mpi=pmi2"),
        before: Sequence[str] = (),
    ) -> Iterator[tuple[NodesJob, str]]:
        """Start a program on all nodes, a rank on each; give the job and its number.

        Args:
            compiler: where the program is compiled, or was.
            mpi: which MPI.
            program: as running_on has it.
            start: the command of Slurm's, and what it runs the program by.
            before: what starts that.
        """
        source = compiler.compile(mpi, program)
        directory = Path(tempfile.mkdtemp(prefix=f"{source.name}-", dir=self.nodes.directory))
        binary = shutil.copy2(source, directory / source.name)
        first, *rest = start
        words = shlex.join([*before, first, f"-N{len(NODES)}", f"-n{len(NODES)}", *rest, str(binary), str(directory)])
        launcher = int(self.run(f"cd {directory}; {words} >{directory}/output 2>&1 & echo $!").out)
        job = NodesJob(self.nodes, directory, launcher, len(NODES))
        try:
            job.wait_until_ready()
            yield job, self.run("squeue --noheader --states=RUNNING --format=%i").out.strip()
        finally:
            job.end()
            self.run("scancel --me")
