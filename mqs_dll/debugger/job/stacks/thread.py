"""One thread's stack as a record: the MPI call, its caller, and what shows whether the program progressed."""

from __future__ import annotations

import hashlib
import platform
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from mqs_dll.debugger.job import function_names
from mqs_dll.debugger.job.demangle import demangled
from mqs_dll.debugger.job.function_names import Call, standard_names
from mqs_dll.debugger.job.stacks.capture import RED_ZONE, ThreadStack, without_signature
from mqs_dll.debugger.job.stacks.follow import Step, Walk
from mqs_dll.debugger.job.stacks.lines import SourceLine, lines_at
from mqs_dll.debugger.job.stacks.modules import Modules, base_name
from mqs_dll.debugger.live import ranges_of
from mqs_dll.job.records import Argument, CallStack, CodeOwner, Frame

_FINGERPRINTED = 256 << 10
"""Bytes of the program's own part of a stack that its fingerprint covers at most."""
_OF_PROGRAM = (CodeOwner.PROGRAM, CodeOwner.PYTHON)
_SAVED = 7 * 8
"""Bytes at the outer end of a frame of x86_64: the return address, and the six registers that calls keep."""


class UnknownCallError(Exception):
    """It can't be determined whether a thread is inside MPI; the text is a sentence."""


ArgumentsOf = Callable[[ThreadStack, Sequence[Step], Call], tuple[Argument, ...]]
"""Tells the arguments of a call."""


def read_thread(
    stack: ThreadStack, walked: Walk, modules: Modules, arguments_of: ArgumentsOf | None = None, *, is_main: bool
) -> CallStack | None:
    """Return where a thread stands; None for one that never calls MPI: of the MPI itself, or in a library's pool.

    Args:
        stack: what was copied of it.
        walked: its frames.
        modules: whose code they run.
        arguments_of: returns what the MPI function was called with; without it that stays unknown.
        is_main: whether it is the main thread.

    Another thread whose stack doesn't show it is reported without a call: it may do anything.

    Raises:
        UnknownCallError: the main thread's stack ends, as far as it could be followed, before an answer.
    """
    steps = walked.steps
    call = find_call(steps, modules)
    outer = steps[call.place + 1 :] if call else steps
    if not is_main and (call is None or not _is_of_program(outer, modules)):
        if walked.complete and all(step.module and modules.calls_nothing(step.module) for step in steps):
            return None
        call, outer = None, steps
    if call is None and is_main:
        _check_outside(stack, walked, modules)
    caller = find_caller(outer, modules)
    callback = _callback(steps[: call.place], modules) if call else None
    own = outer[0 if call else caller or 0 :]
    frames = _frames(steps, modules)
    return CallStack(
        thread=stack.thread,
        call=call.function if call else None,
        caller=next(frames_of(outer[caller], modules)) if caller is not None else None,
        python=None,
        frames=tuple(chain.from_iterable(frames)),
        fingerprint=_fingerprint(stack, walked, own if callback is None else steps[callback:], is_main=is_main),
        call_frame=_frame_of(steps, call.place) if call else None,
        arguments=arguments_of(stack, steps, call) if arguments_of and call else (),
        callback=None if callback is None else next(frames_of(steps[callback], modules)),
        in_call=sum(map(len, frames[: call.place + 1])) if call else 0,
        complete=walked.complete,
    )


def mpi_function(symbol: str, modules: Modules) -> str | None:
    """Return the name of the MPI function that a symbol stands for, as the standard spells it; None for any other.

    The MPI itself has to define it: a user's own MPI_Exchange is none.
    """
    return next((name for name in standard_names(symbol) if modules.has_mpi_function(name)), None)


def find_call(steps: Sequence[Step], modules: Modules) -> Call | None:
    """Return the MPI function that the program called (function_names.find_call); None where no step shows one."""

    def frames() -> Iterator[tuple[str | None, bool]]:
        for step, outer in zip(steps, (*steps[1:], None), strict=True):
            called = outer.called if outer else ""
            name = mpi_function(called, modules) or mpi_function(step.symbol, modules)
            yield name, step.module is not None and modules.owner(step.module) is CodeOwner.MPI

    return function_names.find_call(frames())


def find_caller(steps: Sequence[Step], modules: Modules) -> int | None:
    """Return the place of the program's own innermost step; None where there is none.

    The first with a line of source; else the first in the program's own file; else the first in a library of its.
    """
    own = [place for place, step in enumerate(steps) if step.module and modules.owner(step.module) is CodeOwner.PROGRAM]
    with_line = (place for place in own if _lines(steps[place], modules))
    in_main = (place for place in own if modules.is_main(steps[place].module))
    return next(with_line, next(in_main, next(iter(own), None)))


