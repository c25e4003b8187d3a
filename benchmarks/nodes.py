"""Time `mqs job` over many nodes: agents that replay what they have seen stand for 10, 100 and 1,000 nodes of 10 ranks.

Each node's agent is a small script of the shell, started by ClusterShell on this machine, which answers with a recorded
part of a made-up job (tests/support/synthetic_job.py). So the figures are of the head: it starts the agents, finds the
ranks, reads them twice, judges and prints, in the end also the call tree of a hundred kinds of paths. Times on the
clock have the agents in them, and all else on the machine. With --compare it is what `mqs run` has for each interval:
the agents say whether the memory of their ranks has changed.

    python -m benchmarks.nodes [--nodes 10 100 1000] [--ranks 10] [--compare]

How the head's work grows with the ranks of a node shows with --nodes 100 --ranks 100; 100,000 ranks, --nodes 1000
--ranks 100, take some minutes, most of that to make the job up.
"""

from __future__ import annotations

import argparse
import io
import itertools
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mqs_dll.commands.run.comparing import Comparing
from mqs_dll.debugger.job.nodes import wire
from mqs_dll.debugger.job.nodes.agents import Agents, AgentStart
from mqs_dll.debugger.job.ranks import ReadingOptions
from mqs_dll.debugger.job.read import JobReader, sample_on
from mqs_dll.job.found import FoundRank, FoundWorld
from mqs_dll.job.records import CallStack, Frame, Job, Sample
from mqs_dll.job.shared import garbage_left_alone
from mqs_dll.job.snapshot import Hidden
from mqs_dll.report import text
from mqs_dll.verdict.conclude import conclude
from tests.support.synthetic_job import SCENARIOS

GOAL_SECONDS, GOAL_MEGABYTES = 30.0, 1500.0
"""For 1,000 nodes of 10 ranks, at the head."""

_MARK = "benchmark"
_INTERVALS = 10
_KINDS = 100
"""Of paths to the ranks' calls."""
_AGENT = r"""
cd "$1/$NODE" || exit 127
cat greeting
looks=0
while read -r line; do
    case $line in
    *'"do": "find"'*) cat find ;;
    *'"do": "report"'*) looks=$((looks + 1)); cat "report.$looks" ;;
    *'"do": "look"'*) cat look ;;
    *'"do": "compare"'*) cat compare ;;
    *'"do":"keep_alive"'*) echo '{"to":"keep_alive","done":null}' ;;
    *) what=${line#*'"do": "'}; printf '{"to":"%s","done":null}\n' "${what%%\"*}" ;;
    esac
done
"""


def record(job: Job, folder: Path, each: int) -> list[str]:
    """Write what the agents of nodes with so many ranks each answer; return the nodes' names."""
    (folder / "agent.sh").write_text(_AGENT, encoding="ascii")
    names = []
    for number, begin in enumerate(range(0, len(job.processes), each), start=1):
        name = f"node{number}"
        processes = [replace(process, host=name) for process in job.processes[begin : begin + each]]
        place = folder / name
        place.mkdir()
        ranks = tuple(FoundRank(0, process.rank, process.pid, process.program, name) for process in processes)
        world = FoundWorld(len(job.processes), False, _MARK, len(processes))
        part = wire.NodePart(name, "mpiexec", None, "", 0.0, (world,), ranks, (_MARK,), ())
        answers = {"greeting": wire.GREETING}
        answers["find"] = {"to": "find", "done": wire.write(wire.NodeParts((part,), ()))}
        for look in range(2):
            seen = tuple(replace(process, samples=(process.samples[look],)) for process in processes)
            document = wire.write_processes(seen)
            answers[f"report.{look + 1}"] = {"to": "report", "done": document}
        for what, said in (("look", wire.Looked(each, False)), ("compare", wire.Compared(False, each))):
            answers[what] = {"to": what, "done": wire.write(said)}
        for file, answer in answers.items():
            (place / file).write_bytes(b"".join(wire.lines_of(answer)))
        names.append(name)
    return names


def replaying(folder: Path) -> Agents:
    """Return agents that replay what was recorded."""
    command = f"exec sh {shlex.quote(str(folder / 'agent.sh'))} {shlex.quote(str(folder))}"
    return Agents(ReadingOptions(), AgentStart(command, command, "env NODE=%h"))


