"""Small programs to debug that know nothing of MPI (tests/targets), and debuggers in processes of their own."""

from __future__ import annotations

import enum
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import SkipTest

from mqs_dll.contract.interface import TargetImage
from mqs_dll.debugger import library_path
from mqs_dll.debugger.proc import read_file, read_stat, thread_ids
from mqs_dll.library.layouts.layout import StructLayout

if TYPE_CHECKING:
    import pytest

Seen = TypeVar("Seen")


class Plan(enum.IntEnum):
    """What tests/targets/vendor.c does, by the process's variable "plan"."""

    SHOW = 0
    HIDE_QUEUES = 1
    FAIL_QUEUES = 2
    BREAK_QUEUES = 3
    ODD_STATUS = 4
    READ_WILDLY = 5
    GO_ON_FOREVER = 6
    HANG = 7


ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parents[1] / "targets"
RUNNING = {"R", "S"}
"""States of threads that nobody has stopped."""

DEADLINE = 60.0
"""Seconds after which a state that has to come is given up."""


def python_code(text: str) -> list[str]:
    """Return what runs some Python that finds the tests' modules, and the package where it was installed."""
    return [sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r})\n{text}"]


def python_module(name: str) -> list[str]:
    """Return what runs a module of the tests', as ``python -m`` does; arguments may follow."""
    return python_code(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)")


def compile_target(output: Path, source: str, *options: str) -> Path:
    """Return ``output``, compiled from a file of tests/targets; skips the test where there is no gcc."""
    if shutil.which("gcc") is None:
        raise SkipTest("gcc is not on this machine: apt-get install gcc libc6-dev")
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *warnings, str(SOURCES / source), "-o", str(output), *options], check=True)
    return output


def compile_vendor(output: Path, *options: str) -> Path:
    """Return ``output``, the MQS library of vendor.c."""
    return compile_target(output, "vendor.c", "-shared", "-fPIC", f"-I{library_path.header().parent}", *options)


@contextmanager
def running(
    program: Path | str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    user: int | None = None,
    folder: str | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Start a program, wait until it says that it is ready, and kill it at the end.

    Args:
        program: its path, or its name for PATH.
        arguments: of it.
        environment: what it has beside ours.
        user: who runs it, with the group of that number and no other; None for us.
        folder: where it starts, None for here.
    """
    process = subprocess.Popen(
        [str(program), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        cwd=folder,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("ready")
            yield process
        finally:
            process.kill()


def states(pid: int) -> set[str]:
    """Return the states of all threads of a process, as in /proc; X where it is gone."""
    return {stat.state for stat in map(read_stat, thread_ids(pid)) if stat is not None} or {"X"}


def command_line(pid: int) -> str:
    """Return a process's arguments, each with a NUL at its end; nothing where it has ended."""
    with suppress(OSError):
        return read_file(f"/proc/{pid}/cmdline").decode(errors="replace")
    return ""


def session_of(pid: int) -> int:
    """Return the session that a process is in, 0 where it has ended."""
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return 0


def links_of(pid: int) -> set[str]:
    """Return what a process has open, by the names that the kernel gives; what it closes meanwhile may be missing."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return found


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def is_readable(descriptor: int, until: float) -> bool:
    """Wait until there is something to read, or until a moment of the monotonic clock; return which.

    By poll, for which a descriptor may be large: processes that were read leave files open for a while.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * max(until - time.monotonic(), 0.0)))


def poll_until(read: Callable[[], Seen], enough: Callable[[Seen], object]) -> Seen:
    """Look again and again until what is seen is enough; return it."""
    seen = read()
    deadline = time.monotonic() + DEADLINE
    while not enough(seen):
        assert time.monotonic() < deadline, f"it never came; last seen: {seen}"
        time.sleep(0.005)
        seen = read()
    return seen


def ctrl_c_at(monkeypatch: pytest.MonkeyPatch, where: object, name: str, moment: str) -> list[str]:
    """Have Ctrl-C strike once, "before" or "after" a function of ``where`` does its work; return whether it did."""
    function: Callable[..., Any] = getattr(where, name)
    struck: list[str] = []

    def strike(now: str) -> None:
        if now == moment and not struck:
            struck.append(now)
            signal.raise_signal(signal.SIGINT)

    def act(*arguments: Any, **options: Any) -> Any:
        strike("before")
        result = function(*arguments, **options)
        strike("after")
        return result

    monkeypatch.setattr(where, name, act)
    return struck


class OtherProcess:
    """A child that runs a function; what the function yields first and what it ends with come back as text."""

    def __init__(self, function: Callable[[], Iterator[None]]) -> None:
        """Start, and wait until the function has yielded or ended."""
        self._from_child, to_parent = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._from_child)
            _run(function, to_parent)
        os.close(to_parent)
        self.report = os.read(self._from_child, 4096).decode()

    def end(self) -> None:
        """Kill the child."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._from_child)


def _run(function: Callable[[], Iterator[None]], to_parent: int) -> None:
    try:
        for _ in function():
            os.write(to_parent, b"holding")
            signal.pause()
        os.write(to_parent, b"done")
    except BaseException as error:
        os.write(to_parent, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


@contextmanager
def other_process(function: Callable[[], Iterator[None]]) -> Iterator[OtherProcess]:
    """Run a function in a child, and end the child at the end."""
    child = OtherProcess(function)
    try:
        yield child
    finally:
        child.end()


class WithTypes:
    """The image of a stripped process, with the types that a debugger would have if there were debug information."""

    def __init__(self, image: TargetImage, types: Mapping[str, StructLayout], *, can_tell_sizes: bool = True) -> None:
        self._types = types
        self._can_tell_sizes = can_tell_sizes
        self.find_function = image.find_function
        self.find_symbol = image.find_symbol

    def find_type(self, name: str) -> StructLayout | None:
        """Return a struct's layout as the handle of its type."""
        return self._types.get(name)

    def field_offset(self, handle: StructLayout, field: str) -> int | None:
        """Return a member's offset."""
        return handle.offsets.get(field)

    def type_size(self, handle: StructLayout) -> int | None:
        """Return the struct's size, or None as debuggers without mqs_sizeof_fp do."""
        return handle.size if self._can_tell_sizes else None
