"""A program whose thread can be watched for returns, and which does meanwhile what it is asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from mqs_dll.debugger.stopping.holder import Holder
from mqs_dll.debugger.stopping.messages import WatchedReturn
from mqs_dll.debugger.stopping.returns import ReturnCounter

LOOPS, OBEYS = "function()", "obey()"
"""What it does forever: a call, or what it is asked for."""

_PROGRAM = """
import ctypes, os, queue, signal, struct, sys, threading, time
libc = ctypes.CDLL(None)
function = libc.getppid
address = ctypes.cast(function, ctypes.c_void_p).value
orders = queue.SimpleQueue()
def handle(*_):
    print("handled", flush=True)
def obey():
    exec(orders.get())
    print("done", flush=True)
RT_TGSIGQUEUEINFO = 297
def send_as_kernel(number, code, address):
    information = struct.pack("<iii4xQ", number, 0, code, address).ljust(128, bytes(1))
    assert libc.syscall(RT_TGSIGQUEUEINFO, os.getpid(), os.getpid(), number, information) == 0
threading.Thread(target=lambda: [orders.put(line) for line in sys.stdin], daemon=True).start()
print(address, flush=True)
while True:
    {action}
"""


@dataclass
class Returning:
    """The program."""

    process: subprocess.Popen[str]
    call: WatchedReturn
    """Of its first thread, to getppid()."""

    @property
    def pid(self) -> int:
        """Its PID."""
        return self.process.pid

    def do(self, statement: str) -> list[str]:
        """Have its first thread execute a statement; return what it has printed before it was done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{statement}\n")
        self.process.stdin.flush()
        said = []
        while (line := self.process.stdout.readline()) != "done\n":
            assert line, "it has ended"
            said.append(line.strip())
        return said


@contextmanager
def returning(action: str) -> Iterator[Returning]:
    """Run it; its first thread does something forever."""
    command = [sys.executable, "-c", _PROGRAM.format(action=action)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield Returning(process, WatchedReturn(process.pid, int(process.stdout.readline())))
        finally:
            process.kill()


def can_count(call: WatchedReturn) -> None:
    """Skip where the kernel doesn't count."""
    try:
        ReturnCounter(*call).close()
    except OSError as error:
        pytest.skip(f"this kernel doesn't let us count: {error}; see kernel.perf_event_paranoid")


@contextmanager
def holding() -> Iterator[Holder]:
    """Run what holds processes, or notices their returns."""
    holder = Holder(speaks=False)
    try:
        yield holder
    finally:
        holder.let_go()
