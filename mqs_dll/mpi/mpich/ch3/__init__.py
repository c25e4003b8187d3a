"""The device ch3: every send, receive and unexpected message is a request, and has all that there is to know.

Rooms by what they know: requests (what a request is), queues (in which order they are), and device.
"""

from __future__ import annotations

from mqs_dll.mpi.mpich.ch3.device import Ch3

__all__ = ["Ch3"]
