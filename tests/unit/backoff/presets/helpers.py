"""What the tests of presets share: the tables of the field as text, and a policy's own rows beside them."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest

from anew.backoff import Draws, Policy, Previous, Wait, find_preset, next_wait

DAY = 86_400
HOUR = 3_600


def reaches(policy: Policy) -> Iterator[tuple[float, float, float, float]]:
    """Each retry's shortest and longest wait, and what it adds to both ends of the window; seconds, uncut."""
    before, retry = 0.0, 0
    while True:
        retry += 1
        nominal = policy.nominal(retry)
        reach = policy.jitter.reach(retry, policy.place(retry)[1], nominal, policy.nominal, before)
        before = reach.latest
        low, high = policy.floor_ms, policy.highest_ms
        held = [min(max(wait, low), high) / 1000 for wait in reach]
        yield held[0], held[1], held[2], held[3]


def misfits(given: Any, row: str) -> list[tuple[int, str, float]]:
    """Where a policy departs from a row such as ``16-46 31-91``, at the precision that is written there."""
    words = row.split()
    found = []
    for retry, (written, reach) in enumerate(
        zip(words, islice(reaches(Policy.from_json(given)), len(words)), strict=True), start=1
    ):
        low, _, high = written.partition("-")
        for text, seconds in ((low, reach[0]), (high or low, reach[1])):
            digits = len(text.partition(".")[2])
            if seconds != pytest.approx(float(text), abs=0.5 / 10**digits + 1e-9):
                found.append((retry, written, seconds))
    return found


def window(given: Any, retries: int | None = None) -> tuple[float, float]:
    """Shortest and longest time to the last retry in seconds; by default as many as the policy allows."""
    policy = Policy.from_json(given)
    count = policy.retries if retries is None else retries
    assert count is not None
    steps = [*islice(reaches(policy), count)]
    return sum(step[2] for step in steps), sum(step[3] for step in steps)


def draw(given: Any, retry: int, jobs: int, seed: int = 1) -> list[float]:
    """One wait of so many jobs in seconds, each with its own chance."""
    policy = Policy.from_json(given).with_limit(None)
    rng = Random(seed)
    return [_wait(policy, retry, Draws(rng.random, job_id=b"job-%d" % job)) / 1000 for job in range(jobs)]


def _wait(policy: Policy, retry: int, draws: Draws) -> int:
    wait = next_wait(policy, retry, draws)
    assert isinstance(wait, Wait)
    return wait.wait_ms


def histories(given: Any, retries: int, jobs: int, seed: int = 1) -> Iterator[list[float]]:
    """The waits of so many jobs that fail again and again, in seconds; what a wait carries is handed on."""
    policy = Policy.from_json(given).with_limit(None)
    rng = Random(seed)
    for job in range(jobs):
        draws, previous, waits = Draws(rng.random, job_id=b"job-%d" % job), None, []
        for retry in range(1, retries + 1):
            wait = next_wait(policy, retry, draws, previous=previous)
            assert isinstance(wait, Wait)
            previous = Previous(wait.carry)
            waits.append(wait.wait_ms / 1000)
        yield waits


def told(name: str) -> str:
    """All that a preset says of itself besides its law."""
    found = find_preset(name)
    return " ".join([found.source, found.origin, found.counts, *found.traps])
