"""Where all ranks of a job are: the paths of calls from main inwards, merged into one tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from mqs_dll.job.records import CallStack, CodeOwner, Frame, Job, Language, Sample, Start
from mqs_dll.job.shared import grouped
from mqs_dll.job.snapshot import Hidden

MAX_DEPTH = 200
"""Places of one path; of a longer one the middle is left out."""

_STARTS = frozenset(
    {"_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone", "clone3", "thread_start"}
)
"""What comes before main and before a thread's function, in the C library or in a program that has it inside."""


class PlaceKind(Enum):
    """What a place in a tree stands for."""

    FUNCTION = "function"
    MPI_CALL = "MPI call"
    LINE = "line"
    """The line that a function is at which calls nothing that is shown."""
    CUT = "cut"
    """Further out the stack could not be followed."""
    PYTHON = "Python"
    """Functions of Python that could not be read, or were read when they had gone on."""
    LEFT_OUT = "left out"
    """Functions in the middle of a path that is longer than MAX_DEPTH."""


class CallPlace(NamedTuple):
    """What ranks have in common: a function and the line that it was called from."""

    kind: PlaceKind
    function: str = ""
    """Empty where no symbol is known, and where the kind isn't FUNCTION or MPI_CALL."""
    module: str = ""
    address: int = 0
    """Of a function without a name: where its code lies in the module's file; else 0."""
    file: str | None = None
    """Where it was called: the file of the function that called it. None where that isn't known."""
    line: int | None = None
    language: Language = Language.NATIVE
    is_thread: bool = False
    """Whether it starts the path of a thread other than the main thread."""


class Members(NamedTuple):
    """Ranks that were at a place equally often."""

    seen: int
    """In how many samples."""
    samples: int
    """Of how many."""
    processes: tuple[int, ...]
    """As indices into Job.processes, ascending."""

    @property
    def always(self) -> bool:
        """Whether they were there in every sample."""
        return self.seen == self.samples


@dataclass(frozen=True)
class CallNode:
    """A place, who was there, and where these went on."""

    place: CallPlace
    members: tuple[Members, ...]
    """Those that were there in every sample first."""
    times: tuple[int, int]
    """How often in a row it stands on a stack that has it: the least and the most; (1, 1) without recursion."""
    children: tuple[CallNode, ...]
    """Those with the most ranks first."""

    @property
    def processes(self) -> tuple[int, ...]:
        """All who were there, as indices into Job.processes, ascending."""
        return tuple(sorted(each for group in self.members for each in group.processes))


class Unseen(NamedTuple):
    """Ranks whose stacks could not be followed in any sample."""

    reason: str
    processes: tuple[int, ...]


@dataclass(frozen=True)
class CallTree:
    """All paths of a job."""

    roots: tuple[CallNode, ...]
    samples: int
    """How many there were, of the rank that has most."""
    unseen: tuple[Unseen, ...]

    def walk(self) -> Iterator[tuple[int, CallNode]]:
        """Yield (depth, node) of all nodes, each before its children."""
        left = [(0, node) for node in reversed(self.roots)]
        while left:
            depth, node = left.pop()
            yield depth, node
            left += [(depth + 1, child) for child in reversed(node.children)]


def call_tree(job: Job, *, all_frames: bool = False) -> CallTree:
    """Return where the threads of all ranks are, in all samples of a job.

    Args:
        job: what was read; one without call stacks has no roots.
        all_frames: whether functions inside of MPI calls, of the C library and of Python's interpreter are places, too.
    """
    top = _Growing()
    paths: dict[tuple[object, ...], _Path] = {}
    seen: Counter[int] = Counter()
    unseen: dict[int, str] = {}
    for index, process in enumerate(job.processes):
        taken: Sequence[Sample | Start] = process.samples or process.starts
        for number, sample in enumerate(taken):
            if isinstance(sample.stacks, Hidden):
                unseen[index] = sample.stacks.reason
                continue
            seen[index] += 1
            for place, stack in enumerate(sample.stacks):
                key = (*map(id, stack.frames), stack.call, stack.in_call, stack.complete, stack.repeats, place > 0)
                if key not in paths:
                    paths[key] = _path(stack, is_main=place == 0, all_frames=all_frames)
                top.add(paths[key], index, number)
    hidden = grouped((reason, index) for index, reason in unseen.items() if index not in seen)
    return CallTree(
        roots=top.frozen(seen),
        samples=max(seen.values(), default=0),
        unseen=tuple(Unseen(reason, tuple(processes)) for reason, processes in hidden.items()),
    )


# ---------------------------------------------------------------- one path

_Path = tuple[tuple[CallPlace, int], ...]
"""Places from main inwards, and how often each stands in a row."""


