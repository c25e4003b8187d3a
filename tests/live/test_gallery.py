"""The gallery: real programs that hang inside MPI, or don't, and what ``mqs job`` says of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mqs_dll.commands import cli
from mqs_dll.commands.which_library import opener
from mqs_dll.debugger import library_path
from mqs_dll.debugger.job.find import find_job
from mqs_dll.debugger.job.read import read_job
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.verdict.results import Cause, Certainty, Outcome
from tests.support.gallery import (
    LOOPS,
    POLLS,
    Expected,
    Said,
    Scene,
    has_sentences,
    kernel_counts,
    places,
    read_advice,
    read_page,
    read_without_queues,
)
from tests.support.jobs import HANGS, PROGRAMS, Compiler, Job, running
from tests.support.mpis import Mpi, Transport

PATIENCE = 60.0
"""Seconds that a program has to get stuck after it said that it is ready; it takes some hundredths of one, or several
where other tests keep the processors busy. They are waited for by a test that fails alone."""

WITHOUT_QUEUES_ON = ("openmpi-debian", "mpich-4.3.2-pypi")
SAMPLES = 3
"""At a program that is fine: none of them may find anything."""

FLOOD = "flood.c"
"""The one whose lists are so long that they end where the time for them does."""

LONG, SHORT, MAX_INTERVAL = 300, 100, 1600
"""Milliseconds between two samples at what is fine, which must have had time to go on, and at what hangs; at most."""


def intervals(first: int, seen: Sequence[str] = ()) -> Iterator[int]:
    """Yield intervals for samples of one program, each twice the one before, until it has had time enough.

    The assertion then shows what was ``seen``.

    Ranks that wait need to run between two samples to be known to stand still. On a busy machine they don't get to in a
    short interval: then nothing is known, though their calls and all arguments are.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        yield first
        assert time.monotonic() < deadline, "\n".join(("it got no verdict", *seen))
        first = min(2 * first, MAX_INTERVAL)


@dataclass(frozen=True)
class Report:
    """What ``mqs job --json`` said: its exit code, and the findings that are more than noted, in their order."""

    outcome: Outcome
    said: tuple[Said, ...] = ()

    def fits(self, expected: Iterable[Expected], how: Callable[[Said], object]) -> bool:
        """Return whether the cause, and all that was found beside it, is one of what was expected."""
        mine = [*map(how, self.said)]
        return any(
            mine[:1] == theirs[:1] and Counter(mine) == Counter(theirs)
            for theirs in ([*map(how, each.said)] for each in expected)
        )

    @property
    def causes(self) -> frozenset[Cause]:
        """What kinds of things were found."""
        return frozenset(each.cause for each in self.said)


def judge(job: Job, capsys: pytest.CaptureFixture[str], interval: int, *options: str) -> Report:
    """Return what the command says of a job that runs; its advice is of a kind that the page has."""
    code = cli.main(["job", str(job.launcher.pid), "--json", "--interval", f"{interval}ms", *options])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    told = [each for each in json.loads(printed.out)["findings"] if each["certainty"] != Certainty.NOTED.value]
    for each in told:
        assert each["advice"].startswith(read_advice()[Cause(each["cause"])]), each
    said = (Said(Cause(each["cause"]), Certainty(each["certainty"]), each["sentence"]) for each in told)
    return Report(Outcome(code), tuple(said))


PLACES = [
    pytest.param(mpi, transport, scene, id=f"{mpi.name}-{transport.name}-{scene}".replace(" ", "-"))
    for mpi, transport, scene in places()
]


