"""The runs of Open MPI's calibration program: each leaves a directory of dumps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.dump import Dump, load_all
from mqs_dll.calibrate.family import Tell
from mqs_dll.calibrate.installation import Installation
from mqs_dll.calibrate.openmpi.steps import wanted_symbols
from mqs_dll.errors import CalibrationError

SOURCE = Path(__file__).with_name("calibrate.c")
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
HOLD = Run("hold", "hold", _mca(pml="ob1"))


def compile_program(mpi: Installation, directory: Path) -> Path:
    """Return the program, compiled with the MPI's own compiler wrapper.

    Raises:
        CalibrationError: there is none, or it failed; the text has its last words.
    """
    if not mpi.mpicc:
        raise CalibrationError(f"there is no mpicc beside {mpi.mpiexec[0]}")
    program = directory / "calibrate"
    command = [*mpi.mpicc, "-std=c11", "-O1", "-pthread", str(SOURCE), "-o", str(program), "-ldl"]
    try:
        environment = {**os.environ, **mpi.environment()}
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environment)
    except OSError as error:
        raise CalibrationError(f"{command[0]} can't be run: {error.strerror}") from error
    if result.returncode != 0:
        words = (result.stderr.strip() or result.stdout.strip() or "it printed nothing").splitlines()
        raise CalibrationError(f"{command[0]} can't compile the calibration program: {words[0]}")
    return program


def python_program(mpi: Installation) -> list[str]:
    """Return the command of a rank that needs no compiler."""
    return launch.python_rank("mqs_dll.calibrate.openmpi.rank", str(mpi.library))


def job_of(run: Run, program: Sequence[str], directory: Path) -> launch.Job:
    """Return the job of a run, whose directory is one of its own in ``directory``.

    Args:
        run: which one.
        program: the command of a rank, without its arguments: DIRECTORY MODE.
        directory: where all runs leave what they saw.
    """
    place = directory / run.name
    place.mkdir(parents=True)
    (place / "symbols").write_text("\n".join(wanted_symbols()) + "\n")
    options = ("--oversubscribe", *run.arguments)
    return launch.Job(run.name, place, RANKS, (*program, str(place), run.mode), options, _variables())


def _variables() -> dict[str, str]:
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    if os.geteuid() == 0:
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def observe(
    mpi: Installation, program: Sequence[str], directory: Path, runs: Sequence[Run] = RUNS, tell: Tell = lambda _: None
) -> tuple[list[Dump], str]:
    """Run the program in each way.

    Returns:
        All dumps, and why the runs with a transport that an MPI may lack were not made, "" if they were.

    Raises:
        CalibrationError: a run that isn't optional failed.
    """
    dumps: list[Dump] = []
    for number, run in enumerate(runs, start=1):
        tell(f"run {number} of {len(runs)}: {run.name}")
        this = job_of(run, program, directory)
        try:
            launch.run(mpi, this)
        except CalibrationError as error:
            if run.optional:
                return dumps, str(error)
            raise
        dumps += load_all(this.directory)
    return dumps, ""
