"""The scripts of docs/batch.md, as they stand there: under Slurm, and under shells that imitate other batch systems."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqs_dll.commands.run.command import EXIT_STUCK
from mqs_dll.job import saved
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Outcome
from tests.support.jobs import HANGS, Compiler
from tests.support.mpis import find_mpis, skip_without
from tests.support.nodes import ROOT, Nodes, NodesJob
from tests.support.slurm import Slurm

MPI = next(mpi for mpi in find_mpis() if mpi.name == "mpich-debian")
PAGE = (ROOT / "docs/batch.md").read_text()
SCRIPTS = {
    title: textwrap.dedent(text)
    for title, text in re.findall(r"^(?:#+ |\*\*)(.+?)(?:\*\*)?\n\n((?: {4}.*\n)+)", PAGE, re.MULTILINE)
}
"""Those of docs/batch.md, by what stands above each."""
SLURM, AFTERWARDS, ARRAY, AGAIN, *OTHERS = SCRIPTS

INPUT = "input.nml"
HANGING, HEALTHY = f"{HANGS}tag_mismatch", f"{HANGS}two_counts turns"
SOON = "--after 2s --interval 300ms"
LATE = "--after 60m --interval 60m"
"""With these nobody has looked at the job before a signal comes."""
RANKS = 4
LONG = 120.0
"""Seconds: agents and daemons are started, and a busy machine takes its time."""


def until(condition: Callable[[], object], seconds: float = LONG) -> None:
    """Wait until something is so that takes some programs to find out."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.5)


class Folder(NodesJob):
    """A folder with ``./solver``, from which a script is run."""

    def write(self, name: str, text: str) -> Path:
        """Write a program, or a script."""
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def submit(self, slurm: Slurm, script: str) -> str:
        """Hand a script in; return the job's number."""
        environment = f'PATH="{self.directory}/bin:$PATH" SLURM_MPI_TYPE=pmi2'
        return slurm.submit(self.write("script", script), environment)

    def printed(self, job: str) -> str:
        """Return what a job of Slurm's has printed so far."""
        path = self.directory / f"slurm-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def saved(self, pattern: str = "*") -> list[Path]:
        """Return the files that were saved."""
        return sorted((self.directory / "mqs").glob(f"mqs-run-{pattern}.json.gz"))


@contextmanager
def folder(
    nodes: Nodes, compiler: Compiler, options: str, programs: Mapping[str, str], ranks: int = RANKS
) -> Iterator[Folder]:
    """Give a folder, and end what runs from there.

    Args:
        nodes: that see it.
        compiler: of the programs.
        options: that `mqs run` gets besides those of a script.
        programs: what ``./solver`` does with each input: a program of tests/programs and its variant.
        ranks: how many say that they are ready, where one of them runs.
    """
    skip_without(MPI)
    directory = Path(tempfile.mkdtemp(prefix="batch-", dir=nodes.directory))
    job = Folder(nodes, directory, 0, ranks)
    cases = []
    for argument, words in programs.items():
        program, *variant = words.split()
        binary = shutil.copy2(compiler.compile(MPI, program), directory)
        truth = directory if argument == INPUT else directory / argument
        truth.mkdir(exist_ok=True)
        cases.append(f"{argument}) exec {binary} {truth} {' '.join(variant)};;\n")
    job.write("solver", f'#!/bin/sh\ncase "$1" in\n{"".join(cases)}esac\n')
    job.write("collect-results", "#!/bin/sh\necho the results are collected\n")
    mqs = f"PYTHONPATH={ROOT} exec {sys.executable} -m mqs_dll run {options}"
    job.write("bin/mqs", f'#!/bin/sh\nshift\n{mqs} "$@"\n')
    job.write("bin/mpiexec", f'#!/bin/sh\nexec {MPI.mpiexec} "$@"\n')
    try:
        yield job
    finally:
        job.end()


@contextmanager
def submitted(slurm: Slurm, job: Folder, script: str) -> Iterator[str]:
    """Hand a script in, and give the job's number; in the end cancel it."""
    number = job.submit(slurm, script)
    try:
        yield number
    finally:
        slurm.run(f"scancel {number}")
        until(lambda: not slurm.run(f"squeue --noheader --jobs={number}").out.strip())


def outcome_of(path: Path) -> Outcome:
    """Return what is wrong with a saved job."""
    return conclude(saved.load(str(path))).outcome


# ---------------------------------------------------------------- Slurm