def frames_of(step: Step, modules: Modules) -> Iterator[Frame]:
    """Yield the functions of a step, those that were put into it first."""
    name = base_name(step.module) if step.module else ""
    owner = modules.owner(step.module) if step.module else CodeOwner.PROGRAM
    lines = _lines(step, modules) if owner is CodeOwner.PROGRAM else ()
    for line in lines[:-1]:
        yield Frame(line.function, name, line.file, line.line, owner=owner)
    symbol = step.symbol.partition(".")[0] or step.symbol  # compilers append what they made of it: ".part.0"
    function = demangled(symbol)  # unlike the name in debug information it has namespace, class and module
    if not lines:
        bias = step.module.loaded_file_bias if step.module and not function else None
        yield Frame(function, name, None, None, owner=owner, address=0 if bias is None else step.pc - bias)
        return
    if function == symbol:
        function = lines[-1].function or symbol
    yield Frame(function, name, lines[-1].file, lines[-1].line, owner=owner)


def _frames(steps: Sequence[Step], modules: Modules) -> list[tuple[Frame, ...]]:
    """Return the functions of each step; where a function calls itself, steps have them in common."""
    made: dict[tuple[int, str], tuple[Frame, ...]] = {}
    found = []
    for step in steps:
        place = step.pc, step.symbol
        if place not in made:
            made[place] = tuple(frames_of(step, modules))
        found.append(made[place])
    return found


def _lines(step: Step, modules: Modules) -> tuple[SourceLine, ...]:
    return lines_at(step.module, step.pc, modules.file_of(step.module)) if step.module else ()


def _callback(inner: Sequence[Step], modules: Modules) -> int | None:
    """Return the place of the program's innermost step inside of an MPI call; None where there is none.

    A library of the program's can't be distinguished from one that the MPI stands on: only the program's own file
    counts, and Python.
    """
    if modules.mpi is None or modules.is_main(modules.mpi):
        return None
    own = (
        place
        for place, step in enumerate(inner)
        if step.module and (modules.is_main(step.module) or modules.owner(step.module) is CodeOwner.PYTHON)
    )
    return next(own, None)


def _is_of_program(callers: Sequence[Step], modules: Modules) -> bool:
    """Return whether an MPI function's callers are the program's, not the first function of a thread of the MPI's."""
    return any(step.module is None or modules.owner(step.module) in _OF_PROGRAM for step in callers)


def _check_outside(stack: ThreadStack, walked: Walk, modules: Modules) -> None:
    """Make sure that a thread without a step in an MPI function is in none."""
    if modules.mpi is None:
        raise UnknownCallError("the MPI's functions have no symbols: the stack doesn't show which of them was called")
    for step in walked.steps:
        if step.module and modules.owner(step.module) is CodeOwner.MPI:
            raise UnknownCallError(f"it is inside {base_name(step.module)}, but the stack doesn't show by which call")
    if walked.complete or not _may_be_inside(stack, walked, modules):
        return
    last = walked.steps[-1].module if walked.steps else None
    where = f" past {base_name(last)}" if last else ""
    raise UnknownCallError(f"the stack can't be followed{where}, and there may be an MPI function further out")


def _may_be_inside(stack: ThreadStack, walked: Walk, modules: Modules) -> bool:
    """Return whether any word of a stack, or a register, may be a return address into the MPI."""
    if modules.mpi is None or modules.is_main(modules.mpi) or not stack.is_whole or not walked.steps:
        return True
    words = [*struct.unpack_from(f"<{len(stack.memory) // 8}Q", stack.memory), *walked.steps[0].registers.values()]
    ranges = ranges_of(modules.mpi)
    return any(start <= word < end for word in map(without_signature, words) for start, end in ranges)


def _frame_of(steps: Sequence[Step], place: int) -> tuple[int, int] | None:
    """Return address and size of the part of a step's frame that stays as it is; None where its end isn't known."""
    if place + 1 >= len(steps) or platform.machine() != "x86_64":
        return None
    end = steps[place + 1].sp
    low = max(steps[place].sp, end - _SAVED)
    return (low, end - low) if low < end else None


def _fingerprint(stack: ThreadStack, walked: Walk, outer: Sequence[Step], *, is_main: bool) -> str:
    """Return a hash of some outer steps' part of a thread's stack, and of the registers of the innermost of them."""
    if not outer:
        return ""
    low = outer[0].sp - (RED_ZONE if outer[0].interrupted else 0)
    whole = stack.base + len(stack.memory)
    end = whole if is_main and not walked.complete else outer[-1].sp
    memory = stack.fetch(low, min(max(end - low, 0), _FINGERPRINTED))
    registers = sorted(outer[0].registers.items())
    return hashlib.blake2b(repr((outer[0].pc, registers)).encode() + memory, digest_size=16).hexdigest()
