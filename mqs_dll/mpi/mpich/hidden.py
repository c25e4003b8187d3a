"""Devices that keep their operations where they can't be read."""

from __future__ import annotations

from typing import NoReturn

from mqs_dll.errors import NoInformation
from mqs_dll.mpi.mpich.communicators import Entry
from mqs_dll.mpi.mpich.device import Device


class HiddenDevice(Device):
    """A device whose queues can't be seen."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    def forget(self) -> None:
        """Nothing is kept."""

    def sends(self, entry: Entry) -> NoReturn:
        """Refuse."""
        self._refuse("sends")

    def receives(self, entry: Entry) -> NoReturn:
        """Refuse."""
        self._refuse("receives")

    def unexpected(self, entry: Entry) -> NoReturn:
        """Refuse."""
        self._refuse("unexpected messages")

    def datatypes_in_use(self) -> list[int]:
        """Refuse."""
        self._refuse("the datatypes in use")

    def _refuse(self, what: str) -> NoReturn:
        raise NoInformation(f"{what} can't be seen: {self._why} ({self.name})")