def _path(stack: CallStack, *, is_main: bool, all_frames: bool) -> _Path:
    shown = range(len(stack.frames)) if all_frames else _without_starts(stack, _telling(stack))
    times = {at: turns for start, length, turns in stack.repeats for at in range(start, start + length)}
    found: list[tuple[CallPlace, int]] = []
    if stack.complete is False:
        found.append((CallPlace(PlaceKind.CUT), 1))
    caller = None
    outer = len(stack.frames)
    for place in reversed(shown):
        if any(frame.runs_python for frame in stack.frames[place + 1 : outer]):
            found.append((CallPlace(PlaceKind.PYTHON, language=Language.PYTHON), 1))
        outer = place
        found.append((_place(stack, place, caller), times.get(place, 1)))
        caller = stack.frames[place]
    if not found and stack.call:  # older files don't have which frames are the call's
        found.append((CallPlace(PlaceKind.MPI_CALL, stack.call), 1))
    innermost = stack.frames[shown[0]] if shown else None
    if innermost and innermost.line is not None and found[-1][0].kind is PlaceKind.FUNCTION:
        line = CallPlace(PlaceKind.LINE, "", innermost.module, 0, innermost.file, innermost.line, innermost.language)
        found.append((line, 1))
    if len(found) > MAX_DEPTH:
        half = MAX_DEPTH // 2
        found[half:-half] = [(CallPlace(PlaceKind.LEFT_OUT), 1)]
    if found and not is_main:
        found[0] = (found[0][0]._replace(is_thread=True), found[0][1])
    return tuple(found)


def _place(stack: CallStack, place: int, caller: Frame | None) -> CallPlace:
    frame = stack.frames[place]
    file, line = (caller.file, caller.line) if caller else (None, None)
    if stack.call and place == stack.in_call - 1:
        return CallPlace(PlaceKind.MPI_CALL, stack.call, file=file, line=line)
    function = frame.function or ("main" if _is_main(stack, place) else "")
    address = 0 if function else frame.address
    return CallPlace(PlaceKind.FUNCTION, function, frame.module, address, file, line, frame.language)


def _telling(stack: CallStack) -> list[int]:
    """Return frames without the MPI's insides, the interpreter's, and what functions of the C library call."""
    inside = range(stack.in_call - 1) if stack.callback else ()
    called_back = [place for place in inside if _is_of_callback(stack, stack.frames[place])]
    start = max(stack.in_call - 1, 0)
    if not stack.in_call:  # of the C library's at the inner end, the one that the program calls
        inner = takewhile(lambda frame: frame.owner is CodeOwner.RUNTIME, stack.frames)
        start = max(sum(1 for _ in inner) - 1, 0)
    outside = (at for at in range(start, len(stack.frames)) if stack.frames[at].owner is not CodeOwner.PYTHON)
    return [*called_back, *outside]


def _is_of_callback(stack: CallStack, frame: Frame) -> bool:
    return stack.callback is not None and frame.module == stack.callback.module and frame.owner is not CodeOwner.MPI


def _without_starts(stack: CallStack, shown: Sequence[int]) -> list[int]:
    """Return frames without those from before main, or before the function of a thread."""
    left = list(shown)
    if len(left) > 1 and stack.frames[left[-2]].owner is CodeOwner.RUNTIME and not stack.frames[left[-1]].function:
        left.pop()  # _start of a program without symbols
    while len(left) > 1 and _is_start(stack.frames[left[-1]]):
        left.pop()
    return left


def _is_start(frame: Frame) -> bool:
    return frame.owner is CodeOwner.RUNTIME or frame.function in _STARTS


def _is_main(stack: CallStack, place: int) -> bool:
    """Return whether a function without a name is main: the C library has called it, and nothing else it."""
    outer = (stack.frames[at] for at in range(place + 1, len(stack.frames)))
    starts = takewhile(lambda frame: frame.owner is CodeOwner.RUNTIME, outer)
    is_own = stack.frames[place].owner is CodeOwner.PROGRAM
    return is_own and any(frame.function == "__libc_start_main" for frame in starts)


# ---------------------------------------------------------------- all of them


@dataclass
class _Growing:
    """A node while paths are added."""

    children: dict[CallPlace, _Growing] = field(default_factory=dict)
    samples: dict[int, int] = field(default_factory=dict)
    """Of each process that was there a number with a bit for each sample."""
    least: int = 0
    most: int = 0

    def add(self, path: _Path, process: int, sample: int) -> None:
        """Add a path of a process in a sample."""
        node = self
        for place, times in path:
            node = node.children.setdefault(place, _Growing())
            node.samples[process] = node.samples.get(process, 0) | 1 << sample
            node.least = min(node.least or times, times)
            node.most = max(node.most, times)

    def frozen(self, seen: Counter[int]) -> tuple[CallNode, ...]:
        """Return the children as nodes."""
        found = [
            CallNode(place, _members(each.samples, seen), (each.least, each.most), each.frozen(seen))
            for place, each in self.children.items()
        ]
        return tuple(
            sorted(found, key=lambda node: (node.place.is_thread, -sum(len(each[2]) for each in node.members)))
        )


def _members(samples: dict[int, int], seen: Counter[int]) -> tuple[Members, ...]:
    together = grouped(((there.bit_count(), seen[process]), process) for process, there in samples.items())
    found = [Members(count, total, tuple(sorted(processes))) for (count, total), processes in together.items()]
    return tuple(sorted(found, key=lambda each: (not each.always, -len(each.processes))))
