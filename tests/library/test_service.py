"""Operations cross the border many at once: what a session lists in one call, and how the service hands it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mqs_dll.contract.abi import Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, InternalError, TargetReadError, TooMuchError
from mqs_dll.library.mpi.envelopes import message
from mqs_dll.library.service import OPERATION_SIZE, Service, _packed
from mqs_dll.library.session import Library, ProcessSession
from tests.support.memory_image import MemoryImage

TOKEN = 7
MESSAGES = [message(Status.COMPLETE, 0, 0, tag, 8, 0, "here") for tag in range(5)]


class NoLog:
    """A log that nobody asked for."""

    def is_open(self) -> bool:
        """Return that there is none."""
        return False

    def line(self, text: str) -> None:
        """Drop a line."""


def session_of(walk: Iterator[Operation]) -> ProcessSession:
    """Return a session amid a queue."""
    process = MemoryImage({})
    session = Library().setup_image(process.image).setup_process(process)
    session._operations = walk
    return session


def service_of(session: ProcessSession) -> Service:
    """Return a service with a session."""
    service = Service(NoLog())
    service._processes[TOKEN] = session
    return service


def breaking_off(failure: BaseException) -> Iterator[Operation]:
    """Yield three messages, and fail."""
    yield from MESSAGES[:3]
    raise failure


@pytest.mark.parametrize("most", [1, 2, 5, 6])
def test_many_at_once_are_the_same_as_one_by_one(most: int) -> None:
    """Whether there are more is known when there were fewer than were asked for."""
    session = session_of(iter(MESSAGES))
    listed: list[Operation] = []
    ends: list[bool] = []
    while not any(ends):
        before = len(listed)
        ends.append(session.next_operations(listed, most))
        assert ends[-1] == (len(listed) - before < most)
    assert listed == MESSAGES
    assert session.next_operations(listed, most)
    assert session.next_operation() is None
    single = session_of(iter(MESSAGES))
    assert [single.next_operation() for _ in range(6)] == [*MESSAGES, None]


@pytest.mark.parametrize(
    ("failure", "first", "then"),
    [
        (BrokenStructureError("a loop"), BrokenStructureError, (BrokenStructureError, "a loop")),
        (TargetReadError(1, 8), TargetReadError, (TargetReadError, "0x1")),
        (ZeroDivisionError("a bug"), InternalError, (BrokenStructureError, "cut off")),
        (MemoryError(), TooMuchError, (BrokenStructureError, "cut off")),
        (KeyboardInterrupt(), KeyboardInterrupt, (BrokenStructureError, "cut off")),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else "",
)
def test_what_is_in_front_of_a_failure_is_listed(
    failure: BaseException, first: type[BaseException], then: tuple[type[Exception], str]
) -> None:
    """The iteration stays failed, also for who asks for one; what was cut off doesn't end as if the queue did."""
    session = session_of(breaking_off(failure))
    listed: list[Operation] = []
    with pytest.raises(first):
        session.next_operations(listed, 32)
    assert listed == MESSAGES[:3]
    asked: list[Callable[[], object]] = [lambda: session.next_operations(listed, 32), session.next_operation]
    for ask in asked:
        with pytest.raises(then[0], match=then[1]):
            ask()
    assert listed == MESSAGES[:3]


def test_a_failure_behind_some_operations_is_that_of_the_next_call() -> None:
    """A debugger gets them with a success, and then the failure, once in its own words."""
    service = service_of(session_of(breaking_off(ZeroDivisionError("a bug"))))
    data, ends = service.next_operations(TOKEN, 2)
    assert (data, ends) == (b"".join(map(_packed, MESSAGES[:2])), 0)
    data, ends = service.next_operations(TOKEN, 2)
    assert (data, ends) == (_packed(MESSAGES[2]), 0)
    with pytest.raises(InternalError, match="a bug"):
        service.next_operations(TOKEN, 2)
    for _ in range(2):
        with pytest.raises(BrokenStructureError, match="cut off"):
            service.next_operations(TOKEN, 2)


def test_a_failure_behind_exactly_as_many_as_were_asked_for_is_met_by_the_next_call() -> None:
    """Nothing is read ahead of what was asked for."""
    service = service_of(session_of(breaking_off(BrokenStructureError("a loop"))))
    assert service.next_operations(TOKEN, 3) == (b"".join(map(_packed, MESSAGES[:3])), 0)
    assert not service._behind
    with pytest.raises(BrokenStructureError, match="a loop"):
        service.next_operations(TOKEN, 3)


def test_an_operation_is_packed_with_five_lines_and_an_address_of_a_word() -> None:
    """Of a longer text, and of a larger address, as much as the struct has room for."""
    operation = MESSAGES[1]._replace(extra_text=tuple(b"%d" % line for line in range(7)), buffer=(5 << 64) + 3)
    packed = _packed(operation)
    assert len(packed) == OPERATION_SIZE
    assert packed == _packed(operation._replace(extra_text=operation.extra_text[:5], buffer=3))
    assert packed.rstrip(b"\0").endswith(b"4")
