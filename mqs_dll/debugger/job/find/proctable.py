"""The launcher's own list of its ranks, where it keeps one for debuggers: MPIR_proctable of the MPIR interface.

Source: the MPI Forum's "MPIR Process Acquisition Interface" 1.0, section 9.4. Open MPI 4's mpirun fills it in always,
srun and Intel's mpiexec too; MPICH's hydra does when it was started under a debugger, and is mostly stripped of the
symbol; Open MPI 5 has none.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.bases import string_at
from mqs_dll.debugger.inside import pids_known_to
from mqs_dll.debugger.live import LiveProcess

_ENTRY = struct.Struct("=QQi4x")
"""char *host_name, char *executable_name, int pid, and its padding."""

_MAX_RANKS = 1 << 20
_MAX_TEXT = 1 << 26
"""Bytes of all names in a table: pointers into one text could make them some thousand times as many."""


class ProcDesc(NamedTuple):
    """One rank, as the launcher has it; its place in the table is its rank."""

    host: str
    """Empty where it can't be read."""
    program: str
    pid: int
    """As we know it, of a launcher in a container too; 0 where that is no process of this machine."""


def read_proctable(pid: int) -> tuple[ProcDesc, ...]:
    """Return the table of a launcher, by rank; nothing where it has none, or none that can be read."""
    with suppress(MqsError), LiveProcess(pid) as launcher:
        return _read(launcher, pids_known_to(pid))
    return ()


def _read(launcher: LiveProcess, known: Mapping[int, int] | None) -> tuple[ProcDesc, ...]:
    table, size = (launcher.image.find_symbol(name) for name in ("MPIR_proctable", "MPIR_proctable_size"))
    if table is None or size is None:
        return ()
    (address,) = struct.unpack("=Q", launcher.fetch(table, 8))
    (count,) = struct.unpack("=i", launcher.fetch(size, 4))
    if not address or not 0 < count <= _MAX_RANKS:
        return ()
    texts: dict[int, str] = {}
    left = _MAX_TEXT
    found = []
    for host, program, rank_pid in _ENTRY.iter_unpack(launcher.fetch(address, count * _ENTRY.size)):
        for pointer in (host, program):  # launchers that know many ranks let them share a text
            if pointer not in texts:
                text = string_at(launcher, pointer) or b""
                left -= len(text)
                if left < 0:
                    return ()
                texts[pointer] = text.decode("utf-8", "backslashreplace")
        ours = max(rank_pid, 0) if known is None else known.get(rank_pid, 0)
        found.append(ProcDesc(texts[host], texts[program], ours))
    return tuple(found)
