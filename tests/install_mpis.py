"""Installs the MPIs from PyPI that the tests run on, each into a virtual environment of its own.

``python tests/install_mpis.py`` makes them in .venv-mpi/, or in the directory that MQS_MPI_DIR names. What is there
already is kept. The wheels share file names, so two can't be in one environment. Some get mpi4py too, whose wheel runs
with the MPI that lies beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.wheels import MPI4PY, WHEELS, WHEELS_DIRECTORY, WHEELS_WITH_MPI4PY, executable


def install(requirement: str, prefix: Path) -> None:
    """Put a wheel into the virtual environment at a prefix, and nothing else.

    Intel MPI's asks for libfabric, which jobs of one machine don't need.
    """
    pip = [sys.executable, "-m", "pip", "--python", str(prefix / "bin/python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--quiet", requirement], check=True, stdin=subprocess.DEVNULL)


def provide(name: str) -> str:
    """Install what is missing of one MPI; return what is there then."""
    prefix = WHEELS_DIRECTORY / name
    if not executable(prefix / "bin/mpiexec"):
        venv.create(prefix, clear=True)
        install(WHEELS[name], prefix)
    if name in WHEELS_WITH_MPI4PY and not any(prefix.glob("lib/python*/site-packages/mpi4py")):
        install(MPI4PY, prefix)
    return f"{WHEELS[name]}: {prefix}"


def main() -> None:
    """Install what is missing, as many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as several:
        for line in several.map(provide, WHEELS):
            print(line)


if __name__ == "__main__":
    main()
