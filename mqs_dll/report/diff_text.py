"""What differs between two jobs, for people: what many ranks have in common is one line, with their ranks in ranges."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from mqs_dll.contract.abi import INVALID_RANK, Operation, Queue
from mqs_dll.contract.escape import printable, visible
from mqs_dll.job.changes import (
    CommunicatorChange,
    JobDiff,
    OperationChange,
    RankName,
    StateChange,
    VisibilityChange,
)
from mqs_dll.job.ranges import rank_words
from mqs_dll.job.shared import grouped
from mqs_dll.job.snapshot import leaves_peer_open
from mqs_dll.report.process_text import length_words, tag_words

_MAX_LINES = 40
"""Of one kind of difference; of more it is said how many there are."""

_PEERS = {Queue.SENDS: "send to", Queue.RECEIVES: "receive from", Queue.UNEXPECTED: "message from"}
_ABSENT = "not in the job"


# ---------------------------------------------------------------- text


def render(diff: JobDiff) -> RenderableType:
    """Return all differences, ready for Console.print; that there are none is said."""
    return Group(*_heading(diff), *_facts(diff), *_sections(diff))


def _heading(diff: JobDiff) -> Iterator[RenderableType]:
    compared = f"{_count(diff.compared)} read in both" if diff.compared else "no rank was read in both"
    if not diff.same:
        yield Text("The jobs differ.", style="bold")
    elif diff.compared:
        yield Text("The jobs are the same: nothing differs.", style="bold green")
    else:
        yield Text("Nothing differs, but there was nothing to compare.", style="bold yellow")
    yield Text(f"  {compared}")
    if diff.restarted:
        others = "another process" if len(diff.restarted) == 1 else "other processes"
        yield Text(f"  {_named(diff.restarted)}: {others} than before, so addresses don't count", style="dim")


def _count(ranks: tuple[RankName, ...]) -> str:
    return "1 rank" if len(ranks) == 1 else f"{len(ranks)} ranks"


def _facts(diff: JobDiff) -> Iterator[RenderableType]:
    for fact in diff.facts:
        yield Text(f"  {fact.what}: {visible(fact.before)} -> {visible(fact.after)}")


def _sections(diff: JobDiff) -> Iterator[RenderableType]:
    yield from _section("Ranks", ((each.rank, _state_words(each)) for each in diff.states))
    yield from _section(
        "Calls", ((each.rank, f"{visible(each.before)} -> {visible(each.after)}") for each in diff.calls)
    )
    yield from _section("Communicators", ((each.rank, _communicator_words(each)) for each in diff.communicators))
    yield from _operations(diff.operations)
    yield from _section("What can be seen", ((each.rank, _visibility_words(each)) for each in diff.visibility))


def _section(title: str, lines: Iterable[tuple[RankName, str]]) -> Iterator[RenderableType]:
    """Yield a title and lines, each once for all ranks that have it; nothing where there are none."""
    merged = grouped((line, rank) for rank, line in lines)
    yield from _titled(title, [f"{_named(ranks)}: {line}" for line, ranks in merged.items()])


def _titled(title: str, lines: list[str]) -> Iterator[RenderableType]:
    if not lines:
        return
    yield Text(f"\n{title}", style="bold")
    for line in lines[:_MAX_LINES]:
        yield Text(f"  {line}")
    if len(lines) > _MAX_LINES:
        yield Text(f"  and {len(lines) - _MAX_LINES} more (--json has them all)", style="dim")


def _named(ranks: Iterable[RankName]) -> str:
    """Return "ranks [0-3,7]", and of another MPI_COMM_WORLD "ranks 1:[0-3]"."""
    by_world = grouped((rank.world, rank.rank) for rank in ranks)
    return " and ".join(
        rank_words(numbers).replace(" ", f" {world}:", 1) if world else rank_words(numbers)
        for world, numbers in sorted(by_world.items())
    )


def _state_words(change: StateChange) -> str:
    return " -> ".join(_ABSENT if state is None else state.value for state in (change.before, change.after))


def _communicator_words(change: CommunicatorChange) -> str:
    if change.before is None or change.after is None:
        name = change.before if change.after is None else change.after
        end = "vanished" if change.after is None else "appeared"
        return f'"{printable(name or b"")}" (id {change.unique_id:#x}) {end}'
    return f'"{printable(change.before)}" (id {change.unique_id:#x}) is named "{printable(change.after)}" now'


def _visibility_words(change: VisibilityChange) -> str:
    what = change.what if change.communicator is None else f'{change.what} on "{printable(change.communicator)}"'
    if change.after is None:
        return f"{what}: can be seen now; before: {visible(change.before or '')}"
    if change.before is None:
        return f"{what}: can't be seen any more: {visible(change.after)}"
    return f"{what}: {visible(change.before)} -> {visible(change.after)}"


# ---------------------------------------------------------------- operations


def _operations(changes: Iterable[OperationChange]) -> Iterator[RenderableType]:
    """Yield operations, merged over ranks and peers: in a ring no two ranks have the same peer."""
    merged = grouped((_likeness(change), change) for change in changes)
    yield from _titled("Operations", [_operation_line(alike) for alike in merged.values()])


def _likeness(change: OperationChange) -> Hashable:
    """Return what operations have in common that stand in one line: the words about them without ranks and peers."""
    known = _known(change)
    return (
        change.rank.world,
        change.communicator,
        change.queue,
        known.desired_global_rank == INVALID_RANK and _peer(change.queue, known),
        _details(known),
        _end(change),
    )


def _known(change: OperationChange) -> Operation:
    known = change.after or change.before
    assert known is not None  # a change has one of them
    return known


def _operation_line(alike: list[OperationChange]) -> str:
    first = alike[0]
    known = _known(first)
    peers = [_known(change).desired_global_rank for change in alike]
    peer = rank_words(peers) if INVALID_RANK not in peers else _peer(first.queue, known)
    times = f" ({len(alike)} times)" if len(alike) > len({change.rank for change in alike}) else ""
    who = _named(change.rank for change in alike)
    return (
        f'{who} on "{printable(first.communicator)}": {_PEERS[first.queue]} {peer}, {_details(known)}'
        f"{times}: {_end(first)}"
    )


def _peer(queue: Queue, operation: Operation) -> str:
    """Return the peer where its rank of MPI_COMM_WORLD isn't known."""
    if operation.desired_local_rank != INVALID_RANK:
        return f"its rank {operation.desired_local_rank} there"
    return "any rank" if leaves_peer_open(queue, operation) else "a rank that isn't known"


def _details(operation: Operation) -> str:
    first = printable(operation.extra_text[0]) if operation.extra_text else ""
    return f"tag {tag_words(operation)}, {length_words(operation)} bytes{f' ({first})' if first else ''}"


def _end(change: OperationChange) -> str:
    """Return what became of it."""
    if change.before is None:
        return "appeared"
    if change.after is None:
        return "vanished"
    if change.before.status is not change.after.status:
        return f"{change.before.status.name.lower()} -> {change.after.status.name.lower()}"
    return "another one like it" if change.before.extra_text != change.after.extra_text else "has gone on"
