"""Where all ranks of a job are: the paths of calls from main inwards, merged into one tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
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
    LEFT_OUT = "left out"
    """Functions in the middle of a path that is longer than MAX_DEPTH."""


class Place(NamedTuple):
    """What ranks have in common: a function and the line that it was called from."""

    kind: PlaceKind
    function: str
    """Empty where no symbol is known, and where the kind isn't FUNCTION or MPI_CALL."""
    module: str
    address: int
    """Of a function without a name: where its code lies in the module's file; else 0."""
    file: str | None
    """Where it was called: the file of the function that called it. None where that isn't known."""
    line: int | None
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

    place: Place
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
    all_frames: bool
    """Whether it has the functions inside of MPI calls and of the interpreter, too."""

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
        all_frames=all_frames,
    )


# ---------------------------------------------------------------- one path

_Path = tuple[tuple[Place, int], ...]
"""Places from main inwards, and how often each stands in a row."""


def _path(stack: CallStack, *, is_main: bool, all_frames: bool) -> _Path:
    shown = [place for place in range(len(stack.frames)) if all_frames or not _is_folded(stack, place)]
    if not all_frames:
        shown = _without_starts(stack, shown)
    times = {at: turns for start, length, turns in stack.repeats for at in range(start, start + length)}
    found: list[tuple[Place, int]] = []
    if stack.complete is False:
        found.append((Place(PlaceKind.CUT, "", "", 0, None, None), 1))
    for outer, place in pairwise([None, *reversed(shown)]):
        assert place is not None
        caller = None if outer is None else stack.frames[outer]
        found.append((_place(stack, place, caller), times.get(place, 1)))
    if not found and stack.call:  # older files don't have which frames are the call's
        found.append((Place(PlaceKind.MPI_CALL, stack.call, "", 0, None, None), 1))
    innermost = stack.frames[shown[0]] if shown else None
    if innermost and innermost.line is not None and found[-1][0].kind is PlaceKind.FUNCTION:
        line = Place(PlaceKind.LINE, "", innermost.module, 0, innermost.file, innermost.line, innermost.language)
        found.append((line, 1))
    if len(found) > MAX_DEPTH:
        half = MAX_DEPTH // 2
        found[half:-half] = [(Place(PlaceKind.LEFT_OUT, "", "", 0, None, None), 1)]
    if found and not is_main:
        found[0] = (found[0][0]._replace(is_thread=True), found[0][1])
    return tuple(found)


def _place(stack: CallStack, place: int, caller: Frame | None) -> Place:
    frame = stack.frames[place]
    file, line = (caller.file, caller.line) if caller else (None, None)
    if stack.call and place == stack.in_call - 1:
        return Place(PlaceKind.MPI_CALL, stack.call, "", 0, file, line)
    function = frame.function or ("main" if _is_main(stack, place) else "")
    address = 0 if function else frame.address
    return Place(PlaceKind.FUNCTION, function, frame.module, address, file, line, frame.language)


def _is_folded(stack: CallStack, place: int) -> bool:
    """Return whether a frame says little: the MPI's insides, the interpreter's, and what C library functions call."""
    frame = stack.frames[place]
    if place == stack.in_call - 1:
        return False
    if place < stack.in_call:
        return stack.callback is None or frame.module != stack.callback.module or frame.owner is CodeOwner.MPI
    if frame.owner is CodeOwner.PYTHON:
        return True
    is_inner = stack.in_call == 0 and all(each.owner is CodeOwner.RUNTIME for each in stack.frames[: place + 2])
    return is_inner and place + 1 < len(stack.frames)


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
    outer = stack.frames[place + 1 :]
    is_first = stack.frames[place].owner is CodeOwner.PROGRAM and bool(outer) and outer[0].owner is CodeOwner.RUNTIME
    return is_first and any(frame.function == "__libc_start_main" for frame in outer)


# ---------------------------------------------------------------- all of them


@dataclass
class _Growing:
    """A node while paths are added."""

    children: dict[Place, _Growing] = field(default_factory=dict)
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
