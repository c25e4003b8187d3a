"""Other releases of Debian: trees in a folder that outlives the tests; jobs run inside, and are read from outside.

tests/make_releases.py makes the trees. It imports nothing that has to be installed.
"""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY = Path(os.environ.get("MQS_RELEASES_DIR", Path.home() / ".cache/libmqs/debian"))
HOW_TO_MAKE_RELEASES = "as root, python tests/make_releases.py"
PACKAGES = ("openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev", "openssh-client", "gcc", "libc6-dev", "python3")
OF_LIBMQS = ("python3-venv", "python3-capstone", "python3-cffi", "python3-clustershell", "python3-drgn", "python3-rich")
"""What docs/install.md has users of Debian 13 install, in place of packages from PyPI."""
ALSO_IN = {"trixie": OF_LIBMQS}
"""Packages of one release, besides those of all."""
RELEASES = {"bullseye": "Debian 11", "trixie": "Debian 13", "forky": "Debian testing"}
"""Their code names, and what docs/support-matrix.md calls them."""

_ENTER = Path(__file__).with_name("inside.sh")


def root_of(release: str) -> Path | None:
    """Return the tree of a release; None where it isn't made, lacks a package, or we may not run anything in it."""
    root = DIRECTORY / release
    if os.geteuid() != 0 or not (known := root / "var/lib/dpkg/info").is_dir():
        return None
    # "NAME.list", or "NAME:ARCHITECTURE.list"; a tree may be from when the tests took fewer packages
    installed = {each.name.removesuffix(".list").partition(":")[0] for each in known.glob("*.list")}
    return root if installed.issuperset(packages_of(release)) else None


def packages_of(release: str) -> tuple[str, ...]:
    """Return the packages that the tests take in the tree of a release."""
    return *PACKAGES, *ALSO_IN.get(release, ())


def way_inside(release: str) -> tuple[str, ...]:
    """Return the start of a command that runs the rest of it in the tree of a release."""
    return str(_ENTER), str(DIRECTORY / release)
