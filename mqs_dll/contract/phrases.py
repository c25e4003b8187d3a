"""The phrases of extra_text that are both written and read: what writes each, and what reads it, side by side.

The walkers of the MPIs write lines by this module, verdicts and reports read them by it. A phrase reads by the template
that it writes by, so the two can't diverge; and it reads whole lines only, so that the name which a program gave to
a datatype is never taken for one. Lines for people alone, like those of datatypes, are written where they are known.
Another vendor's library may write anything, which then means nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Any, NamedTuple

_FIELDS = {"{}": r"(\w+(?: \w+)*)", "{:d}": r"(-?\d+)", "{:#x}": r"(0x[0-9a-f]+)"}
_WRITTEN = {"{}": "%s", "{:d}": "%d", "{:#x}": "%#x"}
"""How fields are written: str.format takes twice as long."""
_FIELD = re.compile(r"(\{[^}]*\})")


class Words(NamedTuple):
    """What the lines of one operation say."""

    calls: tuple[str, ...] = ()
    """The MPI functions that may have made it; empty where it isn't known."""
    internal: bool = False
    """It is traffic of the MPI's own, mostly of a collective operation: no receive of the program can match it."""
    collective: str | None = None
    """The blocking collective that it is a part of, or whose piece: MPI_Allreduce may be made of MPI_Reduce."""
    nonblocking: int | None = None
    """Of MPI_Ibarrier and the like, for which a program waits by a request: which one on its communicator, from 1."""
    in_wait: bool = False
    """Some thread waits for it right now, in MPI_Waitall, MPI_Waitany or the like."""
    needs: int | None = None
    """How many of the requests that the thread waits for have to end; None where that isn't known."""
    detached: bool = False
    """The program doesn't wait for it: it was freed, or is a buffered send."""
    matched_message: bool = False
    """A message that a matched probe has taken."""
    partitioned: bool = False
    """A send or receive that moves by parts, each as soon as its sender marks it ready (MPI_Pready)."""
    cancelled: bool = False
    number: int | None = None
    """Which one it is of a communicator's receives, a worker's or an endpoint's, or of the messages to its
    receiver; None where nothing counts."""
    message: int | None = None
    """The number by which a sender knows a message, which its send and the message have in common; 0 of a send whose
    message has not left. None where nothing carries one."""
    request: int | None = None
    """Its handle, as the program has it; None where no line has it."""
    forgotten: bool = False
    """Its whole message is here, and the MPI has lost sight of that: nobody will end it."""
    following: int | None = None
    """Of a receive: which of its sender's messages is the next that it or another receive will match."""
    sent: int | None = None
    """Of a receive: the number of the last message that its own process has sent to its sender, 0 for none."""

    @property
    def probe(self) -> bool:
        """Whether it is a probe, which has no buffer."""
        return self.matched_message or "MPI_Probe" in self.calls or "MPI_Mprobe" in self.calls

    @property
    def counted(self) -> bool:
        """Whether it has a number of its own, so that another one in its place would show."""
        return self.number is not None


class Phrase:
    """A line with numbers or names in it, written and read by one template, and what it says of an operation."""

    def __init__(self, template: str, read: Callable[..., Mapping[str, Any]]) -> None:
        """Initialize.

        Args:
            template: the line; {:d} and {:#x} are numbers, {} is a name of one or more words.
            read: returns members of Words, from what stands in the fields.
        """
        self._template = template
        self._written = "".join(_WRITTEN.get(part) or part.replace("%", "%%") for part in _FIELD.split(template))
        self._read = read

    def __call__(self, *values: object) -> str:
        """Write the line."""
        return self._written % values

    def read(self, line: str) -> Mapping[str, Any] | None:
        """Return what a line says; None where it isn't this one."""
        found = _pattern(self._template).fullmatch(line)
        return None if found is None else self._read(*found.groups())


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Return what reads a template's lines; compiled when it is first read, since ``libmqs.so`` only writes."""
    return re.compile("".join(_FIELDS.get(part) or re.escape(part) for part in _FIELD.split(template)))


def _says(**members: object) -> Callable[..., Mapping[str, Any]]:
    return lambda *_: members


# ---------------------------------------------------------------- the request

_REQUEST = Phrase("request {:#x}", lambda handle: {"request": int(handle, 16)})
_IN_A_WAIT = Phrase("request {:#x}, in a wait", lambda handle: {"request": int(handle, 16), "in_wait": True})
_NEEDS_MORE = Phrase(
    "request {:#x}, in a wait that needs {:d} more",
    lambda handle, needs: {"request": int(handle, 16), "in_wait": True, "needs": int(needs)},
)


