"""Snapshots as text and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

import mqs_dll.report
from mqs_dll.contract.abi import Communicator, Datatype, LayoutOrigin, Operation, Queue, Status, Window
from mqs_dll.contract.escape import printable
from mqs_dll.job.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot, Snapshot
from mqs_dll.report import process_json as json_report
from mqs_dll.report import process_text as text_report

RECEIVE = Operation(
    status=Status.PENDING,
    desired_local_rank=1,
    desired_global_rank=5,
    tag_wild=False,
    desired_tag=77,
    desired_length=4096,
    system_buffer=False,
    buffer=0x7FFC_898E_CB08,
    actual_local_rank=-1,
    actual_global_rank=-1,
    actual_tag=-1,
    actual_length=-1,
    extra_text=(b"MPI_Recv", b"MPI_INT x 1024"),
)
MATCHED = {
    "status": Status.MATCHED,
    "actual_local_rank": 3,
    "actual_global_rank": 9,
    "actual_tag": 8,
    "actual_length": 40,
}


def queues(
    sends: QueueSnapshot | None = None, receives: tuple[Operation, ...] = (), unexpected: tuple[Operation, ...] = ()
) -> tuple[QueueSnapshot, ...]:
    """Return the three queues of a communicator."""
    return (
        sends or QueueSnapshot(Queue.SENDS, ()),
        QueueSnapshot(Queue.RECEIVES, receives),
        QueueSnapshot(Queue.UNEXPECTED, unexpected),
    )


def snapshot_of(
    *communicators: CommunicatorSnapshot, name: bytes = b"weather", core: CoreView | None = None
) -> Snapshot:
    """Return a snapshot with communicators, or with one that is empty except for a name."""
    record = Communicator(0xFFFF_FFFF_FFFF_FF01, 1, 3, name)
    return Snapshot(
        pid=4711,
        program="solver",
        library="libmqs",
        library_path="/opt/libmqs.so",
        image_message="Open MPI",
        process_message="Open MPI 4.1.4, pml/ob1",
        global_rank=2,
        communicators=communicators or (CommunicatorSnapshot(record, (2, 3, 4), queues()),),
        core=core or CoreView(),
        stop_time=0.0123,
        reads=33,
        bytes_read=4096,
    )


def with_queues(*parts: QueueSnapshot) -> Snapshot:
    """Return a snapshot of one communicator with queues."""
    return snapshot_of(CommunicatorSnapshot(Communicator(3, 1, 3, b"weather"), (2, 3, 4), parts))


def as_text(snapshot: Snapshot, width: int = 160) -> str:
    """Return a snapshot as it is printed."""
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(text_report.render(snapshot))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def row(operation: Operation, queue: Queue = Queue.RECEIVES) -> list[str]:
    """Return the cells of an operation's first line: queue, status, peer, world, tag, bytes, what."""
    text = as_text(with_queues(QueueSnapshot(queue, (operation,))))
    line = next(line for line in text.splitlines() if operation.status.name.lower() in line)
    return [cell.strip() for cell in line.strip().split("   ") if cell.strip()]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        (b"line\nbreak\r\t\x00", r"line\x0abreak\x0d\x09\x00"),
        (b"\xc2\x9b31m", r"\x9b31m"),
        ("caf\u00e9 \u6c17\u8c61".encode(), "caf\u00e9 \u6c17\u8c61"),
        (b"caf\xe9", r"caf\xe9"),
        ("\u202etxt.exe".encode(), r"\u202etxt.exe"),
        ("a line\u2028a paragraph\u2029".encode(), r"a line\u2028a paragraph\u2029"),
        ("\U000e0041".encode(), r"\U000e0041"),
        (rb"caf\xe9", r"caf\\xe9"),
        (b"[bold]:smile:[/bold]", "[bold]:smile:[/bold]"),
    ],
)
def test_names_on_a_terminal(name: bytes, shown: str) -> None:
    """A name shows as it is except for what doesn't show, which is escaped so that different names are different."""
    assert printable(name) == shown
    assert f'"{shown}"  id 0xffffffffffffff01, rank 1 of 3' in as_text(snapshot_of(name=name))


def test_texts_of_operations_are_escaped() -> None:
    """The lines of an operation are the target's too."""
    assert row(RECEIVE._replace(extra_text=(b"type \x1b[2J",)))[-1] == r"type \x1b[2J"


def test_every_text_of_the_library_is_escaped() -> None:
    """Reasons and messages may quote the target: they can't steer the terminal either."""
    evil = "evil \x1b]0;title\x07"
    hidden = Hidden(evil)
    broken = QueueSnapshot(Queue.RECEIVES, (), broken=evil)
    communicator = CommunicatorSnapshot(
        Communicator(1, 0, 1, b"c"), hidden, (QueueSnapshot(Queue.SENDS, (), hidden=hidden), broken)
    )
    snapshot = snapshot_of(communicator, core=CoreView(windows=hidden, datatypes=hidden))
    text = as_text(replace(snapshot, program=evil, library=evil, library_path=evil, process_message=evil))
    assert text.count(r"evil \x1b]0;title\x07") == 9
    assert "\x1b" not in text


