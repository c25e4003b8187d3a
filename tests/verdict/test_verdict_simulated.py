"""Verdicts on programs that a simulator runs by the MPI standard, seen at some moment, or when nothing moves any more.

MQS_SIMULATED_JOBS is how many of each kind are run; MQS_SIMULATED_SEED is the first one's number.
"""

from __future__ import annotations

import itertools
import os
import random

from mqs_dll.job.calls import LONG_CALL
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.progress import SECONDS_UNDER_WAY
from mqs_dll.verdict.results import Certainty, Outcome, Verdict
from tests.support.simulator.random_programs import broken, healthy
from tests.support.simulator.running import Mpi, is_in_mpi
from tests.support.simulator.sampling import MAX_SKEW, Product, Sampler
from tests.support.simulator.schedule import give_time, run, run_to_rest
from tests.support.simulator.state import Kind, Message, State
from tests.support.simulator.truth import TooManyError, can_go_on, is_over

JOBS = int(os.environ.get("MQS_SIMULATED_JOBS", "600"))
SEED = int(os.environ.get("MQS_SIMULATED_SEED", "0"))


def sampler(numbers: random.Random, *, sees_polls: bool = False) -> Sampler:
    """Return one that sees what some MPI shows, and mostly what calls were given."""
    return Sampler(
        numbers,
        numbers.choice([*Product]),
        has_numbers=numbers.random() < 0.8,
        knows_arguments=numbers.random() < 0.6,
        shows_collectives=numbers.random() < 0.8,
        sees_polls=sees_polls,
    )


def proved(verdict: Verdict) -> set[int]:
    """Return the ranks that are called stuck for good."""
    return {rank for rank, each in enumerate(verdict.activities) if each.certainty is Certainty.PROVED}


def wrongly_proved(verdict: Verdict, state: State, mpi: Mpi) -> set[int]:
    """Return the ranks that are called stuck for good and go on in some continuation."""
    try:
        return proved(verdict) and proved(verdict) & can_go_on(state, mpi)
    except TooManyError:
        return set()


def waits_for_files(state: State) -> bool:
    """Return whether an operation that ends by itself hasn't."""
    return any(state.requests[each].ends_itself and each not in state.complete for each in state.hidden.values())


def waits_outside(state: State) -> bool:
    """Return whether a message waits for a rank that isn't in MPI to take it: it may be matched, not delivered."""
    return any(messages and not any(map(is_in_mpi, state.of(way[1]))) for way, messages in state.under_way.items())


def test_no_rank_is_proved_stuck_at_any_moment_that_some_continuation_lets_go_on() -> None:
    """Ranks have threads, poll, are called back, and wait for what no queue has; samples stop one after the other."""
    proofs = 0
    for seed in range(SEED, SEED + JOBS):
        numbers = random.Random(seed)
        state, mpi = broken(numbers), Mpi(numbers.randrange(2))
        run(state, mpi, numbers, numbers.randint(5, 60))
        seen = sampler(numbers)
        seen.sample(state, mpi, skew=MAX_SKEW)
        give_time(state, mpi, numbers, numbers.choice((3, 20)))
        seen.sample(state, mpi, skew=MAX_SKEW)
        verdict = conclude(seen.job())
        assert not wrongly_proved(verdict, state, mpi), seed
        proofs += bool(proved(verdict))
    assert proofs > JOBS // 20


def slow_job(seed: int) -> tuple[random.Random, State, Mpi]:
    """Return a job at some moment, in which messages from some ranks to some others stay in the network."""
    numbers = random.Random(seed)
    state = broken(numbers) if numbers.random() < 0.5 else healthy(numbers)
    ways = frozenset(way for way in itertools.permutations(state.ranks, 2) if numbers.random() < 0.3)
    mpi = Mpi(numbers.randrange(2), slow=ways)
    run(state, mpi, numbers, numbers.randint(20, 80))
    return numbers, state, mpi


def see_twice(state: State, mpi: Mpi, seen: Sampler) -> Verdict:
    """Return the verdict of two samples between which all that isn't slow had its time."""
    for _ in range(2):
        give_time(state, mpi, seen.numbers, 10)
        seen.sample(state, mpi)
    return conclude(seen.job())


