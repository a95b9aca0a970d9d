"""What a herd does under each policy of a page, worked out once and shown in many ways. Times are ms after the first failure."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.chance import PhaseKind
from anew.lab.charts.data import shown_retries
from anew.lab.charts.link import PAGE_CALLS
from anew.lab.charts.loads import Seconds, seconds
from anew.lab.explain import Explanation, explain
from anew.lab.rhythm import Rhythm, in_order, rhythm
from anew.lab.waves import ABSENT, Wave, waits_between, waves

DOTS: Final = 100
"""Jobs that are shown one by one."""

_DRAWN = 20_000
"""Jobs whose lives are drawn for a policy's facts: to 0.7 points, in a few milliseconds."""

KEPT: Final = 12
KEPT_CALLS: Final = 300_000
"""Herds and scenes up to so many calls are kept for the next page, some 3 MB each: a slider moves one policy, the others stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the pictures show of one policy's jobs.

    Attributes:
        key: The policy's letter.
        label: What charts call it.
        waves: For each retry when it comes to each job, `ABSENT` where it does not.
        seconds: How many calls each second has.
        served: The same of the calls that a limited downstream answered in time; None: it is not limited.
    """

    key: str = ""
    label: str = ""
    waves: tuple[Wave, ...]
    seconds: Seconds
    served: Seconds | None = None

    @property
    def retries(self) -> int:
        """Retries of which any is made."""
        return len(self.waves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd(Drawn):
    """One policy's herd, all of which fails at 0 and at every retry.

    Attributes:
        policy: The policy.
        explained: Its retries as far as they can be told beforehand.
        rhythm: How the calls lie in time.
    """

    policy: Policy
    explained: Explanation
    rhythm: Rhythm

    @property
    def dots(self) -> list[list[int]]:
        """When each of the first jobs retries."""
        rows = zip(*([int(ms) for ms in wave[:DOTS]] for wave in self.waves), strict=True)
        return [[ms for ms in row if ms != ABSENT] for row in rows]

    def waits(self, retry: int) -> Wave:
        """Give the waits before a retry, without the jobs that have none."""
        return waits_between(self.waves[retry - 1], self.waves[retry - 2] if retry > 1 else None)


def herd(key: str, label: str, policy: Policy, values: Mapping[str, Any]) -> Herd:
    """Work out a herd.

    Raises:
        InvalidInput: It would be too large.
    """
    jobs, retries = values["jobs"], shown_retries(policy)
    if jobs * retries > PAGE_CALLS:
        raise InvalidInput(
            f"jobs: {jobs:,} with {retries} retries are {jobs * retries:,} calls; expected at most {PAGE_CALLS:,}",
            field="jobs",
            value=jobs,
        )
    work = _kept if jobs * retries <= KEPT_CALLS else _worked_out
    return replace(work(policy, jobs, values["seed"], values["phase"]), key=key, label=label)


def _worked_out(policy: Policy, jobs: int, seed: int, phase: PhaseKind) -> Herd:
    retries = shown_retries(policy)
    found = tuple(waves(policy, jobs, retries, seed, phase))
    # The bounds and the mean of each retry are shown, percentiles are not: they cost as much as all the rest.
    explained = explain(policy, retries, percentiles=(), drawn=_DRAWN)
    calls = in_order(found)
    return Herd(waves=found, seconds=seconds(calls), policy=policy, explained=explained, rhythm=rhythm(calls))


_kept = functools.lru_cache(maxsize=KEPT)(_worked_out)


def least(wave: Wave) -> int:
    """Give the least of some instants or waits, of which there is one at least."""
    return min(wave) if isinstance(wave, list) else int(wave.min())


def moments(waits: Wave) -> tuple[float, float]:
    """Give mean and standard deviation; zeros for nothing."""
    if not len(waits):
        return 0.0, 0.0
    if isinstance(waits, list):
        return statistics.fmean(waits), statistics.pstdev(waits)
    return float(waits.mean()), float(waits.std())
