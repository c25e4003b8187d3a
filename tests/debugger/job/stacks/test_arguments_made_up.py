"""Following values through machine code: what no compiler makes on demand, and what is remembered of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mqs_dll.debugger.job.stacks.arguments import remember
from mqs_dll.debugger.job.stacks.arguments.decode import decoder
from mqs_dll.debugger.job.stacks.arguments.evaluate import ContradictionError, FrameValues, targets
from mqs_dll.debugger.job.stacks.arguments.flow import Followed, Goal, UnknownWayError
from mqs_dll.debugger.job.stacks.arguments.remember import remembered
from mqs_dll.debugger.job.stacks.arguments.state import MachineState, join
from mqs_dll.debugger.job.stacks.arguments.transfer import Transfer
from mqs_dll.debugger.job.stacks.arguments.values import WORD, Label, Value

ARGUMENT: Label = ("arg", 0)
TOP = ("stack", 0, 0)
BLOCK = 0x2000


def word(label: Label) -> Value:
    return Value(label, WORD)


def state(**registers: Label) -> MachineState:
    """Return a state with the stack pointer as at entry, and some registers."""
    return MachineState({name: word(label) for name, label in {"rsp": TOP, **registers}.items()})


def run(before: MachineState, *code: str) -> MachineState:
    """Run instructions, in hexadecimal."""
    transfer = Transfer(lambda label: False)
    address = 0x1000
    for each in code:
        instruction = decoder().decode(bytes.fromhex(each), address)
        assert instruction is not None
        transfer.run(before, instruction)
        address = instruction.end
    return before


def test_a_slot_keeps_what_was_pushed_and_an_overlapping_write_takes_it() -> None:
    """push rdi; then mov word ptr [rsp+4], 0."""
    pushed = run(state(rdi=ARGUMENT), "57")
    assert pushed.slots == {(0, -8): word(ARGUMENT)}
    assert run(pushed, "66c74424040000").slots == {(0, -4): Value(("const", 0), 2)}


def test_four_bytes_are_extended_as_the_instruction_does() -> None:
    """mov eax, edi; movsxd rcx, edi: the low halves are the same value, the whole registers are not."""
    after = run(state(rdi=ARGUMENT), "89f8", "4863cf")
    assert after.registers["rax"] == word(("ext", "z", 4, ARGUMENT))
    assert after.registers["rcx"] == word(("ext", "s", 4, ARGUMENT))


def test_an_unknown_instruction_takes_what_it_writes_and_no_more() -> None:
    """bswap edi: a value of its own."""
    after = run(state(rdi=ARGUMENT, rsi=("arg", 1)), "0fcf")
    assert after.registers["rdi"].label[0] == "set"
    assert after.registers["rsi"] == word(("arg", 1))


def test_an_instruction_that_runs_again_takes_its_label_back() -> None:
    """A copy of what bswap gave the last time isn't what it gives now."""
    once = run(state(rdi=ARGUMENT), "0fcf")
    once.registers["rbx"] = once.registers["rdi"]
    assert "rbx" not in run(once, "0fcf").registers


def test_who_has_an_address_may_write_there_and_above() -> None:
    """A call with the address of a slot takes that slot and those above it, not those below."""
    before = state(rdi=("stack", 0, -16))
    before.registers["rsp"] = word(("stack", 0, -32))
    before.slots = {(0, offset): word(ARGUMENT) for offset in (-24, -16, -8)}
    before.call()
    assert before.slots == {(0, -24): word(ARGUMENT)}


def test_a_write_at_a_computed_place_of_the_stack_takes_all_of_it() -> None:
    """mov [rsp + rax*4], edi: an array may be addressed from either end."""
    before = state(rdi=ARGUMENT, rax=("arg", 1))
    before.slots = {(0, -8): word(ARGUMENT), (0, -16): word(ARGUMENT)}
    assert run(before, "893c84").slots == {}


@pytest.mark.parametrize(("code", "is_own"), [("5b", True), ("59", False)], ids=["pop rbx", "pop rcx"])
def test_what_is_only_taken_off_the_stack_may_be_another_functions(code: str, is_own: bool) -> None:
    """A function takes the arguments of its calls off by pop, too; a register that calls keep it gets back."""
    transfer = Transfer(lambda label: False)
    instruction = decoder().decode(bytes.fromhex(code), 0x1000)
    assert instruction is not None
    transfer.run(state(rsp=("stack", 0, -8)), instruction)
    assert ((0, -8) in transfer.read_slots) is is_own


