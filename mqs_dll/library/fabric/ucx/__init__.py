"""UCX: what one worker holds, whatever MPI it works for; it is believed once all that it shows of itself fits together.

- ``views``: the members that are read.
- ``version``: which release of UCX a process has.
- ``worker``: a worker, and what its layouts are.
- ``matching``: receives that wait, and messages that wait for one.
- ``pool``: the requests in use, and what each of them is.
- ``fitting``: where a worker has its members, in a build of UCX that no profile is of.
"""

from __future__ import annotations

from mqs_dll.contract.errors import LayoutError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.fabric.ucx import views
from mqs_dll.library.fabric.ucx.fitting import fitted
from mqs_dll.library.fabric.ucx.matching import has_messages
from mqs_dll.library.fabric.ucx.pool import confirm_operations
from mqs_dll.library.fabric.ucx.version import version_of
from mqs_dll.library.fabric.ucx.worker import HANDLE, UcxWorker
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import is_of_line, of_fabric
from mqs_dll.library.layouts.selection import Identity, LayoutSelection
from mqs_dll.library.memory import Memory


def find_worker(image: TargetImage, memory: Memory, address: int, user_bytes: int, mpi: str) -> UcxWorker:
    """Return the worker at an address.

    Args:
        image: that UCX's symbols are in.
        memory: of the process.
        address: of what is_worker.
        user_bytes: which the MPI asked UCX for behind each request.
        mpi: whose profiles may have a layout.

    Raises:
        LayoutError: UCX is of a release whose layouts don't fit this process.
    """
    ops = image.find_symbol("ucp_request_mpool_ops")
    if ops is None:
        raise LayoutError("UCX's symbol ucp_request_mpool_ops is missing")
    version, selection = version_of(image, memory), LayoutSelection()
    known = list(of_fabric("UCX", mpi, version))
    for layouts, is_to_fit in [*((each, False) for each in known), *((each, True) for each in known)]:
        source = layouts.summary().removeprefix("layout ") + " fitted" * is_to_fit
        worker = selection.try_candidate(
            source, _believed, memory, address, version, layouts, ops, user_bytes, is_to_fit=is_to_fit
        )
        if worker is not None:
            worker.fabric = worker.fabric._replace(refusals=tuple(selection.refusals))
            return worker
    why = "; ".join(selection.refusals[:2])
    raise LayoutError(f"no known layout fits UCX {version} in this process: {why}")


def _believed(
    memory: Memory, address: int, version: str, layouts: Layouts, ops: int, user_bytes: int, *, is_to_fit: bool
) -> UcxWorker:
    """Return the worker at an address as some layouts describe it, fitted to it or as they are.

    Raises:
        LayoutError: they don't fit.
        TargetReadError: what must be there can't be read.
    """
    is_certain = is_of_line(layouts, version) and not is_to_fit
    if is_to_fit:
        layouts = fitted(memory, address, layouts, ops)
    size, checks = _check(memory, address, layouts, ops, user_bytes)
    worker = UcxWorker(memory, address, Identity(f"UCX {version}", layouts, checks=checks), size, ops)
    if not is_certain:
        confirm_operations(worker)
    return worker


def _check(memory: Memory, address: int, layouts: Layouts, ops: int, user_bytes: int) -> tuple[int, tuple[str, ...]]:
    """Return the bytes of a request, and what holds of a worker: pool, name and lists are what they must be.

    Raises:
        LayoutError: one of them isn't.
        TargetReadError: one of them can't be read.
    """
    reader = views.UcpWorker.bind(layouts)
    worker = reader.at(memory, address)
    pool = views.UcsMpool.bind(layouts).at(memory, address + worker.req_mp)
    data = views.UcsMpoolData.bind(layouts).at(memory, pool.data)
    if data.ops != ops:
        raise LayoutError("the worker has no pool of requests where it should be")
    size = data.elem_size - HANDLE - user_bytes
    known = layouts.struct(views.UcpRequest.struct).size
    if known not in (size, None):
        raise LayoutError(f"requests have {known} bytes there, and {size} here")
    if memory.text(address + worker.name, views.MAX_NAME) != f"{address:#x}".encode():
        raise LayoutError("the worker's name is not where it should be")
    if not has_messages(memory, views.TagMatch.bind(layouts).at(memory, address + worker.tm)):
        raise LayoutError("the worker has no list of messages where it should be")
    return size, (
        f"the worker's pool is that of UCX's requests, which have {size} bytes",
        "the worker has its address for its name",
        "the ends of its list of messages refer to the list",
    )
