"""Call stacks of made-up threads: naming MPI calls, code and memory as no compiler and no program would have it."""

from __future__ import annotations

import os
import platform
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import drgn
import pytest

from mqs_dll.debugger.apart import Apart
from mqs_dll.debugger.job.stacks import python
from mqs_dll.debugger.job.stacks.callee import called_function
from mqs_dll.debugger.job.stacks.capture import RED_ZONE, ThreadStack, capture
from mqs_dll.debugger.job.stacks.follow import StackTracer, Step, Walk, walk
from mqs_dll.debugger.job.stacks.modules import Modules, base_name
from mqs_dll.debugger.job.stacks.thread import UnknownCallError, find_call, find_caller, mpi_function, read_thread
from mqs_dll.debugger.live import LiveImage, LiveProcess
from mqs_dll.job.records import CodeOwner, Frame
from tests.support.made_up_job import stack
from tests.support.memory_image import MemoryImage

OWNERS = {
    "app": CodeOwner.PROGRAM,
    "libsolver.so": CodeOwner.PROGRAM,
    "libmpi.so": CodeOwner.MPI,
    "libmpi_mpifh.so": CodeOwner.MPI,
    "mca_io_romio321.so": CodeOwner.MPI,
    "libucp.so": CodeOwner.PROGRAM,
    "libc.so": CodeOwner.RUNTIME,
    "MPI.cpython-311.so": CodeOwner.PYTHON,
}
FUNCTIONS = {
    *("MPI_Recv", "MPI_Waitall", "MPI_Alltoall", "MPI_File_write_all", "MPI_Comm_dup", "MPI_Comm_f2c"),
    "MPIX_Comm_agree",
}
MPI_RANGE = (0x7F0000000000, 0x7F0000100000)
STACK = 0x7FFE00001000
FUNCTION, TABLE, CALL_SITE, SLOT = 0x7F0000001000, 0x401000, 0x402000, 0x404000
"""Where an MPI function, a linkage table, a call of the program and the pointer that the table goes by lie."""
SIGNED = FUNCTION | 0x2A << 48
"""As a processor of aarch64 keeps an address to which a function returns."""
X86 = drgn.Platform(drgn.Architecture.X86_64)
ARM = drgn.Platform(drgn.Architecture.AARCH64)


class MadeUpModules:
    """Stands for modules.Modules: an MPI that has a few functions."""

    def __init__(self, mpi: str | None = "libmpi.so") -> None:
        self.mpi = None if mpi is None else module(mpi)

    def owner(self, module: Any) -> CodeOwner:
        return OWNERS[module.name]

    def calls_nothing(self, module: Any) -> bool:
        return self.owner(module) in (CodeOwner.MPI, CodeOwner.RUNTIME)

    def file_of(self, module: Any) -> None:
        return None

    def is_main(self, module: Any) -> bool:
        return module is not None and module.name == "app"

    def has_mpi_function(self, name: str) -> bool:
        return name in FUNCTIONS


def module(name: str) -> Any:
    """Return a module without a file."""
    return SimpleNamespace(
        name=name, address_ranges=[MPI_RANGE], loaded_file_path=None, loaded_file_bias=None, build_id=None
    )


def steps(*names: str) -> tuple[Step, ...]:
    """Return steps, innermost first, of "module:symbol", or "module:symbol>function that it called"."""
    made = []
    for place, name in enumerate(names):
        where, _, rest = name.partition(":")
        symbol, _, called = rest.partition(">")
        known = module(where) if where else None
        made.append(Step(0x1000 + place, STACK + 64 * place, {"rbx": place}, place == 0, symbol, called, known))
    return tuple(made)


