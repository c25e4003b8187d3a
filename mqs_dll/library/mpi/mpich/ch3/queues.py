"""The queues of ch3: posted receives are on one list of the process, unexpected messages on another.

Source: src/mpid/ch3/src/ch3u_recvq.c of 3.4.3 and 4.0.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.ch3.requests import Request
from mqs_dll.library.mpi.mpich.links import in_list_order


class Queues(NamedTuple):
    """The requests of one process, by the address of their communicator."""

    with_message: dict[int, list[Request]]
    """Receives that have their message or are over, and messages held, in the order of the pool."""
    posted: dict[int, list[Request]]
    """Receives that wait, in matching order."""
    posted_proved: bool
    sends: dict[int, list[Request]]
    """By destination, then in the order of the pool."""
    unexpected: dict[int, list[Request]]
    """In the order of their arrival, by their context id instead of a communicator."""
    unexpected_proved: bool
    started: dict[int, views.Request]
    """The persistent request by the address of the one behind it."""


def sort(requests: Iterable[Request], started: dict[int, views.Request]) -> Queues:
    """Return the requests of a process by queue; ``started`` are its persistent ones, by what is behind each."""
    requests = list(requests)
    posted, posted_proved = _in_list_order(request for request in requests if request.is_posted)
    unexpected, unexpected_proved = _in_list_order(request for request in requests if request.is_unexpected)
    return Queues(
        _grouped((each for each in requests if each.is_held or (each.is_receive and not each.is_posted)), _comm),
        _grouped(posted, _comm),
        posted_proved,
        _grouped(sorted((each for each in requests if each.is_send), key=lambda each: each.rank), _comm),
        _grouped(unexpected, _context),
        unexpected_proved,
        started,
    )


def _comm(request: Request) -> int:
    return request.common.comm


def _context(request: Request) -> int:
    return contexts.communicator_of(request.dev.match_context_id)


def _grouped(requests: Iterable[Request], key: Callable[[Request], int]) -> dict[int, list[Request]]:
    groups: defaultdict[int, list[Request]] = defaultdict(list)
    for request in requests:
        groups[key(request)].append(request)
    return groups


def _in_list_order(requests: Iterable[Request]) -> tuple[list[Request], bool]:
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
