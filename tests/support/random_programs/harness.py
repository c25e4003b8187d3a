"""Compiles random programs, has them block, and compares their arguments with what is reported of them."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from mqs_dll.debugger.job.stacks import StackTracer, capture, unwind
from mqs_dll.debugger.job.stacks.constants import Constants
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.records import ArgumentEvidence, CallStack
from mqs_dll.job.snapshot import Hidden
from tests.support.random_programs.library import FUNCTIONS, library
from tests.support.random_programs.program import HELPERS, THROWER, program

OPTIONS = tuple(
    f"{compiler} {options}"
    for compiler in ("gcc", "clang")
    for options in (
        *("-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -fno-pie -no-pie", "-O3 -march=native"),
        *("-O2 -fno-omit-frame-pointer", "-O2 -fstack-protector-all"),
    )
) + tuple(f"{compiler} {level}" for compiler in ("g++", "clang++") for level in ("-O0", "-O2", "-O3"))
"""How programs are compiled; the library may be by any other of them."""


class Outcome(NamedTuple):
    """One argument of one call."""

    options: str
    call: str
    name: str
    true: int
    told: int | None
    evidence: ArgumentEvidence | None

    @property
    def is_wrong(self) -> bool:
        """Whether something was told that isn't so."""
        return self.told is not None and self.told != self.true


class Program(NamedTuple):
    """A compiled program."""

    options: str
    path: Path
    units: int


def compile_program(folder: Path, seed: str, options: str, units: int) -> Program:
    """Write and compile a program and its library."""
    random = Random(seed)
    compiler, *flags = options.split()
    is_cpp = compiler.endswith("++")
    folder.mkdir(parents=True, exist_ok=True)
    of_library = random.choice([each for each in OPTIONS if "++" not in each and "no-pie" not in each])
    (folder / "libmpi.c").write_text(library(random))
    source = folder / ("program.cc" if is_cpp else "program.c")
    source.write_text(program(random, units, is_cpp=is_cpp))
    helpers = HELPERS.replace("int may_throw", "int not_used") if is_cpp else HELPERS
    (folder / "helpers.c").write_text(helpers)
    common = ["-w", "-fno-builtin-malloc"]

    def run(*words: str) -> None:
        subprocess.run(words, cwd=folder, check=True)

    run(*of_library.split(), *common, "-fPIC", "-shared", "-s", "-o", "libmpi.so", "libmpi.c")
    run("gcc", "-O1", "-w", "-fPIC", "-shared", "-o", "libhelpers.so", "helpers.c")
    more = []
    if is_cpp:
        (folder / "thrower.cc").write_text(THROWER)
        run(compiler, "-O1", "-w", "-fPIC", "-shared", "-o", "libthrower.so", "thrower.cc")
        more = ["-lthrower"]
    run(
        compiler,
        *flags,
        *common,
        "-s",
        "-o",
        "program",
        source.name,
        "-L.",
        "-lmpi",
        "-lhelpers",
        *more,
        "-Wl,-rpath,$ORIGIN",
    )
    return Program(options, folder / "program", units)


def outcomes(made: Program) -> list[Outcome]:
    """Run a program; return each argument of each call that it blocks in, and what is reported of it."""
    found: list[Outcome] = []
    with subprocess.Popen([made.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin
        assert running.stdout
        try:
            if not os.read(running.stdout.fileno(), 1):
                return found
            with LiveProcess(running.pid) as process:
                tracer = StackTracer(process.program, process.fetch)
                for _ in range(made.units):
                    found += _read(made, process, tracer)
                    os.write(running.stdin.fileno(), b"g")
                    if not os.read(running.stdout.fileno(), 1):
                        break
        finally:
            running.kill()
    return found


def _read(made: Program, process: LiveProcess, tracer: StackTracer) -> list[Outcome]:
    with stopped(process.pid) as stop:
        captured = capture(process, stop.registers(process.pid))
    with patch.object(Constants, "may_be", return_value=True):  # these programs call with what no MPI would take
        stacks = unwind(captured, process, tracer)
    if isinstance(stacks, Hidden):  # a function that was jumped to is the MPI's own: none with a name is left
        return []
    return _compare(made, process, stacks[0])


def _compare(made: Program, process: LiveProcess, stack: CallStack) -> list[Outcome]:
    address = process.image.find_symbol("truth")
    assert address is not None
    assert stack.call in FUNCTIONS, stack
    data = process.fetch(address, 16 * 8)
    found = []
    for number, parameter in enumerate(FUNCTIONS[stack.call]):
        kind, _, name = parameter.partition(":")
        true = int.from_bytes(data[8 * number : 8 * number + 8], "little", signed=kind == "i")
        told = stack.argument(name)
        found.append(
            Outcome(made.options, stack.call, name, true, told.value if told else None, told.evidence if told else None)
        )
    return found


def table(found: Sequence[Outcome]) -> list[tuple[str, int, int, int]]:
    """Return (options, right, unknown, wrong) of each way to compile."""
    counts: dict[str, Counter[str]] = {}
    for each in found:
        count = counts.setdefault(each.options, Counter())
        count["wrong" if each.is_wrong else "unknown" if each.told is None else "right"] += 1
    return [(options, count["right"], count["unknown"], count["wrong"]) for options, count in counts.items()]
