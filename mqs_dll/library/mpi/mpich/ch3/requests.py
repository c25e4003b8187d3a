"""What a request of ch3 is.

Source: src/mpid/ch3/include/mpidpre.h, mpidimpl.h of 3.4.3 and 4.0.3.
"""

from __future__ import annotations

from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.requests import DeviceRequest, RequestKind

# MPIDI_REQUEST_*_MSG: what has come for a receive
NO_MESSAGE = 0
EAGER = 1
RENDEZVOUS = 2
FROM_SELF = 3
MESSAGE_BITS = 0x3

SYNCHRONOUS = 0x8
"""The bit of a request's state which is set if the sender waits to hear of the match."""

# MPIDI_REQUEST_TYPE_*; higher ones are one-sided operations
TYPE_SHIFT = 4
TYPE_BITS = 0xF
RECEIVE = 0
SYNCHRONOUS_SEND = 3
CALLS = {
    1: ("MPI_Send", "MPI_Isend"),
    2: ("MPI_Rsend", "MPI_Irsend"),
    SYNCHRONOUS_SEND: ("MPI_Ssend", "MPI_Issend"),
    4: ("MPI_Bsend", "MPI_Ibsend"),
}
"""The blocking and the nonblocking call of each type of send."""


class Ch3DeviceRequest(DeviceRequest):
    """A request as all devices have it, and ch3's part of it."""

    __slots__ = ("dev", "kind")

    def __init__(self, common: views.MpirRequest, dev: views.Ch3Request, kind: RequestKind) -> None:
        super().__init__(common)
        self.dev = dev
        self.kind = kind

    @property
    def message(self) -> int:
        """What has come: NO_MESSAGE, EAGER, RENDEZVOUS, FROM_SELF."""
        return self.dev.state & MESSAGE_BITS

    @property
    def type(self) -> int:
        """RECEIVE, a type of send that CALLS has, or one of one-sided operations."""
        return self.dev.state >> TYPE_SHIFT & TYPE_BITS

    @property
    def length(self) -> int:
        """Bytes of the message that has come."""
        return self.common.length

    @property
    def rank(self) -> int:
        """The rank to send to or to receive from, a short in ch3."""
        return self.dev.match_rank - (1 << 16) if self.dev.match_rank >> 15 else self.dev.match_rank

    @property
    def is_posted(self) -> bool:
        """Whether it is a receive on the list of those that wait for a message."""
        return self.is_receive and not self.complete and self.message == NO_MESSAGE

    @property
    def is_receive(self) -> bool:
        """Whether it is a receive of the program's or of a collective operation, in any state."""
        return self.kind is RequestKind.RECV and self.common.comm != 0 and self.type == RECEIVE

    @property
    def is_held(self) -> bool:
        """Whether it is a message that a matched probe took off the list."""
        return self.kind is RequestKind.MPROBE and self.common.comm != 0

    @property
    def is_send(self) -> bool:
        """Whether it is a send, in any state."""
        return self.kind is RequestKind.SEND and self.common.comm != 0 and self.type in CALLS

    @property
    def is_unexpected(self) -> bool:
        """Whether it is a message on the list of those that no receive has matched."""
        return (
            self.kind is RequestKind.RECV
            and self.common.comm == 0
            and self.type == RECEIVE
            and self.message != NO_MESSAGE
        )
