"""Which communicators MPICH keeps for itself: no handle of them was ever given to the program.

Most are told by their context ids. The others are recognised by who refers to them: an inter-communicator to its local
half, a window and an open file to a duplicate of their own, which may have parts of a node's processes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqs_dll.contract.names import FILE_WORDS, window_words
from mqs_dll.library.mpi.mpich.communicators import SELF, MpichCommunicators, MpichEntry
from mqs_dll.library.mpi.mpich.romio import Candidate, Files
from mqs_dll.library.mpi.mpich.windows import MpichWindows


class MpichInternalCommunicators:
    """Finds them in one process."""

    def __init__(self, communicators: MpichCommunicators, windows: MpichWindows, files: Files) -> None:
        self._communicators = communicators
        self._windows = windows
        self._files = files

    def mark(self, entries: Sequence[MpichEntry]) -> None:
        """Set ``internal`` in the entries of MPICH's own communicators, and say of which window or file they are."""
        by_address = {entry.view.address: entry for entry in entries}
        words = {window.comm_ptr: window_words(window.name.partition(b"\0")[0]) for window in self._windows.live()}
        for address in {entry.view.local_comm for entry in entries if entry.inter} | words.keys():
            if address in by_address:
                by_address[address].internal = True
        words |= dict.fromkeys(self._of_files(entries), FILE_WORDS)
        for whole in (by_address[address] for address in words if address in by_address):
            whole.internal = True
            for address in (whole.view.address, whole.view.node_comm or 0, whole.view.node_roots_comm or 0):
                part = by_address.get(address)
                if part is not None and not part.label.name:
                    part.relabel(description=words[whole.view.address])

    def _of_files(self, entries: Iterable[MpichEntry]) -> set[int]:
        """Return the addresses of the communicators of open files."""
        own = self._communicators.predefined(SELF)
        if own is None or not own.attributes:
            return set()
        unnamed = {
            Candidate(entry.view.address, entry.view.handle, entry.view.context_id)
            for entry in entries
            if not (entry.internal or entry.name or entry.inter or entry.is_predefined)
        }
        return self._files.of_files(unnamed)