def measure_intervals(folder: Path, names: Sequence[str]) -> list[str]:
    """Return what the head's process of `mqs run` takes for a recorded job, as cells of a table."""
    with replaying(folder) as agents:
        agents.find(names, wire.Wanted(marks=(_MARK,)))
        comparing = Comparing(agents, 10.0, 60.0)
        began = time.process_time()
        comparing.progressed()
        looked = time.process_time()
        for _ in range(_INTERVALS):
            comparing.progressed()
        each = (time.process_time() - looked) / _INTERVALS
        whole = str(agents.is_whole)
    return [f"{1000 * (looked - began):.0f}", f"{1000 * each:.1f}", f"{_megabytes():.0f}", whole]


def measure(folder: Path, names: Sequence[str]) -> list[str]:
    """Return what the head takes for a recorded job, as cells of a table."""
    times = [(time.monotonic(), time.process_time())]
    with replaying(folder) as agents:
        found = agents.find(names, wire.Wanted(marks=(_MARK,)))
        times.append((time.monotonic(), time.process_time()))
        with JobReader(found, agents) as reader:
            job = sample_on(reader, [reader.sample()], 2, 0.5, None)
        times.append((time.monotonic(), time.process_time()))
    with garbage_left_alone():  # as the command does
        verdict = conclude(job)
        Console(width=120, file=io.StringIO()).print(text.render(job, verdict))
    times.append((time.monotonic(), time.process_time()))
    before = _megabytes()
    Console(width=100, file=(printed := io.StringIO())).print(text.render_tree(job, verdict))
    times.append((time.monotonic(), time.process_time()))
    more = f"{_megabytes() - before:.0f}, {len(printed.getvalue().splitlines())}"
    wall = [f"{after[0] - before[0]:.1f}" for before, after in itertools.pairwise(times)]
    own = [f"{after[1] - before[1]:.1f}" for before, after in itertools.pairwise(times)]
    total = times[-1][0] - times[0][0]
    steps = [f"{one} ({other})" for one, other in zip(wall, own, strict=True)]
    processor = times[-1][1] - times[0][1]
    return [*steps, more, f"{total:.1f} ({processor:.1f})", f"{_megabytes():.0f}", verdict.outcome.name.lower()]


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_paths(job: Job, kinds: int) -> Job:
    """Return a job whose ranks have come to their calls on so many kinds of paths."""

    def moved(sample: Sample, rank: int) -> Sample:
        if isinstance(sample.stacks, Hidden):
            return sample
        own = Frame(f"part_{rank % kinds}", "solver", "/src/parts.c", 7)
        return replace(sample, stacks=tuple(_called_by(stack, own) for stack in sample.stacks))

    processes = [
        replace(process, samples=tuple(moved(sample, rank) for sample in process.samples))
        for rank, process in enumerate(job.processes)
    ]
    return replace(job, processes=tuple(processes))


def _called_by(stack: CallStack, function: Frame) -> CallStack:
    frames = stack.frames
    return replace(stack, frames=(*frames[: stack.in_call + 1], function, *frames[stack.in_call + 1 :]))


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each number of nodes, each measured in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--ranks", type=int, default=10, help="of each node (default: %(default)s)")
    parser.add_argument("--compare", action="store_true", help="measure what `mqs run` has for each interval")
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.replay:
        names = [f"node{number}" for number in range(1, options.nodes[0] + 1)]
        print("|".join((measure_intervals if options.compare else measure)(options.replay, names)))
        return 0
    steps = ("found s", "read twice s", "judged, printed s", "tree s", "MB more, lines", "all s")
    table = Table("nodes", "ranks", "KB a node and look", *steps, "MB", "verdict")
    if options.compare:
        table = Table("nodes", "ranks", "first look ms", "each interval ms", "MB", "no node lost")
    make = next(iter(SCENARIOS.values()))
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory() as name:
            record(on_paths(make(nodes * options.ranks), _KINDS), Path(name), options.ranks)
            size = [] if options.compare else [f"{(Path(name) / 'node1/report.1').stat().st_size / 1000:.1f}"]
            again = [sys.executable, "-m", "benchmarks.nodes", "--nodes", str(nodes), "--replay", name]
            again += ["--compare"] if options.compare else []
            said = subprocess.run(again, stdout=subprocess.PIPE, text=True, check=True)
            table.add_row(str(nodes), str(nodes * options.ranks), *size, *said.stdout.strip().split("|"))
    if options.compare:
        Console().print("milliseconds of the head's own processor time")
    else:
        Console().print("seconds on the clock (of the head's own processor time)")
        Console().print(f"the goal for 1,000 nodes of 10 ranks: {GOAL_SECONDS:.0f} s, {GOAL_MEGABYTES:.0f} MB")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
