"""Installs the MPIs from PyPI that the tests run on, each into a virtual environment of its own.

``python tests/install_mpis.py`` makes them in .venv-mpi/, or in the directory that MQS_MPI_DIR names. What is there
already is kept. The wheels share file names, so two can't be in one environment. Some get mpi4py too, whose wheel runs
with the MPI that lies beside it.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.mpis import MPI4PY, WHEELS, WHEELS_DIRECTORY, WHEELS_WITH_MPI4PY, executable


def install(requirement: str, prefix: Path) -> None:
    """Put a wheel into the virtual environment at a prefix, and nothing else.

    Intel MPI's asks for libfabric, which jobs of one machine don't need.
    """
    pip = [str(prefix / "bin/python"), "-m", "pip", "install", "--no-deps", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, requirement], check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    """Install what is missing."""
    for name, requirement in WHEELS.items():
        prefix = WHEELS_DIRECTORY / name
        if not executable(prefix / "bin/mpiexec"):
            venv.create(prefix, clear=True, with_pip=True)
            install(requirement, prefix)
        if name in WHEELS_WITH_MPI4PY and not any(prefix.glob("lib/python*/site-packages/mpi4py")):
            install(MPI4PY, prefix)
        print(f"{requirement}: {prefix}")


if __name__ == "__main__":
    main()
