"""Hostile text in saved jobs, agents' answers, environments and command lines: nothing runs, is written or grows."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.support.hostile_text import CHANGES, RUNS, TEXTS
from tests.support.targets import python_code, python_module

CASES = 20_000
"""In all; `python -m benchmarks.fuzz --text 1000000` tries as many as one likes."""

MAX_MIB = 150
"""Of memory in use, more than at the start: the largest of these inputs takes a few."""

MAX_SECONDS = 5.0
"""Of processor time, of a single one."""

PATIENCE = 600.0

ATTEMPTS = {
    "subprocess.Popen": "import subprocess; subprocess.run(['true'])",
    "os.system": "import os; os.system('true')",
    "os.posix_spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "os.exec": "import os; os.execv('/bin/true', ['true'])",
    "os.fork": "import os; os.fork()",
    "open": "open('here', 'w')",
    "os.mkdir": "import os; os.mkdir('here')",
    "os.rename": "import os; os.rename('here', 'there')",
    "socket.connect": "import socket; socket.socket().connect(('127.0.0.1', 9))",
}


def test_hostile_text_runs_nothing_and_is_read_or_refused() -> None:
    """Whatever a job, a node or a file says, is data: nothing runs, nothing is written, nothing grows."""
    done = subprocess.run(
        [*python_module("tests.support.hostile_text"), "--cases", str(CASES)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert not report["wrong"], report["first wrong"]
    assert sum(report["cases"].values()) == CASES
    for kind, count in report["cases"].items():
        assert report["refused"][kind] < 0.9 * count, f"most of {kind} is refused before it is used"
    assert report["MiB"] < MAX_MIB
    assert report["longest"] < MAX_SECONDS


@pytest.mark.parametrize("event", ATTEMPTS)
def test_what_runs_or_writes_is_noticed(event: str) -> None:
    """The hook that the cases are watched by hears of it before it happens, and no handler of errors hides it."""
    code = f"""
from tests.support.hostile_text import BannedError, Guard
guard = Guard()
guard.is_on = True
try:
    try:
        {ATTEMPTS[event]}
    except Exception:
        pass
except BannedError:
    guard.is_on = False
    print(guard.seen[0].split()[0])
"""
    done = subprocess.run(python_code(code), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.strip() == event, done.stderr
    assert event == "open" or event in RUNS | CHANGES


def test_the_texts_are_of_each_kind() -> None:
    """What does harm to ClusterShell, to a shell, to ssh, to a terminal, to parsers of JSON."""
    for part in ("@", "$(", "`", "%h", "\x1b", "\0", "9" * 400, "[" * 500, "-oProxyCommand"):
        assert any(part in text for text in TEXTS), part
