"""A live process as the target side of the MQS interface: symbols and types by drgn, memory by /proc/PID/mem.

Nothing here writes to the process or stops it (stop.py does that). Symbols come from the files of the program
and its libraries, stripped ones included; types only where debug information lies in those files or, found by
build ID or debug link, in the usual directories, or by build ID in a container's. Nothing is ever fetched over the
network.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import drgn

from mqs_dll.contract.errors import MqsError, NoSuchProcessError, ProcessError, TargetReadError
from mqs_dll.debugger.access import check_readable, not_permitted
from mqs_dll.debugger.bases import Closes, ReadInOnePiece, string_at
from mqs_dll.debugger.inside import File, MappedFiles, file_named, find_debug_files
from mqs_dll.debugger.proc import check_owner, read_status, start_time

logging.getLogger("drgn").addHandler(logging.NullHandler())  # else Python prints drgn's warnings on stderr

_FUNCTION_KINDS = frozenset({drgn.SymbolKind.FUNC, drgn.SymbolKind.IFUNC})
_VARIABLE_KINDS = frozenset({drgn.SymbolKind.OBJECT, drgn.SymbolKind.COMMON, drgn.SymbolKind.UNKNOWN})
_C_RUNTIME = ("ld-linux", "libc.", "libgcc_s.", "libgfortran.", "libm.", "libpthread.", "libstdc++.")
"""Libraries whose debug information, often installed and always large, holds no type of an MPI."""

MAX_VARIABLES = 1 << 12
"""Of an environment."""
_ENVIRON = ("environ", "__environ", "_environ")
"""The names by which C libraries export where it lies."""
_POINTER = 8


class _Known:
    """What was asked of some files before: a job has many processes of the same ones, and drgn's searches take long."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, frozenset[drgn.SymbolKind]], tuple[int, int] | None] = {}
        """By a symbol's name and kinds, the position of its module and its offset there, None where there is none."""
        self.lacking: set[str] = set()
        """Types that they don't have."""
        self.without_types: set[Hashable] = set()
        """Where debug information was looked for, and none found (MappedFiles.surroundings)."""


@lru_cache(maxsize=16)
def _known(files: Hashable) -> _Known:
    """Return what is known of some files, which nothing is at first."""
    return _Known()


