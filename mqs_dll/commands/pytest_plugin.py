"""A plugin for pytest: says why an MPI job hangs that a test has started, and ends it, so that the test fails.

``pytest --mqs`` turns it on. When a test takes long, the job below it is judged as ``mqs job`` does it, in a process of
its own, again and again at growing intervals; only a proof ends it. Nothing else of the tests changes. A test whose job
hangs on purpose, or for long, has a time of its own: ``@pytest.mark.mqs_after("10m")``.
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
        self._said = ""
        """The report on the job of the test that runs, where it was proved to be stuck."""

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
        self._said = ""
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
            report.longrepr = f"{self._said}\n\n{report.longreprtext}"
            self._said = ""

    def _watch(self, is_over: threading.Event, wait: float) -> None:
        """Judge the job until it is stuck, or the test is over."""
        while not is_over.wait(wait):
            if self._judge():
                return
            wait *= 2

    def _judge(self) -> bool:
        """Judge the job below this process; return whether it was stuck, and was ended."""
        command = [sys.executable, "-m", "mqs_dll", "job"]
        with tempfile.TemporaryDirectory(prefix="mqs-pytest-") as folder:
            file = f"{folder}/job.json.gz"
            try:
                seen = _output([*command, str(os.getpid()), "--json", "--save", file])
                if seen.returncode != Outcome.PROVED:
                    return False
                document = json.loads(seen.stdout)
                self._said = _output([*command, "--load", file]).stdout
            except (OSError, ValueError, subprocess.SubprocessError):
                return False
        for pid in (document["job"]["launcher"], *(each["pid"] for each in document["processes"])):
            with suppress(ProcessLookupError, PermissionError):
                if pid and pid != os.getpid():
                    os.kill(pid, signal.SIGTERM)
        return True


def _output(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Return what a command has printed, and its exit code."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
