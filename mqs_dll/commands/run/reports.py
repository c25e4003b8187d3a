"""What is said of a job that is watched, on standard error, and what is kept of it.

Other processes write all of it, and we wait for them so long and no longer: a pipe that nobody reads, a terminal that
Ctrl-S has stopped and a file system that doesn't answer must not keep a job from being ended.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from mqs_dll.commands.run.sampling import within
from mqs_dll.contract.errors import MqsError
from mqs_dll.verdict.results import Outcome

STUCK = {Outcome.PROVED: "the job is stuck for good", Outcome.SUSPECTED: "the job seems to be stuck"}
"""Why a job is reported that was sampled when it was due."""

PATIENCE = 120.0
"""Seconds that a report may take."""
_PATIENCE_FILE, _PATIENCE_LINE = 30.0, 2.0
"""The same of a file, and of a line."""

_JOB_IDS = (
    ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
    ("SLURM_JOB_ID",),
    ("PBS_JOBID",),
    ("LSB_JOBID", "LSB_JOBINDEX"),
    ("LSB_JOBID",),
    ("FLUX_JOB_ID",),
    ("JOB_ID", "SGE_TASK_ID"),
)
"""The variables in which batch systems have a job's number, and the index of an array's task (their manuals)."""
_NO_INDEX = {("LSB_JOBINDEX", "0"), ("SGE_TASK_ID", "undefined")}
"""Of a job that is no array."""


def say(text: str) -> None:
    """Print a line on standard error, which may be closed, full, or read by nobody."""
    within(_PATIENCE_LINE, lambda: _say(text), output=2)


def _say(text: str) -> int:
    from mqs_dll.contract.escape import visible

    with suppress(OSError):
        print(f"mqs: {visible(text)}", file=sys.stderr, flush=True)
    return 0


class _Saved(NamedTuple):
    job: Path
    stem: Path | None
    """Of the files where it is kept, None where they can't be written."""
    seconds: float
    """Since the start of the command."""

    @property
    def path(self) -> Path:
        """Where it can be loaded."""
        return Path(f"{self.stem}.json.gz") if self.stem else self.job

    @property
    def page(self) -> Path:
        """The same in HTML."""
        return Path(f"{self.stem}.html")


class Reports:
    """The reports on the jobs that a command has started."""

    def __init__(self, folder: Path, junit: str | None = None) -> None:
        """Begin.

        Args:
            folder: where they are saved.
            junit: the file for the last of each job as a test of JUnit's.
        """
        self._folder, self._junit, self._began = folder, junit, time.monotonic()
        self._saved: dict[int, _Saved] = {}
        """By the PID of the launcher."""
        self._shown: dict[int, Path] = {}
        self._kept: Counter[int] = Counter()
        """How often each was kept."""
        self._last: dict[Path, None] = {}

    def add(self, what: str, pid: int, job: Path) -> None:
        """Save a job, and print what is wrong with it; save and show have the arguments."""
        self.save(pid, job)
        self.show(what, pid)

    def save(self, pid: int, job: Path) -> None:
        """Save a job.

        Args:
            pid: of its launcher.
            job: where it was saved as it was sampled.
        """
        seconds = time.monotonic() - self._began
        stem = self._folder / f"mqs-run-{_name(pid)}-{datetime.now():%Y%m%dT%H%M%S}"
        kept = job.exists() and _keep(job, Path(f"{stem}.json.gz"))
        self._saved[pid] = _Saved(job, stem if kept else None, seconds)

    def show(self, what: str, pid: int) -> None:
        """Print what is wrong with a job that was saved last.

        Args:
            what: why it is reported now.
            pid: of its launcher.
        """
        saved = self._saved[pid]
        say(f"{what}, after {saved.seconds:.0f} s:")
        if not saved.path.exists():
            say("what was read can't be shown: there is no room for it in the folder for temporary files (TMPDIR)")
            return
        self._shown[pid] = saved.path
        within(PATIENCE, lambda: self._print(saved), output=2)
        if saved.stem:
            say(f"saved as {saved.path}{' and .html' if saved.page.exists() else ''}")

    def keep(self, pid: int, job: Path, most: int) -> None:
        """Keep a job that was read, and no more than the last few times of each."""
        path = self._folder / f"mqs-run-{_name(pid)}-last-{self._kept[pid] % most + 1}.json.gz"
        if _keep(job, path):
            self._kept[pid] += 1
            self._last[path] = None

    def forget(self) -> None:
        """Remove those that were kept."""
        for path in self._last:
            with suppress(OSError):
                path.unlink()

    def say_kept(self) -> None:
        """Say which were kept, the oldest first."""
        if self._last:
            say(f"kept what was read last: {', '.join(map(str, sorted(self._last, key=_age)))}")

    def _print(self, saved: _Saved) -> int:
        """Print a report; for GitHub and GitLab so that they show it where people look. Return the exit code.

        Where the page can't be written, all is printed nevertheless.
        """
        from mqs_dll.commands import cli

        if self._junit:
            _write_junit(self._junit, self._shown.values())
        on_gitlab = os.environ.get("GITLAB_CI") == "true"
        if on_gitlab:
            print(f"\x1b[0Ksection_start:{time.time():.0f}:mqs[collapsed=true]\r\x1b[0KWhere the ranks are", flush=True)
        load = ["job", "--load", str(saved.path)]
        code = cli.main([*load, "--html", str(saved.page)] if saved.stem else load)
        if code == cli.EXIT_UNREADABLE and saved.stem:
            code = cli.main(load)
        if on_gitlab:
            print(f"\x1b[0Ksection_end:{time.time():.0f}:mqs\r\x1b[0K", flush=True)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            _tell_github(saved.path)
        return code


