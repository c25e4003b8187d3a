"""All agents of a job, as the head has them: they find its ranks, and read them in steps that all take together.

Each step is a message to all agents, and ends when all have answered, or when they had time enough: one that hasn't
answered by then, has ended, or has sent what no agent sends is lost, and its ranks are unread, with the reason. Those
whose ranks stand hear every second that the head is still there.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mqs_dll import __version__
from mqs_dll.contract.errors import JobError
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.job import peek
from mqs_dll.debugger.job.footprint import Footprint
from mqs_dll.debugger.job.nodes import hosts, wire
from mqs_dll.debugger.job.nodes.carrier import CONNECT, SSH, Carrier, Gone
from mqs_dll.debugger.job.nodes.merge import Answer, lost_nodes, merged
from mqs_dll.debugger.job.nodes.wire import NodePart, Wanted
from mqs_dll.debugger.job.open_files import allow_open_files
from mqs_dll.debugger.job.ranks import ReadingOptions, unread
from mqs_dll.job.codec import DamagedError
from mqs_dll.job.facts import Obstacle
from mqs_dll.job.found import FoundJob, FoundRank
from mqs_dll.job.node_names import fold
from mqs_dll.job.records import JobProcess, RankState
from mqs_dll.job.shared import grouped

_GREET = CONNECT + 20.0
_FIND = 30.0
_OPEN = 60.0
_RESUME = 10.0
_REPORT = 60.0
_LATE = 5.0
"""Seconds that an agent has for a step; _LATE beyond what the step itself takes. Unless ranks stand, they start again
when another agent answers: a thousand don't do that at once."""
_OF_LIMIT = 0.4
"""Of the limit for which ranks may stand, for each of stopping and reading: a node that hangs must not cost the others
what was read of them."""

_STILL_HERE = 1.0
"""Seconds between two words to agents whose ranks stand."""

_MAX_GREETED = 1000
"""Lines of a login shell before the agent's greeting."""

_NOT_FOUND = 127
_SSH_FAILED = 255
_INSTALL = (
    "install this release of libmqs there, where this one lies or on a file system that all nodes see; "
    "--agent COMMAND says what starts it there, --send brings it along"
)


class AgentStart(NamedTuple):
    """What starts agents."""

    command: str
    """On another node, for a shell."""
    here: str
    """On this machine."""
    engine: str = SSH
    """As carrier.Carrier has it."""
    data: bytes = b""
    """What the command on another node reads before it becomes the agent."""


@dataclass
class _Node:
    """One node, and what is known of its agent."""

    name: str
    here: bool
    assembler: wire.Assembler = field(default_factory=wire.Assembler)
    greeted: bool = False
    lines: int = 0
    """Before its greeting."""
    words: int = 0
    """That the head is still there, which it has not acknowledged yet."""
    lost: Obstacle | None = None
    """Why nothing can be asked of it any more."""
    refused: Obstacle | None = None
    """Why nothing is known of its ranks in this sample."""
    pids: list[int] = field(default_factory=list)
    """Of the ranks that are read there."""


