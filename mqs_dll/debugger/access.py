"""Whether a process may be read and stopped, and where the kernel forbids it, why: one error for each obstacle.

What the kernel's files show of the process and of us is compared in the order in which the kernel decides
(__ptrace_may_access in its kernel/ptrace.c, then the security modules): the user, the group, whether the process is
protected, capabilities and user namespaces, Yama, SELinux and AppArmor. Sources: ptrace(2), "Ptrace access mode
checking"; proc(5); capabilities(7); user_namespaces(7); the kernel's Documentation/admin-guide/LSM/Yama.rst.

SELinux and AppArmor don't say what they have forbidden: they are named where they are at work and nothing else is in
the way. We had no machine with them or with Yama; the tests give explain() what such a kernel shows.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from grp import getgrgid
from typing import Literal, NamedTuple

from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import (
    AlreadyTracedError,
    AncestorsAloneError,
    ApparmorError,
    FilteredError,
    HiddenProcessError,
    MoreCapableError,
    NobodyMayAttachError,
    NoMainThreadError,
    NoSuchProcessError,
    NotPermittedError,
    OtherGroupError,
    OtherNamespaceError,
    OtherUserError,
    ProcessError,
    ProtectedError,
    RootAloneError,
    RootWithoutPtraceError,
    SelinuxError,
    WordSizeError,
)
from mqs_dll.debugger.proc import Owner, open_file, read_file, read_stat, read_status, status_fields, user_name

_ELF_LITTLE_ENDIAN = 1
_ELF_MACHINES = {3: "32-bit x86", 40: "32-bit ARM", **elf.MACHINES}

_SYS_PTRACE = 1 << 19
_FILTER = 2
"""Of the line Seccomp in /proc/PID/status: a filter is at work."""
_UNMAPPED = 65534
"""What a user is shown as that our namespace has no number for (/proc/sys/kernel/overflowuid)."""

_NOBODY_MAY_ATTACH = 3
"""Yama's ptrace_scope that not even root's capabilities help against."""
_YAMA = {
    1: (AncestorsAloneError, "Yama lets only its ancestors attach (/proc/sys/kernel/yama/ptrace_scope is 1)"),
    2: (RootAloneError, "Yama lets only root attach (/proc/sys/kernel/yama/ptrace_scope is 2)"),
    _NOBODY_MAY_ATTACH: (NobodyMayAttachError, "Yama lets nobody attach (/proc/sys/kernel/yama/ptrace_scope is 3)"),
}


class Shown(NamedTuple):
    """What the kernel shows of a process, also of one that it keeps closed."""

    name: str
    users: tuple[int, int, int]
    """The real, the effective and the saved one."""
    groups: tuple[int, int, int]
    """As users."""
    files_user: int | None = None
    """Whose its files in /proc are: root's where it is protected. None where they aren't shown."""
    permitted: int = 0
    """Capabilities, a bit for each."""
    effective: int = 0
    seccomp: int = 0
    no_new_privs: bool = False
    id_map: str = ""
    """Its user namespace's, in numbers of ours, but for our own namespace's; empty where it can't be read."""
    label: str = ""
    """Of its security module: an SELinux context, or an AppArmor profile with its mode; empty where there is none."""

    @property
    def may_trace_all(self) -> bool:
        """Whether it has CAP_SYS_PTRACE."""
        return bool(self.effective & _SYS_PTRACE)

    @property
    def is_confined(self) -> bool:
        """Whether AppArmor enforces a profile on it."""
        return self.label.endswith(" (enforce)")


class Rules(NamedTuple):
    """What holds for all processes of this machine."""

    yama: int | None = None
    """The ptrace_scope, None where there is no Yama."""
    selinux_enforces: bool = False

    def yama_keeps_out(self, us: Shown) -> bool:
        """Return whether Yama is in the way of one like us who is no ancestor of a process."""
        return self.yama == _NOBODY_MAY_ATTACH or (self.yama in _YAMA and not us.may_trace_all)


