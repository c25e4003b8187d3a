"""The runs of MPICH's calibration program: each leaves a directory of dumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mqs_dll.calibrate import job
from mqs_dll.calibrate.dump import Dump, load_all
from mqs_dll.calibrate.family import Tell
from mqs_dll.calibrate.installation import Installation
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


PLAIN = Run("plain", 5)
SEVERAL_NODES = {
    "MPIR_CVAR_ODD_EVEN_CLIQUES": "1",
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",  # else receivers fetch the data, and sends of 5.0 name no destination
}
"""MPICH takes even and odd ranks for two nodes."""

SPAWN = Run("spawn", 2, "processes of several jobs")
RUNS = (
    PLAIN,
    Run("cliques", 4, "several nodes", SEVERAL_NODES),
    SPAWN,
)
EVERYWHERE = {"I_MPI_FABRICS": "shm"}
"""Intel MPI: between the processes of a node, the other fabrics hide what happens."""


def job_of(mpi: Installation, run: Run, directory: Path) -> job.Job:
    """Return the job of a run, whose directory is one of its own in ``directory``."""
    place = directory / run.mode
    place.mkdir(parents=True)
    command = job.python_rank(PROGRAM, str(mpi.library), str(place), run.mode)
    return job.Job(run.mode, place, run.ranks, command, variables={**EVERYWHERE, **run.variables})


def observe(mpi: Installation, directory: Path, tell: Tell) -> tuple[list[Dump], list[str]]:
    """Run the program in each way; return all dumps, and why a run that an MPI may be unable to do failed.

    Raises:
        CalibrationError: a run that can't be done without failed.
    """
    dumps: list[Dump] = []
    left_out: list[str] = []
    for number, run in enumerate(RUNS, start=1):
        tell(f"run {number} of {len(RUNS)}: {run.mode}")
        this = job_of(mpi, run, directory)
        try:
            job.run(mpi, this)
            dumps += load_all(this.directory)
        except CalibrationError as error:
            if not run.optional:
                raise
            left_out.append(f"{run.optional}: {error}")
    refusals = [dump.truth["no_spawn"] for dump in dumps if "no_spawn" in dump.truth]
    left_out += [f"{SPAWN.optional}: {refusal}" for refusal in refusals[:1]]  # each rank has its own words
    return dumps, left_out
