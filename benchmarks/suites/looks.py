"""One sample of `mqs job` at a job that runs, as its user would take it: the command, and what its JSON says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mqs_dll.verdict.results import Outcome

MQS = (sys.executable, "-m", "mqs_dll")
"""The mqs of this Python."""
LONGEST = 120.0
"""Seconds after which a sample is given up."""


@dataclass(frozen=True)
class Look:
    """What one sample said."""

    outcome: str
    """An Outcome's name in small letters; "not read" also stands for an error, whose sentence is the headline."""
    headline: str
    causes: tuple[str, ...] = ()
    """Of all findings that are proved or suspected, the gravest first: "proved: cycle"."""
    seconds: float = 0.0
    """It took."""


def look(pid: int, save: Path | None = None, mqs: Sequence[str] = MQS) -> Look:
    """Ask what is wrong with a job.

    Args:
        pid: its launcher or one of its ranks.
        save: where to keep what was read, for `mqs job --load`.
        mqs: the command, with words of its own before "job".
    """
    command = [*mqs, "job", str(pid), "--json", *(("--save", str(save)) if save else ())]
    begin = time.monotonic()
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return Look(_name(Outcome.NOT_READ), f"no answer in {LONGEST:.0f} s", seconds=LONGEST)
    took = round(time.monotonic() - begin, 2)
    if not result.stdout:
        return Look(_name(Outcome.NOT_READ), result.stderr.strip(), seconds=took)
    document = json.loads(result.stdout)
    causes = tuple(
        f"{finding['certainty']}: {finding['cause']}"
        for finding in document["findings"]
        if finding["certainty"] != "noted"
    )
    return Look(document["outcome"].replace("_", " "), document["headline"], causes, took)


def _name(outcome: Outcome) -> str:
    return outcome.name.lower().replace("_", " ")
