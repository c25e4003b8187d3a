"""The runs of MPICH's calibration program: each leaves a directory of dumps."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.dump import Dump, load_all
from mqs_dll.calibrate.family import Tell
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.mpich.identity import Device, kind_of
from mqs_dll.calibrate.mpich.program import PROGRAM
from mqs_dll.errors import CalibrationError


@dataclass(frozen=True)
class Run:
    """One way to run the program."""

    mode: str
    """The program's last argument, and the name of the run."""
    ranks: int
    optional: str = ""
    """What can't be learnt without it, where an MPI may be unable to do it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    """Of mpiexec."""


SEVERAL_NODES = {
    "MPIR_CVAR_ODD_EVEN_CLIQUES": "1",
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",  # else receivers fetch the data, and sends of 5.0 name no destination
}
"""MPICH takes even and odd ranks for two nodes."""

PLAIN = Run("plain", 5, variables={"I_MPI_FABRICS": "shm"})
"""Intel MPI's other fabrics hide what happens within a node; other MPIs don't know the variable."""

OTHERS = (
    Run("cliques", 4, "several nodes", SEVERAL_NODES),
    Run("spawn", 2, "processes of several jobs"),
)

TWO_NAMES = ("-launcher", "fork", "-hosts", "localhost,127.0.0.1", "-ppn", "1")
"""Two names for this machine, which mpiexec takes for two nodes, in turn."""

NETWORK = {"FI_PROVIDER": "tcp"}
OTHERS_OF_INTEL = (
    Run("cliques", 4, "several nodes", {"I_MPI_FABRICS": "shm:ofi", **NETWORK}, TWO_NAMES),
    Run("spawn", 2, "processes of several jobs", {"I_MPI_FABRICS": "ofi", **NETWORK}),
)
"""They need the libfabric that Intel MPI brings."""


def job_of(mpi: Installation, run: Run, directory: Path) -> launch.Job:
    """Return the job of a run, whose directory is one of its own in ``directory``."""
    place = directory / run.mode
    place.mkdir(parents=True)
    command = launch.python_rank(PROGRAM, str(mpi.library), str(place), run.mode)
    return launch.Job(run.mode, place, run.ranks, command, run.options, run.variables)


def observe(mpi: Installation, directory: Path, tell: Tell) -> tuple[list[Dump], list[str]]:
    """Run the program in each way; return all dumps, and why a run that an MPI may be unable to do failed.

    Raises:
        CalibrationError: a run that can't be done without failed.
    """
    tell("the run with one node")
    dumps = _run(mpi, PLAIN, directory)
    others = OTHERS_OF_INTEL if kind_of(dumps).device is Device.INTEL else OTHERS
    left_out: list[str] = []
    for run in others:
        tell(f"the run with {run.optional}")
        try:
            found = _run(mpi, run, directory)
        except CalibrationError as error:
            left_out.append(f"{run.optional}: {error}")
            continue
        dumps += found
        refusals = [dump.truth["no_spawn"] for dump in found if "no_spawn" in dump.truth]
        left_out += [f"{run.optional}: {refusal}" for refusal in refusals[:1]]  # each rank has its own words
    return dumps, left_out


def _run(mpi: Installation, run: Run, directory: Path) -> list[Dump]:
    """Return what a run left; one that fails is tried once more, since launchers lose a process now and then."""
    this = job_of(mpi, run, directory)
    try:
        launch.run(mpi, this)
    except CalibrationError:
        shutil.rmtree(this.directory)
        this = job_of(mpi, run, directory)
        launch.run(mpi, this)
    return load_all(this.directory)
