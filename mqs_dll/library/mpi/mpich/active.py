"""What the request of an active message is at, by its bits: in ch4, and in Intel MPI's.

Source: MPIDIG_REQ_* of src/mpid/ch4 of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

BUSY = 0x1
PEER_SSEND = 0x2
UNEXPECTED = 0x4
TAKEN = 0x8
"""A matched probe has taken the message off the list (MPIDIG_REQ_UNEXP_DQUED)."""
MATCHED = 0x40
RENDEZVOUS = 0x80
IN_PROGRESS = 0x100
