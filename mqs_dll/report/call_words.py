"""What a call tree says of its places and of who was there: words that all of its reports share."""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.contract.escape import visible
from mqs_dll.job.call_tree import CallNode, CallPlace, CallTree, Members, PlaceKind
from mqs_dll.job.records import Job
from mqs_dll.report.names import titled


def named(place: CallPlace) -> str:
    """Return what a place is called: "solve", "MPI_Recv", "solver+0x11d3" for a function without a name."""
    thread = "thread: " if place.is_thread else ""
    if place.kind is PlaceKind.CUT:
        return f"{thread}(the stack can't be followed further out)"
    if place.kind is PlaceKind.PYTHON:
        return f"{thread}(Python functions that are not known)"
    if place.kind is PlaceKind.LEFT_OUT:
        return "(functions between are left out)"
    if place.kind is PlaceKind.LINE:
        return f"at {_line(place)}"
    unnamed = f"{place.module}+{place.address:#x}" if place.address else f"a function of {place.module or 'no module'}"
    return visible(f"{thread}{place.function or unnamed}")


def called_from(place: CallPlace) -> str:
    """Return the line that a place was called from: "halo.c:88"; empty where it isn't known, or is the place itself."""
    return "" if place.kind is PlaceKind.LINE or place.file is None or place.line is None else _line(place)


def _line(place: CallPlace) -> str:
    return visible(f"{(place.file or '').rpartition('/')[2]}:{place.line}")


def times(node: CallNode) -> str:
    """Return " x 5-512": how often a place stands in a row; empty without recursion."""
    return "" if node.times == (1, 1) else f" x {'-'.join(map(str, sorted(set(node.times))))}"


def often(group: Members) -> str:
    """Return ", always" or ", in 2 of 5" samples; empty where there is one."""
    return "" if group.samples == 1 else ", always" if group.always else f", in {group.seen} of {group.samples}"


def unseen(job: Job, tree: CallTree) -> Iterator[str]:
    """Yield a sentence for each reason for which ranks are in no path."""
    for reason, processes in tree.unseen:
        yield f"{titled(job, processes)} can't be seen: {visible(reason)}"