def request(handle: int, *, in_wait: bool = False, needs: int | None = None) -> str:
    """Return the line of a request.

    Args:
        handle: as the program has it, or its address.
        in_wait: whether some thread waits for it right now.
        needs: how many of the requests that this thread waits for have to complete before it goes on.
    """
    if not in_wait:
        return _REQUEST(handle)
    return _IN_A_WAIT(handle) if needs is None else _NEEDS_MORE(handle, needs)


# ---------------------------------------------------------------- how far it is

CANCELLED = Phrase("cancelled", _says(cancelled=True))
FREED = Phrase("freed by the program (MPI_Request_free)", _says(detached=True))
NOT_DELIVERED = Phrase("not delivered; copy in the attached buffer, {:#x}", _says(detached=True))
RECEIVE_NUMBER = Phrase("no. {:d} of the communicator's receives", lambda number: {"number": int(number)})
WORKER_NUMBER = Phrase("no. {:d} of its UCX worker's receives", lambda number: {"number": int(number)})
ENDPOINT_NUMBER = Phrase("no. {:d} of its libfabric endpoint's receives", lambda number: {"number": int(number)})
NEXT_TO_MATCH = Phrase(
    "no. {:d} of its sender is next to match; sent to it: {:d}",
    lambda number, sent: {"following": int(number), "sent": int(sent)},
)
SEND_NUMBER = Phrase("the receiver has not answered; no. {:d} to it", lambda number: {"number": int(number)})
MESSAGE = Phrase("message {:#x}: {}", lambda number, _: {"message": int(number, 16)})
FORGOTTEN = Phrase("all of it came by the network; MPICH waits on", _says(forgotten=True))
NO_ROOM = Phrase("waits for room in {}", _says(message=0))

# ---------------------------------------------------------------- what an internal message is for

_INTERNAL = {"internal": True}
COLLECTIVE = Phrase("collective: {}, alone or in another one", lambda name: {**_INTERNAL, "collective": name})
"""A collective may be made of others (an allreduce of a reduce and a bcast): the message shows the piece."""
NONBLOCKING_OR_MAKING = Phrase(
    "nonblocking collective no. {:d}, or a new communicator",
    lambda number: {**_INTERNAL, "nonblocking": int(number)},
)
NONBLOCKING_OR_NEIGHBORHOOD = Phrase(
    "nonblocking collective no. {:d} or neighborhood collective",
    lambda number: {**_INTERNAL, "nonblocking": int(number)},
)
NEIGHBORHOOD = Phrase("neighborhood collective", _says(**_INTERNAL))
MAKING = Phrase("making of a communicator (context id agreement)", _says(**_INTERNAL))
FAULT_TOLERANCE = Phrase("fault tolerance (ULFM)", _says(**_INTERNAL))
BY_LIBRARY = Phrase("collective by the library {}", _says(**_INTERNAL))
OTHER = Phrase("internal traffic of {}, tag {:d}", _says(**_INTERNAL))

_LINES = tuple(value for value in globals().values() if isinstance(value, Phrase))

# ---------------------------------------------------------------- why a queue is hidden

BLOCKING_SENDS = "blocking sends"


def unseen(what: str, why: str) -> str:
    """Return why a queue is hidden: what of it can't be seen."""
    return f"{what} can't be seen: {why}"


def hides_no_request(reason: str) -> bool:
    """Return whether all operations that a program has a request for can be seen: blocking calls have none."""
    return reason.startswith(unseen(BLOCKING_SENDS, ""))


# ---------------------------------------------------------------- which call made it: the first line


class How(Enum):
    """In which way calls make an operation; the value stands behind their names."""

    __hash__ = object.__hash__  # Enum's own hashes the name each time

    EITHER = ""
    """By a blocking call or by one that returns a request."""
    BLOCKING = ", blocking"
    NONBLOCKING = ", nonblocking"
    PERSISTENT = ", persistent, started"
    PARTITIONED = ", partitioned, started"
    MATCHED_MESSAGE = ": message held, not received"
    BUFFERED = ": the program has gone on"
    """A buffered send: its message is copied."""
    OR_BUFFERED = " or a buffered one"
    BUFFERED_OR_COLLECTIVE = " or a buffered one, or a collective's"
    """Nothing but the request is left."""
    OR_READY = " or in ready mode"
    OR_COLLECTIVE = ", or a collective operation's"


