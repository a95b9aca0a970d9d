"""Waits drawn by the engine itself, so that anybody can hold a policy against the library it is named after."""

from __future__ import annotations

import dataclasses
from typing import Final

from anew.backoff import Decorrelated, Policy, Slices
from anew.lab.chance import PhaseKind
from anew.lab.waves import decided
from anew.units import refused

MAX_WAITS: Final = 1_000_000
MAX_DRAWS: Final = 2_000_000
"""The most decisions of one sample, at some 5 µs each: jitter that remembers takes one for every retry before."""

MAX_RETRY: Final = 1_000_000


def sample(policy: Policy, retry: int, count: int, *, seed: int = 1, phase: PhaseKind = "seq") -> list[int]:
    """Draw one retry's waits of many jobs.

    Each wait is what ``next_wait`` decides for a job of its own. Where waits depend on those before, the job is
    walked through retries 1 to ``retry``. The deadline is left aside: it depends on the time that has passed.

    Args:
        retry: 1 = the first.
        phase: Numbers for life: ``seq``, those of jobs that fail one after the other; ``hash``, independent ones.

    Returns:
        Waits in whole milliseconds, in the order of the jobs; the same ``seed`` gives the same.

    Raises:
        InvalidInput: A number is out of its range, or all of it together is too much.
    """
    most = MAX_RETRY if policy.retries is None else policy.retries
    if not 1 <= retry <= most:
        expected = f"a whole number from 1 to {most}" if most else "another policy: this one has no retry"
        raise refused("retry", retry, expected + (", the policy's last retry" if policy.retries else ""))
    if not 1 <= count <= MAX_WAITS:
        raise refused("n", count, f"a whole number from 1 to {MAX_WAITS}")
    remembers = isinstance(policy.jitter, Decorrelated | Slices)
    if count * (retry if remembers else 1) > MAX_DRAWS:
        raise refused("n", count, f"at most {MAX_DRAWS // retry}: {retry} waits of each job are drawn")
    free = dataclasses.replace(policy, deadline_ms=None)
    retries = range(1 if remembers else retry, retry + 1)
    return [[*decided(free, job, retries, seed, phase)][-1] for job in range(count)]
