"""What `mqs run` knows of the ranks on other nodes, without any: progress there, and agents that die."""

from __future__ import annotations

import argparse
import math
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from mqs_dll.commands.run import comparing
from mqs_dll.commands.run.comparing import Comparing
from mqs_dll.commands.run.other_nodes import END, LEFT, MARK, NOTHING, PROGRESS, OtherNodes
from mqs_dll.debugger.job.ending import runs
from mqs_dll.debugger.job.nodes import agent, wire
from mqs_dll.debugger.job.nodes.agents import Agents
from mqs_dll.debugger.job.nodes.wire import Compared, Looked
from mqs_dll.debugger.proc import start_time
from tests.support.targets import python_code, wait_until

AFTER = 60.0
OPTIONS = argparse.Namespace(interval=10.0, after=AFTER)


class Answers:
    """Agents that answer what they are told to."""

    is_whole = True

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str]] = []

    @property
    def others(self) -> list[str]:
        """All nodes."""
        return [*self.answers]

    def ask(self, messages: Mapping[str, wire.Message], seconds: float, take: Callable[[str, Any], None]) -> None:
        """Answer."""
        for node, message in messages.items():
            self.asked.append((node, message["do"]))
            answer = self.answers[node][message["do"]]
            take(node, answer if isinstance(answer, int) else wire.write(answer))


def answering(*, changed: Sequence[bool], same: Sequence[bool], left: int = 0) -> tuple[Comparing, Answers]:
    """Return what compares nodes that answer so, one after the other, and has looked."""
    answers = Answers(
        {
            f"n{number}": {"compare": Compared(is_changed, 1), "look": Looked(1, is_same), "end": left}
            for number, (is_changed, is_same) in enumerate(zip(changed, same, strict=True))
        }
    )
    made = Comparing(cast(Agents, answers), OPTIONS.interval, AFTER)
    assert not made.progressed(), "the first look has nothing to compare with"
    answers.asked.clear()
    return made, answers


def test_what_changes_on_a_node_is_progress_if_its_queues_have_changed() -> None:
    """Those alone are read whose memory has changed."""
    made, answers = answering(changed=[False, True], same=[True, False])
    assert made.progressed()
    assert answers.asked == [("n0", "compare"), ("n1", "compare"), ("n1", "look")]


def test_what_polling_changes_on_a_node_is_no_progress() -> None:
    """A look shows it; between two looks any change counts."""
    made, answers = answering(changed=[True, False], same=[True, True])
    assert not made.progressed()
    assert made.progressed()
    assert answers.asked.count(("n0", "look")) == 1


def test_no_change_is_no_progress() -> None:
    """And nobody is asked for more."""
    made, answers = answering(changed=[False, False], same=[False, False])
    assert not made.progressed()
    assert [what for _, what in answers.asked] == ["compare"] * 2


@pytest.mark.parametrize(("left", "ended"), [(0, True), (1, False)])
def test_all_nodes_say_whether_something_is_left(left: int, ended: bool) -> None:
    """One process that the kernel keeps is enough."""
    made, _ = answering(changed=[False], same=[True], left=left)
    assert made.end() is ended


# ---------------------------------------------------------------- the supervisor's side


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherNodes]:
    """Return what knows of no ranks on other nodes yet."""
    made = OtherNodes(OPTIONS, 1)
    yield made
    made.close()


def acting(act: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process that has agents do something else."""

    def run(options: argparse.Namespace, what: int, channel: socket.socket) -> int:
        act(channel)
        return 0

    monkeypatch.setattr(comparing, "run", run)


def test_agents_are_started_when_ranks_are_elsewhere_and_not_at_once(
    others: OtherNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most jobs end before, or have one node."""

    def act(channel: socket.socket) -> None:
        channel.sendall(NOTHING + PROGRESS)
        channel.recv(1)

    acting(act, monkeypatch)
    now = time.monotonic()
    assert not others.progressed(now + 2 * AFTER)
    others.have_ranks = True
    assert not others.progressed(now + AFTER / 2)
    assert others._pid == 0
    wait_until(lambda: others.progressed(now + 2 * AFTER))
    assert others.compared == 2
    assert not others.progressed(now + 2 * AFTER)


def test_a_process_that_dies_is_started_again_rarely(others: OtherNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor goes on with what it has, and waits longer each time."""
    acting(lambda channel: None, monkeypatch)
    others.have_ranks = True
    now, gaps = math.ceil(time.monotonic()) + AFTER, []  # whole: sums are exact
    for _ in range(8):
        before = now
        while not others._pid:
            others.progressed(now)
            now += AFTER
        gaps.append(now - before)
        pid, _ = os.waitpid(others._pid, 0)
        assert not others.progressed(now)
        assert others.ended(pid)
    assert gaps[:3] == [AFTER, 5 * AFTER, 10 * AFTER]
    assert gaps[-1] == 3600.0


@pytest.mark.parametrize(("says", "ended"), [(END, True), (LEFT, False), (b"", False)])
def test_ending_waits_for_what_agents_say(
    says: bytes, ended: bool, others: OtherNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They note what runs before the launcher is ended; where nobody answers, that isn't called ended."""

    def act(channel: socket.socket) -> None:
        channel.sendall(NOTHING)
        assert channel.recv(1) == MARK
        channel.sendall(PROGRESS + MARK)
        assert channel.recv(1) == END
        channel.sendall(says)

    acting(act, monkeypatch)
    others.have_ranks = True
    others.mark()
    assert others.are_ended() is ended


def test_one_node_has_nothing_to_be_ended_elsewhere(others: OtherNodes) -> None:
    """And starts nothing."""
    others.mark()
    assert others.are_ended()
    assert others._pid == 0


def test_a_process_that_has_agents_ends_with_the_supervisor() -> None:
    """However that ends: nobody tells it."""
    code = (
        "import time\n"
        "from mqs_dll.commands.run import comparing, other_nodes\n"
        "from tests.commands.run.test_other_nodes import Answers, OPTIONS\n"
        "Answers.close = lambda self: None\n"
        "comparing._found = lambda options, what: Answers({})\n"
        "others = other_nodes.OtherNodes(OPTIONS, 1)\n"
        "others.have_ranks = True\n"
        "others._begin(0.0)\n"
        "others._channel.recv(1)\n"
        "print(others._pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(python_code(code), stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        process = pid, start_time(pid)
        supervisor.kill()
    wait_until(lambda: not runs(process))


def test_an_agent_that_hears_nothing_for_long_ends() -> None:
    """Its link may be down, which the kernel doesn't say: its input is still there."""
    with subprocess.Popen(agent.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdout.readline()
        started.stdin.write(b'{"do": "look", "patience": 0.2}\n')
        started.stdin.flush()
        assert b'"same":false' in started.stdout.readline()
        assert started.wait(60) == 0
