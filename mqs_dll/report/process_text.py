"""A Snapshot for people: one table per communicator, as a renderable of rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Datatype, Label, LayoutOrigin, Operation, Queue, Status, Window
from mqs_dll.contract.escape import printable, visible
from mqs_dll.contract.names import called, marks_of
from mqs_dll.job.shared import grouped
from mqs_dll.job.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot, Snapshot, leaves_peer_open
from mqs_dll.report.terminal import columns, indented

QUEUE_TITLES = {Queue.SENDS: "sends", Queue.RECEIVES: "receives", Queue.UNEXPECTED: "unexpected"}
_COLUMNS = ("queue", "status", "peer", "world", "tag", "bytes", "what")
_NOTHING = "-"
_NOT_KNOWN = "?"
_ANY = "any"

Item = TypeVar("Item")


def render(snapshot: Snapshot) -> RenderableType:
    """Return everything in a snapshot, ready for Console.print."""
    parts: list[RenderableType] = [_heading(snapshot)]
    if not snapshot.communicators:
        parts.append(Text("\nThe library lists no communicator."))
    for communicator in snapshot.communicators:
        parts += ["", _communicator(communicator)]
    parts += _core_tables(snapshot.core)
    return Group(*parts)


def render_communicators(snapshot: Snapshot) -> RenderableType:
    """Return the communicators alone, one in a row, with how many operations each of their queues has."""
    table = columns("communicator", "rank", "group", *QUEUE_TITLES.values(), "id")
    for each in snapshot.communicators:
        record = each.communicator
        counts = (_NOT_KNOWN if queue.hidden else str(len(queue.operations)) for queue in each.queues)
        rank = f"{record.local_rank} of {record.size}"
        cells = (_called(each.label), rank, _group(each.group), *counts, f"{record.unique_id:#x}")
        table.add_row(*map(Text, cells))
    return table


def _heading(snapshot: Snapshot) -> RenderableType:
    rank = "rank not known" if snapshot.global_rank is None else f"rank {snapshot.global_rank} of MPI_COMM_WORLD"
    title = Text(f"Process {snapshot.pid} ({visible(snapshot.program)}), {rank}", style="bold")
    where = f", {visible(snapshot.library_path)}" if snapshot.library_path else ""
    message = snapshot.process_message or snapshot.image_message
    lines = [
        visible(message) if message else "the library says nothing about the process",
        f"read by {visible(snapshot.library)}{where}",
        f"{_pause(snapshot)}{snapshot.reads} reads, {snapshot.bytes_read} bytes",
    ]
    return Group(title, Text("\n".join(lines)))


def _pause(snapshot: Snapshot) -> str:
    """Return for how long the process was stopped; empty for a core file, and for one that ran all the time."""
    return f"stopped for {snapshot.stop_time * 1000:.1f} ms: " if snapshot.stop_time else ""


# ---------------------------------------------------------------- communicators


def _communicator(snapshot: CommunicatorSnapshot) -> RenderableType:
    record = snapshot.communicator
    title = Text(_called(snapshot.label), style="bold cyan")
    title.append(
        f"  id {record.unique_id:#x}, rank {record.local_rank} of {record.size}, {_group(snapshot.group)}",
        style="not bold default",
    )
    parts: list[RenderableType] = [title]
    table = columns(*_COLUMNS)
    for queue in snapshot.queues:
        for operation in queue.operations:
            table.add_row(*(Text(cell) for cell in _operation_cells(queue.queue, operation)))
    if table.row_count:
        parts.append(indented(table))
    return Group(*parts, *_remarks(snapshot.queues))


def _called(label: Label) -> str:
    """Return a name in quotes, or a description in brackets, and the marks."""
    name = f'"{printable(label.name)}"' if label.name else printable(called(label)) or "unnamed"
    marks = printable(b", ".join(marks_of(label)))
    return f"{name} [{marks}]" if marks else name


def _group(group: tuple[int, ...] | Hidden) -> str:
    if isinstance(group, Hidden):
        return f"its group can't be seen: {visible(group.reason)}"
    return f"world ranks {compress_ranks(group)}"


def compress_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as ``0-3,7,5``, in their order; one outside MPI_COMM_WORLD is a question mark."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1 and rank > 0:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank])
    return ",".join("-".join(_NOT_KNOWN if rank < 0 else str(rank) for rank in run) for run in runs) or "none"


def _remarks(queues: Iterable[QueueSnapshot]) -> Iterator[Text]:
    """Yield lines besides operations: an empty queue is called so only where it could be read."""
    empty = []
    for queue in queues:
        title = QUEUE_TITLES[queue.queue]
        if queue.hidden:
            yield Text(f"  {title}: can't be seen: {visible(queue.hidden.reason)}", style="yellow")
        elif queue.broken:
            count = len(queue.operations)
            yield Text(f"  {title}: the list breaks off after {count}: {visible(queue.broken)}", style="red")
        elif not queue.operations:
            empty.append(title)
    if empty:
        yield Text(f"  none: {', '.join(empty)}", style="dim")


def _operation_cells(queue: Queue, operation: Operation) -> tuple[str, ...]:
    return (
        QUEUE_TITLES[queue],
        operation.status.name.lower(),
        peer_words(queue, operation, operation.desired_local_rank, operation.actual_local_rank),
        peer_words(queue, operation, operation.desired_global_rank, operation.actual_global_rank),
        tag_words(operation),
        length_words(operation),
        "\n".join(_texts(operation)) or _NOTHING,
    )


def _texts(operation: Operation) -> Iterator[str]:
    yield from map(printable, operation.extra_text)
    if operation.buffer:
        yield f"buffer {operation.buffer:#x}{' of the MPI' if operation.system_buffer else ''}"


def peer_words(queue: Queue, operation: Operation, desired: int = INVALID_RANK, actual: int = INVALID_RANK) -> str:
    """Return a peer's rank, "any", "any: 3" once a message has been found, or "?"; local ranks or global ones."""
    if desired != INVALID_RANK:
        return str(desired)
    if not leaves_peer_open(queue, operation):
        return _NOT_KNOWN
    return _ANY if actual == INVALID_RANK else f"{_ANY}: {actual}"


