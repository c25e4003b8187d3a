"""Containers as an ordinary user makes them, by namespaces: of users, of mounts and, where asked for, of PIDs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from unittest import SkipTest

from tests.support import targets
from tests.support.closed import NOBODY, become
from tests.support.targets import DEADLINE, wait_until

_MAX_REPORT = 1 << 20


def command(script: str, *arguments: object, pids: bool = False, users: bool = True) -> list[str]:
    """Return what runs a script of the shell in a container, $1 being the first of its arguments.

    Args:
        script: it ends with an "exec".
        arguments: of the script.
        pids: whether its processes have numbers of their own, the first one 1; else the container's is the command's.
        users: whether it has a namespace of users; root needs none.
    """
    own = ["-U", "-r"] if users else []
    own += ["-p", "-f", "--mount-proc", "--kill-child"] if pids else []
    return ["unshare", *own, "-m", "sh", "-ec", script, "sh", *map(str, arguments)]


def skip_without_containers(user: int | None = NOBODY) -> None:
    """Skip the test where a user, or we, can't make one."""
    groups: list[int] | None = None if user is None else []
    tried = subprocess.run(
        command("mount -t tmpfs none /mnt", pids=True),
        user=user,
        group=user,
        extra_groups=groups,
        capture_output=True,
        check=False,
    )
    if tried.returncode != 0:
        raise SkipTest(f"containers can't be made here: {tried.stderr.decode().strip()}")


def skip_where_python_is_roots_own() -> None:
    """Skip the test where an ordinary user may not run this Python: it lies in a folder of root's."""
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], check=True)
    except (PermissionError, subprocess.CalledProcessError):
        raise SkipTest(f"only root may run {sys.executable}") from None


@contextmanager
def open_folder() -> Iterator[Path]:
    """Give a folder that each user can read."""
    with tempfile.TemporaryDirectory(prefix="mqs-container-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def running(
    arguments: list[str], user: int | None = NOBODY, environment: Mapping[str, str] | None = None
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start a command as a user, wait until something in it says "ready", and kill it at the end."""
    return targets.running(*arguments, user=user, environment=environment, folder="/")


def child_of(pid: int) -> int:
    """Return the first child of a process, when it is there."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: children.read_text().split())
    return int(children.read_text().split()[0])


def as_user(look: Callable[[], object], user: int = NOBODY) -> str:
    """Return what a function returns that a user runs, as Python writes it; or the error that it raises."""
    report, to_parent = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(DEADLINE))
        try:
            become(user, user)
            said = repr(look())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(to_parent, said.encode()[:_MAX_REPORT])
        os._exit(0)
    os.close(to_parent)
    with open(report, closefd=True) as file:  # noqa: PTH123
        found = file.read()
    os.waitpid(pid, 0)
    return found
