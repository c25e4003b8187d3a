"""Debian's gdb in batch mode, with the line that ``mqs gdb-init`` prints."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

SECONDS = 120


def gdb(*commands: str, program: str | None = None) -> str:
    """Return what gdb prints while it runs some commands; whatever it holds goes on afterwards."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not on this machine: apt-get install gdb")
    settings = ("set debuginfod enabled off", f"set tcp connect-timeout {SECONDS}")
    arguments = ["gdb", "-nx", "-batch", *(word for each in settings for word in ("-iex", each)), "-ex", _line()]
    arguments += [each for command in commands for each in ("-ex", command)]
    result = subprocess.run(
        [*arguments, *([program] if program else [])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return result.stdout + result.stderr


@cache
def _line() -> str:
    """Return the line for ~/.gdbinit."""
    command = [sys.executable, "-m", "mqs_dll", "gdb-init"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def gdbserver(pid: int) -> Iterator[str]:
    """Attach a gdbserver to a process, and give where gdb reaches it."""
    if shutil.which("gdbserver") is None:
        pytest.skip("gdbserver is not on this machine: apt-get install gdbserver")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["gdbserver", "--once", "--attach", f"127.0.0.1:{port}", str(pid)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if re.search(rb"Listening on port", line):
                break
        yield f"127.0.0.1:{port}"
        server.terminate()
