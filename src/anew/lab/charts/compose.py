"""Pictures of any policies: which panels one kind of picture has, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anew.errors import InvalidInput
from anew.lab.charts.bounds import shown_retries
from anew.lab.charts.colours import POLICY_COLOURS
from anew.lab.charts.data import (
    curve_band,
    dots,
    heat,
    histogram,
    line_words,
    load,
    on_one_axis,
)
from anew.lab.charts.pictures import Picture
from anew.lab.named import Named
from anew.lab.simulation.scenario import Scenario
from anew.units import format_duration, refused

KINDS: Final = ("band", "dots", "heat", "histogram", "load")
"""The kinds of pictures."""

MAX_POLICIES: Final = len(POLICY_COLOURS)
LONG_TITLE: Final = 76
"""Characters for which a figure is wide enough."""

JOBS: Final = {"dots": 100, "heat": 1_000, "histogram": 10_000, "load": 1_000}
"""Jobs of each kind of picture, where nobody says how many."""


def compose(
    kind: str,
    policies: Sequence[Named],
    scenario: Scenario | None = None,
    *,
    retries: int | None = None,
    retry: int = 1,
    log: bool | None = None,
    from_ms: int = 0,
    to_ms: int | None = None,
) -> Picture:
    """Make a picture of some policies.

    Args:
        kind: ``band``, ``dots``, ``heat``, ``histogram`` or ``load``.
        policies: One to six.
        scenario: What happens to the jobs; None: they fail together, and at every retry.
        retries: Retries to show; None: as many as each policy has, 25 where it has no end.
        retry: The retry whose waits a histogram shows.
        log: Whether axes of durations count in powers; None: whatever shows more.
        from_ms: Where a load begins to be looked at.
        to_ms: Where that ends; None: behind the last call.

    Raises:
        InvalidInput: A value does not fit; names field, value and expectation.
    """
    _checked(kind, policies)
    scenario = scenario or Scenario(jobs=JOBS.get(kind, 1), success=0)
    match kind:
        case "band":
            band = curve_band(policies, retries)
            caption = (
                f"The shade reaches from the earliest to the latest wait, the line is {line_words(band)}."
            )
            return Picture(_title("The wait before each retry", policies), (band,), log=log, caption=caption)
        case "dots":
            shown = on_one_axis([dots(named, scenario, retries) for named in policies])
            caption = "A row for each job, a dot for each retry."
            return Picture(_title(_story(scenario), policies), shown, log=log, caption=caption)
        case "heat":
            heats = heat(policies, scenario, retries, log=log is not False)
            caption = "A row for each retry; the stronger the colour, the more jobs retry together."
            return Picture(_title(_story(scenario), policies), heats, caption=caption)
        case "histogram":
            bars = tuple(histogram(named, retry, scenario) for named in policies)
            return Picture(_title(f"The wait before retry {retry}", policies), bars)
    held = [
        named._replace(policy=named.policy.with_limit(shown_retries(named.policy, retries)))
        for named in policies
    ]
    panel = load(held, scenario, from_ms=from_ms, to_ms=to_ms, log=log)
    caption = (
        "Calls that reach what is called, after the first failure of each job. "
        "A column is as high as its fullest second."
    )
    return Picture(_title(_story(scenario), policies), (panel,), caption=caption)


def _story(scenario: Scenario) -> str:
    """Say in a few words what happens."""
    text = _counted(scenario.jobs, scenario.over_ms)
    if not scenario.success:
        return f"{text}, and at every retry"
    return f"{text}, in an outage of {format_duration(scenario.outage_ms)}" if scenario.outage_ms else text


def _checked(kind: str, policies: Sequence[Named]) -> None:
    if kind not in KINDS:
        raise refused("kind", kind, f"one of: {', '.join(KINDS)}")
    if not 1 <= len(policies) <= MAX_POLICIES:
        message = (
            f"policies: {len(policies)} of them are not valid; expected 1 to {MAX_POLICIES} in one picture"
        )
        raise InvalidInput(message, field="policies", value=len(policies))
    for label, policy in policies:
        if policy.retries == 0:
            message = f"policy: {label} allows no retry; expected one that has waits to draw"
            raise InvalidInput(message, field="policy", value=label)


def _counted(jobs: int, over_ms: int = 0) -> str:
    if jobs == 1:
        return "One job fails"
    return f"{jobs:,} jobs fail {f'within {format_duration(over_ms)}' if over_ms else 'together'}"


def _title(what: str, policies: Sequence[Named]) -> str:
    """Say what is shown and of which policies; of many long names, each of which stands at its line, how many."""
    names = [label for label, _ in policies]
    if len(names) == 1:
        return f"{what}: {names[0]}"
    title = f"{what}: {', '.join(names[:-1])} and {names[-1]}"
    return title if len(title) <= LONG_TITLE else f"{what}: {len(names)} policies"
