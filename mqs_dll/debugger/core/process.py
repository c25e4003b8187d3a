"""A core file as interface.TargetProcess: symbols by drgn, memory from the core and from the files at hand."""

from __future__ import annotations

from pathlib import Path

import drgn

from mqs_dll.contract.errors import CoreError, FinalizedError, MqsError, NotInitializedError, TargetReadError
from mqs_dll.debugger.bases import Closes, OfThisMachine
from mqs_dll.debugger.core.core_file import CoreFile
from mqs_dll.debugger.core.libraries import Libraries, Presence
from mqs_dll.debugger.live import LiveImage, new_program, ranges_of

_ADDRESS_LIMIT = 1 << 64
_MAX_NAMED = 3
_LINKER_LIST = "_r_debug"
"""A symbol that nearly every program has."""


class CoreProcess(Closes, OfThisMachine):
    """The process of a core file, as it was when the core was written (interface.TargetProcess).

    Usable as a context manager that closes it.
    """

    def __init__(self, path: Path | str, sysroot: Path | None = None) -> None:
        """Open a core file and the program and libraries that its process had loaded.

        Args:
            path: of the core file, gcore's or the kernel's.
            sysroot: a directory with the program and the libraries, under their own paths or without any directories.
                This machine's own are used where they are of the same build.

        Raises:
            NotCoreError: it is another file, or compressed.
            CoreError: it doesn't hold enough.
            WordSizeError: it is of a program that libmqs can't read.
        """
        self._left_out: dict[str, None] = {}
        self.file = CoreFile(Path(path))
        try:
            self.libraries = Libraries(self.file, sysroot)
            self.program = self._open_program(sysroot)
            """drgn's view of the core: its threads, and all modules, each with its file where that is at hand."""
            self._image = self._open_image()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process's PID, 0 where the core doesn't say it."""
        return self.file.pid

    @property
    def image(self) -> LiveImage:
        """The image that the process ran."""
        return self._image

    def fetch(self, address: int, size: int) -> bytes:
        """Return exactly ``size`` bytes at ``address``.

        Raises:
            TargetReadError: any of the bytes is neither in the core nor in a file at hand.
        """
        if size < 0 or not 0 <= address <= _ADDRESS_LIMIT - size:
            raise TargetReadError(address, size)
        found = bytearray()
        while len(found) < size:
            part = self._part(address + len(found), size - len(found))
            if part is None:
                self._note_left_out(address, size)
                raise TargetReadError(address, size)
            found += part
        return bytes(found)

    def caveats(self) -> list[str]:
        """Return a sentence for each thing that keeps this core from telling all, in no case with a full stop."""
        found = []
        if self.file.missing:
            found.append(f"{self.file.path} is not whole: {self.file.loss()}")
        absent = self.libraries.absent()
        for presence in (Presence.MISSING, Presence.DIFFERENT, Presence.UNKNOWN):
            names = [library.name for library in absent if library.presence is presence]
            if names and not (self.file.missing and presence is Presence.UNKNOWN):
                found.append(f"{_counted(names)} {presence.value}: {_first(names)}")
        if self._left_out:
            found.append(
                f"the core leaves out memory that the process shared with others ({_first(list(self._left_out))}), "
                "where a part of the queues lies; bit 3 of /proc/PID/coredump_filter would have kept it"
            )
        return found

    def explained(self, error: MqsError) -> MqsError:
        """Return what to say of a library's failure: where the core lacks something, that is the likely cause."""
        caveats = self.caveats()
        if not caveats or isinstance(error, NotInitializedError | FinalizedError):
            return error
        return CoreError("; ".join((*caveats, str(error))))

    def close(self) -> None:
        """Let go of the core file. Idempotent."""
        self.file.close()

    def _part(self, address: int, size: int) -> bytes | None:
        """Return at least one byte at an address: the core's own where it holds it, else that of a file at hand."""
        data = self.file.part(address, size)
        if data is not None:
            return data
        held = self.file.held_after(address)
        return self.libraries.part(address, size if held is None else min(size, held - address))

    def _note_left_out(self, address: int, size: int) -> None:
        """Remember the file, if it is no library, in which a failed read lies: memory that processes share.

        A read that goes beyond it may have been for something else: libraries read large pieces first.
        """
        mapping = self.file.mapping_at(address)
        if mapping is not None and address + size <= mapping.end and self.libraries.at(address) is None:
            self._left_out[mapping.path] = None

    def _open_program(self, sysroot: Path | None) -> drgn.Program:
        program = new_program()
        try:
            program.set_core_dump(self.file.path)
        except Exception as error:  # drgn has no class of its own for what libelf says of a damaged file
            raise CoreError(f"{self.file.path} can't be read as a core file: {error}") from error
        if sysroot is not None:
            options = program.debug_info_options
            options.directories = (str(sysroot / "usr/lib/debug"), *options.directories)
        return program

    def _open_image(self) -> LiveImage:
        try:
            modules = [module for module, _ in self.program.loaded_modules()]
        except Exception as error:
            lost = f"; {self.file.loss()}" if self.file.missing else ""
            raise CoreError(f"{self.file.path} can't be read as a core file: {error}{lost}") from error
        for module in modules:
            self._give_file(module)
        image = LiveImage(self.program, modules)
        try:
            image.find_symbol(_LINKER_LIST)
        except Exception as error:  # libelf's, of the kernel's own library, whose file lies in the core
            raise CoreError(f"{self.file.path} is damaged: {error}") from error
        return image

    def _give_file(self, module: drgn.Module) -> None:
        """Let a module have its file where that is at hand, and no other; the kernel's own library is in the core."""
        if isinstance(module, drgn.VdsoModule):
            return
        ranges = ranges_of(module)
        library = self.libraries.at(ranges[0][0]) if ranges else None
        module.debug_file_status = drgn.ModuleFileStatus.DONT_WANT
        if library is not None and library.path is not None:
            module.try_file(library.path)
        if module.wants_loaded_file():
            module.loaded_file_status = drgn.ModuleFileStatus.DONT_WANT


def _counted(names: list[str]) -> str:
    return "a file of the core's process is" if len(names) == 1 else f"{len(names)} files of the core's process are"


def _first(names: list[str]) -> str:
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