def _age(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _write_junit(file: str, jobs: Iterable[Path]) -> None:
    from mqs_dll.job import files, saved
    from mqs_dll.report import ci
    from mqs_dll.verdict.conclude import conclude

    judged = []
    for path in jobs:
        with suppress(MqsError):  # somebody has removed it
            job = saved.load(str(path))
            judged.append((job, conclude(job)))
    try:
        if judged:
            files.write_out(file, ci.junit(*judged))
    except OSError as error:
        _say(f"{file} can't be written: {error.strerror}")


def _tell_github(job: Path) -> None:
    from mqs_dll.job import saved
    from mqs_dll.report import ci
    from mqs_dll.verdict.conclude import conclude

    read = saved.load(str(job))
    verdict = conclude(read)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        indented = textwrap.indent(ci.plain(read, verdict), "    ")
        with suppress(OSError), Path(summary).open("a") as file:
            file.write(f"### mqs\n\n{indented}\n")
    sys.stdout.write(ci.annotation(read, verdict, os.environ.get("GITHUB_WORKSPACE", "")))


def _keep(job: Path, path: Path) -> bool:
    """Copy a saved job; return whether that was done."""
    code = within(_PATIENCE_FILE, lambda: _copy(job, path), output=2)
    if code is None:
        say(f"{path} can't be written: its file system doesn't answer")
    return code == 0


def _copy(job: Path, path: Path) -> int:
    from mqs_dll.job.files import write_whole

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, job.read_bytes())
    except OSError as error:
        _say(f"{path} can't be written: {error.strerror}")
        return 1
    return 0


def _name(pid: int) -> str:
    """Return the name of a job for files: what the batch system calls it, and a PID, since a script may start several.

    A job that is queued again keeps its number: Slurm counts how often.
    """
    names = next((each for each in _JOB_IDS if all(map(os.environ.get, each))), ())
    words = [os.environ[name] for name in names if (name, os.environ[name]) not in _NO_INDEX]
    words = [word.partition(".")[0].replace("ƒ", "f") for word in words]  # PBS: 12[3].server; Flux: ƒ2AbC
    if restarts := os.environ.get("SLURM_RESTART_COUNT"):
        words.append(f"restart{restarts}")
    return "-".join(re.findall(r"[A-Za-z0-9_]+", " ".join([*words, str(pid)])))
