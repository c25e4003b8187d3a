"""What a container hides: the files that a process has mapped, each opened as the very file, and processes' numbers.

A path in a container means another file outside, or none. The kernel opens what is mapped at an address
(/proc/PID/map_files), but only for who has CAP_CHECKPOINT_RESTORE; the program's own file it opens for the process's
user. For all else a path is followed in the process's root, and in ours, and what lies there is believed if it is the
mapped file: of the device and inode that the kernel tells; or where a file system tells others (overlayfs, btrfs), of
the mapped build, as its first page shows.
In a PID namespace processes have other numbers than ours, which /proc/PID/status has beside each other (NSpid).
Sources: proc(5), "/proc/pid/map_files", "/proc/pid/maps", "/proc/pid/root", "/proc/pid/status"; openat2(2);
pid_namespaces(7); ioctl_ns(2); fs/proc/base.c of Linux 5.9 (proc_map_files_get_link).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import drgn

from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import NoSuchProcessError
from mqs_dll.debugger.proc import DELETED, Mapping, mappings, numbers_in, numbers_of, thread_ids

_PAGE = 4096
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Nothing is waited for: it may be a pipe."""

_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_NS_GET_PARENT = 0xB702


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@dataclass(frozen=True)
class File:
    """A file that was opened; two are equal if they are the same file, as it was then."""

    path: str = field(compare=False)
    """By which it can be opened from here while its process lives, unless another one is there by then."""
    device: int
    inode: int
    size: int
    changed: int
    """When, in nanoseconds."""
    root: str = field(default="", compare=False)
    """Of its process, as a path; empty for ours."""

    def open(self) -> int | None:
        """Return a descriptor of it, None where it can't be had any more."""
        found = _open_plainly(self.path)
        if found is not None and _as_seen(self.path, os.fstat(found)) != self:
            os.close(found)
            return None
        return found


def file_named(path: str | None) -> File | None:
    """Return the file that a path of this machine means, None where there is none."""
    try:
        return _as_seen(path, os.stat(path)) if path else None  # noqa: PTH116
    except (OSError, ValueError):
        return None


def _as_seen(path: str, seen: os.stat_result, root: str = "") -> File:
    return File(path, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, root)


class MappedFiles:
    """The files of one process's modules."""

    def __init__(self, pid: int) -> None:
        """Initialize; nothing is opened yet."""
        self._pid = pid
        self.root = f"/proc/{pid}/root"
        self._files: dict[tuple[str, int], File] = {}

    def surroundings(self) -> tuple[int, ...] | None:
        """Return what distinguishes the process's files from those of other processes, None where that isn't known."""
        try:
            root, namespace = os.stat(self.root), os.stat(f"/proc/{self._pid}/ns/mnt")  # noqa: PTH116
        except OSError:
            return None
        return root.st_dev, root.st_ino, namespace.st_ino

    def of(self, module: drgn.Module) -> File | None:
        """Return the file that ``find`` has given a module, None where it has given none."""
        return self._files.get(_key(module))

    def find(self, modules: Sequence[drgn.Module]) -> None:
        """Give each module that wants one its file: a finder of drgn's."""
        wanting = [each for each in modules if each.wants_loaded_file()]
        mapped = list(mappings(self._pid)) if wanting else []
        for module in wanting:
            for descriptor, path in self._opened(module, mapped):
                file = _as_seen(path, os.fstat(descriptor), self.root)
                module.try_file(path, fd=descriptor)  # closes it
                if not module.wants_loaded_file():
                    self._files[_key(module)] = file
                    break

    def _opened(self, module: drgn.Module, mapped: Sequence[Mapping]) -> Iterator[tuple[int, str]]:
        """Yield descriptors of the file of a module, with paths by which it may be had again."""
        if isinstance(module, drgn.MainModule):
            path = f"/proc/{self._pid}/exe"
            if (descriptor := _open_plainly(path)) is not None:
                yield descriptor, path
        if not isinstance(module, drgn.SharedLibraryModule):
            return
        address = module.dynamic_address
        mapping = next((each for each in mapped if each.start <= address < each.end and each.inode), None)
        if mapping is None:
            return
        path = f"/proc/{self._pid}/map_files/{mapping.start:x}-{mapping.end:x}"
        if (descriptor := _open_plainly(path)) is not None:
            yield descriptor, path
            return
        page = _first_page(module, mapping, mapped)
        for path in dict.fromkeys((mapping.path.removesuffix(DELETED), module.name)):
            for root in (self.root, ""):
                descriptor = _open_in(root, path) if path.startswith("/") else None
                if descriptor is not None and _is_mapped(descriptor, mapping, page):
                    yield descriptor, root + path
                elif descriptor is not None:
                    os.close(descriptor)


