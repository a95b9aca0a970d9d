"""What a herd does under each policy of a page, worked out once and shown in many ways. Times are ms after the first failure."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.chance import PhaseKind
from anew.lab.charts.waves import ABSENT, Wave, waits_between, waves
from anew.lab.explain import Explanation, explain
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MAX_CALLS: Final = 3_000_000
"""Calls of one policy that a page works out: jobs times retries."""

OPEN_END: Final = 25
"""Retries shown of a policy that has no end."""

MOST_RETRIES: Final = 100
DOTS: Final = 100
"""Jobs that are shown one by one."""

_KEPT: Final = 12
_KEPT_CALLS: Final = 300_000
"""Herds up to so many calls are kept for the next page, some 2 MB each: a slider moves one policy, the others stay."""

_COUNTED: Final = 4_000_000
"""Bins up to which counting all of them is faster than sorting."""

_STRETCHES: Final = ((SECOND_MS, "seconds"), (MINUTE_MS, "minutes"), (HOUR_MS, "hours"), (DAY_MS, "days"))
_EXPECTED: Final = 5
"""Calls that a stretch of time would have in an even herd: an empty one is no accident then."""


@dataclass(frozen=True, slots=True)
class Busy:
    """How a herd's calls lie in time.

    Attributes:
        second: Calls in the busiest second.
        minute: Calls in the busiest minute.
        share: Calls per second if the first retries came evenly over their mean wait, all of them if that is below
            a second.
        silent: Share of the stretches of time, from the first call to the last, without a call.
        stretch: What these stretches are: ``seconds``, ``minutes``, ``hours`` or ``days``.
    """

    second: int
    minute: int
    share: float
    silent: float
    stretch: str


@dataclass(frozen=True, slots=True)
class Herd:
    """One policy's herd, all of which fails at 0 and at every retry.

    Attributes:
        key: The policy's letter.
        label: What charts call it.
        policy: The policy.
        explained: Its retries as far as they can be told beforehand.
        waves: For each retry when it comes to each job, `ABSENT` where it does not.
        early_ms: The first call but for a hundredth of the jobs, so that one early bird does not stretch an axis of powers.
        last_ms: The last call.
        busy: How the calls lie in time.
    """

    key: str
    label: str
    policy: Policy
    explained: Explanation
    waves: tuple[Wave, ...]
    early_ms: int
    last_ms: int
    busy: Busy

    @property
    def retries(self) -> int:
        """Retries that are shown."""
        return len(self.waves)

    def waits(self, retry: int) -> Wave:
        """Give the waits before a retry, without the jobs that have none."""
        return waits_between(self.waves[retry - 1], self.waves[retry - 2] if retry > 1 else None)


def retries_shown(policy: Policy) -> int:
    """Give how many retries of a policy a page shows."""
    return min(OPEN_END if policy.retries is None else policy.retries, MOST_RETRIES)


def herd(key: str, label: str, policy: Policy, values: Mapping[str, Any]) -> Herd:
    """Work out a herd.

    Args:
        key: The policy's letter.
        label: What charts call it.
        policy: The policy.
        values: The scenario by its names in the query.

    Raises:
        InvalidInput: It would be too large.
    """
    jobs, retries = values["jobs"], retries_shown(policy)
    if jobs * retries > MAX_CALLS:
        raise InvalidInput(
            f"jobs: {jobs:,} with {retries} retries are {jobs * retries:,} calls; expected at most {MAX_CALLS:,}",
            field="jobs",
            value=jobs,
        )
    work = _kept if jobs * retries <= _KEPT_CALLS else _worked_out
    return replace(work(policy, jobs, values["seed"], values["phase"]), key=key, label=label)


def _worked_out(policy: Policy, jobs: int, seed: int, phase: PhaseKind) -> Herd:
    retries = retries_shown(policy)
    found = tuple(waves(policy, jobs, retries, seed, phase))
    first_ms = min((_early(wave, 0) for wave in found[:1]), default=0)
    # Where the first retries come at once, an axis of powers begins with the first that do not.
    early_ms = next((ms for wave in found if (ms := _early(wave, 100))), 1)
    last_ms = max((greatest(wave) for wave in found), default=0)
    busy = _busy(found, jobs, max(last_ms - first_ms, 0))
    # The bounds and the mean of each retry are shown, percentiles are not: they cost as much as all the rest.
    explained = explain(policy, retries, percentiles=())
    return Herd("", "", policy, explained, found, early_ms, max(last_ms, 0), busy)


_kept = functools.lru_cache(maxsize=_KEPT)(_worked_out)


def greatest(wave: Wave) -> int:
    """Give the latest instant."""
    return max(wave, default=ABSENT) if isinstance(wave, list) else int(wave.max(initial=ABSENT))


def least(wave: Wave) -> int:
    """Give the least of some instants or waits, of which there is one at least."""
    return min(wave) if isinstance(wave, list) else int(wave.min())


def _early(wave: Wave, of: int) -> int:
    """Give the first instant but for one in so many (0: the very first); 0 where there is none."""
    if isinstance(wave, list):
        there = sorted(ms for ms in wave if ms != ABSENT)
        return there[len(there) // of if of else 0] if there else 0
    import numpy as np

    present = wave[wave != ABSENT]
    place = len(present) // of if of else 0
    return int(np.partition(present, place)[place]) if len(present) else 0


def _busy(found: Sequence[Wave], jobs: int, span_ms: int) -> Busy:
    last_wait = waits_between(found[-1], found[-2] if len(found) > 1 else None) if found else []
    stretch_ms, name = _stretch(moments(last_wait)[0], jobs)
    mean_ms = moments(waits_between(found[0], None))[0] if found else 0.0
    return Busy(
        second=_fullest(found, SECOND_MS)[0],
        minute=_fullest(found, MINUTE_MS)[0],
        share=jobs * 1_000 / max(mean_ms, 1_000.0),
        silent=1 - min(1.0, _fullest(found, stretch_ms)[1] / (span_ms // stretch_ms + 1)),
        stretch=name,
    )


def _stretch(wait_ms: float, jobs: int) -> tuple[int, str]:
    """Give the shortest stretch in which an even herd would make some calls even where waits are longest."""
    least_ms = _EXPECTED * wait_ms / jobs
    return next(((ms, name) for ms, name in _STRETCHES if ms >= least_ms), _STRETCHES[-1])


def _fullest(found: Sequence[Wave], bin_ms: int) -> tuple[int, int]:
    """Give the calls in the fullest bin, and how many bins have any."""
    if not found:
        return 0, 0
    if isinstance(found[0], list):
        counted = Counter(ms // bin_ms for wave in found for ms in wave if ms != ABSENT)
        return max(counted.values(), default=0), len(counted)
    import numpy as np

    whole = np.concatenate([np.asarray(wave) for wave in found])
    bins = whole[whole != ABSENT] // bin_ms
    if not len(bins):
        return 0, 0
    if int(bins.max()) < _COUNTED:
        counts = np.bincount(bins)
        return int(counts.max()), int(np.count_nonzero(counts))
    _, counts = np.unique(bins, return_counts=True)
    return int(counts.max()), len(counts)


def moments(waits: Wave) -> tuple[float, float]:
    """Give mean and standard deviation; zeros for nothing."""
    if not len(waits):
        return 0.0, 0.0
    if isinstance(waits, list):
        mean = sum(waits) / len(waits)
        return mean, (sum((wait - mean) ** 2 for wait in waits) / len(waits)) ** 0.5
    return float(waits.mean()), float(waits.std())
