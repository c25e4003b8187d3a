"""The tags of Open MPI's messages over UCX and over libfabric.

Source: ompi/mca/pml/ucx/pml_ucx_request.h, ompi/mca/mtl/ofi/mtl_ofi_types.h of 4.1.4, 4.1.8 and 5.0.11.
"""

from __future__ import annotations

from mqs_dll.library.mpi.tag_codec import BitField, TagCodec

PML_UCX = TagCodec(context=BitField(0, 20), rank=BitField(20, 20), tag=BitField(40, 24), signed=True)
"""pml/ucx's; MPI_ANY_TAG doesn't ignore the sign: it never matches Open MPI's own messages."""

FULL_TAG_BITS = 32
"""Bits of a tag of mtl/ofi's where libfabric carries the source beside it; the module's own count is not set then."""

# the protocol of a message of mtl/ofi's, 0 for most
SYNCHRONOUS, ACKNOWLEDGEMENT = 1, 2
PROTOCOL_BITS = 2


def mtl_ofi(tag_bits: int, rank_bits: int) -> TagCodec:
    """Return mtl/ofi's, which are of several widths; without bits for the rank it is beside the tag."""
    rank = tag_bits + PROTOCOL_BITS
    context = rank + rank_bits
    return TagCodec(
        context=BitField(context, 64 - context),
        rank=BitField(rank, rank_bits),
        tag=BitField(0, tag_bits),
        protocol=BitField(tag_bits, PROTOCOL_BITS),
        signed=True,
    )
