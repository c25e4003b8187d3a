"""``mqs`` alone: the commands that people need first, and the MPI jobs that run here now."""

from __future__ import annotations

import argparse

from mqs_dll.commands import job

_FIRST = """\
mqs finds out why an MPI job hangs.

    mqs job PID                       why does this job hang? PID: of mpiexec, mpirun, srun or any rank
    mqs run -- mpiexec -n 4 ./a.out   start a job; when it hangs for good, report why and end it
    mqs show PID --stack              one rank: its communicators, its queues, its MPI call
    mqs watch PID                     all ranks, live; stops none
    mqs doctor                        whether this machine lets mqs read, stop and prove

`mqs --help` names the others.
"""


def run(options: argparse.Namespace) -> int:
    """Print them; return EXIT_LISTED of commands.job."""
    print(_FIRST, flush=True)
    return job.list_jobs()
