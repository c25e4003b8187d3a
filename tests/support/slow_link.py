"""A network of nodes on which each packet is under way for a time: TUN devices, since not every kernel has netem.

    slow_link.py SECONDS PID PID ...

gives the network namespace of each process a device "slow", and sends on what comes from one to the others. It ends
when its standard input does.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import selectors
import struct
import sys
import time
from collections import deque
from contextlib import suppress

NAME = "slow"
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000


def _device(pid: int) -> int:
    """Return the device's file, opened in the network namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net", "rb") as namespace:  # noqa: PTH123
        if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", NAME.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def main() -> None:
    """Carry packets until standard input ends."""
    seconds, devices = float(sys.argv[1]), [_device(int(pid)) for pid in sys.argv[2:]]
    waiting: deque[tuple[float, int, bytes]] = deque()
    selector = selectors.DefaultSelector()
    for each in (0, *devices):
        selector.register(each, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        left = waiting[0][0] - time.monotonic() if waiting else None
        for key, _ in selector.select(left if left is None else max(left, 0.0)):
            source = int(key.fd)
            if source == 0:
                return
            packet, due = os.read(source, 1 << 16), time.monotonic() + seconds
            waiting.extend((due, device, packet) for device in devices if device != source)
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, packet = waiting.popleft()
            with suppress(OSError):  # it isn't up yet
                os.write(device, packet)


if __name__ == "__main__":
    main()