class LiveImage:
    """The program and libraries that a process has loaded (interface.TargetImage).

    Modules are those of the moment when the image was made, in the order in which the dynamic linker searches
    them: the program, preloaded libraries, its libraries, and what it loaded later.
    """

    def __init__(
        self, program: drgn.Program, modules: Sequence[drgn.Module] | None = None, mapped: MappedFiles | None = None
    ) -> None:
        """Open the files of modules, or of all that a process has loaded, but no debug information yet.

        Args:
            program: of drgn's.
            modules: those whose files are wanted; of a process all.
            mapped: what finds a process's files.
        """
        self._mapped = mapped
        self.program = program
        """What drgn knows of the process: its modules, for call stacks."""
        program.language = drgn.Language.C  # a Fortran program's MPI is a C library all the same
        self._modules = [module for module, _ in program.loaded_modules()] if modules is None else list(modules)
        for module in self._modules:
            module.debug_file_status = drgn.ModuleFileStatus.DONT_WANT
        program.load_module_debug_info(*self._modules)
        self._types_loaded = False
        self._ranges = [ranges_of(module) for module in self._modules]
        self._known = _known(self._files())

    def file_of(self, module: drgn.Module) -> File | None:
        """Return the file that a module's symbols are read from, None where it has none."""
        known = self._mapped.of(module) if self._mapped else None
        return known or file_named(module.loaded_file_path)

    def unreadable_modules(self) -> list[str]:
        """Return the libraries whose files are gone or aren't those that were loaded: their symbols are missing."""
        return [module.name for module in self._modules if module.wants_loaded_file()]

    def debug_files(self) -> list[str]:
        """Return the files with debug information, each once."""
        self._load_types()
        return list(dict.fromkeys(str(module.debug_file_path) for module in self._modules if module.debug_file_path))

    def find_function(self, name: str) -> int | None:
        """Return the address of a function, or None when there is no such symbol."""
        return self._find(name, _FUNCTION_KINDS)

    def find_symbol(self, name: str) -> int | None:
        """Return the address of a variable, the executable's own definition first, or None."""
        return self._find(name, _VARIABLE_KINDS)

    def find_type(self, name: str) -> drgn.Type | None:
        """Return a C type by its name, or None where debug information lacks it or knows it by declaration only.

        What is damaged has nothing, either, and must not be in the way of those who do without.
        """
        try:
            self._load_types()
            found = None if name in self._known.lacking else self.program.type(name)
            return found if found is not None and _without_typedefs(found).is_complete() else None
        except Exception as error:  # drgn has no class for some of them
            if isinstance(error, LookupError | SyntaxError):
                self._known.lacking.add(name)
            return None

    def field_offset(self, handle: drgn.Type, field: str) -> int | None:
        """Return the offset in bytes of a member of a struct type, anonymous members' included, or None."""
        try:
            bits: int = _without_typedefs(handle).member(field).bit_offset
        except Exception:  # LookupError, TypeError, or what damaged debug information makes of it
            return None
        return bits // 8 if bits % 8 == 0 else None

    def type_size(self, handle: drgn.Type) -> int | None:
        """Return the size in bytes of a type, or None when it was declared but never defined."""
        try:
            size: int = drgn.sizeof(handle)
        except Exception:  # TypeError, or what damaged debug information makes of it
            return None
        return size

    def _find(self, name: str, kinds: frozenset[drgn.SymbolKind]) -> int | None:
        """Return the address of the definition that the dynamic linker would choose; a static one failing that."""
        places = self._known.places
        if (name, kinds) in places:
            place = places[name, kinds]
            return None if place is None else self._ranges[place[0]][0][0] + place[1]
        found = [symbol for symbol in self.program.symbols(name) if symbol.kind in kinds]
        if not found:
            places[name, kinds] = None
            return None
        first = min(found, key=self._search_order)
        address: int = first.address
        _, position = self._search_order(first)
        if position < len(self._modules):
            places[name, kinds] = position, address - self._ranges[position][0][0]
        return address

    def _search_order(self, symbol: drgn.Symbol) -> tuple[bool, int]:
        for position, ranges in enumerate(self._ranges):
            if any(start <= symbol.address < end for start, end in ranges):
                return symbol.binding == drgn.SymbolBinding.LOCAL, position
        return True, len(self._modules)

    def _files(self) -> Hashable:
        """Return what identifies the files: of the same ones, in the same order, the same can be said."""
        return tuple(
            (each.name, each.build_id or self.file_of(each), each.loaded_file_path, each.debug_file_path)
            for each in self._modules
        )

    def _load_types(self) -> None:
        """Look for debug information, at the first question about a type: most clients of stripped MPIs ask none."""
        if self._types_loaded:
            return
        self._types_loaded = True
        around = self._mapped.surroundings() if self._mapped else None
        if around in self._known.without_types:
            return
        wanted = [module for module in self._modules if not module.name.rpartition("/")[2].startswith(_C_RUNTIME)]
        for module in wanted:
            module.debug_file_status = drgn.ModuleFileStatus.WANT
        self.program.load_module_debug_info(*wanted)
        if around is not None and not any(module.debug_file_path for module in self._modules):
            self._known.without_types.add(around)
        self._known = _known(self._files())  # debug files have symbols that stripped ones lack


def _without_typedefs(type_: drgn.Type) -> drgn.Type:
    while type_.kind == drgn.TypeKind.TYPEDEF:
        type_ = type_.type
    return type_


class _Opened(NamedTuple):
    """What takes rights to open, before anything is parsed."""

    memory: int
    """The descriptor of /proc/PID/mem."""
    program: drgn.Program
    mapped: MappedFiles


_opened_before: dict[int, _Opened] = {}
"""Processes that were opened before root was given up (rights.py), by PID."""


def open_beforehand(pid: int, is_right: Callable[[], bool]) -> None:
    """Open a process for when we have given up root; nothing happens where it can't be opened.

    Args:
        pid: which process.
        is_right: returns, once it is open, whether it still is what was meant: it may have become another program.
    """
    with suppress(MqsError, OSError, ValueError):
        opened = _open(pid)
        if is_right():
            _opened_before[pid] = opened
        else:
            os.close(opened.memory)


