"""MPICHs without a profile: layouts are fitted from those of their release line, or refused; nothing wrong is shown."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import LayoutError
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import Profile, available, shipped
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.base import AttachedMpi
from mqs_dll.library.mpi.mpich import adapter as mpich_adapter
from mqs_dll.library.mpi.mpich import fitting, fitting_shm, handles, views
from mqs_dll.library.mpi.mpich.adapter import AttachedMpich
from mqs_dll.library.mpi.openmpi import adapter as openmpi_adapter
from mqs_dll.library.session import Library
from tests.support.matrix import WITHOUT_PROFILES, Matrix
from tests.support.mpis import NETMODS, ONLY_UCX, SHM, find_mpis, mpichs, mpis_inside
from tests.support.scenes import (
    COLLECTIVES,
    COMMUNICATORS,
    DIRECT,
    DOZEN,
    SEEN_IN_ALL_WAYS,
    SENDS,
    TRAFFIC,
    Case,
    Scene,
    read_by,
    scenes,
)
from tests.support.tampered import Tampered, look, reasons
from tests.support.truth.communicators import compare_communicators
from tests.support.truth.queues import compare_operations

IDLE = Case("idle", 2)
RANDOM = tuple(Case("random", 2 + seed % 3, (str(seed),)) for seed in range(6))
SECONDS = 0.5
"""Of the processor that fitting may take, with the search of the fabric."""

DEBIAN = [mpi for mpi in mpichs() if mpi.name == "mpich-debian"]
WITHOUT_SHARED_MEMORY = [*DEBIAN, *(mpi for mpi in mpis_inside() if mpi.name == "mpich-trixie")]
WITH_SHARED_MEMORY = [mpi for mpi in mpichs() if mpi.name in ("mpich-4.0.3-pypi", "mpich-4.2.3-pypi")]
OTHER_LINES = ("mpich-4.1.3-pypi", "mpich-4.3.2-pypi", "mpich-5.0.2-pypi")
RELATED = [*WITHOUT_SHARED_MEMORY, *WITH_SHARED_MEMORY]
"""Those of whose release line another build has a profile."""


def attached(process: Tampered | LiveProcess) -> AttachedMpich:
    """Return the MPICH of a process."""
    session = Library().setup_image(process.image).setup_process(process)
    session.has_queues()
    return as_mpich(session._attach())


def as_mpich(mpi: AttachedMpi[Any]) -> AttachedMpich:
    """Return an MPICH as what it is."""
    assert isinstance(mpi, AttachedMpich)
    return mpi


Withhold = Callable[[LiveProcess | Tampered], AttachedMpi[Any]]


@pytest.fixture
def withhold(monkeypatch: pytest.MonkeyPatch) -> Withhold:
    """Return what takes away the profiles of a process's release, and returns what was known by them."""

    def take_away(process: LiveProcess | Tampered) -> AttachedMpi[Any]:
        session = Library().setup_image(process.image).setup_process(process)
        session.has_queues()
        release = session.facts().release

        def others(mpi: str) -> tuple[list[Profile], list[str]]:
            profiles, refused = available(mpi)
            return [each for each in profiles if release not in each.releases], refused

        for adapter in (mpich_adapter, openmpi_adapter):
            monkeypatch.setattr(adapter, "available", others)
        monkeypatch.setattr(fitting, "_known_starts", {})
        return session._attach()

    return take_away


def shown_without_profiles(scene: Scene) -> str:
    """Return what docs/support-matrix.md says of an MPI whose release has no profile, after comparing all of it."""
    try:
        seen = read_by(scene.job.mpi, DIRECT, scene.processes)
    except LayoutError:
        return "refused"
    gone = scene.job.transport in NETMODS
    for truth, process, each in zip(scene.truths, scene.processes, seen, strict=True):
        assert compare_communicators(truth, each.communicators, freed_may_be_gone=gone) == []
        assert compare_operations(truth, each.communicators, process.fetch) == []
    return "right"


@scenes((mpi, mpi.transports[0], COMMUNICATORS) for mpi in (*find_mpis(), *mpis_inside()) if mpi.in_matrix)
def test_without_its_profiles_an_mpi_is_shown_right_or_not(scene: Scene, withhold: Withhold, matrix: Matrix) -> None:
    """What is shown is what MPI told the program. An MPICH of whose line another build has a profile isn't refused."""
    withhold(scene.processes[0])
    mpi = scene.job.mpi
    shown = shown_without_profiles(scene)
    assert shown == "right" or mpi not in RELATED
    matrix.record(mpi, scene.job.transport, WITHOUT_PROFILES, shown)


FITTED = [*((mpi, ONLY_UCX) for mpi in DEBIAN), *((mpi, SHM) for mpi in WITH_SHARED_MEMORY)]


