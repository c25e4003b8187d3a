"""``mqs watch --until-stuck``: watches a job that runs already as `mqs run` does, and ends when that is stuck."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from mqs_dll.commands.run.reports import STUCK, Reports
from mqs_dll.commands.run.watcher import Watcher
from mqs_dll.debugger.job.ending import runs
from mqs_dll.verdict.results import Outcome

_NAP = 0.2
"""Seconds."""


def wait(options: argparse.Namespace) -> int:
    """Wait until a job is stuck, and report it; or until it has ended.

    Args:
        options: of `mqs watch`.

    Returns:
        The verdict's Outcome; Outcome.NOTHING_STUCK where the job has ended.

    Raises:
        MqsError: there is no such job.
    """
    from mqs_dll.debugger.job.find import find_job
    from mqs_dll.debugger.proc import start_time

    found = find_job(options.what)
    pid = found.launcher or found.ranks[0].pid
    process = pid, start_time(pid)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqs-watch-")))
        watcher = Watcher(options, pid, folder)
        stack.callback(watcher.close)
        reports = Reports(options.report)
        while runs(process):
            watcher.act()
            outcome = _judged(watcher)
            if outcome is not None:
                reports.add(STUCK[outcome], pid, watcher.job)
                return int(outcome)
            time.sleep(min(watcher.seconds(), _NAP))
    return int(Outcome.NOTHING_STUCK)


def _judged(watcher: Watcher) -> Outcome | None:
    """Return what is to be reported now, None where there is nothing."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    sampled = watcher.ended(pid, status) if pid else None
    if sampled is None:
        return None
    is_due = watcher.note(sampled)
    return sampled.outcome if sampled.outcome is Outcome.PROVED or is_due else None
