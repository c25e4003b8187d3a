"""A live process whose memory reads differently in places: hostile memory, with a real MPI around it."""

from __future__ import annotations

from mqs_dll.abi import Queue
from mqs_dll.debugger.collect import Look
from mqs_dll.debugger.counting import CountingProcess
from mqs_dll.debugger.snapshot import Snapshot
from mqs_dll.interface import TargetProcess
from mqs_dll.session import Library


class Tampered(CountingProcess):
    """Reads of a process, with bytes laid over them; keeps what was fetched. The process itself is never written."""

    def __init__(self, process: TargetProcess) -> None:
        super().__init__(process)
        self.overlay: dict[int, bytes] = {}
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes of the process with the overlay on them."""
        self.fetched.append((address, size))
        data = bytearray(super().fetch(address, size))
        for start, patch in self.overlay.items():
            begin, end = max(start, address), min(start + len(patch), address + size)
            if begin < end:
                data[begin - address : end - address] = patch[begin - start : end - start]
        return bytes(data)

    def write(self, address: int, value: int, size: int = 8) -> None:
        """Lay a number over the memory at an address."""
        self.overlay[address] = value.to_bytes(size, "little")


def look(target: Tampered) -> Snapshot:
    """Return what is shown of a process that stands still in its memory."""
    with Look(Library(), target, pid=0, program="dozen", library_path=None) as first:
        return first.read()


def reasons(snapshot: Snapshot, queue: Queue) -> set[str]:
    """Return why a queue is hidden or broken on the communicators of a process."""
    found = [each.queues[queue] for each in snapshot.communicators]
    return {each.broken for each in found if each.broken} | {each.hidden.reason for each in found if each.hidden}
