"""Call stacks of a process from what was captured in a stop, or of a core file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType

import drgn

from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.core.process import CoreProcess
from mqs_dll.debugger.job.one_path import folded, with_python
from mqs_dll.debugger.job.python_reader import PythonStack
from mqs_dll.debugger.job.stacks.arguments import CallArguments
from mqs_dll.debugger.job.stacks.capture import RED_ZONE, Captured, ThreadStack, capture
from mqs_dll.debugger.job.stacks.constants import constants_of
from mqs_dll.debugger.job.stacks.follow import StackTracer, stack_pointer, walk
from mqs_dll.debugger.job.stacks.modules import Modules
from mqs_dll.debugger.job.stacks.pointed import with_elements
from mqs_dll.debugger.job.stacks.python import can_read_python, python_stacks, python_stacks_in_core
from mqs_dll.debugger.job.stacks.thread import UnknownCallError, read_thread
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import read_stat, turns
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.records import CallStack
from mqs_dll.job.snapshot import Hidden

NOT_ASKED = Hidden("the call stacks weren't asked for")
NOT_CAPTURED = Hidden("the process's registers could not be read")
NOT_STOPPED = Hidden("the stack of a running process can't be followed", "leave out --no-stop")

Tracer = Callable[[ThreadStack], drgn.StackTrace]

_TURNS = 3
_LET_GO = 200_000
"""Nanoseconds that a thread which sleeps needs to be let go and sleep again."""
_NO_SIZES: Mapping[int, int] = {}
_PAGE = 4 << 10
_SINGLE, _FUNNELED = 0, 1
"""MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED of Open MPI."""
_MAX_OUTSIDE = 16
"""Places at which threads outside MPI stand that are reported: any one keeps a rank from being proved stuck."""
_CORE_STACK = 1 << 20
"""Bytes of a thread's stack that are read of a core at most."""


def unwind(
    captured: Captured,
    process: LiveProcess,
    tracer: StackTracer | None = None,
    sizes: Mapping[int, int] = _NO_SIZES,
    stop_again: stopped | None = None,
) -> tuple[CallStack, ...] | Hidden:
    """Return where the threads of a process stood: the main thread, others in MPI, and others that might call it.

    Of the last there is one for each place that they stand at, and none where only the main thread may call MPI.

    The process may run meanwhile: of it, only the files of its modules are read, and Python's stacks. These are of the
    same moment, or left out: of a thread that is still in its MPI call, or hasn't run. Where the main thread has gone
    on, the process is stopped again. It may be in the same call then; if no thread was or is in MPI, it is told where
    it stands now.

    Args:
        captured: its threads.
        process: the process itself.
        tracer: made for this process; who unwinds it more than once keeps one.
        sizes: of its intra-communicators, by handle, for arrays that have an element for each process.
        stop_again: stops the process; None not to.
    """
    modules = Modules(process)
    tracer = tracer or StackTracer(process.program, process.fetch)

    def follow(captured: Captured) -> tuple[CallStack, ...] | Hidden:
        return _unwind(captured.threads, captured.pid, modules, tracer.trace, sizes)

    stacks = follow(captured)
    if isinstance(stacks, Hidden) or not modules.has_python:
        return _whole(stacks)
    is_inside = any(stack.call for stack in stacks)
    moment = _Moment(captured, process, stacks)
    if moment.read_python() or stop_again is None:
        return _whole(stacks, moment.python)
    later = moment.stopped_again(stop_again)
    if later is not None and not is_inside:
        again = follow(later)
        if not isinstance(again, Hidden) and not any(stack.call for stack in again):
            return _whole(again, moment.python_later)
    return _whole(stacks, moment.python)


class _Moment:
    """What threads do in Python in the moment in which they were captured, though they may run while that is read."""

    def __init__(self, captured: Captured, process: LiveProcess, stacks: tuple[CallStack, ...]) -> None:
        self._process = process
        self._threads = {each.thread: each for each in captured.threads}
        self._frames = {stack.thread: stack.call_frame for stack in stacks if stack.call_frame}
        self._inside = {stack.thread for stack in stacks if stack.call}
        self.python: Mapping[int, PythonStack] = {}
        """By thread; of one that went on, the state alone, which it has had a little later."""
        self.python_later: Mapping[int, PythonStack] = {}
        """The same of all threads while they stood once more."""

    def read_python(self) -> bool:
        """Read it; return False where the main thread went on, as far as can be seen, or was not found."""
        main = self._process.pid
        gone: set[int] = set()
        found = python_stacks(main, meanwhile=lambda: gone.update(self._out_of_call()))
        stat = read_stat(main)
        if stat is None or stat.started != self._process.started:  # they may be another's, that has its number
            return True
        gone |= self._out_of_call() | {thread for thread in found if not self._slept(thread)}
        self._keep(found, gone)
        return (main in found and main not in gone) or not can_read_python()

    def stopped_again(self, stop_again: stopped) -> Captured | None:
        """Read it while the process stands; threads in MPI may be in the same call. Return its threads as they stand.

        None is returned where it can't be stopped.
        """
        try:
            with stop_again as stop:
                later = capture(self._process, stop.registers(self._process.pid))
                self.python_later = python_stacks(self._process.pid)
                gone = self._out_of_call()
        except MqsError:
            return None
        if self.python_later:
            self._keep(self.python_later, gone | (self.python_later.keys() - self._inside))
        return later

    def _keep(self, found: Mapping[int, PythonStack], gone: AbstractSet[int]) -> None:
        self.python = {
            thread: replace(each, innermost=None, runs=()) if thread in gone else each for thread, each in found.items()
        }

    def _out_of_call(self) -> set[int]:
        """Return the threads that are in another MPI call, or in none, where that can be seen."""
        return {
            thread
            for thread, frame in self._frames.items()
            if self._threads[thread].fetch(*frame) != self._process.part(*frame)
        }

    def _slept(self, thread: int) -> bool:
        """Return whether a thread outside MPI has only been let go."""
        if thread in self._inside:
            return True
        before = self._threads[thread].turns if thread in self._threads else ()
        now = turns(thread, self._process.pid)
        return len(now) == len(before) == _TURNS and now[0] - before[0] < _LET_GO and now[2] - before[2] <= 1


