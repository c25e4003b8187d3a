"""Stopping processes for a sample, without a trace left in them, and for no longer than a limit.

They are held by a process of its own (holder.py), so that whatever hangs in this one can't keep them: a library, drgn,
the kernel, or a SIGSTOP.
"""

from __future__ import annotations

import ctypes
import signal
import time
from collections.abc import Iterable, Mapping
from types import TracebackType

from mqs_dll.contract.errors import LimitError, MqsError, StopError
from mqs_dll.debugger.stopping.holder import Holder, start_holder
from mqs_dll.debugger.stopping.interrupts import Interrupts
from mqs_dll.debugger.stopping.limit import EXIT_LIMIT, USUAL, Limit
from mqs_dll.debugger.stopping.messages import Order, Standing

_DEADLINE = 5.0
"""Seconds that a process has to stop; a thread in the kernel's uninterruptible sleep doesn't."""

_libc = ctypes.CDLL(None)
_libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
_libc.signal.restype = ctypes.c_void_p


def begin_holder(limit: Limit) -> Holder | None:
    """Start what will hold processes, which takes longer than to stop them; None where it can't be: a stop says why.

    It holds nothing until they are to stop, and is there for the next ones when they go on; let it go at the end.
    """
    try:
        return start_holder(speaks=limit.ends_us)
    except StopError:
        return None


class all_stopped:
    """Context manager: all threads of several processes stand still inside, and go on as they were when it ends.

    However it ends: on an error, and on Ctrl-C wherever it strikes, all of them run again before the exception is
    seen. Should we be killed, or hang for longer than the limit, they are let go all the same. A process that its user
    had stopped with a signal stays stopped, and a signal that arrives meanwhile is delivered afterwards. One process
    that can't be stopped is noted in ``failures`` and runs on; the others stand.

    Leaving it raises LimitError when the limit was over before, because then not all was read of processes that stood.
    """

    stop_time: float = 0.0
    """Seconds from the first process's stop until the last went on, known at the end."""

    def __init__(
        self,
        pids: Iterable[int],
        started: Mapping[int, int] | None = None,
        *,
        deadline: float = _DEADLINE,
        limit: Limit = USUAL,
        holder: Holder | None = None,
    ) -> None:
        """Prepare; nothing happens yet.

        Args:
            pids: which processes to stop.
            started: when each was started, as proc.Stat has it: one that was started at another time is another one
                with the same number, and is left alone. Those that aren't in it are known by their numbers alone.
            deadline: seconds that each has to stop.
            limit: for how long they may stand.
            holder: what will hold them, of begin_holder(); without one, or when it has ended, another is started when
                they are to stop, and let go with them.
        """
        self._limit = limit
        self._pids = list(pids)
        self._order = Order(self._pids, dict(started or {}), deadline, limit.seconds, "")
        self._holder = None if holder is None or holder.ended else holder
        self._stays = self._holder is not None
        self._began = 0.0
        self._broken = False
        self._standing = Standing(0.0, {}, {}, {})
        self._interrupts = Interrupts(self._resume)
        self._alarm = _Alarm()

    def __enter__(self) -> all_stopped:
        """Stop the processes.

        Raises:
            StopError: the process that would hold them can't be started, or was ended.
            LimitError: it was ended by the kernel's timer.
        """
        self._interrupts.hold()
        try:
            if self._limit.ends_us:
                self._alarm.set()
                over = self._limit_error()
                self._order = self._order._replace(final_message=f"mqs: {over}.\n     {over.help}\n")
            if self._holder is None:
                self._holder = start_holder(speaks=self._limit.ends_us)
            self._began = time.monotonic()  # or a little later: its answer has the time
            self._standing = self._holder.ask(self._order)
            self._began = self._standing.began
        except BaseException as error:
            self._resume()
            self._interrupts.release()
            if isinstance(error, StopError) and self.stop_time >= self._limit.seconds:
                raise self._limit_error() from error
            raise
        self._interrupts.pass_on()
        return self

    @property
    def failures(self) -> Mapping[int, MqsError]:
        """What kept a process from being stopped.

        NoSuchProcessError, NotPermittedError, AlreadyTracedError when another debugger holds it, StopError when a
        thread didn't stop in time.
        """
        return self._standing.failures

    def stop_signal(self, pid: int) -> int:
        """Return the signal that had stopped a process before we did (SIGSTOP, SIGTSTP, ...); 0 where none had."""
        return self._standing.stop_signals.get(pid, 0)

    def registers(self, pid: int) -> Mapping[int, bytes]:
        """Return the general registers of each thread of a process that stands, as tracer.Tracer has them."""
        return self._standing.registers.get(pid, {})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the processes go on.

        Raises:
            LimitError: they had to be let go before.
            StopError: the process that held them was ended by somebody.
        """
        self._interrupts.hold()
        self._resume(stays=self._stays and error is None)
        self._interrupts.release()
        if self._broken and (error is None or isinstance(error, Exception)):
            if self.stop_time >= self._limit.seconds:
                raise self._limit_error() from error
            raise StopError("the process that held the others stopped was ended: they ran on") from error

    def _resume(self, *, stays: bool = False) -> None:
        """Let the processes go on; their holder stays for others only where it owes no answer any more."""
        holder, self._holder = self._holder, None
        if holder is not None:
            self._broken = not (holder.release() if stays else holder.let_go())
            self.stop_time = time.monotonic() - self._began if self._began else 0.0
        self._alarm.unset()

    def _limit_error(self) -> LimitError:
        who = f"process {self._pids[0]}" if len(self._pids) == 1 else f"{len(self._pids)} processes"
        return LimitError(
            f"{who} stood for {self._limit.seconds:g} s, the limit, and had to be let go before all was read"
        )


class stopped(all_stopped):
    """Context manager: all threads of one process stand still inside, with all that all_stopped promises.

    Raises:
        NoSuchProcessError: the process is gone.
        NotPermittedError: the kernel doesn't let us stop it.
        AlreadyTracedError: another debugger holds it.
        StopError: a thread didn't stop in time.
    """

    def __init__(
        self,
        pid: int,
        started: int | None = None,
        *,
        deadline: float = _DEADLINE,
        limit: Limit = USUAL,
        holder: Holder | None = None,
    ) -> None:
        """Prepare; nothing happens yet. The arguments are those of all_stopped."""
        known = {} if started is None else {pid: started}
        super().__init__([pid], known, deadline=deadline, limit=limit, holder=holder)

    def __enter__(self) -> stopped:
        """Stop the process."""
        super().__enter__()
        for error in self.failures.values():
            self.__exit__(type(error), error, None)
            raise error
        return self


class _Alarm:
    """Makes SIGALRM end this process with EXIT_LIMIT, whatever it does.

    The C library's _exit() is the handler: it needs neither Python nor a lock, and is called with the signal's number.
    """

    def __init__(self) -> None:
        self._previous: int | None = None
        self._blocked = False
        self._is_set = False

    def set(self) -> None:
        """Do so from now on."""
        self._previous = _libc.signal(EXIT_LIMIT, ctypes.cast(_libc._exit, ctypes.c_void_p))
        self._blocked = EXIT_LIMIT in signal.pthread_sigmask(signal.SIG_UNBLOCK, [EXIT_LIMIT])
        self._is_set = True

    def unset(self) -> None:
        """Put everything back. Idempotent."""
        if self._is_set:
            self._is_set = False
            _libc.signal(EXIT_LIMIT, self._previous)
            if self._blocked:
                signal.pthread_sigmask(signal.SIG_BLOCK, [EXIT_LIMIT])
