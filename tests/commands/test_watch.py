"""``mqs watch``: what a frame shows, and the live view on real jobs, under a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mqs_dll.commands import watch
from mqs_dll.contract.abi import Queue, Status
from mqs_dll.job.records import Job, RankState
from mqs_dll.report import progress
from mqs_dll.report.watch_view import Screen
from mqs_dll.verdict.results import (
    Activity,
    Certainty,
    CommunicatorFacts,
    Mode,
    Outcome,
    Verdict,
    Wait,
    WaitKind,
)
from tests.support import jobs, mpis
from tests.support.made_up_job import (
    ANY,
    Pending,
    Rank,
    collective,
    communicator,
    gone,
    job,
    note,
    rank,
    receive,
    send,
    unexpected,
)
from tests.support.targets import is_readable

SECONDS = 60.0
"""Longer than any command of these tests takes."""

WORLD = "MPI_COMM_WORLD"
HALO = communicator(b"h\x1b", (1, 0))
ALTERNATE_SCREEN = b"\x1b[?1049h"
FORMER_SCREEN = b"\x1b[?1049l"
CURSOR_SHOWN = b"\x1b[?25h"


def console(width: int = 100, height: int | None = None) -> Console:
    """Return a console that keeps what is printed: a file, or a terminal of some height without colours."""
    return Console(
        file=io.StringIO(),
        width=width,
        height=height,
        force_terminal=height is not None,
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def printed(on: Console) -> list[str]:
    """Return the lines that a console got."""
    assert isinstance(on.file, io.StringIO)
    return [line.rstrip() for line in on.file.getvalue().splitlines()]


def frame(read: Job, unchanged: Sequence[float | None] | None = None, *, alike: bool = True) -> Screen:
    """Return a frame of a job in which nothing is known of what ranks do; unless alike, each does something else."""
    everyone = tuple(range(len(read.processes)))
    verdict = Verdict(
        Outcome.NOTHING_STUCK,
        "the headline: yes",
        (),
        (),
        tuple(Activity(None, "idles" if alike else f"idles {place}", "", Mode.UNKNOWN, None) for place in everyone),
        (CommunicatorFacts(WORLD, 0, len(everyone), everyone, None),),
    )
    return Screen(read, verdict, unchanged or [12.0] * len(everyone), "the heading")


def rows(read: Job, unchanged: Sequence[float | None] | None = None) -> list[list[str]]:
    """Return the words of each row of a frame."""
    on = console(300)
    on.print(frame(read, unchanged))
    lines = printed(on)
    assert lines[:3] == ["THE HEADLINE: yes", "the heading", lines[2]]
    assert lines[2].split() == ["ranks", "sends", "recvs", "unexp", "unchanged", "does"]
    return [line.split() for line in lines[3:]]


# ---------------------------------------------------------------- one frame


def test_a_row_counts_what_is_pending_on_all_communicators() -> None:
    """Sends, receives and unexpected messages have a column each, and so has the time without a change."""
    read = job(rank(0, send(1), receive(1), receive(1), unexpected(1), unexpected(1), unexpected(1)), rank(1))
    assert [row[:7] for row in rows(read)] == [
        ["0", "1", "2", "3", "12", "s", "idles;"],
        ["1", "0", "0", "0", "12", "s", "idles"],
    ]


@pytest.mark.parametrize(
    ("operations", "shown"),
    [
        ([], "idles"),
        ([receive(1, 7)], "idles; pending: receive from rank 1 of MPI_COMM_WORLD, tag 7"),
        ([send(1, 7, on=HALO)], "idles; pending: send to rank 1 of 'h\\x1b', tag 7"),
        ([receive(ANY, ANY)], "idles; pending: receive from any rank of MPI_COMM_WORLD, tag any"),
        ([send(ANY, ANY)], "idles; pending: send to ? rank of MPI_COMM_WORLD, tag ?"),
        ([receive(1, status=Status.COMPLETE), unexpected(1)], "idles"),
        ([collective("MPI_Bcast"), collective("MPI_Bcast", target=1)], "idles; pending: MPI_Bcast on MPI_COMM_WORLD"),
        (
            [receive(1, tag) for tag in range(9)],
            "idles; pending: "
            + "".join(f"receive from rank 1 of MPI_COMM_WORLD, tag {tag}; " for tag in range(3))
            + "and 6 more",
        ),
    ],
)
def test_a_row_shows_what_is_pending_if_what_its_rank_waits_for_is_unknown(
    operations: list[Pending], shown: str
) -> None:
    """It is what the rank has started and what isn't done; of a collective operation the name, once."""
    assert " ".join(rows(job(rank(0, *operations), rank(1)))[0][6:]) == shown


