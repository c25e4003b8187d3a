"""Compiles tools/calibrate.c with an MPI's own compiler wrapper and runs it: each run leaves a directory of dumps."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.make_profile.dump import Dump, load_all
from tools.make_profile.errors import ProfileError
from tools.make_profile.steps import wanted_symbols

SOURCE = Path(__file__).parents[1] / "calibrate.c"
RANKS = 3
RUN_SECONDS = 60.0
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


@dataclass(frozen=True)
class Mpi:
    """How to compile and run a program of an MPI."""

    mpicc: Sequence[str]
    mpiexec: Sequence[str]
    emulator: Sequence[str] = ()
    """What runs a program of another machine, if anything does."""

    def compile(self, directory: Path) -> Path:
        """Return the program.

        Raises:
            ProfileError: the compiler failed; the text is its output.
        """
        program = directory / "calibrate"
        command = [*self.mpicc, "-std=c11", "-O1", "-pthread", str(SOURCE), "-o", str(program), "-ldl"]
        result = _run(command)
        if result.returncode != 0:
            raise ProfileError(f"{' '.join(command)} failed:\n{result.stderr}")
        return program

    def start(self, program: Path, run: Run, directory: Path) -> subprocess.Popen[bytes]:
        """Start the program; its output goes to a file in the directory."""
        directory.mkdir()
        (directory / "symbols").write_text("\n".join(wanted_symbols()) + "\n")
        command = [*self.mpiexec, "--oversubscribe", *run.arguments, "-n", str(RANKS), *self.emulator]
        with (directory / "output").open("wb") as output:
            return subprocess.Popen(
                [*command, str(program), str(directory), run.mode],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )

    def dumps(self, program: Path, run: Run, directory: Path) -> list[Dump]:
        """Run the program to its end and return what its ranks left.

        Raises:
            ProfileError: it left nothing; the text is what it printed.
        """
        launcher = self.start(program, run, directory)
        try:
            launcher.wait(RUN_SECONDS)  # never 0: the program ends without MPI_Finalize
        except subprocess.TimeoutExpired:
            raise ProfileError(f"the run {run.name!r} took more than {RUN_SECONDS:.0f} s") from None
        finally:
            end(launcher)
        if len(list(directory.glob("truth.*"))) != RANKS:
            output = (directory / "output").read_text(errors="replace")
            raise ProfileError(f"the run {run.name!r} did not reach its end; it printed:\n{output}")
        return load_all(directory)

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"}
        if os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            environment |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return environment


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProfileError(f"{command[0]} can't be run: {error}") from error


def end(launcher: subprocess.Popen[bytes]) -> None:
    """End a launcher, and the ranks that are in its process group; others end with it, or by their own alarm."""
    with suppress(ProcessLookupError):
        os.killpg(launcher.pid, signal.SIGTERM)
    try:
        launcher.wait(10)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


def calibrate(mpi: Mpi, directory: Path, runs: Sequence[Run] = RUNS) -> list[Dump]:
    """Compile the program, run it in each way, and return all dumps.

    Raises:
        ProfileError: it can't be compiled, or a run that isn't optional failed.
    """
    program = mpi.compile(directory)
    dumps: list[Dump] = []
    for run in runs:
        try:
            dumps += mpi.dumps(program, run, directory / run.name)
        except ProfileError:
            if not run.optional:
                raise
    return dumps
