"""Pictures of any policies: which panels one kind of picture has, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from anew.errors import InvalidInput
from anew.lab.charts.colours import POLICY_COLOURS
from anew.lab.charts.data import curve_band, dots, heat, histogram, load, on_one_axis, shown_retries
from anew.lab.charts.panels import cut
from anew.lab.charts.pictures import Named, Picture
from anew.units import format_duration, refused

if TYPE_CHECKING:
    from anew.lab.simulation.scenario import Scenario

KINDS: Final = ("band", "dots", "heat", "histogram", "load")
"""The kinds of pictures."""

MAX_POLICIES: Final = len(POLICY_COLOURS)
LONG_TITLE: Final = 76
"""Characters for which a figure is wide enough."""

_LABEL: Final = 40
_HEAT: Final = {
    "retry": "A row for each retry; the stronger the colour, the more jobs retry together.",
    "phase": "The jobs by the number that each keeps for life; the stronger the colour, the more retry together.",
}
_LETTERS: Final = "abcd"


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

    Raises:
        InvalidInput: A value does not fit; names field, value and expectation.
    """
    _checked(kind, policies)
    names = [label for label, _ in policies]
    match kind:
        case "band":
            return Picture(
                _title("The wait before each retry", names),
                (curve_band(policies, retries),),
                log=log,
                caption="The shade reaches from the earliest to the latest wait, the line is the mean.",
            )
        case "dots":
            count = 100 if jobs is None else jobs
            panels = on_one_axis([dots(named, count, retries, seed) for named in policies])
            return Picture(
                _title(f"{_counted(count)}, and at every retry", names),
                panels,
                log=log,
                caption="A row for each job, a dot for each retry.",
            )
        case "heat":
            count = 1_000 if jobs is None else jobs
            return Picture(
                _title(f"{_counted(count)}, and at every retry", names),
                heat(policies, count, retries, seed, rows=by, log=log is not False),
                caption=_HEAT[by],
            )
        case "histogram":
            count = 10_000 if jobs is None else jobs
            return Picture(
                _title(f"The wait before retry {retry}", names),
                tuple(histogram(named, retry, count, seed) for named in policies),
            )
        case _:
            return _load_picture(policies, retries, scenario, names, log)


def _load_picture(
    policies: Sequence[Named],
    retries: int | None,
    scenario: Scenario | None,
    names: Sequence[str],
    log: bool | None,
) -> Picture:
    from anew.lab.simulation.scenario import Scenario

    given = Scenario(success=0.0) if scenario is None else scenario
    held = [Named(label, policy.with_limit(shown_retries(policy, retries))) for label, policy in policies]
    panel = load(held, given)
    return Picture(
        _title(_story(given), names),
        (panel,),
        log=log,
        caption="Calls that reach what is called, after the first failure of each job. "
        f"A column is as high as its fullest {format_duration(panel.bin_ms)}.",
    )


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


def _title(what: str, names: Sequence[str]) -> str:
    """Say what is shown and of which policies; of many long names, each of which stands at its line, how many."""
    if len(names) == 1:
        return f"{what}: {names[0]}"
    title = f"{what}: {', '.join(names[:-1])} and {names[-1]}"
    return title if len(title) <= LONG_TITLE else f"{what}: {len(names)} policies"


def labels(forms: Sequence[Any], names: Sequence[str] = ()) -> list[str]:
    """Give each policy a short name of its own.

    Args:
        forms: Policies as people give them: the name of a preset, or an object of JSON.
        names: What they are called where they come from, in the same order; "" where they have no name.

    Returns:
        That name; else the preset's with what was given beside it; ``policy 2`` for the second where it has none. A
        number is added where two would be the same, and where not all that was given has room.
    """
    found: list[str] = []
    for number, form in enumerate(forms, 1):
        given = names[number - 1] if number <= len(names) else ""
        name = cut(given, _LABEL) or _label(form, number)
        found.append(name if name not in found else f"{name} ({number})")
    return found


def _label(form: Any, number: int) -> str:
    if isinstance(form, str):
        return form
    if not isinstance(form, Mapping) or not isinstance(form.get("preset"), str):
        return f"policy {number}"
    label: str = form["preset"]
    told = [_said(str(key), value) for key, value in form.items() if key != "preset"]
    for place, more in enumerate(told, 1):
        if len(label) + len(more) + 2 > (_LABEL if place == len(told) else _LABEL - len(f" ({number})")):
            return f"{label} ({number})"
        label += f", {more}"
    return label


def _said(key: str, value: Any) -> str:
    """Say one thing that was given beside a preset: ``limit 6``, ``no limit``, ``jitter add``."""
    if value is None or value is False:
        return f"no {key}"
    if isinstance(value, Mapping):
        # An object begins with what it is: {"add": {...}}.
        return " ".join([key, *(str(inner) for inner in value)][:2])
    return f"{key} {value}" if isinstance(value, str | float | int) and value is not True else key


def link(forms: Sequence[Any], **more: Any) -> str:
    """Give path and query of the lab's page with the same policies; "" for more than it shows.

    Args:
        forms: Policies as people give them.
        more: Other fields of the page; None leaves one out.
    """
    if len(forms) > len(_LETTERS):
        return ""
    pairs = [
        (letter, form if isinstance(form, str) else msgspec.json.encode(form).decode())
        for letter, form in zip(_LETTERS, forms, strict=False)
    ]
    pairs += [(name, str(value)) for name, value in more.items() if value is not None]
    # No brace and no quotation mark: where people chat, a link ends before one.
    return f"/lab?{urlencode(pairs, safe=':,')}"
