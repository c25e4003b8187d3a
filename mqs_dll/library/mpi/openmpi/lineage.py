"""Where the communicators without a name come from, as Open MPI's own text for them has it: "dup of halo exchange".

Open MPI writes "MPI COMMUNICATOR 17 DUP FROM 3" where a name would be, without the flag of names that were set:
MPI_Comm_get_name returns nothing. The parent is given by its number, which another communicator may have got since the
parent was freed: one whose processes can't be the parent's is not taken for it; one with the same processes can't be
distinguished from it. Source: ompi/communicator/comm.c of 4.1.0 to 5.0.10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mqs_dll.contract.errors import MqsError
from mqs_dll.contract.names import fit
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry

_TEXT = re.compile(
    rb"MPI[ _](?:COMM|COMMUNICATOR|INTERCOMM) \w+"
    rb"(?: (?P<made>DUP|SPLIT|SPLIT_TYPE|CREATE|GROUP|SHRUNK) FROM (?P<parent>\w+))?(?: FROM GROUP)?"
)
_WORDS = {
    b"DUP": b"dup",
    b"SPLIT": b"split",
    b"SPLIT_TYPE": b"split by type",
    b"CREATE": b"group",
    b"GROUP": b"group",
    b"SHRUNK": b"rest",
}
_TOPOLOGIES = {0x100: b"cartesian topology", 0x200: b"graph topology", 0x400: b"distributed graph topology"}
"""By c_flags (ompi/communicator/communicator.h)."""

_SAME_GROUP = (b"DUP",)

MAX_ANCESTORS = 4
"""More of them don't fit into a name's field."""


def describe(entries: Sequence[OmpiEntry]) -> None:
    """Give each communicator without a name the words for where it comes from.

    Args:
        entries: all communicators of the process.
    """
    by_text: dict[bytes, list[OmpiEntry]] = {}
    for entry in entries:
        by_text.setdefault(entry.number_text, []).append(entry)
    for entry in entries:
        words = _words_of(entry, by_text, MAX_ANCESTORS)
        if words:
            entry.relabel(description=fit(words))


def _words_of(entry: OmpiEntry, by_text: dict[bytes, list[OmpiEntry]], depth: int) -> bytes:
    """Return "dup of halo exchange", "cartesian topology of MPI_COMM_WORLD", "split of dup of halo"; empty without."""
    text = None if entry.is_named else _TEXT.fullmatch(entry.text)
    if text is None:
        return b""
    made, number = text["made"], text["parent"]
    candidates = by_text.get(number, []) if number else []
    try:
        parents = [each for each in candidates if _may_come_from(entry, each, made)]
    except MqsError:  # of a broken group
        parents, number = [], None
    topology = _topology(entry)
    parent = parents[0] if len(parents) == 1 else None
    if topology and not (parent and _topology(parent)):
        words = topology
    elif made:
        words = _WORDS[made]
    else:
        return b""
    if parent is not None:
        name = parent.label.name or (_words_of(parent, by_text, depth - 1) if depth > 0 else b"")
        return words + b" of " + (name or b"an unnamed communicator")
    return words + b" of a freed communicator" if number and not parents else words


def _topology(entry: OmpiEntry) -> bytes:
    return next((words for flag, words in _TOPOLOGIES.items() if entry.view.c_flags & flag), b"")


def _may_come_from(entry: OmpiEntry, parent: OmpiEntry, made: bytes) -> bool:
    """Return whether a communicator's processes are those of a parent, or some of them."""
    if parent is entry:
        return False
    own = {entry.view.c_local_group, entry.view.c_remote_group}
    if own <= {parent.view.c_local_group, parent.view.c_remote_group}:
        return True
    mine, others = ({*each.members()} for each in (entry, parent))
    return mine == others if made in _SAME_GROUP else mine <= others
