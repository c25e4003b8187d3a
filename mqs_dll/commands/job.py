"""``mqs job``: its arguments, where the job comes from, and where the report goes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mqs_dll.commands import nodes, which_library
from mqs_dll.commands.times import add_limit, is_number, limit_of, number, seconds
from mqs_dll.contract.errors import ReportError

if TYPE_CHECKING:
    from mqs_dll.debugger.job.read import Doubt
    from mqs_dll.job.found import FoundJob
    from mqs_dll.job.records import Job
    from mqs_dll.verdict.results import Verdict

EXIT_LISTED = 0

DESCRIPTION = """\
Report what is wrong with a job that hangs: which ranks wait for which, and why they wait for ever. mqs stops all ranks
for a moment, reads them and lets them continue; it writes nothing to them. Without a PID, a program or a file it lists
the MPI jobs of this machine."""

EPILOG = """\
exit codes: 0 nothing is stuck; 1 a deadlock or a mismatch is proved; 2 one is suspected; 3 the job could not be
read; 14 the ranks reached the longest stop time (--limit)"""

SAMPLES = 2
_MAX_SAMPLES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.set_defaults(usage_error=parser.error)
    where = parser.add_argument_group("which job")
    where.add_argument(
        "what",
        nargs="?",
        type=which,
        metavar="PID|PROGRAM",
        help="the PID of its launcher or of a rank, or its program's name",
    )
    where.add_argument("--core", nargs="+", metavar="[NODES:]FILE", help="read core files of its ranks instead")
    where.add_argument("--sysroot", type=Path, metavar="DIR", help="the folder with their program and libraries")
    where.add_argument("--load", metavar="FILE", help="judge a job that --save wrote, instead")

    how = parser.add_argument_group("how to read it")
    how.add_argument("--no-stop", action="store_true", help="read it while it runs; what mqs sees may not fit together")
    how.add_argument("--no-stacks", action="store_true", help="read no call stacks")
    how.add_argument(
        "--no-count",
        action="store_true",
        help="don't have the kernel count who leaves an MPI call between two samples; some proofs become suspicions",
    )
    how.add_argument("--dry-run", action="store_true", help="print which ranks are found and where; stop and read none")
    how.add_argument("--no-queues", action="store_true", help=argparse.SUPPRESS)  # for developers
    add_limit(how)
    how.add_argument(
        "--samples",
        type=_samples,
        metavar="N",
        help="take N samples (default: 2, and up to 6 more while something is only suspected)",
    )
    how.add_argument(
        "--interval",
        type=seconds,
        default=0.5,
        metavar="TIME",
        help="time between samples, such as 2s (default: 500ms)",
    )
    which_library.add_arguments(how)
    nodes.add_arguments(parser)
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report`` to a parser."""
    out = parser.add_argument_group("what to print and to write")
    out.add_argument("--all-ranks", action="store_true", help="also print every rank with all of its queues")
    form = out.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON (docs/json-schema.md)")
    form.add_argument(
        "--csv", action="store_true", help="print a row for each wait and each message, for a spreadsheet"
    )
    form.add_argument("--tree", action="store_true", help="print where all ranks are, as one tree of calls")
    form.add_argument("--dot", action="store_true", help="print the wait-for graph in Graphviz's language")
    out.add_argument(
        "--all-frames",
        action="store_true",
        help="with --tree, --folded and --speedscope: also functions inside of MPI calls and of the interpreter",
    )
    out.add_argument("--folded", metavar="FILE", help="write the call tree for flame graphs, a line for each path")
    out.add_argument("--speedscope", metavar="FILE", help="write the call tree as JSON for speedscope.app")
    out.add_argument("--svg", metavar="FILE", help="draw the wait-for graph")
    out.add_argument("--html", metavar="FILE", help="write a page with verdict, graph and tables")
    out.add_argument("--junit", metavar="FILE", help="write the verdict as a test of JUnit's")
    out.add_argument(
        "--save", metavar="FILE", help="keep all that was read, for --load and `mqs diff` (.gz: compressed)"
    )


def which(text: str) -> int | str:
    """Return a PID as a number, anything else as it is."""
    return number(text) if is_number(text) else text


def _samples(text: str) -> int:
    return number(text, f"a number from 1 to {_MAX_SAMPLES}", most=_MAX_SAMPLES)


def run(options: argparse.Namespace) -> int:
    """Read a job and report the verdict, or list the jobs there are.

    Returns:
        The verdict's Outcome; EXIT_LISTED after a list.

    Raises:
        MqsError: there is no such job, or nothing of it can be read, or a file can't be written.
    """
    _check(options)
    if options.what is None and not (options.core or options.load or nodes.are_named(options)):
        list_jobs()
        return EXIT_LISTED
    if options.dry_run:
        return _show_found(options)
    job = _obtain(options)
    code = report(options, job)
    if not options.load:
        _hint(job)
    return code


def report(options: argparse.Namespace, job: Job) -> int:
    """Write all that the options of ``add_output`` ask for.

    Returns:
        The verdict's Outcome.

    Raises:
        MqsError: a file can't be written.
    """
    if options.save:
        from mqs_dll.job import saved

        saved.save(job, options.save)
    from mqs_dll.job.shared import garbage_left_alone
    from mqs_dll.verdict.conclude import conclude

    with garbage_left_alone():
        verdict = conclude(job)
        _write_pictures(options, job, verdict)
        _print(options, job, verdict)
    return int(verdict.outcome)


