"""The call stacks of one process, innermost function first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from mqs_dll.debugger.job.records import CallStack, Frame
from mqs_dll.debugger.snapshot import Hidden
from mqs_dll.escape import visible
from mqs_dll.report.terminal import indented


def parts(stacks: tuple[CallStack, ...] | Hidden) -> Iterator[RenderableType]:
    """Yield a line for each function that a thread is in, or why none can be told."""
    if isinstance(stacks, Hidden):
        yield Text(f"call stack: can't be seen: {visible(stacks.reason)}", style="yellow")
        return
    for stack in stacks:
        yield Text(f"thread {stack.thread}, {f'in {visible(stack.call)}' if stack.call else 'outside MPI'}")
        for frame in stack.frames:
            yield indented(Text(visible(_frame(frame))))


def _frame(frame: Frame) -> str:
    where = f" at {frame.file}{'' if frame.line is None else f':{frame.line}'}" if frame.file else ""
    return f"{frame.function or 'a function without a name'} in {frame.module}{where}"
