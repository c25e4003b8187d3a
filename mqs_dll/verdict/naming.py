"""What verdicts call things: ranks in ranges, communicators, what a process does. All of it printable."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from pathlib import PurePath

from mqs_dll.contract.escape import printable, visible
from mqs_dll.contract.names import is_of_owner
from mqs_dll.job.calls import Blocks, what_ends
from mqs_dll.job.ranges import rank_words
from mqs_dll.job.records import MUTEX, CallStack, JobProcess, Lock, RankState
from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.called import all_stacks_of
from mqs_dll.verdict.needs import Need, OneSided
from mqs_dll.verdict.progress import halt_of
from mqs_dll.verdict.results import WaitKind
from mqs_dll.verdict.states import ProcessWait, State

_STANDARD = "MPI_COMM_"
"""Starts the names that the standard gives to communicators."""

_ONE_WAY = (Blocks.SEND, Blocks.RECEIVE, Blocks.PROBE)
"""Calls of which it is clear whether they wait for a message or for its receiver."""

_STATES = {
    State.IDLE: "perhaps outside MPI",
    State.GONE: "in MPI_Finalize",
}
_MAX_CALLS = 3
_EVALUATES = ("PyEval", "_PyEval", "PyRun", "_PyRun")
_OF_PYTHON = ("_Py", "Py")
_GONE = {RankState.EXITED: "exited", RankState.FINALIZED: "after MPI_Finalize"}


class Names:
    """Names for the processes and communicators of one job."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._processes = analysis.job.processes
        self._worlds = len({process.world for process in self._processes})
        self.communicators = [printable(each.name) for each in analysis.communicators.all]
        """Their names by index, as they are printed."""
        self.descriptions = [printable(each.description) for each in analysis.communicators.all]
        self._unnamed: Counter[str] | None = None
        self._local_ranks: dict[int, dict[int, int]] = {}

    # ------------------------------------------------------------ ranks

    def ranks(self, processes: Iterable[int], communicator: int | None = None) -> str:
        """Return "rank 7" or "ranks [0-3,7]" of MPI_COMM_WORLD, and those of a communicator where they differ."""
        distinct = sorted({*processes})
        text = " and ".join(self._of_worlds(distinct)) or "nobody"
        return text + self._ranks_in(distinct, communicator)

    def _of_worlds(self, processes: list[int]) -> Iterable[str]:
        by_world: defaultdict[int, list[int]] = defaultdict(list)
        for index in processes:
            process = self._processes[index]
            if process.rank is None:
                yield f"process {process.pid}"
            else:
                by_world[process.world].append(process.rank)
        for world, ranks in by_world.items():
            yield rank_words(ranks) + (f" of world {world}" if self._worlds > 1 else "")

    def _ranks_in(self, processes: list[int], communicator: int | None) -> str:
        """Return " (2 of 'rows')" where ranks of a communicator are others than those of MPI_COMM_WORLD."""
        if communicator is None:
            return ""
        known = self._ranks_of(communicator)
        local = [known[process] for process in processes if process in known]
        if len(local) != len(processes) or local == [self._processes[process].rank for process in processes]:
            return ""
        return f" ({rank_words(local).partition(' ')[2]} of {self.communicator(communicator)})"

    def _ranks_of(self, communicator: int) -> dict[int, int]:
        if communicator not in self._local_ranks:
            all_of_them = self._analysis.communicators.all
            remote = all_of_them[communicator].remote
            sides = (communicator,) if remote is None else (remote, communicator)
            self._local_ranks[communicator] = {
                process: rank
                for side in sides
                for rank, process in enumerate(all_of_them[side].members)
                if process is not None
            }
        return self._local_ranks[communicator]

    # ------------------------------------------------------------ communicators

    def communicator(self, index: int | None) -> str:
        """Return MPI_COMM_WORLD, or a name in quotes."""
        if index is None:
            return "a communicator that can't be determined"
        index = self._analysis.communicators.whole(index)
        name = self.communicators[index]
        if name.startswith(_STANDARD):
            return name
        if name:
            return f"'{name}'"
        if is_of_owner(self._analysis.communicators.all[index].description):
            owner = self.descriptions[index]
            return owner if owner.endswith("'") else f"a {owner}"
        return self._unnamed_one(index)

    def _unnamed_one(self, index: int) -> str:
        """Return "an unnamed communicator of 4 [dup of halo]"; with its id where several of the job are called so."""
        if self._unnamed is None:
            unnamed = (each.index for each in self._analysis.communicators.all if not each.name)
            self._unnamed = Counter(map(self._described, unnamed))
        text = self._described(index)
        return (
            text if self._unnamed[text] < 2 else f"{text} (id {self._analysis.communicators.all[index].unique_id:#x})"
        )

    def _described(self, index: int) -> str:
        description = self.descriptions[index] and f" [{self.descriptions[index]}]"
        return f"an unnamed communicator of {self._analysis.communicators.all[index].size}{description}"

    def on(self, communicator: int | None) -> str:
        """Return " on 'halo'"; empty where the communicator isn't known."""
        return "" if communicator is None else f" on {self.communicator(communicator)}"

    # ------------------------------------------------------------ what they do

    def need(self, need: Need) -> str:
        """Return "MPI_Recv from rank 2, tag 7 on 'halo'"."""
        pending = need.pending
        if need.one_sided is not None:
            return self._one_sided(need, need.one_sided)
        if need.kind is WaitKind.COLLECTIVE or pending is None:
            return need.what + self.on(need.communicator)
        return f"{need.what}{self.peer(need)}{self.envelope(need)}"

    def _one_sided(self, need: Need, about: OneSided) -> str:
        """Return "MPI_Win_lock of rank 2 on window 'table', whose lock rank 0 holds"."""
        if need.perhaps:
            on = self.window(about.window)
            return f"{need.what} for a request that is in no queue, perhaps of MPI_Rget or the like on {on}"
        what = need.what if about.target is None else f"{need.what} of {self.ranks([about.target])}"
        peers = [peer for peer in need.peers if peer is not None]
        if about.missing == "MPI_Win_unlock":
            rest = f", {'which' if about.target is None else 'whose lock'} {self.ranks(peers)} "
            if about.target is None:
                rest += "has locks of" if len(peers) == 1 else "have locks of"
            else:
                rest += "holds" if len(peers) == 1 else "hold"
        elif about.missing:
            rest = f", for {about.missing} of {self.ranks(peers)}"
        else:
            rest = ""
        return f"{what} on {self.window(about.window)}{rest}"

    def window(self, index: int) -> str:
        """Return "window 'halo'"."""
        window = self._analysis.waits.windows.all[index]
        return f"window '{printable(window.name)}'" if window.name else f"an unnamed window of {window.size}"

    def peer(self, need: Need) -> str:
        """Return " from rank 2", " to rank 1", " from any source"; empty where it isn't known."""
        pending = need.pending
        if pending is None:
            return ""
        if pending.any_source:
            return f"{self.direction(need)}any source"
        if pending.peer is not None:
            return self.direction(need) + self.ranks([pending.peer], need.communicator)
        return ""

    def direction(self, need: Need) -> str:
        """Return " from ", " to ", or where the call doesn't show which of the two, ", receiving from ".

        Of a call that may wait for another request, ", perhaps receiving from ".
        """
        sends = need.kind is WaitKind.SEND
        if what_ends(need.what) in _ONE_WAY:
            return " to " if sends else " from "
        perhaps = ", perhaps" if need.perhaps else ","
        return f"{perhaps} {'sending to' if sends else 'receiving from'} "

    def envelope(self, need: Need) -> str:
        """Return ", tag 7 on 'halo'"."""
        pending = need.pending
        if pending is None or pending.words.internal:
            return self.on(need.communicator)
        tag = ", any tag" if pending.any_tag else "" if pending.tag is None else f", tag {pending.tag}"
        return tag + self.on(need.communicator)

    def where(self, stack: CallStack | None) -> str:
        """Return the program's file and line, the Python one where there is one; empty where it isn't known."""
        frame = None if stack is None else stack.of_program
        if frame is None or not frame.file:
            return ""
        name = visible(PurePath(frame.file).name)
        owner, _, function = frame.function.rpartition(".")
        deleting = f", in __del__{f' of {visible(owner)}' if owner else ''}" if function == "__del__" else ""
        return (name if frame.line is None else f"{name}:{frame.line}") + deleting

    def does(self, index: int) -> str:
        """Return what a process does: "in MPI_Recv from rank 2, tag 7 on 'halo'", "outside MPI", "exited"."""
        wait = self._analysis.waits.of_process[index]
        process = self._processes[index]
        if wait.state is State.GONE:
            return _GONE.get(process.state, "in MPI_Finalize")
        if wait.state is State.NOT_READ:
            return self._starting(process) if process.state is RankState.NOT_INITIALIZED else "not read"
        if wait.state is State.STOPPED:
            return f"{self.halt([index])} {self._inside(index)}".rstrip()
        return self._inside(index)

    @staticmethod
    def _starting(process: JobProcess) -> str:
        inside = process.starts[-1].inside if process.starts else None
        return "before MPI_Init" if inside is None else f"in {inside.call}"

    def _inside(self, process: int) -> str:
        """Return where a process is that was read: in which call, or outside MPI and in which function."""
        wait = self._analysis.waits.of_process[process]
        if not wait.threads:
            if wait.state is State.STOPPED and wait.stack is None:
                return ""
            if wait.stack is not None and wait.stack.callback is not None:
                what = visible(wait.stack.callback.function) or "a function of the program's"
                return f"in {what}, inside {wait.stack.call}"
            if wait.stack is not None and wait.call is None:
                return f"outside MPI{in_function(wait.stack)}"
            return _STATES.get(wait.state) or f"in {wait.call}"
        thread = wait.threads[0]
        others = len(thread.needs) - 1
        telling = self._telling(process, thread.needs)
        text = self.need(telling)
        if telling.number is not None and thread.call is not None:
            text = f"{thread.call} for {text}"
        more = f" and {others} more" if others and not self._same_collective(thread.needs) else ""
        return f"in {text}{more}{_other_threads(wait)}"

    def halt(self, processes: Collection[int]) -> str:
        """Return what keeps processes from running: "stopped by SIGSTOP", "held by gdb (PID 12)"."""
        halts = {halt_of(self._processes[process]) for process in processes}
        if all(halt is not None and halt.frozen for halt in halts):
            return f"frozen by {'its cgroup' if len({*processes}) == 1 else 'their cgroup'}"
        halt = halts.pop() if len(halts) == 1 else None
        if halt is not None and halt.tracer:
            return f"held by {visible(halt.debugger)} (PID {halt.tracer})"
        return f"stopped by {halt.signal or 'a signal'}" if halt is not None else "stopped"

    def lock(self, process: int) -> str:
        """Return "; it waits for a file lock that rank 2 holds", or "" where a process is not seen to wait for one."""
        stack = self._analysis.waits.of_process[process].stack
        return "" if stack is None else self.lock_of(process, stack)

    def lock_of(self, process: int, stack: CallStack) -> str:
        """Return the same of one thread of a process."""
        if stack.lock is None:
            return ""
        return f"; it waits for a {stack.lock.kind} that {self._holder(process, stack, stack.lock)}"

    def _holder(self, index: int, stack: CallStack, lock: Lock) -> str:
        process = self._processes[index]
        if lock.kind == MUTEX:
            if lock.thread == stack.thread:
                return "it holds itself"
            found = (each for each in all_stacks_of(process) if each.thread == lock.thread)
            other = next(found, None)
            if other is None:
                return "another of its threads holds"
            what = f"in {other.call}" if other.call else f"outside MPI{in_function(other)}"
            where = self.where(other)
            return f"another of its threads holds, which is {what}{where and f' at {where}'}"
        ranks = [
            number
            for number, each in enumerate(self._processes)
            if (each.pid, each.host) == (lock.pid, process.host) and each.rank is not None
        ]
        return f"{self.ranks(ranks) if ranks else f'process {lock.pid} ({visible(lock.name)})'} holds"

    def _telling(self, process: int, needs: list[Need]) -> Need:
        """Return the most informative need: one that can't be met."""
        unmet = {*self._analysis.unmet(process)}
        return next((need for need in needs if need in unmet), needs[0])

    @staticmethod
    def _same_collective(needs: list[Need]) -> bool:
        return all(need.kind is WaitKind.COLLECTIVE for need in needs)

    def do(self, processes: Collection[int], most: int = 3) -> str:
        """Return what several processes do, in a few words: "in MPI_Recv or MPI_Wait, or outside MPI"."""
        if len(processes) == 1:
            return self.does(next(iter(processes))) + self.at(processes)
        counts = Counter(self._short(process) for process in processes)
        texts = [text for text, _ in counts.most_common(most)]
        rest = len(counts) - len(texts)
        if rest:
            texts.append(f"{rest} other{'s' if rest > 1 else ''}")
        inside = [text for text in texts if text.startswith("MPI_")]
        outside = [text for text in texts if not text.startswith("MPI_")]
        parts = ([f"in {' or '.join(inside)}"] if inside else []) + outside
        return ", or ".join(parts) + self.at(processes)

    def _short(self, process: int) -> str:
        wait = self._analysis.waits.of_process[process]
        if wait.state is State.STOPPED:
            return self.halt([process])
        if wait.threads:
            return wait.call or wait.threads[0].needs[0].what
        text = self.does(process)
        return text.removeprefix("in ")

    def at(self, processes: Collection[int]) -> str:
        """Return " at solver.c:42" where all processes are there."""
        found = {self.where(self._analysis.waits.of_process[process].stack) for process in processes}
        line = found.pop() if len(found) == 1 else ""
        return f" at {line}" if line else ""


