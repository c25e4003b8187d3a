"""What a launcher waits for when all of its ranks have exited: their output ends when nobody can write it any more.

Whatever a rank has started inherits its standard output and error. Launchers read these to their end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.proc import Stat, numbers_in, read_file

_MAX_NAMED = 3
_FLAGS = re.compile(rb"^flags:\s*([0-7]+)", re.MULTILINE)


class _End(NamedTuple):
    """One end of a pipe that a process has open."""

    descriptor: int
    pipe: str
    """As the kernel names it: "pipe:[4711]"."""
    writes: bool


def writers_to(processes: Processes, launcher: int) -> list[Stat]:
    """Return the processes that can still write into pipes which a launcher or its daemons read to their end."""
    own = _with_daemons(processes, launcher)
    read = {end.pipe for pid in own for end in _pipes(pid) if not end.writes and end.descriptor != 0}
    others = (process for process in processes if process.pid not in own)
    return [process for process in others if any(end.writes and end.pipe in read for end in _pipes(process.pid))]


def waits_for_writers(processes: Processes, launcher: int) -> str:
    """Return the end of a sentence: what a launcher without ranks waits for; empty where nothing is seen."""
    writers = writers_to(processes, launcher)
    if not writers:
        return ""
    named = [f"{each.pid} ({each.name})" for each in writers[:_MAX_NAMED]]
    more = f" and {len(writers) - len(named)} more" if len(writers) > len(named) else ""
    who, have = ("process", "has") if len(writers) == 1 else ("processes", "have")
    return f"it waits for the end of their output, which {who} {', '.join(named)}{more} still {have} open"


def _with_daemons(processes: Processes, launcher: int) -> Sequence[int]:
    """Return a launcher and what it has started to start ranks."""
    found = [launcher]
    for pid in found:
        found += [child.pid for child in processes.children(pid) if processes.starts_ranks(child.pid)]
    return found


def _pipes(pid: int) -> Iterator[_End]:
    try:
        for descriptor in numbers_in(f"/proc/{pid}/fd"):
            name = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
            if name.startswith("pipe:"):
                flags = _FLAGS.search(read_file(f"/proc/{pid}/fdinfo/{descriptor}"))
                yield _End(descriptor, name, flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY)
    except OSError:  # it has ended, closes files, or is somebody else's
        return
