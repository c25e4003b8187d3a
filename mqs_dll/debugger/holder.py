"""The process that holds others stopped for us, so that nothing that hangs in ours can keep them stopped.

The kernel lets all go when their tracer ends. So the tracer is a process of its own, that does nothing else: it lets
them go when it is told to, when whoever told it to stop them has ended, and when the limit is over. Should it not come
to that, because somebody has stopped it or it hangs itself, a timer of the kernel's kills it a second later.

It does the same for threads that are watched while they run (guard.py).

They talk through two pipes, in frames with their length before them. Orders are JSON: whoever gives them may have given
up root (rights.py), and then is believed as little as the job's user. Answers are pickled. An order of nothing, a None,
means: let go, and wait for the next order; a pipe that is closed: let go, and end.

Its own side has to begin quickly: what only ours needs is imported where it is used.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

from mqs_dll.contract.errors import StopError
from mqs_dll.debugger.limit import EXIT_LIMIT
from mqs_dll.debugger.proc import Owner, read_stat
from mqs_dll.debugger.tracer import Tracer

_LAST_RESORT = 1.0
"""Seconds after the limit at which the kernel ends the holder."""
_NOTICING = 0.5
"""Seconds in which a command may notice itself that the limit is over."""
_ENDING = 5.0
"""Seconds in which a command that was asked to has to end."""
_LETTING_GO = 5.0
"""Seconds that the holder has to let go."""

_LENGTH = struct.Struct("<I")
_CLOCK_MONOTONIC = 1
_PR_SET_NAME = 15
_ROOT = __file__.rsplit("/", 3)[0]
_BEGIN = f"import sys; sys.path.insert(0, {_ROOT!r})"
_RUN = "from mqs_dll.debugger.holder import main; main({})"

_LARGEST_ORDER = 1 << 24
"""Bytes: that of a hundred thousand processes is smaller."""


class Order(NamedTuple):
    """Which processes to hold, and for how long."""

    pids: Sequence[int]
    started: Mapping[int, int]
    """As tracer.Tracer has it."""
    deadline: float
    """Seconds that a process has to stop."""
    limit: float
    """Seconds after which they are let go."""
    last_words: str
    """What to print on standard error before the process that gave the order is ended by SIGALRM, because it didn't
    notice that the limit is over; empty to leave it alone."""


class Call(NamedTuple):
    """A call that a thread is in."""

    thread: int
    returns_to: int
    """The address that it returns to."""


class Watch(NamedTuple):
    """Which returns to notice, and for how long."""

    calls: Sequence[Call]
    limit: float


# ---------------------------------------------------------------- our side


class Holder:
    """The other process, as the one that gives it orders has it, one after the other."""

    def __init__(self, *, speaks: bool, owner: Owner | None = None) -> None:
        """Start it.

        Args:
            speaks: whether it may print on standard error.
            owner: whose processes it holds, and no others; None for any.

        Raises:
            StopError: it can't be started.
        """
        import subprocess

        command = [sys.executable, "-I", "-S", "-c", f"{_BEGIN}\n{_RUN.format(owner and tuple(owner))}"]
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if speaks else subprocess.DEVNULL,
                start_new_session=True,  # neither Ctrl-C nor Ctrl-Z is for it
            )
        except OSError as error:
            raise StopError(f"{sys.executable}, which would hold the processes, can't be run: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to = self._process.stdin
        self._from = self._process.stdout

    @property
    def ended(self) -> bool:
        """Whether it takes no orders any more: it was let go, or somebody has ended it."""
        return self._to.closed or self._process.poll() is not None

    def ask(self, what: object) -> Any:
        """Return its answer: to an Order the time of the first stop, failures and stop signals, to a PID the registers.

        The time is time.monotonic()'s; the rest is as Tracer has it. To a Watch, and to None at its end, it is as Guard
        has it; to None at the end of an Order it is None.

        Raises:
            StopError: it has ended, and holds nothing any more.
        """
        try:
            _send(self._to.fileno(), _order_of(what))
            answer = _receive(self._from.fileno())
        except (EOFError, OSError, ValueError):  # ValueError: a Ctrl-C has let them go meanwhile
            raise StopError("the process that held the others stopped has ended: they run on") from None
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def release(self) -> bool:
        """Have what an Order holds let go; return False when the limit was over before: then it has ended."""
        with suppress(EOFError, OSError, ValueError):
            _send(self._to.fileno(), _order_of(None))
            if select.select([self._from], [], [], _LETTING_GO)[0]:
                _receive(self._from.fileno())
                return True
        return self.let_go()

    def let_go(self) -> bool:
        """Have everything let go, and end it; return False when a limit was over before. Idempotent."""
        from subprocess import TimeoutExpired

        self._to.close()
        self._from.close()
        try:
            code = self._process.wait(_LETTING_GO)
        except TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return code == 0


_started_before: list[Holder] = []
"""Those that were started before root was given up (rights.py)."""


def start_beforehand(owner: Owner) -> None:
    """Start one that has root's rights over one user's processes, for when we have given them up.

    Raises:
        StopError: it can't be started.
    """
    _started_before.append(Holder(speaks=True, owner=owner))


def start_holder(*, speaks: bool) -> Holder:
    """Return one that takes orders; arguments and errors are those of Holder."""
    while _started_before:
        holder = _started_before.pop()
        if not holder.ended:
            return holder
    return Holder(speaks=speaks)


def _send(pipe: int, data: bytes) -> None:
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


def _receive(pipe: int) -> Any:
    (length,) = _LENGTH.unpack(_read(pipe, _LENGTH.size))
    return pickle.loads(_read(pipe, length))  # it comes from ourselves


def _order_of(what: object) -> bytes:
    """Return an order as it is sent: the name of its kind, and its members."""
    members = {**what._asdict(), "started": [*what.started.items()]} if isinstance(what, Order) else what
    if isinstance(what, Watch):
        members = what._asdict()
    return json.dumps([type(what).__name__, members]).encode("ascii")


def _read(pipe: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(pipe, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


# ---------------------------------------------------------------- its own side


def main(owner: tuple[int, int, tuple[int, ...]] | None) -> NoReturn:
    """Do what orders say, one after the other, and exit: EXIT_LIMIT when a limit was over, else 0.

    Args:
        owner: as Holder has it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"mqs")  # what another debugger sees that finds a process held
    commander = os.getppid()
    whose = Owner(*owner) if owner else None
    code = 0
    try:
        while not code:
            order = _order()
            assert isinstance(order, Order | Watch)
            end = time.monotonic() + order.limit
            disarm = _end_after(order.limit + _LAST_RESORT)
            is_over = _hold(order, end, whose) if isinstance(order, Order) else _watch(order, end, whose)
            disarm()
            if is_over:
                code = EXIT_LIMIT
                os.close(1)
                if isinstance(order, Order) and order.last_words and not _is_told(_NOTICING):
                    _end_commander(commander, order.last_words)
    except (EOFError, BrokenPipeError):
        pass
    os._exit(code)  # at once: the others' pause is taken to last until we are gone