def tag_words(operation: Operation) -> str:
    """Return an operation's tag, "any", "any: 7" once a message has been found, or "?"."""
    if not operation.tag_wild:
        return _NOT_KNOWN if operation.desired_tag == UNKNOWN else str(operation.desired_tag)
    return _ANY if operation.status is Status.PENDING else f"{_ANY}: {operation.actual_tag}"


def length_words(operation: Operation) -> str:
    """Return the bytes of an operation, "40 of 4096" where less arrived than fits, or "?"."""
    desired = _NOT_KNOWN if operation.desired_length == UNKNOWN else str(operation.desired_length)
    arrived = operation.status is not Status.PENDING and operation.actual_length != UNKNOWN
    return f"{operation.actual_length} of {desired}" if arrived and str(operation.actual_length) != desired else desired


# ---------------------------------------------------------------- beyond the MQS interface


def _core_tables(core: CoreView) -> Iterator[RenderableType]:
    if core.windows is not None:
        yield from _listing("Windows", ("name", "processes", "handle"), core.windows, _window_cells)
    if core.datatypes is not None:
        titles = ("name", "bytes", "kind", "operations", "handle")
        yield from _listing("Datatypes in use", titles, core.datatypes, _datatype_cells)
    if core.layouts is not None:
        yield from _listing("Layouts", ("from", "structs"), _by_origin(core.layouts), _origin_cells)


def _listing(
    title: str,
    titles: tuple[str, ...],
    items: tuple[Item, ...] | Hidden,
    cells: Callable[[Item], tuple[str, ...]],
) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    if isinstance(items, Hidden):
        yield Text(f"  can't be seen: {visible(items.reason)}", style="yellow")
    elif not items:
        yield Text("  none", style="dim")
    else:
        table = columns(*titles)
        for item in items:
            table.add_row(*(Text(cell) for cell in cells(item)))
        yield indented(table)


def _window_cells(window: Window) -> tuple[str, ...]:
    return f'"{printable(window.name)}"', str(window.size), f"{window.address:#x}"


def _datatype_cells(datatype: Datatype) -> tuple[str, ...]:
    kind = "predefined" if datatype.predefined else "derived"
    name = f'"{printable(datatype.name)}"'
    return name, str(datatype.size), kind, str(datatype.operations), f"{datatype.address:#x}"


def _by_origin(layouts: tuple[LayoutOrigin, ...]) -> tuple[tuple[str, list[str]], ...]:
    return tuple(grouped((layout.origin, layout.struct) for layout in layouts).items())


def _origin_cells(layouts: tuple[str, list[str]]) -> tuple[str, ...]:
    origin, structs = layouts
    return visible(origin), visible(", ".join(structs))
