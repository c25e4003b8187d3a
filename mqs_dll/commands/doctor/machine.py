"""Whether ranks of this user can be read, stopped and watched on this machine: tried on a process made for it.

That process is a child of nobody who looks, as ranks are: so Yama would keep it closed as it keeps ranks.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mqs_dll.commands.doctor.diagnosis import Ability, Circumstance, MachineDiagnosis, Remedy, Visibility
from mqs_dll.contract.errors import (
    AncestorsAloneError,
    ApparmorError,
    FilteredError,
    HiddenProcessError,
    MqsError,
    NobodyMayAttachError,
    NotPermittedError,
    OtherNamespaceError,
    OtherUserError,
    ProcessError,
    RootAloneError,
    RootWithoutPtraceError,
    SelinuxError,
)
from mqs_dll.debugger.access import Rules, Shown, rules, shown
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import hidepid, mappings, read_file, user_name
from mqs_dll.debugger.stopping.limit import Limit
from mqs_dll.debugger.stopping.returns import ReturnCounter
from mqs_dll.debugger.stopping.stop import stopped

_ORPHAN = """
import os, sys
if pid := os.fork():
    print(pid, flush=True)
else:
    os.close(1)
    sys.stdin.read()
"""
"""Ends with its standard input."""

_ALL_USERS = "0 0 4294967295"
"""The map of the machine's own user namespace (user_namespaces(7))."""
_LARGEST_PARANOIA = 2
"""Of kernel.perf_event_paranoid, at which users may count; Debian's and Ubuntu's kernels have larger ones."""
_OUTSIDE = "run mqs outside of the container, or start that with --cap-add PERFMON or --security-opt seccomp=unconfined"

_YAMA: dict[int, tuple[str, type[NotPermittedError]]] = {
    1: ("only a process's ancestors may attach to it", AncestorsAloneError),
    2: ("only root may attach", RootAloneError),
    3: ("nobody may attach", NobodyMayAttachError),
}


def diagnose(limit: Limit) -> MachineDiagnosis:
    """Look at this machine, with a process that stands for a moment.

    Raises:
        ProcessError: not even a process to look at can be started.
    """
    with _somebody() as pid:
        queues, stacks = _queues(pid), _stacks(pid, limit)
        proofs = _proofs(pid) if stacks.seen is Visibility.WHOLE else stacks._replace(name="proofs")
    abilities = (queues, stacks, proofs)
    remedies: dict[str, list[str]] = {}
    for each in abilities:
        if each.remedy:
            remedies.setdefault(each.remedy, []).append(each.name)
    ours = shown("self")
    verdict = Visibility.WHOLE if all(each.seen is Visibility.WHOLE for each in abilities) else Visibility.PARTLY
    return MachineDiagnosis(
        verdict=Visibility.NOTHING if queues.seen is Visibility.NOTHING else verdict,
        user=user_name(ours.users[1]),
        abilities=abilities,
        circumstances=tuple(circumstances(ours, rules(), hidepid(), _paranoia())),
        remedies=tuple(Remedy(what, f"for {', '.join(names)}") for what, names in remedies.items()),
    )


@contextmanager
def _somebody() -> Iterator[int]:
    """Give the PID of a process of ours that waits and that isn't our child."""
    command = [sys.executable, "-I", "-S", "-c", _ORPHAN]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise ProcessError(f"{sys.executable}, on which mqs would try what it may, can't be run: {error}") from error
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.wait()
        if not line.strip().isdigit():
            raise ProcessError(f"{sys.executable}, on which mqs would try what it may, can't fork")
        yield int(line)


def _queues(pid: int) -> Ability:
    try:
        with LiveProcess(pid) as process:
            mapping = next(each for each in mappings(pid) if each.readable)
            process.fetch(mapping.start, 1)
    except MqsError as error:
        return _closed("queues", error)
    return Ability("queues", Visibility.WHOLE, "memory of this user's processes can be read", "")


def _stacks(pid: int, limit: Limit) -> Ability:
    try:
        with stopped(pid, limit=limit) as stop:
            registers = stop.registers(pid)
    except MqsError as error:
        return _closed("stacks", error)
    if not registers:
        return Ability("stacks", Visibility.NOTHING, "the kernel gives no registers of a process that stands", "")
    return Ability("stacks", Visibility.WHOLE, "this user's processes can be stopped, and their registers read", "")


def _closed(name: str, error: MqsError) -> Ability:
    return Ability(name, Visibility.NOTHING, str(error), error.help)


