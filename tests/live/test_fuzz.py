"""Harm of many kinds in the memory of live jobs of every MPI: records, or errors that were foreseen, never a crash."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies

from mqs_dll.contract.abi import Communicator
from mqs_dll.contract.errors import BrokenStructureError, InternalError, MqsError
from mqs_dll.library.session import ProcessSession
from tests.support import harm
from tests.support.limited import limited_memory
from tests.support.scenes import DOZEN, Scene, scenes
from tests.support.sweep import sweep
from tests.support.tampered import Tampered

CASES = 10_000
"""In all; `python -m benchmarks.fuzz` tries as many as one likes."""

EXAMPLES = 150
"""Of each job, that are searched for among all that could be."""

MAX_MEMORY = 512 << 20
"""Bytes of address space beyond what the tests take: a count that is believed would need more."""

MAX_FETCHES = 20_000
MAX_SECONDS = 10.0
"""No sweep over a job of this size, however its memory looks, may take more: a walk without a bound would."""

EDITS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(harm.EDITED),
        strategies.integers(0, (1 << 32) - 1),
        strategies.one_of(strategies.integers(0, 64), strategies.integers(0, (1 << 64) - 1)),
    ),
    min_size=1,
    max_size=24,
)
"""Of memory, as hypothesis makes them."""

pytestmark = scenes((mpi, transport, DOZEN) for mpi, transport in harm.places())


def test_harm_gives_records_or_errors_and_never_a_crash(scene: Scene, target: Tampered) -> None:
    """Whatever the memory holds, a sweep ends soon with records that can be, or with errors that were foreseen.

    What can't be read is missed by a sentence, a -1, or a name for what is unknown: nothing else changes.
    """
    kinds = set()
    with limited_memory(MAX_MEMORY):
        for case in harm.cases(target, scene.job.transport, range(CASES // len(harm.places()))):
            assert not case.wrong, case
            assert case.fetches < MAX_FETCHES, case
            assert case.seconds < MAX_SECONDS, case
            assert "all the memory" not in str(case.error), case
            kinds.add(case.kind)
    assert len(kinds) == len(harm.KINDS)


def test_no_edit_of_what_is_read_shows_what_cannot_be(target: Tampered, session: ProcessSession) -> None:
    """Nor does one end in an error that nobody foresaw; where one did, the fewest words that do are reported."""
    of = harm.of_records(target, session)

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @given(EDITS)
    def holds(edits: list[harm.Edit]) -> None:
        harm.edit(target, of, edits)
        try:
            assert not [*harm.misfits(harm.sweep(session))]
        except InternalError:
            raise
        except MqsError:
            pass
        finally:
            target.mend()

    holds()


def test_a_group_of_another_size_than_its_communicator_is_refused(
    session: ProcessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has run since its communicators were read may have another group where theirs was."""
    session.setup_communicator_iterator()
    (first, *_), size = session._entries or [], len(session.get_comm_group())
    monkeypatch.setattr(type(first), "size", size + 1)
    with pytest.raises(BrokenStructureError, match=f"has {size + 1} processes, its group {size}$"):
        session.get_comm_group()


def test_communicators_keep_their_records_between_sweeps(session: ProcessSession) -> None:
    """Two sweeps of a process that stands still are equal: no state of the first leaks into the second."""
    assert str(sweep(session)) == str(sweep(session))
    assert all(isinstance(entry.record, Communicator) for entry in session._entries or [])
