"""The order in which MPICH's structs are found, and which views an MPICH's profile is for.

Each step builds on those before it. Releases keep the processes of a communicator in one of three ways: the steps for
all three are tried, and exactly one must succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqs_dll.calibrate.mpich import allocation, ch3, ch4, communicators, intel, objects, processes, requests
from mqs_dll.calibrate.mpich.identity import Device
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.mpich import views
from mqs_dll.view import View

Step = Callable[[PoolLedger], None]

FIRST: tuple[Step, ...] = (allocation.find_pools, communicators.find_process)
WAYS: tuple[tuple[Step, tuple[type[View], ...]], ...] = (
    (processes.find_maps, (views.RankMap,)),
    (processes.find_groups, (views.Group, views.StridedGroup)),
    (processes.find_connections, (views.Vcrt, views.VirtualConnection)),
)
"""From ranks to processes: ch4 to 4.3, 5.0, ch3."""

COMMON: tuple[Step, ...] = (
    communicators.find_communicator,
    communicators.find_context_ids,
    communicators.find_hidden,
    communicators.find_attributes,
    objects.find_datatype,
    objects.find_window,
    requests.find_request,
    requests.find_status,
    requests.find_persistent,
)
ARMS_OF_CH4: tuple[Step, ...] = (ch4.find_inactive, ch4.find_partitioned, ch4.find_self)
DEVICES: dict[Device, tuple[tuple[Step, ...], tuple[type[View], ...]]] = {
    Device.CH4: (
        (
            requests.find_links,
            requests.find_locality,
            ch4.find_receive,
            ch4.find_extension,
            ch4.find_progress,
            ch4.find_flow,
            ch4.find_destination,
            ch4.find_type,
            ch4.find_header,
            *ARMS_OF_CH4,
        ),
        views.CH4,
    ),
    Device.CH3: ((ch3.find_match, ch3.find_arguments, ch3.find_progress, requests.find_links), views.CH3[2:]),
    Device.INTEL: (
        (
            requests.find_locality,
            ch4.find_receive,
            ch4.find_extension,
            intel.find_queues,
            intel.find_asked_process,
            ch4.find_inactive,
            ch4.find_partitioned,
        ),
        (*views.INTEL, views.PartitionedRequest),
    ),
    Device.NETWORK: (
        (requests.find_links, *ARMS_OF_CH4),
        (views.PersistentRequest, views.PartitionedRequest, views.SelfRequest),
    ),
}
"""What is to be found of each device's requests, and the views that need it."""


def find_all(ledger: PoolLedger, device: Device) -> tuple[list[type[View]], list[str]]:
    """Find what the dumps show.

    Returns:
        The views that this MPICH has, and what could not be found: one sentence for each step that failed.
    """
    wanted: list[type[View]] = list(views.COMMON)
    failures = _failures(ledger, FIRST)
    ways = [(_failures(ledger, [step]), views_of) for step, views_of in WAYS]
    found = [views_of for failed, views_of in ways if not failed]
    if len(found) == 1:
        wanted += found[0]
    else:
        failures += [sentence for failed, _ in ways for sentence in failed] or [
            "ranks lead to processes in several ways"
        ]
    steps, views_of_device = DEVICES[device]
    failures += _failures(ledger, [*COMMON, *steps])
    return [*wanted, *views_of_device], failures


def _failures(ledger: PoolLedger, steps: Sequence[Step]) -> list[str]:
    failures = []
    for step in steps:
        try:
            step(ledger)
        except CalibrationError as error:
            failures.append(str(error))
        except LookupError as error:
            failures.append(f"{step.__name__}: the dumps have no {error}")
    return failures
