"""A verdict for systems that run tests: it is shown at the program's line, whatever names hold."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mqs_dll.job.records import Job, RankState
from mqs_dll.report import ci
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Outcome, Verdict
from tests.support.made_up_job import communicator, job, rank, receive

EVIL = "a%b\r\n::error::c,d:e\x1b[31m]]>\x00"


def hung(where: str = "src/ring.c:10", name: str = "halo", title: str = "mpiexec -n 2 ./ring") -> tuple[Job, Verdict]:
    """Return a job of two ranks, each of which waits for the other, and its verdict."""
    halo = communicator(name, (0, 1))
    ranks = []
    for number in (0, 1):
        waits = receive(1 - number, tag=7, on=halo)
        before = rank(number, waits, call="MPI_Recv", where=where)
        ranks.append(rank(number, waits, call="MPI_Recv", where=where, earlier=before))
    found = job(*ranks, title=title)
    verdict = conclude(found)
    assert verdict.outcome is Outcome.PROVED
    return found, verdict


@pytest.mark.parametrize(
    ("where", "workspace", "place"),
    [
        ("src/ring.c:10", "", "file=src/ring.c,line=10,"),
        ("/home/x/work/src/ring.c:10", "/home/x/work", "file=src/ring.c,line=10,"),
        ("/usr/include/mpi.h:10", "/home/x/work", ""),
        ("../other/ring.c:10", "/home/x/work", ""),
        ("", "/home/x/work", ""),
        ("a%2C,b:c\n.c:3", "", "file=a%252C%2Cb%3Ac%0A.c,line=3,"),
    ],
)
def test_github_shows_the_verdict_at_the_line_of_the_program(where: str, workspace: str, place: str) -> None:
    """Where the first rank of the first finding calls MPI, if that is a file of the repository."""
    line = ci.annotation(*hung(where), workspace)
    assert line.startswith(f"::error {place}title=MPI job is stuck for good::rank 0 waits in MPI_Recv from rank 1")
    assert line.count("\n") == 1
    assert line.endswith("\n")


def test_no_name_of_a_job_gives_github_a_command() -> None:
    """One begins with two colons at the start of a line."""
    line = ci.annotation(*hung(name=EVIL, title=EVIL))
    assert not {"\r", "\x1b"} & set(line)
    assert line.count("\n") == 1
    indented = ci.plain(*hung(name=EVIL, title=EVIL)).splitlines()
    assert not [each for each in indented if each.startswith("::")]


def test_junit_has_a_test_that_fails_where_a_job_is_stuck() -> None:
    """With the cause, the headline and the whole report."""
    suite = ElementTree.fromstring(ci.junit(hung(name=EVIL, title=EVIL)))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    (failure,) = suite[0]
    assert (failure.tag, failure.get("type")) == ("failure", "cycle")
    assert "ring.c:10" in str(failure.text)


@pytest.mark.parametrize(("state", "kind"), [(RankState.READ, []), (RankState.UNREADABLE, ["error"])])
def test_junit_has_a_test_that_passes_where_nothing_is_stuck(state: RankState, kind: list[str]) -> None:
    """And an error where too little was seen."""
    found = job(rank(0, state=state, why="it is closed to us"))
    suite = ElementTree.fromstring(ci.junit((found, conclude(found))))[0]
    assert [each.tag for each in suite[0]] == kind


def test_junit_has_a_test_of_each_job() -> None:
    """Those that fail are counted."""
    fine = job(rank(0))
    suite = ElementTree.fromstring(ci.junit(hung(), (fine, conclude(fine))))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert [len(case) for case in suite] == [1, 0]
