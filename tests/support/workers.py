"""The processes in which pytest runs the tests: this one alone, or the workers of pytest-xdist.

They share a folder, for as long as the run takes: programs are compiled there once for all of them, a test that wants
the machine for itself keeps the others waiting by it, and each worker leaves there what its tests have seen.
"""

from __future__ import annotations

import fcntl
import functools
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tests.support.matrix import Cell

if TYPE_CHECKING:
    import pytest

LONGEST = 1200.0
"""Seconds after which a worker that has more tests to run than this one is no longer waited for."""

_SHARED = "mqs_shared_folder"
"""The environment variable by which the controller directs its workers."""


@dataclass(frozen=True)
class WorkerResult:
    """What a worker leaves behind when it has run its tests."""

    failed: int
    """Tests."""
    seen: list[Cell]
    """What they saw for the support matrix."""


class Workers:
    """All of them, as one sees them."""

    def __init__(self, config: pytest.Config) -> None:
        """Make the folder that they share, or take the one that the controller has made."""
        given: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._owned = given is None
        self._name = "alone" if given is None else given["workerid"]
        self._others = 0 if given is None else given["workercount"] - 1
        self.folder = Path(tempfile.mkdtemp(prefix="mqs-tests-") if given is None else given[_SHARED])
        self._floor: TextIO
        self._is_held = False
        """Whether this one keeps the others waiting between two of its tests."""

    @staticmethod
    def tell_where(workerinput: dict[str, Any], folder: Path) -> None:
        """Tell one of them which folder it is, as their controller."""
        workerinput[_SHARED] = str(folder)

    def close(self) -> None:
        """Remove the folder, unless it is another's."""
        if self._owned:
            shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def turn(self, *, alone: bool, goes_on: bool = False) -> Iterator[None]:
        """Wait until a test may run: beside those of other workers, or alone.

        One that runs alone, and goes on to another such test, has no other come in between: all would wait for the
        longest of those again.
        """
        if not self._is_held:
            self._floor = (self.folder / "floor").open("w")
            with (self.folder / "gate").open("w") as gate:
                fcntl.flock(gate, fcntl.LOCK_EX)  # who waits to be alone holds up those who come later
                fcntl.flock(self._floor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            self._is_held = alone and goes_on
            if not self._is_held:
                self._floor.close()

    def keep(self, groups: Mapping[str, str]) -> None:
        """Say which test is in which group; each worker says the same."""
        self._write("groups.json", groups)

    def scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Return what hands out the tests, as their controller: a group to one worker, in the order of collection.

        pytest-xdist's own "loadgroup" writes the group into the test's name, which pytest 9.2 doesn't let it change.
        """
        from xdist.scheduler import LoadScopeScheduling

        @functools.cache
        def groups() -> dict[str, str]:
            found: dict[str, str] = json.loads((self.folder / "groups.json").read_text())
            return found

        scheduler: Any = LoadScopeScheduling(config, log)
        scheduler._split_scope = lambda test: groups()[test]
        config.option.loadscopereorder = False
        return scheduler

    def leave(self, result: WorkerResult) -> None:
        """Leave behind what this worker's tests have seen."""
        self._write(f"result-{self._name}.json", asdict(result))

    def _write(self, name: str, document: Any) -> None:
        draft = self.folder / f"draft-{self._name}"
        draft.write_text(json.dumps(document))
        draft.rename(self.folder / name)

    def wait_for_others(self) -> list[WorkerResult]:
        """Wait until the others have run all their tests; return what they have left behind."""
        deadline = time.monotonic() + LONGEST
        while len(paths := [*self.folder.glob("result-*.json")]) < self._others:
            assert time.monotonic() < deadline, f"{self._others - len(paths)} other workers never ended"
            time.sleep(0.1)
        documents = [json.loads(path.read_text()) for path in paths]
        return [WorkerResult(each["failed"], [Cell(*cell) for cell in each["seen"]]) for each in documents]


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Keep other workers from doing the same, which a file stands for."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
