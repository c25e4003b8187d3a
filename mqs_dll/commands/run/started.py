"""The command that `mqs run` starts: in our process group, with our streams, environment and signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""What the interpreter ignores for itself; the command must not inherit it (Python's initsignals)."""
_BY_TERMINAL = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})


class Started:
    """A command that runs."""

    def __init__(self, command: list[str], environment: Mapping[str, str], mask: set[signal.Signals]) -> None:
        """Start it.

        Args:
            command: its name for PATH, or its path, and its arguments.
            environment: all of it.
            mask: the signals that are blocked in it.

        Raises:
            OSError: there is no such program, or it can't be run.
        """
        self.pid = os.posix_spawnp(command[0], command, environment, setsigmask=mask, setsigdef=IGNORED_BY_PYTHON)
        self.status: int | None = None
        """As waitpid has it, once it has ended."""

    def changed(self, status: int) -> bool:
        """Take in what waitpid says of it; return whether we are to stop, too, as a shell's job does as a whole."""
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status) in _BY_TERMINAL
        if not os.WIFCONTINUED(status):
            self.status = status
        return False

    def send(self, number: int) -> None:
        """Pass a signal on; nothing happens once it has ended, or where it has become another user's (sudo)."""
        if self.status is None:
            with suppress(PermissionError):
                os.kill(self.pid, number)


def end_like(status: int) -> int:
    """Return the exit code of a command that has ended, or die of the signal that it has died of."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    die_of(number)
    return 128 + number  # as a shell says it; the signal can't end us


def die_of(number: int) -> None:
    """Die of a signal, without a core file beside the command's own."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