# ---------------------------------------------------------------- text


def test_the_heading() -> None:
    """The heading shows which process, which MPI, which library, and what reading has cost."""
    heading = as_text(snapshot_of()).splitlines()[:4]
    assert [line.rstrip() for line in heading] == [
        "Process 4711 (solver), rank 2 of MPI_COMM_WORLD",
        "Open MPI 4.1.4, pml/ob1",
        "read by libmqs, /opt/libmqs.so",
        "stopped for 12.3 ms: 33 reads, 4096 bytes",
    ]


def test_an_unknown_rank_is_said() -> None:
    """A rank that the library doesn't know isn't made up."""
    assert "rank not known" in as_text(replace(snapshot_of(), global_rank=None))


def test_a_pending_receive() -> None:
    """A receive shows its source by both ranks, its tag, its bytes, and all that the library shows."""
    text = as_text(with_queues(QueueSnapshot(Queue.RECEIVES, (RECEIVE,))))
    assert row(RECEIVE) == ["receives", "pending", "1", "5", "77", "4096", "MPI_Recv"]
    assert "MPI_INT x 1024" in text
    assert "buffer 0x7ffc898ecb08" in text


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        ({"desired_local_rank": -1, "desired_global_rank": -1, "tag_wild": True}, ["any", "any", "any", "4096"]),
        (
            {"desired_local_rank": -1, "desired_global_rank": -1, "tag_wild": True, **MATCHED},
            ["any: 3", "any: 9", "any: 8", "40 of 4096"],
        ),
        (
            {"desired_local_rank": -1, "desired_global_rank": -1, "desired_tag": -1, "desired_length": -1},
            ["?", "?", "?", "?"],
        ),
    ],
    ids=["wildcards", "matched wildcards", "not known"],
)
def test_what_a_receive_leaves_open(changes: dict[str, Any], cells: list[str]) -> None:
    """A wildcard, what it has matched, and what can't be known are different."""
    assert row(RECEIVE._replace(**changes))[2:6] == cells


def test_an_unknown_sender_is_no_wildcard() -> None:
    """Outside of receives -1 is a rank that isn't known."""
    unknown = RECEIVE._replace(desired_local_rank=-1, desired_global_rank=-1)
    assert row(unknown, Queue.UNEXPECTED)[2:4] == ["?", "?"]


def test_a_buffer_of_the_mpi() -> None:
    """A buffer of the MPI's own is distinguished from the user's."""
    mine = RECEIVE._replace(system_buffer=True)
    assert "buffer 0x7ffc898ecb08 of the MPI" in as_text(with_queues(QueueSnapshot(Queue.UNEXPECTED, (mine,))))


def test_an_empty_queue_is_called_so() -> None:
    """Queues without operations are named as such."""
    assert "  none: sends, receives, unexpected" in as_text(snapshot_of())


def test_a_hidden_queue_is_never_empty() -> None:
    """A queue that couldn't be read gives the reason, and isn't among the empty ones."""
    text = as_text(with_queues(*queues(QueueSnapshot(Queue.SENDS, (), hidden=Hidden("pml/cm keeps none")), (RECEIVE,))))
    assert "  sends: can't be seen: pml/cm keeps none" in text
    assert "  none: unexpected" in text


def test_a_broken_queue_is_never_empty() -> None:
    """A list that breaks off shows after how many operations and why, even after none."""
    text = as_text(with_queues(QueueSnapshot(Queue.RECEIVES, (), broken="a loop")))
    assert "  receives: the list breaks off after 0: a loop" in text
    assert "none:" not in text


def test_no_communicator_is_said() -> None:
    """A library that lists no communicator is said to do so."""
    assert "lists no communicator" in as_text(replace(snapshot_of(), communicators=()))


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((0, 1, 2, 3), "0-3"), ((7, 0, 1, 5), "7,0-1,5"), ((3, 2, 1), "3,2,1"), ((-1, 0, 1, -1), "?,0-1,?"), ((), "none")],
)
def test_groups_are_ranges(ranks: tuple[int, ...], text: str) -> None:
    """Ranks keep their order; a run is a range; a process outside MPI_COMM_WORLD is a question mark."""
    assert text_report.compress_ranks(ranks) == text


def test_a_hidden_group_has_its_reason() -> None:
    """A group that can't be seen says why."""
    communicator = CommunicatorSnapshot(Communicator(3, 1, 3, b"c"), Hidden("no such group"), queues())
    assert "its group can't be seen: no such group" in as_text(snapshot_of(communicator))


CORE = CoreView(
    layouts=(LayoutOrigin("ompi_request_t", "profile x"), LayoutOrigin("ompi_win_t", "debug information"),
             LayoutOrigin("ompi_group_t", "profile x")),
    windows=(Window(b"caf\xe9", 4, 0xABC0),),
    datatypes=(Datatype(b"MPI_INT", 4, True, 3, 0xDEF0),),
)  # fmt: skip


