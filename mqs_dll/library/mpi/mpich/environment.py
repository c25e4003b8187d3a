"""What an MPI was told when it started, as the environment in the process's memory still says.

Nothing else tells whether Intel MPI's processes of a node share memory: with I_MPI_FABRICS=ofi their table is the same;
or how many bits of libfabric's tags are for what.
Source: Intel MPI Library Developer Reference, "Communication Fabrics Control", "Shared Memory Control"; live processes.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.contract.errors import MqsError
from mqs_dll.contract.escape import printable
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.fabric.ofi.libfabric import VERSION_FUNCTION
from mqs_dll.library.memory import WORD, Memory, bounded

FABRICS, SHARED = b"I_MPI_FABRICS", b"I_MPI_SHM"
OFF = (b"disable", b"no", b"off", b"0")
PROVIDER = b"FI_PROVIDER"
WIDTHS = (b"CH4_OFI_TAG_BITS", b"CH4_OFI_RANK_BITS", b"OFI_TAG_DYNAMIC")
"""Behind MPIR_CVAR_ or I_MPI_: which parts a tag of libfabric's has."""

MAX_VARIABLES = 1 << 12
LONGEST = 64
"""Bytes of a variable that are read: names and values that matter are shorter."""


def shares_memory(image: TargetImage, memory: Memory) -> bool:
    """Tell whether Intel MPI's messages within a node go through shared memory, as they do by themselves.

    Where that can't be read, they may go through libfabric if it is there.
    """
    told = _told(image, memory)
    if told is None:
        return image.find_function(VERSION_FUNCTION) is None
    return b"shm" in told.get(FABRICS, b"shm").lower() and told.get(SHARED, b"").lower() not in OFF


def widths_are_chosen(image: TargetImage, memory: Memory) -> bool:
    """Tell whether the parts of libfabric's tags may have other widths than by themselves."""
    return any(name.endswith(WIDTHS) for name in _told(image, memory) or ())


def provider(image: TargetImage, memory: Memory) -> str:
    """Return which provider of libfabric's was asked for; "" where none was, or that can't be read."""
    return printable((_told(image, memory) or {}).get(PROVIDER, b""))


def _told(image: TargetImage, memory: Memory) -> dict[bytes, bytes] | None:
    """Return the environment; None where it can't be read."""
    place = image.find_symbol("environ")
    try:
        return dict(_variables(memory, memory.pointer(place))) if place else None
    except MqsError:
        return None


def _variables(memory: Memory, array: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names and values of the environment.

    Raises:
        BrokenStructureError: it has no end.
        TargetReadError: it can't be read.
    """

    def steps() -> Iterator[int]:
        place = array
        while place and memory.pointer(place):
            yield place
            place += WORD

    for place in bounded(steps(), MAX_VARIABLES, "the environment"):
        name, _, value = memory.text(memory.pointer(place), LONGEST).partition(b"=")
        yield name, value