def shown(pid: int | Literal["self"]) -> Shown:
    """Return what the kernel shows of a process, or of ourselves.

    Raises:
        NoSuchProcessError: there is none with that number.
        HiddenProcessError: /proc shows nothing of it.
    """
    fields = status_fields(pid)
    users, groups = (map(int, fields[name].split()[:3]) for name in ("Uid", "Gid"))
    files_user = None
    with suppress(OSError):
        files_user = os.stat(f"/proc/{pid}/mem").st_uid  # noqa: PTH116
    return Shown(
        fields["Name"],
        (next(users), next(users), next(users)),
        (next(groups), next(groups), next(groups)),
        files_user,
        int(fields["CapPrm"], 16),
        int(fields["CapEff"], 16),
        int(fields.get("Seccomp", "0")),
        fields.get("NoNewPrivs") == "1",
        " ".join(_text(f"/proc/{pid}/uid_map").split()),
        _text(f"/proc/{pid}/attr/current").rstrip("\0\n"),
    )


def rules() -> Rules:
    """Return what holds on this machine."""
    scope = _text("/proc/sys/kernel/yama/ptrace_scope").strip()
    return Rules(int(scope) if scope.isdigit() else None, _text("/sys/fs/selinux/enforce").strip() == "1")


def not_permitted(pid: int, act: str = "read", owner: Owner | None = None) -> NotPermittedError:
    """Return the error for a process that the kernel keeps closed, with the cause in its text.

    Args:
        pid: which process.
        act: what was to be done to it.
        owner: whose rights are to be enough for that; None for ours.

    Raises:
        NoSuchProcessError: it is gone.
        HiddenProcessError: /proc shows nothing of it.
    """
    ours, is_open = shown("self"), owner is None and _is_open(pid)
    if owner is not None:
        ours = ours._replace(users=(owner.user,) * 3, groups=(owner.group,) * 3, permitted=0, effective=0)
    kind, why = explain(shown(pid), ours, rules(), is_open=is_open)
    return kind(f"the kernel doesn't let us {act} process {pid} ({read_status(pid).name}): {why}")


def explain(process: Shown, ours: Shown, rules: Rules, *, is_open: bool) -> tuple[type[NotPermittedError], str]:
    """Return why the kernel keeps a process closed: the error's class, and the cause in words.

    Args:
        process: what it shows of the process.
        ours: what it shows of us.
        rules: what holds for all.
        is_open: whether its memory may be opened all the same: then a system call was refused, and not the process.
    """
    if is_open:
        return _refused_call(ours)
    for find in (_by_owner, _by_protection, _by_module):
        found = find(process, ours, rules)
        if found is not None:
            return found
    return NotPermittedError, "nothing that this kernel shows forbids it"


def _refused_call(ours: Shown) -> tuple[type[NotPermittedError], str]:
    if ours.seccomp != _FILTER:
        return NotPermittedError, "its memory may be read, but a debugger that isn't seen from here may hold it"
    sudo = ", and no_new_privs keeps sudo from helping" if ours.no_new_privs else ""
    return FilteredError, f"a seccomp filter forbids us ptrace, most likely that of a container{sudo}"


def _by_owner(process: Shown, ours: Shown, rules: Rules) -> tuple[type[NotPermittedError], str] | None:
    """Look for another namespace, user or group."""
    user, group = ours.users[0], ours.groups[0]
    foreign = bool(process.id_map and ours.id_map) and process.id_map != ours.id_map
    if is_stranger(process.users[1], ours) or (foreign and process.users == (user,) * 3):
        return OtherNamespaceError, "it is in another user namespace: in another container, or outside of ours"
    if ours.may_trace_all and not foreign:
        return None
    if process.users != (user,) * 3:
        if user in process.users:
            return ProtectedError, f"it has the rights of user {_other(process.users, user)}: a set-user-ID program"
        whose = f"it belongs to user {user_name(process.users[1])}"
        if user == 0:
            return RootWithoutPtraceError, f"{whose}, and root lacks CAP_SYS_PTRACE here, as in a container"
        return OtherUserError, whose + (", and no_new_privs keeps sudo from helping" if ours.no_new_privs else "")
    if process.groups != (group,) * 3:
        if len({*process.groups}) > 1:
            return ProtectedError, "it has the rights of another group: a set-group-ID program"
        return OtherGroupError, f"it runs with group {_group_name(process.groups[0])}, we with {_group_name(group)}"
    return None


