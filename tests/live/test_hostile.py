"""Hostile memory: any pointer may be wild, any list a loop, any count absurd. Real jobs, with bytes laid over."""

from __future__ import annotations

import struct

import pytest

from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import (
    BadCallError,
    BrokenStructureError,
    LayoutError,
    MqsError,
    TargetReadError,
    TooMuchError,
)
from mqs_dll.library import bounds
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.adapter import AttachedOpenMpi
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.session import Library, ProcessSession
from tests.support.mpis import OB1, open_mpis
from tests.support.scenes import DOZEN, scenes
from tests.support.sweep import sweep
from tests.support.tampered import Tampered

pytestmark = scenes((mpi, OB1, DOZEN) for mpi in open_mpis())


def _insides(process: ProcessSession, name: bytes) -> tuple[AttachedOpenMpi, OmpiEntry]:
    """Return the walker of a session and its entry for a communicator, to know what to tamper with."""
    process.update_communicator_list()
    mpi = process._mpi
    assert isinstance(mpi, AttachedOpenMpi)
    entry = next(entry for entry in process._entries or [] if entry.record.name == name)
    assert isinstance(entry, OmpiEntry)
    return mpi, entry


def _ob1_comm(process: ProcessSession, name: bytes) -> tuple[AttachedOpenMpi, views.Ob1Comm]:
    mpi, entry = _insides(process, name)
    return mpi, views.Ob1Comm.bind(mpi._layouts).at(mpi._memory, entry.view.c_pml_comm)


def _next_offset(mpi: AttachedOpenMpi) -> int:
    return views.OpalListItem.bind(mpi._layouts).offsets["opal_list_next"]


def test_a_list_that_is_a_loop_is_broken_after_its_items(target: Tampered, session: ProcessSession) -> None:
    """Receives that link back to themselves are listed once; then the queue breaks off with a sentence."""
    mpi, comm = _ob1_comm(session, b"field 0")
    first = comm.first_wild_receive
    target.write(first + _next_offset(mpi), first)
    operations, error = sweep(session)[b"field 0"][Queue.RECEIVES]
    assert sorted(operation.desired_tag for operation in operations) == [1, 2]
    assert isinstance(error, BrokenStructureError)
    assert "broken after 1" in str(error)


def test_a_length_that_no_memory_has_is_broken(target: Tampered, session: ProcessSession) -> None:
    """A count whose bytes don't fit into the interface's fields ends the queue with a sentence."""
    mpi, comm = _ob1_comm(session, b"field 0")
    offset = views.RecvRequest.bind(mpi._layouts).offsets["req_count"]
    target.write(comm.first_wild_receive + offset, (1 << 63) + 5)
    _, error = sweep(session)[b"field 0"][Queue.RECEIVES]
    assert isinstance(error, BrokenStructureError)
    assert "more bytes than memory has" in str(error)


def test_a_wild_link_is_broken_after_the_items_before_it(target: Tampered, session: ProcessSession) -> None:
    """A link to nowhere ends the list with the address that could not be read."""
    mpi, comm = _ob1_comm(session, b"field 0")
    target.write(comm.first_wild_receive + _next_offset(mpi), 0xDEAD0000)
    operations, error = sweep(session)[b"field 0"][Queue.RECEIVES]
    assert len(operations) == 2
    assert isinstance(error, BrokenStructureError)
    assert "0xdead" in str(error)


def test_a_link_to_another_object_is_no_receive(target: Tampered, session: ProcessSession) -> None:
    """What hangs in a list of receives must be a receive by its class: nothing is made up from other objects."""
    mpi, comm = _ob1_comm(session, b"field 0")
    target.write(comm.first_wild_receive + _next_offset(mpi), comm.address)
    operations, error = sweep(session)[b"field 0"][Queue.RECEIVES]
    assert sorted(operation.desired_tag for operation in operations) == [1, 2]
    assert isinstance(error, BrokenStructureError)


