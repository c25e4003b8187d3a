"""Which device a process uses."""

from __future__ import annotations

from mqs_dll.mpi.mpich import views
from mqs_dll.mpi.mpich.ch3 import Ch3
from mqs_dll.mpi.mpich.ch4 import Ch4
from mqs_dll.mpi.mpich.device import Device, HiddenDevice, Parts
from mqs_dll.mpi.mpich.intel import Intel


def select(parts: Parts) -> Device:
    """Return the reader for the device of a process's MPICH."""
    if parts.layouts.offset(views.Request.struct, "dev.match.parts.tag") is not None:
        return Ch3(parts)
    if views.LinkedExtension.struct in parts.layouts and (
        parts.layouts.offset(views.LinkedExtension.struct, "rreq.next") is not None
    ):
        return Intel(parts)
    if parts.layouts.offset(views.Request.struct, "dev.ch4.self.tag") is not None:
        return Ch4(parts)
    return HiddenDevice(parts.release.device or "an unknown device", "libmqs knows no walker of it")
