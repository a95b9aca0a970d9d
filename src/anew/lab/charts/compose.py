"""Pictures of any policies: which panels one kind of picture has, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from anew.backoff import Policy
from anew.backoff.kinds import Duration, Integer, Kind
from anew.errors import InvalidInput
from anew.lab.charts.colours import POLICY_COLOURS
from anew.lab.charts.data import (
    MOST_RETRIES,
    curve_band,
    dots,
    heat,
    histogram,
    line_words,
    load,
    on_one_axis,
    shown_retries,
)
from anew.lab.charts.pictures import Picture
from anew.lab.named import Named
from anew.lab.simulation.scenario import MAX_SEED, PAGE_JOBS
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

LETTERS: Final = "abcd"
"""The policies of a link, the first first: as many as the page has."""

PAGE_CALLS: Final = 3_000_000
"""Jobs times retries that the page works out for one policy."""

_ON_PAGE: Final[dict[str, Kind]] = {
    "jobs": Integer(1, PAGE_JOBS),
    "seed": Integer(0, MAX_SEED),
    "retry": Integer(1, MOST_RETRIES),
    "over": Duration(),
    "outage": Duration(),
    "until": Duration(),
}
"""What the page takes of what a picture can be told."""


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
    names = [label for label, _ in policies]
    match kind:
        case "band":
            band = curve_band(policies, retries)
            return Picture(
                _title("The wait before each retry", names),
                (band,),
                log=log,
                caption=f"The shade reaches from the earliest to the latest wait, the line is {line_words(band)}.",
            )
        case "dots":
            count = 100 if jobs is None else jobs
            panels = on_one_axis(
                [dots(named, count, retries, seed, outage_ms=outage_ms) for named in policies]
            )
            return Picture(
                _title(_until(count, outage_ms), names),
                panels,
                log=log,
                caption="A row for each job, a dot for each retry.",
            )
        case "heat":
            count = 1_000 if jobs is None else jobs
            return Picture(
                _title(_until(count, outage_ms), names),
                heat(policies, count, retries, seed, rows=by, log=log is not False, outage_ms=outage_ms),
                caption=_HEAT[by],
            )
        case "histogram":
            count = 10_000 if jobs is None else jobs
            return Picture(
                _title(f"The wait before retry {retry}", names),
                tuple(histogram(named, retry, count, seed) for named in policies),
            )
        case _:
            if log and from_ms:
                raise refused(
                    "log", log, "no axis of powers where from is later than 0, as powers count from 0"
                )
            held = [
                named._replace(policy=named.policy.with_limit(shown_retries(named.policy, retries)))
                for named in policies
            ]
            return _load_picture(held, scenario, log, (from_ms, to_ms))


def _load_picture(
    policies: Sequence[Named], scenario: Scenario | None, log: bool | None, span: tuple[int, int | None]
) -> Picture:
    from anew.lab.simulation.scenario import Scenario

    given = Scenario(success=0.0) if scenario is None else scenario
    panel = load(policies, given, from_ms=span[0], to_ms=span[1])
    return Picture(
        _title(_story(given), [label for label, _ in policies]),
        (panel,),
        log=log,
        caption="Calls that reach what is called, after the first failure of each job. "
        f"A column is as high as its fullest {format_duration(panel.bin_ms)}.",
    )


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


def _title(what: str, names: Sequence[str]) -> str:
    """Say what is shown and of which policies; of many long names, each of which stands at its line, how many."""
    if len(names) == 1:
        return f"{what}: {names[0]}"
    title = f"{what}: {', '.join(names[:-1])} and {names[-1]}"
    return title if len(title) <= LONG_TITLE else f"{what}: {len(names)} policies"


def link(forms: Sequence[Any], **more: Any) -> str:
    """Give path and query of the lab's page with the same policies; "" for what it would refuse (`beyond_page`).

    Args:
        forms: Policies as people give them.
        more: Other fields of the page; None leaves one out.
    """
    if beyond_page(forms, **more):
        return ""
    pairs = [
        (letter, form if isinstance(form, str) else msgspec.json.encode(form).decode())
        for letter, form in zip(LETTERS, forms, strict=False)
    ]
    pairs += [(name, str(value)) for name, value in more.items() if value is not None]
    # No brace and no quotation mark: where people chat, a link ends before one.
    return f"/lab?{urlencode(pairs, safe=':,')}"


def beyond_page(forms: Sequence[Any], **more: Any) -> str:
    """Say what of a picture the lab's page would refuse; "" if it takes all.

    Args:
        forms: Policies as people give them.
        more: Fields of the page; None leaves one out.
    """
    if len(forms) > len(LETTERS):
        return f"it takes {len(LETTERS)} policies at most"
    for name, kind in _ON_PAGE.items():
        if more.get(name) is None:
            continue
        try:
            kind.read(more[name], name)
        except InvalidInput:
            return f"its {name} is {kind.expected}"
    jobs = more.get("jobs")
    if jobs and any(jobs * shown_retries(Policy.from_json(form), None) > PAGE_CALLS for form in forms):
        return f"it takes {PAGE_CALLS:,} retries of a herd at most"
    return ""
