"""Graphs in linear time: who can go on in the end, and which circles those make up who can't."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence


class Gates:
    """A wait-for graph with AND and OR: each node can go on as soon as enough of those that it waits for can."""

    def __init__(self, nodes: int) -> None:
        """Make nodes 0 to ``nodes`` - 1, which wait for nothing and don't go on unless they are told to."""
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

    def solve(self, free: Iterable[int]) -> bytearray:
        """Return for each node whether it can go on (1), in the least solution: nobody goes on without a cause.

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


def circles(nodes: Iterable[int], successors: Callable[[int], Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, those that lead to no other first.

    By Tarjan's algorithm, without recursion.

    Args:
        nodes: where to begin.
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
