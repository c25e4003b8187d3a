"""What /proc shows of a process: alive or not, whose, traced by whom, and in what words its program is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from typing import Literal, NamedTuple

from mqs_dll.contract.errors import ForeignError, HiddenProcessError, NoSuchProcessError

DELETED = " (deleted)"
"""What the kernel appends to the name of a file that has been removed."""


class ProcessStatus(NamedTuple):
    """The lines of /proc/PID/status that matter to a debugger."""

    name: str
    state: str
    """One letter: R, S, D, T (stopped by a signal), t (stopped by a tracer), Z (zombie), X."""
    process: int
    """The PID of the process that the thread belongs to (Tgid)."""
    tracer: int
    """The PID of the debugger that holds it, or 0."""
    user: int
    """The effective user ID."""
    pending: int
    """The signals that wait for the thread itself, a bit for each, the lowest for signal 1."""


class Owner(NamedTuple):
    """Whose a process or a file is, and so with whose rights it is read."""

    user: int
    """The effective user ID."""
    group: int
    groups: tuple[int, ...] = ()
    """Supplementary ones."""


class Mapping(NamedTuple):
    """A line of /proc/PID/maps (proc(5))."""

    start: int
    end: int
    """The address behind it."""
    permissions: str
    """Like "r-xp"."""
    path: str
    """As the kernel writes it, a newline in it as ``\\012``; empty for memory without a name."""
    offset: int = 0
    """In the file."""
    device: int = 0
    """Of the file, as os.stat has it; some file systems (overlayfs, btrfs) tell stat another one."""
    inode: int = 0
    """0 where there is no file."""

    @property
    def readable(self) -> bool:
        """Whether the process may read it."""
        return self.permissions.startswith("r")

    @property
    def writable(self) -> bool:
        """Whether the process may read and write it."""
        return self.permissions.startswith("rw")


class Stat(NamedTuple):
    """What /proc/PID/stat says of a process or of one of its threads (proc(5))."""

    pid: int
    """The thread's ID; of a process it is that of its first thread."""
    name: str
    """The kernel's: of the program, of a script the script's, at most 15 bytes."""
    state: str
    """As ProcessStatus has it."""
    parent: int
    started: int
    """Ticks since the machine's start: two processes that have the same PID one after the other differ in it."""
    threads: int = 1
    """Of its process; its first one, whose state this is, may have ended before the others (pthread_exit)."""
    group: int = 0
    """The ID of its process group: the PID of the process that leads it, or led it; 0 where it isn't known."""

    @property
    def gone(self) -> bool:
        """Whether it has exited, and only waits for its parent to notice."""
        return self.state in "ZX" and self.threads <= 1


def open_file(path: str) -> FileIO:
    """Return a file of /proc, opened: without a Path, since hundreds are read in a sample, and a holder starts sooner.

    Raises:
        OSError: there is no such process, or the kernel doesn't let us.
    """
    return open(path, "rb", buffering=0)  # noqa: PTH123


LARGEST = 1 << 26
"""Bytes of a file of /proc that are read: a process chooses what its arguments, its environment and its maps say, and
can have the kernel show gigabytes of its memory for them."""

MAX_STRINGS = 1 << 23
"""Bytes of its arguments, or of its environment: more than execve takes of both."""

_STEP = 1 << 15


def read_file(path: str, most: int = LARGEST) -> bytes:
    """Return what a file of /proc says, at most so many bytes of it.

    Raises:
        OSError: as open_file.
    """
    pieces = []
    with open_file(path) as file:
        while most > 0 and (piece := file.read(min(most, _STEP))):
            pieces.append(piece)
            most -= len(piece)
    return b"".join(pieces)


def numbers_in(path: str) -> Iterator[int]:
    """Yield the processes that /proc lists, or the threads of a process.

    Raises:
        OSError: there is no such process.
    """
    return (int(name) for name in os.listdir(path) if name.isdigit())  # noqa: PTH208


def read_status(pid: int) -> ProcessStatus:
    """Return what /proc says of a process or of one of its threads.

    Raises:
        NoSuchProcessError: there is none with that number.
    """
    fields = status_fields(pid)
    return ProcessStatus(
        name=fields["Name"],
        state=fields["State"][0],
        process=int(fields["Tgid"]),
        tracer=int(fields["TracerPid"]),
        user=int(fields["Uid"].split()[1]),
        pending=int(fields["SigPnd"], 16),
    )


def status_fields(pid: int | Literal["self"]) -> dict[str, str]:
    """Return the lines of /proc/PID/status (proc(5)), without the blanks behind the colons.

    Raises:
        NoSuchProcessError: there is none with that number.
        HiddenProcessError: /proc doesn't show it to us.
    """
    try:
        lines = read_file(f"/proc/{pid}/status").split(b"\n")  # a name may hold what str takes for line ends
    except (FileNotFoundError, PermissionError, ProcessLookupError) as error:
        if isinstance(pid, int) and (isinstance(error, PermissionError) or (hidepid() and _answers(pid))):
            hidden = f"there is a process {pid}, but /proc hides it: it is mounted with hidepid={hidepid()}"
            raise HiddenProcessError(f"{hidden}, and the process isn't ours, or is protected") from None
        raise NoSuchProcessError(f"there is no process {pid}") from None
    return dict(line.decode(errors="backslashreplace").split(":\t", 1) for line in lines if b":\t" in line)


def hidepid() -> str:
    """Return the option by which /proc hides what isn't ours, like "invisible" or "2"; empty where it shows all.

    The kernel has written the option's name since 5.8, its number before (proc(5)).
    """
    value = ""
    with suppress(OSError):
        for line in read_file("/proc/self/mounts").splitlines():
            _, where, kind, options, *_ = line.decode(errors="replace").split(" ")
            if (where, kind) == ("/proc", "proc"):  # the last one covers the others
                found = dict(option.partition("=")[::2] for option in options.split(","))
                value = found.get("hidepid", "")
    return "" if value in ("0", "off") else value


