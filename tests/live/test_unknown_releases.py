"""MPICHs over UCX and libfabric that say another release than theirs: what is shown depends on the process alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from mqs_dll.contract.abi import UNKNOWN, Operation, Queue
from mqs_dll.job.snapshot import Snapshot
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.session import Library
from tests.support.mpis import INTEL_OFI, UCX, mpichs, open_mpis
from tests.support.scenes import DOZEN, OVER_LIBRARY, SENDS, UNEXPECTED, scenes
from tests.support.tampered import Tampered, look, reasons

UNKNOWN_RELEASE = "9.9.9"

PLACES = [(mpi, transport) for mpi in mpichs() for transport in mpi.transports if transport in OVER_LIBRARY]
REQUEST = "ompi_request_t"
OWN_BYTES = 160
"""sizeof(ompi_request_t) in all Open MPIs at hand."""

OWN = [(mpi, transport) for mpi, transport in PLACES if transport != INTEL_OFI]
"""Intel MPI's release is not the one that MPICH's offsets go by."""


def say_another_release(target: Tampered, release: str) -> int:
    """Lay another release over each place where an MPICH says its own; return how many there are."""
    session = Library().setup_image(target.image).setup_process(target)
    (own,) = re.findall(r"MPICH (\d+\.\d+\.\d+)", session.has_queues())
    mpi: Any = session._mpi
    text = b"\0" + own.encode() + b"\0"
    found = [
        segment.address + place.start() + 1
        for segment in mpi._identity.library.segments
        if not segment.writable
        for place in re.finditer(re.escape(text), Memory(target).read(segment.address, segment.size))
    ]
    target.overlay.update((place, release.encode().ljust(len(own), b"\0")) for place in found)
    return len(found)


def _as_known(operation: Operation) -> tuple[Any, ...]:
    """Return the numbers of an operation."""
    return (
        operation.status,
        operation.desired_local_rank,
        operation.desired_global_rank,
        operation.tag_wild,
        operation.desired_tag,
        operation.desired_length,
        operation.buffer,
        operation.actual_local_rank,
        operation.actual_global_rank,
        operation.actual_tag,
        operation.actual_length,
    )


def _differences(before: Snapshot, after: Snapshot) -> Iterable[str]:
    """Yield what is shown otherwise than before, except numbers that are unknown now, and what isn't shown at all."""

    def is_as(old: int, new: int) -> bool:
        return new in (old, UNKNOWN, 0)

    for old, new in zip(before.communicators, after.communicators, strict=True):
        for queue in Queue:
            was, now = old.queues[queue], new.queues[queue]
            shown = sorted(map(_as_known, was.operations), key=repr)
            for operation in now.operations:
                known = _as_known(operation)
                fits = [
                    one for one in shown if all(new in (old, UNKNOWN, 0) for old, new in zip(one, known, strict=True))
                ]
                if not fits:
                    yield f"{queue.name} of {new.communicator}: {operation}, and there are {was.operations}"
                else:
                    shown.remove(fits[0])
            if shown and not now.broken and not now.hidden:
                yield f"{queue.name} of {new.communicator} lacks {shown} without a word"


def _complete(snapshot: Snapshot, queue: Queue) -> int:
    found = [each.queues[queue] for each in snapshot.communicators]
    return sum(len(each.operations) for each in found if not each.broken and not each.hidden)


@scenes((*place, case) for place in OWN for case in (DOZEN, SENDS, UNEXPECTED))
def test_an_mpich_of_an_unknown_release_shows_nothing_wrong(target: Tampered) -> None:
    """Where the process shows how its tags and tables are made, all is shown; else it is said what isn't known."""
    before = look(target)
    assert say_another_release(target, UNKNOWN_RELEASE)
    after = look(target)
    assert UNKNOWN_RELEASE in after.process_message
    assert not [*_differences(before, after)]
    for queue in Queue:
        if _complete(after, queue) < _complete(before, queue):
            assert any("isn't known of MPICH" in each for each in reasons(after, queue))


@scenes((*place, DOZEN) for place in OWN)
def test_where_receives_wait_an_unknown_release_is_as_good_as_a_known_one(target: Tampered) -> None:
    """Their masks tell how tags are made, whatever the release says: of all three queues nothing is missing."""
    before = look(target)
    assert any(each.queues[Queue.RECEIVES].operations for each in before.communicators)
    assert say_another_release(target, UNKNOWN_RELEASE)
    after = look(target)
    for queue in Queue:
        assert _complete(after, queue) == _complete(before, queue)


@scenes((mpi, UCX, DOZEN) for mpi in open_mpis() if UCX in mpi.transports)
@pytest.mark.parametrize(("size", "said"), [(176, "no known layout fits UCX"), (7, "a request has 7 bytes")])
def test_the_size_of_open_mpi_s_requests_is_that_of_their_class(
    target: Tampered, monkeypatch: pytest.MonkeyPatch, size: int, said: str
) -> None:
    """One that UCX's pool has no room for is refused, and so is one that no request can have."""
    assert not reasons(look(target), Queue.UNEXPECTED)
    true = OmpiProcessContext.class_size
    monkeypatch.setattr(
        OmpiProcessContext, "class_size", lambda self, name: size if name == REQUEST else true(self, name)
    )
    shown = look(target)
    for queue in Queue:
        assert reasons(shown, queue)
        assert all(re.search(said, each) for each in reasons(shown, queue))


@scenes((mpi, UCX, DOZEN) for mpi in open_mpis() if UCX in mpi.transports)
def test_open_mpi_s_requests_have_the_size_that_ucx_was_given(target: Tampered) -> None:
    """The class says it: 160 bytes in all Open MPIs at hand."""
    session = Library().setup_image(target.image).setup_process(target)
    session.has_queues()
    mpi: Any = session._mpi
    assert mpi._transport._own_bytes == OWN_BYTES
