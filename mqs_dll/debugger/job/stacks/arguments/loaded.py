"""The code of all files that a process has loaded, followed once for each place and remembered."""

from __future__ import annotations

import os

import drgn

from mqs_dll.debugger.job.stacks.arguments.code import Code
from mqs_dll.debugger.job.stacks.arguments.flow import Followed, Goal, UnknownWayError, follow
from mqs_dll.debugger.job.stacks.arguments.remember import remembered
from mqs_dll.debugger.job.stacks.modules import MappedProcess

_TWICE = ("setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp", "savectx", "vfork", "getcontext")
"""Functions that may return more than once."""


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
        ranges = module.address_ranges
        if not ranges:
            raise UnknownWayError("the code lies in no loaded file")
        header = min(start for start, _ in ranges)
        if header not in self._codes:
            self._codes[header] = Code(self.fetch, header, _bias(module, header), self._twice)
            self._builds[header] = _build(module)
        code = self._codes[header]
        return code, code.own(address)

    def follow(self, code: Code, entry: int, goal: Goal) -> Followed:
        """Follow a function, as flow.follow, which says what is raised, but once for each place."""
        build, is_for_good = self._builds[code.header]
        return remembered(build, is_for_good, entry, goal, lambda: follow(code, entry, goal))


def _build(module: drgn.Module) -> tuple[str, bool]:
    """Return what identifies a loaded file, and whether it always will: its build ID, or where it lies."""
    if module.build_id is not None:
        return module.build_id.hex(), True
    try:
        stat = os.stat(module.loaded_file_path or "")  # noqa: PTH116
    except OSError:
        return f"{module.name} {id(module)}", False
    return f"{module.name} {stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}", False


def _bias(module: drgn.Module, header: int) -> int:
    known: int | None = module.loaded_file_bias
    return header if known is None else known
