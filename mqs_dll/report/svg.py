"""The wait-for graph of a job as SVG, drawn by Graphviz's program `dot`."""

from __future__ import annotations

import subprocess

from mqs_dll.debugger.job.records import Job
from mqs_dll.errors import GraphvizError
from mqs_dll.report import dot
from mqs_dll.verdict.results import Verdict

TIMEOUT = 120.0
"""Seconds; a picture's nodes and arrows are few, so that `dot` needs about one."""


def render(job: Job, verdict: Verdict, *, timeout: float = TIMEOUT) -> str:
    """Return the graph of who waits for whom as a document of SVG.

    Raises:
        GraphvizError: `dot` isn't installed, failed, or took longer than ``timeout`` seconds.
    """
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"],
            input=dot.render(job, verdict),
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        raise GraphvizError(f"Graphviz's program dot can't be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise GraphvizError(f"Graphviz's program dot did not end within {timeout:g} s") from error
    if done.returncode != 0:
        raise GraphvizError(f"Graphviz's program dot failed: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout
