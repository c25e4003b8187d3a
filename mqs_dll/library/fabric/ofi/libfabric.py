"""libfabric in one process: its release, and what is an object of it.

Every object begins with a struct fid: its class, the MPI's context, and the table of its functions, which lies among
libfabric's own data (include/rdma/fabric.h, the same in 1.17.0, 1.22.0 and 2.5.1).
"""

from __future__ import annotations

import enum
import re
import struct

from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.memory import Memory

VERSION_FUNCTION = "fi_version"

_VERSION = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xb8(..)(..)\xc3", re.DOTALL)
"""mov $version,%eax; ret: all that fi_version does on x86_64, perhaps behind an endbr64."""

_FID = struct.Struct("<QQQ")

NEAR = 1 << 24
"""Bytes; libfabric has fewer."""


class FidClass(enum.IntEnum):
    """The class of an object of libfabric's (FI_CLASS_...)."""

    FABRIC = 1
    DOMAIN = 2
    EP = 3
    SEP = 4
    RX_CTX = 5
    SRX_CTX = 6
    TX_CTX = 7
    AV = 11
    CQ = 14
    CNTR = 15


_FID_CLASSES = frozenset(FidClass)


class Libfabric:
    """libfabric in one process."""

    def __init__(self, image: TargetImage, memory: Memory) -> None:
        """Find it.

        Raises:
            LayoutError: it isn't there, or doesn't tell its version as it does on x86_64.
        """
        function = image.find_function(VERSION_FUNCTION)
        if function is None:
            raise LayoutError(f"libfabric's function {VERSION_FUNCTION} is missing")
        self.memory = memory
        self._function = function
        self.release = _release(memory, function)
        """Major and minor, like "1.22"."""

    @property
    def name(self) -> str:
        """Its name and release for people, like "libfabric 1.22"."""
        return f"libfabric {self.release}"

    def kind(self, address: int) -> FidClass | None:
        """Return the class of the object at an address; None where there is none of libfabric's."""
        try:
            kind, _, functions = self.memory.unpack(_FID, address)
        except TargetReadError:
            return None
        return FidClass(kind) if kind in _FID_CLASSES and abs(functions - self._function) < NEAR else None


def _release(memory: Memory, function: int) -> str:
    try:
        found = _VERSION.match(memory.read(function, 10))
    except TargetReadError:
        found = None
    if found is None:
        raise LayoutError(f"libfabric's function {VERSION_FUNCTION} doesn't tell its version in a known way")
    minor, major = (int.from_bytes(each, "little") for each in found.groups())
    return f"{major}.{minor}"
