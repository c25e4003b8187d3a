"""The gallery: real programs that hang inside MPI, or don't, and what ``mqs job`` says of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass

import pytest

from mqs_dll import cli
from mqs_dll.verdict.results import Cause, Certainty, Outcome
from tests.support.gallery import LOOPS, Expected, Scene, kernel_counts, places, read_page, read_without_queues
from tests.support.jobs import HANGS, PROGRAMS, Compiler, Job, running
from tests.support.mpis import Mpi, Transport

PATIENCE = 60.0
"""Seconds that a program has to get stuck after it said that it is ready; it takes some hundredths of one, or several
where other tests keep the processors busy. They are waited for by a test that fails alone."""

WITHOUT_QUEUES_ON = ("openmpi-debian", "mpich-4.3.2-pypi")
LOOKS = 3
"""At a program that is fine: none of them may find anything."""

LONG, SHORT = "300ms", "100ms"
"""Between two looks at what is fine, which must have had time to go on, and at what hangs."""


@dataclass(frozen=True)
class Report:
    """What ``mqs job --json`` said: its exit code, and the sentences that are more than noted, each with its cause."""

    outcome: Outcome
    findings: dict[str, Cause]

    @property
    def causes(self) -> list[Cause]:
        """The causes of the findings, in their order."""
        return [*self.findings.values()]

    def fits(self, outcomes: Set[Outcome], expected: Iterable[Expected]) -> bool:
        """Tell whether it is one of what was expected, and no more, and the headline's cause the first of it."""
        return self.outcome in outcomes and any(
            self.findings == each.findings and self.causes[:1] == [*each.findings.values()][:1] for each in expected
        )


def look(job: Job, capsys: pytest.CaptureFixture[str], interval: str, *options: str) -> Report:
    """Return what the command says of a job that runs."""
    code = cli.main(["job", str(job.launcher.pid), "--json", "--interval", interval, *options])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    told = [each for each in json.loads(printed.out)["findings"] if each["certainty"] != Certainty.NOTED.value]
    return Report(Outcome(code), {each["sentence"]: Cause(each["cause"]) for each in told})


PLACES = [
    pytest.param(mpi, transport, scene, id=f"{mpi.name}-{transport.name}-{scene}".replace(" ", "-"))
    for mpi, transport, scene in places()
]


@pytest.mark.parametrize(("mpi", "transport", "scene"), PLACES)
def test_each_program_gets_its_verdict(
    mpi: Mpi, transport: Transport, scene: Scene, compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    """What hangs is found with its cause, ranks, tags and communicators; what doesn't is never called stuck."""
    if mpi.missing or (scene.in_python and mpi.python is None):
        pytest.skip(mpi.missing or f"there is no mpi4py for {mpi.name}: {mpi.cure}")
    expected = read_page()[str(scene)].expected_on(mpi)
    sure = kernel_counts() or mpi.product == "Open MPI"
    if not sure and scene in LOOPS:
        pytest.skip("this kernel doesn't let us count returns from calls; see kernel.perf_event_paranoid")
    outcomes = {each.outcome for each in expected} | ({Outcome.SUSPECTED} if not sure else set())
    arguments = [scene.variant] if scene.variant else []
    options = scene.options.get(mpi.product, ())
    fine = outcomes == {Outcome.NOTHING_STUCK}
    with running(compiler, mpi, transport, scene.program, scene.ranks, arguments=arguments, options=options) as job:
        job.wait_until_ready(patient=not fine)
        if fine:
            assert [look(job, capsys, LONG) for _ in range(LOOKS)] == [Report(Outcome.NOTHING_STUCK, {})] * LOOKS
            _look_without_queues(mpi, scene, job, capsys, LONG)
            return
        deadline = time.monotonic() + PATIENCE
        while not (report := look(job, capsys, SHORT)).fits(outcomes, expected) and time.monotonic() < deadline:
            assert report.outcome is not Outcome.PROVED or Outcome.PROVED in outcomes, report
        assert report.fits(outcomes, expected), (report, expected)
        _look_without_queues(mpi, scene, job, capsys, SHORT)


def _look_without_queues(mpi: Mpi, scene: Scene, job: Job, capsys: pytest.CaptureFixture[str], interval: str) -> None:
    """Check what the calls alone tell: the same, or less as docs/call-arguments.md says; and nothing is proved."""
    if mpi.name not in WITHOUT_QUEUES_ON or scene.in_python:
        return
    causes = read_without_queues().get(str(scene))
    same = [each.findings for each in read_page()[str(scene)].expected_on(mpi)]
    deadline = time.monotonic() + PATIENCE
    while True:
        report = look(job, capsys, interval, "--no-queues")
        assert report.outcome is (Outcome.SUSPECTED if report.findings else Outcome.NOTHING_STUCK)
        if report.findings in same or frozenset(report.findings.values()) == causes:
            break
        assert time.monotonic() < deadline, report


LINEAR = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_barrier_algorithm", "1")


def test_a_rank_in_a_linear_barrier_waits_for_those_who_are_missing(
    compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    """That its next message may come from anybody is no wait of its own."""
    mpi, transport = next((mpi, transport) for mpi, transport, _ in places() if mpi.name == "openmpi-debian")
    with running(compiler, mpi, transport, HANGS + "tag_mismatch", 3, options=LINEAR) as job:
        job.wait_until_ready()
        deadline = time.monotonic() + PATIENCE
        while True:
            cli.main(["job", str(job.launcher.pid), "--json", "--interval", SHORT])
            document = json.loads(capsys.readouterr().out)
            if document["outcome"] == "proved" or time.monotonic() > deadline:
                break
    operations = [
        operation
        for communicator in document["processes"][0]["samples"][-1]["snapshot"]["communicators"]
        for operation in communicator["queues"]["receives"]["operations"]
    ]
    assert {operation["desired_local_rank"] for operation in operations} == {-1}, "it is no linear barrier"
    waits = [wait for wait in document["waits"] if wait["process"] == 0]
    assert [(wait["what"], wait["peers"], wait["any_source"]) for wait in waits] == [("MPI_Barrier", [[1, 2]], False)]


def test_the_page_shows_every_program() -> None:
    """docs/gallery.md has a section for each program that is run, in the words at its top; and each program is run."""
    scenes = {str(scene): scene for _, _, scene in places()}
    sections = read_page()
    assert {name: section.story for name, section in sections.items()} == {
        name: scene.story for name, scene in scenes.items()
    }
    programs = {path.name for path in (PROGRAMS / HANGS).iterdir() if path.suffix in (".c", ".py")}
    assert programs - {"hang.py"} == {scene.file for scene in scenes.values()}
