"""Finds libfabric's endpoints in an MPICH whose netmod is ofi, and the provider's name.

They lie among the library's variables, which have no names: what the context of a VCI has is told by the classes of its
objects. Source: src/mpid/ch4/netmod/ofi/ofi_types.h (MPIDI_OFI_context_t) of 4.0.3 to 5.0.1; struct fi_info and struct
fi_fabric_attr of include/rdma/fabric.h; distances from live processes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.library.fabric.ofi import find_endpoint
from mqs_dll.library.fabric.ofi.endpoint import Endpoint
from mqs_dll.library.fabric.ofi.libfabric import VERSION_FUNCTION, FidClass, Libfabric
from mqs_dll.library.memory import WORD
from mqs_dll.library.mpi.mpich import environment
from mqs_dll.library.mpi.mpich.ch4 import variables
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext

OFI_CONTEXT = "context of libfabric's"

# of a context's record, in words
DOMAIN, ENDPOINT, RX_CTX = 0, 2, 9
KINDS = {
    DOMAIN: {FidClass.DOMAIN},
    1: {FidClass.AV},
    ENDPOINT: {FidClass.EP, FidClass.SEP},
    3: {FidClass.CNTR},
    8: {FidClass.EP, FidClass.TX_CTX},
    RX_CTX: {FidClass.EP, FidClass.RX_CTX},
    10: {FidClass.CQ},
}
"""What the pointers in it lead to."""

WORDS = 11
MAX_CONTEXTS = 64

FABRIC, PROVIDER, INTERFACE_VERSION = 104, 16, 30
"""Bytes to the fabric's attributes in what a provider tells of itself, and in those to its name and to the major number
of libfabric's interface."""

MAJOR = (1, 2)

NAME = re.compile(rb"[a-z0-9_]+(;[a-z0-9_]+)*")
MAX_NAME_LENGTH = 64


def find(mpi: MpichProcessContext) -> list[Endpoint]:
    """Return the endpoints of a process, one for each VCI; none where the netmod is another one.

    Raises:
        LayoutError: they can't be read; the text names the provider.
        TargetReadError: there may be others, where memory can't be read.
    """
    if mpi.image.find_function(VERSION_FUNCTION) is None:
        return []
    library = Libfabric(mpi.image, mpi.memory)
    found = list(_records(mpi, library))
    if not found:
        return []
    check_widths(mpi)

    def endpoints(name: str) -> list[Endpoint]:
        return [find_endpoint(library, each[ENDPOINT], each[RX_CTX], each[DOMAIN], "mpich", name) for each in found]

    try:
        return endpoints("")
    except LayoutError:
        return endpoints(_provider(mpi))  # for the text


def check_widths(mpi: MpichProcessContext) -> None:
    """Make sure that the parts of libfabric's tags are as wide as by themselves.

    Raises:
        LayoutError: the environment says that they may not be.
    """
    if environment.widths_are_chosen(mpi.image, mpi.memory):
        raise LayoutError("the environment chooses the parts of libfabric's tags")


def _records(mpi: MpichProcessContext, library: Libfabric) -> Iterator[Sequence[int]]:
    """Yield the records of the contexts, which lie one behind the other; behind the last one there is no pointer."""

    def is_at(place: int) -> bool:
        return _is_record(library, mpi.memory.pointers(place, WORDS))

    place = variables.find(mpi, OFI_CONTEXT, is_at, lambda: _first_record(mpi, library))
    for number in range(MAX_CONTEXTS if place else 0):
        record = mpi.memory.pointers(place, WORDS)
        if not variables.is_pointer(record[DOMAIN]):
            return
        if not _is_record(library, record):
            raise LayoutError(f"VCI {number} of MPICH has no domain and endpoint of libfabric's")
        yield record
        place += WORD * WORDS


def _first_record(mpi: MpichProcessContext, library: Libfabric) -> int:
    """Return where the first record lies, 0 where there is none."""
    for address, words in variables.words(mpi):
        for index in range(len(words) - WORDS):
            if words[index] and words[index + RX_CTX] and _is_record(library, words[index : index + WORDS]):
                return address + WORD * index
    return 0


def _is_record(library: Libfabric, words: Sequence[int]) -> bool:
    return are_objects(library, words, KINDS)


def are_objects(library: Libfabric, words: Sequence[int], kinds: Mapping[int, Collection[FidClass]]) -> bool:
    """Tell whether some of the words lead to libfabric's objects of these kinds."""
    if not all(variables.is_pointer(words[place]) for place in kinds):
        return False
    return all(library.kind(words[place]) in wanted for place, wanted in kinds.items())


def _provider(mpi: MpichProcessContext) -> str:
    """Return what the provider in use is called; "" where that isn't found."""
    for _, info in variables.pointers(mpi):
        with suppress(TargetReadError):
            fabric = mpi.memory.pointer(info + FABRIC)
            name = mpi.memory.text(mpi.memory.pointer(fabric + PROVIDER), MAX_NAME_LENGTH)
            major = int.from_bytes(mpi.memory.read(fabric + INTERFACE_VERSION, 2), "little")
            if NAME.fullmatch(name) and major in MAJOR:
                return name.decode()
    return ""
