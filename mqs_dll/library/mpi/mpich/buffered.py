"""Buffered sends: each is a nonblocking send of a copy in the buffer that the program attached.

Before the copy lies what MPICH knows of it, which refers to the request. Source: src/include/mpir_bsend.h,
src/mpi/pt2pt/bsendutil.c of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

from itertools import pairwise

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.memory import WORD, Memory

HEADER_WORDS = 12
"""The size of MPII_Bsend_data_t, which is MPI_BSEND_OVERHEAD and thus a part of MPICH's ABI."""


def is_copy(memory: Memory, buffer: int, request: int) -> bool:
    """Tell whether the buffer of a send is such a copy: its header has the addresses of the request and of the copy."""
    try:
        words = memory.pointers(buffer - HEADER_WORDS * WORD, HEADER_WORDS)
    except TargetReadError:
        return False
    return (request, buffer) in pairwise(words)
