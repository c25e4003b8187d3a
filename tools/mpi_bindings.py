"""For developers: writes the table of MPI's functions with their parameters from a header.

    .venv/bin/python -m tools.mpi_bindings .venv-mpi/mpich-5.0.2-pypi/include/mpi_abi.h --write

That one has MPI 5.0's, the large-count ones too, in the spelling of the standard's binary interface.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mqs_dll.debugger.job.stacks import bindings

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_PROTOTYPE = re.compile(r"\bint\s+(MPI_[A-Z]\w*)\s*\(([^()]*)\)")
_PROMISE = re.compile(r"\b(?:const|restrict)\b")
_NO_PARAMETER = frozenset({"", "void", "..."})
_NOT_WANTED = re.compile(r"MPI_T_|MPI_\w+_(?:c2f|f2c|fromint|toint|c2f08|f082c|f082f|f2f08)$")
"""The interface for tools, and what turns handles of one language into those of another."""


def functions(header: str) -> Iterator[tuple[str, str]]:
    """Yield (name, parameters) of the functions that a header declares, all as a table's line has them."""
    for name, inside in _PROTOTYPE.findall(_COMMENT.sub(" ", header)):
        if not _NOT_WANTED.match(name):
            yield name, ", ".join(_plain(each) for each in inside.split(",") if each.strip() not in _NO_PARAMETER)


def _plain(declaration: str) -> str:
    """Return "MPI_Request array_of_requests[]" for a parameter, without what says only what a function may do to it."""
    kind, name = _PROMISE.sub("", declaration).replace("*", " *").split(maxsplit=1)
    return f"{kind} {re.sub('[0-9 ]+(?=])| ', '', name)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description="The table of MPI's functions, from a header.")
    parser.add_argument("header", type=Path)
    parser.add_argument("--write", action="store_true", help=f"write {bindings.FILE.name} instead of printing it")
    options = parser.parse_args(arguments)
    found = dict(functions(options.header.read_text(encoding="utf-8")))
    text = "".join(f"{name}({inside})\n" for name, inside in sorted(found.items()))
    if options.write:
        bindings.FILE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