def read(
    *names: str,
    memory: bytes = bytes(1024),
    is_whole: bool = True,
    complete: bool = True,
    is_main: bool = True,
    mpi: str | None = "libmpi.so",
) -> Any:
    """Return the record of a thread in these functions."""
    stack = ThreadStack(1, b"", STACK - 128, memory, is_whole)
    return read_thread(stack, Walk(steps(*names), complete), MadeUpModules(mpi), is_main=is_main)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("MPI_Recv", "MPI_Recv"),
        ("PMPI_Recv", "MPI_Recv"),
        ("PMPI_Recv_c", "MPI_Recv"),
        ("MPI_Comm_f2c", "MPI_Comm_f2c"),
        ("PMPIX_Comm_agree", "MPIX_Comm_agree"),
        ("mpi_recv_", "MPI_Recv"),
        ("pmpi_recv__", "MPI_Recv"),
        ("MPI_RECV", "MPI_Recv"),
        ("mpi_file_write_all_f08_", "MPI_File_write_all"),
        ("mpi_recv_f08ts_", "MPI_Recv"),
        ("MPI_Exchange_halo", None),
        ("mpi_exchange_", None),
        ("MPIR_Recv", None),
        ("my_MPI_Recv", None),
        ("MPI_Recv_everything", None),
        ("", None),
    ],
)
def test_a_symbol_is_an_mpi_function_in_the_standards_spelling_or_none(symbol: str, function: str | None) -> None:
    """Of C and Fortran, profiled or not, for large counts or not. What the MPI lacks is none of its functions."""
    assert mpi_function(symbol, MadeUpModules()) == function  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "call", "caller"),
    [
        (["libc.so:poll", "libmpi.so:", "libmpi.so:PMPI_Recv", "app:exchange", "app:main"], "MPI_Recv", "exchange"),
        (["libucp.so:progress", "libmpi.so:PMPI_Recv", "app:main"], "MPI_Recv", "main"),
        (["libmpi.so:PMPI_Recv", "libmpi_mpifh.so:recv_f", "app:MAIN__"], "MPI_Recv", "MAIN__"),
        (["libmpi.so:PMPI_Recv", "libsolver.so:MPI_Recv", "app:main"], "MPI_Recv", "main"),
        (
            ["libmpi.so:PMPI_Alltoall", "mca_io_romio321.so:exchange", "libmpi.so:MPI_File_write_all", "app:main"],
            "MPI_File_write_all",
            "main",
        ),
        (
            ["libmpi.so:PMPI_Recv", "app:copy_attribute", "libmpi.so:PMPI_Comm_dup", "app:main"],
            "MPI_Recv",
            "copy_attribute",
        ),
        (["libmpi.so:", "app:exchange>PMPI_Waitall", "app:main"], "MPI_Waitall", "exchange"),
        (["libmpi.so:PMPI_Comm_dup", "app:exchange>MPI_Waitall", "app:main"], "MPI_Waitall", "exchange"),
        (["libmpi.so:PMPI_Recv", "libsolver.so:solve", "app:main"], "MPI_Recv", "main"),
        (["libmpi.so:PMPI_Recv", "MPI.cpython-311.so:recv", "libsolver.so:solve"], "MPI_Recv", "solve"),
        (["libmpi.so:PMPI_Recv", "MPI.cpython-311.so:recv", "libc.so:"], "MPI_Recv", None),
        (["libc.so:sleep", "app:rest", "app:main"], None, "rest"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_the_call_is_the_outermost_mpi_function_that_is_nearest_to_the_program(
    names: list[str], call: str | None, caller: str | None
) -> None:
    """Bindings, profiling layers, MPI-IO and the MPI itself call MPI functions too; callbacks are the program's."""
    stack = read(*names)
    assert (stack.call, stack.caller and stack.caller.function) == (call, caller)


def test_the_caller_is_the_place_of_the_programs_innermost_step() -> None:
    """A library of the program's counts only where its own file isn't on the stack."""
    modules: Any = MadeUpModules()
    assert find_caller(steps("libc.so:", "libsolver.so:solve", "app:main"), modules) == 2
    assert find_caller(steps("libc.so:", "libsolver.so:solve"), modules) == 1
    assert find_caller(steps("libc.so:"), modules) is None
    assert find_call(steps("libc.so:", "libsolver.so:solve"), modules) is None


@pytest.mark.parametrize(
    ("names", "known", "reason"),
    [
        (["libmpi.so:", "app:main"], {}, "inside libmpi.so"),
        (["app:main"], {"mpi": None}, "no symbols"),
        (["app:kernel"], {"complete": False, "memory": bytes(512) + struct.pack("<Q", FUNCTION)}, "past app"),
        (["app:kernel"], {"complete": False, "memory": bytes(512) + struct.pack("<Q", SIGNED)}, "past app"),
        (["app:kernel"], {"complete": False, "is_whole": False}, "past app"),
        (["app:kernel"], {"complete": False, "mpi": "app"}, "past app"),
        ([":"], {"complete": False, "is_whole": False}, "can't be followed, and"),
    ],
)
def test_where_it_may_be_inside_mpi_nothing_is_reported(names: list[str], known: dict[str, Any], reason: str) -> None:
    """No call means outside MPI: that has to be certain."""
    with pytest.raises(UnknownCallError, match=reason):
        read(*names, **known)


def test_a_stack_without_any_address_in_the_mpi_is_outside_it() -> None:
    """Though it can't be followed to its end: an MPI function would have left a return address into the MPI."""
    assert read("app:kernel", complete=False).call is None


def test_a_thread_that_never_calls_mpi_is_not_listed() -> None:
    """One that the MPI has started itself, and one that waits for work in a library."""
    assert read("libmpi.so:PMPI_Recv", "libmpi.so:progress", "libc.so:start_thread", is_main=False) is None
    assert read("libc.so:futex_wait", "libc.so:start_thread", is_main=False) is None


def test_a_thread_that_may_call_mpi_is_listed() -> None:
    """One of the program's, in MPI or outside; and one whose stack ends before it can be determined, without a call."""
    assert read("app:work", "libc.so:start_thread", is_main=False).call is None
    assert read("libc.so:sleep", "", "libc.so:start_thread", is_main=False).call is None
    assert read("libmpi.so:PMPI_Recv", "libmpi.so:progress", is_main=False, complete=False).call is None
    assert read("libmpi.so:PMPI_Recv", "app:work", "libc.so:start_thread", is_main=False).call == "MPI_Recv"
    assert read("libmpi.so:PMPI_Recv", "MPI.cpython-311.so:recv", is_main=False).call == "MPI_Recv"


def test_what_the_mpi_calls_back_is_reported() -> None:
    """The program's own file or Python inside of the call; not what lies outside, nor a library that moves data."""
    assert (
        read("libc.so:sleep", "app:grow", "libmpi.so:", "libmpi.so:PMPI_Recv", "app:main").callback.function == "grow"
    )
    python = ("MPI.cpython-311.so:op", "libmpi.so:", "libmpi.so:PMPI_Recv", "MPI.cpython-311.so:recv")
    assert read(*python).callback.module == "MPI.cpython-311.so"
    assert read("libucp.so:poll", "libmpi.so:PMPI_Recv", "app:main").callback is None


def test_a_fingerprint_is_of_the_programs_part_of_the_stack() -> None:
    """Memory and registers from the caller's frame outwards; what the MPI has further in changes all the time."""
    names = ("libmpi.so:", "libmpi.so:PMPI_Recv", "app:exchange", "app:main", "libc.so:start")
    before = read(*names).fingerprint
    caller = 128 + 2 * 64  # from the start of the memory
    assert read(*names, memory=bytes(caller - 8) + b"\1" + bytes(1024)).fingerprint == before
    assert read(*names, memory=bytes(caller + 8) + b"\1" + bytes(1024)).fingerprint != before
    assert read(*names, memory=bytes(128 + 4 * 64) + b"\1" + bytes(1024)).fingerprint == before


def test_a_fingerprint_has_the_callers_registers() -> None:
    """A loop may count in one of them."""
    stack = ThreadStack(1, b"", STACK, b"", is_whole=False)
    inner, caller = steps("libmpi.so:PMPI_Recv", "app:exchange")
    walks = [Walk((inner, replace(caller, registers={"rbx": count})), complete=True) for count in (1, 2)]
    modules: Any = MadeUpModules()
    first, second = (read_thread(stack, walked, modules, is_main=True) for walked in walks)
    assert first is not None
    assert second is not None
    assert first.fingerprint != second.fingerprint


def test_the_fingerprint_of_a_function_at_work_has_its_red_zone() -> None:
    """A leaf function may keep its variables below the stack pointer."""
    before = read("app:leaf", "app:main").fingerprint
    assert read("app:leaf", "app:main", memory=b"\1" + bytes(1023)).fingerprint != before


def test_what_stays_of_an_mpi_calls_frame_is_its_outer_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return address and saved registers: some functions poll with variables in the rest of it."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert read("libmpi.so:", "libmpi.so:PMPI_Recv", "app:main").call_frame == (STACK + 128 - 56, 56)
    assert read("libmpi.so:PMPI_Recv", "app:main").call_frame == (STACK + 64 - 56, 56)
    assert read("libmpi.so:PMPI_Recv").call_frame is None
    assert read("app:main").call_frame is None
    monkeypatch.setattr("platform.machine", lambda: "aarch64")  # where they lie anywhere in the frame
    assert read("libmpi.so:PMPI_Recv", "app:main").call_frame is None


def code(platform: drgn.Platform, places: dict[int, bytes]) -> Any:
    """Return bytes at addresses, as a process of a platform."""
    return SimpleNamespace(program=SimpleNamespace(platform=platform), fetch=MemoryImage(places).fetch)


def x86_call(target: int) -> bytes:
    """Return a call instruction that ends at CALL_SITE, with the byte before it."""
    return b"\x90\xe8" + struct.pack("<i", target - CALL_SITE)


def x86_jump(prefix: bytes = b"") -> bytes:
    """Return an entry of a linkage table at TABLE."""
    return (prefix + b"\xff\x25" + struct.pack("<i", SLOT - TABLE - len(prefix) - 6)).ljust(16, b"\x90")


def arm_call(target: int) -> bytes:
    return struct.pack("<I", 0x94000000 | (target - CALL_SITE + 4) >> 2 & 0x3FFFFFF)


POINTER = struct.pack("<Q", FUNCTION)
CALLS = {
    "a function": code(X86, {CALL_SITE - 6: x86_call(TABLE), TABLE: bytes(16)}),
    "by a table": code(X86, {CALL_SITE - 6: x86_call(TABLE), TABLE: x86_jump(), SLOT: POINTER}),
    "by a table with landing pads": code(
        X86, {CALL_SITE - 6: x86_call(TABLE), TABLE: x86_jump(b"\xf3\x0f\x1e\xfa\xf2"), SLOT: POINTER}
    ),
    "by a pointer": code(X86, {CALL_SITE - 6: b"\xff\x15" + struct.pack("<i", SLOT - CALL_SITE), SLOT: POINTER}),
    "by a register": code(X86, {CALL_SITE - 6: b"\x90\x90\x90\x90\xff\xd3"}),
    "by a new register": code(X86, {CALL_SITE - 6: b"\x90\x90\x90\x41\xff\xd4"}),
    "by a register that is lost": code(X86, {CALL_SITE - 6: b"\x90\x90\x90\x90\xff\xd0"}),
    "no call": code(X86, {CALL_SITE - 6: b"\x90" * 6}),
    "no code": code(X86, {}),
    "by a table that is not there": code(X86, {CALL_SITE - 6: x86_call(TABLE)}),
    "on ARM, a function": code(ARM, {CALL_SITE - 4: arm_call(TABLE), TABLE: bytes(16)}),
    "on ARM, by a register": code(ARM, {CALL_SITE - 4: struct.pack("<I", 0xD63F0260)}),
    "on ARM, no call": code(ARM, {CALL_SITE - 4: struct.pack("<I", 0xD503201F)}),
}
CALLED = {
    "a function": TABLE,
    "by a register": 0xB0,
    "by a new register": 0xC0,
    "by a register that is lost": None,
    "no call": None,
    "no code": None,
    "by a table that is not there": None,
    "on ARM, a function": TABLE,
    "on ARM, by a register": 0xA0,
    "on ARM, no call": None,
}
"""FUNCTION for all others."""


@pytest.mark.parametrize("how", CALLS)
def test_a_call_instruction_shows_which_function_it_calls(how: str) -> None:
    """Directly, by a linkage table, by a pointer, or by a register that is still known."""
    registers = {"rbx": 0xB0, "r12": 0xC0, "x19": 0xA0}
    assert called_function(CALLS[how], CALL_SITE, registers) == CALLED.get(how, FUNCTION)


@pytest.mark.parametrize("target", [TABLE, CALL_SITE - 0x300000, CALL_SITE + 0x1000000])
def test_a_call_on_arm_goes_both_ways(target: int) -> None:
    """Its distance has a sign."""
    process = code(ARM, {CALL_SITE - 4: arm_call(target), target: bytes(16)})
    assert called_function(process, CALL_SITE, {}) == target


@pytest.mark.parametrize("slot", [SLOT, TABLE - 0x3000])
def test_a_linkage_table_on_arm_leads_to_the_function(slot: int) -> None:
    """adrp takes the page of the instruction, ldr an offset in words of 8 bytes."""
    pages, offset = (slot >> 12) - (TABLE >> 12), 0x18
    adrp = 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    table = struct.pack("<3I", 0xD503245F, adrp, 0xF9400211 | (offset >> 3) << 10).ljust(16, b"\0")
    process = code(ARM, {CALL_SITE - 4: arm_call(TABLE), TABLE: table, slot + offset: POINTER})
    assert called_function(process, CALL_SITE, {}) == FUNCTION


def made_up_thread(stack_pointer: int, frame_pointer: int, memory: bytes) -> ThreadStack:
    """Return a thread of x86_64 whose code lies in no module."""
    registers = [0] * 27
    registers[4], registers[16], registers[19] = frame_pointer, 0xDEAD, stack_pointer
    return ThreadStack(1, struct.pack("<27Q", *registers), stack_pointer, memory, is_whole=False)


def test_a_signed_return_address_on_arm_leads_on() -> None:
    """In a frame as in the register that a function starts with; other words keep what they have in those bits."""
    registers = [0] * 34
    registers[19], registers[20] = 1 << 56 | 0x2A << 48, (1 << 64) - 1
    registers[29], registers[30], registers[31], registers[32] = STACK, SIGNED, STACK, 0xDEAD
    memory = struct.pack("<4Q", STACK + 16, SIGNED, STACK + 32, SIGNED + 8)
    thread = ThreadStack(1, struct.pack("<34Q", *registers), STACK, memory, is_whole=True)
    trace = StackTracer(drgn.Program(ARM), MemoryImage({}).fetch).trace(thread)
    assert [frame.pc for frame in trace][1:] == [FUNCTION, FUNCTION + 8]
    kept = trace[0].registers()
    assert [kept[name] for name in ("x19", "x20", "x30")] == [*registers[19:21], FUNCTION]


@pytest.mark.parametrize(
    ("stack_pointer", "frame_pointer", "memory"),
    [
        (STACK, STACK, struct.pack("<2Q", STACK, 0xBEEF)),  # a chain of frame pointers that is a loop
        (STACK, STACK, struct.pack("<4Q", STACK + 16, 0xBEEF, 0, 0xBEEF)),
        (0, 0, b""),
        ((1 << 64) - 8, (1 << 64) - 8, b"\0" * 8),
        (STACK, 1, b"\xff" * 64),
    ],
)
def test_frames_that_only_a_frame_pointer_leads_to_are_not_believed(
    stack_pointer: int, frame_pointer: int, memory: bytes
) -> None:
    """A program that nothing is known of has one step at most, and no end."""
    program = drgn.Program(X86)
    thread = made_up_thread(stack_pointer, frame_pointer, memory)
    process: Any = SimpleNamespace(program=program, image=LiveImage(program, []), fetch=MemoryImage({}).fetch)
    walked = walk(StackTracer(program, process.fetch).trace(thread), Modules(process))
    assert [step.pc for step in walked.steps] == [0xDEAD]
    assert not walked.complete


@pytest.mark.parametrize(("size", "name"), [(0, ""), (0xAD, ""), (0xAE, "function")])
def test_a_symbol_that_does_not_cover_an_address_is_not_its_function(size: int, name: str) -> None:
    """In a stripped file the nearest symbol is any other function's."""
    program = drgn.Program(X86)
    symbol = drgn.Symbol("function", 0xDE00, size, drgn.SymbolBinding.GLOBAL, drgn.SymbolKind.FUNC)
    program.register_symbol_finder("made up", lambda *question: [symbol], enable_index=0)
    process: Any = SimpleNamespace(program=program, image=LiveImage(program, []), fetch=MemoryImage({}).fetch)
    walked = walk(StackTracer(program, process.fetch).trace(made_up_thread(STACK, 0, b"")), Modules(process))
    assert [step.symbol for step in walked.steps] == [name]


def test_a_programs_name_is_that_of_its_file_also_when_it_was_removed() -> None:
    """People compile again while a job hangs."""
    assert base_name(module("/home/user/app (deleted)")) == base_name(module("/home/user/app")) == "app"


def test_a_stack_gives_what_was_copied_of_it() -> None:
    """Fewer bytes where it ends, none below it."""
    stack = ThreadStack(1, b"", STACK, b"0123456789", is_whole=True)
    assert stack.fetch(STACK + 2, 4) == b"2345"
    assert stack.fetch(STACK + 8, 100) == b"89"
    assert stack.fetch(STACK - 1, 4) == b""


def test_pystack_is_mentioned_for_python_programs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the stack goes through the interpreter but has no Python line, it is said, with what is missing."""
    native = stack("MPI_Recv")
    interpreted = replace(native, frames=(*native.frames, Frame("Py_RunMain", "libpython3.11.so.1.0", None, None)))
    assert python.missing_for([native]) == ""
    monkeypatch.setattr(Apart, "can_run", True)
    assert python.missing_for([native, interpreted]) == python.NOT_FOUND
    monkeypatch.setattr(Apart, "can_run", False)
    assert python.missing_for([native, interpreted]) == python.MISSING
    assert python.missing_for([native]) == ""


@pytest.mark.parametrize("mapped_from", [0x10000, 0x13000])
def test_a_stack_is_copied_from_below_its_pointer_where_it_has_begun_there(mapped_from: int) -> None:
    """What libmqs reads around a request on it lies there; where nothing does, it begins a little below the pointer."""
    stack_pointer, end = 0x13200, 0x18000

    def part(address: int, size: int) -> bytes:
        return bytes(min(address + size, end) - address) if mapped_from <= address < end else b""

    place = 19 * 8 if platform.machine() == "x86_64" else 31 * 8
    registers = bytes(place) + stack_pointer.to_bytes(8, "little")
    process = cast(LiveProcess, SimpleNamespace(pid=os.getpid(), part=part))
    (stack,) = capture(process, {os.getpid(): registers}).threads
    assert stack.base == (0x10000 if mapped_from == 0x10000 else stack_pointer - RED_ZONE)
    assert stack.base + len(stack.memory) == end
    assert stack.is_whole
