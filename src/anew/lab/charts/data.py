"""Pictures of any policies, as plain data: the terminal, the files and the page in the browser draw the same.

Small herds are drawn by the engine's own decisions, one by one; large ones by their vectorised form, which decides the
same to the millisecond and needs NumPy (without it they are drawn one by one as well).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.charts.bins import wait_edges
from anew.lab.charts.colours import POLICY_COLOURS
from anew.lab.charts.loads import Seconds, columns, crowded, edges, seconds
from anew.lab.charts.pictures import Band, BandLine, BandPoint, Dots, Heat, Histogram, Load, LoadLine, Picture
from anew.lab.explain import Forecast, explain
from anew.lab.named import Named
from anew.lab.simulation.record import Record
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.lab.waves import as_wave, ends, instants, tally, waits_between, waves
from anew.units import SECOND_MS, format_duration, format_duration_short, refused

TIME_BINS: Final = 240
"""Bins of time of a heat."""

WAIT_BINS: Final = 60
"""Bins of a histogram, about."""

DEFAULT_RETRIES: Final = 25
"""Retries of a picture where neither the policy nor the caller sets an end."""

MOST_RETRIES: Final = 100
"""Retries of a picture where nobody says how many, and the policy has more."""

MAX_RETRIES: Final = 1_000
MAX_DOTS: Final = 100_000
MAX_INSTANTS: Final = 25_000_000

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
            line = line_words(band)
            caption = f"The shade reaches from the earliest to the latest wait, the line is {line}."
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
    courses = [
        (label, seconds(_record(policy.with_limit(shown_retries(policy, retries)), scenario).calls()))
        for label, policy in policies
    ]
    panel = load_of(courses, scenario, from_ms=from_ms, to_ms=to_ms, log=log)
    caption = (
        "Calls that reach what is called, after the first failure of each job. "
        "A column is as high as its fullest second."
    )
    return Picture(_title(_story(scenario), policies), (panel,), caption=caption)


def _story(scenario: Scenario) -> str:
    """Say in a few words what happens."""
    when = f"within {format_duration(scenario.over_ms)}" if scenario.over_ms else "together"
    text = "One job fails" if scenario.jobs == 1 else f"{scenario.jobs:,} jobs fail {when}"
    if not scenario.success:
        return f"{text}, and at every retry"
    return f"{text}, in an outage of {format_duration(scenario.outage_ms)}" if scenario.outage_ms else text


def _checked(kind: str, policies: Sequence[Named]) -> None:
    if kind not in KINDS:
        raise refused("kind", kind, f"one of: {', '.join(KINDS)}")
    if not 1 <= len(policies) <= MAX_POLICIES:
        count = len(policies)
        message = f"policies: {count} of them are not valid; expected 1 to {MAX_POLICIES} in one picture"
        raise InvalidInput(message, field="policies", value=count)
    for label, policy in policies:
        if policy.retries == 0:
            message = f"policy: {label} allows no retry; expected one that has waits to draw"
            raise InvalidInput(message, field="policy", value=label)


def _title(what: str, policies: Sequence[Named]) -> str:
    """Say what is shown and of which policies; of many long names, each of which stands at its line, how many."""
    names = [label for label, _ in policies]
    if len(names) == 1:
        return f"{what}: {names[0]}"
    title = f"{what}: {', '.join(names[:-1])} and {names[-1]}"
    return title if len(title) <= LONG_TITLE else f"{what}: {len(names)} policies"


# ---- each kind of picture


def curve_band(policies: Sequence[Named], retries: int | None = None) -> Band:
    """Give each policy's nominal, earliest, latest and mean wait, retry by retry."""
    # No percentiles, which cost as much as all the rest.
    told = [
        (label, explain(policy, shown_retries(policy, retries), percentiles=())) for label, policy in policies
    ]
    return Band(tuple(band_line(label, explained.rows) for label, explained in told))