def find_debug_files(program: drgn.Program, root: str) -> None:
    """Let a program's modules have debug files of their builds from a process's root, which are nowhere in ours."""

    def find(modules: Sequence[drgn.Module]) -> None:
        for module in modules:
            build = (module.build_id or b"").hex()
            if not build or not module.wants_debug_file():
                continue
            path = f"/usr/lib/debug/.build-id/{build[:2]}/{build[2:]}.debug"
            descriptor = _open_in(root, path)
            if descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
                module.try_file(root + path, fd=descriptor)  # if it is of this build; closes it
            elif descriptor is not None:
                os.close(descriptor)

    program.register_debug_info_finder("inside", find, enable_index=-1)


def is_same_outside(pid: int, path: str) -> bool:
    """Return whether a path of a process's is, here, the very file or folder that it is for the process.

    Where the process is in our own mount namespace and has our root, it is.
    """
    with suppress(OSError, ValueError):
        theirs, ours = f"/proc/{pid}", "/proc/self"
        if all(os.path.samefile(f"{theirs}/{each}", f"{ours}/{each}") for each in ("ns/mnt", "root")):  # noqa: PTH121
            return True
        descriptor = _open_in(f"{theirs}/root", path) if path.startswith("/") else None
        if descriptor is not None:
            there = os.fstat(descriptor)
            os.close(descriptor)
            return os.path.samestat(there, os.stat(path))  # noqa: PTH116
    return False


def _key(module: drgn.Module) -> tuple[str, int]:
    return module.name, getattr(module, "dynamic_address", 0)


def _first_page(module: drgn.Module, mapping: Mapping, mapped: Sequence[Mapping]) -> bytes:
    """Return what a file's first page was when it was mapped, empty where that isn't known."""
    starts = [
        each.start
        for each in mapped
        if (each.device, each.inode, each.offset) == (mapping.device, mapping.inode, 0) and each.start <= mapping.start
    ]
    try:
        return bytes(module.prog.read(starts[-1], _PAGE)) if starts else b""
    except drgn.FaultError:
        return b""


def _is_mapped(descriptor: int, mapping: Mapping, page: bytes) -> bool:
    """Return whether an open file is the one of a mapping, or of the build that its first page shows."""
    seen = os.fstat(descriptor)
    if not stat.S_ISREG(seen.st_mode):
        return False
    if (seen.st_dev, seen.st_ino) == (mapping.device, mapping.inode):
        return True
    with suppress(OSError):
        return page.startswith(elf.MAGIC_64) and elf.same_build(page, os.pread(descriptor, _PAGE, 0))
    return False


def _open_plainly(path: str) -> int | None:
    with suppress(OSError, ValueError):
        return os.open(path, _FLAGS)
    return None


def _open_in(root: str, path: str) -> int | None:
    """Return what a path means in a root, out of which no link leads, opened; None where it means nothing.

    Args:
        root: empty for our own.
        path: an absolute one.
    """
    if not root:
        return _open_plainly(path)
    try:
        folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    how = _OpenHow(_FLAGS, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        found: int = libc.syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if found < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):  # before Linux 5.6, or a container's filter
            return _open_plainly(root + path)  # links may lead out: what is found is looked at all the same
        return found if found >= 0 else None
    finally:
        os.close(folder)


# ---------------------------------------------------------------- numbers of processes


def pids_known_to(pid: int) -> dict[int, int] | None:
    """Return the PIDs of processes by what they are in a process's PID namespace, None where that is ours.

    Those that the kernel keeps closed to us are missing.

    Raises:
        NoSuchProcessError: there is no such process.
    """
    depth = len(numbers_of(pid))
    if depth == 1:
        return None
    namespace = _pid_namespace(pid, 0)
    found = {}
    for each in numbers_in("/proc") if namespace else ():
        with suppress(NoSuchProcessError):
            numbers = numbers_of(each)
            if len(numbers) >= depth and _pid_namespace(each, len(numbers) - depth) == namespace:
                found[numbers[depth - 1]] = each
    return found


def threads_known_to(pid: int) -> dict[int, int]:
    """Return the IDs of a process's threads by what it knows them as; without those that have just ended."""
    found = {}
    for thread in thread_ids(pid):
        with suppress(NoSuchProcessError):
            found[numbers_of(thread)[-1]] = thread
    return found


def _pid_namespace(pid: int, up: int) -> tuple[int, int] | None:
    """Return what distinguishes the PID namespace of a process, or one some levels above; None where it is closed."""
    try:
        namespace = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for _ in range(up):
            parent = fcntl.ioctl(namespace, _NS_GET_PARENT)
            os.close(namespace)
            namespace = parent
        seen = os.fstat(namespace)
        return seen.st_dev, seen.st_ino
    except OSError:
        return None
    finally:
        os.close(namespace)
