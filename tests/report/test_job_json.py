"""A job and its verdict as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mqs_dll.report
from mqs_dll.contract.abi import Status
from mqs_dll.job.records import Job, RankState
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report import csv as csv_report
from mqs_dll.report import json as json_report
from mqs_dll.report.process_json import stack_to_json
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import (
    Activity,
    Cause,
    Certainty,
    CommunicatorFacts,
    Finding,
    Mode,
    Outcome,
    Verdict,
    Wait,
    WaitKind,
)
from tests.support.made_up_job import ANY, communicator, given, gone, job, note, rank, receive, send, stack, unexpected

REPORT = Path(mqs_dll.report.__file__).parent
SCHEMA = json.loads((REPORT / "job-schema-2.json").read_text())
SNAPSHOT_SCHEMA = json.loads((REPORT / "schema-2.json").read_text())

EVIL = 'a,"b"\r\nc\x1b[31m\udce9'
"""A name with everything that JSON, CSV or a terminal could trip over."""

HALO = communicator(b'=HYPERLINK("x")', (1, 0))

WAIT = Wait(
    process=0,
    kind=WaitKind.RECEIVE,
    what="MPI_Recv",
    communicator="MPI_COMM_WORLD",
    communicator_id=0,
    peers=(1,),
    any_source=False,
    peer_rank=1,
    tag=7,
    any_tag=False,
    length=8,
    certainty=Certainty.PROVED,
)
IDLE = Activity(None, "outside MPI (computes)", "ring.c:9", Mode.UNKNOWN, None)
STUCK = Activity("MPI_Recv", "in MPI_Recv from rank 1, tag 7", "ring.c:12", Mode.ALL, Certainty.PROVED)


def a_job() -> Job:
    """Return a job with everything that a report shows."""
    return job(
        rank(
            0,
            receive(1, 7),
            receive(ANY, ANY, on=HALO, status=Status.MATCHED, message=(1, 3, 4)),
            stacks=[stack("MPI_Recv", "ring.c:12", python="ring.py:3"), stack(None, "")],
            earlier=rank(0, receive(1, 6), stacks=Hidden("not asked for")),
        ),
        rank(1, send(0, 8, length=1 << 40), unexpected(0, -16), note("3 messages"), program="@ring"),
        rank(2, program=EVIL, host=EVIL),
        gone(3),
        rank(4, state=RankState.UNREADABLE, why=EVIL, remedy="detach the debugger", pid=0),
        title=EVIL,
    )


def a_verdict() -> Verdict:
    """Return a verdict on that job."""
    return Verdict(
        outcome=Outcome.PROVED,
        headline=EVIL,
        findings=(
            Finding(Cause.CYCLE, Certainty.PROVED, EVIL, "", (1, 0), 0),
            Finding(Cause.NOT_READ, Certainty.NOTED, "rank 4", "detach it", (4,), None),
        ),
        waits=(
            WAIT,
            replace(WAIT, peers=(3, 1, 2), any_source=True, peer_rank=None, tag=None, any_tag=True, length=None),
            replace(
                WAIT, process=1, kind=WaitKind.CALL, what="MPI_Probe", communicator=None, communicator_id=None, peers=()
            ),
        ),
        activities=(STUCK, replace(STUCK, certainty=Certainty.SUSPECTED), IDLE, IDLE, IDLE),
        communicators=(
            CommunicatorFacts("MPI_COMM_WORLD", 0, 5, (0, 1, 2, 3, None), None),
            CommunicatorFacts("halo", 2**64 - 1, 2, (1, 0), 0),
        ),
    )


# ---------------------------------------------------------------- JSON


def as_json(**options: Any) -> Any:
    """Return the document, read back."""
    return json.loads(json_report.render(a_job(), a_verdict(), **options))


@pytest.mark.parametrize("snapshots", [True, False])
def test_the_json_holds_to_its_schema(snapshots: bool) -> None:
    """With snapshots and without, the document is what job-schema-2.json describes, and nothing more."""
    document = as_json(snapshots=snapshots)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["schema"] == "mqs-job-report/2"


def test_the_schema_knows_every_word() -> None:
    """States and kinds that a later version adds have to be added to the schema as well; causes are open."""
    defined = SCHEMA["$defs"]
    assert defined["certainty"]["enum"] == [certainty.value for certainty in Certainty]
    assert defined["process"]["properties"]["state"]["enum"] == [state.name.lower() for state in RankState]
    assert defined["process"]["properties"]["mode"]["enum"] == [mode.value for mode in Mode]
    assert defined["wait"]["properties"]["kind"]["enum"] == [kind.value for kind in WaitKind]
    assert SCHEMA["properties"]["outcome"]["enum"] == [outcome.name.lower() for outcome in Outcome]


def test_each_snapshot_is_what_mqs_show_prints() -> None:
    """A reader of `mqs show --json` reads the processes of a job too."""
    samples = [sample for process in as_json()["processes"] for sample in process["samples"]]
    assert len(samples) == 4
    for sample in samples:
        jsonschema.Draft202012Validator(SNAPSHOT_SCHEMA).validate(sample["snapshot"])
    assert samples[0]["stacks"] == {"items": [], "hidden": "not asked for"}
    assert [each["call"] for each in samples[1]["stacks"]["items"]] == ["MPI_Recv", None]
    assert samples[1]["stacks"]["items"][0]["python"]["line"] == 3


def test_what_the_verdict_says() -> None:
    """Outcome, exit code, findings with their processes, and what each process does."""
    document = as_json()
    assert (document["outcome"], document["exit_code"]) == ("proved", 1)
    assert document["findings"][0]["cause"] == "cycle"
    assert document["findings"][0]["processes"] == [1, 0]
    assert document["findings"][1]["communicator"] is None
    assert [process["certainty"] for process in document["processes"]] == ["proved", "suspected", None, None, None]
    assert document["job"]["sizes"] == [5]


def test_places_stand_in_runs() -> None:
    """Peers and members take few numbers however large the job is; what wasn't read is left out."""
    document = as_json()
    assert [wait["peers"] for wait in document["waits"]] == [[[1, 1]], [[1, 3]], []]
    assert document["communicators"][0]["members"] == [{"ranks": [0, 3], "processes": [0, 3]}]
    assert document["communicators"][1]["members"] == [
        {"ranks": [0, 0], "processes": [1, 1]},
        {"ranks": [1, 1], "processes": [0, 0]},
    ]