def band_line(name: str, rows: Sequence[Forecast]) -> BandLine:
    """Give the line of a policy through its waits: the mean, or where any of them has none that can be told, the nominal."""
    points = tuple(
        BandPoint(row.retry, row.nominal_ms, row.earliest_ms, row.latest_ms, row.mean_ms) for row in rows
    )
    # One line, one meaning: it does not change from mean to nominal on its way.
    known = all(point.mean_ms is not None for point in points)
    return BandLine(name, points, "mean" if known else "nominal")


def line_words(band: Band) -> str:
    """Say what the lines of a band are, to be read after "the line is"."""
    other = [line.label for line in band.lines if line.line == "nominal"]
    if not other:
        return "the mean"
    nominal = "the curve's wait without jitter, as its mean cannot be told"
    return nominal if len(other) == len(band.lines) else f"the mean; that of {', '.join(other)} is {nominal}"


def dots(named: Named, scenario: Scenario, retries: int | None = None) -> Dots:
    """Give when each job of a herd retries, all of them having failed at 0.

    Args:
        scenario: Jobs, at most 100,000 dots in all, and the seed. Calls fail until the end of the outage, and the first
            one after it succeeds; without success they always fail.
    """
    count, jobs, outage_ms = shown_retries(named.policy, retries), scenario.jobs, scenario.outage_end_ms
    whole("jobs", jobs, 1, max(1, MAX_DOTS // max(count, 1)), f"no more than {MAX_DOTS:,} dots in all")
    rows = tuple(instants(named.policy, job, count, scenario.seed) for job in range(jobs))
    if outage_ms is not None:
        # Up to the first that succeeds.
        rows = tuple(row[: bisect_left(row, outage_ms) + 1] for row in rows)
    first = sorted(row[0] for row in rows if row and row[0])
    last = max((row[-1] for row in rows if row), default=0)
    # Of the first retries a twentieth may be held to the start of an axis: one early bird must not stretch it.
    most = max(map(len, rows)) if outage_ms is not None else count
    return Dots(named.label, most, rows, first[len(first) // 20] if first else 0, last, outage_ms)


def on_one_axis(panels: Sequence[Dots]) -> tuple[Dots, ...]:
    """Give the same panels with one time axis, which holds all their dots."""
    begin = min((panel.begin_ms for panel in panels if panel.begin_ms), default=0)
    end = max((panel.end_ms for panel in panels), default=0)
    return tuple(msgspec.structs.replace(panel, begin_ms=begin, end_ms=end) for panel in panels)


def heat(
    policies: Sequence[Named], scenario: Scenario, retries: int | None = None, *, log: bool = True
) -> tuple[Heat, ...]:
    """Give how many calls of each retry of a herd fall into each bin of time, the same bins for all policies.

    Args:
        scenario: What happens to the jobs; at most 25 million retries in all.
        log: Bins that are equally wide on an axis of powers; else of equal duration, beginning at 0.
    """
    herds = []
    for _, policy in policies:
        count = retries_of_herds(policy, scenario.jobs, retries, len(policies))
        made = _record(policy.with_limit(count), scenario).made
        herds.append([as_wave(made.get(retry, ())) for retry in range(1, max(made, default=1) + 1)])
    spans = [ends(found) for found in herds]
    edges = bin_edges(min(first for first, _ in spans), max(last for _, last in spans), TIME_BINS, log)
    counts = [tuple(tuple(tally(wave, edges)) for wave in found) for found in herds]
    return tuple(
        Heat(label, scenario.jobs, edges, each, log, scenario.outage_end_ms)
        for (label, _), each in zip(policies, counts, strict=True)
    )


def bin_edges(first: float, last: float, bins: int, log: bool) -> tuple[float, ...]:
    """Give where bins begin and end."""
    if not log:
        return tuple(last * place / bins for place in range(bins + 1))
    return tuple(first * (last / first) ** (place / bins) for place in range(bins + 1))


def histogram(named: Named, retry: int, scenario: Scenario) -> Histogram:
    """Give how one retry's waits are spread: drawn by the engine, as many as there are jobs.

    Args:
        scenario: Jobs, a wait each; at most 25 million with those of the retries before. And the seed.
    """
    most = MAX_RETRIES if named.policy.retries is None else min(MAX_RETRIES, named.policy.retries)
    whole("retry", retry, 1, most, f"a retry that {named.label} has")
    retries_of_herds(named.policy, scenario.jobs, retry)
    found = waves(named.policy, scenario.jobs, retry, scenario.seed)
    drawn = waits_between(found[-1], found[-2] if retry > 1 else None)
    if not len(drawn):
        raise refused("retry", retry, f"a retry that comes before the deadline of {named.label}")
    edges = wait_edges([drawn], WAIT_BINS)
    mean = float(sum(map(int, drawn)) / len(drawn))
    return Histogram(named.label, retry, len(drawn), edges, tuple(tally(drawn, edges)), mean)


def load_of(
    courses: Sequence[tuple[str, Seconds]],
    scenario: Scenario,
    *,
    from_ms: int = 0,
    to_ms: int | None = None,
    log: bool | None = None,
) -> Load:
    """Give how many calls a second reach what is called, column by column, each policy meeting the same scenario.

    Args:
        courses: Labels, and calls that are counted by the second.
        from_ms: Where to begin to look.
        to_ms: Where to stop; None: behind the last call.
        log: The axis counts in powers, from 0 on; None: if that shows more.
    """
    if to_ms is not None and to_ms <= from_ms:
        after = format_duration_short(from_ms)
        raise refused("to", format_duration_short(to_ms), f"later than from, which is {after}")
    if log and from_ms:
        raise refused("log", log, "no axis of powers where from is later than 0, as powers count from 0")
    with_calls = [course.at for _, course in courses if len(course.at)]
    first = SECOND_MS * min((int(at[0]) for at in with_calls), default=0)
    last = SECOND_MS * max((int(at[-1]) for at in with_calls), default=0)
    if from_ms >= last + SECOND_MS:
        latest = format_duration_short(last)
        raise refused("from", format_duration_short(from_ms), f"at most {latest}, when the last call comes")
    end = last if to_ms is None else min(to_ms - 1, last)
    powers = not from_ms and any(crowded(course, end) for _, course in courses) if log is None else log
    marks = edges(first, end, log=powers, outage_ms=scenario.outage_end_ms, from_ms=from_ms)
    drawn = [(label, *columns(course, marks)) for label, course in courses]
    lines = [LoadLine(label, tuple(peaks), tuple(means)) for label, peaks, means in drawn]
    return Load(
        scenario.jobs, tuple(edge * SECOND_MS for edge in marks), tuple(lines), powers, scenario.outage_end_ms
    )


def _record(policy: Policy, scenario: Scenario) -> Record:
    record = Record.of(scenario)
    simulate(policy, scenario, max_calls=MAX_INSTANTS, record=record)
    return record


# ---- how much may be asked for, and the refusals of what is more


def shown_retries(policy: Policy, retries: int | None = None) -> int:
    """Give how many retries a picture shows: as many as asked for and the policy allows.

    Args:
        retries: What was asked for, 1 to 1,000; None: all that the policy allows, 100 at most, or 25 where there is no end.
    """
    whole("retries", retries, 1, MAX_RETRIES, "the retries to show")
    if retries is None:
        return DEFAULT_RETRIES if policy.retries is None else min(policy.retries, MOST_RETRIES)
    return retries if policy.retries is None else min(retries, policy.retries)


def retries_of_herds(policy: Policy, jobs: int, retries: int | None, herds: int = 1) -> int:
    """Give the retries shown, one of some herds being within bounds."""
    count = shown_retries(policy, retries)
    if not count:
        raise InvalidInput("policy: allows no retry; expected one that has waits to draw", field="policy")
    most = MAX_INSTANTS // (count * herds)
    whole("jobs", jobs, 1, most, f"no more than {MAX_INSTANTS:,} retries in all")
    return count


def whole(field: str, value: int | None, low: int, high: int, what: str) -> None:
    """Refuse a number out of bounds; None passes."""
    if value is not None and not low <= value <= high:
        raise refused(field, value, f"a whole number from {low:,} to {high:,}, {what}")