def test_a_row_shows_what_its_rank_waits_for() -> None:
    """Where a wait is known, it stands behind the call."""
    read = job(rank(0, receive(1, 7), receive(1, 8)), rank(1))
    one = frame(read)
    wait = Wait(0, WaitKind.RECEIVE, "MPI_Recv", WORLD, 0, (1,), False, 1, 7, False, 8, Certainty.PROVED)
    activity = Activity("MPI_Recv", "", "", Mode.ALL, Certainty.PROVED)
    on = console(300)
    on.print(
        one._replace(verdict=replace(one.verdict, waits=(wait,), activities=(activity, one.verdict.activities[1])))
    )
    assert printed(on)[3].endswith("12 s  stuck in MPI_Recv for a message from 1, tag 7, on MPI_COMM_WORLD")


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (rank(0, hidden=[Queue.SENDS]), ["?", "0", "0"]),
        (rank(0, receive(1), broken=[Queue.RECEIVES]), ["0", "?", "0"]),
        (rank(0, note("5 messages")), ["0", "0", "?"]),
        (rank(0, state=RankState.UNREADABLE, why="no"), ["?", "?", "?"]),
        (rank(0, send(ANY, ANY, length=-1)), ["1", "0", "0"]),
    ],
)
def test_what_could_not_be_counted_is_never_a_number(one: Rank, counts: list[str]) -> None:
    """A queue that can't be seen, or not to its end, and a rank that was not read, show a question mark.

    A send of which nothing but its being there is known counts: MPICH shows such ones.
    """
    assert rows(job(one, rank(1)))[0][1:4] == counts


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "-"), (0.4, "0 s"), (99.0, "99 s"), (600.0, "10 min"), (36_000.0, "10 h")]
)
def test_the_time_without_a_change_has_two_digits(seconds: float | None, shown: str) -> None:
    """It is in seconds, minutes or hours; at the first sample it isn't known."""
    assert " ".join(rows(job(rank(0)), [seconds])[0][4:-1]) == shown


@pytest.mark.parametrize(("size", "height"), [(3, 24), (200, 24), (200, 5)])
def test_a_frame_never_outgrows_the_screen(size: int, height: int) -> None:
    """Where there are more ranks than rows, the rest is counted in one line."""
    on = console(80, height)
    on.print(frame(job(*(rank(number) for number in range(size))), alike=False))
    lines = printed(on)
    assert len(lines) < height + (height == 5)
    assert sum("idles" in line for line in lines) == min(size, max(height - 5, 1))
    assert any(line.startswith(f"and {size - max(height - 5, 1)} more ranks: ") for line in lines) == (size > height)


def test_equal_ranks_share_a_row_only_where_there_are_too_many() -> None:
    """On a screen too low for all, ranks that do the same are merged, with the span of their times and counts."""
    read = job(rank(0, send(1)), *(rank(number) for number in range(1, 100)))
    on = console(80, 24)
    on.print(frame(read, [5.0, *[40.0] * 99]))
    assert printed(on)[-1].split()[:9] == ["[0-99]", "0-1", "0", "0", "5", "s", "to", "40", "s"]
    assert printed(on)[-1].endswith("idles; pending: different things")


def test_a_row_that_does_not_fit_is_clipped_when_there_is_no_room_for_two_lines() -> None:
    """Dots in ASCII stand where words were left out; a screen with more room shows all of them."""
    read = job(*(rank(number) for number in range(15)))
    shown = frame(read)
    shown = shown._replace(
        verdict=replace(shown.verdict, activities=(Activity(None, "word " * 20, "", Mode.UNKNOWN, None),) * 15)
    )
    low, high = console(80, 24), console(80, 60)
    low.print(shown)
    high.print(shown)
    assert all(line.endswith("...") for line in printed(low)[3:18])
    assert " ".join(printed(high)).count("word") == 15 * 20


# ---------------------------------------------------------------- sample after sample


def frames_of(*looks: Job, count: int | None = None) -> tuple[list[str], list[Job]]:
    """Return what is printed on looks at a job without waiting in between, and the looks that were not taken."""
    remaining = iter(looks)
    on = console()
    watch.watch(remaining, on, 0.0, count)
    return printed(on), [*remaining]


def test_the_view_ends_with_the_job() -> None:
    """When all ranks have exited, the view says so and asks for no further look."""
    alive, over = job(rank(0), rank(1)), job(gone(0), gone(1))
    lines, remaining = frames_of(alive, over, alive)
    assert lines[-1] == watch.ENDED
    assert len(remaining) == 1


