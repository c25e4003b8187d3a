"""What differs between two jobs: found, printed, and as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

import mqs_dll.report
from mqs_dll.contract.abi import Queue, Status
from mqs_dll.job.changes import JobDiff, RankName
from mqs_dll.job.compare import compare
from mqs_dll.job.records import Job, RankState
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report import diff_json
from mqs_dll.report import diff_text as diff_report
from tests.support.made_up_job import (
    ANY,
    Pending,
    Rank,
    communicator,
    gone,
    job,
    note,
    rank,
    receive,
    send,
    stack,
    unexpected,
)

SCHEMA = json.loads((Path(mqs_dll.report.__file__).parent / "diff-schema-2.json").read_text())
HALO = communicator("halo", (0, 1))


def printed(diff: JobDiff) -> str:
    """Return a difference as it is printed."""
    output = io.StringIO()
    Console(file=output, width=300, markup=False, emoji=False, highlight=False).print(diff_report.render(diff))
    return output.getvalue()


def lines(diff: JobDiff) -> list[str]:
    """Return the lines about differences."""
    return [line.strip() for line in printed(diff).splitlines() if ": " in line and line.startswith("  ")]


def difference(before: Sequence[Rank] | Rank, after: Sequence[Rank] | Rank) -> JobDiff:
    """Return what differs between two jobs of some ranks."""
    return compare(*(job(*([ranks] if isinstance(ranks, Rank) else ranks)) for ranks in (before, after)))


def changes(before: Sequence[Pending], after: Sequence[Pending], *, restarted: bool = False) -> list[str]:
    """Return the lines about what differs when rank 0 has other operations."""
    diff = difference(rank(0, *before), rank(0, *after, pid=5 if restarted else None))
    return [line.partition('on "MPI_COMM_WORLD": ')[2] for line in lines(diff) if "addresses" not in line]


# ---------------------------------------------------------------- nothing differs


def test_a_job_is_the_same_as_itself() -> None:
    """Nothing differs, and that is said with how many ranks were compared."""
    one = job(*(rank(number, receive(1), unexpected(2), call="MPI_Recv") for number in range(3)), gone(3))
    diff = compare(one, one)
    assert diff.same
    assert "The jobs are the same: nothing differs.\n  3 ranks read in both" in printed(diff)


def test_nothing_to_compare_is_not_called_the_same() -> None:
    """Where no rank was read in both, that is what is said."""
    diff = difference(gone(0), gone(0))
    assert diff.same
    assert "there was nothing to compare" in printed(diff)


def test_the_last_samples_are_compared() -> None:
    """What a job looked like before its last sample doesn't matter."""
    assert difference(rank(0, receive(1), earlier=rank(0)), rank(0, receive(1))).same


# ---------------------------------------------------------------- ranks and calls


def test_ranks_that_came_went_or_changed_their_state() -> None:
    """One line for each way in which ranks changed, and nothing about what went with them."""
    before = [rank(0), *(rank(number, receive(1)) for number in range(1, 5)), rank(5)]
    after = [rank(0), *(gone(number) for number in range(1, 4)), rank(4, state=RankState.FINALIZED), rank(6)]
    diff = compare(job(*before, size=7), job(*after, size=7))
    assert lines(diff) == [
        "ranks [1-3]: read -> exited",
        "rank 4: read -> after MPI_Finalize",
        "rank 5: read -> not in the job",
        "rank 6: not in the job -> read",
    ]


def test_processes_of_no_known_rank_are_left_out() -> None:
    """They can't be matched."""
    nameless = rank(None, state=RankState.UNREADABLE)
    assert difference([rank(0), nameless], rank(0)).states == ()


def test_ranks_of_spawned_worlds_are_others() -> None:
    """The same rank of another MPI_COMM_WORLD is another process, and is named with its world."""
    diff = difference([rank(0), rank(0, world=1), rank(1, world=1)], [rank(0), gone(0), gone(1)])
    assert "ranks 1:[0-1]: read -> not in the job" in lines(diff)
    assert "the size of MPI_COMM_WORLD no. 1: 2 -> none" in lines(diff)


def test_facts_of_the_whole_job() -> None:
    """Another command line and another MPI are differences."""
    diff = compare(job(title="mpiexec a", mpi="Open MPI 4.1.4, pml/ob1"), job(title="mpiexec b\n", mpi="MPICH 4.2.3"))
    assert lines(diff) == [
        r"the command line: mpiexec a -> mpiexec b\x0a",
        "the MPI: Open MPI 4.1.4, pml/ob1 -> MPICH 4.2.3",
    ]


