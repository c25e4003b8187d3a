"""A job and its verdict for people: mqs_dll.report.text, and the list of jobs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from mqs_dll.contract.abi import Queue
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.job.records import Job, RankState
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report import listing, terminal, text
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
from tests.support.made_up_job import gone, job, rank, receive

WORLD = "MPI_COMM_WORLD"
EVIL = "evil \x1b]0;title\x07\u202e"
EVIL_SHOWN = r"evil \x1b]0;title\x07\u202e"
WIDTHS = pytest.mark.parametrize("width", [80, 160])


def printed(renderable: RenderableType, width: int = 160) -> str:
    """Return what a file gets, with blanks at the ends of lines removed."""
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(renderable)
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def unwrapped(renderable: RenderableType, width: int = 160) -> str:
    """Return what is printed in one line, with single blanks."""
    return " ".join(printed(renderable, width).split())


def wait(
    process: int,
    *peers: int,
    kind: WaitKind = WaitKind.RECEIVE,
    communicator: str = WORLD,
    communicator_id: int = 0,
    peer_rank: int | None = None,
    tag: int | None = 7,
    any_source: bool = False,
) -> Wait:
    """Return a wait of one process for others; their rank in the communicator is that of the one peer."""
    return Wait(
        process=process,
        kind=kind,
        what="MPI_Recv",
        communicator=communicator,
        communicator_id=communicator_id,
        peers=peers,
        any_source=any_source,
        peer_rank=peers[0] if peer_rank is None and len(peers) == 1 else peer_rank,
        tag=tag,
        any_tag=False,
        length=8,
        certainty=Certainty.PROVED,
    )


def does(
    call: str | None = "MPI_Recv",
    *,
    phrase: str = "",
    where: str = "ring.c:42",
    mode: Mode = Mode.ALL,
    certainty: Certainty | None = Certainty.PROVED,
) -> Activity:
    """Return what a process does: by default it is stuck in MPI_Recv."""
    return Activity(call, phrase, where, mode, certainty)


COMPUTES = does(None, phrase="outside MPI (computes)", certainty=None)


def verdict_of(
    read: Job,
    waits: Iterable[Wait] = (),
    activities: Iterable[Activity] | None = None,
    findings: Iterable[Finding] = (),
    communicators: Iterable[CommunicatorFacts] = (),
) -> Verdict:
    """Return a verdict on a job, in which everybody is stuck in MPI_Recv unless told otherwise."""
    everyone = tuple(range(len(read.processes)))
    return Verdict(
        outcome=Outcome.PROVED,
        headline="The headline.",
        findings=tuple(findings),
        waits=tuple(waits),
        activities=tuple(activities) if activities is not None else (does(),) * len(everyone),
        communicators=(CommunicatorFacts(WORLD, 0, len(everyone), everyone, None), *communicators),
    )


def finding(sentence: str = "the sentence", *, cause: Cause = Cause.TAG, processes: tuple[int, ...] = ()) -> Finding:
    """Return a proved finding."""
    return Finding(cause, Certainty.PROVED, sentence, "the advice", processes, None)


def ranks_table(read: Job, verdict: Verdict, width: int = 160) -> list[list[str]]:
    """Return the cells of the table of ranks, without its titles; a cell that is empty isn't there."""
    lines = printed(text.render(read, verdict), width).splitlines()
    begin = lines.index("Ranks of MPI_COMM_WORLD") + 3
    end = lines.index("", begin)
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines[begin:end]]


def test_no_line_ends_in_blanks_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """In a file or a pipe nothing fills lines up to the width of the page."""
    read = job(rank(0), rank(1))
    verdict = verdict_of(read, [wait(0, 1)], findings=[finding("word " * 50)])
    terminal.console().print(text.render(read, verdict))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [line.rstrip() for line in lines]


# ---------------------------------------------------------------- what is wrong


@WIDTHS
def test_the_answer_stands_first(width: int) -> None:
    """The first line is the headline, with the outcome in capitals."""
    read = job(rank(0))
    verdict = replace(verdict_of(read), headline="Stuck for good: rank 0 waits: for ever.")
    assert printed(text.render(read, verdict), width).startswith("STUCK FOR GOOD: rank 0 waits: for ever.\n")


