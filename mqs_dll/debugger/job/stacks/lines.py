"""Source files and lines of a program's code, by the debug information of its file: opened once for all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import drgn

from mqs_dll.debugger.inside import File, find_debug_files
from mqs_dll.debugger.live import new_program, ranges_of

_MAX_FILES = 32


class SourceLine(NamedTuple):
    """One function at an address, which the compiler may have put into another one."""

    function: str
    file: str
    line: int


def lines_at(module: drgn.Module, address: int, file: File | None) -> tuple[SourceLine, ...]:
    """Return the functions at an address of a module, innermost first; none without debug information.

    Args:
        module: of a process or a core file.
        address: in the process.
        file: the module's.
    """
    bias, range_ = module.loaded_file_bias, ranges_of(module)
    if file is None or bias is None or not range_:
        return ()
    linked = _Linked(file, module.build_id, range_[0][0] - bias, range_[-1][1] - bias)
    return tuple(_lines(_open(linked), address - bias))


class _Linked(NamedTuple):
    file: File
    build_id: bytes | None
    start: int
    end: int


@lru_cache(_MAX_FILES)
def _open(linked: _Linked) -> drgn.Program | None:
    """Return a program with nothing but this file in it, at the addresses that it was linked for.

    drgn opens debug information once for each program; that of a large application takes seconds, and its ranks all
    run the same file.
    """
    descriptor = linked.file.open()
    if descriptor is None:
        return None
    program = new_program()
    if linked.file.root:
        find_debug_files(program, linked.file.root)
    module = program.extra_module(linked.file.path, create=True)
    module.address_range = (linked.start, linked.end)
    module.build_id = linked.build_id
    try:
        module.try_file(linked.file.path, fd=descriptor)
        if module.wants_debug_file():
            program.load_module_debug_info(module)
    except Exception:  # drgn's errors for a file that isn't well-formed have no class of their own
        return None
    return program if module.debug_file_path else None


def _lines(program: drgn.Program | None, address: int) -> Iterator[SourceLine]:
    if program is None:
        return
    try:
        trace = program.stack_trace_from_pcs([address + 1])  # drgn takes it for a return address
    except Exception:  # as above
        return
    for frame in trace:
        try:
            file, line, _ = frame.source()
        except LookupError:
            return
        yield SourceLine(frame.function_name or "", file, line)