def test_calls_that_changed() -> None:
    """Where a rank is in the program is its MPI call and its line, of Python where there is one."""
    before = rank(0, call="MPI_Recv", where="/home/user/ring.c:12")
    assert lines(difference(before, rank(0, call=None, where="ring.c:30"))) == [
        "rank 0: MPI_Recv in exchange at ring.c:12 -> outside MPI in exchange at ring.c:30"
    ]
    assert lines(difference(before, rank(0, stacks=[stack("MPI_Recv", "mpi4py.c:9", python="ring.py:7")]))) == [
        "rank 0: MPI_Recv in exchange at ring.c:12 -> MPI_Recv in main at ring.py:7"
    ]


def test_a_stack_that_cannot_be_told_is_no_change_of_the_call() -> None:
    """What isn't seen isn't compared; that it can't be seen any more is said."""
    diff = difference(rank(0, call="MPI_Recv"), rank(0, stacks=Hidden("no symbols")))
    assert diff.calls == ()
    assert lines(diff) == ["rank 0: the call stacks: can't be seen any more: no symbols"]


def test_reasons_that_differ_in_numbers_are_the_same() -> None:
    """A PID in a reason makes no difference."""
    assert difference(rank(0, stacks=Hidden("process 17 left")), rank(0, stacks=Hidden("process 4 left"))).same
    assert not difference(rank(0, stacks=Hidden("not asked for")), rank(0, stacks=Hidden("process 4 left"))).same


# ---------------------------------------------------------------- communicators


def with_communicators(*made: object, restarted: bool = False) -> Job:
    """Return a job of two ranks that have communicators."""
    ranks = [rank(number, pid=number + 77 if restarted else None) for number in (0, 1)]
    return job(*ranks, communicators=made)  # type: ignore[arg-type]


def test_communicators_that_appeared_or_vanished() -> None:
    """A communicator is distinguished from others by its number and its group."""
    assert lines(compare(with_communicators(), with_communicators(HALO))) == [
        f'ranks [0-1]: "halo" (id {HALO.unique_id:#x}) appeared'
    ]
    for members in ((1, 0), (0, 1, 2)):
        later = communicator("halo", members, unique_id=HALO.unique_id)
        assert lines(compare(with_communicators(HALO), with_communicators(later))) == [
            f'ranks [0-1]: "halo" (id {HALO.unique_id:#x}) vanished',
            f'ranks [0-1]: "halo" (id {HALO.unique_id:#x}) appeared',
        ]


def test_a_communicator_that_was_renamed() -> None:
    """The same communicator with another name is one change, whatever is in the name."""
    renamed = replace(HALO, name=b"o\x1bther")
    assert lines(compare(with_communicators(HALO), with_communicators(renamed))) == [
        rf'ranks [0-1]: "halo" (id {HALO.unique_id:#x}) is named "o\x1bther" now'
    ]


def test_a_program_that_was_started_anew_may_number_its_communicators_otherwise() -> None:
    """Then they are matched by name; within one process another number is another communicator."""
    other = replace(HALO, unique_id=99)
    assert compare(with_communicators(HALO), with_communicators(other, restarted=True)).same
    assert len(compare(with_communicators(HALO), with_communicators(other)).communicators) == 4


# ---------------------------------------------------------------- operations


def test_operations_that_appeared_or_vanished() -> None:
    """An operation is distinguished from others by queue, peer, tag, length and buffer."""
    before = [receive(0, 7), send(0, 7)]
    after = [receive(0, 8), unexpected(0, 7, length=9), note("3 more")]
    assert changes(before, after) == [
        "send to rank 0, tag 7, 8 bytes (MPI_Ssend or MPI_Issend): vanished",
        "receive from rank 0, tag 7, 8 bytes (MPI_Recv or MPI_Irecv): vanished",
        "receive from rank 0, tag 8, 8 bytes (MPI_Recv or MPI_Irecv): appeared",
        "message from rank 0, tag 7, 9 bytes: appeared",
        "message from a rank that isn't known, tag ?, ? bytes (3 more): appeared",
    ]


