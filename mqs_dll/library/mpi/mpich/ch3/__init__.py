"""The device ch3: every send, receive and unexpected message is a request, and has all that there is to know.

- ``device``: what is shown of a request; here a reader starts
- ``requests``: what a request is
- ``queues``: in which order they are
"""

from __future__ import annotations

from mqs_dll.library.mpi.mpich.ch3.device import Ch3

__all__ = ["Ch3"]
