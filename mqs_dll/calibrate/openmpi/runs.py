"""The runs of Open MPI's calibration program: each leaves a directory of dumps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.dump import Dump, load_all
from mqs_dll.calibrate.family import Tell
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.openmpi.steps import wanted_symbols
from mqs_dll.errors import CalibrationError

PROGRAM = "mqs_dll.calibrate.openmpi.program"
RANKS = 3
LINKS = 3


@dataclass(frozen=True)
class Run:
    """One way to run the program."""

    name: str
    mode: str
    """What is special about it: the program's second argument."""
    arguments: tuple[str, ...]
    """Of mpiexec."""
    optional: bool = False
    """An MPI may lack the transport."""


def _mca(**parameters: object) -> tuple[str, ...]:
    return tuple(text for name, value in parameters.items() for text in ("--mca", name, str(value)))


def _links() -> tuple[str, ...]:
    """Return the arguments that make several TCP links between two processes, all used in turn."""
    latencies = {f"btl_tcp_latency_lo:{link}": 50 for link in range(LINKS)}
    return _mca(btl="tcp,self", btl_tcp_if_include="lo", btl_tcp_links=LINKS, **latencies)


PLAIN = Run(
    "plain",
    "plain",
    _mca(pml="ob1", osc="^sm,ucx", mpi_use_sparse_group_storage=0, pml_ob1_free_list_num=5, pml_ob1_free_list_inc=40),
)
EARLY = Run(
    "early",
    "early",
    (
        *_mca(pml="ob1", mpi_use_sparse_group_storage=0, pml_ob1_free_list_num=7, pml_ob1_free_list_inc=24),
        *_links(),
        # the first message is eager although it is large, and doesn't fit into a socket's buffers
        *_mca(btl_tcp_eager_limit=1_000_000, btl_tcp_max_send_size=1_000_000),
        *_mca(btl_tcp_sndbuf=32_768, btl_tcp_rcvbuf=32_768),
    ),
)


def _cm(name: str, mode: str, provider: str, **parameters: object) -> Run:
    chosen = {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": provider}
    return Run(name, mode, _mca(mpi_use_sparse_group_storage=0, **chosen, **parameters), optional=True)


CM_RUNS = (
    _cm("cm", "cm", "tcp"),
    # three ways to put communicator, source and tag into 64 bits
    _cm("cm-full", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_full"),
    _cm("cm-tag-1", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_1"),
    _cm("cm-tag-2", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_2"),
    _cm("cm-contexts", "posted", "sockets", mtl_ofi_enable_sep=1, mtl_ofi_num_ctxts=4),
)
RUNS = (PLAIN, EARLY, *CM_RUNS)


def job_of(mpi: Installation, run: Run, directory: Path) -> launch.Job:
    """Return the job of a run, whose directory is one of its own in ``directory``."""
    place = directory / run.name
    place.mkdir(parents=True)
    (place / "symbols").write_text("\n".join(wanted_symbols()) + "\n")
    command = launch.python_rank(PROGRAM, str(mpi.library), str(place), run.mode)
    return launch.Job(run.name, place, RANKS, command, ("--oversubscribe", *run.arguments), _variables())


def _variables() -> dict[str, str]:
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    if os.geteuid() == 0:
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def observe(mpi: Installation, directory: Path, tell: Tell) -> tuple[list[Dump], str]:
    """Run the program in each way.

    Returns:
        All dumps, and why the runs with a transport that an MPI may lack were not made, "" if they were.

    Raises:
        CalibrationError: a run that isn't optional failed.
    """
    dumps: list[Dump] = []
    for number, run in enumerate(RUNS, start=1):
        tell(f"run {number} of {len(RUNS)}: {run.name}")
        this = job_of(mpi, run, directory)
        try:
            launch.run(mpi, this)
        except CalibrationError as error:
            if run.optional:
                return dumps, str(error)
            raise
        dumps += load_all(this.directory)
    return dumps, ""
