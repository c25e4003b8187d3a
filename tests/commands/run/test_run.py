"""``mqs run`` in front of commands that are no MPI jobs: they don't notice it, and nobody else does."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mqs_dll.debugger.proc import read_stat, status_fields
from mqs_dll.job import saved
from tests.support import made_up_job
from tests.support.targets import DEADLINE, ROOT, python_code, wait_until

MQS = (sys.executable, "-m", "mqs_dll", "run", "--")

REPORTS = """
import os, signal, sys, time
def note(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\\n".encode())
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCONT, signal.SIGWINCH):
    signal.signal(number, note)
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.01)
"""
"""A command that says which signals it gets."""


LOOK = """
cat; pwd; env | grep -v ^_= | sort; [ -e /proc/self/fd/7 ] && echo has 7
[ $(ps -o pgid= $$) = $(ps -o sid= $$) ] && echo in the first group
"""
"""A command that shows what it has been given."""
SIGNALS = ("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status")
"""The same of its signals; shells and Python change some of theirs."""
RESERVED = 3 << 31
"""Signals 32 and 33 are the C library's own."""


def signals_of(shown: str) -> list[int]:
    """Return which signals are blocked, ignored and caught in what SIGNALS has shown."""
    return [int(each, 16) & ~RESERVED for each in re.findall(r"^Sig\w+:\s+(\w+)$", shown, re.MULTILINE)]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Return what a command has done behind `mqs run`."""
    return subprocess.run([*MQS, *command], capture_output=True, text=True, timeout=DEADLINE, check=False)


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV), ("kill -KILL $$", -signal.SIGKILL)],
)
def test_it_ends_as_the_command_does(command: str, code: int) -> None:
    """With its exit code, or by the signal that it died of; mqs itself prints nothing."""
    ended = run("sh", "-c", f"echo out; echo err >&2; {command}")
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "out\n", "err\n")


@pytest.mark.parametrize(
    ("command", "code", "why"), [("/nowhere/x", 127, "No such file"), ("/etc/passwd", 126, "Permission denied")]
)
def test_a_command_that_cannot_be_run_is_named(command: str, code: int, why: str) -> None:
    """With the exit codes of shells."""
    ended = run(command)
    assert ended.returncode == code
    assert ended.stderr.startswith(f"mqs: {command} can't be run: {why}")
    assert len(ended.stderr.splitlines()) == 1


def test_a_command_has_to_be_named() -> None:
    """The usage says how."""
    ended = run()
    assert (ended.returncode, "mqs run -- mpiexec" in ended.stderr) == (64, True)


def test_the_command_has_what_it_would_have_without_mqs(tmp_path: Path) -> None:
    """Standard input, environment, folder, open files, and which signals are blocked, ignored and caught."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "A": "b c"}
    shell = ["bash", "-c", "trap '' HUP; exec 7</dev/null; echo in | \"$@\"", "bash"]
    (alone, signals), (behind, signals_behind) = (
        [
            subprocess.run(
                [*shell, *before, *look],
                stdout=subprocess.PIPE, text=True, timeout=DEADLINE, check=True, start_new_session=True,
                cwd=tmp_path, env=environment,
            ).stdout
            for look in (("sh", "-c", LOOK), SIGNALS)
        ]
        for before in ((), MQS)
    )  # fmt: skip
    assert alone == behind
    assert signals_of(signals) == signals_of(signals_behind)
    assert len(signals_of(signals)) == 3
    for shown in ("in\n", str(tmp_path), "A=b c", "has 7", "in the first group"):
        assert shown in behind


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(closed: str, tmp_path: Path) -> None:
    """The command has the same ones closed; what mqs says goes nowhere else."""
    show = "for each in 0 1 2; do [ -e /proc/$$/fd/$each ] && echo $each >> shown; done; exit 5"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def ended(*command: str) -> tuple[int, str]:
        (tmp_path / "shown").unlink(missing_ok=True)
        shell = ["sh", "-c", f'"$@" {closed}', "sh", *command]
        ended = subprocess.run(
            shell, capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=tmp_path, env=environment
        )
        return ended.returncode, ended.stdout + ended.stderr

    for before in ((), MQS):
        assert ended(*before, "sh", "-c", show) == (5, "")
        shown = (tmp_path / "shown").read_text() if (tmp_path / "shown").exists() else ""
        assert len(shown.split()) == 3 - closed.count("&-")
    code, said = ended(*MQS, "/nowhere/x")
    assert (code, "can't be run" in said) == (127, "2>&-" not in closed)


