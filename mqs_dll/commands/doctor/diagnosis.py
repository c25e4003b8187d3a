"""What ``mqs doctor`` found out: one frozen record, which report.py makes text and JSON of."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from mqs_dll.contract.abi import MpiFacts


class Visibility(Enum):
    """How much of an MPI libmqs can show."""

    WHOLE = "whole"
    PARTLY = "partly"
    """A part is hidden or broken; the diagnosis names it."""
    NOTHING = "nothing"
    """No layout fits."""


class ProcessFacts(NamedTuple):
    """Which process it is."""

    pid: int
    program: str
    """Its name, as the kernel has it."""
    global_rank: int | None
    """The rank in MPI_COMM_WORLD, None when it can't be known."""
    stop_time: float | None
    """Seconds for which it stood still; None when it was not stopped."""


class FileFacts(NamedTuple):
    """Which file it is, where no process was read."""

    path: str
    stripped: bool
    debug_files: tuple[str, ...]
    """Where its debug information lies; empty where there is none."""


class Rung(NamedTuple):
    """One source of layouts, and what comes from it."""

    source: str
    """In words: "debug information", "profile NAME, made from exactly this build"."""
    structs: tuple[str, ...]


class Limitation(NamedTuple):
    """Why something can't be seen, or not wholly, on some communicators."""

    reason: str
    remedy: str
    """What would make it visible; empty where nothing would."""
    communicators: tuple[bytes, ...]
    """Their names."""


class Capability(NamedTuple):
    """What each communicator has, like its receives: on how many it is seen, and what is in the way on the others."""

    name: str
    seen: int
    obstacles: tuple[Limitation, ...]


class Remedy(NamedTuple):
    """What a user can do."""

    what: str
    """A command, or an instruction."""
    why: str


class Diagnosis(NamedTuple):
    """What is known of an MPI, and what isn't."""

    verdict: Visibility
    mpi: MpiFacts
    library: str | None
    """The file of the MPI's library; None where it can't be determined."""
    refused_profiles: tuple[str, ...]
    """Sentences: which of the user's files are no profiles, and why."""
    remedies: tuple[Remedy, ...]
    process: ProcessFacts | None = None
    file: FileFacts | None = None
    rungs: tuple[Rung, ...] = ()
    no_layout: str | None = None
    """Why no layout fits, where none does."""
    checks: tuple[str, ...] = ()
    """Sentences: what was compared, and held."""
    refusals: tuple[str, ...] = ()
    """Sentences: which near profiles were refused, and why."""
    parts: tuple[Capability, ...] | None = None
    """None where they were not examined."""


class Ability(NamedTuple):
    """One thing that `mqs` does to ranks, and whether it can be had of this user's own on this machine."""

    name: str
    seen: Visibility
    why: str
    """What was tried and worked, or what is in the way."""
    remedy: str
    """Empty where nothing is in the way, or nothing helps."""


class Circumstance(NamedTuple):
    """One obstacle that a kernel can put into the way."""

    name: str
    holds: bool
    """Whether it is in the way of something, not necessarily of this user's own processes."""
    words: str
    remedy: str


class MachineDiagnosis(NamedTuple):
    """What this machine allows this user."""

    verdict: Visibility
    user: str
    abilities: tuple[Ability, ...]
    circumstances: tuple[Circumstance, ...]
    remedies: tuple[Remedy, ...]
