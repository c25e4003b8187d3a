"""Where the members of UCX's structs lie, by release and kind of build, and which of these a process has.

The members of structs that no profile of an MPI can know, since an MPI takes whatever UCX is there. A layout is an arm
of a release: with UCX's assertions, as distributions build it, requests have more members. Nothing is believed by its
release alone: ``worker`` compares what a worker shows of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.memory import Memory

VERSION_FUNCTION = "ucp_get_version_string"
MAX_VERSION_LENGTH = 16

_ASSERTIONS = 8
"""Bytes that assertions add before some members of a request."""

_LOAD_ADDRESS = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x48\x8d\x05(.{4})\xc3", re.DOTALL)
"""lea disp32(%rip),%rax; ret: all that ucp_get_version_string does on x86_64, perhaps behind an endbr64."""


class Arm(NamedTuple):
    """One release and kind of build; offsets in bytes."""

    minor: int
    """Of release 1.minor."""
    assertions: bool
    request: int
    """sizeof(ucp_request_t), without what the MPI asks for behind it."""
    pool: int
    """Of the pool of requests in a worker."""
    op: int
    """Of the kind of operation in the record of a protocol."""

    @property
    def name(self) -> str:
        """The layout's name for people."""
        return f"UCX 1.{self.minor}{' with assertions' if self.assertions else ''}"

    def layouts(self) -> Layouts:
        """Return the layouts of all structs."""
        matching = 744 if self.minor <= 18 else 752
        old_pool = self.minor <= 13
        worker = {
            "req_mp": self.pool,
            "name": self.pool + 52,
            "tm": self.pool + matching,
        }
        structs = {
            "ucp_worker": worker,
            "ucp_tag_match": {
                "expected.wildcard": 0,
                "expected.hash": 24,
                "expected.sw_all_count": 40,
                "unexpected.all": 48,
            },
            "ucs_mpool": {"data": 8},
            "ucs_mpool_data": {
                "elem_size": 0,
                "alignment": 8,
                "chunks": 40 if old_pool else 64,
                "ops": 48 if old_pool else 72,
            },
            "ucs_mpool_chunk": {"next": 0, "elems": 8, "num_elems": 16},
            "ucp_proto_config": {"select_param.op_id_flags": self.op},
            "ucp_recv_desc": {"tag_list": 16, "length": 32, "payload_offset": 36, "flags": 40, "tag": 48},
            "ucp_request": self._request(),
        }
        sizes = {"ucp_request": self.request}
        origin = f"layout {self.name}"
        return Layouts(StructLayout(name, sizes.get(name), members, origin) for name, members in structs.items())

    def _request(self) -> dict[str, int]:
        """Return the members of a request; 1.16 put what all receives have before what those of tags have."""
        late = self.minor >= 16
        more = _ASSERTIONS if self.assertions and late else 0
        tag = (168 if late else 192) + more
        return {
            "flags": 4,
            "id": 8,
            "user_data": 16,
            "recv.queue": (152 if late else 24) + more,
            "recv.dt": 32 if late else 40,
            "recv.buffer": 56 if late else 32,
            "recv.length": 40 if late else 48,
            "recv.worker": (88 if late else 112) + more,
            "recv.tag.tag": tag,
            "recv.tag.tag_mask": tag + 8,
            "recv.tag.sn": tag + 16,
            "recv.tag.info": tag + 32,
            "send.ep": 24,
            "send.buffer": 32,
            "send.length": 48,
            "send.proto_config": 80,
            "send.state.dt_iter.length": 96,
            "send.state.dt_iter.type.contig.buffer": 112,
            "send.msg_proto.tag": 168 + (_ASSERTIONS if self.assertions else 0),
            "send.uct.func": self.request - 48,
        }


_POOL, _POOL_13, _POOL_18 = 120, 136, 144
"""Of a worker without assertions; with them, before 1.18 and since."""

ARMS = tuple(
    Arm(minor, assertions, request + (_ASSERTIONS if assertions else 0), pool if assertions else _POOL, op)
    for minor, request, pool, op in (
        (13, 264, _POOL_13, 18),
        (14, 264, _POOL_13, 26),
        (15, 264, _POOL_13, 26),
        (16, 264, _POOL_13, 26),
        (17, 264, _POOL_13, 26),
        (18, 264, _POOL_18, 18),
        (19, 264, _POOL_18, 18),
        (20, 272, _POOL_18, 18),
        (21, 272, _POOL_18, 20),
    )
    for assertions in (False, True)
)
"""Seen in processes: 1.13 with assertions (Debian 12), 1.18 and 1.20 without (wheels of Open MPI and MPICH)."""


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


def nearest(version: str) -> Iterator[Layouts]:
    """Yield layouts in the order in which to try them on a version: its own first, then its neighbours'."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if major == 1:
        for arm in sorted(ARMS, key=lambda arm: abs(arm.minor - minor)):
            yield arm.layouts()