def test_a_rank_that_exited_does_not_end_the_view() -> None:
    """While one rank runs, or can't be read, there is something to watch."""
    partly, unread = job(rank(0), gone(1)), job(rank(0, state=RankState.UNREADABLE, why="no"), gone(1))
    lines, _ = frames_of(partly, unread)
    assert watch.ENDED not in lines


def test_the_view_ends_where_only_nodes_that_were_not_reached_may_have_ranks() -> None:
    """Of those nothing can be determined: the job has ended for all that is known."""
    far = rank(1, state=RankState.UNREADABLE, pid=0, host="node1", why="node1 can't be reached")
    alive, over = job(rank(0), far), job(gone(0), far)
    lines, remaining = frames_of(alive, over, alive)
    assert lines[-1] == watch.ENDED
    assert len(remaining) == 1


def test_an_ignored_interrupt_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script that runs the view in the background."""
    handlers = []
    monkeypatch.setattr("time.sleep", lambda seconds: handlers.append(signal.getsignal(signal.SIGINT)))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        watch.watch(iter([job(rank(0)), job(rank(0))]), console(), 1.0, 2)
    finally:
        after = signal.signal(signal.SIGINT, before)
    assert {*handlers, after} == {signal.SIG_IGN}


def test_ranks_that_were_never_seen_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no PID: what becomes of one is no change of another."""
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now) // 20 * 10))
    unread = [rank(number, pid=0, state=RankState.UNREADABLE) for number in (1, 2)]
    exited = rank(1, pid=0, state=RankState.EXITED)
    lines, _ = frames_of(job(rank(0), *unread), job(rank(0), exited, unread[1]))
    times = [re.split(r" {2,}", line)[4] for line in lines if re.match(r"\d ", line)]
    assert times == ["-", "-", "-", "10 s", "0 s", "10 s"]


def test_the_view_ends_after_as_many_samples_as_were_asked_for() -> None:
    """No sample is taken that isn't shown."""
    lines, remaining = frames_of(job(rank(0)), job(rank(0)), job(rank(0)), count=2)
    assert len(remaining) == 1
    assert sum("not stopped, sampled at" in line for line in lines) == 2


def test_the_time_without_a_change_starts_again_with_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of each rank alone; another operation, another state and a new rank are changes."""
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now) // 20 * 10))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    first = job(rank(0, receive(1, 7)), rank(1), rank(2))
    moved = job(rank(0, receive(1, 8)), rank(1), rank(2, state=RankState.UNREADABLE, why="no"))
    lines, _ = frames_of(first, first, moved, moved)
    times = [re.split(r" {2,}", line)[4] for line in lines if re.match(r"\d ", line)]
    assert times == ["-", "-", "-", "10 s", "10 s", "10 s", "0 s", "20 s", "0 s", "10 s", "30 s", "10 s"]


@pytest.mark.parametrize(("interrupts", "ended"), [(1, [True]), (2, [])])
def test_an_interrupt_waits_for_the_sample_and_a_second_one_does_not(interrupts: int, ended: list[bool]) -> None:
    """Either ends the view, and is no error."""
    over: list[bool] = []

    def samples() -> Iterator[Job]:
        for _ in range(interrupts):
            signal.raise_signal(signal.SIGINT)
        over.append(True)
        yield job(rank(0))
        yield job(rank(0))

    watch.watch(samples(), console(), 60.0, None)
    assert over == ended


def test_an_interval_is_slept_in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C right before the kernel's sleep doesn't end that: it is seen after it, not after a pause of minutes."""
    sleeps: list[float] = []
    monkeypatch.setattr("time.sleep", sleeps.append)
    watch.watch(iter([job(rank(0)), job(rank(0))]), console(), 60.0, 2)
    assert sum(sleeps) == pytest.approx(60.0, abs=1.0)
    assert max(sleeps) < 1.0


# ---------------------------------------------------------------- progress


class WrittenTo(io.StringIO):
    """Stands for a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def test_progress_shows_on_a_terminal_until_the_ranks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar counts the ranks; who goes on counting afterwards doesn't disturb what is on the screen then."""
    screen = WrittenTo()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "_PATIENCE", -1.0)
    with progress.ranks_done() as tell:
        assert tell is not None
        tell(3, 4)
    before = screen.getvalue()
    assert "3/4" in before
    tell(4, 4)
    assert screen.getvalue() == before


def test_progress_is_not_reported_where_nobody_would_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of standard error stays free of it."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.ranks_done() as tell:
        assert tell is None


# ---------------------------------------------------------------- real jobs


