"""The order of requests on linked lists whose heads are variables that a stripped library doesn't name.

All members of the lists are known, and so are the links between them: a list's first member is one that no other
leads to.
"""

from __future__ import annotations

from collections.abc import Mapping


def lists_of(links: Mapping[int, int]) -> tuple[list[list[int]], bool]:
    """Return the lists that some links make, each in its order.

    Args:
        links: where each member leads to, by its address; the last one of a list leads to 0.

    Returns:
        The lists, in which every member is once, and whether the links prove them: members of a ring make a list in
        no order, and one that leads to a stranger or into another list is of no use.
    """
    successors = set(links.values())
    seen: set[int] = set()
    lists = []
    for address in links:
        if address not in successors:
            lists.append(_walk(links, address, seen))
    ring = [address for address in links if address not in seen]
    proved = not ring and sum(link == 0 for link in links.values()) == len(lists)
    return lists + [ring] * bool(ring), proved


def _walk(links: Mapping[int, int], first: int, seen: set[int]) -> list[int]:
    found = []
    address = first
    while address in links and address not in seen:
        seen.add(address)
        found.append(address)
        address = links[address]
    return found


def in_list_order(links: Mapping[int, int]) -> tuple[list[int], bool]:
    """Return the members of one list in its order, each once, and whether the links prove that order."""
    lists, proved = lists_of(links)
    return [address for each in lists for address in each], proved and len(lists) <= 1
