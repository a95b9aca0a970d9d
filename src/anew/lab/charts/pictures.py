"""What a picture is: a title and some panels of plain data, all of which can be JSON.

Durations and instants are whole milliseconds, instants counted from the first failure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class BandPoint(msgspec.Struct, frozen=True, gc=False):
    """One retry's wait: the curve's, its bounds and its mean; None where it cannot be told beforehand."""

    retry: int
    nominal_ms: int | None
    earliest_ms: int | None
    latest_ms: int | None
    mean_ms: float | None


class BandLine(msgspec.Struct, frozen=True):
    """One policy's waits, retry by retry."""

    label: str
    points: tuple[BandPoint, ...]
    line: Literal["mean", "nominal"] = "mean"
    """Which of a point's waits the line joins: the mean, or the curve's wait where a mean cannot be told."""

    @property
    def middles_ms(self) -> tuple[float | None, ...]:
        """The waits that the line joins, in order; None where there is none to tell."""
        return tuple(point.mean_ms if self.line == "mean" else point.nominal_ms for point in self.points)


class Band(msgspec.Struct, frozen=True, tag="band", tag_field="kind"):
    """Waits over retries, several policies in one frame."""

    lines: tuple[BandLine, ...]


class Dots(msgspec.Struct, frozen=True, tag="dots", tag_field="kind"):
    """A herd: a row for each job, a dot for each retry.

    Args:
        instants_ms: One tuple a job, its retries in order; shorter where the policy ends before.
        begin_ms: Where a time axis of powers begins; what comes before is drawn there.
        end_ms: Where the time axis ends. Panels that are to be compared share both.
        outage_ms: Calls fail until then, and the first one after it succeeds; None: they always fail.
    """

    label: str
    retries: int
    instants_ms: tuple[tuple[int, ...], ...]
    begin_ms: int
    end_ms: int
    outage_ms: int | None = None


class Heat(msgspec.Struct, frozen=True, tag="heat", tag_field="kind"):
    """A herd of any size: how many calls of each retry fall into each bin of time.

    Args:
        edges_ms: Where the bins begin and the last one ends; bins + 1 of them.
        counts: One tuple a retry, the first retry first; one number a bin.
        log: The bins are equally wide on an axis of powers.
        outage_ms: Calls fail until then, and the first one after it succeeds; None: they always fail.
    """

    label: str
    jobs: int
    edges_ms: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    log: bool
    outage_ms: int | None = None


class Histogram(msgspec.Struct, frozen=True, tag="histogram", tag_field="kind"):
    """How one retry's waits are spread: one for each job, counted in bins, and their mean.

    Args:
        edges_ms: Where the bins begin and the last one ends; half a step beyond the waits where these are whole steps.
    """

    label: str
    retry: int
    jobs: int
    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]
    mean_ms: float


class LoadLine(msgspec.Struct, frozen=True):
    """One policy's calls after the first failure, column by column.

    Args:
        peaks: The most calls in any second that begins in a column.
        means: Its calls a second.
    """

    label: str
    peaks: tuple[int, ...]
    means: tuple[float, ...]

    @property
    def heights(self) -> tuple[float, ...]:
        """How high the columns are: calls that come one by one have no fullest second, and are drawn at their mean."""
        return tuple(peak if peak > 1 else mean for peak, mean in zip(self.peaks, self.means, strict=True))

    @property
    def peak(self) -> int:
        """The most calls in any second."""
        return max(self.peaks, default=0)


class Load(msgspec.Struct, frozen=True, tag="load", tag_field="kind"):
    """What the thing that is called gets to see, in columns of time, the same for all policies.

    Args:
        jobs: Jobs of each herd.
        edges_ms: Where the columns begin and the last one ends, in whole seconds; columns + 1 of them.
        log: The columns are nearly equally wide on an axis of powers that begins at 0.
        outage_ms: Calls fail until then; None or 0: there is no such moment to mark.
    """

    jobs: int
    edges_ms: tuple[int, ...]
    lines: tuple[LoadLine, ...]
    log: bool = False
    outage_ms: int | None = None


Panel: TypeAlias = Band | Dots | Heat | Histogram | Load


class Picture(msgspec.Struct, frozen=True):
    """Some panels under one title.

    Args:
        title: What is seen, in a few words.
        panels: What is drawn, row by row.
        columns: Panels side by side.
        log: The axis of durations counts in powers; None: whatever shows more.
        link: Path and query of the lab's page that shows the same; "" where there is none.
        caption: One sentence that says how to read it.
    """

    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    log: bool | None = None
    link: str = ""
    caption: str = ""
