"""What an agent needs, as an archive for nodes that have a Python and nothing else.

It is this package and what it imports there: drgn, capstone, and pystack where it is installed here. They are compiled,
so that the node's Python has to be of the same minor version. libmqs.so and cffi are left out: the agent uses the
Python core, which needs neither, whatever MQS_DLL says there.
"""

from __future__ import annotations

import importlib.util
import io
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from mqs_dll.contract.errors import NodesError

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


_SCRIPT = """
d=$(mktemp -d) || exit
trap 'rm -rf "$d"' EXIT
cd "$d" && d=$(pwd) || exit
end() { trap "" HUP INT TERM; [ -z "$p" ] || { kill -9 $p; wait $p; } 2>/dev/null; exit "$1"; }
trap 'end 129' HUP
trap 'end 130' INT
trap 'end 143' TERM
p=
exec 3<&0
mkfifo .part || exit
head -c SIZE <&3 >.part 3<&- & p=$!
tar xzC "$d" <.part 3<&- & p="$p $! "
wait ${p#* } || exit
rm .part
MQS_DLL= PYTHONPATH=$d PYTHONDONTWRITEBYTECODE=1 "$(command -v PYTHON || echo python3)" AGENT "$d" <&3 3<&- & p=$!
wait "$p"
"""
"""Unpacks the archive into a folder of its own, and becomes the parent of the agent.

Whichever of the two is ended by a signal, the other one removes the folder. A shell heeds no trap while it waits for a
program in the foreground, so all programs are in the background, and what they read is kept for them; of a pipeline it
would know the last program alone. Python takes its current folder first: that is this one. A login shell may be csh, so
it is one line, with a blank behind each "!".
"""


def command(size: int, arguments: list[str]) -> str:
    """Return what reads an archive of so many bytes from its standard input, and then starts an agent."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    agent = shlex.join(["-m", "mqs_dll", "agent", *arguments, "--folder"])
    script = _SCRIPT.replace("SIZE", str(size)).replace("PYTHON ", f"{python} ").replace("AGENT", agent)
    return shlex.join(["sh", "-c", " ; ".join(script.split("\n")[1:-1])])


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