@WIDTHS
def test_findings_come_in_their_order_with_advice_before_the_ranks(width: int) -> None:
    """A reader meets what is wrong, what to do about it, and then the proof."""
    read = job(rank(0))
    verdict = verdict_of(read, findings=[finding("first of all"), finding("and then")])
    shown = unwrapped(text.render(read, verdict), width)
    advice = "What to do: the advice"
    assert f"What was found 1. proved: first of all {advice} 2. proved: and then {advice} Ranks of" in shown


@WIDTHS
def test_the_finding_of_the_headline_is_not_said_again(width: int) -> None:
    """Its advice follows the headline; other findings follow as what else there is."""
    read = job(rank(0))
    verdict = verdict_of(read, findings=[finding("All wait."), finding("and then")])
    shown = unwrapped(text.render(read, replace(verdict, headline="Stuck for good: all wait.")), width)
    assert shown.startswith(
        "STUCK FOR GOOD: all wait. What to do: the advice What else was found 1. proved: and then What to do"
    )


def test_a_cycle_is_a_chain_that_ends_where_it_starts() -> None:
    """The processes of a cycle stand in its order, by their ranks."""
    read = job(*(rank(number) for number in range(4)))
    waits = [wait(0, 3), wait(3, 1), wait(1, 2), wait(1, 0)]
    verdict = verdict_of(read, waits, findings=[finding(cause=Cause.CYCLE, processes=(0, 3, 1))])
    assert "\n       0 -> 3 -> 1 -> 0\n" in printed(text.render(read, verdict))


def test_processes_that_do_not_wait_for_each_other_in_turn_are_no_chain() -> None:
    """A finding that sums up several cycles has no order to show."""
    read = job(*(rank(number) for number in range(4)))
    waits = [wait(0, 1), wait(1, 0), wait(2, 3), wait(3, 2)]
    verdict = verdict_of(read, waits, findings=[finding(cause=Cause.CYCLE, processes=(0, 1, 2, 3))])
    assert "->" not in printed(text.render(read, verdict))


def test_a_long_cycle_leaves_its_middle_out() -> None:
    """A cycle through a thousand ranks takes one line, which says how many it leaves out."""
    read = job(*(rank(number) for number in range(1000)))
    waits = [ring(number, 1000) for number in range(1000)]
    verdict = verdict_of(read, waits, findings=[finding(cause=Cause.CYCLE, processes=tuple(range(1000)))])
    assert " 6 -> 7 -> ... 992 more ... -> 0\n" in printed(text.render(read, verdict))


# ---------------------------------------------------------------- ranks


def test_equal_ranks_share_a_row() -> None:
    """Ranks that do the same in the same place, and wait for the same, are named as ranges."""
    read = job(*(rank(number) for number in range(6)))
    waits = [wait(number, 4) for number in (0, 1, 2, 5)]
    table = ranks_table(read, verdict_of(read, waits, [does()] * 3 + [COMPUTES, COMPUTES, does()]))
    assert table == [
        ["[0-2,5]", "stuck in MPI_Recv", "a message from 4", WORLD, "7", "ring.c:42"],
        ["[3-4]", "outside MPI (computes)", "ring.c:42"],
    ]


def test_ranks_of_several_worlds_are_distinguished() -> None:
    """Where processes were spawned, ranks name their world; a process of which no rank is known shows its PID."""
    read = job(rank(0), rank(0, world=1), rank(1, world=1), rank(None, pid=4711))
    table = ranks_table(read, verdict_of(read, activities=[does("MPI_Send"), does(), does(), does("MPI_Probe")]))
    assert sorted(row[0] for row in table) == ["0 of world 0", "PID 4711", "[0-1] of world 1"]


