"""What becomes of each herd in the page's scenario: an outage that ends, a downstream that can do so much."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from anew.backoff import Policy
from anew.lab.simulation.outcome import Downstream, Outcome
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.units import DAY_MS, MINUTE_MS, format_duration
from anew.web.herds import MAX_CALLS, Herd, retries_shown
from anew.web.state import SCENARIO, UNTIL

_PLAIN: Final = frozenset({"jobs", "seed", "phase"})
"""What a herd has even where nothing ever succeeds and nothing is limited."""

_NEAR_MS: Final = (30 * MINUTE_MS, 2 * DAY_MS)
"""Ends of further looks at the beginning, which show it more finely on an axis of powers."""

_KEPT: Final = 12
"""Scenes that are kept for the next page."""

_LATE: Final = 20
"""Whether the downstream has recovered is told by the last twentieth of the time."""

_LOOKED_AT_TWICE: Final = 60_000
"""Calls that meet in a queue, up to which a further look is cheap."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One policy in the scenario.

    Attributes:
        key: The policy's letter.
        label: What charts call it.
        outcome: What came of it.
        end_ms: When the scenario ends at the latest; None: when all is over.
        looks: The same, seen up to an earlier end each, the earliest first, and the outcome itself.
    """

    key: str
    label: str
    outcome: Outcome
    end_ms: int | None
    looks: tuple[Outcome, ...]


def is_plain(values: Mapping[str, Any]) -> bool:
    """Tell whether the scenario is the bare herd: it fails together, and every retry fails."""
    return all(values[name] == SCENARIO[name][2] for name in SCENARIO if name not in _PLAIN)


def scenario_of(values: Mapping[str, Any]) -> Scenario:
    """Build the scenario of a page.

    Raises:
        InvalidInput: The values do not fit each other.
    """
    body = {SCENARIO[name][0]: values[name] for name in SCENARIO}
    if body["outage"] is None:
        # An outage without end, unless a chance of success is named: then there is none.
        body |= {"outage": 0, "success": 0 if body["success"] == SCENARIO["success"][2] else body["success"]}
    scenario = Scenario.from_json(body)
    until = values.get(UNTIL)
    if scenario.base_rate and until and until > (scenario.end_ms or 0):
        # Fresh calls never end; whoever wants to look farther than that is usually enough says so here.
        scenario = Scenario.from_json(body | {"horizon_ms": until})
    return scenario


def scene(herd: Herd, scenario: Scenario, *, log: bool) -> Scene:
    """Simulate one policy.

    Args:
        herd: Its herd.
        scenario: What happens to it.
        log: The beginning is looked at more finely.

    Raises:
        InvalidInput: It would be too much work.
    """
    policy = herd.policy
    if scenario.success == 0 and policy.retries is None:
        policy = policy.with_limit(retries_shown(policy))
    looks = _looks(policy, scenario, log)
    return Scene(herd.key, herd.label, looks[-1], scenario.end_ms, looks)


@functools.lru_cache(maxsize=_KEPT)
def _looks(policy: Policy, scenario: Scenario, log: bool) -> tuple[Outcome, ...]:
    """Play the scenario, whole and, where that is cheap, up to earlier ends. A slider moves one policy, the others stay."""
    whole = simulate(policy, scenario, max_calls=MAX_CALLS)
    last = len(whole.load.counts) * whole.load.bin_ms
    cheap = not scenario.coupled or whole.calls < _LOOKED_AT_TWICE
    near = [end for end in _NEAR_MS if log and cheap and 4 * end < last]
    return (*(simulate(policy, _until(scenario, end), max_calls=MAX_CALLS) for end in near), whole)


def _until(scenario: Scenario, end_ms: int) -> Scenario:
    return Scenario.from_json(scenario.to_json() | {"horizon_ms": end_ms})


def last_ms(scenes: Sequence[Scene]) -> int:
    """Give where the last call of all scenes lies."""
    return max((len(one.outcome.load.counts) * one.outcome.load.bin_ms for one in scenes), default=2)


def rates(scene: Scene, bounds: Sequence[float], what: str = "load") -> list[float]:
    """Give calls per second between bounds, from the finest look that reaches there.

    Args:
        scene: The scene.
        bounds: Where the bins begin and the last one ends.
        what: ``load``, all calls after first failures; or a field of the downstream, such as ``served``.
    """
    marks, sums = _marks(scene, what)
    starts = [0.0, *bounds[1:]]  # the first bin reaches back to 0, where an axis of powers cannot begin
    reached = [_at(bound, marks, sums) for bound in starts]
    return [
        round(max(b - a, 0.0) * 1_000 / (high - low), 6) if high > low else 0.0
        for a, b, low, high in zip(reached, reached[1:], starts, starts[1:], strict=False)
    ]


def _marks(scene: Scene, what: str) -> tuple[list[float], list[float]]:
    """Give instants and the calls up to each, as a line without a step back."""
    marks, sums = [0.0], [0.0]
    for look in scene.looks:
        if what == "load":
            bin_ms, counts = look.load.bin_ms, look.load.counts
        else:
            assert look.downstream is not None
            bin_ms, counts = look.downstream.bin_ms, getattr(look.downstream, what)
        end = marks[-1]
        for place, total in enumerate(accumulate(counts), start=1):
            if place * bin_ms > end:
                marks.append(float(place * bin_ms))
                sums.append(max(float(total), sums[-1]))
    return marks, sums


def _at(instant: float, marks: Sequence[float], sums: Sequence[float]) -> float:
    place = bisect_right(marks, instant)
    if place >= len(marks):
        return sums[-1]
    share = (instant - marks[place - 1]) / (marks[place] - marks[place - 1])
    return sums[place - 1] + share * (sums[place] - sums[place - 1])


# ---- words


def facts(scenes: Sequence[Scene]) -> list[tuple[str, str, list[str]]]:
    """Give what the scenario adds to the table of figures."""
    outcomes = [one.outcome for one in scenes]
    beside = any(one.fresh for one in outcomes)
    rows = [
        ("Got through", "jobs", [_through(one) for one in outcomes]),
        ("Half of them", "after the first failure", [_time(one, "p50") for one in outcomes]),
        ("The last of them", "after the first failure", [_time(one, "max") for one in outcomes]),
        ("Calls made", "after the first failures", [f"{one.herd_calls:,}" for one in outcomes]),
    ]
    if beside:
        rows.append(("Others' retries", "of the calls beside the herd", [_others(one) for one in outcomes]))
    if any(one.downstream for one in outcomes):
        rows.append(("In vain", "calls nobody waited for any more", [_in_vain(one) for one in outcomes]))
        rows.append(("Longest queue", "calls not yet done", [_queue(one) for one in outcomes]))
    return rows


def _others(one: Outcome) -> str:
    return "–" if one.fresh is None else f"{one.fresh.retries:,}"


def _through(one: Outcome) -> str:
    return f"{one.succeeded:,}" + (f", {one.dead:,} dead" if one.dead else "")


def _time(one: Outcome, name: str) -> str:
    return "–" if one.success_ms is None else format_duration(getattr(one.success_ms, name))


def _in_vain(one: Outcome) -> str:
    return "–" if one.downstream is None else f"{sum(one.downstream.wasted):,}"


def _queue(one: Outcome) -> str:
    return "–" if one.downstream is None else f"{max(one.downstream.backlog, default=0):,}"


def said(scenes: Sequence[Scene], jobs: int) -> list[str]:
    """Say what came of the scenario."""
    sentences = []
    for one in scenes:
        outcome, times = one.outcome, one.outcome.success_ms
        if times is None:
            sentences.append(f"{one.label}: not one of {jobs:,} jobs gets through.{_collapse(one)}")
            continue
        all_ = "all" if outcome.succeeded == outcome.jobs else f"{outcome.succeeded:,}"
        sentences.append(
            f"{one.label}: {all_} of {jobs:,} jobs get through, half of them within {format_duration(times.p50)} and the "
            f"last after {format_duration(times.max)}; {outcome.peak_second:,} calls in the busiest second.{_collapse(one)}"
        )
    end_ms = scenes[0].end_ms if scenes else None
    if end_ms is not None:
        sentences.append(
            f"Looked at until {format_duration(end_ms)}, as the other calls never end; “look at” can name a later end."
        )
    if any(one.outcome.downstream for one in scenes):
        sentences.append(
            "Shaded is the outage; the dashed line across is what the downstream can do, the dashed ones in the policies' "
            "colours are what it does while somebody still waits for it."
        )
    return sentences


def _collapse(one: Scene) -> str:
    """Say that the downstream works for nobody, where it mostly does, and whether it comes out of that."""
    down = one.outcome.downstream
    if down is None:
        return ""
    wasted, served = sum(down.wasted), sum(down.served)
    if wasted <= served:
        return ""
    share = 100 * wasted / (wasted + served)
    return f" {share:.0f} % of what the downstream does is for callers who have given up, and so {_end(one, down)}."


def _end(one: Scene, down: Downstream) -> str:
    bins = len(down.wasted)
    late = slice(bins - max(bins // _LATE, 1), bins)
    if one.end_ms is not None and sum(down.wasted[late]) > sum(down.served[late]):
        return f"it has not recovered by {format_duration(one.end_ms)}"
    if one.outcome.dead:
        return f"{one.outcome.dead:,} jobs die"
    return "it recovers late"
