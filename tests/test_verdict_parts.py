"""The parts of a verdict that know nothing of jobs: ranges of ranks, words of operations, calls, graphs."""

from __future__ import annotations

import pytest

from mqs_dll.verdict.calls import Blocks, may_have_request, names_communicator, what_ends
from mqs_dll.verdict.graph import Gates, circles, shortest_cycle
from mqs_dll.verdict.ranges import MOST_RUNS, ranges, rank_words
from mqs_dll.verdict.words import read_marks, read_words

# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], "[]"),
        ([3], "[3]"),
        ([0, 1, 2, 3, 7], "[0-3,7]"),
        ([7, 2, 1, 0, 3, 3], "[0-3,7]"),
        ([0, 2, 4, 6], "[0,2,4,6]"),
        ([0, 2, 4, 6, 8], "[0-8:2]"),
        ([0, 2, 3, 4], "[0,2-4]"),
    ],
)
def test_ranks_are_written_in_ranges(ranks: list[int], text: str) -> None:
    """Neighbours are one range, long progressions have their step, order and repetition don't count."""
    assert ranges(ranks) == text


def test_ranges_that_fill_a_screen_are_cut_and_counted() -> None:
    """A sentence stays a sentence, however irregular the ranks are; a report that wants all of them asks for that."""
    squares = [number * number for number in range(100)]
    assert ranges(squares).endswith(",... 100 in all]")
    assert ranges(squares).count(",") == MOST_RUNS
    assert ranges(squares, most=None).endswith(",9801]")


def test_one_rank_is_no_range() -> None:
    """Sentences say "rank 7", and "ranks [7-8]"."""
    assert rank_words([7, 7]) == "rank 7"
    assert rank_words([8, 7]) == "ranks [7-8]"


# ---------------------------------------------------------------- words


def test_the_calls_that_may_have_made_an_operation_are_in_its_first_line() -> None:
    """Later lines name datatypes and requests, which are no calls."""
    words = read_words((b"MPI_Recv or MPI_Irecv", b"MPI_INT x 4, 16 bytes", b"request 0x98000000"))
    assert words.calls == ("MPI_Recv", "MPI_Irecv")
    assert not words.internal


@pytest.mark.parametrize(
    ("line", "name", "nonblocking"),
    [
        (b"collective: MPI_Barrier, alone or in another one", "MPI_Barrier", False),
        (b"nonblocking collective no. 3, or making of a communicator", None, True),
        (b"neighborhood collective", None, False),
        (b"making of a communicator (context id agreement)", None, False),
        (b"internal traffic of MPICH, tag 12", None, False),
    ],
)
def test_traffic_of_the_mpi_is_told_from_that_of_the_program(line: bytes, name: str | None, nonblocking: bool) -> None:
    """The line may stand behind others; a blocking collective has its name."""
    words = read_words((b"MPI_Recv or MPI_Irecv", b"MPI_INT x 4, 16 bytes", line))
    assert (words.internal, words.collective, words.nonblocking_collective) == (True, name, nonblocking)


def test_open_mpi_tells_which_requests_a_thread_waits_for_and_how_many_have_to_end() -> None:
    """The number is missing where the wait can't be read."""
    some = read_words(
        (b"MPI_Irecv, nonblocking", b"request 0x5561, in a wait for several requests, needs 2 more of them")
    )
    unclear = read_words((b"MPI_Irecv, nonblocking", b"request 0x5561, in a wait for several requests"))
    assert (some.in_wait, some.needs) == (True, 2)
    assert (unclear.in_wait, unclear.needs) == (True, None)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (b"halo", (b"halo", None, False)),
        (b"halo [inter, 4 remote, freed]", (b"halo", 4, False)),
        (b"[internal]", (b"", None, True)),
        (b"halo [mine]", (b"halo [mine]", None, False)),
    ],
)
def test_marks_are_told_from_a_programs_own_brackets(name: bytes, parts: tuple[bytes, int | None, bool]) -> None:
    """libmqs writes its marks behind the name; anything else is the program's name."""
    assert tuple(read_marks(name)) == parts


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
        ("MPI_Win_lock", Blocks.UNKNOWN),
    ],
)
def test_the_table_says_what_a_call_blocks_on(call: str, blocks: Blocks) -> None:
    """A call in no table returns at once; one with counts for each process may not wait for all."""
    assert what_ends(call) is blocks


def test_a_window_keeps_a_communicator_that_the_program_may_have_freed() -> None:
    """So what MPI_Win_fence is on can't be told from the communicators that there are."""
    assert names_communicator("MPI_Win_create")
    assert not names_communicator("MPI_Win_fence")


def test_a_blocking_call_makes_no_request_that_a_program_could_wait_for() -> None:
    """Where nothing tells, it may have one."""
    assert not may_have_request(("MPI_Recv",))
    assert may_have_request(("MPI_Recv", "MPI_Irecv"))
    assert may_have_request(("MPI_Send_init",))
    assert may_have_request(())


# ---------------------------------------------------------------- graphs


def test_nobody_goes_on_without_a_cause() -> None:
    """Two that wait for each other stay; one that waits for a free one goes on, and with it who waits for that."""
    gates = Gates(5)
    for node, child in ((0, 1), (1, 0), (2, 4), (3, 2)):
        gates.set(node, 1, [child])
    assert list(gates.solve([4])) == [0, 0, 1, 1, 1]


def test_an_and_needs_all_and_an_or_needs_one() -> None:
    """The count says how many of the children have to go on."""
    gates = Gates(4)
    gates.set(0, 2, [2, 3])
    gates.set(1, 1, [2, 3])
    assert list(gates.solve([3]))[:2] == [0, 1]


def test_circles_come_before_those_who_wait_behind_them() -> None:
    """Tarjan's components: of 3 -> 2 -> 1 -> 2 the pair is one, and first; deep chains need no recursion."""
    edges = {3: [2], 2: [1], 1: [2]}
    assert [sorted(part) for part in circles([3, 2, 1], lambda node: edges[node])] == [[1, 2], [3]]
    depth = 100_000
    ring = circles(range(depth), lambda node: [(node + 1) % depth])
    assert [len(part) for part in ring] == [depth]


def test_the_shortest_cycle_is_in_its_order() -> None:
    """It begins with the node that was asked for, and goes round by no detour."""
    edges = {0: [1], 1: [2, 3], 2: [3], 3: [0]}
    assert shortest_cycle([0, 1, 2, 3], lambda node: edges[node]) == [0, 1, 3]
    assert shortest_cycle([0, 1], lambda node: {0: [1], 1: []}[node]) == []
