"""Finding the MPI jobs of this machine, and the ranks of one: nothing is read of their MPI yet, and nothing stopped.

- ``processes``: all processes of this machine, a family tree
- ``markers``: what a process's environment says of its place in a job
- ``slots``: which processes are ranks
- ``proctable``: the launcher's own list of its ranks
- ``outlived``: what a launcher without ranks waits for
- ``jobs``: from slots to jobs; ``elsewhere``: what leads from there to the job's other machines
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from mqs_dll.contract.errors import JobError
from mqs_dll.debugger.access import check_readable
from mqs_dll.debugger.job.find.jobs import all_jobs
from mqs_dll.debugger.job.find.outlived import waits_for_writers
from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.proc import read_status
from mqs_dll.job.found import FoundJob, FoundRank

_MAX_TITLE_LENGTH = 100


def find_jobs() -> list[FoundJob]:
    """Return the MPI jobs of this user on this machine, for root those of all users; the oldest first.

    Programs that use MPI without a launcher come last: only their memory shows whether they have initialized MPI.
    """
    return sorted(all_jobs(Processes()), key=lambda job: job.launcher is None)


def find_job(what: int | str | None = None) -> FoundJob:
    """Return one job.

    Args:
        what: the PID of its launcher, of one of its ranks or of anything between, above or below them; the name of
            the program or the Python script that its ranks run; None for the only job that there is.

    Raises:
        JobError: there is no such job, or there are several; the text lists them.
        ProcessError: there is no process with that PID, or none that we may read.
    """
    if isinstance(what, str) and what.isascii() and what.isdigit():
        what = int(what)
    if isinstance(what, int):
        return _of_process(what)
    jobs = find_jobs()
    if what is None:
        launched = [job for job in jobs if job.launcher is not None]
        return _only(launched or jobs, "there is no MPI job of yours on this machine", "there are several MPI jobs")
    named = [job for job in jobs if any(_is_called(rank, what) for rank in job.ranks)]
    return _only(named, f"there is no MPI job whose ranks run {what}", f"several MPI jobs run {what}")


def jobs_of_process(pid: int) -> dict[int, FoundJob]:
    """Return the jobs that a process is part of or has started, each by a PID that find_job takes for that job alone.

    Raises:
        JobError: there is none.
        ProcessError: there is no process with that PID, or none that we may read.
    """
    processes = Processes()
    jobs = all_jobs(processes)
    named = [job for job in jobs if pid in job.members or _has_started(processes, pid, job)]
    if not named:
        raise _no_job(processes, pid)
    return _by_pid(named)


def _of_process(pid: int) -> FoundJob:
    processes = Processes()
    jobs = all_jobs(processes)
    named = [job for job in jobs if pid in job.members]
    if not named:  # mpiexec runs in a script, or the process was started by a rank
        named = [job for job in jobs if _has_started(processes, pid, job)]
    if not named:
        line = {each.pid for each in processes.ancestors(pid)}
        named = [job for job in jobs if any(rank.pid in line for rank in job.ranks)]
    if not named:
        raise _no_job(processes, pid)
    return _only(named, "", f"process {pid} has started several MPI jobs")


def _has_started(processes: Processes, pid: int, job: FoundJob) -> bool:
    return any(each.pid == pid for each in processes.ancestors(job.launcher or job.ranks[0].pid))


def _no_job(processes: Processes, pid: int) -> JobError:
    name = read_status(pid).name
    check_readable(pid)
    if processes.is_launcher(pid) and (why := waits_for_writers(processes, pid)):
        return JobError(f"process {pid} ({name}) has no ranks any more: {why}")
    return JobError(f"process {pid} ({name}) is no part of an MPI job on this machine")


def _by_pid(jobs: Sequence[FoundJob]) -> dict[int, FoundJob]:
    """Return jobs by a PID that is in no other of them: the launcher's, unless it has started several (prte)."""
    times = Counter(pid for job in jobs for pid in job.members)
    return {job.launcher if job.launcher and times[job.launcher] < 2 else job.ranks[0].pid: job for job in jobs}


def _is_called(rank: FoundRank, name: str) -> bool:
    return PurePath(rank.program).name == name


def _only(jobs: Sequence[FoundJob], none: str, several: str) -> FoundJob:
    if len(jobs) == 1:
        return jobs[0]
    if not jobs:
        raise JobError(none)
    raise JobError(f"{several}: {'; '.join(_line(*each) for each in _by_pid(jobs).items())}")


def _line(pid: int, job: FoundJob) -> str:
    title = job.title if len(job.title) <= _MAX_TITLE_LENGTH else f"{job.title[:_MAX_TITLE_LENGTH]}..."
    ranks = f"{len(job.ranks)} rank{'' if len(job.ranks) == 1 else 's'}"
    return f"PID {pid} ({ranks}, {title})"
