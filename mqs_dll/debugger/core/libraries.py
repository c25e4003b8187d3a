"""The files that a core's process had loaded, as far as this machine has them: found by path, believed by build.

A core leaves out what is still as it is in a file: code and read-only data. It holds the first page of each program and
library, though (bit 4 of coredump_filter, set by default), and that shows the build: by the linker's build-id, or where
a library has none, by the page itself, which has the sizes of all segments.
Source: core(5), "Controlling which mappings are written to the core dump"; the ELF-64 object file format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import CoreError
from mqs_dll.debugger.core.core_file import CoreFile
from mqs_dll.debugger.core.notes import MappedFile
from mqs_dll.debugger.proc import DELETED

_PAGE = 4096


class Presence(Enum):
    """What became of the search for one file."""

    AT_HAND = "at hand"
    MISSING = "not on this machine"
    DIFFERENT = "another build on this machine"
    UNKNOWN = "of a build that the core doesn't name"


class CoreLibrary(NamedTuple):
    """A program or library of the core's process."""

    name: str
    """Its path when the core was written."""
    presence: Presence
    path: Path | None
    """Where it is now; None unless it is at hand."""


class Libraries:
    """Finds the files of a core's process, each of exactly the build that the process had loaded."""

    def __init__(self, core: CoreFile, sysroot: Path | None = None) -> None:
        """Look for the files of a core.

        Args:
            core: the core file.
            sysroot: a directory that holds them under their own paths, or without any directories; this machine's own
                are searched after those.

        Raises:
            CoreError: there is no such directory.
        """
        if sysroot is not None and not sysroot.is_dir():
            raise CoreError(f"{sysroot} is no directory")
        self._core = core
        self._sysroot = sysroot
        self._found = {mapping.path: library for mapping, library in self._search()}

    def all(self) -> list[CoreLibrary]:
        """Return every program and library of the process, by address."""
        return list(self._found.values())

    def absent(self) -> list[CoreLibrary]:
        """Return those that are not at hand."""
        return [library for library in self._found.values() if library.path is None]

    def at(self, address: int) -> CoreLibrary | None:
        """Return the program or library whose file lay at an address, None where there was none."""
        mapping = self._core.mapping_at(address)
        return self._found.get(mapping.path) if mapping else None

    def part(self, address: int, size: int) -> bytes | None:
        """Return up to ``size`` bytes that a file had at an address, at least one; None where no file at hand has them.

        What the process may have changed since is in the core: ask that first.
        """
        mapping = self._core.mapping_at(address)
        library = self._found.get(mapping.path) if mapping else None
        if mapping is None or library is None or library.path is None:
            return None
        wanted = min(size, mapping.end - address)
        try:
            with library.path.open("rb") as file:
                file.seek(mapping.offset + address - mapping.start)
                data = file.read(wanted)
        except (OSError, ValueError, OverflowError):
            return None
        rest_of_page = -(address + len(data)) % _PAGE  # zeros, where the file ends within it
        return data.ljust(min(wanted, len(data) + rest_of_page), b"\0") or None

    def _search(self) -> Iterator[tuple[MappedFile, CoreLibrary]]:
        for mapping in self._core.mappings:
            if mapping.offset == 0:
                page = self._core.first_page(mapping)
                library = self._library(mapping.path, page)
                if library is not None:
                    yield mapping, library

    def _library(self, name: str, page: bytes | None) -> CoreLibrary | None:
        """Return a file of the process if it is a program or a library, None for data that it had mapped."""
        if page is not None and not page.startswith(elf.MAGIC_64):
            return None
        presence = Presence.MISSING
        for path in self._candidates(name):
            start = _begin_of(path)
            if not start.startswith(elf.MAGIC_64):
                continue
            if page is None:
                presence = Presence.UNKNOWN
            elif elf.same_build(page, start):
                return CoreLibrary(name, Presence.AT_HAND, path)
            else:
                presence = Presence.DIFFERENT
        if page is None and presence is Presence.MISSING:
            return None
        return CoreLibrary(name, presence, None)

    def _candidates(self, name: str) -> Iterator[Path]:
        path = Path(name.removesuffix(DELETED))
        if self._sysroot is not None:
            yield self._sysroot / path.relative_to(path.anchor)
            yield self._sysroot / path.name
        yield path


def _begin_of(path: Path) -> bytes:
    """Return the first page of a regular file, nothing of any other one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe by now
    except (OSError, ValueError):
        return b""
    try:
        return os.pread(file, _PAGE, 0)
    except OSError:
        return b""
    finally:
        os.close(file)
