"""What the line of ``mqs gdb-init`` runs inside gdb: it makes libmqs importable there, and its commands known.

gdb's own Python may be of another version than the one that libmqs was installed for. So nothing is put on its path:
two packages, libmqs itself and rich, are found by where they lie, and nothing else that lies beside them. This file is
read by whatever Python gdb has, and its syntax is old for that reason.

Globals:
    PACKAGES: from the caller: the folder of each package, by its name.
"""

import sys
from importlib.machinery import PathFinder

OLDEST = (3, 10)

PACKAGES = globals().get("PACKAGES", {})


class Finder:
    """Finds the packages that gdb's own Python lacks."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Return where one of the packages lies, None for any other module."""
        if path is None and name in PACKAGES:
            return PathFinder.find_spec(name, [PACKAGES[name]])
        return None


def start():  # type: ignore[no-untyped-def]
    """Make the commands known, or say why not: gdb goes on starting in any case."""
    if sys.version_info < OLDEST:
        print("mqs: gdb's Python is %d.%d, and libmqs needs 3.10 or later" % sys.version_info[:2])  # noqa: UP031
        return
    if not any(getattr(each, "__name__", "") == "Finder" for each in sys.meta_path):
        sys.meta_path.append(Finder)
    try:
        from mqs_dll.gdb import commands
    except ImportError as error:
        print("mqs: libmqs can't be loaded into gdb: %s" % error)  # noqa: UP031
        return
    commands.register()


start()  # type: ignore[no-untyped-call]