def test_a_command_that_is_no_mpi_job_goes_on() -> None:
    """That no rank is seen is said once."""
    ended = subprocess.run(
        [*MQS[:-1], "--after", "500ms", "--interval", "100ms", "--", "sh", "-c", "sleep 4; exit 7"],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert ended.returncode == 7
    assert re.fullmatch(r"mqs: sees no rank of an MPI job: process \d+ \(sh\) is no part of .*\n", ended.stderr)


@contextmanager
def full_pipe() -> Iterator[int]:
    """Give a pipe that nobody reads, and that takes nothing more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(1 << 12))
    os.set_blocking(writer, True)
    yield writer
    os.close(reader)
    os.close(writer)


def test_what_nobody_reads_keeps_nothing_from_its_end() -> None:
    """mqs has something to say where its standard error is full: the command ends as it would."""
    with full_pipe() as pipe:
        ended = subprocess.run([*MQS, "/nowhere/x"], stderr=pipe, timeout=DEADLINE, check=False)
    assert ended.returncode == 127


def test_a_command_runs_without_a_folder_for_temporary_files() -> None:
    """Nothing of its jobs could be shown."""
    nowhere = "import sys, tempfile; tempfile.tempdir = '/nowhere'; from mqs_dll.commands import cli"
    code = f"{nowhere}; sys.exit(cli.main(['run', '--', 'sh', '-c', 'echo out; exit 7']))"
    ended = subprocess.run(python_code(code), capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "out\n", "")


REPORT = """
import sys
from pathlib import Path
from mqs_dll.commands.run import reports
reports.PATIENCE = 2.0
reports.Reports(Path(sys.argv[1])).add("why", 1, Path(sys.argv[2]))
"""


def test_a_report_that_nobody_reads_is_saved(tmp_path: Path) -> None:
    """Who waits for it goes on after some time."""
    job, folder = tmp_path / "job.json.gz", tmp_path / "report"
    saved.save(made_up_job.job(made_up_job.rank(0)), str(job))
    with full_pipe() as pipe:
        command = [sys.executable, "-c", REPORT, str(folder), str(job)]
        subprocess.run(command, stderr=pipe, timeout=DEADLINE, check=True, cwd=ROOT)
    assert len([*folder.glob("*.json.gz")]) == 1


# ---------------------------------------------------------------- signals


@contextmanager
def reporting(*before: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start the command that says which signals it gets; yield `mqs run`, in a session of its own, and its PID."""
    with subprocess.Popen(
        [*before, *MQS, sys.executable, "-c", REPORTS], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[1])
        try:
            yield process, pid
        finally:
            for each in (pid, process.pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


def said(process: subprocess.Popen[str]) -> list[str]:
    """Return which signals the command has got, once no more come; mqs looks for ranks first."""
    assert process.stdout is not None
    found = ""
    while select.select([process.stdout], [], [], 0.5 if found else DEADLINE)[0]:
        found += os.read(process.stdout.fileno(), 1 << 12).decode()
    return found.splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGWINCH])
def test_a_signal_is_passed_on_once(number: signal.Signals) -> None:
    """Whether it is sent to mqs, or to all of its process group."""
    with reporting() as (process, _):
        os.kill(process.pid, number)
        assert said(process) == [f"got {number.name}"]
        os.killpg(process.pid, number)
        assert said(process) == [f"got {number.name}"]


def test_the_command_goes_on_when_mqs_is_killed() -> None:
    """And nothing else is left of mqs."""
    with reporting() as (process, pid):
        children = {each for each in children_of(process.pid) if each != pid}
        assert children
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: all((stat := read_stat(each)) is None or stat.gone for each in children))
        os.kill(pid, signal.SIGUSR1)
        assert said(process) == ["got SIGUSR1"]


def children_of(pid: int) -> set[int]:
    """Return the children of a process."""
    return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


# ---------------------------------------------------------------- terminals


class Terminal:
    """An interactive shell with job control, in a terminal."""

    def __init__(self) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "PS1": "$ ", "TERM": "dumb"})
        self._seen = ""

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._terminal, text.encode())

    def until(self, text: str) -> str:
        """Return what is printed until a text comes, and that."""
        end = time.monotonic() + DEADLINE
        while text not in self._seen:
            assert time.monotonic() < end, self._seen
            if select.select([self._terminal], [], [], 0.1)[0]:
                self._seen += os.read(self._terminal, 1 << 12).decode()
        before, _, self._seen = self._seen.partition(text)
        return before + text

    def until_now(self) -> str:
        """Return what has been printed."""
        while select.select([self._terminal], [], [], 0)[0]:
            self._seen += os.read(self._terminal, 1 << 12).decode()
        return self._seen

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Give a terminal; what runs in it ends with it."""
    terminal = Terminal()
    yield terminal
    terminal.close()


def typed(arguments: Sequence[str]) -> str:
    """Return a command as it is typed."""
    import shlex

    return shlex.join([*MQS, *arguments]) + "\n"


def test_ctrl_z_stops_it_with_its_command_and_fg_lets_both_go_on(terminal: Terminal) -> None:
    """As the shell's job that the command would be without mqs."""
    terminal.type(typed([sys.executable, "-c", REPORTS]))
    pid = int(terminal.until("ready ") and terminal.until("\n"))
    terminal.type("\x1a")
    terminal.until("Stopped")
    assert status_fields(pid)["State"].startswith("T")
    terminal.type("fg\n")
    terminal.until("got SIGCONT")
    time.sleep(0.5)
    assert "SIGCONT" not in terminal.until_now()
    wait_until(lambda: not status_fields(pid)["State"].startswith("T"))
    terminal.type("\x03")
    terminal.until("got SIGINT")
    os.kill(pid, signal.SIGKILL)
    terminal.until("Killed")


def test_the_command_has_the_terminal(terminal: Terminal) -> None:
    """It reads what is typed, and may set the terminal to raw mode."""
    terminal.type(
        typed(["sh", "-c", "stty raw -echo; echo is $((6 * 7)); dd bs=1 count=1 2>/dev/null; stty sane; echo :$?"])
    )
    terminal.until("is 42")
    terminal.type("\x03")
    terminal.until("\x03:0")
    terminal.type("echo code $?\n")
    terminal.until("code 0")
