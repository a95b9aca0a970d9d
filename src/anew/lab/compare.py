"""Compare: several policies in one scenario, with the same jobs and the same seed, as figures and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.chance import PhaseKind, has_numpy
from anew.lab.charts.data import load_of
from anew.lab.charts.loads import seconds
from anew.lab.charts.pictures import Load, Picture
from anew.lab.last_retry import last_retry, outlives
from anew.lab.laws.spans import spans
from anew.lab.named import Named
from anew.lab.rhythm import Silence
from anew.lab.simulation.outcome import Outcome
from anew.lab.simulation.record import Record
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.units import SECOND_MS, format_duration, format_duration_about, format_range, refused

MAX_POLICIES: Final = 6
"""As many as one picture tells apart."""

_ENDLESS: Final = 25
_LEAST: Final = 6
_MOST: Final = 60
"""Retries of a herd that is measured: of an endless policy, at least, and at most."""

_SAMPLE: Final = 50_000
_MEASURED: Final = 100_000
_MEAN_SEED: Final = 7
_TREND_SEED: Final = 99
_BINS: Final = 16
"""A gap, the time in which each job retries about once, is cut into so many bins, as in most published tables."""

Ticker = Callable[[float], None]


class Comparison(msgspec.Struct, frozen=True):
    """Policies side by side, in the order given, and what they went through."""

    scenario: Scenario
    sides: tuple[Side, ...]
    load: Load

    def to_json(self) -> dict[str, Any]:
        """Give ``{"scenario": ..., "policies": [...]}``."""
        return {
            "scenario": self.scenario.to_json(),
            "policies": [msgspec.to_builtins(side) for side in self.sides],
        }

    def table(self) -> list[list[str]]:
        """Give the figures for people: a column for each policy, the heading first."""
        outage = format_duration(self.scenario.outage_ms)
        rows = [(name.format(outage=outage), [write(side) for side in self.sides]) for name, write in _ROWS]
        told = [
            [name, *(cell or _NONE.get(name, "-") for cell in cells)] for name, cells in rows if any(cells)
        ]
        return [["", *(side.label for side in self.sides)], *told]

    def picture(self) -> Picture:
        """Give the load that each policy makes, one below the other."""
        return Picture(
            # Whose they are is said at each line: six names would not fit here.
            f"{self.scenario.jobs:,} jobs, the calls after their first failures",
            (self.load,),
            caption="A column is as high as its fullest second; the same jobs, the same seed, the same axes.",
        )


def compare(
    policies: Sequence[Named | Policy | str | Mapping[str, Any]],
    scenario: Scenario | None = None,
    *,
    exact: bool = False,
    measured: bool = True,
    progress: Ticker | None = None,
) -> Comparison:
    """Put policies side by side.

    Args:
        policies: Two to six, or the JSON values that they are read from, each perhaps with a label; without one they
            are called ``policy 1``, ``policy 2`` ...
        scenario: What they go through; None: 1,000 jobs that fail together and succeed at the first retry.
        exact: Ask the engine's own decision about every failure; see ``simulate``.
        measured: Also measure how even each is, which takes a third of a second each and NumPy.
        progress: Is told a share of the work from 0 to 1, now and then.

    Returns:
        The comparison, equal for equal policies and scenario.

    Raises:
        InvalidInput: There are too few policies or too many, or one's simulation is out of bounds.
    """
    scenario = Scenario() if scenario is None else scenario
    if not 2 <= len(policies) <= MAX_POLICIES:
        raise refused("policies", len(policies), f"2 to {MAX_POLICIES} policies to compare")
    named = [
        item if isinstance(item, tuple) else Named(f"policy {number}", Policy.from_json(item))
        for number, item in enumerate(policies, start=1)
    ]
    outcomes, courses = [], []
    for index, (label, policy) in enumerate(named):
        record, part = Record.of(scenario), _part(progress, index, len(named))
        outcomes.append(simulate(policy, scenario, exact=exact, progress=part, record=record))
        courses.append((label, seconds(record.calls())))
    sides = (
        _side(label, policy, scenario, outcome, measured=measured)
        for (label, policy), outcome in zip(named, outcomes, strict=True)
    )
    return Comparison(scenario, tuple(sides), load_of(courses, scenario))


def _part(progress: Ticker | None, index: int, parts: int) -> Ticker | None:
    if progress is None:
        return None
    return lambda share: progress((index + share) / parts)


def _side(label: str, policy: Policy, scenario: Scenario, outcome: Outcome, *, measured: bool) -> Side:
    first = next(spans(policy, 0 if policy.retries == 0 else 1), None)
    whole = last_retry(policy)
    return Side(
        label=label,
        policy=policy.to_json(),
        limit=policy.retries,
        first_wait=_told(first, "earliest_ms", "nominal_ms", "latest_ms"),
        window=_told(whole, "earliest_ms", "latest_ms"),
        outlives=outlives(policy, scenario.outage_ms),
        calls_a_job=outcome.herd_calls / outcome.jobs,
        spread=_spread(policy, scenario) if measured else None,
        outcome=outcome,
    )


def _told(found: Any, *names: str) -> dict[str, int] | None:
    """Give some fields by their names; None where there are none, or a custom function decides."""
    told = {name: ms for name in names if (ms := getattr(found, name, None)) is not None}
    return told or None


def _spread(policy: Policy, scenario: Scenario) -> Spread | None:
    """Measure a herd of the scenario's size that fails at every retry; None where that cannot be."""
    retries = min(_ENDLESS if policy.retries is None else policy.retries, _MOST)
    if retries < _LEAST or not has_numpy():
        return None
    # Inside, because NumPy is optional.
    from anew.lab.evenness import Bins, Clock, deviation
    from anew.lab.herd import instants

    try:
        clock = Clock.of(instants(policy, _SAMPLE, retries=retries, seed=_MEAN_SEED))
    except InvalidInput:
        # A retry that waits nothing: operational time has no inverse there.
        return None
    trend = instants(policy, _SAMPLE, retries=retries, seed=_TREND_SEED)
    bins = Bins(clock, trend, (2, retries - 3), _BINS)
    kind: PhaseKind = "hash" if scenario.phase == "hash" else "seq"
    herd = instants(policy, min(scenario.jobs, _MEASURED), retries=retries, seed=scenario.seed, phase=kind)
    return Spread(*bins.load(clock.gaps(herd), herd.shape[1]), deviation(herd))