@pytest.mark.root  # whose daemons munged and slurmd are
@pytest.mark.parametrize("title", [SLURM, AFTERWARDS])
def test_a_hang_below_a_batch_script_is_ended(title: str, nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """The job's exit code is that of mqs, also where the script goes on; the report has its number; no rank is left."""
    with (
        folder(nodes, compiler, SOON, {INPUT: HANGING}) as job,
        submitted(slurm, job, SCRIPTS[title]) as number,
    ):
        until(lambda: slurm.has_ended(number))
        printed = job.printed(number)
        assert slurm.state(number) == ("FAILED", f"{EXIT_STUCK}:0"), printed
        assert "STUCK FOR GOOD" in printed
        assert ("the results are collected" in printed) == (title == AFTERWARDS)
        (path,) = job.saved(f"{number}-*")
        assert outcome_of(path) is Outcome.PROVED
        assert [*job.left()] == []


@pytest.mark.root
@pytest.mark.parametrize("title", [SLURM, AFTERWARDS])
def test_the_warning_signal_has_a_job_sampled(title: str, nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """Before anybody has looked, too, and the job goes on; sent to the steps it does nothing. SIGTERM also ends it."""
    with (
        folder(nodes, compiler, LATE, {INPUT: HEALTHY}) as job,
        submitted(slurm, job, SCRIPTS[title].replace("trap", "trap 'kill -TERM $!' TERM; trap")) as number,
    ):
        until(lambda: len([*job.directory.glob("truth.*")]) == RANKS)
        job.wait_until_ready()
        slurm.run(f"scancel --signal=URG {number}")
        time.sleep(3.0)
        assert "mqs:" not in job.printed(number)
        slurm.run(f"scancel --batch --signal=URG {number}")
        until(lambda: "saved as" in job.printed(number))
        (path,) = job.saved(f"{number}-*")
        assert outcome_of(path) is Outcome.NOTHING_STUCK
        time.sleep(2.0)
        assert slurm.state(number) == ("RUNNING", "0:0")
        assert len([*job.left()]) == RANKS
        if title == SLURM:
            slurm.run(f"scancel --batch --signal=TERM {number}")
            until(lambda: slurm.has_ended(number))
            assert "mqs: SIGTERM came" in job.printed(number)
            assert len(job.saved(f"{number}-*")) == 2
            assert [*job.left()] == []


@pytest.mark.root
@pytest.mark.slow
def test_slurm_sends_the_warning_before_the_limit(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """The limit itself ends the job, whose state says so.

    Slurm may warn a minute earlier than asked for: with a limit of one minute that may be before anybody listens.
    """
    script = SCRIPTS[SLURM].replace("--time=02:00:00", "--time=00:02:00").replace("@120", "@20")
    assert "00:02:00" in script
    assert "@20" in script
    with folder(nodes, compiler, LATE, {INPUT: HEALTHY}) as job, submitted(slurm, job, script) as number:
        until(lambda: slurm.has_ended(number), 3 * LONG)
        printed = job.printed(number)
        assert slurm.state(number)[0] == "TIMEOUT", printed
        assert "mqs: SIGURG came" in printed
        assert len(job.saved(f"{number}-*")) == 1
        assert [*job.left()] == []


@pytest.mark.root
def test_each_task_of_an_array_is_judged_alone(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """One is ended, and the other goes on; each file has the numbers of its task, as squeue shows them."""
    programs = {"case-0.nml": HANGING, "case-1.nml": HEALTHY}
    with folder(nodes, compiler, SOON, programs) as job, submitted(slurm, job, SCRIPTS[ARRAY]) as number:
        until(lambda: slurm.has_ended(f"{number}_0"))
        assert slurm.state(f"{number}_0") == ("FAILED", f"{EXIT_STUCK}:0"), job.printed(f"{number}_0")
        assert slurm.state(f"{number}_1") == ("RUNNING", "0:0"), job.printed(f"{number}_1")
        slurm.run(f"scancel --batch --signal=URG {number}_1")
        until(lambda: "saved as" in job.printed(f"{number}_1"))
        assert [outcome_of(path) for path in job.saved(f"{number}-0-*")] == [Outcome.PROVED]
        assert [outcome_of(path) for path in job.saved(f"{number}-1-*")] == [Outcome.NOTHING_STUCK]
        assert len(job.saved()) == 2


@pytest.mark.root
def test_a_job_that_is_queued_again_overwrites_nothing(nodes: Nodes, slurm: Slurm, compiler: Compiler) -> None:
    """Nothing of the first run is left but what it kept; the second is watched anew."""
    keep = f"{SOON} --suspect-after 60m"
    with folder(nodes, compiler, keep, {INPUT: HEALTHY}) as job, submitted(slurm, job, SCRIPTS[AGAIN]) as number:
        until(job.saved)
        slurm.run(f"scontrol requeue {number}")
        until(lambda: slurm.state(number)[0] == "PENDING")
        until(lambda: not [*job.left()])
        kept = {path: path.read_bytes() for path in job.saved()}
        slurm.run(f"scontrol update JobId={number} StartTime=now")
        until(lambda: len(job.saved(f"{number}-restart1-*-last-*")) == 2)
        assert kept
        assert {path: path.read_bytes() for path in kept} == kept
        assert slurm.state(number)[0] == "RUNNING", job.printed(number)


# ---------------------------------------------------------------- systems that there are none of here

VARIABLES = {
    OTHERS[0]: "PBS_ENVIRONMENT=PBS_BATCH PBS_JOBID=12[3].server.site PBS_NODEFILE=$PWD/nodes PBS_O_WORKDIR=$PWD",
    OTHERS[1]: "LSB_JOBID=12 LSB_JOBINDEX=3 LSB_DJOB_HOSTFILE=$PWD/nodes",
    OTHERS[2]: "JOB_ID=12 SGE_TASK_ID=3 PE_HOSTFILE=$PWD/nodes",
}
MINUTES, SENDS = "118m", "--signal=URG"


@contextmanager
def started(job: Folder, title: str, minutes: str = MINUTES, sends: str = SENDS) -> Iterator[Path]:
    """Start a script with the variables of its batch system; give the file of what it prints."""
    assert SCRIPTS[title].count(MINUTES) == SCRIPTS[title].count(SENDS) == 1
    job.write("script", SCRIPTS[title].replace(MINUTES, minutes).replace(SENDS, sends))
    slots = " 2 queue@n UNDEFINED\n" if "PE_HOSTFILE" in VARIABLES[title] else "\n"
    (job.directory / "nodes").write_text("".join(f"{node}{slots}" for node in ("n1", "n1", "n2", "n2")))
    (job.directory / "hosts").write_text("n1:2\nn2:2\n")
    hydra = "HYDRA_LAUNCHER=ssh HYDRA_RMK=user HYDRA_HOST_FILE=$PWD/hosts HYDRA_IFACE=eth0"
    path = f'PATH="{job.directory}/bin:$PATH"'
    output = job.directory / "output"
    output.touch()
    shell = f"{VARIABLES[title]} {hydra} {path} bash ./script; echo exit code $?"
    job.nodes.run(f"cd {job.directory}; setsid bash -c {shlex.quote(shell)} >{output} 2>&1 &")
    yield output


def ends_with(output: Path) -> str:
    """Return what a script has printed, once it has ended."""
    until(lambda: "exit code" in output.read_text(errors="replace"))
    return output.read_text(errors="replace")


@pytest.mark.parametrize("title", OTHERS)
def test_scripts_of_other_systems_end_a_hang(title: str, nodes: Nodes, compiler: Compiler) -> None:
    """By their variables and the file of their nodes; the report is named as the system calls the task of an array."""
    with folder(nodes, compiler, SOON, {INPUT: HANGING}) as job, started(job, title) as output:
        printed = ends_with(output)
        assert "STUCK FOR GOOD" in printed, printed
        assert f"exit code {EXIT_STUCK}" in printed
        assert [outcome_of(path) for path in job.saved("12-3-*")] == [Outcome.PROVED]
        assert [*job.left()] == []


def test_timeout_has_a_job_sampled_before_the_limit(nodes: Nodes, compiler: Compiler) -> None:
    """It signals mqs alone, which sees where all ranks are; the job goes on."""
    with folder(nodes, compiler, LATE, {INPUT: HEALTHY}) as job, started(job, OTHERS[0], "20s") as output:
        until(lambda: "saved as" in output.read_text(errors="replace"))
        time.sleep(2.0)
        printed = output.read_text(errors="replace")
        assert "mqs: SIGURG came" in printed, printed
        assert "4 ranks read" in printed
        assert "exit code" not in printed
        assert [outcome_of(path) for path in job.saved("12-3-*")] == [Outcome.NOTHING_STUCK]
        assert len([*job.left()]) == RANKS


def test_a_sample_that_takes_too_long_delays_no_end(nodes: Nodes, compiler: Compiler) -> None:
    """An agent that doesn't answer, for instance: SIGTERM is passed on after some seconds, and mqs says so."""
    options = f"{LATE} --agent 'sleep 60'"
    with (
        folder(nodes, compiler, options, {INPUT: HEALTHY}) as job,
        started(job, OTHERS[0], "15s", "--signal=TERM") as output,
    ):
        printed = ends_with(output)
        assert "mqs: passes SIGTERM on before all ranks are read: that takes too long" in printed, printed
        assert not job.saved()
        assert [*job.left()] == []
