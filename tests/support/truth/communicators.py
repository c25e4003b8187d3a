"""Communicators as they are shown, found by all that is known of them, and compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mqs_dll.contract.abi import Label
from mqs_dll.job.snapshot import CommunicatorSnapshot
from tests.support.truth.written import TrueCommunicator, Truth

FIELD_BYTES = 63
LINEAGE = re.compile(rb"(?:dup|split|split by type|group|(?:cartesian|graph|distributed graph) topology)(?: of .+)?")
"""How a communicator without a name is described: how it was made, and its parent."""


def pair(
    truth: Truth, shown: Sequence[CommunicatorSnapshot]
) -> tuple[dict[str, CommunicatorSnapshot], list[CommunicatorSnapshot], list[TrueCommunicator]]:
    """Find each true communicator among those shown, by all that is known of it.

    Returns:
        What is shown for each key; what is shown and not in the truth; what is in the truth and not shown.
    """
    found: dict[str, CommunicatorSnapshot] = {}
    left = sorted(shown, key=lambda each: each.communicator.unique_id)  # those alike: in the order of their making
    missing = []
    for true in sorted(truth.communicators, key=lambda each: not (each.name or each.name_set)):
        for each in left:
            record = each.communicator
            alike = (record.local_rank, record.size, each.group) == (true.rank, len(true.group), true.group)
            if alike and may_be_called(true, each, lineage=truth.rules.describes_unnamed):
                found[true.key] = each
                left.remove(each)
                break
        else:
            missing.append(true)
    return found, left, missing


def may_be_called(true: TrueCommunicator, shown: CommunicatorSnapshot, *, lineage: bool) -> bool:
    """Return whether name, marks and the 64-byte field may be these; with lineage, words for what has no name, too."""
    name, label = fitting(true.name), shown.label
    remote = None if true.remote_group is None else len(true.remote_group)
    if label._replace(description=b"") != Label(name, b"", remote, true.freed):
        return False
    may_be_described = lineage and not name and not true.name_set
    if label.description and not (may_be_described and LINEAGE.fullmatch(label.description)):
        return False
    return shown.communicator.name == field_of(true, name, label.description)


def field_of(true: TrueCommunicator, name: bytes, description: bytes) -> bytes:
    """Return what the 64-byte field must hold."""
    marks = [] if true.remote_group is None else [b"inter, %d remote" % len(true.remote_group)]
    marks += [b"freed"] if true.freed else []
    suffix = b"[" + b", ".join(marks) + b"]" if marks else b""
    if name:
        choices = (marks, *([each] for each in marks))
        fields = (name + b" [" + b", ".join(each) + b"]" for each in choices if each)
        return next((each for each in fields if len(each) <= FIELD_BYTES), name)
    return b" ".join(filter(None, (b"[" + description + b"]" if description else b"", suffix)))


def describe(shown: Iterable[CommunicatorSnapshot]) -> str:
    """Return communicators in a few words, for a difference's text."""
    return "; ".join(f"{each.communicator} {each.group}" for each in shown)


def took_a_number(truth: Truth, shown: CommunicatorSnapshot) -> bool:
    """Return whether a communicator is that of a window, which has the number of a freed one."""
    return truth.rules.numbers_are_reused and shown.label.internal and b"[window" in shown.communicator.name


def compare_communicators(
    truth: Truth, shown: Sequence[CommunicatorSnapshot], *, freed_may_be_gone: bool = False
) -> list[str]:
    """Compare the communicators of a process: every field, their groups, and that there are no others.

    Args:
        truth: what the process wrote down.
        shown: what a library shows.
        freed_may_be_gone: whether this transport lets the MPI forget a freed communicator that requests refer to.
    """
    _, others, missing = pair(truth, shown)
    others = [each for each in others if not took_a_number(truth, each)]
    differences = [f"{each} is not shown" for each in missing if not (each.freed and freed_may_be_gone)]
    internal = [each for each in others if each.label.internal]
    made_up = [each for each in others if each not in internal]
    if made_up:
        differences.append(f"shown, but not there: {describe(made_up)}")
    may_be = bool(truth.internal_traffic) or (truth.rules.hidden_traffic and bool(truth.collectives))
    must_be = bool(truth.internal_traffic) and truth.rules.collectives_are_messages
    if (internal and not may_be) or (must_be and not internal):
        differences.append(f"internal communicators: {describe(internal)}; true traffic: {truth.internal_traffic!r}")
    ids = [each.communicator.unique_id for each in shown]
    handles = {each.handle for each in shown}
    differences += [
        f"no handle of {each}" for each in truth.communicators if not each.freed and each.handle not in handles
    ]
    if len(set(ids)) < len(ids):
        differences.append(f"two communicators of a process have the same id: {sorted(ids)}")
    return differences


def compare_ids(seen: Sequence[tuple[Truth, Sequence[CommunicatorSnapshot]]]) -> list[str]:
    """Compare the ids of each communicator in all its processes, and with those of all others of the job.

    One of a single process is another in each process. Of a job with spawned processes MPI_COMM_WORLD is left out:
    there are two with that key.
    """
    ids: dict[object, dict[int, list[int]]] = {}
    keys: dict[int, set[object]] = {}
    several = any(each.has_strangers for truth, _ in seen for each in truth.communicators)
    for truth, shown in seen:
        found, _, _ = pair(truth, shown)
        for key, each in found.items():
            if several and key in ("world", "self"):
                continue
            communicator = truth.communicator(key)
            alone = len(communicator.group) == 1 and communicator.remote_group is None
            one = (key, truth.pid) if alone else key
            ids.setdefault(one, {}).setdefault(each.communicator.unique_id, []).append(truth.world_rank)
            keys.setdefault(each.communicator.unique_id, set()).add(one)
    differences = [f"{key} has the ids {ranks}" for key, ranks in ids.items() if len(ranks) > 1]
    return differences + [f"{one:#x} is the id of {same}" for one, same in keys.items() if len(same) > 1]


def ids_of_worlds(seen: Sequence[tuple[Truth, Sequence[CommunicatorSnapshot]]]) -> set[int]:
    """Return the ids of the MPI_COMM_WORLDs of a job."""
    return {pair(truth, shown)[0]["world"].communicator.unique_id for truth, shown in seen}


def fitting(name: bytes) -> bytes:
    """Return what the field shows of a name: whole UTF-8 characters, no trailing blanks.

    An MPI whose names have 63 bytes may have cut one within a character; that shows only by others like it before.
    """
    cut = name[:FIELD_BYTES]
    parts = [cut[: len(cut) - dropped] for dropped in range(4)]
    whole = next((part for part in parts if is_utf8(part)), cut)
    was_cut = is_utf8(name) if len(name) > FIELD_BYTES else len(name) == FIELD_BYTES and not whole.isascii()
    return (whole if was_cut else cut).rstrip(b" ")


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
