"""Graphs in linear time: the fixpoint of who can go on, the strongly connected components of the rest, their cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from mqs_dll.verdict.evidence import Evidence
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.states import ThreadWait


class AndOrGraph:
    """A wait-for graph with AND and OR: each node can go on as soon as enough of those that it waits for can."""

    def __init__(self, nodes: int) -> None:
        """Make nodes 0 to ``nodes`` - 1, which wait for nothing and don't go on until they are marked so."""
        self._missing: list[int | None] = [None] * nodes
        self._waiters: list[list[int]] = [[] for _ in range(nodes)]

    def add(self, count: int, children: Iterable[int]) -> int:
        """Return a new node that can go on when ``count`` of its children can; 0 is at once."""
        node = len(self._missing)
        self._missing.append(None)
        self._waiters.append([])
        self.set(node, count, children)
        return node

    def set(self, node: int, count: int, children: Iterable[int]) -> None:
        """Say what a node waits for; a child that is given twice counts twice."""
        self._missing[node] = count
        for child in children:
            self._waiters[child].append(node)

    def fixpoint(self, free: Iterable[int]) -> bytearray:
        """Return for each node whether it can go on (1), in the least fixpoint: nobody goes on without a cause.

        Args:
            free: nodes that go on in any case.
        """
        missing = list(self._missing)
        live = bytearray(len(missing))
        todo = deque({*free, *(node for node, count in enumerate(missing) if count == 0)})
        for node in todo:
            live[node] = 1
        while todo:
            for waiter in self._waiters[todo.popleft()]:
                count = missing[waiter]
                if live[waiter] or count is None:
                    continue
                missing[waiter] = count - 1
                if count == 1:
                    live[waiter] = 1
                    todo.append(waiter)
        return live


def strongly_connected(nodes: Iterable[int], successors: Callable[[int], Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, those that lead to no other first.

    By Tarjan's algorithm, without recursion.

    Args:
        nodes: where to start.
        successors: the nodes that a node leads to.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        path = [(root, iter(successors(root)))]
        index[root] = low[root] = len(index)
        open_nodes.append(root)
        is_open.add(root)
        while path:
            node, rest = path[-1]
            for successor in rest:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    open_nodes.append(successor)
                    is_open.add(successor)
                    path.append((successor, iter(successors(successor))))
                    break
                if successor in is_open:
                    low[node] = min(low[node], index[successor])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_close(node, open_nodes, is_open))
    return found


def _close(node: int, open_nodes: list[int], is_open: set[int]) -> list[int]:
    component = []
    while True:
        member = open_nodes.pop()
        is_open.discard(member)
        component.append(member)
        if member == node:
            return component


def shortest_cycle(nodes: Sequence[int], successors: Callable[[int], Sequence[int]]) -> list[int]:
    """Return a cycle through the first of some nodes that goes through no more of them than it must, in its order.

    Args:
        nodes: all of one strongly connected component.
        successors: the nodes that a node leads to.

    Returns:
        Empty where the first node isn't on a cycle.
    """
    start, within = nodes[0], {*nodes}
    before: dict[int, int] = {}
    todo = deque([start])
    while todo:
        node = todo.popleft()
        for successor in successors(node):
            if successor == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(before[cycle[-1]])
                return cycle[::-1]
            if successor in within and successor not in before:
                before[successor] = node
                todo.append(successor)
    return []


def any_cycle(nodes: Sequence[int], successor: Callable[[int], int | None]) -> list[int]:
    """Return a cycle, by going from each node to the one that it leads to; empty where there is none."""
    seen: dict[int, int] = {}
    for start in nodes:
        path: list[int] = []
        node: int | None = start
        while node is not None and node not in seen:
            seen[node] = start
            path.append(node)
            node = successor(node)
        if node is not None and seen[node] == start:
            return path[path.index(node) :]
    return []


# ---------------------------------------------------------------- who waits for whom


class Components:
    """The strongly connected components of those who are stuck: in each, all wait for all others.

    A set of peers that several processes wait for is one node between them: 10,000 receives from any source are
    10,000 arrows to it, and 10,000 from it.
    """

    def __init__(self, unmet: Mapping[int, Sequence[Need]], processes: int) -> None:
        """Find them.

        Args:
            unmet: by stuck process, its needs that can't be met.
            processes: how many the job has.
        """
        self._unmet = unmet
        self._processes = processes
        self._groups: dict[tuple[int | None, ...], int] = {}
        self._members: list[list[int]] = []
        self.of_process: dict[int, int] = {}
        """By stuck process, the number of its component."""
        self.all: list[list[int]] = []
        """The processes of each component, ascending."""
        for component in strongly_connected(sorted(unmet), self._successors):
            processes_of_it = sorted(node for node in component if node >= 0)
            self.of_process.update(dict.fromkeys(processes_of_it, len(self.all)))
            self.all.append(processes_of_it)

    def _successors(self, node: int) -> Sequence[int]:
        if node < 0:
            return self._members[-1 - node]
        found: list[int] = []
        for need in self._unmet[node]:
            if len(need.peers) == 1:
                found.extend(peer for peer in need.peers if peer is not None and peer in self._unmet)
            else:
                found.append(self._group(need.peers))
        return found

    def _group(self, peers: tuple[int | None, ...]) -> int:
        if peers not in self._groups:
            self._groups[peers] = -1 - len(self._members)
            candidates = peers if peers else range(self._processes)
            self._members.append([peer for peer in candidates if peer is not None and peer in self._unmet])
        return self._groups[peers]


class StuckGraph:
    """Who needs whom among those who are stuck, proved or suspected."""

    def __init__(
        self,
        unmet: Mapping[int, Sequence[Need]],
        threads: Mapping[int, Sequence[ThreadWait]],
        gone: Collection[int],
        processes: int,
    ) -> None:
        """Make it.

        Args:
            unmet: by stuck process, its needs that can't be met.
            threads: by stuck process, those of its threads that wait.
            gone: the processes that never act again.
            processes: how many the job has.
        """
        self._unmet = unmet
        self._threads = threads
        self._processes = processes
        self._never = {*unmet, *gone}
        self._outside: dict[tuple[int | None, ...], bool] = {}
        self.components = Components(unmet, processes)

    def cyclic_components(self) -> list[list[int]]:
        """Return the components of more than one process: in each of them, all wait for others of it."""
        return [component for component in self.components.all if len(component) > 1]

    def leads_out(self, component: Sequence[int]) -> bool:
        """Return whether some process of a component waits for one that isn't stuck, and may come."""
        return any(self._leads_out(need.peers) for process in component for need in self._unmet[process])

    def _leads_out(self, peers: tuple[int | None, ...]) -> bool:
        if peers not in self._outside:
            candidates = peers if peers else range(self._processes)
            self._outside[peers] = any(peer not in self._never for peer in candidates)
        return self._outside[peers]

    def single_peers(self, process: int) -> list[int]:
        """Return the stuck processes without which a process can't go on."""
        return [need.peers[0] for need in self.firm(process) if need.peers[0] is not None]

    def firm(self, process: int) -> list[Need]:
        """Return the unmet needs of a process that one stuck peer alone could end, and without which it can't go on."""
        threads = self._threads[process]
        if len(threads) != 1:
            return []
        thread = threads[0]
        firm = {*thread.also}
        if len(thread.needs) == 1 or thread.needs_all is Evidence.YES:
            firm |= {*thread.needs}
        return [
            need
            for need in self._unmet[process]
            if need in firm and len(need.peers) == 1 and need.peers[0] in self._unmet
        ]
