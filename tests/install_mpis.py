"""Installs the MPIs from PyPI that the tests run on, each into a virtual environment of its own.

``python tests/install_mpis.py`` makes them in .venv-mpi/, or in the directory that MQS_MPI_DIR names. What is there
already is kept. The wheels share file names, so two can't be in one environment.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.mpis import WHEELS, WHEELS_DIRECTORY, executable


def install(requirement: str, prefix: Path) -> None:
    """Put a wheel, and it alone, into a virtual environment at a prefix, unless its mpiexec is there.

    Intel MPI's asks for libfabric, which jobs of one machine don't need.
    """
    if executable(prefix / "bin/mpiexec"):
        return
    venv.create(prefix, clear=True, with_pip=True)
    pip = [str(prefix / "bin/python"), "-m", "pip", "install", "--no-deps", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, requirement], check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    """Install what is missing."""
    for name, requirement in WHEELS.items():
        install(requirement, WHEELS_DIRECTORY / name)
        print(f"{requirement}: {WHEELS_DIRECTORY / name}")


if __name__ == "__main__":
    main()
