"""Whose code a frame runs: the program's, its MPI's, the C library's, or Python's own."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Protocol

import drgn

from mqs_dll.debugger.inside import File
from mqs_dll.debugger.job.function_names import MPI_FILES, RUNTIME_FILES
from mqs_dll.debugger.live import LiveImage
from mqs_dll.debugger.proc import DELETED
from mqs_dll.job.records import CodeOwner

_POOL_FILES = ("libgomp.", "libiomp5.", "libomp.", "libopenblas", "libscipy_openblas", "libmkl_", "libblis.", "libtbb.")
"""Libraries whose threads run what some thread of the program's gives them, and nothing of their own."""
_TRANSPORT_FILES = (
    *("libucp.", "libuct", "libucs", "libucm", "libfabric.", "libevent", "libhwloc.", "libibverbs.", "librdmacm."),
    *("libpsm", "libmlx", "libefa", "libcuda.", "libze_"),
)
"""Libraries that MPIs stand on, beside their own files. Their threads move data, and call no MPI function."""
_PYTHON_FOLDERS = {"lib-dynload", "mpi4py"}
"""Where the modules in C lie that come with Python, and mpi4py's."""
_PYTHON_PROGRAM = re.compile(r"python[\d.]*")


class MappedProcess(Protocol):
    """What a process and one that left a core file have in common: live.LiveProcess, core.process.CoreProcess."""

    @property
    def program(self) -> drgn.Program:
        """What drgn knows of it."""
        ...

    @property
    def image(self) -> LiveImage:
        """What is loaded in it."""
        ...

    def fetch(self, address: int, size: int) -> bytes:
        """Return its memory, or raise TargetReadError."""
        ...


class Modules:
    """The modules of one process."""

    def __init__(self, process: MappedProcess) -> None:
        """Find the module that has the MPI in it, and the one that has Python."""
        self.process = process
        self._mpi = self._defining("PMPI_Init")
        self._python = self._defining("Py_BytesMain", "Py_Main")
        self._main = _main_module(process.program)
        self._calls: dict[str, bool] = {}

    @property
    def mpi(self) -> drgn.Module | None:
        """The module that has the MPI's functions: a library, or the program itself. None where no symbol is known."""
        return self._mpi

    def at(self, address: int) -> drgn.Module | None:
        """Return the module that an address lies in, when its file could be read; None for any other address."""
        try:
            module = self.process.program.module(address)
        except LookupError:
            return None
        return None if module.loaded_file_path is None and module.wants_loaded_file() else module

    def file_of(self, module: drgn.Module) -> File | None:
        """Return the file of a module, None where that wasn't found."""
        return self.process.image.file_of(module)

    def owner(self, module: drgn.Module) -> CodeOwner:
        """Return whose code a module has."""
        name = base_name(module)
        if name.startswith(RUNTIME_FILES):
            return CodeOwner.RUNTIME
        if self._python is not None and self._is_python(module):
            return CodeOwner.PYTHON
        if self.is_main(module):
            return CodeOwner.PROGRAM
        if module == self._mpi or name.startswith(MPI_FILES):
            return CodeOwner.MPI
        return CodeOwner.PROGRAM

    def calls_nothing(self, module: drgn.Module) -> bool:
        """Return whether a thread that has no other modules on its stack makes no MPI call of its own accord.

        It waits for work in a library, or moves data for the MPI.
        """
        name = base_name(module)
        return self.owner(module) in (CodeOwner.MPI, CodeOwner.RUNTIME) or name.startswith(
            _POOL_FILES + _TRANSPORT_FILES
        )

    @property
    def has_python(self) -> bool:
        """Whether a Python interpreter is in the process."""
        return self._python is not None

    @property
    def program_file(self) -> str | None:
        """The path of the program's own file, None where that wasn't found."""
        return self._main.loaded_file_path if self._main is not None else None

    def is_main(self, module: drgn.Module) -> bool:
        """Return whether a module is the program's own file."""
        return self._main is not None and module == self._main

    def has_mpi_function(self, name: str) -> bool:
        """Return whether the MPI itself defines a function; a profiling layer's or a user's own don't count."""
        known = self._calls.get(name)
        if known is None:
            profiled = self.process.image.find_function(f"P{name}")
            known = self._calls[name] = profiled is not None and self.at(profiled) == self._mpi is not None
        return known

    def _is_python(self, module: drgn.Module) -> bool:
        path = PurePath(module.name)
        is_program = self.is_main(module) and _PYTHON_PROGRAM.fullmatch(path.name) is not None
        return module == self._python or is_program or not _PYTHON_FOLDERS.isdisjoint(path.parts)

    def _defining(self, *names: str) -> drgn.Module | None:
        for name in names:
            address = self.process.image.find_function(name)
            if address is not None:
                return self.at(address)
        return None


def base_name(module: drgn.Module) -> str:
    """Return the name of a module's file, which may have been removed since, without its directory."""
    return PurePath(module.name).name.removesuffix(DELETED)


def _main_module(program: drgn.Program) -> drgn.Module | None:
    try:
        return program.main_module()
    except LookupError:
        return None
