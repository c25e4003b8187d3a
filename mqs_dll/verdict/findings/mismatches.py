"""Messages that nearly match: another tag, communicator or source than the receive asks for; and too small a buffer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.verdict.findings.common import Case, waits
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.pending import Pending, Standing, users
from mqs_dll.verdict.progress import Motion
from mqs_dll.verdict.results import Cause, Certainty, Finding, WaitKind

_ADVICE = {
    Cause.TAG: "Compare the tags of the send and of the receive.",
    Cause.COMMUNICATOR: "Compare the communicators of the send and of the receive.",
    Cause.SOURCE: "Compare the source that the receive asks for with the rank that sends.",
    Cause.TOO_SMALL: "Make the receive's buffer as large as the message, or ask for its size first (MPI_Probe).",
}


@dataclass
class _Misses:
    """Receives that a message nearly matches, all in the same way."""

    cause: Cause
    certainty: Certainty
    receive: Pending
    message: Pending
    receivers: list[int] = field(default_factory=list)
    senders: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    ends: list[Need] = field(default_factory=list)
    """What these receives, and who waits for them, are stuck for."""
    is_guess: bool = False
    """Whether the message that is waited for may still come, if this one is for later; then nobody knows whom it
    keeps."""


class Mismatches:
    """Finds them among the operations that wait, and the messages and sends that nothing has matched."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._analysis = case.analysis
        self._joined = case.analysis.joined

    def findings(self) -> Iterator[Finding]:
        """Yield them, equal ones merged."""
        found: dict[tuple[object, ...], _Misses] = {}
        for receiver, operations in enumerate(self._joined.operations):
            receives = [each for each in users(operations) if self._waits(each)]
            if not receives:
                continue
            nearby = _Nearby(self._loose(receiver))
            for receive in receives:
                for cause, message in nearby.misses(receive):
                    self._add(found, cause, receive, message)
        for misses in found.values():
            yield self._finding(misses)
        yield from self._too_small()

    def _waits(self, receive: Pending) -> bool:
        pending = receive.queue is Queue.RECEIVES and receive.status is Status.PENDING
        return pending and receive.match is None and not receive.words.matched_message

    def _loose(self, receiver: int) -> list[Pending]:
        """Return the messages to a process that nothing has matched: those that arrived, and sends that did not yet."""
        arrived = [
            each
            for each in users(self._joined.operations[receiver])
            if each.queue is Queue.UNEXPECTED and not each.match
        ]
        seen = {(each.peer, each.channel, each.tag) for each in arrived}
        sends = [
            each
            for each in users(self._joined.to_process[receiver])
            if each.status is Status.PENDING
            and not each.match
            and not each.other_end
            and not each.matched_message
            and each.tag is not None
            and each.standing not in (Standing.BEHIND, Standing.TAKEN)
            and not self._may_be_taken(each)
            and (each.words.message is not None or (each.process, each.channel, each.tag) not in seen)
        ]
        return [*arrived, *sends]

    def _may_be_taken(self, message: Pending) -> bool:
        """Return whether the receiver may have a message that its sender would know of only if it called MPI."""
        in_a_call = self._analysis.waits.of_process[message.process].threads
        known = in_a_call and self._analysis.stood_still(message.process)
        return message.standing is Standing.UNSEEN and not known

    def _add(self, found: dict[tuple[object, ...], _Misses], cause: Cause, receive: Pending, message: Pending) -> None:
        receiver, sender = receive.process, message.sender
        if sender is None:
            return
        ends = [need for process in dict.fromkeys((receiver, sender)) for need in self._ends(process, receive)]
        is_guess = cause is Cause.SOURCE or (bool(ends) and self._may_be_for_later(message, receiver, sender))
        certainty = self._certainty(receive, sender, ends, is_guess=is_guess)
        if certainty is None:
            return
        key = (
            cause, certainty, is_guess, receive.communicator, receive.tag, receive.any_tag, receive.any_source,
            message.communicator, message.tag, message.queue,
        )  # fmt: skip
        misses = found.setdefault(key, _Misses(cause, certainty, receive, message, is_guess=is_guess))
        misses.receivers.append(receiver)
        misses.senders.append(sender)
        misses.ends += ends
        if receive.peer is not None:
            misses.wanted.append(receive.peer)

    def _certainty(self, receive: Pending, sender: int, ends: Collection[Need], *, is_guess: bool) -> Certainty | None:
        """Return how sure it is that a near miss is one; None where it means nothing.

        At a process that is stuck for want of the message it explains that. Elsewhere it may be a message for later.
        """
        analysis, receiver = self._analysis, receive.process
        if any(analysis.motions[process] is Motion.CHANGED for process in (receiver, sender)):
            return None
        if not ends:
            free = not analysis.waits.of_process[receiver].threads
            return Certainty.NOTED if free and not is_guess and not receive.any_source else None
        stuck = (process for process in (receiver, sender) if self._ends(process, receive))
        is_proved = not is_guess and not analysis.proved.stuck.isdisjoint(stuck)
        return Certainty.PROVED if is_proved else Certainty.SUSPECTED

    def _may_be_for_later(self, message: Pending, receiver: int, sender: int) -> bool:
        """Return whether its sender is past it, and isn't gone: it may send what is waited for once it can go on."""
        sends = (need.pending for need in self._analysis.unmet(sender) if need.kind is WaitKind.SEND)
        in_it = any(each is not None and (each.peer, each.tag) == (receiver, message.tag) for each in sends)
        return not in_it and sender not in self._analysis.waits.gone

    def _ends(self, process: int, receive: Pending) -> list[Need]:
        """Return what a process is stuck for that this receive would end, or the send that it waits for in it."""
        return [
            need
            for need in self._analysis.unmet(process)
            if need.pending is not None
            and (
                need.pending is receive or (need.pending.queue is Queue.SENDS and need.pending.peer == receive.process)
            )
        ]

    # ------------------------------------------------------------ sentences

    def _finding(self, misses: _Misses) -> Finding:
        receive, message = misses.receive, misses.message
        alike = len({*misses.wanted}) < 2 and len({*misses.senders}) == 1
        sentence = self._alike(misses) if alike else self._different(misses)
        guess = " Perhaps that is the one that is meant." if misses.is_guess else ""
        processes = (*misses.receivers, *misses.senders)
        communicator = receive.communicator if message.communicator == receive.communicator else None
        ends = () if misses.is_guess else misses.ends
        return self._case.finding(
            misses.cause, misses.certainty, sentence + guess, _ADVICE[misses.cause], processes, communicator, ends=ends
        )

    def _alike(self, misses: _Misses) -> str:
        """Return the sentence for receives from the same rank, to which the same rank sent something else."""
        names, receive = self._case.names, misses.receive
        who = names.ranks(misses.receivers, receive.communicator)
        source = names.ranks(misses.wanted, receive.communicator) if misses.wanted else "any source"
        at = who if len({*misses.receivers}) == 1 else "each"
        return (
            f"{who} {waits(misses.receivers)} for {_tag(receive)} from {source}{names.on(receive.communicator)}; "
            f"{names.ranks(misses.senders[:1])} sent {self._sent(misses, at)}."
        )

    def _different(self, misses: _Misses) -> str:
        """Return the sentence for receives each of which waits for another rank, or has something else of another."""
        names, receive = self._case.names, misses.receive
        wanted = names.ranks(misses.wanted[:1], receive.communicator) if misses.wanted else "any source"
        return (
            f"{names.ranks(misses.receivers, receive.communicator)} {waits(misses.receivers)} for "
            f"{_tag(receive)}{names.on(receive.communicator)}, and something else has come to each: "
            f"{names.ranks(misses.receivers[:1])} waits for {wanted}; "
            f"{names.ranks(misses.senders[:1])} sent {self._sent(misses, 'it')}."
        )

    def _sent(self, misses: _Misses, receivers: str) -> str:
        """Return "tag 7776, which lies unexpected at rank 1"."""
        message = misses.message
        on = self._case.names.on(message.communicator) if misses.cause is Cause.COMMUNICATOR else ""
        if message.queue is Queue.UNEXPECTED:
            return f"tag {message.tag}{on}, which lies unexpected at {receivers}"
        return f"tag {message.tag}{on}, which nobody has received"

    # ------------------------------------------------------------ too small

    def _too_small(self) -> Iterator[Finding]:
        found: defaultdict[tuple[Certainty, int, int | None, int, int], list[Pending]] = defaultdict(list)
        for operations in self._joined.operations:
            for receive in users(operations):
                size = _message_size(receive)
                if size is None or receive.length is None or size <= receive.length:
                    continue
                certainty = self._certainty_of_size(receive)
                if certainty is not None:
                    found[certainty, receive.communicator, receive.tag or 0, receive.length, size].append(receive)
        for (certainty, _, _, capacity, size), receives in found.items():
            yield self._small(receives, capacity, size, certainty)

    def _certainty_of_size(self, receive: Pending) -> Certainty | None:
        """Return how sure it is that a receive gets the message that is too large; None where it means nothing.

        Its own message is known where it has come, or where no other one can be under way before it: numbers show it,
        or that one of both ranks surely stood still, while the other had all the time to go on.
        """
        message = receive.match if receive.status is Status.PENDING else None
        if message is None or self._is_next(receive, message):
            return self._case.certainty([receive.process])
        motions = {self._analysis.motions[process] for process in (receive.process, message.process)}
        if Motion.CHANGED in motions or message.standing is Standing.BEHIND or self._may_be_taken(message):
            return None
        still = any(map(self._analysis.stood_still, (receive.process, message.process)))
        return self._case.certainty([receive.process]) if still and not receive.guessed else Certainty.NOTED

    @staticmethod
    def _is_next(receive: Pending, message: Pending) -> bool:
        return not receive.guessed and (message.queue is Queue.UNEXPECTED or message.standing is Standing.NEXT)

    def _small(self, receives: list[Pending], capacity: int, size: int, certainty: Certainty) -> Finding:
        names, first = self._case.names, receives[0]
        receivers = [each.process for each in receives]
        senders = [each.peer for each in receives if each.peer is not None]
        tag = "" if first.tag is None else f", tag {first.tag}"
        source = f" from {names.ranks(senders)}" if senders else ""
        sentence = (
            f"{names.ranks(receivers, first.communicator)} receive{'s' if len({*receivers}) == 1 else ''} into "
            f"{capacity} bytes{source}{tag}{names.on(first.communicator)}, but the message has {size} bytes."
        )
        processes = (*receivers, *senders)
        ends = [need for process in {*receivers} for need in self._analysis.unmet(process)]
        return self._case.finding(
            Cause.TOO_SMALL, certainty, sentence, _ADVICE[Cause.TOO_SMALL], processes, first.communicator, ends=ends
        )