class LiveProcess(Closes, ReadInOnePiece):
    """A process of this machine by its PID (interface.TargetProcess).

    It may run or stand still; what is read fits together only while it stands (stop.stopped). The memory is
    bound to the program that ran at construction: after an exec, or when the PID was given to another process,
    reads fail instead of giving another program's memory.

    Usable as a context manager that closes it.
    """

    def __init__(self, pid: int, started: int | None = None) -> None:
        """Open a process's memory and its modules' symbols.

        Args:
            pid: which process.
            started: when it was started, as proc.Stat has it, where that is known from before.

        Raises:
            NoSuchProcessError: there is no such process, it has exited, or its number is another's by now.
            NotPermittedError: the kernel keeps it closed to us.
            ForeignError: it is another user's, and we are root.
            WordSizeError: it isn't a process that libmqs can read.
            ProcessError: its modules can't be determined, perhaps because it has just started another program.
        """
        self.pid = pid
        self.started = start_time(pid) if started is None else started
        """When it was started, as proc.Stat has it: what distinguishes it from another that gets its number."""
        check_readable(pid)
        self._memory, program, mapped = _opened_before.pop(pid) if pid in _opened_before else _open(pid)
        self._image: LiveImage | None = None
        try:
            check_owner(read_status(pid).user, f"process {pid}")
            self._image = LiveImage(program, mapped=mapped)
            if start_time(pid) != self.started:  # all of the above went by the number
                raise NoSuchProcessError(f"process {pid} has exited, and another has its number now")
        except (OSError, ValueError, LookupError, drgn.FaultError) as error:  # as drgn raises them
            self.close()
            check_readable(pid)
            raise ProcessError(f"the modules of process {pid} can't be determined: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def image(self) -> LiveImage:
        """The image that the process runs, as long as it is open."""
        assert self._image is not None
        return self._image

    @property
    def program(self) -> drgn.Program:
        """What drgn knows of the process, as long as it is open."""
        return self.image.program

    def part(self, address: int, size: int) -> bytes:
        """Return what lies at an address, up to ``size`` bytes: less where the rest can't be read, or nothing."""
        try:
            return os.pread(self._memory, size, address)
        except (OSError, OverflowError):  # OverflowError: an address that no process has
            return b""

    def part_into(self, buffer: memoryview, address: int) -> int:
        """Copy what lies at an address, up to the size of a buffer; return how many bytes that are, as of ``part``."""
        try:
            return os.preadv(self._memory, [buffer], address)
        except (OSError, OverflowError):
            return 0

    def _read(self, address: int, size: int) -> bytes:
        return self.part(address, size)

    def close(self) -> None:
        """Let go of the process's memory, and of its files, of which drgn keeps dozens open. Idempotent."""
        self._image = None
        memory, self._memory = self._memory, -1
        if memory >= 0:
            os.close(memory)


def missing_files(image: LiveImage) -> str:
    """Return the end of a sentence on what was not found in an image, empty where all of its files were read."""
    missing = image.unreadable_modules()
    if not missing:
        return ""
    return f"; but {len(missing)} of its files can't be read or were replaced since, {missing[0]} among them"


def environment_variable(process: LiveProcess, name: str) -> bytes:
    """Return the value of a variable in a process's environment now; empty where it has none, or that can't be read.

    /proc/PID/environ shows what it was started with. What setenv(3) has made of that is where the variable ``environ``
    of its C library leads (POSIX.1, section 8.1).

    Args:
        process: it may run: what it changes meanwhile is not found, or read half.
        name: of the variable.
    """
    found = (process.image.find_symbol(symbol) for symbol in _ENVIRON)
    place = next((address for address in found if address is not None), None)
    wanted = f"{name}=".encode()
    try:
        address = 0 if place is None else _pointer(process, place)
        for _ in range(MAX_VARIABLES if address else 0):
            text = _pointer(process, address)
            if not text:
                break
            if process.fetch(text, len(wanted)) == wanted:
                return (string_at(process, text) or b"").removeprefix(wanted)
            address += _POINTER
    except TargetReadError:  # the end of a page, or of what it was
        pass
    return b""


def _pointer(process: LiveProcess, address: int) -> int:
    value: int = struct.unpack("<Q", process.fetch(address, _POINTER))[0]
    return value


def new_program() -> drgn.Program:
    """Return a program without modules, which will search for debug information on this machine alone."""
    program = drgn.Program()
    program.set_enabled_debug_info_finders(["standard"])  # not "debuginfod": never the network
    return program


def ranges_of(module: drgn.Module) -> Sequence[tuple[int, int]]:
    """Return where a module lies in memory: start and end of each range; none where that isn't known.

    drgn knows of more than one since 0.0.32.
    """
    if hasattr(module, "address_ranges"):
        return module.address_ranges or ()
    return (module.address_range,) if module.address_range else ()


def _open(pid: int) -> _Opened:
    """Open a process; nothing of it is parsed.

    Raises:
        NoSuchProcessError: it has just exited.
        NotPermittedError: the kernel keeps it closed to us.
    """
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise not_permitted(pid) from None
    except (FileNotFoundError, ProcessLookupError):
        raise NoSuchProcessError(f"process {pid} has just exited") from None
    program, mapped = new_program(), MappedFiles(pid)
    program.register_debug_info_finder("mapped", mapped.find, enable_index=0)
    find_debug_files(program, mapped.root)
    options = program.debug_info_options
    options.try_procfs = options.try_module_name = False  # the name is a path of the process's, not of ours
    try:
        program.set_pid(pid)
    except BaseException as error:
        os.close(memory)
        if isinstance(error, PermissionError):
            raise not_permitted(pid) from None
        if isinstance(error, OSError | ValueError):
            check_readable(pid)
            raise ProcessError(f"process {pid} can't be opened: {error}") from error
        raise
    return _Opened(memory, program, mapped)
