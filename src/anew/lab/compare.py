"""Compare: several policies in one scenario, with the same jobs and the same seed, as figures and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.chance import PhaseKind, has_numpy
from anew.lab.charts.pictures import Load, LoadLine, Picture
from anew.lab.compare_side import FirstWait, Side, Spread, WindowEnds
from anew.lab.compare_table import table
from anew.lab.last_retry import last_retry, outlives
from anew.lab.laws.spans import spans
from anew.lab.named import Named
from anew.lab.simulation.outcome import Outcome, in_same_bins
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.units import format_duration, refused

if TYPE_CHECKING:
    from anew.lab.envelope import Millis

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
    """Policies side by side.

    Args:
        scenario: What they went through.
        sides: One for each, in the order given; the same bins for all.
    """

    scenario: Scenario
    sides: tuple[Side, ...]

    def to_json(self) -> dict[str, Any]:
        """Give ``{"scenario": ..., "policies": [...]}``."""
        return {
            "scenario": self.scenario.to_json(),
            "policies": [msgspec.to_builtins(side) for side in self.sides],
        }

    def table(self) -> list[list[str]]:
        """Give the figures for people: a column for each policy, the heading first."""
        return table(self.sides, self.scenario.outage_ms)

    def picture(self) -> Picture:
        """Give the load that each policy makes, as lines on the same axes."""
        bin_ms = self.sides[0].outcome.load.bin_ms
        lines = tuple(LoadLine(side.label, side.outcome.load.counts) for side in self.sides)
        return Picture(
            # Whose they are is said at each line: six names would not fit here.
            f"{self.scenario.jobs:,} jobs, the calls after their first failures",
            (Load(self.scenario.jobs, bin_ms, lines, outage_ms=self.scenario.outage_ms or None),),
            log=None,
            caption=f"Calls in each {format_duration(bin_ms)}; the same jobs, the same seed, the same axes.",
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
    outcomes = [
        simulate(policy, scenario, exact=exact, progress=_part(progress, index, len(named)))
        for index, (_, policy) in enumerate(named)
    ]
    sides = (
        _side(label, policy, scenario, outcome, measured=measured)
        for (label, policy), outcome in zip(named, in_same_bins(outcomes), strict=True)
    )
    return Comparison(scenario, tuple(sides))


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
        first_wait=None if first is None else _told(first.earliest_ms, first.nominal_ms, first.latest_ms),
        window=None if whole is None else WindowEnds(whole.earliest_ms, whole.latest_ms),
        outlives=outlives(policy, scenario.outage_ms),
        calls_a_job=outcome.herd_calls / outcome.jobs,
        spread=_spread(policy, scenario) if measured else None,
        outcome=outcome,
    )


def _told(earliest: int | None, nominal: int | None, latest: int | None) -> FirstWait | None:
    if earliest is None or nominal is None or latest is None:
        return None
    return FirstWait(earliest, nominal, latest)


def _spread(policy: Policy, scenario: Scenario) -> Spread | None:
    """Measure a herd of the scenario's size that fails at every retry; None where that cannot be."""
    retries = min(_ENDLESS if policy.retries is None else policy.retries, _MOST)
    if retries < _LEAST or not has_numpy():
        return None
    # Inside, because NumPy is optional.
    from anew.lab.herd import blocks, instants
    from anew.lab.measure import Yardstick, measure

    def sample(seed: int) -> list[Millis]:
        return [block for _, block in blocks(policy, _SAMPLE, retries=retries, seed=seed)]

    try:
        yardstick = Yardstick.of(sample(_MEAN_SEED), sample(_TREND_SEED), (2, retries - 3))
    except InvalidInput:
        # A retry that waits nothing: operational time has no inverse there.
        return None
    kind: PhaseKind = "hash" if scenario.phase == "hash" else "seq"
    herd = instants(policy, min(scenario.jobs, _MEASURED), retries=retries, seed=scenario.seed, phase=kind)
    found = measure(herd, yardstick)
    return Spread(found.cv[_BINS], found.peak[_BINS], found.rsd)
