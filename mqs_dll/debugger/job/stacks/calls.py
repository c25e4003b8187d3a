"""Which MPI function a thread is in, and where the program called it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqs_dll.debugger.job import function_names
from mqs_dll.debugger.job.function_names import Call, standard_names
from mqs_dll.debugger.job.stacks.follow import Step
from mqs_dll.debugger.job.stacks.lines import SourceLine, lines_at
from mqs_dll.debugger.job.stacks.modules import CodeOwner, Modules, base_name
from mqs_dll.job.records import Frame


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
    with_line = (place for place in own if _lines(steps[place]))
    in_main = (place for place in own if modules.is_main(steps[place].module))
    return next(with_line, next(in_main, next(iter(own), None)))


def frames_of(step: Step, modules: Modules) -> Iterator[Frame]:
    """Yield the functions of a step, those that were put into it first."""
    name = base_name(step.module) if step.module else ""
    function = step.symbol.partition(".")[0] or step.symbol  # compilers append what they made of it: ".part.0"
    lines = _lines(step) if step.module and modules.owner(step.module) is CodeOwner.PROGRAM else ()
    for line in lines:
        yield Frame(line.function or function, name, line.file, line.line)
    if not lines:
        yield Frame(function, name, None, None)


def _lines(step: Step) -> tuple[SourceLine, ...]:
    return lines_at(step.module, step.pc) if step.module else ()
