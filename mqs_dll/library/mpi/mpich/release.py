"""Which MPICH it is: its release and its device, from the strings that MPI_Get_library_version would print.

The strings lie one behind the other in the library's constants: device, arguments of configure, ABI, date, release;
older builds export them too. Source: src/mpi/init/initinfo.c of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.memory import MAX_FETCH, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary

DEVICE = re.compile(rb"\0(ch[34]:[a-z0-9:,_ -]{2,60})\0")
RELEASE = re.compile(rb"\0\d+:\d+:\d+\0.{0,200}?\0(\d+\.\d+[a-z0-9.]*)\0", re.DOTALL)
CLUSTER = 1 << 14
"""Bytes behind the device within which the release stands; configure's arguments lie between."""

INTEL_VERSION = "I_MPI_Library_version"
"""Intel MPI's own version, which MPII_Version_string doesn't have: that is of the MPICH that it was made from."""

OVERLAP = CLUSTER
LONGEST = 128


class Release(NamedTuple):
    """What is known of a build."""

    version: str
    """As MPICH spells it, "4.3.2"; "of an unknown release" where it can't be found."""
    device: str
    """As configure got it, "ch4:ofi,ucx"; empty where it can't be found."""
    product: str = "MPICH"
    """What its makers call it."""

    def __str__(self) -> str:
        """Return product and version."""
        return f"{self.product} {self.version}"


UNKNOWN = Release("of an unknown release", "")


def read_release(memory: Memory, library: LoadedLibrary, symbols: dict[str, int]) -> Release:
    """Return the release, by the exported strings or by searching the library's constants, each page once."""
    intel = _text(memory, symbols.get(INTEL_VERSION))
    version, device = (_text(memory, symbols.get(f"MPII_Version_{what}")) for what in ("string", "device"))
    if intel:
        return Release(intel, device, "Intel MPI")
    if version and device:
        return Release(version, device)
    constants = [segment for segment in library.segments if not segment.writable]
    for segment in sorted(constants, key=lambda each: each.executable):
        tail = b""
        for start in range(0, segment.size, MAX_FETCH):
            try:
                data = tail + memory.read(segment.address + start, min(MAX_FETCH, segment.size - start))
            except TargetReadError:
                tail = b""
                continue
            found = _search(data)
            if found is not None:
                return found
            tail = data[-OVERLAP:]
    return UNKNOWN


def _search(data: bytes) -> Release | None:
    for device in DEVICE.finditer(data):
        release = RELEASE.search(data, device.end() - 1, device.end() + CLUSTER)
        if release is not None:
            return Release(release.group(1).decode("ascii"), device.group(1).decode("ascii"))
    return None


def _text(memory: Memory, address: int | None) -> str:
    if address is None:
        return ""
    try:
        return memory.text(address, LONGEST).decode("ascii", "replace")
    except TargetReadError:
        return ""