def _proofs(pid: int) -> Ability:
    """Try to count returns from calls, which many proofs need (docs/verdict.md)."""
    address = next((each.start for each in mappings(pid) if "x" in each.permissions), 0)
    try:
        counter = ReturnCounter(pid, address)
    except OSError as error:
        why, remedy = refusal_to_count(error, shown("self"), _paranoia())
        lost = "returns from calls can't be counted, so most cycles on MPICH are suspected, not proved"
        return Ability("proofs", Visibility.PARTLY, f"{lost}: {why}", remedy)
    counter.close()
    return Ability("proofs", Visibility.WHOLE, "returns from calls can be counted", "")


def refusal_to_count(error: OSError, ours: Shown, paranoia: int | None) -> tuple[str, str]:
    """Return why the kernel doesn't count returns, and what to do.

    Args:
        error: what perf_event_open(2) has said.
        ours: what the kernel shows of us.
        paranoia: kernel.perf_event_paranoid, None where there is none.
    """
    if error.errno not in (errno.EACCES, errno.EPERM):
        return f"the kernel has no breakpoint for it ({error.strerror})", ""
    if ours.seccomp:
        return "a seccomp filter forbids perf_event_open, most likely that of a container", _OUTSIDE
    if paranoia is not None and paranoia > _LARGEST_PARANOIA:
        setting = f"sysctl kernel.perf_event_paranoid={_LARGEST_PARANOIA}"
        return f"kernel.perf_event_paranoid is {paranoia}", f"have root run mqs, or allow it by {setting}"
    return f"the kernel forbids perf_event_open ({error.strerror})", ""


def _paranoia() -> int | None:
    try:
        return int(read_file("/proc/sys/kernel/perf_event_paranoid"))
    except (OSError, ValueError):
        return None


def circumstances(ours: Shown, rules: Rules, hiding: str, paranoia: int | None) -> Iterator[Circumstance]:
    """Yield each obstacle that a kernel can put into the way: whether it holds, in words, and the remedy then.

    Args:
        ours: what the kernel shows of us.
        rules: what holds for all.
        hiding: /proc's option, as proc.hidepid has it.
        paranoia: kernel.perf_event_paranoid, None where there is none.
    """
    yield _other_users(ours)
    if rules.yama in _YAMA:
        whom, kind = _YAMA[rules.yama]
        yield _of("Yama", rules.yama_keeps_out(ours), f"ptrace_scope is {rules.yama}: {whom}", kind)
    else:
        words = "there is none" if rules.yama is None else f"ptrace_scope is {rules.yama}: not in the way"
        yield Circumstance("Yama", False, words, "")
    no_sudo = "; no_new_privs is set: sudo can't help here" if ours.no_new_privs else ""
    filters = "a filter is at work" if ours.seccomp else "no filter"
    yield _of("seccomp", bool(ours.seccomp or ours.no_new_privs), f"{filters}{no_sudo}", FilteredError)
    is_inside = ours.id_map not in ("", _ALL_USERS)
    where = "a container's: what runs outside of it is closed" if is_inside else "the machine's own"
    yield _of("user namespace", is_inside, where, OtherNamespaceError)
    seen = f"hidepid={hiding}: what isn't ours isn't seen" if hiding else "it shows all processes"
    yield _of("/proc", bool(hiding) and not ours.may_trace_all, seen, HiddenProcessError)
    yield _module(ours, rules)
    level = "unknown" if paranoia is None else str(paranoia)
    yield Circumstance("perf_event_paranoid", False, level, "")


def _other_users(ours: Shown) -> Circumstance:
    name = "other users' processes"
    if ours.users[1] != 0:
        return Circumstance(name, True, "closed to this user, who isn't root", OtherUserError.help)
    if ours.may_trace_all:
        return Circumstance(name, False, "read with their user's rights, as we are root", "")
    return Circumstance(name, True, "closed: root has no CAP_SYS_PTRACE here", RootWithoutPtraceError.help)


def _module(ours: Shown, rules: Rules) -> Circumstance:
    name, label = "SELinux, AppArmor", ours.label or "no label"
    if rules.selinux_enforces:
        return Circumstance(name, True, f"SELinux enforces a policy; we are {label}", SelinuxError.help)
    if ours.is_confined:
        return Circumstance(name, True, f"AppArmor confines us: {label}", ApparmorError.help)
    return Circumstance(name, False, "neither is seen to confine us", "")


def _of(name: str, holds: bool, words: str, kind: type[NotPermittedError]) -> Circumstance:
    return Circumstance(name, holds, words, kind.help if holds else "")