# ---- what a comparison tells of one policy


class Spread(msgspec.Struct, frozen=True, gc=False):
    """How evenly a herd that fails together, and at every retry, comes back; see `anew.lab.evenness`."""

    cv: float
    """Root mean square of the load's error in bins of 1/16 gap, as a share of the load; 0 is perfectly even."""
    peak: float
    """The fullest such bin, in units of what it would hold if all were even."""
    deviation: float
    """Standard deviation of a wait as a share of its mean, averaged over the retries from the second on."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One policy in the comparison. None stands for what is not there or cannot be told."""

    label: str
    policy: Any
    """Its JSON form."""
    limit: int | None
    first_wait: dict[str, int] | None
    """``earliest_ms``, ``nominal_ms`` (the curve's own) and ``latest_ms``."""
    window: dict[str, int] | None
    """When the last retry comes after the first failure: ``earliest_ms`` and ``latest_ms``."""
    outlives: float | None
    """Share of the jobs, of 1, that have a retry left after the scenario's outage."""
    calls_a_job: float
    """Calls of the herd after its first failures, divided by the jobs; those of fresh calls are none of them."""
    spread: Spread | None
    """None also where it was not measured: without NumPy, with fewer than 6 retries, or with waits of nothing."""
    outcome: Outcome


# ---- a comparison as a table: a line for each figure, a column for each policy


def _first(side: Side) -> str:
    if side.first_wait is None:
        return "-"
    earliest, nominal, latest = side.first_wait.values()
    return format_duration(nominal) + ("" if earliest == latest else f" ({format_range(earliest, latest)})")


def _window(side: Side) -> str:
    if side.window is not None:
        return format_range(*side.window.values())
    return "no end" if side.limit is None else "-"


def _percent(share: float) -> str:
    """Write a share as a figure of a table: always to the tenth, so that columns compare, where `format_share` speaks."""
    return f"{share * 100:.1f} %"


def _silent(silence: Silence) -> str:
    unit = silence.unit if silence.unit_ms >= SECOND_MS else f"{silence.unit_ms} ms"
    return f"{_percent(silence.share)} of {unit}"


def _outlive(side: Side) -> str:
    if side.outcome.peak_second_after is None:
        return ""  # without an outage there is nothing to outlive
    return "-" if side.outlives is None else _percent(side.outlives)


def _took(side: Side, which: str) -> str:
    times = side.outcome.success_ms
    return "-" if times is None else format_duration_about(getattr(times, which))


def _of(part: Any, write: Callable[[Any], str], missing: str = "") -> str:
    return missing if part is None else write(part)


_ROWS: Final[tuple[tuple[str, Callable[[Side], str]], ...]] = (
    ("retries", lambda side: _of(side.limit, "{:,}".format, "no end")),
    ("first wait", _first),
    ("window", _window),
    ("outlive {outage}", _outlive),
    ("succeeded", lambda side: f"{side.outcome.succeeded:,}"),
    ("dead", lambda side: f"{side.outcome.dead:,}"),
    ("still waiting", lambda side: f"{side.outcome.waiting:,}" if side.outcome.waiting else ""),
    ("middle success after", lambda side: _took(side, "p50")),
    ("last success after", lambda side: _took(side, "max")),
    ("calls a job", lambda side: f"{side.calls_a_job:.2f}"),
    ("calls wasted", lambda side: f"{side.outcome.wasted:,}"),
    ("peak second", lambda side: f"{side.outcome.peak_second:,}"),
    ("peak minute", lambda side: f"{side.outcome.peak_minute:,}"),
    # What meets the service when it returns, which the peaks of the whole herd do not tell.
    ("peak second after outage", lambda side: _of(side.outcome.peak_second_after, "{:,}".format)),
    ("peak minute after outage", lambda side: _of(side.outcome.peak_minute_after, "{:,}".format)),
    ("first minute after outage", lambda side: _of(side.outcome.first_minute_after, "{:,}".format)),
    ("silent", lambda side: _of(side.outcome.silence, _silent, "-")),
    # What a limited downstream goes through: calls that wait there, and work whose callers had given up.
    ("longest queue", lambda side: _of(side.outcome.downstream, lambda found: f"{found.most_backlog:,}")),
    ("calls abandoned", lambda side: _of(side.outcome.downstream, lambda found: f"{sum(found.abandoned):,}")),
    ("load error (cv16)", lambda side: _of(side.spread, lambda spread: f"{spread.cv:.3f}")),
    ("peak (pk16)", lambda side: _of(side.spread, lambda spread: f"{spread.peak:.2f}")),
    ("sd of a wait", lambda side: _of(side.spread, lambda spread: _percent(spread.deviation))),
)  # fmt: skip
"""Each figure: its name, and how it is written, "" of a policy of which it cannot be told; a row stands where it can of any."""

_NONE: Final = {"still waiting": "0"}
"""What stands for such a policy in such a row; else a dash."""