def test_one_broken_communicator_leaves_the_others_whole(target: Tampered, session: ProcessSession) -> None:
    """A communicator whose lists are gone says so in its own queues; all others answer as before."""
    whole = sweep(session)
    _, entry = _insides(session, b"field 0")
    target.write(entry.view.address + views.OmpiCommunicator.bind(_mpi(session)._layouts).offsets["c_pml_comm"], 0)
    broken = sweep(session)
    assert broken[b"field 0"][Queue.UNEXPECTED][1] is not None
    del whole[b"field 0"], broken[b"field 0"]
    assert broken == whole


def _mpi(session: ProcessSession) -> AttachedOpenMpi:
    mpi = session._mpi
    assert isinstance(mpi, AttachedOpenMpi)
    return mpi


def test_a_process_that_nobody_has_talked_to_is_a_number_in_its_group(
    target: Tampered, session: ProcessSession
) -> None:
    """On many nodes Open MPI keeps (job, rank) in the entry itself, bit 0 set: it names the same process."""
    mpi, entry = _insides(session, b"MPI_COMM_WORLD")
    own, group = mpi._groups.own(), mpi._groups.at(entry.view.c_local_group)
    family, local = own.jobid >> 16, own.jobid & 0xFFFF
    target.write(group.grp_proc_pointers + 8 * 2, 2 << 32 | family << 16 | local << 1 | 1)
    target.write(group.grp_proc_pointers + 8 * 3, 3 << 32 | family << 16 | (local + 1) << 1 | 1)
    session.update_communicator_list()
    session.setup_communicator_iterator()
    assert session.get_comm_group() == [0, 1, 2, -1]  # the last one is now of another job


@pytest.mark.parametrize("placeholder", ["number", "parent"])
def test_a_number_that_is_being_agreed_on_is_no_communicator(
    target: Tampered, session: ProcessSession, placeholder: str
) -> None:
    """While MPI_Comm_dup agrees on a number, its slot holds 1 (since 5.0.4) or the parent: neither is listed."""
    mpi, entry = _insides(session, b"field 5")
    table = views.OpalPointerArray.bind(mpi._layouts).at(mpi._memory, mpi._symbols.need("ompi_mpi_communicators"))
    _, world = _insides(session, b"MPI_COMM_WORLD")
    target.write(table.addr + 8 * entry.slot, 1 if placeholder == "number" else world.view.address)
    found = sweep(session)
    assert len(found) == len(session._entries or []) == 7
    assert b"field 5" not in found
    fresh = Library().setup_image(target.image).setup_process(target)
    assert "Open MPI" in fresh.has_queues()


def test_an_absurd_count_is_refused_before_it_is_read(target: Tampered, session: ProcessSession) -> None:
    """A table of a thousand million communicators is an error, not a fetch of gigabytes."""
    mpi = _mpi(session)
    table = mpi._symbols.need("ompi_mpi_communicators")
    offsets = views.OpalPointerArray.bind(mpi._layouts).offsets
    target.overlay[table + offsets["size"]] = struct.pack("<i", 1_000_000_000)
    target.fetched.clear()
    with pytest.raises(MqsError, match="1000000000 slots"):
        session.update_communicator_list()
    assert len(target.fetched) < 10


def test_a_failed_update_leaves_no_old_list(target: Tampered, session: ProcessSession) -> None:
    """After any update, also one that failed, there is nothing to iterate over: what is old isn't passed off as new."""

    def iterate() -> None:
        session.setup_communicator_iterator()
        session.setup_operation_iterator(Queue.RECEIVES)

    def expect_nothing() -> None:
        for call in (session.get_communicator, session.next_communicator, session.next_operation):
            with pytest.raises(BadCallError):
                call()

    iterate()
    session.update_communicator_list()
    expect_nothing()
    iterate()
    table = _mpi(session)._symbols.need("ompi_mpi_communicators")
    target.write(table + views.OpalPointerArray.bind(_mpi(session)._layouts).offsets["addr"], 0xDEAD0000)
    with pytest.raises(TargetReadError):
        session.update_communicator_list()
    expect_nothing()
    with pytest.raises(TargetReadError):
        session.setup_communicator_iterator()
    expect_nothing()
    target.overlay.clear()
    iterate()
    assert session.get_communicator() is not None


