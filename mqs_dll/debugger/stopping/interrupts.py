"""What is started is ended, even when Ctrl-C strikes at the moment in which it is started or ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TypeVar

Begun = TypeVar("Begun")


class Interrupts:
    """Makes a Ctrl-C wait while something starts or ends; in between it ends that before KeyboardInterrupt is raised.

    Without it that could strike between the start and the note of it, or in a caller's frame from which no
    ``finally`` leads back here.
    """

    def __init__(self, end: Callable[[], object]) -> None:
        """Take what ends it. Idempotent."""
        self._end = end
        self._previous: Callable[[int, FrameType | None], Any] | None = None
        self._held = False
        self._pending = False

    def hold(self) -> None:
        """Let a Ctrl-C wait from now on."""
        self._held = True
        if self._previous or threading.current_thread() is not threading.main_thread():
            return  # Python raises KeyboardInterrupt in the main thread only
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # where it is ignored or deadly, Python doesn't raise either
            self._previous = handler
            signal.signal(signal.SIGINT, self._on_interrupt)

    def pass_on(self) -> None:
        """Let a Ctrl-C through from now on, one that waited first."""
        self._held = False
        if self._pending:
            self._end()
            self.release()

    def release(self) -> None:
        """Put the former handler back, and let a Ctrl-C that waited through to it."""
        previous, self._previous = self._previous, None
        if previous:
            signal.signal(signal.SIGINT, previous)
        if previous and self._pending:
            self._pending = False
            previous(signal.SIGINT, None)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._pending = True
        if not self._held:
            self._held = True
            self._end()
            self.release()


@contextmanager
def ended(start: Callable[[ExitStack], Begun]) -> Iterator[Begun]:
    """Yield what a function starts; at the end, and before a Ctrl-C is seen, do what it has left in the stack."""
    stack = ExitStack()
    interrupts = Interrupts(stack.close)
    try:
        interrupts.hold()
        try:
            started = start(stack)
            interrupts.pass_on()
            yield started
        finally:
            interrupts.hold()
            stack.close()
    finally:
        interrupts.release()
