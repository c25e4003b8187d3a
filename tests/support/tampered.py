"""A live process whose memory reads differently in places: hostile memory, with a real MPI around it."""

from __future__ import annotations

from collections.abc import Callable

from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.interface import TargetProcess
from mqs_dll.debugger.collect import CountingProcess, ProcessReader
from mqs_dll.job.snapshot import Snapshot
from mqs_dll.library.memory import PAGE
from mqs_dll.library.session import Library


class Tampered(CountingProcess):
    """Reads of a process, with bytes laid over them; keeps what was fetched. The process itself is never written."""

    def __init__(self, process: TargetProcess) -> None:
        super().__init__(process)
        self.overlay: dict[int, bytes] = {}
        self.gone: set[int] = set()
        """Numbers of pages that can't be read."""
        self.fails: Callable[[], bool] | None = None
        """Whether a fetch fails for no reason that can be known."""
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes of the process with the overlay on them."""
        self.fetched.append((address, size))
        if self.gone and not self.gone.isdisjoint(range(address // PAGE, (address + size - 1) // PAGE + 1)):
            raise TargetReadError(address, size)
        if self.fails is not None and self.fails():
            raise TargetReadError(address, size)
        data = super().fetch(address, size)
        for start, patch in self.overlay.items():
            if start < address + size and address < start + len(patch):
                begin, end = max(start, address), min(start + len(patch), address + size)
                data = data[: begin - address] + patch[begin - start : end - start] + data[end - address :]
        return data

    def mend(self) -> None:
        """Let the memory be as the process has it again."""
        self.overlay.clear()
        self.gone.clear()
        self.fails = None

    def can_fetch(self, address: int, size: int) -> bool:
        """Return whether the process has these bytes."""
        try:
            super().fetch(address, size)
        except TargetReadError:
            return False
        return True

    def write(self, address: int, value: int, size: int = 8) -> None:
        """Lay a number over the memory at an address."""
        self.overlay[address] = value.to_bytes(size, "little")


def look(target: Tampered) -> Snapshot:
    """Return what is shown of a process that stands still in its memory."""
    with ProcessReader(Library(), target, pid=0, program="dozen", library_path=None) as first:
        return first.read()


def reasons(snapshot: Snapshot, queue: Queue) -> set[str]:
    """Return why a queue is hidden or broken on the communicators of a process."""
    found = [each.queues[queue] for each in snapshot.communicators]
    return {each.broken for each in found if each.broken} | {each.hidden.reason for each in found if each.hidden}
