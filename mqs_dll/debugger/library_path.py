"""Where the files lie that debuggers and MPI jobs need: the library, its header, the library to preload.

Imports neither cffi nor drgn, so that `mqs dll-path` and `mqs env` work whatever else is broken.
"""

from __future__ import annotations

from pathlib import Path

from mqs_dll.contract.errors import DllError

PACKAGE = Path(__file__).resolve().parents[1]


def library() -> Path:
    """Return the path of libmqs.so, which debuggers load.

    Raises:
        DllError: it is not there.
    """
    return built("libmqs.so")


def dll_name_library() -> Path:
    """Return the path of libmqs_dll_name.so: preloaded into a job, it leads debuggers to libmqs.so.

    Raises:
        DllError: it is not there.
    """
    return built("libmqs_dll_name.so")


def preloaded(variable: str = "") -> str:
    """Return what LD_PRELOAD has to be, given what it is: libmqs_dll_name.so comes first.

    Raises:
        DllError: it is not there, or at a path that can't be preloaded.
    """
    preload = str(dll_name_library())
    if any(character in preload for character in ": \t\n"):
        raise DllError(f"{preload} can't be preloaded: the dynamic linker splits LD_PRELOAD at blanks and colons")
    return ":".join(filter(None, (preload, variable)))


def header() -> Path:
    """Return the path of mqs_interface.h, which debuggers compile against.

    Raises:
        DllError: it is not there.
    """
    # In a checkout, and so in an editable installation, the header is beside the package.
    for directory in (PACKAGE / "include", PACKAGE.parent / "include"):
        if (directory / "mqs_interface.h").is_file():
            return directory / "mqs_interface.h"
    raise DllError(f"mqs_interface.h is not in {PACKAGE / 'include'}: install libmqs again")


def declarations() -> tuple[str, str]:
    """Return what mqs_interface.h declares, as cffi takes it: the types, and the library's functions.

    Raises:
        DllError: the header is not there.
    """
    text = header().read_text()
    start, end = text.index("typedef unsigned long mqs_taddr_t"), text.index("/* End of the types. */")
    return text[start:end], text[end : text.index("#ifdef __cplusplus", end)]


def built(name: str) -> Path:
    """Return the path of a file of the package that building makes.

    Raises:
        DllError: it is not there.
    """
    path = PACKAGE / name
    if not path.is_file():
        raise DllError(f"{name} is not in {PACKAGE}: install libmqs again, or run `python build.py` in a checkout")
    return path