def _by_protection(process: Shown, ours: Shown, rules: Rules) -> tuple[type[NotPermittedError], str] | None:
    """Look for what protects a process from its own user."""
    if ours.may_trace_all:
        return None
    more = process.permitted & ~ours.permitted
    if process.files_user not in (None, process.users[1]):
        if more:
            return ProtectedError, "its program has got capabilities from its file, which protects it (not dumpable)"
        return ProtectedError, (
            "it is protected (not dumpable): its file may not be read, it has changed its user, or it has called "
            "prctl(PR_SET_DUMPABLE)"
        )
    if more:
        return MoreCapableError, f"it has capabilities that we lack ({more:#x})"
    return None


def _by_module(process: Shown, ours: Shown, rules: Rules) -> tuple[type[NotPermittedError], str] | None:
    """Look for a security module, Yama first: it alone says what it forbids."""
    if rules.yama is not None and rules.yama_keeps_out(ours):
        return _YAMA[rules.yama]
    labels = f"the process is {process.label or 'without a label'}, we are {ours.label or 'without one'}"
    if rules.selinux_enforces or ours.label.count(":") >= 3:
        return SelinuxError, f"SELinux's policy is the likely cause: {labels}"
    if process.is_confined or ours.is_confined:
        return ApparmorError, f"AppArmor is the likely cause: {labels}"
    return None


def _other(users: tuple[int, ...], user: int) -> str:
    return user_name(next(each for each in users if each != user))


def is_stranger(user: int, ours: Shown) -> bool:
    """Return whether a user is one of whom our user namespace has no number: then all are shown by the same one.

    The namespace's map says that: first, first outside, count, and so on.
    """
    numbers = [*map(int, ours.id_map.split())]
    ranges = zip(numbers[::3], numbers[2::3], strict=False)
    return user == _UNMAPPED and bool(numbers) and not any(first <= user < first + count for first, count in ranges)


def _group_name(group: int) -> str:
    try:
        return getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _is_open(pid: int) -> bool:
    """Return whether the kernel lets us open a process's memory, for which it asks what it asks to attach."""
    try:
        with open_file(f"/proc/{pid}/mem"):
            return True
    except OSError:
        return False


def _text(path: str) -> str:
    """Return what a file of the kernel's says, nothing where there is none."""
    try:
        return read_file(path).decode(errors="backslashreplace")
    except OSError:
        return ""


def already_traced(pid: int, tracer: int) -> AlreadyTracedError:
    """Return the error for a process that another debugger holds, with that debugger's name."""
    try:
        name = read_status(tracer).name
    except NoSuchProcessError:
        name = "gone by now"
    except HiddenProcessError:
        name = "which /proc hides"
    return AlreadyTracedError(f"process {pid} is held by another debugger, process {tracer} ({name})")


def check_readable(pid: int) -> None:
    """Make sure that ``pid`` is a live process that runs a 64-bit program.

    Raises:
        NoSuchProcessError: there is none, it is a zombie, or a mere thread.
        NoMainThreadError: its main thread has ended before others.
        NotPermittedError: the kernel doesn't let us see its program.
        WordSizeError: its program isn't one of an architecture that libmqs reads.
        ProcessError: it is a thread of the kernel.
    """
    status = read_status(pid)
    if status.process != pid:
        raise NoSuchProcessError(f"{pid} is a thread of process {status.process}, not a process")
    stat = read_stat(pid)
    if status.state in "ZX" and stat is not None and not stat.gone:
        raise NoMainThreadError(f"the main thread of process {pid} ({status.name}) has ended, and others go on")
    if status.state in "ZX":
        raise NoSuchProcessError(f"process {pid} ({status.name}) has exited and only waits for its parent to notice")
    try:
        with open_file(f"/proc/{pid}/exe") as program:
            header = program.read(20)
    except PermissionError:
        raise not_permitted(pid) from None
    except (FileNotFoundError, ProcessLookupError):
        read_status(pid)
        raise ProcessError(f"process {pid} ({status.name}) has no program: it is a thread of the kernel") from None
    _check_elf(pid, status.name, header)


def _check_elf(pid: int, name: str, header: bytes) -> None:
    (machine,) = struct.unpack_from("<H" if header[5] == _ELF_LITTLE_ENDIAN else ">H", header, 18)
    if not header.startswith(elf.MAGIC_64) or machine not in elf.MACHINES:
        kind = _ELF_MACHINES.get(machine, f"ELF machine {machine}")
        raise WordSizeError(f"process {pid} ({name}) runs a program for {kind}, which libmqs doesn't read")
