"""What a test does to itself, in a child of its own, so that the kernel keeps processes closed to it."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

NOBODY = 65534
"""An ordinary user and its group."""
SYS_PTRACE = 1 << 19
NEW_NAMESPACE, NEW_USERS = 0x00020000, 0x10000000
PRIVATE = 1 << 18 | 1 << 14
"""MS_PRIVATE and MS_REC."""
SET_DUMPABLE, SET_SECCOMP, SET_NO_NEW_PRIVS = 4, 22, 38
"""Of prctl(2)."""
libc = ctypes.CDLL(None, use_errno=True)


def must(result: int) -> None:
    """Go on where a call of the C library's has worked."""
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def become(user: int = NOBODY, group: int = NOBODY) -> None:
    """Become another user, for good."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def lose(capabilities: int) -> None:
    """Give up capabilities of the first 32."""
    header = struct.pack("<Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    must(libc.capget(header, data))
    effective, permitted, _, *high = struct.unpack("<6I", data.raw)
    must(libc.capset(header, struct.pack("<6I", effective & ~capabilities, permitted & ~capabilities, 0, *high)))


def enter_users(inside: int = 0) -> None:
    """Enter a user namespace of our own, as a container does whose user we are inside."""
    outside = os.geteuid()
    must(libc.prctl(SET_DUMPABLE, 1, 0, 0, 0))  # else the maps are root's
    must(libc.unshare(NEW_USERS))
    Path("/proc/self/uid_map").write_text(f"{inside} {outside} 1")


PTRACE: Mapping[str, int] = {"x86_64": 101, "aarch64": 117}
PERF_EVENT_OPEN: Mapping[str, int] = {"x86_64": 298, "aarch64": 241}
"""Numbers of system calls."""


def forbid_ptrace() -> None:
    """Have ptrace fail from now on, as in containers under old kernels."""
    forbid(PTRACE)


def forbid_counting() -> None:
    """Have perf_event_open fail from now on, as in most containers."""
    forbid(PERF_EVENT_OPEN)


def forbid(call: Mapping[str, int]) -> None:
    """Have a system call fail with EPERM from now on."""
    number = call[platform.machine()]
    program = b"".join(
        struct.pack("<HBBI", *each)
        for each in ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000))
    )
    buffer = ctypes.create_string_buffer(program)
    filter_ = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 4, ctypes.addressof(buffer)))
    must(libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    must(libc.prctl(SET_SECCOMP, 2, filter_, 0, 0))


def hide_processes(how: str) -> None:
    """Mount a /proc of our own that hides what isn't ours; to remount it would change that of the whole machine."""
    must(libc.unshare(NEW_NAMESPACE))
    must(libc.mount(None, b"/", None, PRIVATE, None))
    must(libc.mount(b"proc", b"/proc", b"proc", 0, f"hidepid={how}".encode()))