@pytest.mark.parametrize(
    "other",
    [
        does("MPI_Probe"),
        does(where="ring.c:43"),
        does(certainty=Certainty.SUSPECTED),
        does(certainty=None),
    ],
)
def test_ranks_that_differ_have_rows_of_their_own(other: Activity) -> None:
    """Another call, another line of the program, and another certainty are not merged."""
    read = job(rank(0), rank(1), rank(2))
    table = ranks_table(read, verdict_of(read, [wait(0, 2), wait(1, 2)], [does(), other, COMPUTES]))
    assert [row[0] for row in table] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (wait(0, 1), "a message from 1"),
        (wait(0, 1, 2, 3, any_source=True), "a message from any of [1-3]"),
        (wait(0, any_source=True), "a message from any rank"),
        (wait(0), "a message from a rank that isn't known"),
        (wait(0, 1, kind=WaitKind.SEND), "1 to receive"),
        (wait(0, 1, 3, kind=WaitKind.COLLECTIVE), "[1,3] to enter"),
        (wait(0, kind=WaitKind.COLLECTIVE), "others to enter"),
        (wait(0, kind=WaitKind.CALL), "something that can't be seen"),
    ],
)
def test_what_a_rank_waits_for_is_said_in_words(one: Wait, words: str) -> None:
    """A receive, a send, a collective and an unknown wait read differently, and so do one, any and unknown peers."""
    read = job(*(rank(number) for number in range(4)))
    table = ranks_table(read, verdict_of(read, [one], [does(), COMPUTES, COMPUTES, COMPUTES]))
    assert table[0][2] == words


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ([wait(0, 3, kind=WaitKind.COLLECTIVE, tag=None)], ["its message from 3"]),
        ([wait(0, 3, kind=WaitKind.COLLECTIVE, tag=None), wait(0, 1, 2, kind=WaitKind.COLLECTIVE)], ["[1-2] to enter"]),
    ],
)
def test_a_partner_in_a_collective_is_not_said_to_be_missing(waits: list[Wait], words: list[str]) -> None:
    """The peer of one message of a collective may have entered it; where others are missing, they are the cause."""
    read = job(*(rank(number) for number in range(4)))
    table = ranks_table(read, verdict_of(read, waits, [does("MPI_Barrier"), COMPUTES, COMPUTES, COMPUTES]))
    assert table[0][1:3] == ["stuck in MPI_Barrier", *words]


def test_ranks_of_the_communicator_are_named_where_they_differ() -> None:
    """A reader finds the ranks of his own code: those of the communicator that the call names."""
    halo = CommunicatorFacts("halo", 5, 3, (3, 2, 0), None)
    read = job(*(rank(number) for number in range(4)))
    waits = [
        wait(0, 2, communicator="halo", communicator_id=1, peer_rank=1),
        wait(1, 2),
    ]
    table = ranks_table(read, verdict_of(read, waits, communicators=[halo]))
    assert table[0][2:4] == ["a message from 2", "'halo' (there 2 waits for 1)"]
    assert table[1][3] == WORLD


def test_communicators_of_one_name_are_distinguished_by_their_ids() -> None:
    """Two communicators that the program gave the same name, or none, show with the library's number for them."""
    others = [CommunicatorFacts("halo", 5, 2, (0, 1), None), CommunicatorFacts("halo", 6, 2, (0, 1), None)]
    unnamed = CommunicatorFacts("", 7, 2, (0, 1), None)
    read = job(*(rank(number) for number in range(3)))
    waits = [wait(number, 1, communicator="halo", communicator_id=1 + number) for number in range(2)]
    waits.append(wait(2, 1, communicator="", communicator_id=3))
    table = ranks_table(read, verdict_of(read, waits, communicators=[*others, unnamed]))
    assert [row[3].partition(" (")[0] for row in table] == ["'halo' id 0x5", "'halo' id 0x6", "unnamed id 0x7"]


def test_many_requests_of_one_rank_are_merged_and_counted() -> None:
    """Waits that differ in their peers alone share a line; of other ones a few are shown, and how many there are."""
    read = job(*(rank(number) for number in range(4)))
    waits = [wait(0, peer, tag=tag) for tag in range(10) for peer in (1, 2, 3)]
    table = ranks_table(read, verdict_of(read, waits, [does("MPI_Waitall"), COMPUTES, COMPUTES, COMPUTES]))
    assert table[0][1:3] == ["stuck in MPI_Waitall (needs all)", "a message from [1-3]"]
    assert table[3] == ["and 7 more"]


# ---------------------------------------------------------------- many ranks


def ring(number: int, size: int) -> Wait:
    """Return the wait of a rank for the next one."""
    return wait(number, (number + 1) % size)


def elsewhere(number: int, size: int) -> Wait:
    """Return the wait of a rank for some rank, with a tag of its own."""
    return wait(number, number * 7919 % size, tag=number)


def alternating(number: int, size: int) -> Wait:
    """Return the wait of a rank for some rank: every second one waits to send."""
    return replace(elsewhere(number, size), kind=WaitKind.RECEIVE if number % 2 else WaitKind.SEND)