def test_equal_operations_are_counted() -> None:
    """Of three receives that are alike, two that are gone are two."""
    assert changes([receive(ANY, ANY)] * 3, [receive(ANY, ANY)]) == [
        "receive from any rank, tag any, 8 bytes (MPI_Recv or MPI_Irecv) (2 times): vanished"
    ]


def test_an_operation_that_has_gone_on() -> None:
    """The same operation with another status is one change, not two."""
    assert changes([receive(0, 7)], [receive(0, 7, status=Status.MATCHED, message=(0, 7, 8))]) == [
        "receive from rank 0, tag 7, 8 bytes (MPI_Recv or MPI_Irecv): pending -> matched"
    ]


def test_a_later_operation_that_is_alike_is_known_by_its_words() -> None:
    """In one process a receive with another number is another receive."""
    before, after = (receive(0, 7, text=("MPI_Recv", f"no. {number}")) for number in (17, 18))
    assert changes([before], [after]) == ["receive from rank 0, tag 7, 8 bytes (MPI_Recv): another one like it"]


def test_addresses_count_within_one_process_only() -> None:
    """A program that was started again has its buffers and handles elsewhere, and that is no difference."""
    before = receive(0, 7, buffer=0x1000, text=("MPI_Recv", "request 0x10"))
    after = receive(0, 7, buffer=0x2000, text=("MPI_Recv", "request 0x20"))
    assert len(changes([before], [after])) == 2
    assert changes([before], [after], restarted=True) == []
    complete = receive(0, 7, buffer=0x2000, status=Status.COMPLETE, message=(0, 7, 8))
    assert changes([before], [complete], restarted=True) == [
        "receive from rank 0, tag 7, 8 bytes (MPI_Recv or MPI_Irecv): pending -> complete"
    ]
    restarted = difference(rank(0), rank(0, pid=5))
    assert restarted.same
    assert restarted.restarted == (RankName(0, 0),)
    assert "rank 0: another process than before, so addresses don't count" in printed(restarted)


@pytest.mark.parametrize("obstacle", ["hidden", "broken"])
def test_what_cannot_be_seen_has_not_vanished(obstacle: str) -> None:
    """An operation of a queue that can't be seen as a whole in one job isn't said to be missing there."""
    unseen = rank(0, **{obstacle: [Queue.RECEIVES]})  # type: ignore[arg-type]
    whole = rank(0, receive(0, 7))
    for before, after in ((whole, unseen), (unseen, whole)):
        diff = difference(before, after)
        assert diff.operations == ()
        assert [each.what for each in diff.visibility] == ["receives"]


# ---------------------------------------------------------------- printed


def test_a_large_job_is_a_few_lines() -> None:
    """Ranks and peers are merged, also where each rank has another peer."""
    size = 1000
    before, after = ([rank(number, receive((number + 1) % size, tag)) for number in range(size)] for tag in (7, 9))
    what = "receive from ranks [0-999], tag {}, 8 bytes (MPI_Recv or MPI_Irecv)"
    assert lines(difference(before, after)) == [
        f'ranks [0-999] on "MPI_COMM_WORLD": {what.format(7)}: vanished',
        f'ranks [0-999] on "MPI_COMM_WORLD": {what.format(9)}: appeared',
    ]


def test_of_very_many_lines_the_first_are_shown() -> None:
    """The rest is counted."""
    assert "and 60 more (--json has them all)" in printed(
        difference(rank(0), rank(0, *(receive(0, tag) for tag in range(100))))
    )


# ---------------------------------------------------------------- JSON


def test_the_json_holds_to_its_schema() -> None:
    """Every kind of difference, with names that are no UTF-8, is what diff-schema-2.json describes."""
    halo = communicator(b"caf\xe9", (0, 1))
    before = job(rank(0, receive(1, 7), send(1, on=halo)), rank(1, call="MPI_Recv"), rank(2), title="a\udce9")
    after = job(rank(0, receive(1, 7, status=Status.COMPLETE), hidden=[Queue.UNEXPECTED], pid=5), rank(1), gone(2))
    document = json.loads(diff_json.render(compare(before, after)))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert all(document[member] for member in SCHEMA["required"] if member != "same")
    assert document["states"][0] == {"world": 0, "rank": 2, "before": "read", "after": "exited"}
    assert document["communicators"][0]["before"] == {"name": "caf\ufffd", "name_hex": "636166e9"}
    assert [(each["queue"], each["before"]["status"]) for each in document["operations"]] == [
        ("receives", "pending"),
        ("sends", "pending"),
    ]
