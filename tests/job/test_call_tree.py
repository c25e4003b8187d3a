"""The call tree of a job, from stacks that are made up."""

from __future__ import annotations

from dataclasses import replace

from mqs_dll.job.call_tree import MAX_DEPTH, CallNode, CallTree, Members, PlaceKind, Unseen, call_tree
from mqs_dll.job.records import CallStack, CodeOwner, Frame, Job, Language, Repeat
from mqs_dll.job.snapshot import Hidden
from tests.support.made_up_job import job, rank

OWNERS = {"libmpi.so": CodeOwner.MPI, "libc.so": CodeOwner.RUNTIME, "python3": CodeOwner.PYTHON}


def frame(function: str, module: str = "solver", line: int | None = None) -> Frame:
    """Return a frame; one of the program's has a line of solver.c where it is given."""
    owner = OWNERS.get(module, CodeOwner.PROGRAM)
    return Frame(function, module, None if line is None else "src/solver.c", line, owner=owner)


STARTS = (frame("", "libc.so"), frame("__libc_start_main", "libc.so"), frame("_start"))


def receives(*own: Frame) -> CallStack:
    """Return the stack of a thread in MPI_Recv, called by these functions, innermost first, below main's callers."""
    inside = (frame("poll", "libc.so"), frame("progress", "libmpi.so"), frame("MPI_Recv", "libmpi.so"))
    return CallStack(1, "MPI_Recv", own[0], None, (*inside, *own, *STARTS), "", in_call=3, complete=True)


def computes(*own: Frame, inner: tuple[Frame, ...] = ()) -> CallStack:
    """Return the stack of a thread outside MPI."""
    return CallStack(1, None, own[0], None, (*inner, *own, *STARTS), "", complete=True)


def of(*stacks: tuple[CallStack, ...] | Hidden) -> Job:
    """Return a job of one sample, with the threads of each rank."""
    return job(*(rank(number, stacks=each) for number, each in enumerate(stacks)))


def lines(tree: CallTree) -> list[str]:
    """Return "depth name of the place, line: processes" of each node."""
    found = []
    for depth, node in tree.walk():
        place = node.place
        name = place.function or f"({place.kind.value})"
        found.append(f"{depth} {name}{'' if place.line is None else f' {place.line}'}: {list(node.processes)}")
    return found


def test_paths_part_where_ranks_do() -> None:
    """A function is one place, whatever line it is at; the places that it calls have the line of the call."""
    main = frame("main", line=9)
    solve = frame("solve", line=5)
    elsewhere = frame("main", line=12)
    tree = call_tree(
        of((receives(solve, main),), (receives(solve, main),), (computes(frame("write", line=3), elsewhere),))
    )
    assert lines(tree) == [
        "0 main: [0, 1, 2]",
        "1 solve 9: [0, 1]",
        "2 MPI_Recv 5: [0, 1]",
        "1 write 12: [2]",
        "2 (line) 3: [2]",
    ]


def test_what_says_little_is_left_out_unless_asked_for() -> None:
    """The MPI's insides, what comes before main, the interpreter, and what a function of the C library calls."""
    sleeping = computes(frame("main"), inner=(frame("clock_nanosleep", "libc.so"), frame("usleep", "libc.so")))
    interpreter = frame("PyObject_Call", "python3")
    python = Frame("swap", "halo.py", "halo.py", 7, Language.PYTHON)
    assert lines(call_tree(of((receives(frame("main")),)))) == ["0 main: [0]", "1 MPI_Recv: [0]"]
    assert lines(call_tree(of((sleeping,)))) == ["0 main: [0]", "1 usleep: [0]"]
    assert lines(call_tree(of((receives(python, interpreter),)))) == ["0 swap: [0]", "1 MPI_Recv 7: [0]"]
    whole = call_tree(of((receives(frame("main")),)), all_frames=True)
    assert [line.split()[1].rstrip(":") for line in lines(whole)] == [
        *("_start", "__libc_start_main", "(function)", "main", "MPI_Recv", "progress", "poll")
    ]


def test_a_callback_is_below_its_call() -> None:
    """The program's functions inside of an MPI call stand in the tree, those of the MPI between them don't."""
    called = frame("add", line=2)
    inside = (called, frame("reduce", "libmpi.so"), frame("MPI_Allreduce", "libmpi.so"))
    stack = CallStack(
        1,
        "MPI_Allreduce",
        frame("main"),
        None,
        (*inside, frame("main", line=8), *STARTS),
        "",
        callback=called,
        in_call=3,
    )
    assert lines(call_tree(of((stack,)))) == ["0 main: [0]", "1 MPI_Allreduce 8: [0]", "2 add: [0]", "3 (line) 2: [0]"]


