"""Pictures that people know, each made by one command and one link.

Sources: Zizq 0.6.1, "Backoff & Retry Policies"; OpenStack Zaqar, "Support More Backoff Functions", and the Amazon SNS
developer guide, "Message delivery retries"; Ananthakumaran, "Visualization of backoff functions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from anew.backoff import Policy
from anew.backoff.kinds import Duration, Integer, Kind, Number
from anew.errors import InvalidInput
from anew.lab.charts.data import curve_band, dots, line_words, on_one_axis
from anew.lab.charts.pictures import Picture
from anew.lab.named import Named
from anew.lab.simulation.scenario import MAX_SEED
from anew.units import HOUR_MS, SECOND_MS, format_duration, format_duration_short, refused

CLASSICS: Final = {
    "zizq": "Zizq's band for any base, exponent and jitter",
    "zaqar": "the four functions between two waits, named by Zaqar and SNS",
    "herd": "herds as dots: constant, exponential, Sidekiq and buckets, each followed by even",
}
"""Their names, and what is seen."""

_RETRIES: Final = Integer(1, 100)


class Parameter(NamedTuple):
    """One thing that may be changed about a classic picture.

    Args:
        argument: What the function that makes the picture calls it.
        kind: What it may be.
        default: What it is where nothing is said, in its inner form.
        help: What it is for people, without a full stop.
    """

    argument: str
    kind: Kind
    default: Any
    help: str


PARAMETERS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "zizq": {
        "base": Parameter("base_ms", Duration(), 15_000, "the fixed part"),
        "exponent": Parameter("exponent", Number(0, 20), 4.0, "the power of k"),
        "jitter": Parameter("jitter_ms", Duration(), 30_000, "what each retry adds to the jitter"),
        "retries": Parameter("retries", _RETRIES, 25, "the retries shown"),
    },
    "zaqar": {
        "low": Parameter("low_ms", Duration(), 5_000, "the first wait"),
        "high": Parameter("high_ms", Duration(), 260_000, "the last wait"),
        "retries": Parameter("retries", _RETRIES, 10, "the retries between the two waits"),
    },
    "herd": {
        "jobs": Parameter("jobs", Integer(1, 1_000), 100, "the jobs of each herd"),
        "retries": Parameter("retries", Integer(1, 25), 5, "the retries shown"),
        "seed": Parameter("seed", Integer(0, MAX_SEED), 1, "for the jitter's draws"),
    },
}
"""Of each picture, by the names that commands and links use: all that may be changed."""


def _default(picture: str, name: str) -> Any:
    return PARAMETERS[picture][name].default


def _checked(picture: str, **given: Any) -> None:
    """Refuse what does not fit, by the names that commands and links use."""
    for name, value in given.items():
        PARAMETERS[picture][name].kind.read(value, name)


def _link(name: str, **parameters: Any) -> str:
    return "/lab?" + urlencode({"classic": name, **parameters})


def _typed(ms: int) -> str:
    """Write a duration as people type it in this field: seconds as long as there are few of them."""
    return f"{ms // SECOND_MS}s" if ms % SECOND_MS == 0 and ms < HOUR_MS else format_duration_short(ms)


def zizq(
    base_ms: int = _default("zizq", "base"),
    exponent: float = _default("zizq", "exponent"),
    jitter_ms: int = _default("zizq", "jitter"),
    retries: int = _default("zizq", "retries"),
) -> Picture:
    """Give Zizq's band: ``base + k**exponent s``, plus up to ``k * jitter``.

    Args:
        base_ms: B, the wait's fixed part.
        exponent: E.
        jitter_ms: J, what each retry adds to the jitter.
        retries: Retries shown.

    Raises:
        InvalidInput: A value does not fit.
    """
    _checked("zizq", base=base_ms, exponent=exponent, jitter=jitter_ms, retries=retries)
    policy = Policy.from_json(
        {"base_ms": base_ms, "exponent": exponent, "jitter_ms": jitter_ms, "limit": retries}
    )
    base, jitter = _typed(base_ms), _typed(jitter_ms)
    formula = f"{format_duration(base_ms)} + k^{exponent:g} s + up to k × {format_duration(jitter_ms)}"
    parameters = {"base": base, "exponent": f"{exponent:g}", "jitter": jitter}
    if retries != _default("zizq", "retries"):
        parameters["retries"] = str(retries)
    band = curve_band([Named("zizq", policy)], retries)
    return Picture(
        title=f"Zizq's backoff: {formula}",
        panels=(band,),
        link=_link("zizq", **parameters),
        caption="The shade reaches from the earliest to the latest wait before each retry k; "
        f"the line is {line_words(band)}.",
    )


def zaqar(
    low_ms: int = _default("zaqar", "low"),
    high_ms: int = _default("zaqar", "high"),
    retries: int = _default("zaqar", "retries"),
) -> Picture:
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
    _checked("zaqar", low=low_ms, high=high_ms, retries=retries)
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


def herd(
    jobs: int = _default("herd", "jobs"),
    retries: int = _default("herd", "retries"),
    seed: int = _default("herd", "seed"),
) -> Picture:
    """Give the dot charts of four functions, each with `even` on the same mean waits beside it.

    Args:
        jobs: Jobs that fail together at 0.
        retries: Retries of each job, all failing.
        seed: Chance.

    Raises:
        InvalidInput: A number is out of bounds.
    """
    _checked("herd", jobs=jobs, retries=retries, seed=seed)
    panels = [
        dots(Named(label, Policy.from_json(body | {"limit": retries})), jobs, retries, seed)
        for label, body in HERD
    ]
    pairs = [on_one_axis(panels[place : place + 2]) for place in range(0, len(panels), 2)]
    changed = {} if seed == _default("herd", "seed") else {"seed": seed}
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
    if name not in PARAMETERS:
        raise refused("classic", name, f"one of: {', '.join(CLASSICS)}")
    taken = PARAMETERS[name]
    for other in given:
        if other not in taken:
            raise InvalidInput(
                f"{other}: is no parameter of {name}; expected: {', '.join(taken)}", field=other
            )
    return MAKERS[name](**{taken[key].argument: value for key, value in given.items()})


MAKERS: Final[Mapping[str, Callable[..., Picture]]] = {"zizq": zizq, "zaqar": zaqar, "herd": herd}
"""What makes each picture, by its name; takes the arguments of its parameters."""


def typed_default(picture: str, name: str) -> str:
    """Write what a parameter is where nothing is said, as people would type it."""
    parameter = PARAMETERS[picture][name]
    if isinstance(parameter.kind, Duration):
        return _typed(parameter.default)
    return f"{parameter.default:g}"