@pytest.fixture(scope="module")
def large() -> Job:
    """Return a job of ten thousand ranks."""
    return job(*(rank(number) for number in range(10_000)))


@pytest.mark.parametrize(
    ("waits_for", "activity", "rows"),
    [
        (ring, lambda number: does(), "[0-9998] stuck in MPI_Recv * its own rank + 1"),
        (elsewhere, lambda number: does(), "[0-9999] stuck in MPI_Recv * different ones of [0-9999]"),
        (ring, lambda number: does(where=f"ring.c:{number}"), "[0-9999] stuck in MPI_Recv"),
        (elsewhere, lambda number: does(where=f"ring.c:{number % 2}"), "[0-9998:2] * ring.c:0 [1-9999:2] * ring.c:1"),
        (
            alternating,
            lambda number: does(where=f"ring.c:{number}"),
            "[0-9998:2] * to receive * [1-9999:2] * a message from",
        ),
        (ring, lambda number: does(f"MPI_X{number}"), "and 9976 more ranks, which differ in what they do: [24-9999]"),
    ],
)
def test_ten_thousand_ranks_fit_a_screen(
    large: Job, waits_for: Callable[[int, int], Wait], activity: Callable[[int], Activity], rows: str
) -> None:
    """However much ranks differ, rows are merged until there are few; what is left out is counted."""
    size = len(large.processes)
    verdict = verdict_of(large, [waits_for(n, size) for n in range(size)], [activity(n) for n in range(size)])
    shown = printed(text.render(large, verdict))
    assert len(shown.splitlines()) <= 50
    rest = " ".join(shown.split())
    for part in rows.split(" * "):
        assert part in rest
        rest = rest.partition(part)[2]


def test_how_many_waits_are_needed_is_said_where_all_of_a_row_need_as_many() -> None:
    """Ranks that need all of their waits, and ranks that need one, share a row where there are too many."""
    read = job(*(rank(number) for number in range(40)))
    waits = [wait(number, (number + 1) % 40, tag=tag) for number in range(40) for tag in (1, 2)]
    calls = [does(f"MPI_X{n // 2}", mode=Mode.ANY if n % 2 and n > 2 else Mode.ALL) for n in range(40)]
    table = ranks_table(read, verdict_of(read, waits, calls))
    assert [row[:2] for row in table if row[0][0] == "["][:2] == [
        ["[0-1]", "stuck in MPI_X0 (needs all)"],
        ["[2-3]", "stuck in MPI_X1"],
    ]


def test_every_rank_is_shown_on_demand() -> None:
    """With everything asked for, equal ranks have a row each, and their call stacks and queues follow."""
    read = job(*(rank(number, receive(1, 7), call="MPI_Recv") for number in range(30)))
    verdict = verdict_of(read, [wait(number, 1) for number in range(30)])
    shown = printed(text.render(read, verdict, everything=True))
    for number in range(30):
        assert f"\n  {number} " in shown
        assert f"\nRank {number} on node0\n" in shown
    assert "\nthread 1000, in MPI_Recv\n  MPI_Recv in libmpi.so.40\n  exchange in solver at solver.c:42\n" in shown
    assert shown.count("receives   pending") == 30


# ---------------------------------------------------------------- what could not be read


def test_an_unread_rank_is_never_shown_as_idle() -> None:
    """A rank that could not be read says so in the table, whatever else is said of it, and below it says why."""
    refused = rank(1, state=RankState.UNREADABLE, why="it belongs to another user", remedy="Run as root.")
    read = job(rank(0), refused, gone(2, "it exited"))
    verdict = verdict_of(read, activities=[COMPUTES, COMPUTES, COMPUTES])
    assert ranks_table(read, verdict)[:2] == [["1", "not read", "ring.c:42"], ["2", "exited", "ring.c:42"]]
    shown = printed(text.render(read, verdict))
    assert "  rank 1: it belongs to another user\n    Run as root.\n  rank 2: it exited\n" in shown


def test_equal_reasons_are_said_once() -> None:
    """Reasons that differ in the PID or the rank alone are the same reason."""
    closed = (rank(n, state=RankState.UNREADABLE, why=f"process {1000 + n} is closed to us") for n in range(50))
    read = job(*closed, rank(50))
    shown = printed(text.render(read, verdict_of(read)))
    assert "  ranks [0-49]: it is closed to us\n" in shown


