"""What Slurm's commands say: which jobs of this user run, and on which nodes."""

from __future__ import annotations

import shutil
import subprocess

from mqs_dll.contract.errors import NodesError
from mqs_dll.job.found import SlurmJob

_PATIENCE = 10.0
"""Seconds: slurmctld may be far away, or down."""


_FIELDS = "%i|%u|%S|%N"
"""Number, user, start and nodes: without a job's name, which its user chooses and which may hold an end of line."""


def nodes_of(job: str) -> str:
    """Return the nodes of a job, as Slurm writes them.

    Raises:
        NodesError: Slurm knows no such job, or it doesn't run.
    """
    found = [each for each in _squeue(_FIELDS, "--jobs", job) if each.nodes]
    if not found:
        raise NodesError(f"Slurm knows no job {job} that runs")
    return ",".join(each.nodes for each in found)


def jobs() -> list[SlurmJob]:
    """Return the jobs of this user that run; none where there is no Slurm."""
    try:
        return _squeue(f"{_FIELDS}|%j", "--me", "--states=RUNNING")
    except NodesError:
        return []


def _squeue(fields: str, *options: str) -> list[SlurmJob]:
    command = shutil.which("squeue")
    if command is None:
        raise NodesError("Slurm's squeue isn't here")
    try:
        result = subprocess.run(
            [command, "--noheader", f"--format={fields}", *options],
            capture_output=True,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NodesError(f"squeue doesn't answer: {error}") from None
    if result.returncode != 0:
        said = result.stderr.decode(errors="backslashreplace").strip()
        raise NodesError(f"squeue fails: {said[:500]}")
    lines = result.stdout.decode(errors="backslashreplace").splitlines()
    found = [line.split("|", 4) for line in lines]
    whole = [each for each in found if len(each) > fields.count("|")]  # a name with an end of line makes others
    return [SlurmJob(number, "".join(name), user, since, nodes) for number, user, since, nodes, *name in whole]
