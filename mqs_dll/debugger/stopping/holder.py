"""Has a process of its own hold others stopped, so that nothing that hangs in ours can keep them stopped.

The kernel lets all go when their tracer ends. So the tracer is another process (holder_process.py), which takes orders
(messages.py) and ends when we do.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mqs_dll.contract.errors import StopError
from mqs_dll.debugger import own_python
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.proc import Owner
from mqs_dll.debugger.stopping.messages import Watch, WatchedReturn, order_of, receive, send

_LETTING_GO = 5.0
"""Seconds that the holder has to let go."""

_BEGIN = own_python.BEGIN
_RUN = "from mqs_dll.debugger.stopping.holder_process import main; main({})"


class Holder:
    """The other process, as the one that gives it orders has it, one after the other."""

    def __init__(self, *, speaks: bool, owner: Owner | None = None) -> None:
        """Start it.

        Args:
            speaks: whether it may print on standard error.
            owner: whose processes it holds, and no others; None for any.

        Raises:
            StopError: it can't be started.
        """
        command = own_python.command(f"{_BEGIN}\n{_RUN.format(owner and tuple(owner))}")
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if speaks else subprocess.DEVNULL,
                start_new_session=True,  # neither Ctrl-C nor Ctrl-Z is for it
            )
        except OSError as error:
            raise StopError(f"{sys.executable}, which would hold the processes, can't be run: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to = self._process.stdin
        self._from = self._process.stdout

    @property
    def ended(self) -> bool:
        """Whether it takes no orders any more: it was let go, or somebody has ended it."""
        return self._to.closed or self._process.poll() is not None

    def ask(self, what: object) -> Any:
        """Return its answer: to an Order what stands, to a Watch and to None at its end what SignalFilter returns.

        To None at the end of an Order it is None.

        Raises:
            StopError: it has ended, and holds nothing any more.
        """
        try:
            send(self._to.fileno(), order_of(what))
            answer = receive(self._from.fileno())
        except (EOFError, OSError, ValueError):  # ValueError: a Ctrl-C has let them go meanwhile
            raise StopError("the process that held the others stopped has ended: they run on") from None
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def release(self) -> bool:
        """Have what an Order holds let go; return False when the limit was over before: then it has ended."""
        with suppress(EOFError, OSError, ValueError):
            send(self._to.fileno(), order_of(None))
            if select.select([self._from], [], [], _LETTING_GO)[0]:
                receive(self._from.fileno())
                return True
        return self.let_go()

    def let_go(self) -> bool:
        """Have everything let go, and end it; return False when a limit was over before. Idempotent."""
        self._to.close()
        self._from.close()
        try:
            code = self._process.wait(_LETTING_GO)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return code == 0


_started_before: list[Holder] = []
"""Those that were started before root was given up (rights.py)."""


def start_beforehand(owner: Owner) -> None:
    """Start one that has root's rights over one user's processes, for when we have given them up.

    Raises:
        StopError: it can't be started.
    """
    _started_before.append(Holder(speaks=True, owner=owner))


def start_holder(*, speaks: bool) -> Holder:
    """Return one that takes orders; arguments and errors are those of Holder."""
    while _started_before:
        holder = _started_before.pop()
        if not holder.ended:
            return holder
    return Holder(speaks=speaks)


class Returns(Closes):
    """Has a Holder's process notice that threads return from calls while they run (signal_filter.py).

    Once that process has ended nothing is noticed.
    """

    def __init__(self, holder: Holder) -> None:
        """Take the process that will notice; it has no other order as long as it does."""
        self._holder = holder
        self._begun = False

    def start(self, calls: Sequence[WatchedReturn], seconds: float) -> set[WatchedReturn]:
        """Start to notice, for so many seconds at most; return of which of the calls a return will be."""
        if not calls:
            return set()
        self._begun = True
        return self._ask(Watch(calls, seconds)) or set()

    def end(self) -> dict[WatchedReturn, int] | None:
        """Return how often the address of each call was reached, 0 or mostly 1; None where that isn't known."""
        counts: dict[WatchedReturn, int] | None = self._ask(None) if self._begun else None
        self._begun = False
        return counts

    def close(self) -> None:
        """Notice no more. Idempotent."""
        if self._begun:
            self._holder.let_go()

    def _ask(self, what: object) -> Any:
        """Return its answer, None where there is none."""
        try:
            return self._holder.ask(what)
        except StopError:
            self._holder.let_go()
            return None