def test_a_reason_loses_no_part_of_another_number() -> None:
    """What starts with the number of the rank, or with its PID, is another one."""
    read = job(rank(1, pid=100, why="rank 1 (process 100) is not rank 12, which process 1000 is"), rank(12))
    shown = printed(text.render(read, verdict_of(read)))
    assert "  rank 1: it is not rank 12, which process 1000 is\n" in shown


def test_what_is_hidden_in_a_rank_that_was_read_is_said() -> None:
    """A queue or a call stack that could not be seen, and a list that breaks off, are named with the reason."""
    read = job(
        rank(0, hidden=[Queue.SENDS], stacks=Hidden("no symbols", "install them")), rank(1, broken=[Queue.RECEIVES])
    )
    shown = printed(text.render(read, verdict_of(read)))
    assert "  rank 0: call stack: no symbols\n    install them\n" in shown
    assert f'  rank 0: sends on "{WORLD}": ' in shown
    assert f'  rank 1: receives, the list breaks off after 0 on "{WORLD}": ' in shown


def test_what_is_odd_about_a_rank_that_was_read_is_said() -> None:
    """A rank that was read, but not whole or not as expected, says why."""
    read = job(rank(0), rank(1, why="its core file is cut off", remedy="Raise ulimit -c."))
    shown = printed(text.render(read, verdict_of(read)))
    assert "  rank 1: its core file is cut off\n    Raise ulimit -c.\n" in shown


def test_nothing_unread_is_no_section() -> None:
    """Where all could be read, nothing is said about it."""
    read = job(rank(0))
    assert "could not be read" not in printed(text.render(read, verdict_of(read)))


# ---------------------------------------------------------------- the job


def test_the_tests_that_pytest_runs_are_reported() -> None:
    """Equal ones once, with their ranks; a test's name is text of the job's."""
    tests = ["test_a.py::test_x (call)", "test_a.py::test_x (call)", EVIL, *(f"test_{n}" for n in range(4)), ""]
    read = job(*map(rank, range(len(tests))))
    read = replace(read, processes=tuple(replace(each, test=t) for each, t in zip(read.processes, tests, strict=True)))
    shown = printed(text.render(read, conclude(read)))
    assert [line.strip() for line in shown.splitlines() if "pytest" in line] == [
        "pytest: ranks [0-1] in test_a.py::test_x (call)",
        f"pytest: rank 2 in {EVIL_SHOWN}",
        *(f"pytest: rank {number + 3} in test_{number}" for number in range(3)),
        "pytest: 1 more tests (--json has them all)",
    ]


def test_the_facts_of_the_job_are_reported() -> None:
    """Who started it, its MPI, how many ranks were read, when, and how long it stood still."""
    read = job(rank(0), gone(1), title="mpiexec -n 2 ./a b")
    shown = printed(text.render(read, verdict_of(read)))
    assert "  mpiexec -n 2 ./a b\n  Open MPI 4.1.4, pml/ob1; 2 ranks, 1 of them read; on node0\n" in shown
    taken = "  taken 2026-03-01T03:00:00Z (live), launcher 999; one sample: a hang can't be distinguished from slow"
    assert taken in shown
    assert shown.endswith("  the ranks were stopped for 4.0 ms, and go on as before")


def test_a_job_that_ran_while_it_was_read_says_so() -> None:
    """What was read without a stop is never taken for a picture of one moment."""
    read = job(rank(0), stopped=False)
    shown = printed(text.render(read, verdict_of(read)))
    assert shown.endswith("the ranks ran while they were read: what they say may not fit together")


def test_a_program_without_line_numbers_is_said_to_have_none() -> None:
    """And how it gets some; not where a rank shows one, nor where no place in the program is known."""
    for ranks, said in (
        ([rank(0, call="MPI_Recv", where=""), rank(1, call="MPI_Recv", where="")], True),
        ([rank(0, call="MPI_Recv", where=""), rank(1, call="MPI_Recv")], False),
        ([rank(0, stacks=Hidden("no stacks"))], False),
    ):
        read = job(*ranks)
        shown = printed(text.render(read, verdict_of(read)))
        assert ("compile it with -g" in shown) == said


