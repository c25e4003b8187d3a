"""The parts of a verdict that know nothing of jobs: calls, trees, graphs."""

from __future__ import annotations

import itertools

import pytest

from mqs_dll.job.bindings import functions
from mqs_dll.job.calls import Blocks, known, may_have_request, names_communicator, what_ends
from mqs_dll.verdict.graph import AndOrGraph, shortest_cycle, strongly_connected
from mqs_dll.verdict.roots import MPICH, OPEN_MPI, Parent, children, roots, roots_by_leader

# ---------------------------------------------------------------- calls


@pytest.mark.parametrize(
    ("call", "blocks"),
    [
        ("MPI_Recv", Blocks.RECEIVE),
        ("MPI_Recv_c", Blocks.RECEIVE),
        ("MPI_Waitsome", Blocks.SOME),
        ("MPI_Alltoallv", Blocks.ROOTED),
        ("MPI_Barrier", Blocks.TOGETHER),
        ("MPI_Barrier_init", Blocks.NOTHING),
        ("MPI_Isend", Blocks.NOTHING),
        ("MPI_Iprobe", Blocks.POLLS),
        ("MPI_Finalize", Blocks.END),
        ("MPI_Win_lock", Blocks.WINDOW),
        ("MPI_Put", Blocks.WINDOW),
    ],
)
def test_the_table_says_what_a_call_blocks_on(call: str, blocks: Blocks) -> None:
    """A call that only prepares returns at once; one with counts for each process may not wait for all."""
    assert what_ends(call) is blocks


@pytest.mark.parametrize("call", functions())
def test_every_call_of_the_standard_says_how_it_blocks(call: str) -> None:
    """There is no default: what isn't classified would be taken for unknown, which stands for a few by their names."""
    is_named = call.removesuffix("_c") in known()
    assert is_named or what_ends(call) is Blocks.NOTHING


def test_a_call_that_nobody_knows_blocks_on_nobody_knows_what() -> None:
    """One of a later standard, or of an MPI's own."""
    assert what_ends("MPIX_Harness") is Blocks.UNKNOWN


def test_a_window_keeps_a_communicator_that_the_program_may_have_freed() -> None:
    """So what MPI_Win_fence is on can't be distinguished from the communicators that there are."""
    assert names_communicator("MPI_Win_create")
    assert not names_communicator("MPI_Win_fence")


def test_a_blocking_call_makes_no_request_that_a_program_could_wait_for() -> None:
    """Where that isn't known, it may have one."""
    assert not may_have_request(("MPI_Recv",))
    assert may_have_request(("MPI_Recv", "MPI_Irecv"))
    assert may_have_request(("MPI_Send_init",))
    assert may_have_request(())


# ---------------------------------------------------------------- trees


TREES = list(dict.fromkeys((*OPEN_MPI, *MPICH)))


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_the_root_is_among_those_that_a_rank_may_take_for_it(tree: Parent) -> None:
    """Whichever it is, and whichever of those below it a rank still deals with: so none is ever made up."""
    for size in range(2, 12):
        for process, below in children(tree, size).items():
            for count in range(1, len(below) + 1):
                for some in itertools.combinations(sorted(below), count):
                    for root in range(size):
                        ranks = frozenset((each + root) % size for each in some)
                        assert root in roots(tree, size, (process + root) % size, ranks)


def test_every_tree_reaches_all_from_its_root() -> None:
    """Each process but the root is below exactly one other."""
    for tree in {*OPEN_MPI, *MPICH}:
        for size in range(2, 40):
            below = [each for found in children(tree, size).values() for each in found]
            assert sorted(below) == list(range(1, size))


def test_trees_are_those_of_the_mpis() -> None:
    """As their sources build them: four chains, binary by levels, binomial by the high and by the low bit, 4-nomial."""
    shapes = [
        {process: sorted(below) for process, below in children(tree, 10).items() if below} for tree in OPEN_MPI[2:]
    ]
    assert shapes == [
        {0: [1, 4, 6, 8], 1: [2], 2: [3], 4: [5], 6: [7], 8: [9]},
        {0: [1, 2], 1: [3, 5], 2: [4, 6], 3: [7], 4: [8], 5: [9]},
        {0: [1, 2, 4, 8], 1: [3, 5, 9], 2: [6], 3: [7]},
        {0: [1, 2, 4, 8], 2: [3], 4: [5, 6], 6: [7], 8: [9]},
        {0: [1, 2, 3, 4, 8], 4: [5, 6, 7], 8: [9]},
    ]


def test_a_root_that_hands_its_data_to_a_leader_is_among_those_too() -> None:
    """It sends to rank 0; all others send as if rank 0 were the root."""
    assert roots_by_leader(4, 1, frozenset({0})) == {1}
    assert roots_by_leader(4, 0, frozenset({1, 2})) == {0, 1, 2, 3}


# ---------------------------------------------------------------- graphs


def test_nobody_goes_on_without_a_cause() -> None:
    """Two that wait for each other stay; one that waits for a free one goes on, and with it who waits for that."""
    graph = AndOrGraph(5)
    for node, child in ((0, 1), (1, 0), (2, 4), (3, 2)):
        graph.set(node, 1, [child])
    assert list(graph.fixpoint([4])) == [0, 0, 1, 1, 1]


def test_an_and_needs_all_and_an_or_needs_one() -> None:
    """The count says how many of the children have to go on."""
    graph = AndOrGraph(4)
    graph.set(0, 2, [2, 3])
    graph.set(1, 1, [2, 3])
    assert list(graph.fixpoint([3]))[:2] == [0, 1]


def test_circles_come_before_those_who_wait_behind_them() -> None:
    """Tarjan's components: of 3 -> 2 -> 1 -> 2 the pair is one, and first; deep chains need no recursion."""
    edges = {3: [2], 2: [1], 1: [2]}
    assert [sorted(part) for part in strongly_connected([3, 2, 1], lambda node: edges[node])] == [[1, 2], [3]]
    depth = 100_000
    ring = strongly_connected(range(depth), lambda node: [(node + 1) % depth])
    assert [len(part) for part in ring] == [depth]


def test_the_shortest_cycle_is_in_its_order() -> None:
    """It starts with the node that was asked for, and goes round by no detour."""
    edges = {0: [1], 1: [2, 3], 2: [3], 3: [0]}
    assert shortest_cycle([0, 1, 2, 3], lambda node: edges[node]) == [0, 1, 3]
    assert shortest_cycle([0, 1], lambda node: {0: [1], 1: []}[node]) == []
