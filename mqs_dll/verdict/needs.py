"""What would end the wait for one operation, or for one call: who has to do something, or that all is done already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.verdict.evidence import Evidence, unknown_if
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.pending import Origin, Pending, Standing
from mqs_dll.verdict.results import WaitKind

EVERYBODY: tuple[int, ...] = ()
"""Peers of a need of which it isn't known who could end it: any process of the job might."""

ANY = -1


@dataclass(frozen=True, slots=True)
class OneSided:
    """What a one-sided call is about, as far as it is known."""

    window: int
    """Its index in JobWindows.all."""
    target: int | None = None
    """Of a lock, the process whose part of the window it is for."""
    missing: str = ""
    """What the need's peers have to call: "MPI_Win_post", or "MPI_Win_unlock" for those who hold the lock; empty where
    it isn't known that it is just they."""


@dataclass(eq=False, slots=True)
class Need:
    """One thing that has to happen."""

    kind: WaitKind
    what: str
    """The MPI call or operation, as for Wait.what."""
    communicator: int | None
    pending: Pending | None
    """The operation; None where only the call is known."""
    peers: tuple[int | None, ...]
    """Processes that could end it, None for one that isn't known; Shared where they are many. EVERYBODY: any of all."""
    all_of: bool = False
    """All of the peers have to, not any one of them."""
    satisfied: Evidence = Evidence.NO
    """Whether it ends without its peers: YES where it is matched, or what matches is there. UNKNOWN where something is
    there that could match, or somebody could end it who isn't among the job's known processes."""
    coming: bool = False
    """A message that can't be seen is surely under way, and may be the one."""
    one_sided: OneSided | None = None
    """Of a call on a window: which one it is, and what is missing."""
    number: int | None = None
    """Of a nonblocking collective operation, of which this is a part: which one it is on its communicator."""
    moves: bool = False
    """Of a call on a window: taken for done while data may move, not where its process surely stood still."""
    perhaps: bool = False
    """It may be another request that the call waits for."""
    delivery_confirmed: bool = False
    """No message that is under way could end it, so that one sample is a proof. True of a send whose message has
    arrived; not of a receive, whose message may have been sent before its peer exited."""


