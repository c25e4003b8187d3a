"""The results of a run: one line of JSON for each program, appended when it is done, so that a run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.suites.looks import Look
from benchmarks.suites.programs import Program
from benchmarks.suites.trial import Fate, Trial


def append(path: Path, trial: Trial) -> None:
    """Add a program's line."""
    looks = [asdict(each) for each in trial.looks]
    row = {**trial.program._asdict(), "fate": trial.fate.value, "looks": looks, "refusal": trial.refusal}
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(row)}\n")


def read(path: Path) -> list[Trial]:
    """Return what a file holds; nothing where there is none."""
    if not path.exists():
        return []
    return [_trial(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _trial(row: dict[str, Any]) -> Trial:
    program = Program(row["path"], tuple(row["arguments"]), row["ranks"], row["error"])
    looks = tuple(Look(**{**each, "causes": tuple(each["causes"])}) for each in row["looks"])
    return Trial(program, Fate(row["fate"]), looks, row["refusal"])


def differences(before: Iterable[Trial], after: Iterable[Trial]) -> list[str]:
    """Return a line for each program, of those that are in both, of which another thing is said now."""
    known = {trial.program: trial for trial in before}
    lines = []
    for trial in after:
        old = known.get(trial.program)
        if old is not None and said(old) != said(trial):
            lines.append(f"{trial.program.title}: {said(old)} -> {said(trial)}")
    return lines


def said(trial: Trial) -> str:
    """Return a program's fate and the outcome that counts, in a few words."""
    return f"{trial.fate.value}, {trial.verdict.outcome}" if trial.verdict else trial.fate.value
