"""The code of all files that a process has loaded, followed once for each place and remembered; and for how long."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import drgn

from mqs_dll.debugger.inside import File
from mqs_dll.debugger.job.stacks.arguments.code import Code
from mqs_dll.debugger.job.stacks.arguments.flow import Followed, Goal, UnknownWayError, follow
from mqs_dll.debugger.job.stacks.arguments.remember import remembered
from mqs_dll.debugger.job.stacks.modules import MappedProcess
from mqs_dll.debugger.live import ranges_of

_TWICE = ("setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp", "savectx", "vfork", "getcontext")
"""Functions that may return more than once."""


class TimeBudget:
    """For how long functions are followed that nobody remembers: a job's verdict must not wait for a second source.

    Seconds of a processor for the callee's side, whose functions are large; the caller's side needs little.
    """

    def __init__(self) -> None:
        """Initialize without a bound."""
        self._left = math.inf
        self._since: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether somebody waits."""
        return self._left != math.inf

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be followed."""
        return self._left <= (0.0 if self._since is None else time.thread_time() - self._since)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Set a bound for what is followed inside."""
        before, self._left = self._left, seconds
        try:
            yield
        finally:
            self._left = before

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Take what is used inside off the bound."""
        self._since = time.thread_time()
        try:
            yield
        finally:
            self._left -= time.thread_time() - self._since
            self._since = None


TIME_BUDGET = TimeBudget()
"""That of this process."""


class LoadedCode:
    """The code of one process."""

    def __init__(self, process: MappedProcess) -> None:
        """Initialize; nothing is read yet."""
        self._process = process
        self.fetch = process.fetch
        self._codes: dict[int, Code] = {}
        self._builds: dict[int, tuple[str, bool]] = {}
        found = {process.image.find_function(name) for name in _TWICE}
        self._twice = frozenset(address for address in found if address is not None)

    def code(self, address: int) -> tuple[Code, int]:
        """Return the code that an address of the process lies in, and the address as that file's own.

        Raises:
            UnknownWayError: it lies in none.
        """
        try:
            module = self._process.program.module(address)
        except LookupError:
            raise UnknownWayError("the code lies in no loaded file") from None
        ranges = ranges_of(module)
        if not ranges:
            raise UnknownWayError("the code lies in no loaded file")
        header = min(start for start, _ in ranges)
        if header not in self._codes:
            self._codes[header] = Code(self.fetch, header, _bias(module, header), self._twice)
            self._builds[header] = _build(module, self._process.image.file_of(module))
        code = self._codes[header]
        return code, code.own(address)

    def follow(self, code: Code, entry: int, goal: Goal) -> Followed:
        """Follow a function, as flow.follow, which says what is raised, but once for each place."""
        build, is_for_good = self._builds[code.header]
        return remembered(build, is_for_good, entry, goal, lambda: follow(code, entry, goal))


def _build(module: drgn.Module, file: File | None) -> tuple[str, bool]:
    """Return what identifies a loaded file, and whether it always will: its build ID, or where it lies."""
    if module.build_id is not None:
        return module.build_id.hex(), True
    if file is None:
        return f"{module.name} {id(module)}", False
    return f"{module.name} {file.device} {file.inode} {file.size} {file.changed}", False


def _bias(module: drgn.Module, header: int) -> int:
    known: int | None = module.loaded_file_bias
    return header if known is None else known