def test_places_that_differ_alike_on_all_ways_stay_alike() -> None:
    """Two registers with the same value on each of two ways have the same at their end; a third has another."""
    one = state(rbx=("arg", 0), r12=("arg", 0), r13=("arg", 0))
    other = state(rbx=("arg", 1), r12=("arg", 1), r13=("arg", 2))
    joined = join(BLOCK, [one, other]).registers
    assert joined["rbx"] == joined["r12"] != joined["r13"]


def test_a_block_that_runs_again_takes_its_labels_back() -> None:
    """What a block called the value of rbx is another one the next time, if rbx has changed meanwhile."""
    old = ("phi", BLOCK, "rbx", ())
    joined = join(BLOCK, [state(rbx=("arg", 0), r12=("arg", 1)), state(rbx=("const", 7), r12=old)])
    assert joined.registers["r12"].label != old


def test_a_value_that_is_two_numbers_is_a_contradiction() -> None:
    """What was followed isn't what the process did; the same number twice is fine, and half of it."""
    numbers = FrameValues(0, {})
    numbers.learn(word(("ext", "s", 4, ARGUMENT)), 2**64 - 5)
    numbers.learn(Value(ARGUMENT, 4), 2**32 - 5)
    with pytest.raises(ContradictionError):
        numbers.learn(Value(ARGUMENT, 4), 5)


def test_a_jumps_table_is_read_as_far_as_its_index_can_go() -> None:
    """An index of at most 2 has three targets; without a bound there is no answer."""
    entry = ("op", "add", 8, ("op", "imul", 8, ("ext", "z", 4, ARGUMENT), ("const", 8)), ("const", 0x4000))
    label = ("load", 0x1000, entry, 8)
    read: Callable[[Label, int, int], int] = lambda _, address, size: address + 1  # noqa: E731
    assert targets(label, [(Value(ARGUMENT, 4), 2)], 0, read) == [0x4001, 0x4009, 0x4011]
    assert targets(label, [], 0, read) is None


# ---------------------------------------------------------------- what is remembered

FOLLOWED = Followed(
    (0, -8),
    ((0, word(("op", "add", 8, ("set", 5, "rax", (0,)), ("const", 1)))), (1, Value(("load", 0, ("image", 64), 4), 4))),
    (("rbx", word(ARGUMENT)),),
    ((0, -16, word(("phi", BLOCK, "0:-16", ()))),),
    (("load", 9, ("ext", "z", 4, ARGUMENT), 8),),
    None,
)
PLACE = ("c0ffee", True, 0x1000, Goal(returns=0x1010))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of a process that remembers nothing itself."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(remember, "_known", {})
    return tmp_path


def again(monkeypatch: pytest.MonkeyPatch) -> Followed:
    """Return what another run remembers; what it would have to follow is nothing."""
    monkeypatch.setattr(remember, "_known", {})
    return remembered(*PLACE, lambda: FOLLOWED._replace(passed=()))


def test_what_was_followed_is_remembered_from_run_to_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, and in files that are the user's alone."""
    assert remembered(*PLACE, lambda: FOLLOWED) == FOLLOWED
    assert again(monkeypatch) == FOLLOWED
    (file,) = folder.rglob("*.json")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_text("{"),
        lambda file: file.write_text(json.dumps({"followed": []})),
        lambda file: file.write_text(file.read_text().replace('"add"', '"system"')),
        lambda file: file.write_text(file.read_text().replace("1]", '"1"]')),
        lambda file: file.write_text("[" * 100_000),
        lambda file: file.chmod(0o666),
        lambda file: file.rename(file.with_name("other")) and file.symlink_to("other"),
        lambda file: file.unlink() or file.mkdir(),
    ],
    ids=["cut off", "empty", "operation", "type", "deep", "others' to write", "link", "no file"],
)
def test_a_file_of_the_cache_that_may_be_anothers_is_not_believed(
    damage: Callable[[Path], object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function is followed once more."""
    remembered(*PLACE, lambda: FOLLOWED)
    (file,) = folder.rglob("*.json")
    damage(file)
    assert again(monkeypatch).passed == ()


def test_a_cache_that_cannot_be_written_is_no_error(folder: Path) -> None:
    """A file stands where its folder would be."""
    (folder / "libmqs").touch()
    assert remembered(*PLACE, lambda: FOLLOWED) == FOLLOWED


@pytest.mark.parametrize(("by_chance", "files"), [(True, 0), (False, 1)])
def test_what_took_too_long_is_tried_again_another_time(by_chance: bool, files: int, folder: Path) -> None:
    """What can't be followed at all is remembered, too."""

    def fail() -> Followed:
        raise UnknownWayError("too long", is_by_chance=by_chance)

    with pytest.raises(UnknownWayError, match="too long"):
        remembered(*PLACE, fail)
    assert len([*folder.rglob("*.json")]) == files