@dataclass
class Running:
    """A job whose rank 0 has 3 sends, 5 receives and 4 unexpected messages."""

    launcher: int
    ranks: list[int]

    def assert_untouched(self) -> None:
        """Check that all ranks run or sleep as before, and nobody traces them."""
        for pid in self.ranks:
            status = Path(f"/proc/{pid}/status").read_text()
            assert re.search(r"^State:\s[RS]", status, re.MULTILINE)
            assert re.search(r"^TracerPid:\s0$", status, re.MULTILINE)


@pytest.fixture(scope="module", params=[mpis.OB1, mpis.SHM], ids=["Open MPI", "MPICH"])
def running(request: pytest.FixtureRequest, compiler: jobs.Compiler) -> Iterator[Running]:
    """Return a job of four ranks."""
    mpi = mpis.first_of([each for each in mpis.find_mpis() if each.transports[0] == request.param])
    with jobs.running(compiler, mpi, mpi.transports[0], "dozen", 4) as started:
        ranks = [truth["pid"] for truth in started.wait_until_ready()]
        yield Running(started.launcher.pid, ranks)


def command(running: Running, *options: str) -> list[str]:
    """Return the command that watches a job."""
    return [sys.executable, "-m", "mqs_dll", "watch", str(running.launcher), *options]


def test_frames_follow_each_other_in_a_pipe(running: Running) -> None:
    """Without a terminal each sample is plain text, with a row for each rank, and --count ends it with exit code 0."""
    done = subprocess.run(
        command(running, "--count", "2", "--interval", "1100ms"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    first, second = (
        [line.split() for line in frame.splitlines() if re.match(r"\d ", line)]
        for frame in done.stdout.split("\n\n")[:2]
    )
    assert done.stdout.count("not stopped, sampled at") == 2
    assert first[0][:5] == ["0", "3", "5", "4", "-"]
    assert [row[0] for row in second] == ["0", "1", "2", "3"]
    assert all(int(row[4]) >= 1 for row in second)
    running.assert_untouched()


class Terminal:
    """A terminal with a command in it."""

    def __init__(self, arguments: list[str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self._settings = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.output = b""
        self._process = subprocess.Popen(
            arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def read_until(self, pattern: bytes) -> None:
        """Read what the command prints until a pattern shows up."""
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.output):
            assert is_readable(self._ours, deadline), self.output
            self.output += os.read(self._ours, 65536)

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._ours, keys)

    def wait(self) -> int:
        """Return the command's exit code."""
        return self._process.wait(SECONDS)

    def settings_changed(self) -> bool:
        """Return whether the terminal's settings are others than at the start."""
        return termios.tcgetattr(self._theirs) != self._settings

    def __enter__(self) -> Terminal:
        """Return the terminal."""
        return self

    def __exit__(self, *error: Any) -> None:
        """End the command, and close the terminal."""
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._theirs)


def test_the_live_view_fills_the_screen_until_ctrl_c(running: Running) -> None:
    """On a terminal frames replace each other on the second screen; Ctrl-C brings the first one back, exit code 0."""
    with Terminal(command(running, "--interval", "200ms")) as terminal:
        terminal.read_until(re.escape(ALTERNATE_SCREEN))
        terminal.read_until(rb"(?s)sample 2,.*\n0 +3 +5 +4 .*\n3 ")
        terminal.press(b"\x03")
        terminal.read_until(rb"(?s)" + re.escape(FORMER_SCREEN) + rb".*not stopped, sampled at.*\n3 ")
        assert terminal.wait() == 0
        assert terminal.output.rfind(CURSOR_SHOWN) > terminal.output.rfind(ALTERNATE_SCREEN)
        assert b"Traceback" not in terminal.output
        assert not terminal.settings_changed()
    running.assert_untouched()


def test_an_interrupt_ends_the_view_in_a_pipe_too(running: Running) -> None:
    """A script's SIGINT ends it with exit code 0, after a whole frame."""
    with subprocess.Popen(command(running, "--interval", "1m"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as view:
        assert view.stdout is not None
        while not view.stdout.readline().startswith(b"3 "):
            assert view.poll() is None
        view.send_signal(signal.SIGINT)
        assert (view.wait(SECONDS), view.stderr and view.stderr.read()) == (0, b"")
    running.assert_untouched()


def test_the_view_of_a_job_that_ends_ends_too(running: Running) -> None:
    """When the last rank is gone, the view says so, and ends with exit code 0. This is the last test of the job."""
    with subprocess.Popen(command(running, "--interval", "200ms"), stdout=subprocess.PIPE, text=True) as view:
        assert view.stdout is not None
        while not view.stdout.readline().startswith("3 "):
            assert view.poll() is None
        for pid in running.ranks:
            jobs.kill(pid)
        output, _ = view.communicate(timeout=SECONDS)
    assert view.returncode == 0
    assert output.splitlines()[-1] == watch.ENDED