def _receive_tag(session: ProcessSession) -> int:
    """Return where the tag of a receive on "field 0" lies."""
    mpi, comm = _ob1_comm(session, b"field 0")
    return comm.first_wild_receive + views.RecvRequest.bind(mpi._layouts).offsets["req_tag"]


def _tags(session: ProcessSession) -> list[int]:
    operations, error = sweep(session)[b"field 0"][Queue.RECEIVES]
    assert error is None
    return sorted(operation.desired_tag for operation in operations)


def test_what_cuts_an_update_off_leaves_nothing_that_is_passed_off_as_new(
    target: Tampered, session: ProcessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an update that was given up or interrupted amid its reads, the next one shows what there is now."""
    place = _receive_tag(session)
    session.update_communicator_list()
    assert _tags(session) == [1, 2]

    target.write(place, 77, 4)
    with monkeypatch.context() as patch:
        patch.setattr(bounds, "MAX_FETCHES", 2)
        with pytest.raises(TooMuchError):
            session.update_communicator_list()
    assert 77 in _tags(session)

    target.write(place, 78, 4)
    left = iter(range(2))

    def interrupt() -> bool:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return False

    target.fails = interrupt
    with pytest.raises(KeyboardInterrupt):
        session.update_communicator_list()
    target.fails = None
    assert 78 in _tags(session)


def test_an_iteration_that_was_interrupted_does_not_end_as_if_the_queue_did(
    target: Tampered, session: ProcessSession
) -> None:
    """After a Ctrl-C within a call the next one says so, until the iterator is set up again."""

    def interrupt() -> bool:
        raise KeyboardInterrupt

    _insides(session, b"field 0")
    session.setup_communicator_iterator()
    while (record := session.get_communicator()) is not None and record.name != b"field 0":
        session.next_communicator()
    session.setup_operation_iterator(Queue.RECEIVES)
    assert session._memory is not None
    session._memory.forget()
    target.fails = interrupt
    with pytest.raises(KeyboardInterrupt):
        session.next_operation()
    target.fails = None
    for _ in range(2):
        with pytest.raises(BrokenStructureError, match="cut off"):
            session.next_operation()
    session.setup_operation_iterator(Queue.RECEIVES)
    assert session.next_operation() is not None


@pytest.mark.parametrize("member", ["c_my_rank", "c_local_group", "c_flags"])
def test_a_build_whose_members_are_elsewhere_is_refused(target: Tampered, member: str) -> None:
    """Where MPI_COMM_WORLD contradicts itself, no profile is accepted, and the sentence says which invariant failed."""
    healthy = Library().setup_image(target.image).setup_process(target)
    _, entry = _insides(healthy, b"MPI_COMM_WORLD")
    offset = views.OmpiCommunicator.bind(_mpi(healthy)._layouts).offsets[member]
    target.write(entry.view.address + offset, 0x7000, 4)
    process = Library().setup_image(target.image).setup_process(target)
    with pytest.raises(LayoutError, match="profile openmpi-"):
        process.has_queues()


def test_a_struct_of_another_size_is_refused(target: Tampered) -> None:
    """A build whose structs are larger, as a debug build's, fits no profile: the sentence names struct and sizes."""
    healthy = Library().setup_image(target.image).setup_process(target)
    healthy.has_queues()
    mpi = _mpi(healthy)
    descriptor = mpi._symbols.need("mca_pml_base_request_t_class")
    offset = views.OpalClass.bind(mpi._layouts).offsets["cls_sizeof"]
    target.write(descriptor + offset, 568)
    process = Library().setup_image(target.image).setup_process(target)
    with pytest.raises(LayoutError, match="mca_pml_base_request_t has 568 bytes"):
        process.has_queues()


def test_a_sweep_of_a_dozen_operations_takes_at_most_60_reads(target: Tampered, session: ProcessSession) -> None:
    """8 communicators and 12 operations: Open MPI's own library needs about a thousand reads for them."""
    target.fetched.clear()
    found = sweep(session)
    assert len(found) == 8
    assert sum(len(operations) for queues in found.values() for operations, _ in queues.values()) == 12
    assert len(target.fetched) <= 60
