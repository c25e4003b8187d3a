"""The machine code of one loaded file, read from the process that has it loaded: its code stays as it is."""

from __future__ import annotations

from collections.abc import Container

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.stacks.arguments.decode import Instruction, decoder
from mqs_dll.debugger.job.stacks.arguments.eh_frame import FrameDescription, Functions
from mqs_dll.debugger.job.stacks.arguments.values import Label
from mqs_dll.debugger.job.stacks.callee import Fetch, through_x86_table

_LONGEST = 15
"""Bytes of an instruction."""
_MAX_CODE = 1 << 20
"""Bytes of a function."""
_PAGE = 4 << 10


class Code:
    """The code of one loaded file; addresses are the file's own, unless they are said to be the process's."""

    def __init__(self, fetch: Fetch, header: int, bias: int, twice: Container[int]) -> None:
        """Initialize; nothing is read yet.

        Args:
            fetch: reads the process's memory.
            header: where the file's ELF header lies in the process.
            bias: by how much the process's addresses are higher than the file's own.
            twice: the process's functions that return more than once.
        """
        self.bias = bias
        self._fetch = fetch
        self.header = header
        self._twice = twice
        self._functions: Functions | None = None
        self._code: dict[int, bytes] = {}
        self._pages: dict[int, bytes] = {}
        self._decoded: dict[int, Instruction | None] = {}

    def own(self, address: int) -> int:
        """Return the file's own address for one of the process's."""
        return address - self.bias

    def function(self, address: int) -> FrameDescription | None:
        """Return the function, or the part of one, that an address lies in; None where no table has one.

        Raises:
            TableError: the table can't be read.
            TargetReadError: the process can't be read.
        """
        return self._tables().at(address)

    def is_constant(self, label: Label) -> bool:
        """Return whether what lies at an address stays as it is: code, constants, and what the linker has filled in."""
        if label[0] not in ("image", "const"):
            return False
        return self._tables().is_constant(label[1] if label[0] == "image" else self.own(label[1]))

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address, None where there is none that is known.

        Raises:
            TableError: the table of functions can't be read.
            TargetReadError: the process can't be read.
        """
        if address not in self._decoded:
            function = self.function(address)
            decoded = None
            if function is not None:
                at = address - function.start
                decoded = decoder().decode(self._bytes(function)[at : at + _LONGEST], address)
            self._decoded[address] = decoded
        return self._decoded[address]

    def jumps(self, function: FrameDescription) -> list[int] | None:
        """Return where a function's direct jumps go to; None where they aren't all known."""
        return decoder().jumps(self._bytes(function), function.start)

    def number(self, address: int, size: int) -> int | None:
        """Return a number at an address of the process, None where none can be read."""
        page = address & -_PAGE
        if page not in self._pages:
            try:
                self._pages[page] = self._fetch(page, _PAGE)
            except TargetReadError:
                self._pages[page] = b""
        data = self._pages[page][address - page : address - page + size]
        return int.from_bytes(data, "little") if len(data) == size else None

    def through_table(self, address: int) -> int:
        """Return the process's address of the function that an address leads to, maybe through a linkage table."""
        try:
            return through_x86_table(self._fetch, address + self.bias)
        except TargetReadError:
            return address + self.bias

    def returns_twice(self, address: int) -> bool:
        """Return whether a function that is called at an address may return more than once, as setjmp does."""
        return self.through_table(address) in self._twice

    def _tables(self) -> Functions:
        if self._functions is None:
            self._functions = Functions(lambda at, size: self._fetch(at + self.bias, size), self.own(self.header))
        return self._functions

    def _bytes(self, function: FrameDescription) -> bytes:
        if function.start not in self._code:
            size = min(function.end - function.start, _MAX_CODE)
            self._code[function.start] = self._fetch(function.start + self.bias, size)
        return self._code[function.start]
