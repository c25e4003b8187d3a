"""Which layouts are believed in a process: the selection that every MPI's adapter and every fabric makes.

Candidates come in order: of an MPI the debugger's debug information, where it has all structs; then profiles, the
nearest to this build first. Whatever the source, what holds is the first whose invariants do, and why the others were
refused is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, ParamSpec, TypeVar

from mqs_dll.contract.abi import MpiFacts, ProfileFacts
from mqs_dll.contract.errors import FinalizedError, LayoutError, MqsError, NotInitializedError, TooMuchError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import Profile

Params = ParamSpec("Params")
Result = TypeVar("Result")


class Identity(NamedTuple):
    """What a process's MPI or fabric is, and the layouts that were accepted for it."""

    title: str
    """Product and release: "Open MPI 4.1.8", "MPICH 4.3.2", "UCX 1.18.1"."""
    layouts: Layouts
    profile: Profile | None = None
    """What completes debug information of an MPI; None where that has it all, and of a fabric."""
    checks: tuple[str, ...] = ()
    """Sentences: what held in the process."""
    refusals: tuple[str, ...] = ()
    """Sentences: which layouts were tried before, and why they were refused."""


class LayoutSelection:
    """One selection: candidates are tried in turn, and the reasons of refusals kept."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        """Sentences: what was tried, and why it was refused."""

    def try_candidate(
        self, name: str, check: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Result | None:
        """Return what a check of a source of layouts returns, None where it refuses them.

        Raises:
            NotInitializedError, FinalizedError: no layouts can be checked in this process.
            TooMuchError: the call may check no more of them; it says nothing of these.
        """
        try:
            return check(*args, **kwargs)
        except (NotInitializedError, FinalizedError, TooMuchError):
            raise
        except MqsError as error:
            self.refusals.append(f"{name}: {error}")
            return None

    def failure(self, title: str, nothing: str) -> LayoutError:
        """Return the error that none holds; ``nothing`` says so where there was none to try."""
        return LayoutError(f"no layout fits this {title}: {'; '.join(self.refusals) or nothing}")


def nearest_first(profiles: Iterable[Profile], build: str, release: str) -> list[Profile]:
    """Return profiles in the order to try them: those of exactly this build, of its release, all others.

    What is as near stays in its order, the user's first.
    """
    return sorted(profiles, key=lambda each: (build not in each.builds, release not in each.releases))


def of_machine(profiles: Iterable[Profile], machine: str) -> list[Profile]:
    """Return those of some profiles that are for a machine; all where it isn't known ("")."""
    return [profile for profile in profiles if machine in (profile.machine, "")]


def facts(product: str, release: str, transport: str, build: str, address: int, profile: Profile | None) -> MpiFacts:
    """Return what is known of an MPI, and how near the profile is that its layouts come from."""
    near = None
    if profile is not None:
        of_build, of_release = build in profile.builds, release in profile.releases
        near = ProfileFacts(profile.name, profile.source, profile.of_user, of_build, of_release)
    return MpiFacts(product, release, transport, build, address, near)
