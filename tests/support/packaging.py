"""Wheels of this checkout, and where they are tried: a Debian of packages from this machine's own sources."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.embedding import ROOT

NEEDED_TO_BUILD = (
    "pyproject.toml",
    "setup.py",
    "build.py",
    "README.md",
    "LICENSE",
    "csrc",
    "include",
    "mqs_dll",
    "MANIFEST.in",
)
PIP = (sys.executable, "-Im", "pip", "--disable-pip-version-check")
SECONDS = 300
"""After which a command that builds, downloads or installs counts as hung."""
SET_UP = {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n", "hosts": "127.0.0.1 localhost\n"}
"""Files of /etc that are written when a Debian is set up, which takes longer than all else."""


def load_build() -> ModuleType:
    """Import build.py, which no package holds."""
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    specification = importlib.util.spec_from_file_location("build_of_libmqs", ROOT / "build.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def copy_of_sources(folder: Path) -> Path:
    """Copy what pip needs of the checkout into a new folder, with nothing that was built; return that."""
    built = shutil.ignore_patterns("*.so", "_declared.py", "__pycache__")
    folder.mkdir()
    for name in NEEDED_TO_BUILD:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=built)
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def done_well(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a command that has to succeed, with more variables if need be, and return what it prints."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel_of_tools(folder: Path, *machine: str) -> Path:
    """Return the wheel that tools/wheel makes of this checkout, with the packages of this Python."""
    for module in ("build", "auditwheel"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install -e '.[dev]' brings it")
    sources = copy_of_sources(folder / "sources")
    shutil.copytree(ROOT / "tools", sources / "tools")
    (sources / ".venv").symlink_to(sys.prefix)
    date = {"SOURCE_DATE_EPOCH": "1764201600"}  # else it is the commit's, and this copy has none
    return Path(done_well([str(sources / "tools/wheel"), str(folder), *machine], date).strip())


def python_of(root: Path) -> str:
    """Return the version of the Python in the tree of a Debian, as "3.11"."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def skip_without(*programs: str) -> None:
    """Skip what takes programs that this machine hasn't got."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {', '.join(missing)}: tools/setup installs what the tests take")


@contextmanager
def debian(*packages: str, architecture: str = "") -> Iterator[Path]:
    """Unpack packages of this machine's release of Debian, as root, and what they depend on; remove them at the end.

    Args:
        packages: which; what is essential to a Debian isn't in it by itself.
        architecture: of which machine, as Debian calls it; this one's by default.

    Yields:
        The root directory.
    """
    skip_without("mmdebstrap")
    release = platform.freedesktop_os_release()
    if release["ID"] != "debian":
        pytest.skip(f"a Debian is made of a Debian's sources of packages, and this is {release['NAME']}")
    apt = Path("/etc/apt")
    listed = [apt / "sources.list", *apt.glob("sources.list.d/*.list"), *apt.glob("sources.list.d/*.sources")]
    sources = [str(path) for path in listed if path.is_file() and "deb" in path.read_text()]
    options = ["--variant=extract", f"--include={','.join(packages)}"]
    options += [f"--architectures={architecture}"] if architecture else []
    with tempfile.TemporaryDirectory(prefix="mqs-debian-", ignore_cleanup_errors=True) as name:
        root = Path(name) / "root"
        command = ["mmdebstrap", "--quiet", "--mode=root", *options, release["VERSION_CODENAME"], str(root), *sources]
        made = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if made.returncode != 0:
            pytest.skip(f"this machine doesn't let us make a Debian: {made.stderr.strip()[-500:]}")
        for file, text in SET_UP.items():
            (root / "etc" / file).write_text(text)
        for folder in ("proc", "sys", "root", "tmp"):
            (root / folder).mkdir(exist_ok=True)
        yield root
