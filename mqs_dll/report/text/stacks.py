"""The call stacks of one process, innermost function first, and MPI calls with their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from mqs_dll.contract.escape import printable, visible
from mqs_dll.job.bindings import Parameter, Role, parameters
from mqs_dll.job.records import Argument, CallStack, Frame, Repeat
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.report.terminal import indented

_BY_NAME_ALONE = frozenset({Role.DATATYPE, Role.OPERATION, Role.STATUS})
"""What these are is clear from what the MPI calls them."""

_UNKNOWN = "?"


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
        times = {repeat.start: repeat for repeat in stack.repeats}
        for place, frame in enumerate(stack.frames):
            yield indented(Text(f"{visible(_frame(frame))}{_times(times.get(place))}"))
        if stack.complete is False:
            yield indented(Text("the stack can't be followed further out", style="yellow"))


def written(stack: CallStack, communicators: Sequence[CommunicatorSnapshot] = ()) -> str:
    """Return "MPI_Recv(buf=0x7f10, count=8, MPI_DOUBLE, source=1, tag=10, comm='halo', MPI_STATUS_IGNORE)".

    What isn't known is a question mark; of a function that isn't in the standard it is the name alone.
    """
    call = stack.call or ""
    known = parameters(call)
    if known is None or not stack.arguments:
        return call
    names = {each.handle: printable(each.label.name) for each in communicators if each.label.name}
    return f"{call}({', '.join(_written(each, stack.argument(each.name), names) for each in known)})"


def _written(parameter: Parameter, argument: Argument | None, names: Mapping[int, str]) -> str:
    if argument is None:
        return f"{parameter.name}={_UNKNOWN}"
    if argument.called:
        is_clear = parameter.role in _BY_NAME_ALONE and argument.called.startswith("MPI_")
        return argument.called if is_clear else f"{parameter.name}={argument.called}"
    if parameter.role is Role.COMMUNICATOR and not parameter.pointers and argument.value in names:
        return f"{parameter.name}='{names[argument.value]}'"
    is_number = not parameter.pointers and not parameter.is_handle
    value = str(argument.value) if is_number else f"{argument.value:#x}"
    form = "#x" if parameter.role is Role.REQUEST else "d"
    elements = f" [{', '.join(format(each, form) for each in argument.elements)}]" if argument.elements else ""
    return f"{parameter.name}={value}{elements}"


def _frame(frame: Frame) -> str:
    where = f" at {frame.file}{'' if frame.line is None else f':{frame.line}'}" if frame.file else ""
    module = f"{frame.module}+{frame.address:#x}" if frame.address else frame.module
    return f"{frame.function or 'a function without a name'} in {module}{where}"


def _times(repeat: Repeat | None) -> str:
    if repeat is None:
        return ""
    return f" ({repeat.times} times{f', with the {repeat.length - 1} below' if repeat.length > 1 else ''})"
