"""Which receives and messages of a job will match, by MPI's rules: the first that matches, on both sides."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from typing import TypeAlias

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.verdict.pending import Pending, Standing

ANY = -1
"""Stands for any source or any tag in the keys of the index."""

MatchList: TypeAlias = "tuple[int, int, bool]"
"""What a receive and its message share: the receiving process, the channel, and whether it is the MPI's own traffic."""


def pair(operations: Collection[Pending]) -> None:
    """Set ``match`` of each receive that waits and of each message that it will match.

    Where a receive asks for any source, what it takes depends on what arrives first: there each receive and each
    message counts as matched if anything at all matches it, so that none is called stuck that may go on.
    """
    receives: defaultdict[MatchList, list[Pending]] = defaultdict(list)
    messages: defaultdict[MatchList, list[tuple[int, Pending]]] = defaultdict(list)
    sends = []
    for each in operations:
        if each.words.cancelled:
            continue
        if each.queue is Queue.RECEIVES:
            if each.status is Status.PENDING and not each.asks_unknown:
                receives[each.process, each.channel, each.words.internal].append(each)
        elif each.queue is Queue.UNEXPECTED:
            if each.peer is not None and each.tag is not None:
                messages[each.process, each.channel, each.words.internal].append((each.peer, each))
        elif each.status is not Status.PENDING or each.standing is Standing.TAKEN or each.other_end is not None:
            continue
        elif each.peer is not None and each.tag is not None:
            sends.append(((each.peer, each.channel, each.words.internal), each))
    for key, send in sends:
        messages[key].append((send.process, send))
    for key in receives.keys() & messages.keys():
        if any(receive.any_source for receive in receives[key]):
            _pair_any(receives[key], messages[key])
        else:
            _pair_in_order(receives[key], messages[key])
    for each in operations:
        if each.queue is Queue.SENDS and each.other_end is not None:
            each.match = each.other_end.match
    _set_matched_messages(operations)


def _set_matched_messages(operations: Collection[Pending]) -> None:
    """Set ``matched_message`` of each unmatched send whose message a matched probe seems to have taken."""
    matched = {
        (each.peer, each.process, each.channel, each.tag): each
        for each in operations
        if each.queue is Queue.RECEIVES and each.words.matched_message and each.status is Status.MATCHED
    }
    for each in operations:
        if each.queue is Queue.SENDS and each.status is Status.PENDING and each.match is None and each.peer is not None:
            each.matched_message = matched.get((each.process, each.peer, each.channel, each.tag))


def _pair_in_order(receives: list[Pending], messages: list[tuple[int, Pending]]) -> None:
    index: defaultdict[tuple[int, int], deque[Pending]] = defaultdict(deque)
    for source, message in messages:
        for tag in (_tag_of(message), ANY):
            index[source, tag].append(message)
    for receive in receives:
        found = index.get(_posted_envelope(receive), deque())
        while found and found[0].match is not None:
            found.popleft()
        if found:
            receive.match, found[0].match = found[0], receive


def _pair_any(receives: list[Pending], messages: list[tuple[int, Pending]]) -> None:
    posted: dict[tuple[int, int], Pending] = {}
    for receive in receives:
        posted.setdefault(_posted_envelope(receive), receive)
    available: dict[tuple[int, int], Pending] = {}
    for source, message in messages:
        for key in _envelopes(source, _tag_of(message)):
            available.setdefault(key, message)
            if message.match is None:
                message.match = posted.get(key)
    for receive in receives:
        receive.match = available.get(_posted_envelope(receive))
        receive.guessed = True


def _posted_envelope(receive: Pending) -> tuple[int, int]:
    source = ANY if receive.any_source or receive.peer is None else receive.peer
    return source, ANY if receive.tag is None else receive.tag


def _envelopes(source: int, tag: int) -> Iterator[tuple[int, int]]:
    yield source, tag
    yield source, ANY
    yield ANY, tag
    yield ANY, ANY


def _tag_of(message: Pending) -> int:
    return ANY if message.tag is None else message.tag
