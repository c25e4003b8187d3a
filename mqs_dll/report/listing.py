"""The MPI jobs of a machine, to choose one of: what ``mqs job`` prints without arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqs_dll.contract.escape import visible
from mqs_dll.job.found import FoundJob, SlurmJob
from mqs_dll.job.node_names import fold
from mqs_dll.job.ranges import MAX_RUNS, ranges
from mqs_dll.job.shared import grouped

_NONE = "No MPI job of yours runs on this machine."
_NONE_ADVICE = (
    "Log in where the ranks run (for srun, `squeue -o %N` names the machines); jobs of other users are listed for root "
    "alone. A rank that isn't found here can be named: mqs job PID."
)
_SLURM_ADVICE = "mqs job --slurm JOB says what is wrong with the MPI job in one of them."
_ADVICE = "mqs job PID says what is wrong with one of them; mqs watch PID shows one while it runs."

_NOTHING_DONE = "Nothing was stopped or read: without --dry-run they would be."

_MAX_TITLE = 60
_MAX_PROGRAMS = 3
_NOT_KNOWN = "?"


def render(jobs: Sequence[FoundJob], slurm: Sequence[SlurmJob] = ()) -> RenderableType:
    """Return tables of the jobs of this machine and of Slurm's, or what to do where there is none."""
    if not jobs and not slurm:
        return Text(f"{_NONE}\n{_NONE_ADVICE}")
    here: list[RenderableType] = []
    if jobs:
        here = [Text("MPI jobs on this machine\n", style="bold"), _table(jobs), Text(f"\n{_ADVICE}")]
    if slurm:
        title = Text("\nYour jobs of Slurm's\n", style="bold")
        here += [title, _slurm_table(slurm), Text(f"\n{_SLURM_ADVICE}")]
    return Group(*here)


def _slurm_table(jobs: Sequence[SlurmJob]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("job", "name", "nodes", "since", "user"):
        table.add_column(title, overflow="fold")
    for job in jobs:
        table.add_row(*(Text(visible(cell)) for cell in (job.number, job.name, job.nodes, job.since, job.user)))
    return table


def render_found(job: FoundJob) -> RenderableType:
    """Return which ranks of one job were found, and on which nodes, ready for Console.print."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("ranks", "node", "program", "what is known"):
        table.add_column(title, overflow="fold")
    alike = grouped(((rank.program.rpartition("/")[2], rank.why or "can be read"), rank) for rank in job.ranks)
    for (program, why), ranks in alike.items():
        numbers = [rank.rank for rank in ranks if rank.rank is not None]
        cells = (
            ranges(numbers) if numbers else _NOT_KNOWN,
            fold((rank.host for rank in ranks), MAX_RUNS),
            program,
            why,
        )
        table.add_row(*(Text(visible(cell)) for cell in cells))
    lost = [Text(visible(sentence)) for sentence in job.lost]
    return Group(Text(f"{visible(job.title)}\n", style="bold"), table, *lost, Text(f"\n{_NOTHING_DONE}"))


def _table(jobs: Iterable[FoundJob]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("PID", "ranks", "program", "since", "user", "started by"):
        table.add_column(title, overflow="fold", justify="right" if title in ("PID", "ranks") else "left")
    for job in jobs:
        cells = pid_of(job), _ranks(job), _programs(job), _since(job), job.user or _NOT_KNOWN, _title(job)
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def pid_of(job: FoundJob) -> str:
    """Return the PID to name the job by: the launcher's, else that of its first rank."""
    if job.launcher is not None:
        return str(job.launcher)
    return next((str(rank.pid) for rank in job.ranks if rank.pid), _NOT_KNOWN)


def _ranks(job: FoundJob) -> str:
    """Return how many ranks run here, and how many there are where these aren't all."""
    here = sum(rank.pid > 0 and rank.host == job.host for rank in job.ranks)
    return str(here) if here == len(job.ranks) else f"{here} of {len(job.ranks)}"


def _programs(job: FoundJob) -> str:
    """Return what the ranks run, without directories: "solver, viewer (2)"."""
    programs = Counter(rank.program.rpartition("/")[2] for rank in job.ranks if rank.program).most_common()
    if len(programs) == 1:
        return programs[0][0]
    names = [f"{name} ({count})" for name, count in programs[:_MAX_PROGRAMS]]
    more = [f"{len(programs) - _MAX_PROGRAMS} more"] if len(programs) > _MAX_PROGRAMS else []
    return ", ".join((*names, *more)) or _NOT_KNOWN


def _since(job: FoundJob) -> str:
    """Return when it was started, in this machine's time."""
    return datetime.fromtimestamp(job.started).strftime("%Y-%m-%d %H:%M:%S") if job.started else _NOT_KNOWN


def _title(job: FoundJob) -> str:
    """Return the launcher's command line without the directory that the launcher lies in, cut where it is long."""
    if job.launcher is None:
        return "no launcher"
    launcher, blank, arguments = job.title.partition(" ")
    title = f"{launcher.rpartition('/')[2]}{blank}{arguments}"
    return title if len(title) <= _MAX_TITLE else f"{title[:_MAX_TITLE]}..."
