"""Pictures of any policies: which panels one kind of picture has, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

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
from anew.units import format_duration, refused

if TYPE_CHECKING:
    from anew.lab.simulation.scenario import Scenario

KINDS: Final = ("band", "dots", "heat", "histogram", "load")
"""The kinds of pictures."""

MAX_POLICIES: Final = len(POLICY_COLOURS)
LONG_TITLE: Final = 76
"""Characters for which a figure is wide enough."""

_HEAT: Final = {
    "retry": "A row for each retry; the stronger the colour, the more jobs retry together.",
    "phase": "The jobs by the number that each keeps for life; the stronger the colour, the more retry together.",
}


def compose(
    kind: str,
    policies: Sequence[Named],
    *,
    retries: int | None = None,
    retry: int = 1,
    jobs: int | None = None,
    seed: int = 1,
    by: Literal["retry", "phase"] = "retry",
    log: bool | None = None,
    scenario: Scenario | None = None,
    outage_ms: int | None = None,
    from_ms: int = 0,
    to_ms: int | None = None,
) -> Picture:
    """Make a picture of some policies.

    Args:
        kind: ``band``, ``dots``, ``heat``, ``histogram`` or ``load``.
        policies: One to six.
        retries: Retries to show; None: as many as each policy has, 25 where it has no end.
        retry: The retry whose waits a histogram shows.
        jobs: Jobs of a herd; None: 100 as dots, 1,000 as heat, 10,000 in a histogram.
        seed: Chance.
        by: What a heat has a row for: each retry, or the jobs by their number for life.
        log: Whether axes of durations count in powers; None: whatever shows more.
        scenario: What happens to the jobs whose load is shown; None: 1,000 fail together, and at every retry.
        outage_ms: As dots and heat: calls fail until then, and the first one after it succeeds; None: they always fail.
        from_ms: Where a load begins to be looked at.
        to_ms: Where that ends; None: behind the last call.

    Raises:
        InvalidInput: A value does not fit; names field, value and expectation.
    """
    _checked(kind, policies)
    match kind:
        case "band":
            return _band(policies, retries, log)
        case "dots":
            herd = _Herd(100 if jobs is None else jobs, retries, seed, outage_ms)
            return _dots(policies, herd, log)
        case "heat":
            herd = _Herd(1_000 if jobs is None else jobs, retries, seed, outage_ms)
            return _heat(policies, herd, by, log)
        case "histogram":
            count = 10_000 if jobs is None else jobs
            panels = tuple(histogram(named, retry, count, seed) for named in policies)
            return Picture(_title(f"The wait before retry {retry}", policies), panels)
        case _:
            return _load(policies, retries, scenario, log, (from_ms, to_ms))


class _Herd(NamedTuple):
    jobs: int
    retries: int | None
    seed: int
    outage_ms: int | None


def _band(policies: Sequence[Named], retries: int | None, log: bool | None) -> Picture:
    band = curve_band(policies, retries)
    caption = f"The shade reaches from the earliest to the latest wait, the line is {line_words(band)}."
    return Picture(_title("The wait before each retry", policies), (band,), log=log, caption=caption)


def _dots(policies: Sequence[Named], herd: _Herd, log: bool | None) -> Picture:
    panels = on_one_axis(
        [dots(named, herd.jobs, herd.retries, herd.seed, outage_ms=herd.outage_ms) for named in policies]
    )
    title = _title(_until(herd.jobs, herd.outage_ms), policies)
    return Picture(title, panels, log=log, caption="A row for each job, a dot for each retry.")


def _heat(policies: Sequence[Named], herd: _Herd, by: Literal["retry", "phase"], log: bool | None) -> Picture:
    panels = heat(
        policies, herd.jobs, herd.retries, herd.seed, rows=by, log=log is not False, outage_ms=herd.outage_ms
    )
    return Picture(_title(_until(herd.jobs, herd.outage_ms), policies), panels, caption=_HEAT[by])


def _load(
    policies: Sequence[Named],
    retries: int | None,
    scenario: Scenario | None,
    log: bool | None,
    span: tuple[int, int | None],
) -> Picture:
    from anew.lab.simulation.scenario import Scenario

    held = [
        named._replace(policy=named.policy.with_limit(shown_retries(named.policy, retries)))
        for named in policies
    ]
    given = Scenario(success=0.0) if scenario is None else scenario
    panel = load(held, given, from_ms=span[0], to_ms=span[1], log=log)
    caption = (
        "Calls that reach what is called, after the first failure of each job. "
        "A column is as high as its fullest second."
    )
    return Picture(_title(_story(given), policies), (panel,), caption=caption)


def _story(scenario: Scenario) -> str:
    """Say in a few words what happens."""
    return _until(scenario.jobs, scenario.outage_ms if scenario.success else None, scenario.over_ms)


def _until(jobs: int, outage_ms: int | None, over_ms: int = 0) -> str:
    text = _counted(jobs, over_ms)
    if outage_ms is None:
        return f"{text}, and at every retry"
    return f"{text}, in an outage of {format_duration(outage_ms)}" if outage_ms else text


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
