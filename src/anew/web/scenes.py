"""What becomes of each herd in the page's scenario: an outage that ends, a downstream that can do so much."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anew.backoff import Policy
from anew.lab.charts.link import PAGE_CALLS
from anew.lab.simulation.outcome import Downstream, Outcome
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.units import counted, format_duration
from anew.web.herds import Herd, retries_shown
from anew.web.loads import Look, near_ends
from anew.web.state import SCENARIO, UNTIL
from anew.web.words import Row, busiest, silent

_PLAIN: Final = frozenset({"jobs", "seed", "phase"})
"""What a herd has even where nothing ever succeeds and nothing is limited."""

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
        outage_ms: How long the outage lasts after all jobs' first failure; 0 where there is none, or these are spread.
        looks: The same, seen up to an earlier end each, the earliest first, and the outcome itself.
        ends: Up to where each of these looks reaches, in ms.
    """

    key: str
    label: str
    outcome: Outcome
    end_ms: int | None
    outage_ms: int
    looks: tuple[Outcome, ...]
    ends: tuple[int, ...]


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


def in_words(values: Mapping[str, Any]) -> str:
    """Say what the scenario is; an outage that nobody ended is one."""
    words = scenario_of(values).words()
    return words if values["outage"] is not None else words.replace("success 0", "an outage without end", 1)


def scene(herd: Herd, scenario: Scenario, *, log: bool, until_ms: int | None = None) -> Scene:
    """Simulate one policy.

    Args:
        herd: Its herd.
        scenario: What happens to it.
        log: The beginning is looked at more finely.
        until_ms: So is what comes until then, where the picture ends with it.

    Raises:
        InvalidInput: It would be too much work.
    """
    policy = herd.policy
    if scenario.success == 0 and policy.retries is None:
        policy = policy.with_limit(retries_shown(policy))
    ends, looks = _looks(policy, scenario, log, until_ms)
    outage_ms = scenario.outage_ms if scenario.success and not scenario.over_ms else 0
    return Scene(herd.key, herd.label, looks[-1], scenario.end_ms, outage_ms, looks, ends)


@functools.lru_cache(maxsize=_KEPT)
def _looks(
    policy: Policy, scenario: Scenario, log: bool, until_ms: int | None
) -> tuple[tuple[int, ...], tuple[Outcome, ...]]:
    """Play the scenario, whole and, where that is cheap, up to earlier ends. A slider moves one policy, the others stay."""
    whole = simulate(policy, scenario, max_calls=PAGE_CALLS)
    last = len(whole.load.counts) * whole.load.bin_ms
    cheap = not scenario.coupled or whole.calls < _LOOKED_AT_TWICE
    near = near_ends(last, until_ms, log=log) if cheap else []
    looks = [simulate(policy, _until(scenario, end), max_calls=PAGE_CALLS) for end in near]
    return (*near, last), (*looks, whole)


def _until(scenario: Scenario, end_ms: int) -> Scenario:
    return Scenario.from_json(scenario.to_json() | {"horizon_ms": end_ms})


def last_ms(scenes: Sequence[Scene]) -> int:
    """Give where the last call of all scenes lies."""
    return max((len(one.outcome.load.counts) * one.outcome.load.bin_ms for one in scenes), default=2)


def looks(scene: Scene, what: str = "load") -> tuple[Look, ...]:
    """Give calls over time, as finely as the scene was looked at.

    Args:
        scene: The scene.
        what: ``load``, all calls after first failures; or a field of the downstream, such as ``served``.
    """
    return tuple(_look(end, outcome, what) for end, outcome in zip(scene.ends, scene.looks, strict=True))


def _look(end_ms: int, outcome: Outcome, what: str) -> Look:
    if what == "load":
        return Look(end_ms, outcome.load.bin_ms, outcome.load.counts)
    assert outcome.downstream is not None
    return Look(end_ms, outcome.downstream.bin_ms, getattr(outcome.downstream, what))


# ---- words


