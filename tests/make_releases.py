"""Makes trees of other releases of Debian with their MPIs, for the tests of jobs inside.

``python tests/make_releases.py``, as root, makes them in ~/.cache/libmqs/debian, or in the directory that
MQS_RELEASES_DIR names. What is there already is kept, unless the tests take a package that it lacks; all together take
some three minutes and 3 GB. One that can't be made is named, and the tests skip what needs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.releases import DIRECTORY, RELEASES, packages_of, root_of


def mirrors() -> list[str]:
    """Return where this machine gets Debian's packages from."""
    command = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [line for line in listed.splitlines() if line.endswith("/debian")]


def provide(release: str) -> str:
    """Make the tree of a release if it isn't there; return what is there then, or why nothing is."""
    if root_of(release):
        return f"{RELEASES[release]}: {root_of(release)}"
    if os.geteuid() != 0 or not shutil.which("mmdebstrap") or not mirrors():
        return f"{RELEASES[release]}: can't be made without root, mmdebstrap and a source of Debian's packages"
    tree = DIRECTORY / release
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    if any(line.split()[4].startswith(f"{tree.resolve()}/") for line in mounts):
        return f"{RELEASES[release]}: can't be made anew while something is mounted below {tree}"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    unfinished = DIRECTORY / f"{release}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    command = ["unshare", "--mount", "--propagation", "private"]  # what it mounts goes with it
    command += ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages_of(release))}"]
    command += ["--aptopt=Acquire::Check-Valid-Until false"]  # a mirror's testing may be some days behind
    command += [release, str(unfinished), f"deb {mirrors()[0]} {release} main"]
    made = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        return f"{RELEASES[release]}: can't be made: {' '.join(made.stderr.split())[-500:]}"
    shutil.rmtree(tree, ignore_errors=True)  # one that lacks a package
    unfinished.rename(tree)
    return f"{RELEASES[release]}: {tree}"


def main() -> None:
    """Make what is missing, two at a time: one waits for the network while the other unpacks."""
    with ThreadPoolExecutor(2) as several:
        for line in several.map(provide, RELEASES):
            print(line)


if __name__ == "__main__":
    main()