def test_between_nodes_nothing_is_proved_before_a_message_in_the_network_would_have_come() -> None:
    """The promise: a network delivers within SECONDS_UNDER_WAY; samples less far apart prove no wait for a message."""
    slow = 0
    for seed in range(SEED, SEED + JOBS):
        numbers, state, mpi = slow_job(seed)
        seen = sampler(numbers)
        seen.on_nodes, seen.interval = True, 0.9 * SECONDS_UNDER_WAY
        assert not wrongly_proved(see_twice(state, mpi, seen), state, mpi), seed
        slow += any(state.under_way.values())
    assert slow > JOBS // 5


def test_where_messages_are_numbered_at_both_ends_one_in_the_network_is_known_however_long_it_takes() -> None:
    """The promise: where sender and receiver of all that is under way wait in receives from each other, by pml/ob1."""
    known = 0
    for seed in range(SEED, SEED + 3 * JOBS):
        numbers, state, mpi = slow_job(seed)
        seen = sampler(numbers)
        seen.product, seen.has_numbers, seen.shows_collectives = Product.OPEN_MPI, True, True
        verdict = see_twice(state, mpi, seen)
        under_way = [each for messages in state.under_way.values() for each in messages]
        if under_way and all(is_numbered(state, each) for each in under_way):
            assert not wrongly_proved(verdict, state, mpi), seed
            known += 1
    assert known > JOBS // 10


def is_numbered(state: State, message: Message) -> bool:
    """Return whether sender and receiver of a message wait in receives from each other, on its communicator."""
    waiting = [state.requests[each] for each in state.waiting]
    receives = (each for each in waiting if each.kind is Kind.RECEIVE and each.comm == message.comm)
    receiving = {(each.rank, each.peer) for each in receives}
    return {(message.source, message.target), (message.target, message.source)} <= receiving


def test_what_never_moves_again_is_proved_or_suspected() -> None:
    """No deadlock is called healthy, where who polls is seen to; none is proved that a file's operation would end."""
    stuck = 0
    for seed in range(SEED, SEED + JOBS):
        numbers = random.Random(seed)
        state, mpi = broken(numbers), Mpi(numbers.randrange(2), has_slow_files=numbers.random() < 0.4)
        at_rest = run_to_rest(state, mpi, numbers)
        if not at_rest or is_over(state):
            continue
        seen = sampler(numbers, sees_polls=True)
        seen.interval = LONG_CALL
        for _ in range(2):
            seen.sample(state, mpi)
            give_time(state, mpi, numbers, 2)
        verdict = conclude(seen.job())
        assert not wrongly_proved(verdict, state, mpi), seed
        if not waits_for_files(state) and not waits_outside(state):
            assert verdict.outcome in (Outcome.PROVED, Outcome.SUSPECTED), seed
            stuck += 1
    assert stuck > JOBS // 5


def test_nothing_is_proved_of_programs_without_a_mistake_nor_suspected_where_all_ranks_go_on() -> None:
    """Whatever the schedule: each rank has left a call or come to one since the first sample, and none has ended."""
    progressed = 0
    for seed in range(SEED, SEED + JOBS):
        numbers = random.Random(seed)
        state, mpi = healthy(numbers), Mpi(numbers.randrange(2))
        run(state, mpi, numbers, numbers.randint(0, 40))
        seen = sampler(numbers)
        seen.sample(state, mpi, skew=MAX_SKEW)
        before = [*state.threads]
        give_time(state, mpi, numbers, numbers.randint(1, 5))
        moved = {
            thread.rank
            for thread, was in zip(state.threads, before, strict=True)
            if thread.at != was.at and (thread.call or was.call)
        }
        seen.sample(state, mpi, skew=MAX_SKEW)
        outcome = conclude(seen.job()).outcome
        assert outcome is not Outcome.PROVED, seed
        ends = any(thread.call is not None and thread.call.is_end for thread in state.threads)
        if moved == {*state.ranks} and not ends:
            assert outcome is Outcome.NOTHING_STUCK, seed
            progressed += 1
    assert progressed > JOBS // 20


def test_every_program_without_a_mistake_ends() -> None:
    """What the simulator calls healthy is so by its own rules."""
    for seed in range(SEED, SEED + JOBS):
        numbers = random.Random(seed)
        state, mpi = healthy(numbers), Mpi(numbers.randrange(2))
        assert run_to_rest(state, mpi, numbers)
        assert is_over(state), seed
