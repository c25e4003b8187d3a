"""Which MPICH the dumps are of, what it has and lacks, and what its profile is called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mqs_dll.calibrate.document import Subject
from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.target import build_of
from mqs_dll.contract.errors import CalibrationError

RELEASE = re.compile(r"MPICH Version:\s*(\S+)")
DEVICE = re.compile(r"MPICH Device:\s*(.+)")
INTEL = re.compile(r"Intel\(R\) MPI Library ((\d+\.\d+)\S*)")

DIRECT_NETMOD = "ch4:ucx"
"""The device that has no shared memory: all messages go through the network's library."""


class DeviceKind(Enum):
    """How messages go, as far as it changes the layout of requests."""

    CH3 = "ch3"
    CH4 = "ch4"
    NETWORK = "ch4 without shared memory"
    INTEL = "Intel MPI"


@dataclass(frozen=True)
class MpichBuild:
    """What MPI_Get_library_version returns."""

    release: str
    device: DeviceKind
    title: str
    """What the profile is called after: "5.0.2-abi"."""


def kind_of(dumps: Sequence[Dump]) -> MpichBuild:
    """Return which MPICH all dumps are of.

    Raises:
        CalibrationError: they are of several, or of none that is known.
    """
    versions = {(dump.truth["version"], Path(dump.truth["library_file"]).name) for dump in dumps}
    if len({version for version, _ in versions}) != 1:
        raise CalibrationError(f"the dumps are of {len(versions)} MPIs")
    version, library = versions.pop()
    intel = INTEL.search(version)
    if intel is not None:
        return MpichBuild(intel.group(1), DeviceKind.INTEL, f"impi-{intel.group(2)}")
    release, device = RELEASE.search(version), DEVICE.search(version)
    if release is None or device is None:
        raise CalibrationError(f"no version of MPICH is known: {version[:60]!r}")
    return _of_mpich(release.group(1), device.group(1).strip(), library)


def _of_mpich(release: str, device: str, library: str) -> MpichBuild:
    if device.startswith("ch3"):
        return MpichBuild(release, DeviceKind.CH3, f"{release}-ch3")
    if device == DIRECT_NETMOD:
        return MpichBuild(release, DeviceKind.NETWORK, f"{release}-ucx")
    return MpichBuild(release, DeviceKind.CH4, f"{release}-abi" if "_abi." in library else release)


def subject_of(dumps: Sequence[Dump], kind: MpichBuild) -> Subject:
    """Return the MPI that the dumps are of, as its profile names it.

    Raises:
        CalibrationError: they are of several machines.
        LayoutError: the library is not in them.
    """
    machines = {str(dump.truth["machine"]) for dump in dumps}
    if len(machines) != 1:
        raise CalibrationError(f"the dumps are of several machines: {', '.join(sorted(machines))}")
    machine = machines.pop()
    return Subject(
        name=f"mpich-{kind.title}-{machine}",
        mpi="mpich",
        machine=machine,
        release=kind.release,
        builds=sorted({build_of(dump, dump.truth["library"]) for dump in dumps}),
    )
