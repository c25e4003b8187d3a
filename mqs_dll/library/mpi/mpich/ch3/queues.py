"""The queues of ch3: posted receives are on one list of the process, unexpected messages on another.

Source: src/mpid/ch3/src/ch3u_recvq.c of 3.4.3 and 4.0.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.ch3.requests import Ch3DeviceRequest
from mqs_dll.library.mpi.mpich.links import in_list_order


class Ch3Queues(NamedTuple):
    """The requests of one process, by the address of their communicator."""

    with_message: dict[int, list[Ch3DeviceRequest]]
    """Receives that have their message or are over, and messages held, in the order of the pool."""
    posted: dict[int, list[Ch3DeviceRequest]]
    """Receives that wait, in matching order."""
    posted_proved: bool
    sends: dict[int, list[Ch3DeviceRequest]]
    """By destination, then in the order of the pool."""
    unexpected: dict[int, list[Ch3DeviceRequest]]
    """In the order of their arrival, by their context id instead of a communicator."""
    unexpected_proved: bool
    started: dict[int, views.MpirRequest]
    """The persistent request by the address of the one behind it."""


def sort(requests: Iterable[Ch3DeviceRequest], started: dict[int, views.MpirRequest]) -> Ch3Queues:
    """Return the requests of a process by queue; ``started`` are its persistent ones, by what is behind each."""
    requests = list(requests)
    posted, posted_proved = _in_list_order(request for request in requests if request.is_posted)
    unexpected, unexpected_proved = _in_list_order(request for request in requests if request.is_unexpected)
    return Ch3Queues(
        _grouped((each for each in requests if each.is_held or (each.is_receive and not each.is_posted)), _comm),
        _grouped(posted, _comm),
        posted_proved,
        _grouped(sorted((each for each in requests if each.is_send), key=lambda each: each.rank), _comm),
        _grouped(unexpected, _context),
        unexpected_proved,
        started,
    )


def _comm(request: Ch3DeviceRequest) -> int:
    return request.common.comm


def _context(request: Ch3DeviceRequest) -> int:
    return contexts.communicator_of(request.dev.match_context_id)


def _grouped(
    requests: Iterable[Ch3DeviceRequest], key: Callable[[Ch3DeviceRequest], int]
) -> dict[int, list[Ch3DeviceRequest]]:
    groups: defaultdict[int, list[Ch3DeviceRequest]] = defaultdict(list)
    for request in requests:
        groups[key(request)].append(request)
    return groups


def _in_list_order(requests: Iterable[Ch3DeviceRequest]) -> tuple[list[Ch3DeviceRequest], bool]:
    """Return the members of one of the process's two lists in its order, and whether that is proved.

    The links are ch3's own before 4.0.0, and those of every request since.
    """
    members = {request.common.address: request for request in requests}
    links = {
        address: (request.common.next or 0) if request.dev.next is None else request.dev.next
        for address, request in members.items()
    }
    order, proved = in_list_order(links)
    return [members[address] for address in order], proved
