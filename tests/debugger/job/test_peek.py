"""Watching ranks between two samples: made-up processes whose memory changes or doesn't, and real ones."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import pytest

from mqs_dll.debugger.job import peek
from mqs_dll.debugger.stopping.holder import Holder, Returns
from mqs_dll.debugger.stopping.limit import USUAL
from mqs_dll.debugger.stopping.messages import WatchedReturn
from mqs_dll.debugger.stopping.stop import begin_holder
from tests.support.memory_image import MemoryImage
from tests.support.returning import LOOPS, OBEYS, can_count, holding, returning

NO_THREAD = 0x7FFFFFFF
PAGE = 0x7000
FRAME = (NO_THREAD, PAGE + 64, 56)
SECONDS = 0.02


class Moving(MemoryImage):
    """A process that is found in another call at one fetch (0 is the first), and in the first again at the next."""

    def __init__(self, at: int, address: int = PAGE + 64) -> None:
        super().__init__({PAGE: bytes(256)})
        self._at = at
        self._address = address

    def fetch(self, address: int, size: int) -> bytes:
        """Return what is there now."""
        data = bytearray(256)
        data[self._address - PAGE] = len(self.fetches) == self._at
        self.pages = {PAGE: bytes(data)}
        return super().fetch(address, size)


@pytest.mark.parametrize("at", [1, peek.MIN_PEEKS // 2, peek.MIN_PEEKS - 1])
def test_a_call_that_ended_for_a_moment_is_seen(at: int) -> None:
    """A process whose frame was another one at any peek went on, although it is back in the same call.

    The last one is that which a machine without time to spare comes to: MIN_PEEKS are made, however late it is.
    """
    assert peek.changed([(Moving(at), [FRAME])], SECONDS, None) == [True]


def test_a_call_that_lasts_is_not_taken_for_several() -> None:
    """Where the frame stays nothing is known without the kernel's counter, whatever changes beside the frame."""
    still = MemoryImage({PAGE: bytes(256)})
    beside = Moving(2, PAGE + 64 + 56)
    assert peek.changed([(still, [FRAME]), (beside, [FRAME])], SECONDS, None) == [None, None]
    assert len(still.fetches) >= peek.MIN_PEEKS


def test_each_process_has_its_own_answer() -> None:
    """The answers come in the order of the processes; any of a process's frames will do."""
    other = (NO_THREAD, PAGE, 8)
    targets = [(MemoryImage({PAGE: bytes(256)}), [FRAME]), (Moving(5), [other, FRAME]), (Moving(2, PAGE), [FRAME])]
    assert peek.changed(targets, SECONDS, None) == [None, True, None]


class Leaving(MemoryImage):
    """A process whose memory is gone after so many fetches."""

    def __init__(self, fetches: int) -> None:
        super().__init__({PAGE: bytes(256)})
        self._left = fetches

    def fetch(self, address: int, size: int) -> bytes:
        """Return what is there, as long as there is something."""
        if len(self.fetches) == self._left:
            self.pages = {}
        return super().fetch(address, size)


@pytest.mark.parametrize("fetches", [0, 3])
def test_memory_that_is_gone_is_no_sign_of_life(fetches: int) -> None:
    """A process that can't be read any more is not said to have gone on, and is left alone."""
    gone = Leaving(fetches)
    assert peek.changed([(gone, [FRAME])], SECONDS, None) == [None]
    assert len(gone.fetches) == fetches + 1


def test_no_more_peeks_than_needed() -> None:
    """A process is peeked at MAX_PEEKS times at most, and no more once it is known to go on."""
    still, moving = MemoryImage({PAGE: bytes(256)}), Moving(2)
    peek.changed([(still, [FRAME]), (moving, [FRAME])], SECONDS, None)
    assert len(still.fetches) <= peek.FIRST_PEEKS + peek.MAX_PEEKS
    assert len(moving.fetches) == 3


# ---------------------------------------------------------------- counted by the kernel


@pytest.fixture
def holder() -> Iterator[Holder]:
    """Return what has the kernel count."""
    with holding() as found:
        yield found


