"""Starts a command on many machines, and carries lines to it and back: ClusterShell, over ssh or a command of the site.

ClusterShell's loop runs in a thread of its own, so that whoever asks can wait for the answers; it gets its tasks
through ClusterShell's ports, and reports what has happened through a queue. When this process ends, however it does,
the standard input of all that it started ends too.
"""

from __future__ import annotations

import queue
import shlex
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from mqs_dll.contract.errors import NodesError
from mqs_dll.debugger.bases import Closes

CONNECT = 10.0
"""Seconds that ssh has to connect."""

MAX_LINE = 1 << 20
"""Bytes of a line: who sends more without an end of line would fill the memory."""

_MAX_UNREAD = 1 << 27
"""Bytes of a node's lines that nobody has taken yet: twice what any answer needs."""
_LINE = 100
"""Bytes that a line takes besides its own."""

_MAX_SAID = 20
"""Lines of standard error that are kept."""
_NO_FANOUT = 1 << 20
"""What ClusterShell runs at a time: its own 64 would keep the 65th from starting, because those before it stay."""
_GUARD = 1.0
"""Seconds between two checks of how much has come that can't be taken."""

SSH = ""
"""The engine that is ClusterShell's own."""


class AgentLine(NamedTuple):
    """A line has come from a node."""

    node: str
    text: bytes


class Gone(NamedTuple):
    """What was started on a node has ended."""

    node: str
    code: int
    """Its exit code; 255 of ssh itself, 128 and more when a signal ended it."""
    said: str
    """The last lines that it wrote on standard error."""


def slurm(job: str) -> str:
    """Return the engine that starts a command in a Slurm job, on one of its nodes."""
    return f"srun --jobid={shlex.quote(job)} --overlap --nodes=1 --ntasks=1 --nodelist=%h"


class Carrier(Closes):
    """What was started on nodes; a context manager that ends it all."""

    def __init__(self, engine: str = SSH) -> None:
        """Initialize; nothing is started yet.

        Args:
            engine: SSH, or the local command that starts another one on a node, with %h for the node's name.

        Raises:
            NodesError: ClusterShell isn't installed.
        """
        try:
            import ClusterShell.NodeSet
            import ClusterShell.Task
        except ImportError as error:
            raise NodesError(f"ClusterShell, which reaches other machines, can't be imported: {error}") from None
        self._task_self: Callable[[], Any] = ClusterShell.Task.task_self
        self._one = partial(ClusterShell.NodeSet.NodeSet, resolver=ClusterShell.NodeSet.RESOLVER_NOGROUP)
        self._engine = engine
        self._told: deque[Callable[[Any], None]] = deque()
        self._said: dict[str, deque[str]] = {}
        self._heard: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()  # each is counted by one thread alone
        self._workers: dict[str, Any] = {}
        self._events: queue.SimpleQueue[AgentLine | Gone] = queue.SimpleQueue()
        self._port: Any = None
        self._over = False
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True, name="mqs-nodes")
        self._thread.start()
        ready.wait()

    def start(self, nodes: Iterable[str], command: str, *, here: bool = False, data: bytes = b"") -> None:
        """Start a command of a shell on nodes; their names were checked (hosts.checked).

        Args:
            nodes: their names.
            command: what is started.
            here: whether they are this machine, to which no engine is needed.
            data: what to write to its standard input first.
        """
        distant = not here and not self._engine
        if here:
            command = f"exec {command}"
        elif self._engine:
            command = f"exec {self._engine} {shlex.join(['sh', '-c', command]).replace('%', '%%')}"
        if here:
            command = command.replace("%", "%%")

        def act(task: Any, node: str) -> None:
            self._said[node] = deque(maxlen=_MAX_SAID)
            self._workers[node] = task.shell(
                command, nodes=self._one(node), handler=_Handler(self), stderr=True, tree=False, remote=distant
            )
            if data:
                self._workers[node].write(data)

        for node in nodes:  # one by one: between them, those that were started are listened to
            self._tell(partial(act, node=node))

    def send(self, nodes: Iterable[str], data: bytes) -> None:
        """Write to the standard input of what was started on nodes; nothing happens where it has ended."""
        receivers = list(nodes)

        def act(task: Any) -> None:
            for node in receivers:
                self._workers[node].write(data)

        self._tell(act)

    def end(self, node: str) -> None:
        """End what was started on a node: its standard input ends."""
        self._tell(lambda task: self._workers[node].abort())

    def next(self, seconds: float) -> AgentLine | Gone | None:
        """Return what has happened next; None when nothing does within a time."""
        try:
            event = self._events.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None
        if isinstance(event, AgentLine):
            self._taken[event.node] += _LINE + len(event.text)
        return event

    def close(self) -> None:
        """End everything. Idempotent."""
        if self._thread.is_alive():
            self._tell(lambda task: task.abort())
            self._thread.join(CONNECT)

    # ------------------------------------------------------------ in the thread

    def _run(self, ready: threading.Event) -> None:
        task = self._task_self()
        task.set_info("fanout", _NO_FANOUT)
        task.set_info("connect_timeout", CONNECT)
        for stream in ("stdout_msgtree", "stderr_msgtree"):
            task.set_default(stream, False)
        handler = _Handler(self)
        self._port = task.port(handler=handler)
        task.timer(_GUARD, handler=handler, interval=_GUARD)
        ready.set()
        try:
            task.resume()
        finally:
            self._over = True
            for node in self._workers:
                self._events.put(Gone(node, 0, "ClusterShell has ended"))
            task.abort(kill=True)

    def _tell(self, act: Callable[[Any], None]) -> None:
        """Have the thread do something; nothing when it has ended."""
        if not self._over:
            self._told.append(act)
            self._port.msg_send(None)

    def run_next(self) -> None:
        """Run the next task of the thread."""
        self._told.popleft()(self._task_self())

    def heard(self, node: str, stream: str, text: bytes) -> None:
        """Note a line."""
        if stream == "stderr":
            self._said[node].append(text[:1000].decode("utf-8", "backslashreplace"))
        elif len(text) <= MAX_LINE and not self._floods(node):
            self._heard[node] += _LINE + len(text)
            self._events.put(AgentLine(node, text))

    def ended(self, node: str, code: int) -> None:
        """Note an end."""
        self._events.put(Gone(node, code, "\n".join(self._said[node])))

    def _floods(self, node: str) -> bool:
        return self._heard[node] - self._taken[node] > _MAX_UNREAD

    def guard(self) -> None:
        """End what sends a line without an end, or more than anybody reads."""
        for node, worker in self._workers.items():
            streams = [stream for client in worker._clients for stream in client.streams.values()]
            if any(len(stream.rbuf) > MAX_LINE for stream in streams):
                worker.abort()
                self._events.put(Gone(node, 0, "it sent a line without an end"))
            elif self._floods(node):
                worker.abort()
                self._events.put(Gone(node, 0, "it sent more than it was asked for"))


class _Handler:
    """What ClusterShell calls (ClusterShell.Event.EventHandler)."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
        """Take in a line."""
        self._carrier.heard(node, sname, msg)

    def ev_hup(self, worker: Any, node: str, rc: int | None) -> None:
        """Take in an end."""
        self._carrier.ended(node, rc or 0)

    def ev_msg(self, port: Any, msg: object) -> None:
        """Do what there is to do."""
        self._carrier.run_next()

    def ev_timer(self, timer: Any) -> None:
        """Look whether somebody sends too much."""
        self._carrier.guard()

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return what takes in anything else, and does nothing."""
        if not name.startswith(("ev_", "_ev_")):
            raise AttributeError(name)
        return lambda *arguments: None
