"""All processes of this machine at one moment, as /proc has them: a family tree with environments and programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

from mqs_dll.debugger.proc import (
    DELETED,
    MAX_STRINGS,
    Stat,
    mappings,
    numbers_in,
    open_file,
    read_file,
    read_stat,
    thread_ids,
)

_LAUNCHER = re.compile(r"(mpiexec|mpirun|orterun|prterun|srun|aprun|jsrun|yod)([.\-_].*)?")
_DAEMON = re.compile(
    r"hydra_pmi_proxy|hydra_bstrap_pr.*|pmi_proxy|orted|prted|prte|orte-dvm|slurmstepd|flux-shell|flux-broker.*|palsd"
)
"""Programs that MPIs and batch systems start ranks with: what people call, and what that starts on each host."""

_MPI_LIBRARY = re.compile(r"libmpi[a-z0-9_]*\.so(\.[0-9.]+)?")
"""libmpi.so.40, libmpich.so.12, libmpi_abi.so.0, libmpi_cray.so.12, and their bindings for Fortran, which need them."""
_PYTHON = re.compile(r"python[0-9.]*")
_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Of Python's own options those that take the next argument."""


_OF_LAUNCHERS = re.compile(
    rb"(?<![^\0])(?:OMPI|PMIX|PMI|PRTE|MPI|FLUX|PALS|SLURM)_[A-Za-z0-9_]{1,100}=[^\0]{0,65536}(?=\0|\Z)"
)
_MAX_VARIABLES = 1 << 10
_MAX_ARGUMENTS = 1 << 18
"""Bytes: orted's and hydra's proxies' have some kilobytes, srun's the names of a machine's nodes."""


class Processes:
    """The processes of this machine. What is asked of one is read when it is asked, once."""

    def __init__(self) -> None:
        """Read the family tree."""
        self._all = {process.pid: process for process in _read_all()}
        self._children: dict[int, list[Stat]] = {}
        for process in sorted(self._all.values(), key=lambda each: (each.started, each.pid)):
            self._children.setdefault(process.parent, []).append(process)
        self.environment = cache(lambda pid: _environment(self._thread_of(pid)))
        self.arguments = cache(lambda pid: _arguments(self._thread_of(pid)))
        self.executable = cache(_executable)
        self.mpi_library = cache(lambda pid: _mpi_library(self._thread_of(pid)))

    def _thread_of(self, pid: int) -> int:
        """Return a process's PID, or a thread of it that goes on where the main one has ended: /proc has both alike."""
        process = self._all.get(pid)
        if process is None or process.gone or process.state not in "ZX":
            return pid
        return next((thread for thread in thread_ids(pid) if thread != pid), pid)

    def __iter__(self) -> Iterator[Stat]:
        """Iterate over those that haven't exited."""
        return (process for process in self._all.values() if not process.gone)

    def get(self, pid: int) -> Stat | None:
        """Return a process, None when there is none; one that has exited but is still listed is returned."""
        return self._all.get(pid)

    def children(self, pid: int) -> Sequence[Stat]:
        """Return the children of a process, those too that have exited, the oldest first."""
        return self._children.get(pid, ())

    def ancestors(self, pid: int) -> Iterator[Stat]:
        """Yield the parent, its parent, and so on."""
        seen = {pid}
        process = self._all.get(pid)
        while process is not None:
            process = self._all.get(process.parent)
            if process is None or process.pid in seen:  # the table was read while processes came and went
                return
            seen.add(process.pid)
            yield process

    def start_time(self, pid: int) -> float:
        """Return when a process was started, in seconds since the epoch; 0 where it can't be determined."""
        process = self._all.get(pid)
        return _boot_time() + process.started / os.sysconf("SC_CLK_TCK") if process else 0.0

    def is_launcher(self, pid: int) -> bool:
        """Return whether it is a program that people start jobs with: mpiexec, mpirun, srun."""
        return self._is_called(pid, _LAUNCHER)

    def is_daemon(self, pid: int) -> bool:
        """Return whether it is what a launcher or a batch system runs on each host to start ranks."""
        return self._is_called(pid, _DAEMON)

    def starts_ranks(self, pid: int) -> bool:
        """Return whether it is either of them."""
        return self.is_launcher(pid) or self.is_daemon(pid)

    def is_closed(self, pid: int) -> bool:
        """Return whether the kernel keeps its environment and its memory from us."""
        try:
            with open_file(f"/proc/{pid}/environ"):
                return False
        except PermissionError:
            return True
        except OSError:
            return False

    def program(self, pid: int) -> str:
        """Return the file that it runs, for a Python program the script or the module; its name failing that."""
        executable = self.executable(pid)
        if executable and _PYTHON.fullmatch(_base(executable)):
            return script_of(self.arguments(pid)) or executable
        process = self._all.get(pid)
        return executable or (process.name if process else "")

    def command_line(self, pid: int) -> str:
        """Return the arguments with blanks between, the name in brackets when they can't be determined."""
        process = self._all.get(pid)
        return " ".join(self.arguments(pid)) or f"[{process.name if process else pid}]"

    def _is_called(self, pid: int, names: re.Pattern[str]) -> bool:
        process = self._all.get(pid)
        if process is None:
            return False
        return any(names.fullmatch(name) for name in (process.name, _base(self.executable(pid))))