def unwind_core(core: CoreProcess, sizes: Mapping[int, int] = _NO_SIZES) -> tuple[CallStack, ...] | Hidden:
    """Return where the threads of a process stood that left a core file, as unwind."""
    traces = {thread.tid: trace for thread in core.program.threads() if (trace := _trace_in_core(thread))}
    stacks = [_stack_in_core(core, thread, trace) for thread, trace in traces.items()]
    main = core.pid if core.pid in traces else min(traces, default=0)
    stacks.sort(key=lambda stack: (stack.thread != main, stack.thread))
    modules = Modules(core)
    found = _unwind(stacks, main, modules, lambda stack: traces[stack.thread], sizes)
    if not modules.has_python or modules.program_file is None:
        return _whole(found)
    return _whole(found, python_stacks_in_core(core.file.path, modules.program_file))


def _unwind(
    stacks: Iterable[ThreadStack], main: int, modules: Modules, trace: Tracer, sizes: Mapping[int, int]
) -> tuple[CallStack, ...] | Hidden:
    found = []
    arguments = CallArguments(modules)
    constants = constants_of(modules.process.image)
    outside: dict[Hashable, CallStack] = {}
    for stack in stacks:
        is_main = stack.thread == main
        read: CallStack | Hidden | None
        try:
            read = read_thread(stack, walk(trace(stack), modules), modules, arguments.of, is_main=is_main)
        except UnknownCallError as error:
            read = Hidden(str(error))
        except Exception as error:  # drgn's errors for a file that isn't well-formed have no class of their own
            read = Hidden(f"the stack can't be followed: {error}")
        if isinstance(read, Hidden) and not is_main:
            read = CallStack(stack.thread, None, None, None, (), "")
        if isinstance(read, CallStack) and read.call is None and not is_main:
            if len(outside) < _MAX_OUTSIDE:
                outside.setdefault(read.frames, read)
        elif isinstance(read, CallStack):
            if read.arguments and constants and not constants.may_be(read.call or "", read.arguments):
                read = replace(read, arguments=())  # one that can't be leaves nothing to trust in the others
            elif read.arguments and constants:
                named = replace(read, arguments=constants.named(read.call or "", read.arguments))
                read = with_elements(named, stack, modules.process.fetch, constants, sizes)
            found.append(read)
        elif read and is_main:
            return read
    if outside and _only_one_calls(modules):
        outside.clear()
    return (*found, *outside.values()) if found else NOT_CAPTURED


def _only_one_calls(modules: Modules) -> bool:
    """Return whether the program has promised that only one thread calls MPI (MPI 4.1, section 11.2.1).

    Open MPI's library exports the level that it has provided (4.1 and 5.0: ompi/mpi/runtime/mpiruntime.h). MPICH's
    isn't known: there, any thread may call.
    """
    process = modules.process
    address = process.image.find_symbol("ompi_mpi_thread_provided")
    if address is None:
        return False
    try:
        (level,) = struct.unpack("<i", process.fetch(address, 4))
    except MqsError:
        return False
    return level in (_SINGLE, _FUNNELED)


def _whole(
    stacks: tuple[CallStack, ...] | Hidden, threads: Mapping[int, PythonStack] = MappingProxyType({})
) -> tuple[CallStack, ...] | Hidden:
    """Add what threads do in Python, whose frames and counters lie in no stack of the machine's; fold what repeats."""
    if isinstance(stacks, Hidden):
        return stacks
    return tuple(folded(_add_python(stack, threads.get(stack.thread))) for stack in stacks)


def _add_python(stack: CallStack, found: PythonStack | None) -> CallStack:
    if found is None:
        return stack
    fingerprint = f"{stack.fingerprint}-{found.state}" if stack.fingerprint else ""
    return with_python(replace(stack, python=found.innermost, fingerprint=fingerprint), found.runs)


def _trace_in_core(thread: drgn.Thread) -> drgn.StackTrace | None:
    try:
        return thread.stack_trace()
    except Exception:  # as in _walk
        return None


def _stack_in_core(core: CoreProcess, thread: int, trace: drgn.StackTrace) -> ThreadStack:
    """Return as much of a thread's stack as a core has."""
    base = max(stack_pointer(trace[0]) - RED_ZONE, 0)
    memory = bytearray()
    while len(memory) < _CORE_STACK:
        address = base + len(memory)
        try:
            memory += core.fetch(address, _PAGE - address % _PAGE)
        except MqsError:
            break
    return ThreadStack(thread, b"", base, bytes(memory), is_whole=0 < len(memory) < _CORE_STACK)
