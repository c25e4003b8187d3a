"""All inferiors of gdb as one job: each is a rank, and what they say is put together as core files are."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import gdb

from mqs_dll.commands import which_library
from mqs_dll.contract.errors import MqsError, ProcessError
from mqs_dll.debugger.job.worlds import RankRead, put_together
from mqs_dll.gdb import frames
from mqs_dll.gdb.target import GdbProcess, read, selected
from mqs_dll.job.facts import explain, mpi_name, world_rank, world_size
from mqs_dll.job.records import GDB, Job, JobProcess, RankState, Sample


def read_inferiors(inferiors: Iterable[gdb.Inferior]) -> Job:
    """Read the ranks that gdb holds, one after the other.

    Returns:
        The job, with a process for each inferior that has one, read or not, and for each rank that gdb doesn't hold.

    Raises:
        ProcessError: no inferior has a process.
        MixedRanksError: they are of several jobs, or two are of the same rank.
    """
    ranks = [_read(each) for each in inferiors if each.threads()]
    if not ranks:
        raise ProcessError("no inferior of gdb has a process: attach to the ranks of a job (`help add-inferior`)")
    return put_together(
        ranks,
        title="the inferiors of gdb",
        source=GDB,
        taken=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        stopped=True,
        absent="gdb has no inferior with it",
    )


def _read(inferior: gdb.Inferior) -> RankRead:
    name, program = f"inferior {inferior.num}", inferior.progspace.filename or ""
    try:
        with selected(inferior):
            snapshot = read(GdbProcess(inferior), which_library.windows())
            sample = Sample(0.0, snapshot, frames.stacks(inferior))
    except MqsError as error:
        obstacle = explain(error)
        process = JobProcess(0, None, "", inferior.pid, program, obstacle.state, obstacle.why, obstacle.remedy, ())
        return RankRead(name, process)
    rank = world_rank(snapshot)
    process = JobProcess(0, rank, "", inferior.pid, program, RankState.READ, "", "", (sample,))
    return RankRead(name, process, size=world_size(snapshot), mpi=mpi_name(snapshot))