@scenes((*place, case) for place in FITTED for case in (*SEEN_IN_ALL_WAYS, *TRAFFIC, *COLLECTIVES, *RANDOM))
def test_all_that_a_fitted_layout_shows_is_true(scene: Scene, withhold: Withhold) -> None:
    """Communicators, and each field of each operation, are those that MPI told the program.

    A rank that has sends alone shows its queues once another one has shown where they lie.
    """
    withhold(scene.processes[0])
    read_by(scene.job.mpi, DIRECT, scene.processes)
    gone = scene.job.transport in NETMODS
    for truth, process, each in zip(
        scene.truths, scene.processes, read_by(scene.job.mpi, DIRECT, scene.processes), strict=True
    ):
        if scene.job.program == COMMUNICATORS.program:
            assert compare_communicators(truth, each.communicators, freed_may_be_gone=gone) == []
        assert compare_operations(truth, each.communicators, process.fetch) == []


def members(layouts: Layouts) -> dict[tuple[str, str], int]:
    """Return where each member of MPICH's structs lies."""
    return {(struct.name, member): offset for struct in layouts for member, offset in struct.offsets.items()}


@scenes((mpi, ONLY_UCX, DOZEN) for mpi in DEBIAN)
def test_each_fitted_member_lies_where_calibration_found_it(target: Tampered, withhold: Withhold) -> None:
    """Fitting finds every member that the profile of this build has, and takes no more than half a second."""
    known = as_mpich(withhold(target))._identity.common.layouts
    start = time.process_time()
    fitted = attached(target)._identity.common
    assert time.process_time() - start < SECONDS
    assert members(known).items() <= members(fitted.layouts).items()
    assert {struct.name: struct.size for struct in known}.items() <= {
        struct.name: struct.size for struct in fitted.layouts
    }.items()
    assert any("close at one place alone" in each and "refer back" in each for each in fitted.checks)


