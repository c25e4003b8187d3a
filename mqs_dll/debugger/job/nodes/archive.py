"""What an agent needs, as an archive for nodes that have a Python and nothing else.

It is this package and what it imports there: drgn, capstone, and pystack where it is installed here. They are compiled,
so that the node's Python has to be of the same minor version. libmqs.so and cffi are left out: the agent uses the
Python core (--direct), which needs neither.
"""

from __future__ import annotations

import importlib.util
import io
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from mqs_dll.errors import NodesError

_MODULES = ("mqs_dll", "drgn", "_drgn", "_drgn_util", "capstone", "pystack")
_OPTIONAL = ("_drgn", "_drgn_util", "pystack")
"""Not every release of drgn has the first two; without pystack there are no lines of Python."""
_BESIDE = ("drgn.libs", "pystack.libs")
"""Folders of libraries that wheels bring along."""


def packed() -> bytes:
    """Return the archive, a tar file compressed by gzip.

    Raises:
        NodesError: a module of it can't be found here.
    """
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as archive:
        for path in dict.fromkeys(_files()):
            archive.add(path, path.name, filter=_kept)
    return data.getvalue()


def command(size: int, arguments: list[str]) -> str:
    """Return what reads an archive of so many bytes from its standard input, and then becomes an agent."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    agent = shlex.join(["-m", "mqs_dll", "agent", "--direct", *arguments])
    script = (
        f'd=$(mktemp -d) && trap \'rm -rf "$d"\' EXIT && head -c {size} | tar xzC "$d" && '
        f'PYTHONPATH=$d PYTHONDONTWRITEBYTECODE=1 "$(command -v {python} || echo python3)" {agent}'
    )
    return shlex.join(["sh", "-c", script])


def _files() -> Iterator[Path]:
    """Yield what goes into the archive, some of it more than once."""
    for module in _MODULES:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            if module in _OPTIONAL:
                continue
            raise NodesError(f"{module}, which an agent needs, can't be found here")
        origin = Path(spec.origin)
        path = origin.parent if spec.submodule_search_locations else origin
        yield path
        yield from (beside for name in _BESIDE if (beside := path.parent / name).is_dir())


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in entry.name.split("/"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
