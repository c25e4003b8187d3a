"""Python functions in place of the interpreter's frames, and recursion folded."""

from __future__ import annotations

from mqs_dll.debugger.job.one_path import folded, with_python
from mqs_dll.job.records import CallStack, CodeOwner, Frame, Language, Repeat


def names(stack: CallStack) -> list[str]:
    """Return the functions of a stack, innermost first."""
    return [frame.function for frame in stack.frames]


def stack(*functions: str, in_call: int = 0) -> CallStack:
    """Return a stack in these functions; those that start like the interpreter's are its."""
    frames = [
        Frame(each, "m", None, None, owner=CodeOwner.PYTHON if each.startswith("_Py") else CodeOwner.PROGRAM)
        for each in functions
    ]
    return CallStack(1, None, None, None, tuple(frames), "", in_call=in_call)


def run(*functions: str) -> list[Frame]:
    """Return Python functions that one call of the interpreter runs."""
    return [Frame(each, "halo.py", "halo.py", 1, Language.PYTHON) for each in functions]


EVALUATES = "_PyEval_EvalFrameDefault"


def test_python_functions_stand_where_the_interpreter_runs_them() -> None:
    """All that one call of the interpreter runs, in its place; so calls from C back into Python are in order."""
    native = stack("MPI_Recv", EVALUATES, "sort", EVALUATES, "main", in_call=1)
    found = with_python(native, [run("key"), run("swap", "<module>")])
    assert names(found) == ["MPI_Recv", "key", "sort", "swap", "<module>", "main"]
    assert found.in_call == 1


def test_a_callback_in_python_counts_to_the_call() -> None:
    """The MPI function is the outermost of the frames that are the call's."""
    found = with_python(stack(EVALUATES, "reduce", "MPI_Allreduce", "main", in_call=3), [run("add", "inner")])
    assert (names(found)[: found.in_call], found.in_call) == (["add", "inner", "reduce", "MPI_Allreduce"], 4)


def test_python_that_does_not_fit_changes_nothing() -> None:
    """It was read a little later: then nobody knows which function runs where."""
    native = stack("MPI_Recv", EVALUATES, "main")
    assert with_python(native, [run("a"), run("b")]) is native
    assert with_python(native, []) is native


def test_recursion_has_one_turn() -> None:
    """Of one function or of several that call one another, inside of an MPI call and outside, each by itself."""
    assert folded(stack("a", "b", "main")).repeats == ()
    found = folded(stack("p", *["f"] * 512, "main"))
    assert (names(found), found.repeats) == (["p", "f", "main"], (Repeat(1, 1, 512),))
    found = folded(stack(*["f", "g"] * 5, "h", *["f"] * 3, in_call=4))
    assert names(found) == ["f", "g", "f", "g", "f", "g", "h", "f"]
    assert (found.in_call, found.repeats) == (4, (Repeat(4, 2, 3), Repeat(7, 1, 3)))


def test_functions_without_a_name_are_not_folded() -> None:
    """They may be different ones."""
    found = folded(stack("", "", "", ""))
    assert (len(found.frames), found.repeats) == (4, ())
