"""The runs of Open MPI's calibration program: each leaves a directory of dumps."""

from __future__ import annotations

import os

from mqs_dll.calibrate.launch import Run

RANKS = 3
LINKS = 3


def _mca(**parameters: object) -> tuple[str, ...]:
    return tuple(text for name, value in parameters.items() for text in ("--mca", name, str(value)))


def _variables() -> dict[str, str]:
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    if os.geteuid() == 0:
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def _run(name: str, mode: str, *options: str, ranks: int = RANKS, optional: str = "") -> Run:
    common = ("--oversubscribe", *_mca(mpi_use_sparse_group_storage=0))
    return Run(name, mode, ranks, (*common, *options), _variables(), optional)


def _cm(name: str, mode: str, provider: str, **parameters: object) -> Run:
    chosen = {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": provider}
    return _run(name, mode, *_mca(**chosen, **parameters), optional="pml/cm with mtl/ofi")


FABRICS = (
    _run("UCX", "", *_mca(pml="ucx", opal_common_ucx_tls="any", opal_common_ucx_devices="any"), ranks=2),
    _run("libfabric", "", *_mca(pml="cm", mtl="ofi", mtl_ofi_provider_include="tcp"), ranks=2),
)
"""On which what libmqs knows of a fabric is tried."""

RUNS = (
    _run("plain", "plain", *_mca(pml="ob1", osc="^sm,ucx", pml_ob1_free_list_num=5, pml_ob1_free_list_inc=40)),
    _run(
        "early",
        "early",
        *_mca(pml="ob1", pml_ob1_free_list_num=7, pml_ob1_free_list_inc=24),
        # several TCP links between two processes, all used in turn
        *_mca(btl="tcp,self", btl_tcp_if_include="lo", btl_tcp_links=LINKS),
        *_mca(**{f"btl_tcp_latency_lo:{link}": 50 for link in range(LINKS)}),
        # the first message is eager although it is large, and doesn't fit into a socket's buffers
        *_mca(btl_tcp_eager_limit=1_000_000, btl_tcp_max_send_size=1_000_000),
        *_mca(btl_tcp_sndbuf=32_768, btl_tcp_rcvbuf=32_768),
    ),
    _cm("cm", "cm", "tcp"),
    # three ways to put communicator, source and tag into 64 bits
    _cm("cm-full", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_full"),
    _cm("cm-tag-1", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_1"),
    _cm("cm-tag-2", "posted", "tcp", mtl_ofi_tag_mode="ofi_tag_2"),
    _cm("cm-contexts", "posted", "sockets", mtl_ofi_enable_sep=1, mtl_ofi_num_ctxts=4),
)
