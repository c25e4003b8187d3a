"""An agent that does one thing otherwise on some nodes, as ``main`` with the arguments NODE=HOW[:ARGUMENT]."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqs_dll.commands import which_library
from mqs_dll.debugger.job.nodes import agent, wire
from mqs_dll.debugger.job.nodes.wire import NodeParts
from tests.support.nodes import NODES

Message = Mapping[str, Any]


def main(*ways: str) -> None:
    """Be an agent."""
    for way in ways:
        node, _, what = way.partition("=")
        if socket.gethostname() == node:
            how, _, argument = what.partition(":")
            _WAYS[how](argument)
    agent.serve(which_library.opener(), which_library.windows(), {})


def _after(what: str, act: Callable[[], object]) -> None:
    """Have the agent do something after it did what it was asked for, and before it answers."""
    method = getattr(agent.Agent, f"_{what}")

    def changed(self: agent.Agent, message: Message) -> Any:
        answer = method(self, message)
        act()
        return answer

    setattr(agent.Agent, f"_{what}", changed)


def _lie(what: str, change: Callable[[Any], Any]) -> None:
    method = getattr(agent.Agent, f"_{what}")
    setattr(agent.Agent, f"_{what}", lambda self, message: change(method(self, message)))


def _signal(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def _claim(answer: Any) -> Any:
    """Say that its ranks are rank 1."""
    parts: NodeParts = wire.read(NodeParts, answer)
    claimed = [
        part._replace(ranks=tuple(replace(rank, rank=1) for rank in part.ranks if rank.host == part.host))
        for part in parts.parts
    ]
    return wire.write(parts._replace(parts=tuple(claimed)))


def _folded(document: dict[str, Any], count: int, levels: int = 0) -> dict[str, Any]:
    """Say that it has read so many ranks like the first, in columns within columns."""
    column = document["processes"][1]
    for _ in range(levels):
        column = {"kinds": [0] * count, "of": [column]}
    return {**document, "processes": [count, column]}


def _age(argument: str) -> None:
    wire.GREETING = {**wire.GREETING, "version": "0.0.9"}


def _cut_link(argument: str) -> None:
    """Take the link down when ranks stand, until they do so no more, or for longer than the head waits."""
    standing = "grep -qs 'TracerPid:.[1-9]' /proc/[0-9]*/status"
    wait = f"for i in $(seq 300); do {standing} || break; sleep 0.1; done"
    script = f"ip link set eth0 down; {wait}; ip link set eth0 up"
    _after("stop", lambda: subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, start_new_session=True))
    _after("stop", lambda: time.sleep(0.2))


def _rest(argument: str) -> None:
    """Do something, and then say nothing for long."""
    what, _, path = argument.partition(":")

    def rest() -> None:
        Path(path).write_text(what, encoding="ascii")
        time.sleep(60.0)

    _after(what, rest)


def _kill_launcher(pid: str) -> None:
    """Kill the launcher, and wait until its rank here has gone with it; a second sample of the rest finds it dead."""
    watch = agent.Agent._watch

    def changed(self: agent.Agent, message: Message) -> None:
        watch(self, message)
        subprocess.run(["ssh", NODES[0], "kill", "-9", pid], check=False)
        end = time.monotonic() + 4.0
        while any(Path(f"/proc/{rank}/exe").exists() for rank in self._found) and time.monotonic() < end:
            time.sleep(0.05)

    agent.Agent._watch = changed  # type: ignore[method-assign]


def _insist(argument: str) -> None:
    """Say each time that a rank has to be read while all stand again; note each stop in a file."""
    _lie("read_copies", lambda _: False)
    _count_stops(argument)


def _count_stops(argument: str) -> None:
    def count() -> None:
        with Path(argument).open("a") as file:
            file.write("stopped\n")

    _after("stop", count)


_WAYS: dict[str, Callable[[str], None]] = {
    "killed": lambda _: _after("stop", _signal(signal.SIGKILL)),
    "dies": lambda _: _after("watch", _signal(signal.SIGKILL)),
    "stopped": lambda _: _after("stop", _signal(signal.SIGSTOP)),
    "claims": lambda _: _lie("find", _claim),
    "nonsense": lambda _: _lie("report", lambda document: {**document, "groups": "many"}),
    "swells": lambda _: _lie("report", lambda document: _folded(document, 1 << 40)),
    "nests": lambda _: _lie("report", lambda document: _folded(document, 1, levels=200)),
    "old": _age,
    "cut": _cut_link,
    "rests": _rest,
    "launcher": _kill_launcher,
    "insists": _insist,
    "counts": _count_stops,
}