def test_what_the_core_shows() -> None:
    """Windows, datatypes and the origin of every layout are listed."""
    lines = [" ".join(line.split()) for line in as_text(snapshot_of(core=CORE)).splitlines()]
    assert r'"caf\xe9" 4 0xabc0' in lines
    assert '"MPI_INT" 4 predefined 3 0xdef0' in lines
    assert "profile x ompi_request_t, ompi_group_t" in lines
    assert "debug information ompi_win_t" in lines


def test_windows_that_cannot_be_seen_or_are_none() -> None:
    """No windows, and windows that can't be seen, are different."""
    text = as_text(snapshot_of(core=CoreView(windows=(), datatypes=Hidden("no such list"))))
    assert "Windows\n  none" in text
    assert "can't be seen: no such list" in text


def test_a_narrow_terminal_loses_nothing() -> None:
    """On 60 columns cells fold; no address is cut."""
    text = as_text(with_queues(QueueSnapshot(Queue.RECEIVES, (RECEIVE,))), width=60)
    assert "\u2026" not in text
    assert "".join(line[-12:].strip() for line in text.splitlines()).count("0x7ffc898ecb08") == 1


# ---------------------------------------------------------------- JSON


SCHEMA = json.loads((Path(mqs_dll.report.__file__).parent / "schema-2.json").read_text())
EVERYTHING = snapshot_of(
    CommunicatorSnapshot(Communicator(0xFFFF_FFFF_FFFF_FF01, 1, 3, b"caf\xe9"), (2, -1), queues(None, (RECEIVE,))),
    CommunicatorSnapshot(
        Communicator(1, 0, 1, b""),
        Hidden("no such group"),
        (
            QueueSnapshot(Queue.SENDS, (), hidden=Hidden("pml/cm")),
            QueueSnapshot(Queue.RECEIVES, (RECEIVE._replace(extra_text=(b"\xff",)),), broken="a loop"),
            QueueSnapshot(Queue.UNEXPECTED, ()),
        ),
    ),
    core=CORE,
)


@pytest.mark.parametrize("snapshot", [EVERYTHING, replace(snapshot_of(), global_rank=None, library_path=None)])
def test_json_holds_to_its_schema(snapshot: Snapshot) -> None:
    """Every document holds to the schema, which itself is one."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(json_report.render(snapshot)), SCHEMA)


def test_the_schema_describes_every_member() -> None:
    """There is no member that the schema doesn't describe."""

    def closed(schema: Any) -> Any:
        if isinstance(schema, list):
            return [closed(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        parts = {key: closed(part) for key, part in schema.items()}
        return {"additionalProperties": False, **parts} if "properties" in schema else parts

    jsonschema.validate(json.loads(json_report.render(EVERYTHING)), closed(SCHEMA))


def test_json_keeps_exact_bytes() -> None:
    """A name that is no UTF-8 is readable text and exact bytes, and the document is plain ASCII."""
    document = json_report.render(EVERYTHING)
    communicator = json.loads(document)["communicators"][0]
    assert (communicator["name"], communicator["name_hex"]) == ("caf\ufffd", "636166e9")
    assert document.isascii()


def test_json_texts_are_text() -> None:
    """A line of an operation that is no UTF-8 has replacement characters."""
    second = json.loads(json_report.render(EVERYTHING))["communicators"][1]
    assert second["queues"]["receives"]["operations"][0]["extra_text"] == ["\ufffd"]


def test_json_has_no_lone_surrogates() -> None:
    """A path that is no UTF-8, which Python holds with surrogates, becomes text that every reader takes."""
    document = json.loads(json_report.render(replace(snapshot_of(), library_path="/caf\udce9")))
    assert document["library"]["path"] == "/caf\ufffd"


def test_json_keeps_64_bits() -> None:
    """Numbers of 64 bits are text, and a receive's fields those of the record."""
    communicator = json.loads(json_report.render(EVERYTHING))["communicators"][0]
    assert communicator["unique_id"] == "0xffffffffffffff01"
    assert communicator["queues"]["receives"]["operations"] == [
        RECEIVE._asdict()
        | {"status": "pending", "buffer": "0x7ffc898ecb08", "extra_text": ["MPI_Recv", "MPI_INT x 1024"]}
    ]


def test_json_shows_hidden_from_empty() -> None:
    """What couldn't be read has its reason, and nothing else has one."""
    first, second = json.loads(json_report.render(EVERYTHING))["communicators"]
    assert first["group"] == {"items": [2, -1], "hidden": None}
    assert second["group"] == {"items": [], "hidden": "no such group"}
    assert first["queues"]["sends"] == {"operations": [], "hidden": None, "broken": None}
    assert second["queues"]["sends"] == {"operations": [], "hidden": "pml/cm", "broken": None}
    assert second["queues"]["receives"]["broken"] == "a loop"
