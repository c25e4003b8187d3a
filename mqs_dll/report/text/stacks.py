"""The call stacks of one process, innermost function first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import CallStack, Frame
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.report.terminal import indented
from mqs_dll.report.text.call import written


def parts(
    stacks: tuple[CallStack, ...] | Hidden, communicators: Sequence[CommunicatorSnapshot] = ()
) -> Iterator[RenderableType]:
    """Yield a line for each function that a thread is in, or why none can be determined.

    Args:
        stacks: those of one process.
        communicators: its own, whose names stand for their handles.
    """
    if isinstance(stacks, Hidden):
        yield Text(f"call stack: can't be seen: {visible(stacks.reason)}", style="yellow")
        return
    for stack in stacks:
        yield Text(
            f"thread {stack.thread}, {f'in {visible(written(stack, communicators))}' if stack.call else 'outside MPI'}"
        )
        for frame in stack.frames:
            yield indented(Text(visible(_frame(frame))))


def _frame(frame: Frame) -> str:
    where = f" at {frame.file}{'' if frame.line is None else f':{frame.line}'}" if frame.file else ""
    return f"{frame.function or 'a function without a name'} in {frame.module}{where}"
