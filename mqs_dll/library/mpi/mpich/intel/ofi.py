"""What libfabric's endpoint holds of messages that shared memory doesn't carry, in terms of Intel MPI.

A tag of libfabric's has the rank of the sender, in the answer to a synchronous send that of the receiver. Where the
sender's rank comes beside the tag instead, as over sockets, or the parts have other widths, nothing is read. Requests
are those of MPICH 4.0 behind libfabric's context; the rest is what live processes have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from mqs_dll.contract.abi import INVALID_RANK
from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.library.fabric.ofi import find_endpoint
from mqs_dll.library.fabric.ofi.endpoint import Endpoint
from mqs_dll.library.fabric.ofi.libfabric import VERSION_FUNCTION, FidClass, Libfabric
from mqs_dll.library.memory import WORD
from mqs_dll.library.mpi.mpich import environment, handles, views
from mqs_dll.library.mpi.mpich.ch4 import ofi, ofi_contexts, variables
from mqs_dll.library.mpi.mpich.ch4.tag_codecs import TAG_BITS, OfiTagForm, OfiTagForms
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.intel.traffic import TRANSFERS
from mqs_dll.library.mpi.mpich.persistent import Started
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.tag_codec import BitField, TagCodec

# of a context's record, in words; a variable leads to the first one
DOMAIN, ENDPOINT, RX_CTX = 0, 2, 7
KINDS = {
    DOMAIN: {FidClass.DOMAIN},
    1: {FidClass.AV},
    ENDPOINT: {FidClass.EP},
    6: {FidClass.EP},
    RX_CTX: {FidClass.EP},
    8: {FidClass.CQ},
}
WORDS = 10

FORM = OfiTagForm(
    TagCodec(context=BitField(20, 20), rank=BitField(40, 20), tag=BitField(0, 20), protocol=BitField(60, 4)), 2
)
"""Of tags."""


class NetworkRequests:
    """The requests of one process that are not of shared memory."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self._mpi = mpi
        self.started = Started(mpi)

    def others(self, comm: int) -> Sequence[views.MpirRequest]:
        """Return the sends and receives of the communicator at an address; a receive of any source once."""
        known = self._mpi.requests
        found = (each for each in known.live().values() if known.kind(each) in TRANSFERS)
        own = (each for each in found if not each.is_local and not each.anysrc_partner)
        return [each for each in own if self.started.comm(each) == comm]


class IntelOfi(ofi.Ch4Ofi):
    """Intel MPI's netmod ofi of one process."""

    SEND_EVENT = 2
    OLD_RECEIVE = views.IntelOfiReceive

    def __init__(self, mpi: MpichProcessContext, endpoint: Endpoint) -> None:
        """Begin.

        Raises:
            LayoutError: Intel MPI's tags over this provider aren't known.
        """
        if endpoint.tag_bits < TAG_BITS:
            raise LayoutError(f"what Intel MPI's tags over {endpoint.provider} are made of isn't known")
        super().__init__(mpi, NetworkRequests(mpi), [endpoint])
        self._is_old = True
        self._forms = OfiTagForms(own=(FORM,), every=(FORM,))
        self.fabric = endpoint.fabric

    def find_way(self) -> None:
        """Return: the ranks are in the tags, and Intel MPI's table of processes isn't known."""

    def _rank(self, place: int, address: int, entry: MpichEntry) -> int:
        return INVALID_RANK

    def _is_elsewhere(self, place: int, address: int) -> bool:
        return False

    def _receiver(self, send: ofi.Ch4OfiSend, entry: MpichEntry) -> int:
        return self.parts(send.tag).rank if send.waits_for_match else INVALID_RANK


def find(mpi: MpichProcessContext) -> IntelOfi | None:
    """Return what libfabric holds of a process; None where it isn't there, or its endpoint isn't found.

    Raises:
        LayoutError: it can't be read; the text names the provider.
        TargetReadError: it isn't found, and some memory can't be read.
    """
    if mpi.image.find_function(VERSION_FUNCTION) is None:
        return None
    near = mpi.pools.known_variable(handles.REQUEST) or 0
    library = Libfabric(mpi.image, mpi.memory)
    record = _record(mpi, library, near)
    if record is None:
        return None
    ofi_contexts.check_widths(mpi)
    wanted = library, record[ENDPOINT], record[RX_CTX], record[DOMAIN], "mpich"
    try:
        return IntelOfi(mpi, find_endpoint(*wanted))
    except LayoutError:
        return IntelOfi(mpi, find_endpoint(*wanted, environment.provider(mpi.image, mpi.memory)))  # for the text


def _record(mpi: MpichProcessContext, library: Libfabric, near: int) -> Sequence[int] | None:
    """Return the record of the one context, to which a variable behind a known one leads.

    Raises:
        LayoutError: there are several, whose use of each other isn't known.
    """
    for _, place in variables.pointers(mpi, near):
        with suppress(TargetReadError):
            record = mpi.memory.pointers(place, WORDS)
            if ofi_contexts.are_objects(library, record, KINDS):
                following = mpi.memory.pointers(place + WORD * WORDS, WORDS)
                if ofi_contexts.are_objects(library, following, KINDS):
                    raise LayoutError("Intel MPI has several contexts of libfabric's")
                return record
    return None
