"""What came of a scenario: numbers that a table, a picture or a program can take from here."""

from __future__ import annotations

from typing import Final

import msgspec

from anew.lab.rhythm import Silence
from anew.lab.waves import Wave
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MAX_BINS: Final = 2_000
"""The most bins of a load."""

SHOWN_JOBS: Final = 100
"""So many jobs have their instants told one by one."""

SHOWN_DOTS: Final = 1_000
"""The most instants of each of them: a hundred jobs with a hundred thousand retries would take a gigabyte."""

BIN_WIDTHS_MS: Final = (
    1, 2, 10, 20, 100, 200, SECOND_MS, 2 * SECOND_MS, 10 * SECOND_MS, 30 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS,
    10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS, 5 * DAY_MS, 10 * DAY_MS,
    50 * DAY_MS, 100 * DAY_MS, 500 * DAY_MS, 1_000 * DAY_MS, 10_000 * DAY_MS, 100_000 * DAY_MS,
)  # fmt: skip
"""Widths of bins."""


class RetryOutcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one retry of all jobs: calls made, how many succeeded, and when they were made."""

    retry: int
    calls: int
    succeeded: int
    earliest_ms: int
    median_ms: int
    """When half of them were made; of an even number the lower of the two in the middle."""
    latest_ms: int


class Load(msgspec.Struct, frozen=True):
    """Calls per bin; the first bin begins at 0, and the last is the last with a call."""

    bin_ms: int
    counts: tuple[int, ...]


class Times(msgspec.Struct, frozen=True, gc=False):
    """How long it took, from a job's first failure to its success: percentiles by nearest rank."""

    p50: int
    p95: int
    p99: int
    max: int


class Fresh(msgspec.Struct, frozen=True, gc=False):
    """What became of the fresh calls beside the herd."""

    calls: int
    retries: int
    """Of those that failed."""
    at_once: int
    """Those that succeeded at the first try."""
    succeeded: int
    """Those that succeeded sooner or later, at the first try or a retry."""
    dead: int
    waiting: int
    """Those still to be retried at the end."""


class Downstream(msgspec.Struct, frozen=True):
    """What the thing that is called went through, per bin, fresh calls included; same bins as the load.

    The bins reach to the last call, work and answer, but not beyond the horizon; what happens later does not count,
    and calls that begin exactly then belong to the last bin. What is done on the stroke of a bin's end was done in that bin.

    Args:
        bin_ms: The width of a bin.
        offered: Calls that began, those refused in the outage too.
        served: Calls answered while somebody waited for the answer, by the time of the answer.
        abandoned: Calls done after their callers had given up, by the time they were done.
        backlog: Calls that had been taken in and not yet done, at the end of the bin.
        held: Calls that were due and had no worker yet, at the end of the bin.
        most_backlog: The highest backlog at any time, between the ends of bins as well.
        most_held: The most calls at any time that were due and had no worker yet.
    """

    bin_ms: int
    offered: tuple[int, ...]
    served: tuple[int, ...]
    abandoned: tuple[int, ...]
    backlog: tuple[int, ...]
    held: tuple[int, ...]
    most_backlog: int
    most_held: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a scenario. Instants are milliseconds since its beginning.

    Args:
        jobs: Jobs of the herd.
        succeeded: Those that succeeded at a retry.
        dead: Those whose retries were spent (limit, phases or deadline).
        waiting: Those still to be retried at the end.
        calls: Calls after a first failure, the retries of failed fresh calls included; so are they in what follows.
        herd_calls: Those of the herd's own jobs among them.
        wasted: Calls that brought nothing: refused, failed, or answered too late.
        retries: One line per retry.
        load: Calls per bin.
        peak_second: Most calls in any second that begins on a tenth of a second, wherever the clock's seconds begin.
        peak_minute: Most calls in any 60 s that begin on a tenth of a second.
        peak_second_after: The peak second of the calls at or after the end of the outage: what meets the service when it
            returns. None without an outage; so are the next two.
        peak_minute_after: The peak minute of these.
        first_minute_after: How many of these came in the first 60 s after the end of the outage.
        even_second: Calls in each second if all were spread evenly, from the first call's to the last call's; None if
            they lie in the same second, or there are none.
        silence: How much of the time between the first call and the last passes without one; None if no time does.
        success_ms: How long the herd's successes took; None if there was none.
        through_ms: When the last job of the herd had ended; None if any was still waiting.
        dots: The instants at which each of the first 100 jobs was retried, of each the first 1,000.
        downstream: What the limited downstream went through; None if nothing was limited.
        fresh: What became of fresh calls; None if there were none.
    """

    jobs: int
    succeeded: int
    dead: int
    waiting: int
    calls: int
    herd_calls: int
    wasted: int
    retries: tuple[RetryOutcome, ...]
    load: Load
    peak_second: int
    peak_minute: int
    peak_second_after: int | None
    peak_minute_after: int | None
    first_minute_after: int | None
    even_second: float | None
    silence: Silence | None
    success_ms: Times | None
    through_ms: int | None
    dots: tuple[tuple[int, ...], ...]
    downstream: Downstream | None = None
    fresh: Fresh | None = None


def bin_width_ms(last_ms: int) -> int:
    """Give the narrowest width of bins that reach from 0 past an instant with at most 2,000 of them."""
    return next(width for width in BIN_WIDTHS_MS if last_ms // width < MAX_BINS)


def percentile(ordered: Wave, share: float) -> int:
    """Give a percentile by nearest rank out of a sorted, non-empty sequence."""
    # In hundredths, so that 0.95 of 20 is the 19th whatever the last bit of 0.95 says.
    return int(ordered[max(0, -(-round(share * 100) * len(ordered) // 100) - 1)])