class Agents(Closes):
    """Ranks on several nodes (ranks.Ranks)."""

    def __init__(
        self, how: ReadingOptions, start: AgentStart, on_reach: Callable[[Sequence[str]], None] | None = None
    ) -> None:
        """Initialize; nothing is started yet.

        Args:
            how: as Ranks has it.
            start: what starts agents.
            on_reach: called with the names of other nodes before agents are started there.

        Raises:
            NodesError: ClusterShell isn't installed.
        """
        self.how = how
        self.stop_time = 0.0
        self.stop_skew = 0.0
        self._start_by = start
        self._on_reach = on_reach
        self.left_out: list[str] = []
        """The nodes that parts of the job name and that weren't asked, because find() wasn't to follow."""
        self._carrier = Carrier(start.engine)
        self._nodes: dict[str, _Node] = {}
        self._answers: dict[str, Answer] = {}
        self._local: FoundJob | None = None
        self._found: FoundJob | None = None
        self._jobs = wire.Jobs()

    def close(self) -> None:
        """End all agents: ranks that stand go on. Idempotent."""
        self._carrier.close()

    def start(self, names: Iterable[str]) -> None:
        """Start agents on nodes, and wait until they are there."""
        self._start(list(names))

    def ask(
        self, messages: Mapping[str, wire.Message], seconds: float, take: Callable[[str, Any], None]
    ) -> dict[str, Obstacle]:
        """Send messages to agents that were started; return what is in the way of those that don't do it, by node.

        Args:
            messages: by node.
            seconds: that they have.
            take: takes each answer, and raises DamagedError.
        """
        for name in messages:
            self._nodes[name].refused = None
        self._wait(self._send(messages), seconds, take=take)
        obstacles = {name: self._nodes[name].lost or self._nodes[name].refused for name in messages}
        return {name: obstacle for name, obstacle in obstacles.items() if obstacle is not None}

    @property
    def others(self) -> list[str]:
        """The other nodes whose agents have found ranks, and can be asked."""
        return [node.name for node in self._in_use() if not node.here]

    def to_mark(self) -> dict[str, wire.Message]:
        """Return what the others are told to note for the end: what this machine knows of the job.

        A node that lies could else have another job ended.
        """
        local = self._local
        pids = _by_node(local.ranks, local.host) if local else {}
        wanted = Wanted(marks=tuple(sorted(local.marks)) if local else ())
        told = {name: wanted._replace(pids=tuple(pids.get(hosts.short(name), ()))) for name in self.others}
        return {name: {"do": "mark", "wanted": wire.write(each)} for name, each in told.items()}

    @property
    def is_whole(self) -> bool:
        """Whether no other node is lost."""
        return all(node.here or node.lost is None for node in self._nodes.values())

    def leave_here(self) -> None:
        """End the agent of this machine."""
        for node in self._nodes.values():
            if node.here:
                self._lose(node, Obstacle(RankState.UNREADABLE, f"{node.name} isn't asked any more", ""))

    # ------------------------------------------------------------ finding

    def find(
        self,
        nodes: Iterable[str],
        wanted: Wanted,
        *,
        local: FoundJob | None = None,
        follow: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> FoundJob:
        """Return the job, with its ranks on all nodes; nothing of it is touched yet.

        Args:
            nodes: where to start.
            wanted: what distinguishes it from other jobs; the launcher's PIDs on each node are added.
            local: what was found of it on this machine.
            follow: whether to go on to the nodes that its parts name.
            on_progress: called with the number of nodes that have answered, and of all.

        Raises:
            JobError: there are several jobs that could be meant, or there is none.
        """
        self._local = local
        waiting = {hosts.short(node): node for node in nodes}
        of_job = hosts.JobNodes()
        aside: dict[str, str] = {}
        tables = [local.ranks] if local else []
        while waiting:
            names = list(waiting.values())
            self._start(names)
            pids = _by_node((rank for table in tables for rank in table), local.host if local else "")
            asked = {
                name: {"do": "find", "wanted": wire.write(wanted._replace(pids=(*wanted.pids, *pids.get(short, ()))))}
                for short, name in waiting.items()
            }
            found = self._wait(self._send(asked), _FIND, on_progress=on_progress)
            known = {hosts.short(name) for name in self._nodes}
            wanted = wanted._replace(pids=())  # which are those of the first nodes
            waiting = {}
            for name in names:
                parts = self._parts(name, found.get(name))
                if len(parts) == 1 and not wanted.marks:
                    wanted = wanted._replace(marks=parts[0].marks)
                for part in parts:
                    tables.append(part.ranks)
                    for host in of_job.named((*part.hosts, *_hosts_of(part))):
                        if hosts.short(host) not in known and len(known) + len(waiting) < hosts.MOST:
                            (waiting if follow else aside).setdefault(hosts.short(host), host)
        self.left_out = list(aside.values())
        self._check_one_job(wanted)
        self._found = merged(self._answers, socket.gethostname(), local)
        for rank in self._found.ranks:
            if rank.state is None:
                self._nodes[rank.host].pids.append(rank.pid)
        return self._found

    def _start(self, names: Sequence[str]) -> None:
        allow_open_files(len(names))
        for here in (True, False):
            chosen = [name for name in names if hosts.is_here(name) is here]
            self._nodes.update((name, _Node(name, here)) for name in chosen)
            if chosen and here:
                self._carrier.start(chosen, self._start_by.here, here=True)
            elif chosen:
                if self._on_reach:
                    self._on_reach(chosen)
                self._carrier.start(chosen, self._start_by.command, data=self._start_by.data)
        self._wait(dict.fromkeys(names, ""), _GREET)

    def _parts(self, name: str, answer: Any) -> Sequence[NodePart]:
        """Return what a node has found, and keep it."""
        node = self._nodes[name]
        parts: Sequence[NodePart] = ()
        gone: frozenset[int] = frozenset()
        if node.lost is None and node.refused is None:
            try:
                read = wire.read_parts(answer)
                parts, gone = read.parts, frozenset(read.gone)
            except DamagedError as error:
                self._lose(node, _damaged(name, error))
        self._answers[name] = Answer(parts, gone, node.lost or node.refused)
        return parts

    def _check_one_job(self, wanted: Wanted) -> None:
        """Make sure that what was found is one job.

        Raises:
            JobError: it is several, or none.
        """
        parts = [(name, part) for name, answer in self._answers.items() for part in answer.parts]
        if not parts:
            lost = "; ".join(lost_nodes(self._answers))
            raise JobError(f"no rank of it was found on {fold(self._nodes)}{f': {lost}' if lost else ''}")
        jobs: list[set[str]] = []
        for _, part in parts:
            together = set(part.marks).union(*(job for job in jobs if not job.isdisjoint(part.marks)))
            jobs = [job for job in jobs if job.isdisjoint(together)] + [together]
        if len([job for job in jobs if job]) > 1:
            lines = {f"PID {part.launcher} on {name} ({part.title})" for name, part in parts if part.launcher}
            raise JobError(f"there are several jobs: {'; '.join(sorted(lines)) or 'their launchers are elsewhere'}")

    # ------------------------------------------------------------ reading

    def open(self, *, windows: bool = False, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Let the library find its way in each rank."""
        for node in self._nodes.values():
            node.refused = None
        self.stop_time = 0.0
        how = wire.write(self.how)
        message = {"do": "open", "how": how, "windows": windows}
        asked = {node.name: {**message, "pids": node.pids} for node in self._in_use()}
        self._wait(self._send(asked), _OPEN, on_progress=on_progress, weigh=lambda name: len(self._nodes[name].pids))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Return a context manager inside of which the ranks stand still."""
        began = time.monotonic()
        asked = [node.name for node in self._in_use()]
        try:
            self._wait(
                self._send({name: {"do": "stop"} for name in asked}), self.how.limit.seconds * _OF_LIMIT, standing=True
            )
            self.stop_skew = time.monotonic() - began if len(asked) > 1 else 0.0
            yield
        except KeyboardInterrupt:
            self.close()  # all at once: one that doesn't answer must not stand while we wait for it
            raise
        finally:
            self._wait(self._send({name: {"do": "resume"} for name in asked}), _RESUME)
            self.stop_time += time.monotonic() - began

    def read(self) -> None:
        """Read the ranks."""
        asked = {node.name: {"do": "read"} for node in self._in_use() if node.refused is None}
        self._wait(
            self._send(asked), self.how.limit.seconds * _OF_LIMIT if self.how.stop else _REPORT, standing=self.how.stop
        )

    def read_copies(self) -> bool:
        """Let each agent read what it has copied; return False where one needs all to stand again."""
        asked = {node.name: {"do": "read_copies"} for node in self._in_use() if node.refused is None}
        return all(answer is not False for answer in self._wait(self._send(asked), _REPORT).values())

    def processes(self, at: float) -> list[JobProcess]:
        """Return what was read; the ranks run."""
        asked = {node.name: {"do": "report", "at": at} for node in self._in_use() if node.refused is None}
        read: dict[tuple[str, int], JobProcess] = {}
        jobs = self._jobs

        def take(name: str, document: Any) -> None:
            for process in jobs.read(document, most=len(self._nodes[name].pids)):
                if len(process.samples) > 1 or len(process.starts) > 1:
                    raise DamagedError("has read more than once")
                read[name, process.pid] = process

        self._wait(self._send(asked), _REPORT, take=take)
        assert self._found is not None
        return [self._process(rank, read.get((rank.host, rank.pid))) for rank in self._found.ranks]

    def watch(self, seconds: float) -> None:
        """Let time pass, and let each agent watch its ranks."""
        end = time.monotonic() + seconds
        asked = self._send({node.name: {"do": "watch", "seconds": seconds} for node in self._in_use()})
        self._wait(asked, seconds + peek.MAX_LONGER + _LATE)
        time.sleep(max(end - time.monotonic(), 0.0))

    def footprints(self) -> list[Footprint]:
        """Return nothing: it is the agents that could compare the memory of their ranks."""
        return []

    def _in_use(self) -> list[_Node]:
        return [node for node in self._nodes.values() if node.lost is None and node.pids]

    def _process(self, found: FoundRank, read: JobProcess | None) -> JobProcess:
        if found.state is not None:
            return unread(found, found.state, found.why, found.remedy)
        node = self._nodes[found.host]
        obstacle = node.lost or node.refused
        if obstacle is not None:
            return unread(found, obstacle.state, obstacle.why, obstacle.remedy)
        who = f"process {found.pid} on {found.host}"
        if read is None:
            return unread(found, RankState.UNREADABLE, f"the agent says nothing of {who}")
        if found.rank is not None and read.rank != found.rank:
            why = f"{who} says that it is rank {read.rank}, and its launcher gave it rank {found.rank}"
            return unread(found, RankState.UNREADABLE, why)
        if (read.world, read.host, read.program) == (found.world, found.host, found.program):
            return read
        return replace(read, world=found.world, host=found.host, program=found.program)

    # ------------------------------------------------------------ the conversation

    def _send(self, messages: Mapping[str, wire.Message]) -> dict[str, str]:
        """Send messages to nodes; return what those are asked that can answer, as _wait takes it."""
        messages = {name: message for name, message in messages.items() if self._nodes[name].lost is None}
        lines = ((json.dumps(message).encode("ascii") + b"\n", name) for name, message in messages.items())
        for line, names in grouped(lines).items():
            self._carrier.send(names, line)
        return {name: str(message["do"]) for name, message in messages.items()}

    def _wait(
        self,
        expected: dict[str, str],
        seconds: float,
        *,
        take: Callable[[str, Any], None] | None = None,
        standing: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
        weigh: Callable[[str], int] = lambda name: 1,
    ) -> dict[str, Any]:
        """Return what nodes answer; who doesn't is lost, or has refused.

        Args:
            expected: what each was asked, "" for its greeting.
            seconds: that they have.
            take: takes each answer as soon as it comes, and raises DamagedError; then nothing is returned.
            standing: whether ranks stand, so that nobody must be left without a word.
            on_progress: called with what is done, and all.
            weigh: what one node counts for in that.
        """
        end = time.monotonic() + seconds
        word = time.monotonic() + _STILL_HERE
        waiting = dict(expected)
        answers: dict[str, Any] = {}
        total = left = sum(map(weigh, expected))
        while waiting and (now := time.monotonic()) < end:
            if standing and now >= word:
                word = now + _STILL_HERE
                self._keep_holding(name for name in expected if name not in waiting)
            event = self._carrier.next(min(end, word if standing else end) - now)
            if event is None or event.node not in self._nodes:
                continue
            node = self._nodes[event.node]
            if isinstance(event, Gone):
                self._lose(node, _gone(node, event))
            elif node.lost is None:
                self._hear(node, event.text, waiting, answers, take)
            if node.lost is not None:
                waiting.pop(node.name, None)
            if node.name not in waiting:
                end = end if standing else time.monotonic() + seconds
                left = sum(map(weigh, waiting)) if on_progress else left
                if on_progress:
                    on_progress(total - left, total)
        for name in waiting:
            why = f"{name} did not answer within {seconds:g} s"
            self._lose(self._nodes[name], Obstacle(RankState.UNREADABLE, why, "sample again, or log in there"))
        return answers

    def _keep_holding(self, names: Iterable[str]) -> None:
        """Have nodes that have answered hold their ranks on: one that hears nothing for a while lets them go."""
        held = [name for name in names if self._nodes[name].lost is None]
        self._carrier.send(held, b'{"do":"keep_alive"}\n')
        for name in held:
            self._nodes[name].words += 1

    def _hear(
        self,
        node: _Node,
        line: bytes,
        waiting: dict[str, str],
        answers: dict[str, Any],
        take: Callable[[str, Any], None] | None,
    ) -> None:
        """Take in a line of a node's agent."""
        if not node.greeted:
            self._greet(node, line)
            if node.greeted and waiting.get(node.name) == "":
                del waiting[node.name]
            return
        try:
            message = node.assembler.add(line)
            if message is None:
                return
            if message.get("to") == "keep_alive" and node.words:
                node.words -= 1
                return
            if message.get("to") != waiting.get(node.name):
                raise DamagedError("answers what wasn't asked")
            if "failed" in message:
                node.refused = _refused(node.name, message)
            elif take:
                take(node.name, message.get("done"))
            else:
                answers[node.name] = message.get("done")
            del waiting[node.name]
        except DamagedError as error:
            self._lose(node, _damaged(node.name, error))

    def _greet(self, node: _Node, line: bytes) -> None:
        """Take in a line before the greeting, or the greeting."""
        node.lines += 1
        try:
            said = wire.Assembler().add(line)
        except DamagedError:
            said = None
        if said is not None and "mqs-agent" in said:
            node.greeted = said == wire.GREETING
            if not node.greeted:
                version = str(said.get("version"))[:40]
                self._lose(node, _unusable(f"{node.name} has libmqs {version}, and this is {__version__}"))
        elif node.lines > _MAX_GREETED:
            self._lose(node, _unusable(f"what was started on {node.name} is no agent of libmqs"))

    def _lose(self, node: _Node, why: Obstacle) -> None:
        """Give a node up: its agent ends, and lets its ranks go."""
        if node.lost is None:
            node.lost = why
            self._carrier.end(node.name)


# ---------------------------------------------------------------- what is in the way


def _unusable(why: str) -> Obstacle:
    return Obstacle(RankState.UNREADABLE, why, _INSTALL)


def _damaged(name: str, error: DamagedError) -> Obstacle:
    return Obstacle(RankState.UNREADABLE, f"what {name} sent is no answer of an agent: it {error}", "")


def _refused(name: str, message: Mapping[str, Any]) -> Obstacle:
    why, remedy = (str(message.get(key, ""))[:1000] for key in ("failed", "help"))
    return Obstacle(RankState.UNREADABLE, f"the agent on {name}: {why}", remedy)


def _gone(node: _Node, gone: Gone) -> Obstacle:
    """Return why an agent has ended."""
    said = gone.said.strip().rpartition("\n")[2][:500]
    if node.greeted:
        why = f"the agent on {node.name} ended while it was asked (exit code {gone.code})"
        return Obstacle(RankState.UNREADABLE, f"{why}{f': {said}' if said else ''}", "sample again")
    if gone.code == _NOT_FOUND or "mqs_dll" in said:
        return _unusable(f"libmqs can't be started on {node.name}: {said or 'there is no such command'}")
    if gone.code == _SSH_FAILED:
        remedy = f"`ssh {node.name} true` must work without a password (docs/clusters.md)"
        return Obstacle(RankState.UNREADABLE, f"{node.name} can't be reached: {said or 'ssh says nothing'}", remedy)
    return _unusable(f"the agent on {node.name} ended at once (exit code {gone.code}){f': {said}' if said else ''}")


def _by_node(ranks: Iterable[FoundRank], here: str) -> dict[str, list[int]]:
    """Return the PIDs that are known of ranks: of those here, and of those that a table says to be elsewhere."""
    known = (rank for rank in ranks if rank.pid and (rank.state is not None or rank.host == here))
    return grouped((hosts.short(rank.host), rank.pid) for rank in known)


def _hosts_of(part: NodePart) -> Iterator[str]:
    return (rank.host for rank in part.ranks if rank.host and rank.host != part.host)