@scenes((mpi, ONLY_UCX, IDLE) for mpi in DEBIAN)
def test_what_no_request_has_shown_is_left_out_until_one_of_another_rank_has(
    target: Tampered, withhold: Withhold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank without requests shows its communicators, and why not its queues; what another rank shows holds for it."""
    known = as_mpich(withhold(target))
    session = Library().setup_image(target.image).setup_process(target)
    assert "dev of MPIR_Request left out" in session.has_queues()
    shown = look(target)
    assert [each.communicator.name for each in shown.communicators] == [b"MPI_COMM_WORLD", b"MPI_COMM_SELF"]
    for queue in Queue:
        (reason,) = reasons(shown, queue)
        assert fitting.NOT_SHOWN[0] in reason
    layouts = known._identity.common.layouts
    start = layouts.offset(fitting.REQUEST, fitting.STARTS[0])
    key = known._identity.library.build, layouts.size(fitting.REQUEST)
    monkeypatch.setitem(fitting._known_starts, key, start)
    assert "dev shifted by -16 in MPIR_Request" in session.has_queues()
    assert not any(reasons(look(target), queue) for queue in Queue)


def refused(target: Tampered, why: str) -> None:
    """Make sure that nothing is fitted, for one reason."""
    with pytest.raises(LayoutError, match=re.escape(why)):
        attached(target)


@scenes((mpi, ONLY_UCX, DOZEN) for mpi in DEBIAN)
def test_what_contradicts_a_fit_refuses_it(target: Tampered, withhold: Withhold) -> None:
    """Maps that close at two places or at none, and requests that show another place or several, are not believed."""
    known = as_mpich(withhold(target))._identity
    layouts, memory = known.common.layouts, Memory(target)
    map, size = layouts.offset(fitting.COMM, fitting.MAP), layouts.size(fitting.COMM)
    start = layouts.offset(fitting.REQUEST, fitting.STARTS[0])
    assert map is not None
    assert start is not None
    assert known.builtin is not None
    comms = [known.builtin, known.builtin + size, *known.pools.live(handles.COMM)]
    for comm in comms:  # whole maps, once more, behind the pointers that are checked
        target.overlay[comm + 400] = memory.read(comm + map, 80)
    refused(target, f"communicators close at [400, {map}], and should at {map} alone")
    target.mend()

    target.write(comms[0] + map + views.RankMap.bind(layouts).offsets["size"], 7, 4)
    refused(target, f"communicators close at [], and should at {map} alone")
    target.mend()

    requests = [at for at in known.pools.live(handles.REQUEST) if memory.pointer(at + start)]
    first, *_ = requests
    target.write(first + start + 8, memory.pointer(first + start))
    refused(target, f"requests refer to UCX's at [{start}, {start + 8}], and should at one place")
    target.mend()

    for array in (array for pool in known.pools.by_class[handles.REQUEST] for array in known.pools.arrays(pool)):
        for at in range(
            array.address, array.address + 64 * layouts.size(fitting.REQUEST), layouts.size(fitting.REQUEST)
        ):
            word = memory.pointer(at + start)
            target.write(at + start, 0)
            target.write(at + start + 8, word)
    refused(target, "requests show their dev.ch4 shifted by -8, and it should be by -16")
    target.mend()

    target.write(first + layouts.struct(fitting.REQUEST).offsets["cc_ptr"], first)
    refused(target, "has no communicator, or no counter of completion")
    target.mend()
    attached(target)


@scenes((mpi, SHM, DOZEN) for mpi in WITH_SHARED_MEMORY)
def test_with_shared_memory_receives_show_where_requests_have_theirs(target: Tampered, withhold: Withhold) -> None:
    """Each member lies where calibration found it. Records at two places, or at none, hide the queues."""
    known = as_mpich(withhold(target))._identity
    layouts, memory = known.common.layouts, Memory(target)
    fitted = attached(target)._identity.common.layouts
    assert members(layouts).items() <= members(fitted).items()
    for struct in (fitting.REQUEST, views.AmExtension.struct):
        assert fitted.struct(struct).offsets == layouts.struct(struct).offsets
    offsets = layouts.struct(fitting.REQUEST).offsets
    start, first = offsets["dev.ch4.am.req"], offsets[fitting.STARTS[0]]
    requests = known.pools.live(handles.REQUEST)

    for at in requests:
        target.overlay[at + first] = memory.read(at + start, 48)
    hides_the_queues(target)
    for at in requests:
        target.write(at + offsets["dev.ch4.am.datatype"], 0, 4)
    hides_the_queues(target)
    assert fitting.NOT_SHOWN[0] not in str(look(target))


def hides_the_queues(target: Tampered) -> None:
    """Make sure that a process shows its communicators, and why not its queues; mend it."""
    fitting._known_starts.clear()
    shown = look(target)
    assert shown.communicators
    assert all(fitting.NOT_SHOWN[0] in each for queue in Queue for each in reasons(shown, queue))
    assert all(reasons(shown, queue) for queue in Queue)
    target.mend()


@scenes((mpi, SHM, DOZEN) for mpi in mpichs() if mpi.name in OTHER_LINES and not mpi.library)
def test_the_active_messages_of_another_netmod_s_build_are_found(
    target: Tampered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with other netmods, a profile has them 16 bytes further back: they are found where calibration found them."""
    known = attached(target)._identity.common
    assert known.profile is not None
    request = known.layouts.struct(fitting.REQUEST)
    offsets = {name: at + 16 if name.startswith(fitting_shm.AM) else at for name, at in request.offsets.items()}
    moved = request._replace(size=known.layouts.size(fitting.REQUEST) + 16, offsets=offsets)
    other = known.profile._replace(name="other", builds=(), layouts=Layouts([moved, *known.layouts]))
    monkeypatch.setattr(mpich_adapter, "available", lambda mpi: ([other], []))
    monkeypatch.setattr(fitting, "_known_starts", {})
    found = attached(target)._identity.common
    assert "fitted from profile other" in found.layouts.summary()
    assert found.layouts.struct(fitting.REQUEST).offsets == request.offsets


@scenes((mpi, SHM, DOZEN) for mpi in mpichs() if mpi.name == OTHER_LINES[-1] and not mpi.library)
def test_active_messages_that_no_profile_of_the_line_has_stay_unseen(
    target: Tampered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4.3 and 5.0 how they are laid out is known from a build with shared memory alone."""
    (other,) = (each for each in shipped("mpich") if each.name == "mpich-5.0.2-ucx-x86_64")
    monkeypatch.setattr(mpich_adapter, "available", lambda mpi: ([other], []))
    shown = look(target)
    assert shown.communicators
    assert all(fitting.NEVER_SHOWN[0] in each for queue in Queue for each in reasons(shown, queue))
    assert all(reasons(shown, queue) for queue in Queue)


@scenes((mpi, SHM, SENDS) for mpi in WITH_SHARED_MEMORY)
def test_a_rank_that_only_sends_shows_its_queues_once_another_rank_has(scene: Scene, withhold: Withhold) -> None:
    """ch4 leaves parts of a send's record as they were, which prove nothing."""
    withhold(scene.processes[0])
    session = Library().setup_image(scene.processes[0].image).setup_process(scene.processes[0])
    assert "left out" in session.has_queues()
    attached(scene.processes[1])
    assert "whose active messages lie at" in session.has_queues()


@scenes((mpi, ONLY_UCX, DOZEN) for mpi in DEBIAN)
def test_profiles_that_fit_and_differ_are_not_chosen_between(
    target: Tampered, withhold: Withhold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two profiles of a release line that both can be fitted, but have a member elsewhere, none is believed."""
    withhold(target)
    (profile,) = [each for each in shipped("mpich") if each.name == "mpich-4.0.3-x86_64"]
    other = profile.layouts.struct(views.MpirWin.struct)
    moved = other._replace(offsets={**other.offsets, "name": other.offsets["name"] + 8})
    twin = profile._replace(name="twin", layouts=Layouts([moved, *profile.layouts]))
    monkeypatch.setattr(mpich_adapter, "available", lambda mpi: ([profile, twin], []))
    refused(target, "profiles mpich-4.0.3-x86_64 and twin both can be fitted, and differ")
    monkeypatch.setattr(mpich_adapter, "available", lambda mpi: ([profile, profile._replace(name="twin")], []))
    attached(target)
