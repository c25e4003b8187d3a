"""An agent that does one thing otherwise, on the last node: ``python -m tests.support.odd_agent HOW [ARGUMENT]``."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqs_dll.commands import which_library
from mqs_dll.debugger.job.nodes import agent, wire
from mqs_dll.debugger.job.nodes.wire import Parts
from tests.support.nodes import NODES

Message = Mapping[str, Any]


def main(how: str, argument: str = "") -> None:
    """Be an agent."""
    if socket.gethostname() == NODES[-1]:
        _WAYS[how](argument)
    agent.serve(which_library.opener(), which_library.windows(), {})


def _after(what: str, act: Callable[[], object]) -> None:
    """Have the agent do something after it did what it was told, and before it answers."""
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
    parts: Parts = wire.read(Parts, answer)
    claimed = [
        part._replace(ranks=tuple(replace(rank, rank=1) for rank in part.ranks if rank.host == part.host))
        for part in parts.parts
    ]
    return wire.write(parts._replace(parts=tuple(claimed)))


def _age(argument: str) -> None:
    wire.GREETING = {**wire.GREETING, "version": "0.0.9"}


def _cut_link(seconds: str) -> None:
    script = f"ip link set eth0 down; sleep {seconds}; ip link set eth0 up"
    _after("stop", lambda: subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, start_new_session=True))
    _after("stop", lambda: time.sleep(0.2))


def _wait_beside(path: str) -> None:
    """Say that it reads, and take long."""

    def rest() -> None:
        Path(path).touch()
        time.sleep(30.0)

    _after("read", rest)


_WAYS: dict[str, Callable[[str], None]] = {
    "killed": lambda _: _after("stop", _signal(signal.SIGKILL)),
    "dies": lambda _: _after("watch", _signal(signal.SIGKILL)),
    "stopped": lambda _: _after("stop", _signal(signal.SIGSTOP)),
    "claims": lambda _: _lie("find", _claim),
    "nonsense": lambda _: _lie("tell", lambda document: {**document, "groups": "many"}),
    "old": _age,
    "cut": _cut_link,
    "slow": _wait_beside,
    "launcher": lambda pid: _after("watch", lambda: subprocess.run(["ssh", NODES[0], "kill", "-9", pid], check=True)),
}


if __name__ == "__main__":
    main(*sys.argv[1:])
