"""How many arguments of calls in random programs are told, by how the programs were compiled: none may be wrong.

python -m benchmarks.arguments --programs 10000 --seed 1

How far it is goes to stderr; Ctrl-C and SIGTERM end it with the table of what was done.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.matrix import line
from tests.support.random_programs.harness import OPTIONS, Outcome, compile_program, outcomes

UNITS = 40
"""Programs that are compiled together."""


def main() -> int:
    """Make and run programs, until Ctrl-C at the latest; print what is wrong, how to get it again, and a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    counts: dict[str, Counter[str]] = {options: Counter() for options in OPTIONS}
    wrong = 0
    for number in range(-(-asked.programs // UNITS)):
        options, seed = OPTIONS[number % len(OPTIONS)], f"{asked.seed}.{number}"
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = outcomes(compile_program(Path(folder), seed, options, UNITS))
        except KeyboardInterrupt:
            break
        counts[options].update(_kind(each) for each in found)
        counts[options]["programs"] += UNITS
        for each in found:
            if each.is_wrong:
                wrong += 1
                print(f"WRONG, seed {seed!r}, {UNITS} units: {each}", flush=True)
        total = sum(counts.values(), Counter())
        print(f"{total.pop('programs')} programs: {dict(total)}", file=sys.stderr, flush=True)
    _print(counts)
    return 1 if wrong else 0


def _kind(outcome: Outcome) -> str:
    if outcome.is_wrong:
        return "wrong"
    return "unknown" if outcome.evidence is None else outcome.evidence.name


def _print(counts: dict[str, Counter[str]]) -> None:
    counts = {options: count for options, count in counts.items() if count} | {"all": sum(counts.values(), Counter())}
    columns = ("programs", "BOTH", "CALLEE", "CALLER", "unknown", "wrong")
    print(line(["compiled by", "programs", "both say", "kept", "computed", "unknown", "wrong"]))
    print(line(["---"] * 7))
    for options, count in counts.items():
        print(line([f"`{options}`" if options != "all" else options, *(str(count[column]) for column in columns)]))


if __name__ == "__main__":
    sys.exit(main())