def test_any_reader_can_read_the_json() -> None:
    """It is ASCII, without lone surrogates; numbers of 64 bits are text; control characters survive as escapes."""
    text = json_report.render(a_job(), a_verdict())
    assert text.isascii()
    assert json.dumps(json.loads(text), ensure_ascii=False).encode()
    document = json.loads(text)
    assert document["headline"] == 'a,"b"\r\nc\x1b[31m\ufffd'
    assert document["communicators"][1]["unique_id"] == "0xffffffffffffffff"


def test_numbers_of_a_call_are_numbers_and_addresses_are_text() -> None:
    """Many readers keep 53 bits of a number, and an address may have more."""
    arguments = given(buf=0xFFFF_8000_0000_0001, count=3, comm=None)
    told = stack_to_json(stack("MPI_Recv", arguments=arguments))["arguments"]
    assert [told[name]["value"] for name in ("buf", "count", "comm")] == ["0xffff800000000001", 3, "0x44000000"]


def test_a_large_job_is_reported_without_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snapshot has its groups, so that they would be a number for each pair of ranks."""
    monkeypatch.setattr(json_report, "MAX_SNAPSHOTS", 5)
    assert as_json()["processes"][0]["samples"] is not None
    monkeypatch.setattr(json_report, "MAX_SNAPSHOTS", 4)
    assert as_json()["processes"][0]["samples"] is None
    assert as_json(snapshots=True)["processes"][0]["samples"] is not None


# ---------------------------------------------------------------- CSV


def rows() -> list[dict[str, str]]:
    """Return the rows, read back."""
    return list(csv.DictReader(io.StringIO(csv_report.render(a_job(), a_verdict()), newline=""), strict=True))


def test_waits_operations_and_messages_are_rows() -> None:
    """Of the last sample, by process; a rank that has none of them has a row of its own."""
    assert [(row["row"], row["rank"]) for row in rows()] == [
        ("wait", "0"),
        ("wait", "0"),
        ("receive", "0"),
        ("receive", "0"),
        ("wait", "1"),
        ("send", "1"),
        ("message", "1"),
        ("note", "1"),
        ("rank", "2"),
        ("rank", "3"),
        ("rank", "4"),
    ]


def test_every_row_says_what_the_process_is_and_does() -> None:
    """So that a spreadsheet can be filtered and sorted by any of it."""
    row = rows()[2]
    wanted = {
        "world": "0",
        "rank": "0",
        "host": "node0",
        "pid": "1000",
        "program": "/home/user/solver",
        "state": "read",
        "call": "MPI_Recv",
        "where": "ring.c:12",
    }
    assert {column: row[column] for column in wanted} == wanted


def test_what_a_wait_and_an_operation_say() -> None:
    """Peers by local and world rank, tags, bytes; "any" where any will do, and nothing where it isn't known."""
    columns = ("what", "communicator", "status", "peer", "peer_world_rank", "tag", "bytes", "certainty")
    told = [tuple(row[column] for column in columns) for row in rows()]
    assert told[0] == ("MPI_Recv", "MPI_COMM_WORLD", "", "1", "1", "7", "8", "proved")
    assert told[1] == ("MPI_Recv", "MPI_COMM_WORLD", "", "any", "[1-3]", "any", "", "proved")
    assert told[3] == ("MPI_Recv or MPI_Irecv", '\'=HYPERLINK("x")', "matched", "any", "any", "any", "8", "")
    assert told[4] == ("MPI_Probe", "", "", "1", "", "7", "8", "proved")
    assert told[5] == ("MPI_Ssend or MPI_Issend", "MPI_COMM_WORLD", "pending", "0", "0", "8", str(1 << 40), "")
    assert told[6] == ("", "MPI_COMM_WORLD", "complete", "0", "0", "-16", "8", "")
    assert told[7] == ("3 messages", "MPI_COMM_WORLD", "pending", "", "", "", "", "")
    assert told[8][:1] == ("outside MPI (computes)",)


