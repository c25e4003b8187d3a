"""Who holds the lock that a thread outside MPI waits for: a file lock, or a mutex of glibc's.

Sources: proc(5), "/proc/locks" and "/proc/pid/syscall"; glibc's sysdeps/nptl/bits/struct_mutex.h of 2.36 and others:
the int that the thread waits for is the mutex's first member, and the holder's thread ID the third.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.inside import threads_known_to
from mqs_dll.debugger.proc import read_file, read_stat
from mqs_dll.job.records import FILE_LOCK, MUTEX, CallStack, Lock

_FUTEX, _OF_FILES = frozenset({202, 98}), frozenset({72, 73, 25, 32})
"""System calls of x86_64 and of aarch64: futex; fcntl and flock."""
_IN_MUTEX = re.compile(r"_{0,3}pthread_mutex_(lock|timedlock|clocklock)(_full)?")
_OWNER = 8
"""Bytes from the first member of a mutex to its holder."""
_LOCK = re.compile(r"(\d+): *((?:-> *)*)(?:POSIX|FLOCK|OFDLCK) +\S+ +\S+ +(-?\d+) ")
_MOST = 1 << 22


def lock_of(pid: int, stack: CallStack, fetch: Callable[[int, int], bytes]) -> Lock | None:
    """Return the lock that a thread waits for, None where it waits for none or its holder isn't known.

    Args:
        pid: the process.
        stack: of one of its threads, just taken; one that runs again by now waits for nothing.
        fetch: reads the process's memory.
    """
    try:
        call, *arguments = (int(word, 0) for word in read_file(f"/proc/{pid}/task/{stack.thread}/syscall").split())
    except (OSError, ValueError):  # it runs
        return None
    if call in _OF_FILES:
        return _file_lock(pid)
    if call in _FUTEX and arguments and any(_IN_MUTEX.fullmatch(frame.function) for frame in stack.frames):
        return _mutex(pid, arguments[0], fetch)
    return None


def _mutex(pid: int, address: int, fetch: Callable[[int, int], bytes]) -> Lock | None:
    """Return who holds the mutex at an address, if that is a thread of the same process."""
    try:
        owner = threads_known_to(pid).get(int.from_bytes(fetch(address + _OWNER, 4), "little"))
    except MqsError:
        return None
    return None if owner is None else Lock(MUTEX, pid, owner)


def _file_lock(pid: int) -> Lock | None:
    """Return who holds the file lock that a process waits for: the kernel lists the waiters behind it."""
    try:
        lines = read_file("/proc/locks", _MOST).decode(errors="replace").split("\n")
    except OSError:
        return None
    holders: dict[str, int] = {}
    for line in lines:
        found = _LOCK.match(line)
        if found is None:
            continue
        number, waits, process = found[1], bool(found[2]), int(found[3])
        if not waits:
            holders[number] = process
        elif process == pid and holders.get(number, 0) > 0:
            stat = read_stat(holders[number])
            return Lock(FILE_LOCK, holders[number], name=stat.name if stat else "")
    return None