def test_a_job_of_core_files_says_what_that_means() -> None:
    """Nobody stopped it, no host is known, and more samples can't be had."""
    read = replace(job(rank(0), rank(1)), source="core files", host="", launcher=None, stopped=False)
    read = replace(read, processes=tuple(replace(each, host="") for each in read.processes))
    shown = printed(text.render(read, verdict_of(read)))
    assert shown.endswith(
        "  Open MPI 4.1.4, pml/ob1; 2 ranks, all read\n"
        "  taken 2026-03-01T03:00:00Z (core files); one sample\n"
        "  core files of different ranks are not of one moment: what they say may not fit together"
    )


# ---------------------------------------------------------------- text from outside


@pytest.mark.parametrize("everything", [False, True])
def test_every_text_from_outside_is_escaped(everything: bool) -> None:
    """Titles, programs, hosts, reasons, names and sentences can't steer the terminal."""
    ranks = [
        rank(0, call=EVIL, where=f"{EVIL}:1", host=EVIL, program=EVIL),
        rank(1, stacks=Hidden(EVIL, f"{EVIL}2")),
        rank(2, state=RankState.UNREADABLE, why=EVIL, remedy=f"{EVIL}2"),
    ]
    read = job(*ranks, title=EVIL, mpi=EVIL)
    verdict = verdict_of(
        read,
        [wait(0, 1, communicator=EVIL)],
        [does(EVIL, where=EVIL), does(None, phrase=EVIL, certainty=None), COMPUTES],
        [Finding(Cause.TAG, Certainty.PROVED, EVIL, EVIL, (0,), None)],
    )
    shown = printed(text.render(read, verdict, everything=everything))
    assert not {"\x1b", "\x07", "\u202e"} & {*shown}
    assert "".join(shown.split()).count("".join(EVIL_SHOWN.split())) >= 11


def test_names_that_resemble_markup_stay_as_they_are() -> None:
    """Square brackets and colons in a name are no commands of rich."""
    read = job(rank(0), title="[bold]x[/bold] :smile:")
    assert "\n  [bold]x[/bold] :smile:\n" in printed(text.render(read, verdict_of(read)))


# ---------------------------------------------------------------- the list of jobs


def found(launcher: int | None = 4000, title: str = "/usr/bin/mpiexec -n 2 ./solver", *programs: str) -> FoundJob:
    """Return a job whose ranks run programs, at one machine."""
    runs = programs or ("/home/user/solver", "/home/user/solver")
    ranks = tuple(FoundRank(0, number, 5000 + number, program, "node0") for number, program in enumerate(runs))
    return FoundJob(
        launcher=launcher,
        title=title,
        host="node0",
        user="ann",
        started=0.0,
        worlds=(FoundWorld(len(ranks), True),),
        ranks=ranks,
        members=frozenset(),
    )


@pytest.mark.parametrize(
    ("one", "row"),
    [
        (found(), "4000 2 solver ? ann mpiexec -n 2 ./solver"),
        (found(None, "./solver"), "5000 2 solver ? ann no launcher"),
        (found(4000, "srun x", "a", "b", "a"), "4000 3 a (2), b (1) ? ann srun x"),
        (found(4000, "mpiexec " + "x" * 100), f"4000 2 solver ? ann mpiexec {'x' * 52}..."),
        (found(4000, f"mpiexec {EVIL}", EVIL), f"4000 1 {EVIL_SHOWN} ? ann mpiexec {EVIL_SHOWN}"),
    ],
)
def test_a_job_in_the_list(one: FoundJob, row: str) -> None:
    """A job shows with the PID to name it by, its ranks and programs, and how it was started."""
    assert row in unwrapped(listing.render([one]))


def test_ranks_on_other_machines_are_not_counted_as_here() -> None:
    """Of a job that is partly on this machine it is said how many of its ranks are."""
    one = found()
    away = FoundRank(0, 1, 5001, "solver", "node1", RankState.UNREADABLE, "it runs on node1")
    partly = replace(one, ranks=(one.ranks[0], away))
    assert "4000 1 of 2 solver" in unwrapped(listing.render([partly]))


def test_no_job_is_a_sentence_with_what_to_do() -> None:
    """Where there is no job, there is no empty table."""
    shown = unwrapped(listing.render([]))
    assert shown.startswith("No MPI job of yours runs on this machine. ")
    assert "mqs job PID" in shown


def test_of_a_job_that_has_ended_nothing_goes_on() -> None:
    """Nobody reads that it goes on as before."""
    read = job(gone(0), gone(1))
    assert printed(text.render(read, verdict_of(read))).endswith("  all of its ranks have exited")
