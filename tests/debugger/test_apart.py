"""A process apart: what happens to it doesn't happen to us."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqs_dll.debugger import apart
from mqs_dll.debugger.apart import Apart
from mqs_dll.debugger.proc import Owner
from tests.support import answering
from tests.support.targets import ROOT, wait_until

SOON = 0.5
LATE = 30.0
MEMORY = 1 << 28
NOBODY = Owner(65534, 65534)


@pytest.fixture
def own() -> Iterator[Apart]:
    """Give one that answers as tests.support.answering does."""
    found = Apart(answering.__name__, MEMORY, needs=answering.__name__)
    yield found
    found._end()
    apart._all.remove(found)


@pytest.mark.parametrize("question", ["crash", "hang", "fill", "write"])
def test_what_is_too_much_has_no_answer_and_the_next_question_has(own: Apart, question: str) -> None:
    """By another process, so that no answer is taken for another question's."""
    first = own.ask("first", LATE)
    assert own.ask("second", LATE)["pid"] == first["pid"]
    if question == "fill":
        with pytest.raises(RuntimeError, match="MemoryError"):
            own.ask(question, SOON)
        return
    assert own.ask(question, SOON) is None
    third = own.ask("third", LATE)
    assert third["asked"] == "third"
    assert third["pid"] != first["pid"]


def test_after_ctrl_c_no_answer_is_taken_for_another_questions(own: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come while the answer is waited for."""
    first = own.ask("first", LATE)
    with monkeypatch.context() as patch:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(apart, "select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            own.ask("second", LATE)
    third = own.ask("third", LATE)
    assert (third["asked"], third["pid"] != first["pid"]) == ("third", True)


def test_nothing_is_asked_any_more_where_too_much_time_was_lost(own: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile job can have us wait again and again."""
    monkeypatch.setattr(apart, "_MAX_LOST", SOON)
    assert own.ask("hang", 2 * SOON) is None
    assert own.ask("next", LATE) is None


def test_an_error_of_ours_is_not_passed_over(own: Apart) -> None:
    """It is raised where it was asked for."""
    with pytest.raises(RuntimeError, match="KeyError: 'fail'"):
        own.ask("fail", LATE)
    assert own.ask("next", LATE)["asked"] == "next"


def test_it_ends_when_nobody_waits_any_more() -> None:
    """Whoever asked may have been killed."""
    code = f"""
import time
from mqs_dll.debugger import apart
own = apart.Apart({answering.__name__!r}, {MEMORY}, needs={answering.__name__!r})
pid = own.ask("first", {LATE})["pid"]
apart.select = lambda *_: (print(pid, flush=True), time.sleep({LATE}))
own.ask("hang", {SOON})
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        asking.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.root
def test_one_that_was_started_as_root_becomes_the_user_whose_job_is_read(own: Apart) -> None:
    """For good, as the process that asks does."""
    own.start_beforehand(NOBODY)
    found = own.ask("who", LATE)
    assert (found["user"], found["privileges"]) == ([NOBODY.user] * 3, "1")
