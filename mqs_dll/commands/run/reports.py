"""What is said of a job that is watched, on standard error, and what is kept of it."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from mqs_dll.commands.run.sampling import in_own_process

_JOB_IDS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")


def say(text: str) -> None:
    """Print a line on standard error, where anybody may have closed it."""
    from mqs_dll.contract.escape import visible

    with suppress(OSError):
        print(f"mqs: {visible(text)}", file=sys.stderr, flush=True)


class Reports:
    """The reports on one job."""

    def __init__(self, folder: Path, pid: int) -> None:
        """Begin.

        Args:
            folder: where they are saved.
            pid: after which they are named where no batch system has a name for the job.
        """
        self._folder, self._pid, self._began = folder, pid, time.monotonic()

    def add(self, what: str, job: Path) -> None:
        """Print what is wrong with a job, and save it.

        Args:
            what: why it is reported now.
            job: where it was saved as it was sampled.
        """
        from mqs_dll.commands import cli

        stem = self._folder / f"mqs-run-{_job_id(self._pid)}-{datetime.now():%Y%m%dT%H%M%S}"
        say(f"{what}, after {time.monotonic() - self._began:.0f} s:")
        arguments = ["job", "--load", str(job)]
        if kept := _keep(job, Path(f"{stem}.json.gz")):
            arguments += ["--html", f"{stem}.html"]
        os.waitpid(in_own_process(lambda: cli.main(arguments), output=2), 0)
        if kept:
            say(f"saved as {stem}.json.gz and .html")


def _keep(job: Path, path: Path) -> bool:
    """Copy a saved job; return whether that was done."""
    from mqs_dll.job.files import write_whole

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, job.read_bytes())
    except OSError as error:
        say(f"{path} can't be written: {error.strerror}")
        return False
    return True


def _job_id(pid: int) -> str:
    """Return the batch system's name of the job, else a PID."""
    found = next(filter(None, map(os.environ.get, _JOB_IDS)), str(pid))
    return "".join(each if each.isalnum() else "-" for each in found)
