"""The adapter for MPICH: ties its rooms together for one image, and for one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from mqs_dll.abi import INVALID_RANK, Datatype, LayoutOrigin, MpiFacts, Operation, Queue, Recognition, Window
from mqs_dll.errors import LayoutError
from mqs_dll.interface import TargetImage
from mqs_dll.memory import Memory
from mqs_dll.mpi.base import Adapter, AttachedMpi, CommunicatorEntry
from mqs_dll.mpi.mpich import identity
from mqs_dll.mpi.mpich.communicators import ALONE, WORLD, Communicators, Entry
from mqs_dll.mpi.mpich.datatypes import Datatypes
from mqs_dll.mpi.mpich.device import Device, Parts
from mqs_dll.mpi.mpich.devices import select
from mqs_dll.mpi.mpich.files import Candidate, Files
from mqs_dll.mpi.mpich.groups import Ranks
from mqs_dll.mpi.mpich.requests import Requests
from mqs_dll.mpi.mpich.windows import Windows
from mqs_dll.names import FILE_WORDS, window_words
from mqs_dll.profiles import available


class Mpich(Adapter):
    """MPICH, or a derivative, in one image."""

    name = "MPICH"

    @classmethod
    def detect(cls, image: TargetImage) -> bool:
        """Tell by a function that every MPICH exports."""
        return image.find_function(identity.ANCHOR) is not None

    def __init__(self, image: TargetImage) -> None:
        self._image = image
        self._anchor = image.find_function(identity.ANCHOR)
        self._symbols = identity.symbols_of(image)
        self._types = identity.types_of(image)
        self._profiles, self.refused_profiles = available("mpich")

    def describe(self) -> str:
        """Return what was found in the image."""
        known = "with debug information" if list(self._types) else "without debug information"
        return f"{self.name} {known}"

    def check_symbols(self) -> None:
        """Return: all else is found from the one function that every build exports, which it was detected by."""
        self._need_anchor()

    def recognise(self, memory: Memory) -> Recognition:
        """Return what the library's constants and the records of its pools tell."""
        return identity.recognise(memory, self._need_anchor(), self._symbols, self._types, self._profiles)

    def attach(self, memory: Memory) -> AttachedMpich:
        """Find the layouts that hold in a process that is past MPI_Init."""
        anchor = self._need_anchor()
        identified = identity.identify(memory, anchor, self._symbols, self._types, self._profiles)
        return AttachedMpich(self._image, memory, identified)

    def _need_anchor(self) -> int:
        if self._anchor is None:
            raise LayoutError(f"MPICH's function {identity.ANCHOR} is missing")
        return self._anchor


