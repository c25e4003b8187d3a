"""A plugin for pytest: says why an MPI job hangs that a test has started, and ends it, so that the test fails.

``pytest --mqs`` turns it on. When a test takes long, each job below it is judged as ``mqs job`` does it, by a process
of its own, again and again at growing intervals; only a proof ends it. Nothing else of the tests changes. A test whose
job hangs on purpose, or for long, has a time of its own: ``@pytest.mark.mqs_after("10m")``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from mqs_dll.commands.times import seconds
from mqs_dll.verdict.results import Outcome

NAME = "mqs-jobs"
"""What pytest knows it by once it is turned on."""
MARKER = "mqs_after"
_PATIENCE = 120.0
"""Seconds for one verdict."""
_LIST = """
import sys
from mqs_dll.debugger.job.find import jobs_of_process
print(*jobs_of_process(int(sys.argv[1])))
"""
"""Prints the PIDs of jobs; what that imports stays out of the process of the tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("mqs", "MPI jobs that hang in tests")
    group.addoption("--mqs", action="store_true", help="say why an MPI job hangs that a test has started, and end it")
    group.addoption(
        "--mqs-after", type=seconds, default=60.0, metavar="TIME", help="judge the job of a test that takes longer (1m)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Turn it on if that was asked for."""
    declare(config)
    if config.getoption("--mqs"):
        config.pluginmanager.register(Plugin(config.getoption("--mqs-after")), NAME)


def declare(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}(time): judge the job of this test after another time than --mqs-after"
    )


class Plugin:
    """Watches the tests of this process, one after the other."""

    def __init__(self, after: float) -> None:
        """Begin.

        Args:
            after: seconds that a test may take until its job is judged.
        """
        self._after = after
        self._said: dict[int, str] = {}
        """The reports on the jobs of the test that runs that were proved to be stuck, by the PID of the launcher."""

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Let a test fail whose marker has no time."""
        try:
            self._after_of(item)
        except (IndexError, TypeError, argparse.ArgumentTypeError) as error:
            pytest.fail(f"{MARKER} takes a time such as 90s or 10m: {error}", pytrace=False)

    def _after_of(self, item: pytest.Item) -> float:
        marker = item.get_closest_marker(MARKER)
        return self._after if marker is None else seconds(marker.args[0])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Watch a test with its fixtures."""
        self._said = {}
        is_over = threading.Event()
        after = self._after
        with suppress(IndexError, TypeError, argparse.ArgumentTypeError):
            after = self._after_of(item)
        thread = threading.Thread(target=self._watch, args=(is_over, after), daemon=True, name="mqs")
        thread.start()
        yield
        is_over.set()
        thread.join(_PATIENCE)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Begin the text of a failure with what was found."""
        outcome = yield
        report = outcome.get_result()
        if report.failed and self._said:
            report.longrepr = "\n\n".join((*self._said.values(), report.longreprtext))
            self._said = {}

    def _watch(self, is_over: threading.Event, wait: float) -> None:
        """Judge the jobs below this process until the test is over."""
        while not is_over.wait(wait):
            for pid in _jobs():
                if pid not in self._said and not is_over.is_set():
                    self._judge(pid)
            wait *= 2

    def _judge(self, job: int) -> None:
        """Judge a job, by the PID of its launcher, and end it if it is stuck."""
        command = [sys.executable, "-m", "mqs_dll", "job"]
        with tempfile.TemporaryDirectory(prefix="mqs-pytest-") as folder:
            file = f"{folder}/job.json.gz"
            try:
                seen = _output([*command, str(job), "--json", "--save", file])
                if seen.returncode != Outcome.PROVED:
                    return
                document = json.loads(seen.stdout)
                self._said[job] = _output([*command, "--load", file]).stdout
            except (OSError, ValueError, subprocess.SubprocessError):
                return
        for pid in (document["job"]["launcher"], *(each["pid"] for each in document["processes"])):
            with suppress(ProcessLookupError, PermissionError):
                if pid and pid != os.getpid():
                    os.kill(pid, signal.SIGTERM)


def _jobs() -> list[int]:
    """Return the PIDs of the launchers of the jobs that this process belongs to or has started."""
    try:
        return [int(each) for each in _output([sys.executable, "-c", _LIST, str(os.getpid())]).stdout.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _output(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Return what a command has printed, and its exit code."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
