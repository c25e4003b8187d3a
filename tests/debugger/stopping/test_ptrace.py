"""The requests of ptrace(2) that stop and release threads."""

from __future__ import annotations

import pytest

from mqs_dll.debugger.stopping import ptrace

THREAD = 7
STOPPED = ptrace.EVENT_STOP << 16 | 0x57F


@pytest.mark.parametrize(("standstill", "stands"), [(9.0, True), (0.1, False)])
def test_time_in_which_the_machine_stood_still_does_not_count(
    monkeypatch: pytest.MonkeyPatch, standstill: float, stands: bool
) -> None:
    """A thread that stands a moment after it has stopped in time; one that runs on for as long has not."""
    now = 100.0
    looks = 0

    def wait(thread: int) -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return (thread, STOPPED) if looks == 200 and stands else (0, 0)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += standstill if looks == 100 else seconds

    monkeypatch.setattr(ptrace, "wait", wait)
    monkeypatch.setattr("mqs_dll.debugger.stopping.ptrace.time.monotonic", lambda: now)
    if stands:
        assert ptrace.news(THREAD, 105.0, sleep) == STOPPED
    else:
        with pytest.raises(TimeoutError):
            ptrace.news(THREAD, 105.0, sleep)
