"""What becomes of each herd in the page's scenario: an outage that ends, a downstream that can do so much."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from anew.backoff import Policy
from anew.lab.charts.data import shown_retries
from anew.lab.charts.link import PAGE_CALLS
from anew.lab.charts.loads import seconds
from anew.lab.rhythm import in_order
from anew.lab.simulation.outcome import Downstream, Outcome
from anew.lab.simulation.record import Record
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.lab.waves import as_wave
from anew.units import format_duration
from anew.web.lab.herds import KEPT, KEPT_CALLS, Drawn, Herd
from anew.web.lab.state import SCENARIO, UNTIL
from anew.web.lab.words import Row, busiest

_PLAIN: Final = frozenset({"jobs", "seed", "phase"})
"""What a herd has even where nothing ever succeeds and nothing is limited."""

_LATE: Final = 20
"""Whether the downstream has recovered is told by the last twentieth of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene(Drawn):
    """One policy in the scenario.

    Attributes:
        outcome: What came of it.
        end_ms: When the scenario ends at the latest; None: when all is over.
        outage_ms: How long the outage lasts after all jobs' first failure; 0 where there is none, or these are spread.
    """

    outcome: Outcome
    end_ms: int | None
    outage_ms: int

    @property
    def dots(self) -> Sequence[Sequence[int]]:
        """When each of the first jobs retries, up to its success."""
        return self.outcome.dots


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


def scene(herd: Herd, scenario: Scenario) -> Scene:
    """Simulate one policy.

    Raises:
        InvalidInput: It would be too much work.
    """
    policy = herd.policy
    if scenario.success == 0 and policy.retries is None:
        policy = policy.with_limit(shown_retries(policy))
    # Of calls that meet in a queue there are never more than of a herd that is kept.
    few = scenario.coupled or scenario.jobs * shown_retries(policy) <= KEPT_CALLS
    return replace((_kept if few else _played)(policy, scenario), key=herd.key, label=herd.label)


def _played(policy: Policy, scenario: Scenario) -> Scene:
    record = Record.of(scenario)
    outcome = simulate(policy, scenario, max_calls=PAGE_CALLS, record=record)
    last = max(record.made, default=0)
    waves = tuple(as_wave(record.made.get(retry, ())) for retry in range(1, last + 1))
    served = seconds(in_order([as_wave(record.served)])) if outcome.downstream else None
    outage_ms = scenario.outage_ms if scenario.success and not scenario.over_ms else 0
    return Scene(
        waves=waves,
        seconds=seconds(record.calls()),
        served=served,
        outcome=outcome,
        end_ms=scenario.end_ms,
        outage_ms=outage_ms,
    )


_kept = functools.lru_cache(maxsize=KEPT)(_played)


# ---- words


def facts(scenes: Sequence[Scene], jobs: int) -> list[Row]:
    """Give the figures of the scenario that the verdict does not have, a cell for each scene."""
    outcomes = [one.outcome for one in scenes]
    rows = [
        ("Half are done", "of those that get through", [_half(one) for one in scenes]),
        ("Calls made", "after the first failures", [f"{one.herd_calls:,}" for one in outcomes]),
    ]
    others = [
        f"{one.fresh.retries:,}" for one in outcomes if one.fresh
    ]  # of all or of none, as the scenario is
    if others:
        rows.append(("Others' retries", "of the calls beside these jobs", others))
    rows.append(("Peak second", "calls, % of the jobs", [busiest(one.peak_second, jobs) for one in outcomes]))
    rows.append(("Peak minute", "calls, % of the jobs", [busiest(one.peak_minute, jobs) for one in outcomes]))
    if any(one.peak_minute_after is not None for one in outcomes):
        cells = [busiest(one.peak_minute_after or 0, jobs) for one in outcomes]
        rows.append(("Peak minute when it returns", "after the outage", cells))
    downs = [one.downstream for one in outcomes if one.downstream]
    if downs:
        vain = [f"{sum(down.abandoned):,}" for down in downs]
        rows.append(("Done in vain", "nobody waited any more", vain))
        rows.append(("Longest queue", "calls not yet done", [f"{down.most_backlog:,}" for down in downs]))
    return rows


def _half(one: Scene) -> str:
    """Say when half of the successes had come; of that after the outage, apart."""
    if one.outcome.success_ms is None:
        return "–"
    took_ms = one.outcome.success_ms.p50
    if not one.outage_ms or took_ms < one.outage_ms:
        return format_duration(took_ms)
    return f"{format_duration(one.outage_ms)} + {format_duration(took_ms - one.outage_ms)}"


def said(scenes: Sequence[Scene]) -> list[str]:
    """Say what no figure shows: that a downstream works for nobody, and why the scenario ends."""
    sentences = [_collapse(one) for one in scenes]
    end_ms = scenes[0].end_ms if scenes else None
    if end_ms is not None:
        end = format_duration(end_ms)
        sentences.append(
            f"It ends at {end}, as the other calls never end; “show until” can name a later time."
        )
    return [sentence for sentence in sentences if sentence]


def _collapse(one: Scene) -> str:
    """Say that the downstream works for nobody, where it mostly does, and whether it comes out of that."""
    down = one.outcome.downstream
    if down is None:
        return ""
    abandoned, served = sum(down.abandoned), sum(down.served)
    if abandoned <= served:
        return ""
    share = 100 * abandoned / (abandoned + served)
    return f"{one.label}: {share:.0f} % of the work is for callers who have given up; {_end(one, down)}."


def _end(one: Scene, down: Downstream) -> str:
    bins = len(down.abandoned)
    late = slice(bins - max(bins // _LATE, 1), bins)
    if one.end_ms is not None and sum(down.abandoned[late]) > sum(down.served[late]):
        return f"it has not recovered by {format_duration(one.end_ms)}"
    return f"{one.outcome.dead:,} jobs die" if one.outcome.dead else "it recovers late"