def _tag(receive: Pending) -> str:
    if receive.any_tag:
        return "any tag"
    return "a tag that isn't known" if receive.tag is None else f"tag {receive.tag}"


def _message_size(receive: Pending) -> int | None:
    """Return the bytes of the message that a receive has got, or will get; None where there is none."""
    if receive.queue is not Queue.RECEIVES or receive.words.probe or receive.words.cancelled:
        return None
    if receive.status is not Status.PENDING:
        return receive.arrived
    return None if receive.match is None else receive.match.length


class _Nearby:
    """The loose messages at one process, by what a receive could nearly ask for."""

    def __init__(self, messages: list[Pending]) -> None:
        self._by_sender: defaultdict[tuple[int, int | None], list[Pending]] = defaultdict(list)
        self._by_tag: defaultdict[tuple[int, int | None], list[Pending]] = defaultdict(list)
        self._by_both: defaultdict[tuple[int | None, int | None], list[Pending]] = defaultdict(list)
        self._on: defaultdict[int, list[Pending]] = defaultdict(list)
        for each in messages:
            self._by_sender[each.channel, each.sender].append(each)
            self._by_tag[each.channel, each.tag].append(each)
            self._by_both[each.sender, each.tag].append(each)
            self._on[each.channel].append(each)

    def misses(self, receive: Pending) -> Iterator[tuple[Cause, Pending]]:
        """Yield the nearest miss of a receive: another tag, else another communicator, else another source."""
        if receive.asks_unknown:
            return
        channel = receive.channel
        if receive.any_source:
            others = self._on.get(channel, ())
            near = next((each for each in others if each.tag is not None and each.tag != receive.tag), None)
            if near is not None and not receive.any_tag:
                yield Cause.TAG, near
            return
        near = next(
            (each for each in self._by_sender.get((channel, receive.peer), ()) if each.tag not in (None, receive.tag)),
            None,
        )
        if near is not None and not receive.any_tag:
            yield Cause.TAG, near
            return
        for each in self._by_both.get((receive.peer, receive.tag), ()):
            if each.channel != channel:
                yield Cause.COMMUNICATOR, each
                return
        for each in self._by_tag.get((channel, receive.tag), ()):
            yield Cause.SOURCE, each
            return