def facts(scenes: Sequence[Scene], jobs: int) -> list[Row]:
    """Give the figures of the scenario, a cell for each scene."""
    outcomes = [one.outcome for one in scenes]
    rows = [
        ("Got through", "jobs", [_through(one) for one in outcomes]),
        ("Half of them", "after the first failure", [_time(one, "p50") for one in scenes]),
        ("The last of them", "after the first failure", [_time(one, "max") for one in scenes]),
        ("Calls made", "after the first failures", [f"{one.herd_calls:,}" for one in outcomes]),
    ]
    if any(one.fresh for one in outcomes):
        rows.append(("Others' retries", "of the calls beside the herd", [_others(one) for one in outcomes]))
    rows += [
        ("Peak second", "calls, % of the jobs", [busiest(one.peak_second, jobs) for one in outcomes]),
        ("Peak minute", "calls, % of the jobs", [busiest(one.peak_minute, jobs) for one in outcomes]),
    ]
    if any(one.peak_second_after is not None for one in outcomes):
        seconds = [busiest(one.peak_second_after or 0, jobs) for one in outcomes]
        minutes = [busiest(one.peak_minute_after or 0, jobs) for one in outcomes]
        rows.append(("Peak second when it returns", "after the outage", seconds))
        rows.append(("Peak minute when it returns", "after the outage", minutes))
    silence = [silent(one.silence, one.calls) for one in outcomes]
    rows.append(("Silence", "between first and last call", silence))
    if any(one.downstream for one in outcomes):
        rows.append(("Abandoned", "done when nobody waited any more", [_abandoned(one) for one in outcomes]))
        rows.append(("Longest queue", "calls not yet done", [_queue(one) for one in outcomes]))
    return rows


def _others(one: Outcome) -> str:
    return "–" if one.fresh is None else f"{one.fresh.retries:,}"


def _through(one: Outcome) -> str:
    dead = f", {one.dead:,} dead" if one.dead else ""
    return f"{one.succeeded:,}{dead}" + (f", {one.waiting:,} still try" if one.waiting else "")


def _time(one: Scene, name: str) -> str:
    """Say how long successes took; of that after the outage, apart."""
    if one.outcome.success_ms is None:
        return "–"
    took_ms = getattr(one.outcome.success_ms, name)
    if not one.outage_ms or took_ms < one.outage_ms:
        return format_duration(took_ms)
    return f"{format_duration(one.outage_ms)} + {format_duration(took_ms - one.outage_ms)}"


def _in_time(one: Scene, took_ms: int, plainly: str) -> str:
    """Say when successes had come: after the outage, or else plainly after the first failure."""
    if not one.outage_ms or took_ms < one.outage_ms:
        return f"{plainly} {format_duration(took_ms)}"
    return f"{format_duration(took_ms - one.outage_ms)} after the outage"


def _abandoned(one: Outcome) -> str:
    return "–" if one.downstream is None else f"{sum(one.downstream.abandoned):,}"


def _queue(one: Outcome) -> str:
    return "–" if one.downstream is None else f"{one.downstream.most_backlog:,}"


def said(scenes: Sequence[Scene], jobs: int) -> list[str]:
    """Say what came of the scenario."""
    sentences = []
    for one in scenes:
        outcome, times = one.outcome, one.outcome.success_ms
        if times is None:
            sentences.append(f"{one.label}: not one of {counted(jobs, 'job')} gets through.{_collapse(one)}")
            continue
        all_ = "all" if outcome.succeeded == outcome.jobs else f"{outcome.succeeded:,}"
        sentences.append(
            f"{one.label}: {all_} of {counted(jobs, 'job')} get through, half of them {_in_time(one, times.p50, 'within')} and the "
            f"last {_in_time(one, times.max, 'after')}; {counted(outcome.peak_second, 'call')} in the peak second"
            f"{_after(outcome)}.{_collapse(one)}"
        )
    end_ms = scenes[0].end_ms if scenes else None
    if end_ms is not None:
        sentences.append(
            f"Looked at until {format_duration(end_ms)}, as the other calls never end; “look at” can name a later end."
        )
    if any(one.outcome.downstream for one in scenes):
        shaded = "Shaded is the outage; the" if scenes[0].outage_ms else "The"
        sentences.append(
            f"{shaded} dashed line across is what the downstream can do, the dashed ones in the policies' "
            "colours are what it does while somebody still waits for it."
        )
    return sentences


def _after(one: Outcome) -> str:
    """Say what meets the service when it is back."""
    return "" if one.peak_second_after is None else f", {one.peak_second_after:,} after the outage"


def _collapse(one: Scene) -> str:
    """Say that the downstream works for nobody, where it mostly does, and whether it comes out of that."""
    down = one.outcome.downstream
    if down is None:
        return ""
    abandoned, served = sum(down.abandoned), sum(down.served)
    if abandoned <= served:
        return ""
    share = 100 * abandoned / (abandoned + served)
    return f" {share:.0f} % of what the downstream does is for callers who have given up, and so {_end(one, down)}."


def _end(one: Scene, down: Downstream) -> str:
    bins = len(down.abandoned)
    late = slice(bins - max(bins // _LATE, 1), bins)
    if one.end_ms is not None and sum(down.abandoned[late]) > sum(down.served[late]):
        return f"it has not recovered by {format_duration(one.end_ms)}"
    if one.outcome.dead:
        return f"{one.outcome.dead:,} jobs die"
    return "it recovers late"
