"""What was read, when, and whether the job stood still: what a reader must know to trust the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from rich.console import RenderableType
from rich.text import Text

from mqs_dll.contract.escape import visible
from mqs_dll.job.node_names import fold
from mqs_dll.job.ranges import MAX_RUNS
from mqs_dll.job.records import CORE_FILES, GDB, LIVE, Job, RankState
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report.names import name_many
from mqs_dll.report.terminal import indented


def parts(job: Job) -> Iterator[RenderableType]:
    """Yield the title of the job and the facts."""
    yield Text("\nThe job", style="bold")
    for line in (*_lines(job), *_tests(job)):
        yield indented(Text(visible(line)))


def _lines(job: Job) -> Iterator[str]:
    yield job.title
    yield "; ".join(filter(None, (job.mpi or "MPI not known", _ranks(job), _hosts(job))))
    launcher = f", launcher {job.launcher}" if job.launcher is not None else ""
    yield f"taken {job.taken} ({job.source}){launcher}; {_samples(job)}"
    yield _stop(job)
    if not job.counted:
        yield NOT_COUNTED
    if _lacks_lines(job):
        yield NO_LINES


def _tests(job: Job) -> Iterator[str]:
    """Yield which tests of pytest's the ranks are in."""
    by_test: defaultdict[str, list[int]] = defaultdict(list)
    for index, process in enumerate(job.processes):
        if process.test:
            by_test[process.test].append(index)
    for test, those in islice(by_test.items(), MAX_TESTS):
        yield f"pytest: {'rank' if len(those) == 1 else 'ranks'} {name_many(job, those)} in {test}"
    if len(by_test) > MAX_TESTS:
        yield f"pytest: {len(by_test) - MAX_TESTS} more tests (--json has them all)"


def _lacks_lines(job: Job) -> bool:
    """Return whether of the places in the program that are known none has a line."""
    stacks = [sample.stacks for process in job.processes for sample in process.samples[-1:]]
    places = (each.of_program for found in stacks if not isinstance(found, Hidden) for each in found)
    known = [place for place in places if place is not None]
    return bool(known) and not any(place.file for place in known)


MAX_TESTS = 5
NO_LINES = "the program has no line numbers: compile it with -g to see where its ranks are"
NOT_COUNTED = (
    "returns from MPI calls were not counted (--no-count): what a loop could make appear like this twice is suspected, "
    "not proved"
)


def _ranks(job: Job) -> str:
    read = sum(process.state is RankState.READ for process in job.processes)
    count = len(job.processes)
    all_read = "all read" if read == count else f"{read} of them read"
    worlds = f" of {len(job.sizes)} MPI_COMM_WORLDs" if len(job.sizes) > 1 else ""
    return f"{count} rank{'' if count == 1 else 's'}{worlds}, {all_read}"


def _hosts(job: Job) -> str:
    """Return where the ranks run; empty where it isn't known, as in core files."""
    hosts = sorted({process.host for process in job.processes if process.host} or {job.host})
    if len(hosts) < 2:
        return f"on {hosts[0]}" if hosts[0] else ""
    return f"on {len(hosts)} nodes: {fold(hosts, MAX_RUNS)}"


def _samples(job: Job) -> str:
    count = max((len(process.samples) + len(process.starts) for process in job.processes), default=0)
    if count < 2:
        more = ": a hang can't be distinguished from slow progress (--samples 2)"
        return f"one sample{more if job.source == LIVE else ''}"
    return f"{count} samples, {job.interval:g} s apart"


def _stop(job: Job) -> str:
    if job.source == GDB:
        return "gdb holds the ranks, since different moments: what they say may not fit together"
    if job.source == CORE_FILES:
        return "core files of different ranks are not of one moment: what they say may not fit together"
    if not job.stopped:
        return "the ranks ran while they were read: what they say may not fit together"
    if job.processes and all(process.state is RankState.EXITED for process in job.processes):
        return "all of its ranks have exited"
    return f"the ranks were stopped for {job.stop_time * 1000:.1f} ms{_apart(job)}, and go on as before"


def _apart(job: Job) -> str:
    """Return how far apart the nodes stopped; nothing where one was read."""
    return f" (all nodes within {job.stop_skew * 1000:.1f} ms)" if job.stop_skew else ""