class AttachedMpich(AttachedMpi):
    """MPICH in one process."""

    def __init__(self, image: TargetImage, memory: Memory, identified: identity.Identity) -> None:
        self._memory = memory
        self._identity = identified
        self._layouts = layouts = identified.layouts
        self._pools = identified.pools
        self._ranks = Ranks(memory, layouts)
        self._datatypes = Datatypes(memory, layouts, identified.pools)
        self._requests = Requests(memory, layouts, identified.pools)
        self._communicators = Communicators(memory, layouts, identified.pools, identified.builtin, self._ranks)
        parts = Parts(
            image,
            memory,
            identified.library,
            layouts,
            identified.release,
            self._requests,
            self._datatypes,
            self._communicators,
        )
        self._device: Device = select(parts)
        self._files = Files(memory, identified.library, identified.heap_end)
        is_ch4 = identified.release.device.startswith("ch4")
        self._windows = Windows(memory, layouts, identified.pools, self._ranks, is_ch4=is_ch4)
        self._walks = {
            Queue.SENDS: self._device.sends,
            Queue.RECEIVES: self._device.receives,
            Queue.UNEXPECTED: self._device.unexpected,
        }

    def describe(self) -> str:
        """Return the release, the device and the source of the layouts."""
        return f"{self._identity.release}, {self._device.name}; layouts: {self._layouts.summary()}"

    def facts(self) -> MpiFacts:
        """Return what is known of this MPICH."""
        known = self._identity
        return identity.facts(known.release, known.library, self._device.name, known.profile)

    def checks(self) -> list[str]:
        """Return what held before the layouts were believed."""
        return list(self._identity.checks)

    def refusals(self) -> list[str]:
        """Return which layouts were refused."""
        return list(self._identity.refusals)

    def layout_origins(self) -> list[LayoutOrigin]:
        """Return where the layout of each struct came from."""
        return self._layouts.origins()

    def global_rank(self) -> int:
        """Return the rank of this process in its MPI_COMM_WORLD."""
        world = self._communicators.predefined(WORLD)
        if world is not None and world.ref_count > 0:
            return world.rank
        for entry in self._communicators.read():  # of a session
            if 0 <= entry.view.rank < entry.record.size:
                return entry.world_ranks()[entry.view.rank]
        return INVALID_RANK

    def forget(self) -> None:
        """Drop all that was read of the process."""
        self._memory.forget()
        self._ranks.forget()
        self._datatypes.forget()
        self._requests.forget()
        self._device.forget()

    def communicators(self) -> list[CommunicatorEntry]:
        """Return the live communicators; those that MPICH keeps for itself are marked so.

        Such a one no longer counts as internal while an operation is pending on it.
        """
        identity.check_running(self._memory, self._layouts, self._pools, self._identity.builtin)
        entries = self._communicators.read()
        self._mark_internal(entries)
        for entry in entries:
            entry.tell(freed=self._is_freed(entry), internal=entry.internal)
            if entry.internal:
                entry.internal = not self.is_in_use(entry)
        return cast(list[CommunicatorEntry], entries)

    def _mark_internal(self, entries: list[Entry]) -> None:
        owned = {entry.view.local_comm for entry in entries if entry.inter}
        windows = {window.comm_ptr: window.name.partition(b"\0")[0] for window in self._windows.live()}
        for entry in entries:
            entry.internal = entry.internal or entry.view.address in owned or entry.view.address in windows
        of_files = self._files_among(entries)
        words = {address: window_words(name) for address, name in windows.items()}
        words.update(dict.fromkeys(of_files, FILE_WORDS))
        for entry in entries:
            if entry.view.address in words:
                entry.internal = True
                self._describe(entry, entries, words[entry.view.address])

    @staticmethod
    def _describe(whole: Entry, entries: list[Entry], words: bytes) -> None:
        """Tell whose a communicator is, and those that MPICH made within it."""
        own = {whole.view.address, whole.view.node_comm, whole.view.node_roots_comm}
        for entry in entries:
            if entry.view.address in own and not entry.label.name:
                entry.tell(description=words)

    def _files_among(self, entries: list[Entry]) -> set[int]:
        """Return the addresses of the communicators of open files."""
        alone = self._communicators.predefined(ALONE)
        if alone is None or not alone.attributes:
            return set()
        unnamed = {
            Candidate(entry.view.address, entry.view.handle, entry.view.context_id)
            for entry in entries
            if not (entry.internal or entry.name or entry.inter or entry.is_predefined)
        }
        return self._files.of_files(unnamed)

    def _is_freed(self, entry: Entry) -> bool:
        """Tell whether nothing but requests refers to the communicator: the program has freed it."""
        if entry.internal:
            return False
        references = self._requests.references(entry.view.address) + self._device.more_references(entry)
        return 0 < entry.view.ref_count <= references

    def operations(self, entry: CommunicatorEntry, queue: Queue) -> Iterator[Operation]:
        """Return a generator of one queue of one communicator."""
        return self._walks[queue](cast(Entry, entry))

    def windows(self) -> list[Window]:
        """Return the windows that are alive."""
        world = self._communicators.predefined(WORLD)
        if world is not None:
            self._ranks.know_world(world)
        return self._windows.read(self._communicators.read(), self.global_rank())

    def datatypes(self) -> list[Datatype]:
        """Return the datatypes of the requests in use, the most used first."""
        found = []
        for handle, operations in Counter(self._device.datatypes_in_use()).most_common():
            facts = self._datatypes.at(handle)
            if facts is not None:
                address = self._datatypes.address_of(handle)
                found.append(Datatype(facts.name, facts.size, facts.predefined, operations, address))
        return found