def _order() -> Order | Watch | int | None:
    """Return the next order; EOFError when nobody is there any more, or says what isn't one."""
    (length,) = _LENGTH.unpack(_read(0, _LENGTH.size))
    if length > _LARGEST_ORDER:
        raise EOFError
    try:
        kind, members = json.loads(_read(0, length))
        if kind == Order.__name__:
            return Order(**{**members, "started": {int(pid): int(at) for pid, at in members["started"]}})
        if kind == Watch.__name__:
            calls = [Call(int(thread), int(address)) for thread, address in members["calls"]]
            return Watch(calls, float(members["limit"]))
        return None if members is None else int(members)
    except (LookupError, RecursionError, TypeError, ValueError):
        raise EOFError from None


def _hold(order: Order, end: float, owner: Owner | None) -> bool:
    """Hold what is to be held; return whether that lasted to the end of the time."""
    tracer = Tracer(order.started, _nap, owner)
    began = time.monotonic()
    try:
        _send(1, _try(lambda: (began, tracer.stop(order.pids, min(began + order.deadline, end)), tracer.stop_signals)))
        while (is_told := _is_told(end - time.monotonic())) and isinstance(pid := _order(), int):
            _send(1, _try(partial(tracer.registers, pid)))
    finally:
        tracer.resume()
    _end_if(tracer.keeps)
    if is_told:
        _send(1, pickle.dumps(None))
    return not is_told


