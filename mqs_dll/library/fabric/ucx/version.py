"""Which release of UCX a process has."""

from __future__ import annotations

import re

from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.memory import Memory

VERSION_FUNCTION = "ucp_get_version_string"
MAX_VERSION_LENGTH = 16

_LOAD_ADDRESS = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x48\x8d\x05(.{4})\xc3", re.DOTALL)
"""lea disp32(%rip),%rax; ret: all that ucp_get_version_string does on x86_64, perhaps behind an endbr64."""


def version_of(image: TargetImage, memory: Memory) -> str:
    """Return what the VERSION_FUNCTION returns in this process, like "1.18.1".

    Raises:
        LayoutError: it is missing, or isn't what it is on x86_64.
    """
    address = image.find_function(VERSION_FUNCTION)
    if address is None:
        raise LayoutError(f"UCX's function {VERSION_FUNCTION} is missing")
    try:
        code = memory.read(address, 12)
        found = _LOAD_ADDRESS.match(code)
        if found is not None:
            text = memory.text(
                address + found.end() - 1 + int.from_bytes(found[1], "little", signed=True), MAX_VERSION_LENGTH
            )
            version = text.decode("ascii", "replace")
            if re.fullmatch(r"\d+\.\d+\.\d+\w*", version):
                return version
    except TargetReadError:
        pass
    raise LayoutError(f"UCX's function {VERSION_FUNCTION} doesn't tell its version in a known way")
