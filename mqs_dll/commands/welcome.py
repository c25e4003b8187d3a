"""``mqs`` alone: the commands that people need first, and which MPI jobs that run here now hang."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from typing import TYPE_CHECKING

from mqs_dll.commands import job, which_library
from mqs_dll.contract.errors import MqsError

if TYPE_CHECKING:
    from rich.text import Text

    from mqs_dll.job.found import FoundJob

_FIRST = """\
mqs finds out why an MPI job hangs.

    mqs job PID                       why does this job hang? PID: of mpiexec, mpirun, srun or any rank
    mqs run -- mpiexec -n 4 ./a.out   start a job; when it hangs for good, report why and end it
    mqs show PID --stack              one rank: its communicators, its queues, its MPI call
    mqs watch PID                     all ranks, live; stops none
    mqs doctor                        whether this machine lets mqs read, stop and prove

`mqs --help` names the others.
"""
_BETWEEN = 0.5
"""Seconds between two looks, and between two samples."""
_PATIENCE = 10.0
"""Seconds after which no further job is looked at."""
_MOST_RANKS = 64
"""Of a job that is looked at: nobody has asked for it by name, and its ranks may be stopped."""


def run(options: argparse.Namespace) -> int:
    """Print them; return EXIT_LISTED of commands.job.

    A job is first read twice without stopping it. It is stopped and judged only if nothing has changed meanwhile.
    """
    from rich.text import Text

    from mqs_dll.report import listing, terminal

    print(_FIRST, flush=True)
    console = terminal.console()
    until = time.monotonic() + _PATIENCE
    for found in job.list_jobs():
        console.print(Text.assemble("\n", (f"{listing.pid_of(found)} ", "bold"), _look(found, until)))
    return job.EXIT_LISTED


def _look(found: FoundJob, until: float) -> Text:
    """Return what is wrong with a job, in a line or two; or why nobody has looked."""
    from rich.text import Text

    from mqs_dll.contract.escape import visible
    from mqs_dll.debugger.job.read import read_job
    from mqs_dll.report.text import outcome_line
    from mqs_dll.verdict.conclude import conclude

    if why := _left_alone(found, until):
        return Text(f"was not looked at: {why}")
    try:
        if _changes(found):
            return Text("goes on, or polls: its queues change. It was not stopped")
        seen = read_job(
            found,
            which_library.opener(),
            read_further=which_library.windows(),
            samples=job.SAMPLES,
            interval=_BETWEEN,
            doubtful=partial(job.doubt_about, patient=False),
        )
    except MqsError as error:
        return Text(visible(str(error)))
    return outcome_line(conclude(seen))


def _left_alone(found: FoundJob, until: float) -> str:
    """Return why a job isn't looked at, empty where it is."""
    from mqs_dll.debugger.proc import user_name

    if found.user != user_name(os.geteuid()):
        return "it is another user's"
    if len(found.ranks) > _MOST_RANKS:
        return f"it has more than {_MOST_RANKS} ranks"
    return "others took too long" if time.monotonic() > until else ""


def _changes(found: FoundJob) -> bool:
    """Return whether a job's queues change from one look to the next; none of its ranks is stopped."""
    from mqs_dll.debugger.job.read import read_job

    seen = read_job(found, which_library.opener(), samples=2, interval=_BETWEEN, stop=False, stacks=False)
    queues = ([sample.snapshot.communicators for sample in process.samples] for process in seen.processes)
    return any(each != looks[0] for looks in queues for each in looks)