@pytest.mark.alone
@pytest.mark.parametrize(("action", "moves"), [(LOOPS, True), (OBEYS, False)])
def test_the_kernel_counts_where_it_may(action: str, moves: bool, holder: Holder) -> None:
    """A frame that never changes is one call after the other when its return address is reached, and else one."""
    with returning(action) as program:
        can_count(program.call)
        thread, address = program.call
        memory = MemoryImage({PAGE: bytes(112) + address.to_bytes(8, "little") + bytes(64)})
        assert peek.changed([(memory, [(thread, PAGE + 64, 56)])], 0.3, holder) == [moves]
    assert len(memory.fetches) == peek.FIRST_PEEKS


def test_a_call_that_is_seen_to_end_needs_no_breakpoint(monkeypatch: pytest.MonkeyPatch, holder: Holder) -> None:
    """The kernel is asked about those alone whose frames have not changed for a while."""
    asked: list[int] = []

    def start(returns: Returns, calls: Sequence[WatchedReturn], seconds: float) -> set[WatchedReturn]:
        asked.extend(call.thread for call in calls)
        return set()

    monkeypatch.setattr(Returns, "start", start)
    other = (NO_THREAD - 1, *FRAME[1:])
    targets = [(Moving(2), [FRAME]), (Moving(peek.FIRST_PEEKS + 1), [other])]
    assert peek.changed(targets, SECONDS, holder) == [True, True]
    assert asked == [NO_THREAD - 1]


def test_without_a_process_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none can be started, nobody is told that no call has ended."""
    monkeypatch.setattr("sys.executable", "/nonexistent")
    memory = MemoryImage({PAGE: bytes(256)})
    assert peek.changed([(memory, [FRAME])], SECONDS, begin_holder(USUAL)) == [None]


def test_a_process_that_had_no_turn_is_not_called_still(monkeypatch: pytest.MonkeyPatch, holder: Holder) -> None:
    """Where a process that could run never did, it is not known whether its call would have ended."""
    monkeypatch.setattr(peek, "_turns_of", lambda thread: (5, 0))
    memory = MemoryImage({PAGE: bytes(256)})
    with returning(LOOPS) as program:
        can_count(program.call)
        assert peek.changed([(memory, [(program.call.thread, PAGE + 64, 56)])], SECONDS, holder) == [None]


@pytest.mark.parametrize("crowded", [3, 1_000_000])
def test_a_process_that_waits_for_a_core_is_watched_for_longer(
    crowded: int, monkeypatch: pytest.MonkeyPatch, holder: Holder
) -> None:
    """Until it hasn't had to wait for a third of the time; but not for ever, where it always has to."""
    began, looks = time.monotonic(), itertools.count()
    monkeypatch.setattr(
        peek, "_turns_of", lambda _: (0, int((time.monotonic() - began) * 1e9) if next(looks) < crowded else 0)
    )
    with returning(OBEYS) as program:
        can_count(program.call)
        thread, address = program.call
        memory = MemoryImage({PAGE: bytes(112) + address.to_bytes(8, "little") + bytes(64)})
        assert peek.changed([(memory, [(thread, PAGE + 64, 56)])], SECONDS, holder) == [False]
    assert 3 < next(looks) < 50


def test_where_the_kernel_does_not_notice_nobody_is_watched_for_longer(
    monkeypatch: pytest.MonkeyPatch, holder: Holder
) -> None:
    """Nothing would be known at the end, either."""
    looks = itertools.count()
    monkeypatch.setattr(peek, "_turns_of", lambda _: (0, 10**9 * next(looks)))
    monkeypatch.setattr(Returns, "start", lambda *_: set())
    assert peek.changed([(MemoryImage({PAGE: bytes(256)}), [FRAME])], SECONDS, holder) == [None]
    assert next(looks) <= 2  # before, and to see whether it had a turn


def test_what_was_not_counted_to_the_end_is_not_known(monkeypatch: pytest.MonkeyPatch, holder: Holder) -> None:
    """Where whoever notices returns has ended before, there may have been some."""
    monkeypatch.setattr(Returns, "end", lambda returns: None)
    memory = MemoryImage({PAGE: bytes(256)})
    with returning(OBEYS) as program:
        can_count(program.call)
        assert peek.changed([(memory, [(program.call.thread, PAGE + 64, 56)])], SECONDS, holder) == [None]
