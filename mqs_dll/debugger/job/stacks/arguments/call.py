"""The arguments of the MPI call that a thread is in, by the names that the standard gives them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import drgn

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.function_names import Call
from mqs_dll.debugger.job.stacks.arguments.chain import Chain, Computed, Known
from mqs_dll.debugger.job.stacks.arguments.loaded import TIME_BUDGET, LoadedCode
from mqs_dll.debugger.job.stacks.arguments.values import mask, sign
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.job.stacks.constants import constants_of
from mqs_dll.debugger.job.stacks.follow import Step
from mqs_dll.debugger.job.stacks.modules import MappedProcess, Modules
from mqs_dll.job.bindings import Parameter, Role, parameters
from mqs_dll.job.records import Argument, ArgumentEvidence

_OUTER_END = 7 * 8
"""Bytes of a frame that stay as they are: the return address, and the six registers that calls keep."""

_ASKED_FOR = frozenset(
    {Role.SOURCE, Role.DESTINATION, Role.TARGET, Role.TAG, Role.COMMUNICATOR, Role.WINDOW, Role.REQUEST}
)
"""What a verdict asks of a call."""

_ASKED_FOR_OF_REDUCTIONS = _ASKED_FOR | {Role.COUNT, Role.DATATYPE, Role.OPERATION}
"""And of one that has an operation: these have to be the same on all ranks."""


class _Entered(NamedTuple):
    """The C function of the MPI that was entered for a call."""

    wanted: tuple[Parameter, ...]
    functions: frozenset[int]
    """Where it starts, by its two names."""
    wrapper: int | None
    """Where the function of that name starts that isn't the MPI's own, but a profiler's."""
    place: int
    """Of its step."""


class CallArguments:
    """Tells the arguments of calls in one process."""

    def __init__(self, modules: Modules) -> None:
        """Initialize; nothing is read before the first question."""
        self._modules = modules
        self._loaded: LoadedCode | None = None

    def of(self, stack: ThreadStack, steps: Sequence[Step], call: Call) -> tuple[Argument, ...]:
        """Return what is known of the arguments of a call, in their order; nothing on machines other than x86_64.

        Args:
            stack: what was copied of the thread.
            steps: its frames, innermost first.
            call: the MPI function, and the outermost step that may be its own.
        """
        process = self._modules.process
        platform = process.program.platform
        entered = self._entered(steps, call)
        if platform is None or platform.arch != drgn.Architecture.X86_64 or entered is None:
            return ()
        wanted, functions, wrapper, place = entered
        if self._loaded is None:
            self._loaded = LoadedCode(process)
        chain = Chain(steps, stack, self._loaded)
        outer = place + 1
        called = steps[outer].target
        computed = chain.computed(outer, functions, wrapper)
        kept: Known = {}
        if not TIME_BUDGET.is_bounded or _needs_second_evidence(wanted, computed):
            kept = chain.kept(place, called if called in functions else min(functions))
        constants = constants_of(process.image)
        handles = constants.handle_size if constants else 0
        found = [
            _argument(each, each.size(handles), kept.get(number), computed.get(number))
            for number, each in enumerate(wanted)
        ]
        lasts = _lasts(process, stack, steps, place)
        return tuple(argument for argument in found if argument and (lasts or not argument.reread))

    def _entered(self, steps: Sequence[Step], call: Call) -> _Entered | None:
        """Return the C function that was entered; None where there is no such step, or the standard has no such call.

        It may be the one for large counts: a call is named without the "_c".
        """
        image, mpi = self._modules.process.image, self._modules.mpi
        for name in (call.function, f"{call.function}_c"):
            wanted = parameters(name)
            own = image.find_function(name)
            found = {each for each in (own, image.find_function(f"P{name}")) if each is not None}
            functions = frozenset(each for each in found if mpi and self._modules.at(each) == mpi)
            place = self._place(steps, call, name, functions) if wanted and functions else None
            if wanted and place is not None:
                return _Entered(wanted, functions, own if own not in functions else None, place)
        return None

    def _place(self, steps: Sequence[Step], call: Call, name: str, functions: Collection[int]) -> int | None:
        """Return the step of the C function: a Fortran program's call, and one of a profiler's, lie further out."""
        for place in range(call.place, -1, -1):
            if place + 1 < len(steps) and not steps[place + 1].interrupted:
                is_own = steps[place].module == self._modules.mpi and steps[place].symbol in (name, f"P{name}")
                if steps[place + 1].target in functions or is_own:
                    return place
        return None


def _needs_second_evidence(wanted: Sequence[Parameter], computed: Collection[int]) -> bool:
    """Return whether the caller leaves open what a verdict asks for; a root needs two sources."""
    reduces = any(each.role is Role.OPERATION for each in wanted)
    asked_for = _ASKED_FOR_OF_REDUCTIONS if reduces else _ASKED_FOR
    return any(
        each.role is Role.ROOT or (each.role in asked_for and number not in computed)
        for number, each in enumerate(wanted)
    )


def _lasts(process: MappedProcess, stack: ThreadStack, steps: Sequence[Step], place: int) -> bool:
    """Return whether a call's frame still is as it was in the stop: only then was what was read since the same, too."""
    end = steps[place + 1].sp
    start = max(steps[place].sp, end - _OUTER_END)
    copied = stack.fetch(start, end - start)
    try:
        return len(copied) == end - start and process.fetch(start, end - start) == copied
    except TargetReadError:
        return False


def _argument(
    parameter: Parameter, size: int, kept: tuple[int, int] | None, computed: Computed | None
) -> Argument | None:
    """Return an argument that one side knows, or both with the same result."""
    by_callee = kept[0] & mask(size) if kept and 0 < size <= kept[1] else None
    by_caller = computed.number & mask(size) if computed and 0 < size <= computed.size else None
    if by_callee is None and by_caller is None:
        return None
    if by_callee is not None and by_caller is not None:
        if by_callee != by_caller:
            return None
        evidence = ArgumentEvidence.BOTH
    else:
        evidence = ArgumentEvidence.CALLEE if by_caller is None else ArgumentEvidence.CALLER
    value = by_caller if by_callee is None else by_callee
    assert value is not None
    reread = evidence is ArgumentEvidence.CALLER and computed is not None and computed.reread
    is_signed = not parameter.pointers and not parameter.is_handle
    return Argument(parameter.name, sign(value, size) if is_signed else value, evidence, reread)
