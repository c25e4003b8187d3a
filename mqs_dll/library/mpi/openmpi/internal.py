"""Which communicators Open MPI keeps for itself: no handle of them was ever given to the program.

They are recognised by who refers to them: an inter-communicator to its local half, a window's or a file's module
to its duplicate, the component of partitioned communication to its own, and the hierarchical collectives leave
info keys in theirs. One whose owner can't be found is taken for the program's: shown rather than hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from mqs_dll.contract.errors import MqsError, TargetReadError
from mqs_dll.contract.names import FILE_WORDS, PART_WORDS, window_words
from mqs_dll.library.memory import LOWEST_ADDRESS, WORD, kept_while_unchanged
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.containers import HEAP_ALIGNMENT, heap_bytes
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.windows import OmpiWindows

MODULE_BYTES = 1024
"""How far into a module its communicator is looked for."""

FILE_BYTES = 4096
"""No struct of a file is larger."""

FILE_DATA_BYTES = 2048
"""How far into what a file refers to its communicator is looked for."""

INFO_ENTRY_BYTES = 104
"""Bytes read of an info key: in 4.1 its text lies within, since 5.0.0 behind pointers in it."""

HIERARCHICAL = re.compile(rb"ompi_comm_coll_preference|ompi_comm_coll_han_topo_level")
"""Info keys that coll/han gives to the communicators that it makes."""

INFO_KEY_OFFSET = 48
TEXT = re.compile(rb"[!-~]{8}")
"""Where in an info key its text lies in 4.1, and how it starts there: no pointer looks like that (opal/util/info.h)."""


class OmpiInternalCommunicators:
    """Finds them in one process."""

    def __init__(self, mpi: OmpiProcessContext, windows: OmpiWindows) -> None:
        self._memory = mpi.memory
        self._symbols = mpi.symbols
        self._containers = mpi.containers
        self._windows = windows
        self._info = views.OpalInfoSubscriber.bind(mpi.layouts)
        self._file_size = mpi.class_size("ompi_file_t")

    def mark(self, entries: Sequence[OmpiEntry]) -> None:
        """Set ``internal`` in the entries of Open MPI's own communicators, and say of which window or file they are."""
        unnamed = {entry.view.address: entry for entry in entries if not entry.is_named}
        if not unnamed:
            return
        local_halves = {entry.view.c_local_comm for entry in entries if entry.inter}
        others = [(local_halves, b""), *((words, PART_WORDS) for words in self._partitioned())]
        files = ((words, FILE_WORDS) for words in self._files())
        for words, description in (*others, *files, *self._of_windows()):
            for address in unnamed.keys() & words:
                unnamed[address].internal = True
                if description:
                    unnamed[address].relabel(description=description)
        for entry in unnamed.values():
            entry.internal = entry.internal or self._is_hierarchical(entry.view.address)

    def _of_windows(self) -> Iterator[tuple[Iterable[int], bytes]]:
        """Yield the words of each window's module, and the window in words."""
        with suppress(MqsError):
            for window in self._windows.table():
                module, name = window.w_osc_module, self._windows.name(window)
                yield self._words(module, heap_bytes(self._memory, module, MODULE_BYTES)), window_words(name)

    def _files(self) -> Iterator[Iterable[int]]:
        """Yield the words of each open file, and of what they point at: the I/O component has a duplicate too."""
        for address in self._open_files():
            words = self._words(address, min(self._file_size, FILE_BYTES))
            yield words
            for word in words:
                yield self._words(word, heap_bytes(self._memory, word, FILE_DATA_BYTES))

    def _partitioned(self) -> Iterator[Iterable[int]]:
        """Yield the words of the component of partitioned communication (since 5.0.0)."""
        component = self._symbols.get("ompi_part_persist")
        if component is not None:
            yield self._words(component, MODULE_BYTES)

    def _open_files(self) -> list[int]:
        """Return the addresses in the table of files, without its slot 0, which holds MPI_FILE_NULL."""
        table = self._symbols.get("ompi_file_f_to_c_table")
        if table is None:
            return []
        try:
            return [address for slot, address in self._containers.pointer_array(table) if slot > 0]
        except MqsError:
            return []

    def _words(self, address: int, size: int) -> tuple[int, ...]:
        """Return the pointers that may lie in a range; none where it can't be read."""
        try:
            return self._memory.pointers(address, size // WORD)
        except TargetReadError:
            return ()

    @kept_while_unchanged
    def _is_hierarchical(self, address: int) -> bool:
        """Tell whether coll/han made the communicator at an address, by its info keys."""
        try:
            info = self._info.at(self._memory, address).s_info
            texts: dict[int, bytes] = {}

            def following(key: int) -> int:
                """Read all of a key at once."""
                texts[key] = self._memory.read(key, INFO_ENTRY_BYTES)
                return self._containers.link_in(texts[key])

            keys = self._containers.list_items(info, "the info keys of a communicator", following) if info else ()
            return any(self._has_hierarchical_key(key, texts[key]) for key in keys)
        except MqsError:
            return False

    def _has_hierarchical_key(self, entry: int, text: bytes) -> bool:
        if HIERARCHICAL.search(text):
            return True
        if TEXT.match(text, INFO_KEY_OFFSET):
            return False
        return any(
            HIERARCHICAL.search(self._memory.read(word, INFO_ENTRY_BYTES))
            for word in self._words(entry, INFO_ENTRY_BYTES)
            if word >= LOWEST_ADDRESS
            and not word % HEAP_ALIGNMENT
            and heap_bytes(self._memory, word, INFO_ENTRY_BYTES) == INFO_ENTRY_BYTES
        )