def _check(options: argparse.Namespace) -> None:
    if sum(map(bool, (options.what, options.core, options.load))) > 1:
        options.usage_error("name one job: by PID or program, by --core, or by --load")
    if options.sysroot and not options.core:
        options.usage_error("--sysroot goes with --core")
    way = () if options.core else nodes.WAY
    for option in ("no_stop", "no_count", "dry_run", *nodes.WHERE, *way):
        if (options.core or options.load) and getattr(options, option):
            options.usage_error(f"--{option.replace('_', '-')} is for a job that runs")


def list_jobs() -> list[FoundJob]:
    """Print the MPI jobs of this machine, and Slurm's; return the former."""
    from mqs_dll.debugger.job.find import find_jobs
    from mqs_dll.debugger.job.nodes import slurm
    from mqs_dll.report import listing, terminal

    found = find_jobs()
    terminal.console().print(listing.render(found, slurm.jobs()))
    return found


def _show_found(options: argparse.Namespace) -> int:
    from mqs_dll.debugger.job.ranks import ReadingOptions
    from mqs_dll.report import listing, terminal

    found, ranks = nodes.find_ranks(options, ReadingOptions())
    ranks.close()
    terminal.console().print(listing.render_found(found))
    return EXIT_LISTED


# ---------------------------------------------------------------- where it comes from


def _obtain(options: argparse.Namespace) -> Job:
    if options.load:
        from mqs_dll.job import saved

        return saved.load(options.load)
    from mqs_dll.report.progress import ranks_done

    if options.core:
        with ranks_done() as on_progress:
            return nodes.read_cores(options, on_progress)
    from mqs_dll.debugger.job.ranks import ReadingOptions
    from mqs_dll.debugger.job.read import JobReader, sample_on

    how = ReadingOptions(not options.no_stop, not options.no_stacks, not options.no_count, limit_of(options))
    found, ranks = nodes.find_ranks(options, how)
    with ranks_done() as on_progress, JobReader(found, ranks, on_progress=on_progress) as reader:
        doubtful = doubt_about if options.samples is None else None
        return sample_on(reader, [reader.sample()], options.samples or SAMPLES, options.interval, doubtful)


def doubt_about(job: Job, *, patient: bool = True) -> Doubt:
    """Return whether something about a job is suspected or unclear, and nothing is proved: it may pass.

    A collective call in which all are, and that nobody leaves, may take some seconds: that LASTS, for who is patient.

    Not where a rank is flooded with messages: it would stand for seconds again, and what isn't read stays so.
    """
    from mqs_dll.debugger.job.read import Doubt
    from mqs_dll.job.snapshot import Hidden
    from mqs_dll.verdict.conclude import conclude
    from mqs_dll.verdict.results import Cause, Certainty, Outcome

    verdict = conclude(job)
    flooded = any(finding.cause is Cause.FLOOD for finding in verdict.findings)
    unclear = verdict.outcome is Outcome.NOT_READ and all(
        process.samples and not isinstance(process.samples[-1].stacks, Hidden) for process in job.processes
    )
    if flooded or not (unclear or verdict.outcome is Outcome.SUSPECTED):
        return Doubt.NONE
    lasts = (
        patient
        and unclear
        and any((each.cause, each.certainty) == (Cause.KNOT, Certainty.NOTED) for each in verdict.findings)
    )
    return Doubt.LASTS if lasts else Doubt.PASSES


# ---------------------------------------------------------------- where it goes


def _write_pictures(options: argparse.Namespace, job: Job, verdict: Verdict) -> None:
    if options.svg:
        from mqs_dll.report import svg

        _write(options.svg, svg.render(job, verdict))
    if options.html:
        from mqs_dll.report import html

        _write(options.html, html.render(job, verdict))
    if options.junit:
        from mqs_dll.report import ci

        _write(options.junit, ci.junit((job, verdict)).decode())
    if options.folded or options.speedscope:
        from mqs_dll.job.call_tree import call_tree
        from mqs_dll.report import flame

        tree = call_tree(job, all_frames=options.all_frames)
        if options.folded:
            _write(options.folded, flame.folded(tree))
        if options.speedscope:
            _write(options.speedscope, flame.speedscope(job, tree))


def _write(path: str, text: str) -> None:
    from mqs_dll.job.files import write_out

    try:
        write_out(path, text.encode("utf-8", "backslashreplace"))
    except BrokenPipeError:
        raise  # whoever read the standard output has ended
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
    elif "-" not in (options.svg, options.html, options.junit, options.folded, options.speedscope, options.save):
        from mqs_dll.report import terminal, text

        shown = (
            text.render_tree(job, verdict, all_frames=options.all_frames)
            if options.tree
            else text.render(job, verdict, everything=options.all_ranks)
        )
        terminal.console().print(shown)


def _hint(job: Job) -> None:
    """Say on standard error what would show more of this job."""
    from mqs_dll.debugger.job.stacks.python import missing_for
    from mqs_dll.job.snapshot import Hidden

    last = [process.samples[-1].stacks for process in job.processes if process.samples]
    missing = missing_for(stack for stacks in last if not isinstance(stacks, Hidden) for stack in stacks)
    if missing:
        print(f"mqs: {missing}", file=sys.stderr)