def test_messages_of_which_the_sender_is_known_are_no_note() -> None:
    """Though nothing else is known of them, the row says whom they are from."""
    a_job = job(rank(0, unexpected(1, -1, length=-1, status=Status.PENDING, text=("2 messages",))), rank(1))
    table = csv_report.render(a_job, conclude(a_job))
    told = [(row["row"], row["peer"], row["what"]) for row in csv.DictReader(io.StringIO(table))]
    assert ("message", "1", "2 messages") in told


def test_no_cell_is_a_formula() -> None:
    """A text that a spreadsheet would compute has an apostrophe before it; negative numbers stay numbers."""
    found = rows()
    assert found[3]["communicator"] == '\'=HYPERLINK("x")'
    assert found[5]["program"] == "'@ring"
    assert found[6]["tag"] == "-16"
    assert not any(cell[:1] in "=+@\t\r" for row in found for cell in row.values() if cell)


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_what_a_formula_starts_with_is_marked(sign: str) -> None:
    """Spreadsheets take the full-width signs alike."""
    named = job(rank(0, program=f"{sign}ring"))
    (row,) = csv.DictReader(io.StringIO(csv_report.render(named, conclude(named))))
    assert row["program"] == f"'{sign}ring"


def test_the_csv_is_as_the_rfc_has_it() -> None:
    """A header, lines that end in CR LF, quotes where they are needed, and no control character in a cell."""
    text = csv_report.render(a_job(), a_verdict())
    lines = text.split("\r\n")
    assert lines[0] == ",".join(csv_report.COLUMNS)
    assert lines[-1] == ""
    assert len(lines) == len(rows()) + 2
    assert not any(ord(character) < 0x20 for line in lines for character in line)
    assert rows()[8]["host"] == r'a,"b"\x0d\x0ac\x1b[31m\udce9'
    assert text.encode()