def is_name_of_daemon(program: str) -> bool:
    """Return whether a program is what a launcher or a batch system runs on each host to start ranks."""
    return bool(_DAEMON.fullmatch(_base(program)))


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _read_all() -> Iterator[Stat]:
    for pid in numbers_in("/proc"):
        if stat := read_stat(pid):  # else it has just exited
            yield stat


@cache
def _boot_time() -> int:
    """Return when the machine was started, in seconds since the epoch."""
    lines = read_file("/proc/stat").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(b"btime "))


def _environment(pid: int) -> dict[str, str]:
    """Return what launchers and batch systems passed to a process; nothing when it can't be read.

    Of all processes of a machine only that is kept: anybody's may have megabytes of variables.
    """
    found = _OF_LAUNCHERS.finditer(_read(pid, "environ"))
    variables = (os.fsdecode(match.group()).partition("=") for match in found)
    return {name: value for name, _, value in islice(variables, _MAX_VARIABLES)}


def _arguments(pid: int) -> list[str]:
    """Return the words of a process's command line, its first ones where it is longer than any launcher's."""
    data = _read(pid, "cmdline")[:_MAX_ARGUMENTS].rstrip(b"\0")
    return [os.fsdecode(item) for item in data.split(b"\0")] if data else []


def _read(pid: int, file: str) -> bytes:
    try:
        return read_file(f"/proc/{pid}/{file}", MAX_STRINGS)
    except OSError:
        return b""


def _executable(pid: int) -> str:
    """Return the path of the program's file, empty when it can't be determined."""
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(DELETED)  # noqa: PTH115  # a name, not a path to follow
    except OSError:
        return ""


def _mpi_library(pid: int) -> str | None:
    """Return the MPI library that a process has loaded, None when it has none, or when that can't be determined.

    Loaded is what it can execute: debuggers map the file to read it.
    """
    for mapping in mappings(pid, b"libmpi"):
        path = mapping.path.removesuffix(DELETED)
        if "x" in mapping.permissions and _MPI_LIBRARY.fullmatch(_base(path)):
            return path
    return None


def script_of(arguments: Sequence[str]) -> str:
    """Return what a Python interpreter was started to run: a file or, after -m, a module; empty for -c and none."""
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "-m":
            module = next(rest, "")
            return script_of(["mpi4py", *rest]) if module == "mpi4py" else module  # a runner of scripts
        if argument in _OPTIONS_WITH_VALUE:
            next(rest, "")
        elif argument == "-c" or argument == "-":
            return ""
        elif not argument.startswith("-"):
            return argument
    return ""
