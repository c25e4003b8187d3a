"""The process that holds others stopped: what holder.Holder starts, and the only one that is their tracer.

It does nothing else: it lets them go on request, when whoever asked for the stop has ended, and when the
limit is over. Should it not come to that, because somebody has stopped it or it hangs itself, a timer of the kernel's
kills it a second later. It does the same for threads that are watched while they run (signal_filter.py).
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from mqs_dll.debugger.proc import Owner, read_stat
from mqs_dll.debugger.stopping.limit import EXIT_LIMIT
from mqs_dll.debugger.stopping.messages import Order, Standing, Watch, next_order, send
from mqs_dll.debugger.stopping.tracer import Tracer

_LAST_RESORT = 1.0
"""Seconds after the limit at which the kernel ends this process."""
_NOTICING = 0.5
"""Seconds in which a command may notice itself that the limit is over."""
_ENDING = 5.0
"""Seconds in which a command that was asked to has to end."""

_CLOCK_MONOTONIC = 1
_PR_SET_NAME = 15


def main(owner: tuple[int, int, tuple[int, ...]] | None) -> NoReturn:
    """Do what orders say, one after the other, and exit: EXIT_LIMIT when a limit was over, else 0.

    Args:
        owner: as Holder has it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"mqs")  # what another debugger sees that finds a process held
    controller = os.getppid()
    whose = Owner(*owner) if owner else None
    code = 0
    try:
        while not code:
            order = next_order()
            assert isinstance(order, Order | Watch)
            end = time.monotonic() + order.limit
            disarm = _end_after(order.limit + _LAST_RESORT)
            is_over = _hold(order, end, whose) if isinstance(order, Order) else _watch(order, end, whose)
            disarm()
            if is_over:
                code = EXIT_LIMIT
                os.close(1)
                if isinstance(order, Order) and order.final_message and not _is_told(_NOTICING):
                    _end_controller(controller, order.final_message)
    except (EOFError, BrokenPipeError):
        pass
    os._exit(code)  # at once: the others' stop is taken to last until we are gone


def _hold(order: Order, end: float, owner: Owner | None) -> bool:
    """Hold what is to be held; return whether that lasted to the end of the time."""
    tracer = Tracer(order.started, _sleep, owner)
    began = time.monotonic()
    try:
        send(1, _try(lambda: _stop(tracer, order, began, end)))
        if is_told := _is_told(end - time.monotonic()):
            next_order()
    finally:
        tracer.resume()
    _end_if(tracer.keeps)
    if is_told:
        send(1, pickle.dumps(None))
    return not is_told


def _stop(tracer: Tracer, order: Order, began: float, end: float) -> Standing:
    failures = tracer.stop(order.pids, min(began + order.deadline, end))
    return Standing(began, failures, tracer.stop_signals, tracer.registers)


def _watch(order: Watch, end: float, owner: Owner | None) -> bool:
    """Notice what is to be noticed; return whether that lasted to the end of the time."""
    from mqs_dll.debugger.stopping.signal_filter import SignalFilter  # not to hold: that has to start quickly

    # SIGCHLD comes with each signal that a thread is about to get.
    with SignalFilter(order.calls, owner) as filter_, _woken_up_on(signal.SIGCHLD) as news:
        send(1, _try(filter_.start))
        while (left := end - time.monotonic()) > 0:
            ready = select.select([0, news], [], [], left)[0]
            if news in ready:
                os.read(news, select.PIPE_BUF)
                filter_.pass_on()
            if 0 in ready:
                next_order()
                counts = _try(filter_.end)
                _end_if(filter_.keeps)
                send(1, counts)
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


def _sleep(seconds: float) -> None:
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


def _end_controller(pid: int, final_message: str) -> None:
    """Say why, and end the process that hangs; one that somebody has stopped ends as soon as it goes on.

    One that speaks to us again, or ends, is let be: a second signal would take its exit code.
    """
    with suppress(OSError):
        os.write(2, final_message.encode())
    for number in (signal.SIGALRM, signal.SIGKILL):
        stat = read_stat(pid)
        if os.getppid() != pid or stat is None or (number is signal.SIGKILL and stat.state == "T"):
            return
        os.kill(pid, number)
        if _is_told(_ENDING):
            return