def _answers(pid: int) -> bool:
    """Return whether there is a process with that number, whatever /proc shows."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    except OverflowError:
        return False
    return pid > 0


def numbers_of(thread: int) -> tuple[int, ...]:
    """Return the ID of a process or a thread in each PID namespace that it is in: ours first, its own last (NSpid).

    Raises:
        NoSuchProcessError: there is none with that number.
    """
    return tuple(map(int, status_fields(thread).get("NSpid", str(thread)).split()))  # since Linux 4.1


def owner_of(pid: int) -> Owner:
    """Return whose a process is.

    Raises:
        NoSuchProcessError: there is none with that number.
    """
    fields = status_fields(pid)
    groups = tuple(map(int, fields["Groups"].split()))
    return Owner(int(fields["Uid"].split()[1]), int(fields["Gid"].split()[1]), groups)


def is_wholly_of(pid: int, owner: Owner) -> bool:
    """Return whether the kernel would let a user trace a process or a thread, as far as IDs decide.

    All of its user IDs and group IDs are that user's, and it is no program that the kernel protects from its own user:
    the files of those in /proc are root's. Sources: ptrace(2), "Ptrace access mode checking"; proc(5), "/proc/pid".
    """
    try:
        fields = status_fields(pid)
        shown = os.stat(f"/proc/{pid}/mem")  # noqa: PTH116
    except (HiddenProcessError, NoSuchProcessError, OSError):
        return False
    users, groups = (set(map(int, fields[name].split()[:3])) for name in ("Uid", "Gid"))
    return users == {owner.user} == {shown.st_uid} and groups == {owner.group}


def check_owner(user: int, what: str) -> None:
    """Make sure that root parses nothing that another user has made.

    Libraries that read ELF and DWARF are written in C. A bug in one must gain no more than that user's rights.

    Args:
        user: who could have made it.
        what: it is, for the sentence.

    Raises:
        ForeignError: we are root, and somebody else could.
    """
    if user != 0 and os.geteuid() == 0:
        raise ForeignError(f"{what} belongs to user {user_name(user)}, and is not read with root's rights")


def file_at(pid: int, address: int) -> str | None:
    """Return the file that a process has mapped at an address, None where there is none or it can't be determined."""
    for mapping in mappings(pid):
        if mapping.start <= address < mapping.end:
            return mapping.path if mapping.path.startswith("/") else None
    return None


def mappings(pid: int | Literal["self"], part: bytes = b"") -> Iterator[Mapping]:
    """Yield what a process has mapped, by address; nothing where that can't be determined.

    Args:
        pid: which process.
        part: bytes of the paths that are wanted; the lines of others, some hundred in each process, aren't parsed.
    """
    try:
        listed = read_file(f"/proc/{pid}/maps")
    except OSError:
        return
    for line in listed.split(b"\n") if part in listed else ():  # bytes: to str, a path may hold ends of lines
        if not line or part not in line:
            continue
        fields = line.split(maxsplit=5)
        first, _, end = fields[0].partition(b"-")
        path = os.fsdecode(fields[5]) if len(fields) == 6 else ""
        device = os.makedev(*(int(part, 16) for part in fields[3].split(b":")))
        yield Mapping(
            int(first, 16), int(end, 16), fields[1].decode(), path, int(fields[2], 16), device, int(fields[4])
        )


def read_stat(thread: int) -> Stat | None:
    """Return what the kernel says of a process or of one of its threads, None where there is none."""
    try:
        before, _, after = read_file(f"/proc/{thread}/stat").rpartition(b")")  # a name may be "a) R 1 ("
    except OSError:
        return None
    fields = after.split()
    name = before.partition(b"(")[2].decode(errors="backslashreplace")
    return Stat(thread, name, fields[0].decode(), int(fields[1]), int(fields[19]), int(fields[17]), int(fields[2]))


def turns(thread: int, pid: int = 0) -> tuple[int, ...]:
    """Return for how many nanoseconds a thread has run and has waited to, and how often it ran.

    They are those of schedstat; nothing where there is no such thread, or this kernel doesn't count.

    Args:
        thread: its ID.
        pid: its process; 0 for a main thread.
    """
    try:
        return tuple(map(int, read_file(f"/proc/{pid or thread}/task/{thread}/schedstat").split()))
    except (OSError, ValueError):
        return ()


def slices(thread: int) -> int:
    """Return how many time slices a thread has had, 0 where that isn't known."""
    return next(iter(turns(thread)[2:]), 0)


def processes_with(variable: str) -> list[int]:
    """Return the processes in whose environment a variable stands, as "NAME=value"; a zombie has none any more."""
    found = []
    for pid in numbers_in("/proc"):
        try:
            environment = read_file(f"/proc/{pid}/environ", MAX_STRINGS)
        except OSError:  # it ended, or belongs to somebody else
            continue
        if variable.encode() in environment.split(b"\0"):
            found.append(pid)
    return found


def thread_ids(pid: int) -> list[int]:
    """Return the IDs of all threads of a process, the empty list when it is gone."""
    try:
        return list(numbers_in(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return []


def start_time(pid: int) -> int:
    """Return when a process was started, as Stat has it.

    Raises:
        NoSuchProcessError: there is none with that number.
        HiddenProcessError: /proc doesn't show it to us.
    """
    stat = read_stat(pid)
    if stat is None:
        status_fields(pid)  # which says more
        raise NoSuchProcessError(f"there is no process {pid}")
    return stat.started


def user_name(user: int) -> str:
    """Return a user's name, the number where there is none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
