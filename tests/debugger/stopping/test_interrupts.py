"""What is started is ended, in whatever line a Ctrl-C strikes."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from types import FrameType
from typing import Any

from mqs_dll.debugger.stopping.interrupts import ended


def test_what_is_started_is_ended_in_whatever_line_a_ctrl_c_strikes() -> None:
    """In those of the frames below, too, that start and end it: nothing is left, and Ctrl-C works as before."""
    begun: list[str] = []
    left = 0  # lines before it strikes

    def begin(stack: ExitStack) -> None:
        begun.append("first")
        stack.callback(begun.remove, "first")
        begun.append("second")
        stack.callback(begun.remove, "second")

    def use() -> None:
        with ended(begin):
            assert begun == ["first", "second"]
        assert not begun

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return count

    handler = signal.getsignal(signal.SIGINT)
    lines = 0
    interrupted = 0
    while left <= 0:
        lines += 1
        left = lines
        sys.settrace(count)
        try:
            use()
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        assert not begun, f"line {lines}"
        assert signal.getsignal(signal.SIGINT) is handler, f"line {lines}"
    assert interrupted == lines - 1 > 40