_HOW: dict[How, Mapping[str, Any]] = {
    How.MATCHED_MESSAGE: {"matched_message": True},
    How.BUFFERED: {"detached": True},
    How.PARTITIONED: {"partitioned": True},
}
_BUFFERED = ("MPI_Bsend", "MPI_Ibsend")
_MORE_CALLS = {
    How.OR_BUFFERED: _BUFFERED,
    How.BUFFERED_OR_COLLECTIVE: _BUFFERED,
    How.OR_READY: ("MPI_Rsend", "MPI_Irsend"),
}
_A_SEND = "a send"
UNKNOWN_MODE = Phrase("a send of unknown mode {:d}", _says())


class Fate(Enum):
    """What has become of an operation, where that stands in its first line."""

    __hash__ = object.__hash__  # as above

    NONE = ""
    CANCELLED = ", cancelled"
    FREED = ", freed by the program"


_FATE: dict[Fate, Mapping[str, Any]] = {Fate.CANCELLED: {"cancelled": True}, Fate.FREED: {"detached": True}}

_FAILED = ", failed with MPI error {}"
_CALLS = r"MPI_\w+(?:(?:, | or )MPI_\w+)*"


@cache
def made_by(*calls: str, how: How = How.EITHER, fate: Fate = Fate.NONE, error: int = 0) -> str:
    """Return the line that names the calls that may have made an operation; without any it is some send.

    "MPI_Recv or MPI_Irecv", "MPI_Irecv, nonblocking", "MPI_Send, MPI_Isend, MPI_Ssend or MPI_Issend".
    """
    *others, last = calls or (_A_SEND,)
    more = how in _MORE_CALLS
    names = ", ".join((*others, last)) if more else " or ".join(filter(None, (", ".join(others), last)))
    return f"{names}{how.value}{fate.value}{_FAILED.format(error) if error else ''}"


_AFTER_PROBE = {"MPI_Recv": "MPI_Mrecv", "MPI_Irecv": "MPI_Imrecv"}


@cache
def received_by(*calls: str, how: How = How.EITHER, has_message: bool) -> str:
    """Return the same line for a receive: one that has its message may have it from a matched probe."""
    return made_by(*calls, *(_AFTER_PROBE[each] for each in calls if has_message), how=how)


@cache
def _made_by() -> re.Pattern[str]:
    """Return what reads the lines that made_by writes."""
    return re.compile(
        rf"({_CALLS}|{_A_SEND})({'|'.join(re.escape(how.value) for how in How)})"
        rf"({'|'.join(fate.value for fate in Fate)})(?:{_FAILED.format(r'[0-9]+')})?"
    )


def _read_made_by(line: str) -> Mapping[str, Any] | None:
    found = _made_by().fullmatch(line)
    if found is None:
        return UNKNOWN_MODE.read(line)
    how = How(found[2])
    calls = (*re.findall(r"MPI_\w+", found[1]), *_MORE_CALLS.get(how, ()))
    return {"calls": calls, **_HOW.get(how, {}), **_FATE.get(Fate(found[3]), {})}


# ---------------------------------------------------------------- reading


@lru_cache(maxsize=1 << 16)
def read(extra_text: tuple[bytes, ...]) -> Words:
    """Return what the lines of an operation say."""
    said: dict[str, Any] = {}
    for members in _readings(extra_text):
        said.update(members or {})
    return Words(**said)


@lru_cache(maxsize=1 << 16)
def own(extra_text: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the lines of an operation without those that change by what others do: which message is the next."""
    return tuple(line for line in extra_text if NEXT_TO_MATCH.read(line.decode("utf-8", "replace")) is None)


def unread(extra_text: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the lines of an operation that say nothing here: they are for people."""
    return tuple(line for line, members in zip(extra_text, _readings(extra_text), strict=True) if members is None)


def _readings(extra_text: tuple[bytes, ...]) -> Iterator[Mapping[str, Any] | None]:
    for number, line in enumerate(extra_text):
        text = line.decode("utf-8", "replace")
        members = _read_made_by(text) if number == 0 else None
        yield _read_line(text) if members is None else members


@lru_cache(maxsize=1 << 16)
def _read_line(line: str) -> Mapping[str, Any] | None:
    return next((members for phrase in _LINES if (members := phrase.read(line)) is not None), None)