@pytest.mark.parametrize(("mpi", "transport", "scene"), PLACES)
def test_each_program_gets_its_verdict(
    mpi: Mpi, transport: Transport, scene: Scene, compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    """What hangs is found with its cause, its ranks and how sure that is; what doesn't is never called stuck.

    On the first MPI that runs a program, every sentence is compared, with its tags and communicators.
    """
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
            unclear = {Report(Outcome.NOT_READ)} if scene == POLLS else set()
            assert {judge(job, capsys, LONG) for _ in range(SAMPLES)} - unclear == {Report(Outcome.NOTHING_STUCK)}
            _judge_without_queues(mpi, scene, job, capsys, LONG)
            return
        how = whole if has_sentences(mpi, transport, scene) else facts if sure else causes_and_ranks
        for interval in intervals(SHORT, seen := [f"expected {expected}"]):
            report = judge(job, capsys, interval)
            assert report.outcome is not Outcome.PROVED or Outcome.PROVED in outcomes, report
            if report.outcome in outcomes and report.fits(expected, how):
                break
            seen.append(f"{interval} ms: {report}")
        if scene.file != FLOOD:
            _read_by_libmqs(job)
        _judge_without_queues(mpi, scene, job, capsys, SHORT)


def _listed(communicator: CommunicatorSnapshot) -> CommunicatorSnapshot:
    """Return what is listed of a communicator; the interface has no place for a remedy but in the reason."""
    queues = (
        replace(each, hidden=each.hidden and Hidden(each.hidden.reason), remedy="") for each in communicator.queues
    )
    return replace(communicator, queues=tuple(queues))


def _read_by_libmqs(job: Job) -> None:
    """Check that libmqs.so lists of each rank, all of which hang, what ``mqs`` by itself does."""
    found, ways = find_job(job.launcher.pid), (None, str(library_path.library()))

    def seen(library: str | None) -> list[object]:
        processes = read_job(found, opener(library), stacks=False).processes
        return [
            (
                each.state,
                [_listed(communicator) for sample in each.samples for communicator in sample.snapshot.communicators],
            )
            for each in processes
        ]

    deadline = time.monotonic() + PATIENCE
    while True:
        by_itself, by_libmqs = map(seen, ways)
        if by_itself == by_libmqs:
            break
        assert time.monotonic() < deadline, (by_itself, by_libmqs)


def whole(said: Said) -> object:
    """Return all of a finding."""
    return said


def facts(said: Said) -> object:
    """Return what every MPI has to say of a finding, in whatever words."""
    return said.facts


def causes_and_ranks(said: Said) -> object:
    """Return the same where the kernel doesn't let what is proved elsewhere be proved."""
    return said.cause, said.facts[2]


def sentence(said: Said) -> object:
    """Return its words."""
    return said.sentence


def _judge_without_queues(mpi: Mpi, scene: Scene, job: Job, capsys: pytest.CaptureFixture[str], first: int) -> None:
    """Check what the calls alone tell: the same, or less as docs/call-arguments.md says; and nothing is proved."""
    if mpi.name not in WITHOUT_QUEUES_ON or scene.in_python:
        return
    causes = read_without_queues().get(str(scene))
    same = read_page()[str(scene)].expected_on(mpi)
    outcome = Outcome.SUSPECTED if any(each.said for each in same) else Outcome.NOTHING_STUCK
    for interval in intervals(first, seen := [f"expected {outcome} of {causes or same}"]):
        report = judge(job, capsys, interval, "--no-queues")
        assert report.outcome in {outcome, Outcome.NOTHING_STUCK, Outcome.NOT_READ}  # not all arguments, at first
        if report.outcome is outcome and (report.fits(same, sentence) or report.causes == causes):
            break
        seen.append(f"{interval} ms: {report}")


README = Path(__file__).parents[2] / "README.md"
LINEAR = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_barrier_algorithm", "1")


def test_a_rank_in_a_linear_barrier_waits_for_those_who_are_missing(
    compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    """That its next message may come from anybody is no wait of its own."""
    mpi, transport = next((mpi, transport) for mpi, transport, _ in places() if mpi.name == "openmpi-debian")
    with running(compiler, mpi, transport, HANGS + "tag_mismatch", 3, options=LINEAR) as job:
        job.wait_until_ready()
        for interval in intervals(SHORT):
            cli.main(["job", str(job.launcher.pid), "--json", "--interval", f"{interval}ms"])
            document = json.loads(capsys.readouterr().out)
            if document["outcome"] == "proved":
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
    """docs/gallery.md has a section for each program that is run, in the words at its top; and each program is run.

    README.md counts those that hang.
    """
    scenes = {str(scene): scene for _, _, scene in places()}
    sections = read_page()
    assert {name: section.story for name, section in sections.items()} == {
        name: scene.story for name, scene in scenes.items()
    }
    programs = {path.name for path in (PROGRAMS / HANGS).iterdir() if path.suffix in (".c", ".py")}
    assert programs - {"hang.py"} == {scene.file for scene in scenes.values()}
    hanging = sum(section.on_all.outcome is not Outcome.NOTHING_STUCK for section in sections.values())
    assert f"shows the verdicts on {hanging} hangs" in README.read_text()
