"""Waits and whole lives drawn through the engine's own decision, and how far chance may carry a figure."""

from __future__ import annotations

import math
from random import Random

from anew.backoff import Draws, Exhausted, Policy, Previous, Wait, next_wait
from anew.lab.laws.shapes import Law

SIGMAS = 4.5
"""A figure of a right law is further off by chance once in 150,000 cases; the seeds are fixed."""

KOLMOGOROV = 2.4
"""The distance of a sample of n from its law, times the root of n, is larger once in 50,000 cases."""


def drawn(policy: Policy, retry: int, count: int, seed: int = 1) -> list[int]:
    """One retry's waits, in order; each job has a phase and an id of its own."""
    chance = Random(seed)
    waits = []
    for job in range(count):
        draws = Draws(chance.random, f"{seed}-{job}".encode(), chance.random())
        previous, wait = None, None
        for number in range(1, retry + 1):
            wait = next_wait(policy, number, draws, previous=previous, beyond_limit=True)
            assert isinstance(wait, Wait)
            previous = Previous(wait.carry)
        assert isinstance(wait, Wait)
        waits.append(wait.wait_ms)
    return sorted(waits)


def lives(policy: Policy, count: int, seed: int = 1) -> list[int]:
    """When the last retry of each job comes, in order."""
    chance = Random(seed)
    return sorted(_life(policy, chance, f"{seed}-{job}".encode()) for job in range(count))


def _life(policy: Policy, chance: Random, job_id: bytes) -> int:
    draws = Draws(chance.random, job_id, chance.random())
    at, retry, previous = 0, 1, None
    while True:
        wait = next_wait(policy, retry, draws, previous=previous, elapsed_ms=at)
        if isinstance(wait, Exhausted):
            return at
        at, retry, previous = at + wait.wait_ms, retry + 1, Previous(wait.carry)


def distance(values: list[int], law: Law) -> float:
    """The largest gap between the shares of a sample and of a law, just below each value and at it."""
    count = len(values)
    first = {value: index for index, value in reversed(list(enumerate(values)))}
    last = {value: index + 1 for index, value in enumerate(values)}
    return max(
        max(abs(law.cdf(value) - last[value] / count), abs(law.cdf(value - 1) - first[value] / count))
        for value in first
    )


def assert_agrees(values: list[int], law: Law, *, model_error: float = 0.0, ends: bool = True) -> None:
    """The sample could have come from the law: mean, spread and shares.

    Args:
        values: The sample, in order.
        law: The law.
        model_error: Share that a law reckoned on a grid may be off by itself.
        ends: Whether the law claims to know the lowest and the highest value to the millisecond.
    """
    count = len(values)
    mean = sum(values) / count
    slack = SIGMAS * law.sd_ms / math.sqrt(count) + model_error * law.sd_ms + 0.001
    assert abs(mean - law.mean_ms) <= slack, (mean, law.mean_ms, slack)
    assert distance(values, law) <= KOLMOGOROV / math.sqrt(count) + model_error
    variance = sum((value - mean) ** 2 for value in values) / count
    fourth = sum((value - mean) ** 4 for value in values) / count
    error = SIGMAS * math.sqrt(max(fourth - variance**2, 0.0) / count)
    assert abs(variance - law.sd_ms**2) <= error + 2 * model_error * law.sd_ms**2 + 0.5
    if ends:
        assert law.earliest_ms - 1 <= values[0]
        assert values[-1] <= law.latest_ms + 1
