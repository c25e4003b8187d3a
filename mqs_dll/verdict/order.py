"""Which messages of a sender are under way to a receiver, where the MPI numbers or names them.

A small message leaves nothing behind at its sender, and nobody sees it until its receiver takes it in. But of sends
that wait Open MPI has the numbers, and of a receive that waits the number of its sender's message that is next: what
lies between the two is under way. So it is with the number of the last message that was sent, which the sender's own
receive from its receiver has. UCX's messages that are answered name the send, so that it is known which ones lie
at their receivers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TypeAlias

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.verdict.pending import Pending, Standing

NUMBERS = 1 << 16
"""Messages are counted in 16 bits (ompi/mca/pml/ob1/pml_ob1_hdr.h: hdr_seq)."""

Way: TypeAlias = "tuple[int, int, int]"
"""A sender, a receiver, and a channel; messages of the MPI's own are counted with the others."""


def set_standings(operations: Iterable[Pending]) -> set[Way]:
    """Set ``standing`` of each send that waits for an answer; return the ways with messages that can't be seen."""
    following: dict[Way, int] = {}
    sent: dict[Way, int] = {}
    sends: defaultdict[Way, dict[int, Pending]] = defaultdict(dict)
    for each in operations:
        if each.peer is None or each.status is not Status.PENDING:
            continue
        if each.queue is Queue.RECEIVES and each.words.following is not None:
            following[each.peer, each.process, each.channel] = each.words.following
            if each.words.sent is not None:
                sent[each.process, each.peer, each.channel] = each.words.sent
        elif each.queue is Queue.SENDS and each.words.number is not None:
            sends[each.process, each.peer, each.channel][each.words.number % NUMBERS] = each
    for way in following.keys() & sends.keys():
        _set(following[way], sends[way])
    return {way for way in following.keys() & sent.keys() if _has_unseen(following[way], sent[way], sends.get(way, ()))}


def _has_unseen(following: int, last: int, seen: Collection[int]) -> bool:
    """Return whether one of the messages from the next to the last one is none of those that are seen to wait."""
    ahead = (last + 1 - following) % NUMBERS
    return ahead < NUMBERS // 2 and sum((number - following) % NUMBERS < ahead for number in seen) < ahead


def _set(following: int, sends: dict[int, Pending]) -> None:
    seen = 0
    while (following + seen) % NUMBERS in sends:
        seen += 1
    for number, send in sends.items():
        ahead = (number - following) % NUMBERS
        if ahead >= NUMBERS // 2:
            send.standing = Standing.TAKEN
        else:
            send.standing = Standing.NEXT if ahead < seen else Standing.BEHIND


def set_other_ends(operations: Iterable[Pending], seen: Collection[tuple[int, int]]) -> None:
    """Set ``other_end`` of each send and message that have one name, and ``standing`` of sends that have none.

    Args:
        operations: of all processes.
        seen: processes and channels of which all unexpected messages are known.
    """
    lying = {
        (each.process, each.channel, each.peer, each.words.message): each
        for each in operations
        if each.queue is Queue.UNEXPECTED and each.words.message
    }
    for send in operations:
        name = send.words.message
        if send.queue is not Queue.SENDS or not name or send.peer is None or send.status is not Status.PENDING:
            continue
        message = lying.get((send.peer, send.channel, send.process, name))
        if message is not None:
            send.other_end, message.other_end = message, send
        elif (send.peer, send.channel) in seen and (send.peer, send.channel, None, name) not in lying:
            send.standing = Standing.UNSEEN