def _watch(order: Watch, end: float, owner: Owner | None) -> bool:
    """Notice what is to be noticed; return whether that lasted to the end of the time."""
    from mqs_dll.debugger.guard import Guard

    with Guard(order.calls, owner) as guard, _woken_up_on(signal.SIGCHLD) as news:  # of each signal that a thread gets
        _send(1, _try(guard.begin))
        while (left := end - time.monotonic()) > 0:
            told = select.select([0, news], [], [], left)[0]
            if news in told:
                os.read(news, select.PIPE_BUF)
                guard.pass_on()
            if 0 in told:
                _order()
                counts = _try(guard.end)
                _end_if(guard.keeps)
                _send(1, counts)
                return False
    return True


def _end_if(keeps: bool) -> None:
    """End instead of an answer where a thread could not be let go: then the kernel does it, whatever it is at."""
    if keeps:
        os._exit(0)


@contextmanager
def _woken_up_on(number: int) -> Iterator[int]:
    """Yield a descriptor that can be read whenever a signal has come."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    try:
        yield reads
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reads)
        os.close(writes)


def _try(act: Callable[[], Any]) -> bytes:
    """Return what a function returns, as an answer; a bug of ours as text."""
    try:
        return pickle.dumps(act())
    except EOFError:
        raise
    except Exception:
        import traceback

        return pickle.dumps(traceback.format_exc())


def _nap(seconds: float) -> None:
    """Wait; EOFError when nobody is there any more to wait for."""
    if _is_told(seconds):
        raise EOFError


def _is_told(seconds: float) -> bool:
    """Wait until there is another word, or the pipe's end; return whether it came in so many seconds."""
    return bool(select.select([0], [], [], max(seconds, 0.0))[0])


def _end_after(seconds: float) -> Callable[[], None]:
    """Have the kernel kill this process after a time, in whatever state it is; return what calls that off.

    timer_create(2) takes any signal, and SIGKILL ends a stopped process too.
    """
    libc = ctypes.CDLL(None)
    library = libc if hasattr(libc, "timer_create") else ctypes.CDLL("librt.so.1")
    event = ctypes.create_string_buffer(struct.pack("<qii", 0, signal.SIGKILL, 0), 64)  # sigevent: SIGEV_SIGNAL
    timer = ctypes.c_void_p()
    whole = int(seconds)
    once = struct.pack("<qqqq", 0, 0, whole, int((seconds - whole) * 1e9))
    if library.timer_create(_CLOCK_MONOTONIC, event, ctypes.byref(timer)) != 0:
        raise OSError("the kernel has no timer for us")
    library.timer_settime(timer, 0, once, None)
    return lambda: library.timer_delete(timer)


def _end_commander(pid: int, last_words: str) -> None:
    """Say why, and end the process that hangs; one that somebody has stopped ends as soon as it goes on.

    One that speaks to us again, or ends, is let be: a second signal would take its exit code.
    """
    with suppress(OSError):
        os.write(2, last_words.encode())
    for number in (signal.SIGALRM, signal.SIGKILL):
        stat = read_stat(pid)
        if os.getppid() != pid or stat is None or (number is signal.SIGKILL and stat.state == "T"):
            return
        os.kill(pid, number)
        if _is_told(_ENDING):
            return
