"""MPICH's calibration, as the command uses it: its runs, and the order in which the structs are found.

Each step builds on those before it. Releases keep the processes of a communicator in one of three ways: the steps for
all three are tried, and exactly one must succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mqs_dll.calibrate import launch
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.family import Family, Observed, Report, SolvedLayouts
from mqs_dll.calibrate.launch import Installation, Run
from mqs_dll.calibrate.mpich import allocation, ch3, ch4, communicators, intel, processes, requests
from mqs_dll.calibrate.mpich.identity import DeviceKind, kind_of, subject_of
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver
from mqs_dll.calibrate.mpich.program import PROGRAM
from mqs_dll.library.layouts.view import View
from mqs_dll.library.mpi import MPICH
from mqs_dll.library.mpi.mpich import views

# ---------------------------------------------------------------- the runs: each leaves a directory of dumps

NODES, JOBS = "several nodes", "processes of several jobs"

SEVERAL_NODES = {
    "MPIR_CVAR_ODD_EVEN_CLIQUES": "1",
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",  # else receivers fetch the data, and sends of 5.0 name no destination
}
"""MPICH takes even and odd ranks for two nodes."""

PLAIN = Run("plain", "plain", 5, variables={"I_MPI_FABRICS": "shm"})
"""Intel MPI's other fabrics hide what happens within a node; other MPIs don't know the variable."""

OTHERS = (
    Run("cliques", "cliques", 4, variables=SEVERAL_NODES, optional=NODES),
    Run("spawn", "spawn", 2, optional=JOBS),
)

TWO_NAMES = ("-launcher", "fork", "-hosts", "localhost,127.0.0.1", "-ppn", "1")
"""Two names for this machine, which mpiexec takes for two nodes, in turn."""

NETWORK = {"FI_PROVIDER": "tcp"}
NO_SHARED_MEMORY = {"MPIR_CVAR_NOLOCAL": "1"}
FABRICS = (
    Run("UCX", "", 2, variables={**NO_SHARED_MEMORY, "MPIR_CVAR_CH4_NETMOD": "ucx"}),
    Run("libfabric", "", 2, variables={**NO_SHARED_MEMORY, "MPIR_CVAR_CH4_NETMOD": "ofi", **NETWORK}),
)
"""On which what libmqs knows of a fabric is tried; a build that has one of them, or none, says so."""
OTHERS_OF_INTEL = (
    Run("cliques", "cliques", 4, TWO_NAMES, {"I_MPI_FABRICS": "shm:ofi", **NETWORK}, NODES),
    Run("spawn", "spawn", 2, variables={"I_MPI_FABRICS": "ofi", **NETWORK}, optional=JOBS),
)
"""They need the libfabric that Intel MPI brings."""

# ---------------------------------------------------------------- what is to be found

Step = Callable[[MpichLayoutSolver], None]

FIRST: tuple[Step, ...] = (allocation.find_pools, communicators.find_process)
WAYS: tuple[tuple[Step, tuple[type[View], ...]], ...] = (
    (processes.find_maps, (views.RankMap,)),
    (processes.find_groups, (views.MpirGroup, views.StridedGroup)),
    (processes.find_connections, (views.Vcrt, views.VirtualConnection)),
)
"""From ranks to processes: ch4 to 4.3, 5.0, ch3."""

COMMON: tuple[Step, ...] = (
    communicators.find_communicator,
    communicators.find_context_ids,
    communicators.find_hidden,
    communicators.find_attributes,
    communicators.find_datatype,
    communicators.find_window,
    requests.find_request,
    requests.find_status,
    requests.find_persistent,
)
ARMS_OF_CH4: tuple[Step, ...] = (ch4.find_inactive, ch4.find_partitioned, ch4.find_self)
DEVICES: dict[DeviceKind, tuple[tuple[Step, ...], tuple[type[View], ...]]] = {
    DeviceKind.CH4: (
        (
            requests.find_links,
            requests.find_locality,
            ch4.find_receive,
            ch4.find_extension,
            ch4.find_progress,
            ch4.find_flow,
            ch4.find_destination,
            ch4.find_type,
            ch4.find_header,
            *ARMS_OF_CH4,
        ),
        views.CH4,
    ),
    DeviceKind.CH3: ((ch3.find_match, ch3.find_arguments, ch3.find_progress, requests.find_links), views.CH3[2:]),
    DeviceKind.INTEL: (
        (
            requests.find_locality,
            ch4.find_receive,
            ch4.find_extension,
            intel.find_queues,
            intel.find_asked_process,
            ch4.find_inactive,
            ch4.find_partitioned,
        ),
        (*views.INTEL, views.PartitionedRequest),
    ),
    DeviceKind.NETWORK: (
        (requests.find_links, *ARMS_OF_CH4),
        (views.PersistentRequest, views.PartitionedRequest, views.SelfRequest),
    ),
}
"""What is to be found of each device's requests, and the views that need it."""


class MpichFamily(Family):
    """MPICH 3.4 to 5.0, on ch3 and ch4, and Intel MPI."""

    name = "mpich"
    title = "MPICH"
    anchor = MPICH
    launcher_says = r"HYDRA|Intel\(R\) MPI"
    fabrics = FABRICS

    def observe(self, mpi: Installation, directory: Path, report: Report) -> Observed:
        """Run the program in each way; the first run shows which the others are."""
        dumps, _ = launch.run_all(mpi, PROGRAM, [PLAIN], directory, report, attempts=2)
        runs = OTHERS_OF_INTEL if kind_of(dumps).device is DeviceKind.INTEL else OTHERS
        others, left_out = launch.run_all(mpi, PROGRAM, runs, directory, report, attempts=2)
        refusals = [f"{JOBS}: {dump.truth['no_spawn']}" for dump in others if "no_spawn" in dump.truth]
        return Observed([*dumps, *others], [*left_out, *refusals[:1]])  # each rank has its own words

    def solve(self, dumps: Sequence[Dump]) -> SolvedLayouts:
        """Find the members of MPICH's structs, and which views this MPICH has."""
        kind = kind_of(dumps)
        solver = MpichLayoutSolver(dumps)
        failures = solver.take(FIRST)
        ways = [(solver.take([step]), views_of) for step, views_of in WAYS]
        found = [views_of for failed, views_of in ways if not failed]
        if len(found) != 1:
            reasons = [sentence for failed, _ in ways for sentence in failed]
            failures += reasons or ["ranks lead to processes in several ways"]
        steps, views_of_device = DEVICES[kind.device]
        wanted = (*views.COMMON, *(found[0] if len(found) == 1 else ()), *views_of_device)
        failures += [*solver.take([*COMMON, *steps]), *solver.missing(wanted)]
        structs = {view.struct for view in wanted}
        sizes_only = [struct for struct in (views.CONTEXT_ID, "MPIR_Group") if struct not in structs]
        return SolvedLayouts(subject_of(dumps, kind), solver, wanted, sizes_only, failures)
