"""The runs of MPICH's calibration program: each leaves a directory of dumps."""

from __future__ import annotations

from mqs_dll.calibrate.launch import Run

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
