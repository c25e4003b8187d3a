"""What reads hostile input in C or C++, in a process of its own: it can neither crash, hang nor fill this one.

A module with a function ``answer`` is imported there, which takes a question and returns the answer, both in terms of
JSON: a line each. Like the holder, the process is a Python of our own.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path
from select import select
from typing import Any

from mqs_dll.debugger import own_python
from mqs_dll.debugger.become import become
from mqs_dll.debugger.proc import Owner

_LARGEST = 1 << 26
"""Bytes of an answer."""
_PIECE = 1 << 16
_MEANWHILE = 0.001
"""Seconds between two looks at something else."""
_MAX_LOST = 60.0
"""Seconds that questions without an answer may take, all of them, until no more are asked."""


class Apart:
    """The process, which is started for the first question, and again after one that was too much for it."""

    def __init__(self, module: str, memory: int, needs: str = "") -> None:
        """Remember what it is to be.

        Args:
            module: whose ``answer`` it calls.
            memory: bytes of data that it may have.
            needs: a module of another package that it imports; none if the standard library and libmqs are enough.
        """
        self._module = module
        self._memory = memory
        self._needs = needs
        self._child: subprocess.Popen[bytes] | None = None
        self._lost = 0.0
        _all.append(self)

    @property
    def can_run(self) -> bool:
        """Whether what it needs is installed."""
        return not self._needs or self._folder() is not None

    def ask(self, question: Any, patience: float, meanwhile: Callable[[], object] | None = None) -> Any:
        """Return the answer to a question; None where it took too long or too much, or ended the process.

        Args:
            question: in terms of JSON.
            patience: seconds for the answer.
            meanwhile: what to do every millisecond until it is there.

        Raises:
            RuntimeError: our own code failed there.
        """
        if self._lost > _MAX_LOST:
            return None
        begun = time.monotonic()
        answer = None
        try:
            if self._child is None:
                self._child = self._start(None)
            answer = _ask(self._child, [ceil(patience), question], begun + patience, meanwhile)
        except (OSError, ValueError):  # ValueError: it has written anything
            self._lost += time.monotonic() - begun
        finally:
            if answer is None:  # also after a Ctrl-C: the next question isn't to get this one's answer
                self._end()
        if answer is None:
            return None
        said, failure = answer
        if failure:
            raise RuntimeError(failure)
        return said

    def start_beforehand(self, owner: Owner) -> None:
        """Start it while this process is root; it becomes a user as this one will (rights.py).

        Raises:
            OSError: it can't be started.
        """
        self._end()
        if self.can_run:
            self._child = self._start(owner)

    def _start(self, owner: Owner | None) -> subprocess.Popen[bytes]:
        needs = (self._needs, self._folder()) if self._needs else None
        arguments = (self._module, self._memory, needs, owner and tuple(owner))
        return subprocess.Popen(
            own_python.command(f"{own_python.BEGIN}; from {__name__} import serve; serve{arguments!r}"),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us
        )

    def _folder(self) -> str | None:
        """Return where the package that is needed lies."""
        try:
            found = importlib.util.find_spec(self._needs.partition(".")[0])
        except ValueError:  # it is None in sys.modules
            return None
        return str(Path(found.origin).parents[1]) if found and found.origin else None

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()


_all: list[Apart] = []


def start_all_beforehand(owner: Owner) -> None:
    """Start all that may be asked while this process is root; they become a user as this one will."""
    for each in _all:
        with suppress(OSError):  # there is no answer then
            each.start_beforehand(owner)


def _ask(
    child: subprocess.Popen[bytes], question: Any, end: float, meanwhile: Callable[[], object] | None
) -> tuple[Any, str]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(question).encode("ascii") + b"\n")
    answer = bytearray()
    while not answer.endswith(b"\n"):
        while meanwhile and time.monotonic() < end and not select([child.stdout], [], [], _MEANWHILE)[0]:
            meanwhile()
        if not select([child.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError
        piece = os.read(child.stdout.fileno(), _PIECE)
        answer += piece
        if not piece or len(answer) > _LARGEST:
            raise BrokenPipeError
    said, failure = json.loads(answer)
    return said, str(failure)


def serve(
    module: str, memory: int, needs: tuple[str, str] | None, owner: tuple[int, int, tuple[int, ...]] | None
) -> None:
    """Answer questions on standard input until it ends.

    Args:
        module: as Apart has it.
        memory: the same.
        needs: the same, and the folder of the package.
        owner: whom to become first; None for nobody.
    """
    if needs is not None:
        sys.path.append(needs[1])
        importlib.import_module(needs[0])
    answer = importlib.import_module(module).answer
    if owner is not None:  # who may be kept from these folders
        become(Owner(*owner))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        patience, question = json.loads(line)
        signal.alarm(patience + 1)  # whoever asked may have ended
        try:
            said, failure = answer(question), ""
        except Exception as error:
            said, failure = None, f"{type(error).__name__}: {error}"
        print(json.dumps([said, failure]), flush=True)
        signal.alarm(0)
