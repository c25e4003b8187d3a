"""``mqs job``: its arguments, where the job comes from, and where the report goes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mqs_dll.commands import which_library
from mqs_dll.commands.times import add_limit, limit_of, seconds
from mqs_dll.errors import ReportError

if TYPE_CHECKING:
    from mqs_dll.debugger.job.records import Job
    from mqs_dll.verdict.results import Verdict

EXIT_LISTED = 0

DESCRIPTION = """\
Take a job that hangs and say what is wrong: which ranks wait for which, and why they wait for ever. All ranks are
stopped for a moment, read and let go; nothing is written to them. Without a PID, a program or a file, list the MPI jobs
of this machine."""

EPILOG = """\
exit codes: 0 nothing is stuck; 1 a deadlock or a mismatch is proved; 2 one is suspected; 3 it could not be read;
14 the ranks stood for as long as they may (--limit)"""

LOOKS = 2
_MOST_SAMPLES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.set_defaults(usage_error=parser.error)
    where = parser.add_argument_group("which job")
    where.add_argument(
        "what", nargs="?", type=which, metavar="PID|PROGRAM", help="its launcher, one of its ranks, or its program"
    )
    where.add_argument("--core", nargs="+", metavar="FILE", help="core files of its ranks, instead")
    where.add_argument("--sysroot", type=Path, metavar="DIR", help="where the core files' libraries lie")
    where.add_argument("--load", metavar="FILE", help="a job that --save wrote, instead")

    how = parser.add_argument_group("how to read it")
    how.add_argument("--no-stop", action="store_true", help="read it while it runs: what is seen may not fit together")
    how.add_argument("--no-stacks", action="store_true", help="leave the call stacks alone")
    how.add_argument(
        "--no-count",
        action="store_true",
        help="don't have the kernel count who leaves an MPI call between two looks: some proofs become suspicions",
    )
    how.add_argument("--no-queues", action="store_true", help=argparse.SUPPRESS)  # for developers
    add_limit(how)
    how.add_argument(
        "--samples",
        type=_samples,
        metavar="N",
        help="look N times (default: 2, and some more while something is only suspected): "
        "one look can't tell a hang from a message under way",
    )
    how.add_argument(
        "--interval", type=seconds, default=0.5, metavar="TIME", help="between two looks: 500ms, 2s (default: 500ms)"
    )
    which_library.add_arguments(how)

    out = parser.add_argument_group("what to print, and to write")
    out.add_argument("--all-ranks", action="store_true", help="print every rank with all of its queues too")
    form = out.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON (docs/json-schema.md)")
    form.add_argument(
        "--csv", action="store_true", help="print one row for each wait and each message, for a spreadsheet"
    )
    form.add_argument("--dot", action="store_true", help="print the wait-for graph in Graphviz's language")
    out.add_argument("--svg", metavar="FILE", help="draw the wait-for graph")
    out.add_argument("--html", metavar="FILE", help="write a page with verdict, graph and tables")
    out.add_argument(
        "--save", metavar="FILE", help="keep all that was read, for --load and `mqs diff` (.gz: compressed)"
    )


def which(text: str) -> int | str:
    """Return a PID as a number, anything else as it is."""
    if text.isascii() and text.isdigit():
        if int(text) == 0:
            raise argparse.ArgumentTypeError(f"{text!r} is not a PID")
        return int(text)
    return text


def _samples(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_SAMPLES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_SAMPLES}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Read a job and report the verdict, or list the jobs there are.

    Returns:
        The verdict's Outcome; EXIT_LISTED after a list.

    Raises:
        MqsError: there is no such job, or nothing of it can be read, or a file can't be written.
    """
    _check(options)
    if options.what is None and not options.core and not options.load:
        return _list_jobs()
    job = _obtain(options)
    if options.save:
        from mqs_dll.debugger.job import saved

        saved.save(job, options.save)
    from mqs_dll.verdict.conclude import conclude

    verdict = conclude(job)
    _write_pictures(options, job, verdict)
    _print(options, job, verdict)
    if not options.load:
        _hint(job)
    return int(verdict.outcome)


def _check(options: argparse.Namespace) -> None:
    if sum(map(bool, (options.what, options.core, options.load))) > 1:
        options.usage_error("name one job: by PID or program, by --core, or by --load")
    if options.sysroot and not options.core:
        options.usage_error("--sysroot goes with --core")
    for option in ("no_stop", "no_count"):
        if (options.core or options.load) and getattr(options, option):
            options.usage_error(f"--{option.replace('_', '-')} is for a job that runs")


def _list_jobs() -> int:
    from mqs_dll.debugger.job.find import find_jobs
    from mqs_dll.report import listing, terminal

    terminal.console().print(listing.render(find_jobs()))
    return EXIT_LISTED


# ---------------------------------------------------------------- where it comes from


def _obtain(options: argparse.Namespace) -> Job:
    if options.load:
        from mqs_dll.debugger.job import saved

        return saved.load(options.load)
    open_queues = which_library.opener(options.dll, direct=options.direct, queues=not options.no_queues)
    from mqs_dll.report.progress import ranks_done

    with ranks_done() as on_progress:
        if options.core:
            from mqs_dll.debugger.job.cores import read_cores

            return read_cores(
                options.core,
                open_queues,
                look_further=which_library.windows(),
                sysroot=options.sysroot,
                stacks=not options.no_stacks,
                on_progress=on_progress,
            )
        from mqs_dll.debugger.job.find import find_job
        from mqs_dll.debugger.job.read import read_job

        return read_job(
            find_job(options.what),
            open_queues,
            look_further=None if options.no_queues else which_library.windows(),
            samples=options.samples or LOOKS,
            doubtful=is_suspected if options.samples is None else None,
            interval=options.interval,
            stop=not options.no_stop,
            stacks=not options.no_stacks,
            count=not options.no_count,
            limit=limit_of(options),
            on_progress=on_progress,
        )


def is_suspected(job: Job) -> bool:
    """Tell whether something about a job is suspected, and nothing is proved: it may pass."""
    from mqs_dll.verdict.conclude import conclude
    from mqs_dll.verdict.results import Outcome

    return conclude(job).outcome is Outcome.SUSPECTED


# ---------------------------------------------------------------- where it goes


def _write_pictures(options: argparse.Namespace, job: Job, verdict: Verdict) -> None:
    if options.svg:
        from mqs_dll.report import svg

        _write(options.svg, svg.render(job, verdict))
    if options.html:
        from mqs_dll.report import html

        _write(options.html, html.render(job, verdict))


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"{path} can't be written: {error.strerror}") from error


def _print(options: argparse.Namespace, job: Job, verdict: Verdict) -> None:
    if options.json:
        from mqs_dll.report import json

        print(json.render(job, verdict))
    elif options.csv:
        from mqs_dll.report import csv

        sys.stdout.write(csv.render(job, verdict))
    elif options.dot:
        from mqs_dll.report import dot

        sys.stdout.write(dot.render(job, verdict))
    elif "-" not in (options.svg, options.html, options.save):
        from mqs_dll.report import terminal, text

        terminal.console().print(text.render(job, verdict, everything=options.all_ranks))


def _hint(job: Job) -> None:
    """Say on standard error what would show more of this job."""
    from mqs_dll.debugger.job.stacks.python import missing_for
    from mqs_dll.debugger.snapshot import Hidden

    last = [process.samples[-1].stacks for process in job.processes if process.samples]
    missing = missing_for(stack for stacks in last if not isinstance(stacks, Hidden) for stack in stacks)
    if missing:
        print(f"mqs: {missing}", file=sys.stderr)
