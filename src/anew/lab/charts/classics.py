"""Pictures that people know, each made by one command and one link.

Sources: Zizq 0.6.1, "Backoff & Retry Policies"; OpenStack Zaqar, "Support More Backoff Functions", and the Amazon SNS
developer guide, "Message delivery retries"; Ananthakumaran, "Visualization of backoff functions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.charts.data import MAX_RETRIES, curve_band, dots, on_one_axis, whole
from anew.lab.charts.pictures import Named, Picture
from anew.units import HOUR_MS, SECOND_MS, format_duration, format_duration_short, refused

CLASSICS: Final = {
    "zizq": "Zizq's band for any base, exponent and jitter",
    "zaqar": "the four functions between two waits, named by Zaqar and SNS",
    "herd": "herds as dots: constant, exponential, Sidekiq and buckets, each followed by even",
}
"""Their names, and what is seen."""


def _link(name: str, **parameters: Any) -> str:
    return "/lab?" + urlencode({"classic": name, **parameters})


def _typed(ms: int) -> str:
    """Write a duration as people type it in this field: seconds as long as there are few of them."""
    return f"{ms // SECOND_MS}s" if ms % SECOND_MS == 0 and ms < HOUR_MS else format_duration_short(ms)


def zizq(base_ms: int = 15_000, exponent: float = 4.0, jitter_ms: int = 30_000, retries: int = 25) -> Picture:
    """Give Zizq's band: ``base + k**exponent s``, plus up to ``k * jitter``.

    Args:
        base_ms: B, the wait's fixed part.
        exponent: E.
        jitter_ms: J, what each retry adds to the jitter.
        retries: Retries shown.

    Raises:
        InvalidInput: A value does not fit.
    """
    policy = Policy.from_json(
        {"base_ms": base_ms, "exponent": exponent, "jitter_ms": jitter_ms, "limit": retries}
    )
    base, jitter = _typed(base_ms), _typed(jitter_ms)
    formula = f"{format_duration(base_ms)} + k^{exponent:g} s + up to k × {format_duration(jitter_ms)}"
    parameters = {"base": base, "exponent": f"{exponent:g}", "jitter": jitter}
    if retries != 25:
        parameters["retries"] = str(retries)
    return Picture(
        title=f"Zizq's backoff: {formula}",
        panels=(curve_band([Named("zizq", policy)], retries),),
        link=_link("zizq", **parameters),
        caption="The shade reaches from the earliest to the latest wait before each retry k; the line is the mean.",
    )


def zaqar(low_ms: int = 5_000, high_ms: int = 260_000, retries: int = 10) -> Picture:
    """Give the four functions that lead from one wait to another.

    Zaqar's exponential function is its geometric one under another name; with base 2, the fourth curve here, it has
    one of its own.

    Args:
        low_ms: The first wait.
        high_ms: The last wait.
        retries: Retries between them, both included.

    Raises:
        InvalidInput: A value does not fit.
    """
    whole("retries", retries, 1, MAX_RETRIES, "the retries between the two waits")
    if low_ms <= 0:
        raise _refused("low", low_ms, "a wait above 0, because the geometric function multiplies it")
    if high_ms < low_ms:
        raise _refused("high", high_ms, f"at least low, which is {format_duration_short(low_ms)}")
    between = {"low": low_ms, "high": high_ms, "retries": retries}
    shapes: Mapping[str, dict[str, Any]] = {
        "linear": {"shape": "linear"},
        "arithmetic": {"shape": "arithmetic"},
        "geometric": {"shape": "geometric"},
        "exponential, base 2": {"shape": "exponential", "base": 2},
    }
    lines = [
        Named(label, Policy.from_json({"curve": {"between": between | shape}, "limit": retries}))
        for label, shape in shapes.items()
    ]
    low, high = _typed(low_ms), _typed(high_ms)
    ends = f"from {format_duration(low_ms)} to {format_duration(high_ms)}"
    return Picture(
        title=f"Four functions {ends} in {retries} retries",
        panels=(curve_band(lines, retries),),
        log=False,
        link=_link("zaqar", low=low, high=high, retries=retries),
        caption="Zaqar's exponential function is the geometric one under another name; with base 2 it has a curve of "
        "its own.",
    )


def _refused(field: str, value_ms: int, expected: str) -> InvalidInput:
    message = f"{field}: {format_duration_short(value_ms)} is not valid; expected {expected}"
    return InvalidInput(message, field=field, value=value_ms)


_FIVE_MINUTES: Final = {"constant": "5m"}
_EXPONENTIAL: Final = {"sum": [{"constant": "3m"}, {"exponential": {"base": "2m"}}]}
_CUBES: Final = tuple({"power": {"exponent": 3, "origin": origin}} for origin in (1, 3))

HERD: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("constant", {"curve": _FIVE_MINUTES}),
    ("even on constant", {"curve": _FIVE_MINUTES, "jitter": "even"}),
    ("exponential", {"curve": _EXPONENTIAL}),
    ("even on exponential", {"curve": _EXPONENTIAL, "jitter": "even"}),
    # n^4 + 15 + U(0,1) * 30 * (n + 1), n from 1.
    (
        "sidekiq",
        {
            "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}},
            "jitter": {"window": {"low": {"times": 1}, "high": {"times": 1, "grow": "30s", "add": "30s"}}},
        },
    ),
    (
        "even on sidekiq's mean",
        {"curve": {"power": {"base": "30s", "exponent": 4, "origin": 1, "slope": "15s"}}, "jitter": "even"},
    ),
    # U(n^3, (n + 2)^3), n from 1.
    ("buckets", {"curve": _CUBES[0], "jitter": {"up_to": _CUBES[1]}}),
    (
        "even on buckets' mean",
        {"curve": {"scale": {"by": 0.5, "curve": {"sum": [*_CUBES]}}}, "jitter": "even"},
    ),
)
"""The four functions of "Visualization of backoff functions" as that text has them, each followed by `even` on the same
mean waits."""


def herd(jobs: int = 100, retries: int = 5, seed: int = 1) -> Picture:
    """Give the dot charts of four functions, each with `even` on the same mean waits beside it.

    Args:
        jobs: Jobs that fail together at 0.
        retries: Retries of each job, all failing.
        seed: Chance.

    Raises:
        InvalidInput: A number is out of bounds.
    """
    whole("retries", retries, 1, 25, "the retries to show")
    whole("jobs", jobs, 1, 1_000, "the jobs of each herd")
    panels = [
        dots(Named(label, Policy.from_json(body | {"limit": retries})), jobs, retries, seed)
        for label, body in HERD
    ]
    pairs = [on_one_axis(panels[place : place + 2]) for place in range(0, len(panels), 2)]
    changed = {} if seed == 1 else {"seed": seed}
    return Picture(
        title=f"{jobs:,} jobs fail together, and at each of {retries} retries",
        panels=tuple(panel for pair in pairs for panel in pair),
        columns=2,
        log=False,
        link=_link("herd", jobs=jobs, retries=retries, **changed),
        caption="A row for each job, a dot for each retry. Each function is followed by even on the same mean waits.",
    )


def classic(name: str, given: Mapping[str, Any]) -> Picture:
    """Give a classic picture by its name.

    Args:
        name: ``zizq``, ``zaqar`` or ``herd``.
        given: Its parameters by the names that commands and links use (``base``, ``low``, ``jobs`` ...), durations in
            ms; what is left out has its default.

    Raises:
        InvalidInput: No such picture, no such parameter, or a value that does not fit.
    """
    if name not in _PARAMETERS:
        raise refused("classic", name, f"one of: {', '.join(CLASSICS)}")
    make, names = _PARAMETERS[name]
    for other in given:
        if other not in names:
            raise InvalidInput(
                f"{other}: is no parameter of {name}; expected: {', '.join(names)}", field=other
            )
    return make(**{names[key]: value for key, value in given.items()})


_PARAMETERS: Final[dict[str, tuple[Callable[..., Picture], dict[str, str]]]] = {
    "zizq": (
        zizq,
        {"base": "base_ms", "exponent": "exponent", "jitter": "jitter_ms", "retries": "retries"},
    ),
    "zaqar": (zaqar, {"low": "low_ms", "high": "high_ms", "retries": "retries"}),
    "herd": (herd, {"jobs": "jobs", "retries": "retries", "seed": "seed"}),
}
