"""What following the values of a call needs to know of its parameters, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Parameter(NamedTuple):
    """One parameter of a C function, which takes one register or one word of the stack."""

    name: str
    """As the MPI standard's C binding has it."""
    size: int
    """In bytes: 4 or 8; 0 where it isn't known, which leaves the argument unknown."""
    is_signed: bool = False


ParametersOf = Callable[[str], Sequence[Parameter] | None]
"""Gives the parameters of an MPI function by its name ("MPI_Recv", "MPI_Recv_c"); None for an unknown one."""