def _other_threads(wait: ProcessWait) -> str:
    """Return " (another thread in MPI_Send)", of a process several threads of which wait in MPI; else nothing."""
    others = [thread.call for thread in wait.threads[1:] if thread.call is not None]
    listed = ", ".join([*dict.fromkeys(others)][:_MAX_CALLS])
    return listed and f" ({'another thread' if len(others) == 1 else 'other threads'} in {listed})"


def ends_python(stack: CallStack | None) -> bool:
    """Return whether a thread is where a Python interpreter ends: its main function has come back from the program.

    Py_RunMain calls Py_FinalizeEx then, mostly by a jump (Modules/main.c of CPython 3.11); so after an exception, too.
    """
    functions = [] if stack is None else [frame.function for frame in stack.frames]
    return "Py_RunMain" in functions and not any(each.startswith(_EVALUATES) for each in functions)


def in_function(stack: CallStack) -> str:
    """Return " in read": the innermost function with a name that a thread outside MPI is in; empty where none has one.

    A Python program's functions in C are named where they have a name; its interpreter's say nothing.
    """
    for frame in stack.frames:
        if stack.python is not None and frame.function.startswith(_OF_PYTHON):
            break
        if frame.function:
            return f" in {visible(frame.function)}"
        if frame == stack.caller:
            return ""
    return f" in {visible(stack.python.function)}" if stack.python is not None and stack.python.function else ""