def test_members_say_in_how_many_samples_they_were_there() -> None:
    """Those that were there in all samples first."""
    waiting = of((receives(frame("main")),), (receives(frame("main")),))
    moved = of((receives(frame("main")),), (computes(frame("main")),))
    both = replace(
        waiting,
        processes=tuple(
            replace(one, samples=(*one.samples, *other.samples))
            for one, other in zip(waiting.processes, moved.processes, strict=True)
        ),
    )
    tree = call_tree(both)
    main = tree.roots[0]
    assert (tree.samples, main.members) == (2, (Members(2, 2, (0, 1)),))
    assert main.children[0].members == (Members(2, 2, (0,)), Members(1, 2, (1,)))
    assert [each.always for each in main.children[0].members] == [True, False]


def test_a_stack_that_ends_early_starts_at_a_cut() -> None:
    """It doesn't count as one whose first function this is."""
    whole, cut = receives(frame("main")), replace(receives(frame("main")), complete=False)
    assert lines(call_tree(of((whole,), (cut,)))) == [
        *("0 main: [0]", "1 MPI_Recv: [0]", "0 (cut): [1]", "1 main: [1]", "2 MPI_Recv: [1]")
    ]


def test_functions_of_python_that_are_not_known_have_a_place() -> None:
    """In place of the interpreter's frames, one for as many as stand together."""
    runs = (frame("_PyEval_EvalFrameDefault", "python3"), frame("call", "python3"))
    stack = receives(
        frame("wrapper", "numpy.so"), *runs, *runs, frame("apply", "numpy.so"), *runs, frame("main", "python3")
    )
    assert lines(call_tree(of((stack,)))) == [
        *("0 (Python): [0]", "1 apply: [0]", "2 (Python): [0]", "3 wrapper: [0]", "4 MPI_Recv: [0]")
    ]
    assert "(Python)" not in str(lines(call_tree(of((stack,)), all_frames=True)))


def test_functions_without_a_name_are_distinct_places() -> None:
    """By their address; the one that the C library calls is main."""
    one, other = replace(frame(""), address=0x1180), replace(frame(""), address=0x2200)
    places = [
        node.place for _, node in call_tree(of((receives(one, frame("")),), (receives(other, frame("")),))).walk()
    ]
    assert [(each.function, each.address) for each in places if each.kind is PlaceKind.FUNCTION] == [
        *(("main", 0), ("", 0x1180), ("", 0x2200))
    ]


def test_what_the_c_library_calls_on_the_way_is_not_main() -> None:
    """A function without a name that qsort calls stands below main, whose callers lead out of the program."""
    compare, main = replace(frame(""), address=0x1180), replace(frame(""), address=0x2200)
    tree = call_tree(of((receives(compare, frame("qsort", "libc.so"), main),)))
    assert [(node.place.function, node.place.address) for _, node in tree.walk()] == [
        *(("main", 0), ("qsort", 0), ("", 0x1180), ("MPI_Recv", 0))
    ]


def test_other_threads_have_paths_of_their_own() -> None:
    """Marked at their first function, and below the main threads'."""
    worker = computes(frame("main"))
    tree = call_tree(of((receives(frame("main")), worker)))
    assert [(root.place.function, root.place.is_thread) for root in tree.roots] == [("main", False), ("main", True)]


def test_a_recursion_has_the_least_and_the_most_turns() -> None:
    """Over all ranks and samples."""
    frames = (frame("f", line=4), frame("main", line=9))
    deep = [(replace(computes(*frames), repeats=(Repeat(0, 1, times),)),) for times in (400, 300, 512, 450)]
    [main] = call_tree(of(*deep)).roots
    assert (main.times, main.children[0].times) == ((1, 1), (300, 512))


def test_a_path_without_end_keeps_both_ends() -> None:
    """So nobody who prints it or nests it needs a bound of its own."""
    frames = [frame(f"f{number}") for number in range(10_000)]
    tree = call_tree(of((receives(*frames, frame("main")),)))
    found = [node for _, node in tree.walk()]
    assert (found[0].place.function, found[-1].place.function) == ("main", "MPI_Recv")
    assert [node.place.kind for node in found].count(PlaceKind.LEFT_OUT) == 1
    assert len(found) <= MAX_DEPTH + 1


def test_ranks_without_a_stack_are_named_with_the_reason() -> None:
    """They are in no path."""
    tree = call_tree(of((receives(frame("main")),), Hidden("no registers")))
    assert tree.unseen == (Unseen("no registers", (1,)),)
    assert ends(tree.roots[0]) == [(0,)]


def ends(node: CallNode) -> list[tuple[int, ...]]:
    """Return who is at the leaves below a node."""
    return [end for child in node.children for end in ends(child)] or [node.processes]
