"""The call tree as lines for people and for flame graphs."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from mqs_dll.job.call_tree import call_tree
from mqs_dll.job.records import CallStack, CodeOwner, Frame, Job, Repeat
from mqs_dll.report import flame, terminal, text
from mqs_dll.report.text import tree
from mqs_dll.verdict.results import Outcome
from tests.support.made_up_job import job, rank
from tests.support.made_up_verdict import OUTSIDE, verdict


def at(*functions: str, line: int = 7) -> CallStack:
    """Return the stack of a thread in functions from main inwards, the last of which is an MPI function."""
    frames = [Frame(each, "solver", "/src/halo.c", line) for each in reversed(functions)]
    return CallStack(1, functions[-1], frames[-1], None, tuple(frames), "", in_call=1, complete=True)


def printed(found: Job, width: int = 100, *, short: bool = False) -> list[str]:
    """Return the lines of a tree."""
    file = io.StringIO()
    console = terminal.console(width, file)
    for part in tree.short_parts(found) if short else tree.parts(found):
        console.print(part)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def of(*stacks: CallStack) -> Job:
    """Return a job with a thread in each rank."""
    return job(*(rank(number, stacks=(each,)) for number, each in enumerate(stacks)))


def test_lines_are_indented_only_where_paths_part() -> None:
    """With who is there where that changes, and the line of each call."""
    found = of(*[at("main", "solve", "exchange", "MPI_Recv")] * 3, at("main", "solve", "write", "MPI_Barrier"))
    assert printed(found) == [
        *("", "Call tree"),
        "  main                      4: [0-3]",
        "  solve           halo.c:7",
        "  ├─ exchange     halo.c:7  3: [0-2]",
        "  │  MPI_Recv     halo.c:7",
        "  └─ write        halo.c:7  3",
        "     MPI_Barrier  halo.c:7",
    ]


def test_a_hundred_paths_fit_into_a_hundred_columns() -> None:
    """All of them, deep ones too; the short form has few of them, and says how many more there are."""
    deep = [f"level_{number}" for number in range(60)]
    stacks = [at("main", *deep[: number % 60], f"part_{number}", "MPI_Recv") for number in range(100)]
    whole, short = printed(of(*stacks)), printed(of(*stacks), short=True)
    assert max(map(len, whole)) <= 100
    assert max(len(line) - len(line.lstrip(" │├└─")) for line in whole) <= 40
    assert {f"part_{number}" for number in range(100)} <= set(" ".join(whole).split())
    assert len(short) < 60
    assert any("more paths (--tree shows all)" in line for line in short)


def test_the_short_form_has_the_few_and_the_many() -> None:
    """One rank in a thousand is what one looks for."""
    stacks = [at("main", f"part_{number % 12}", "MPI_Recv") for number in range(960)]
    text = " ".join(printed(of(*stacks, at("main", "lost", "MPI_Send")), short=True))
    assert "lost" in text
    assert "part_0" in text


def test_names_from_a_stack_are_data() -> None:
    """Nothing of them reaches the terminal but what can be seen, and a semicolon doesn't part a path."""
    found = of(at("main", "\x1b[2Jevil;[red]\n", "MPI_Recv"))
    assert "\x1b" not in "".join(printed(found))
    assert "[red]" in "".join(printed(found))
    assert flame.folded(call_tree(found)) == "main;\\x1b[2Jevil:[red]\\x0a;MPI_Recv 1\n"


def test_folded_lines_count_ranks_and_samples() -> None:
    """Where ranks were in some samples and went on in others, each counts where it ended."""
    one = of(at("main", "MPI_Recv"), at("main", "MPI_Recv"))
    both = replace(one, processes=tuple(replace(each, samples=each.samples * 2) for each in one.processes))
    assert flame.folded(call_tree(both)) == "main;MPI_Recv 4\n"


def test_speedscope_gets_the_same_paths_and_counts() -> None:
    """Frames once, with the line of the call; each path as numbers of frames, outermost first, with a weight."""
    found = of(at("main", "MPI_Recv"), at("main", "MPI_Recv"), at("main", "write", "MPI_Send"))
    document = json.loads(flame.speedscope(found, call_tree(found)))
    names = [frame["name"] for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    paths = {";".join(names[number] for number in each) for each in profile["samples"]}
    assert paths == {line.rpartition(" ")[0] for line in flame.folded(call_tree(found)).splitlines()}
    assert (sorted(profile["weights"]), profile["endValue"]) == ([1, 2], 3)
    assert document["shared"]["frames"][1] == {"name": "MPI_Recv", "file": "/src/halo.c", "line": 7}


def test_what_is_not_known_of_a_path_stands_in_it() -> None:
    """Where it can't be followed further out, and where Python's functions aren't known."""
    stack = at("main", "_PyEval_EvalFrameDefault", "wrapper", "MPI_Recv")
    frames = tuple(
        replace(each, owner=CodeOwner.PYTHON) if each.function.startswith("_Py") else each for each in stack.frames
    )
    assert [line.strip() for line in printed(of(replace(stack, frames=frames, complete=False)))][2:] == [
        "(the stack can't be followed further out)            0",
        "main",
        "(Python functions that are not known)",
        "wrapper                                    halo.c:7",
        "MPI_Recv                                   halo.c:7",
    ]


def test_recursion_has_a_count() -> None:
    """The least and the most of all ranks."""
    stacks = [replace(at("main", "f", "MPI_Recv"), repeats=(Repeat(1, 1, times),)) for times in (5, 512)]
    assert "f x 5-512" in " ".join(printed(of(*stacks)))


@pytest.mark.parametrize(("outcome", "has_tree"), [(each, each is not Outcome.PROVED) for each in Outcome])
def test_a_report_has_the_tree_where_nothing_is_proved(outcome: Outcome, has_tree: bool) -> None:
    """It is what to read then; a proof needs no tree."""
    file = io.StringIO()
    terminal.console(100, file).print(
        text.render(of(at("main", "solve", "MPI_Recv")), verdict([OUTSIDE], outcome=outcome))
    )
    assert ("Call tree" in file.getvalue()) is has_tree