class Needs:
    """Makes the needs of a job's operations."""

    def __init__(self, joined: Joined, gone: set[int]) -> None:
        """Index what could match.

        Args:
            joined: the job's operations.
            gone: the processes that never act again.
        """
        self._joined = joined
        self._gone = gone
        self._communicators = joined.communicators
        self._strangers: dict[int, bool] = {}
        self._under_way: Counter[tuple[int, int, bool, int | None, int | None]] = Counter()
        """Receives that have their message, by target, channel, kind, source and tag; again with None for the tag."""
        self._open_receives: Counter[tuple[int, int, bool, int | None]] = Counter()
        """Receives that wait, by target, channel, kind and source (ANY; None where it isn't known)."""
        self._arrived: Counter[tuple[int, int, int | None, int | None]] = Counter()
        """Unexpected messages without a match or a known send, by target, channel, source and tag; again with None for
        the tag."""
        self._behind: set[tuple[int, int, int]] = set()
        """By target, channel and source (or ANY): a message is under way that can't be seen, by its number."""
        self._vague_sends: Counter[tuple[int, int, int]] = Counter()
        """Sends of which the tag isn't known, not even by the message that arrived; by target, channel and source (and
        ANY)."""
        for each in joined.pending(Queue.RECEIVES):
            self._index_receive(each)
        for each in joined.pending(Queue.UNEXPECTED):
            self._index_message(each)
        for sender, target, channel in joined.under_way:
            self._behind |= {(target, channel, sender), (target, channel, ANY)}
        for each in joined.pending(Queue.SENDS):  # after the messages: whether one has arrived is asked
            self._index_send(each)

    def _index_receive(self, receive: Pending) -> None:
        target, channel, internal = receive.process, receive.channel, receive.words.internal
        if receive.status is Status.MATCHED and not receive.words.matched_message:
            for tag in {receive.tag, None}:
                self._under_way[target, channel, internal, receive.peer, tag] += 1
        elif receive.status is Status.PENDING and receive.match is None:
            self._open_receives[target, channel, internal, ANY if receive.any_source else receive.peer] += 1

    def _index_message(self, message: Pending) -> None:
        if message.match is None and message.other_end is None:
            for tag in (message.tag, None):
                self._arrived[message.process, message.channel, message.peer, tag] += 1

    def _index_send(self, send: Pending) -> None:
        if send.peer is None:
            return
        is_vague = send.status is Status.PENDING and send.match is None and send.tag is None
        is_vague = is_vague and not self._has_arrived(send)
        for source in (send.process, ANY):
            if send.standing is Standing.BEHIND:
                self._behind.add((send.peer, send.channel, source))
            if is_vague:
                self._vague_sends[send.peer, send.channel, source] += 1

    def _has_arrived(self, send: Pending) -> bool:
        if send.words.message is not None:
            return send.other_end is not None and send.match is None
        return send.peer is not None and self._arrived[send.peer, send.channel, send.process, send.tag] > 0

    def of(self, pending: Pending, what: str, kind: WaitKind | None = None) -> Need:
        """Return what has to happen for an operation to end.

        Args:
            pending: a send or a receive that isn't complete.
            what: the call that waits for it, or that made it.
            kind: COLLECTIVE for a part of a collective call; else it is what the operation is.
        """
        of_queue = self._of_send if pending.queue is Queue.SENDS else self._of_receive
        need = of_queue(pending, what)
        need.kind = kind or need.kind
        by_call_alone = pending.origin is Origin.CALL and (pending.is_hidden or not pending.words.probe)
        need.satisfied |= unknown_if(by_call_alone)
        return need

    def of_part(self, pending: Pending) -> Need:
        """Return what has to happen for a part of a nonblocking collective operation to end.

        Its tag shows which one it is, which a persistent one keeps for all its starts. MPIs take such tags for
        themselves, too: Open MPI 5 for a new communicator (ompi/communicator/comm_cid.c of 5.0.11).
        """
        what = f"nonblocking or persistent collective with tag no. {pending.words.nonblocking}"
        need = self.of(pending, what, WaitKind.COLLECTIVE)
        need.number = pending.words.nonblocking
        need.communicator = self._communicators.whole(pending.communicator)
        return need

    def _of_receive(self, receive: Pending, what: str) -> Need:
        need = Need(WaitKind.RECEIVE, what, receive.communicator, receive, EVERYBODY)
        if receive.words.forgotten:
            need.peers = (receive.process,)
            return need
        self._set_peers(need, receive)
        source = receive.peer if receive.peer is not None and not receive.asks_unknown else ANY
        if self._is_done(receive):
            need.satisfied = Evidence.YES
            return need
        need.coming = self._is_under_way(receive)
        could_match = self._vague_sends[receive.process, receive.channel, source] > 0 or (
            receive.asks_unknown and self._could_get_something(receive)
        )
        need.satisfied |= unknown_if(need.coming or could_match)
        return need

    def _is_under_way(self, receive: Pending) -> bool:
        """Return whether a message of a receive's sender is surely under way, because later ones are known."""
        rank = ANY if receive.peer_rank is None else receive.peer_rank
        source = ANY if receive.peer is None else receive.peer
        overtaken = (receive.process, receive.communicator, rank) in self._joined.overtaken
        return overtaken or (receive.process, receive.channel, source) in self._behind

    def _could_get_something(self, receive: Pending) -> bool:
        """Return whether any message at all is there for a receive of which it isn't known what it asks for."""
        messages = (
            *self._joined.to_process[receive.process],
            *(each for each in self._joined.operations[receive.process] if each.queue is Queue.UNEXPECTED),
        )
        return any(
            each.match is None
            and each.status is not Status.MATCHED
            and each.words.internal == receive.words.internal
            and each.channel == receive.channel
            for each in messages
        )

    def _of_send(self, send: Pending, what: str) -> Need:
        need = Need(WaitKind.SEND, what, send.communicator, send, EVERYBODY)
        self._set_peers(need, send)
        channel, internal = send.channel, send.words.internal
        done = self._is_done(send) or (
            send.other_end is None
            and send.peer is not None
            and self._under_way[send.peer, channel, internal, send.process, send.tag] > 0
        )
        if not done and send.peer is not None:
            arrived = self._has_arrived(send)
            done = send.standing is Standing.TAKEN and not arrived and send.matched_message is None
            vague = send.tag is None and any(
                self._open_receives[send.peer, channel, internal, source] for source in (send.process, ANY)
            )
            unclear = self._open_receives[send.peer, channel, internal, None] > 0
            # what a matched probe has may be another message with this envelope, and an answer to this one under way
            need.satisfied |= unknown_if((vague and not arrived) or unclear or send.matched_message is not None)
            need.delivery_confirmed = arrived
        if done:
            need.satisfied = Evidence.YES
        return need

    def _is_done(self, pending: Pending) -> bool:
        if pending.status is Status.PENDING:
            return pending.match is not None
        return pending.peer not in self._gone

    def _set_peers(self, need: Need, pending: Pending) -> None:
        if pending.peer is not None:
            need.peers = (pending.peer,)
        elif pending.any_source:
            targets = self._communicators.targets(pending.communicator)
            need.peers = EVERYBODY if targets is None else targets
            need.satisfied |= unknown_if(self.has_strangers(pending.communicator))
        else:
            need.satisfied |= unknown_if(self.sees_strangers(pending.process))

    def of_call(self, process: int, call: str, kind: WaitKind = WaitKind.CALL, *, moves_data: bool = True) -> Need:
        """Return the need of a call of which no operation can be seen: somebody has to do something.

        A call that moves data may be at that, unseen: it may go on without anybody.
        """
        satisfied = unknown_if(moves_data or self.sees_strangers(process))
        return Need(kind, call, None, None, EVERYBODY, satisfied=satisfied)

    def sees_strangers(self, process: int) -> bool:
        """Return whether a process has a communicator with members that the job's records don't have."""
        return any(self.has_strangers(each) for each in self._communicators.of_process[process])

    def has_strangers(self, communicator: int) -> bool:
        """Return whether it isn't known of all members of a communicator which processes they are."""
        found = self._strangers.get(communicator)
        if found is None:
            each = self._communicators.all[communicator]
            targets = self._communicators.targets(communicator)
            found = self._strangers[communicator] = targets is None or None in targets or None in each.members
        return found
