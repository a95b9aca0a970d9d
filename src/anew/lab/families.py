"""The families that ``fit`` proposes: curves with one free parameter that decides the whole window.

Each begins at the first wait that was asked for and never shrinks; a larger parameter makes a longer window, so
that halving an interval finds the one that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from anew.backoff import CEILING_MS
from anew.units import format_duration_short

_MOST_EXPONENT: Final = 64.0
_MOST_FACTOR: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The parameter that is solved for.

    Args:
        name: What it is called.
        low: Where every wait is the first one.
        high: Beyond this nothing is looked for.
        whole: Whether it is whole milliseconds.
    """

    name: str
    low: float
    high: float
    whole: bool

    def text(self, value: float) -> str:
        """Write a value for people."""
        return format_duration_short(round(value)) if self.whole else f"{value:.12g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One equation: the curve as a function of its unknown.

    Args:
        unknown: What is solved for.
        curve: From its value to the curve's JSON form.
        equation: The equation in words.
    """

    unknown: Unknown
    curve: Callable[[float], dict[str, Any]]
    equation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of curve, with the jitter that belongs to it.

    Args:
        name: What people write after ``--like``.
        curve: The waits in words, k = 1 being the first.
        manner: The jitter in words.
        jitter: From the first wait in ms to the jitter's JSON form.
        steps: The equations, from the first wait in ms and the number of retries; the next one is taken where one
            does not reach the window. None: there is nothing to solve, every wait is the first one.
        finer: A second equation with the value of the first put in, for where whole milliseconds are too coarse.
    """

    name: str
    curve: str
    manner: str
    jitter: Callable[[int], Any]
    steps: Callable[[int, int], list[Step]] | None
    finer: Callable[[int, int, float], Step] | None = None


def _power(base: float, scale: float, exponent: float, origin: int) -> dict[str, Any]:
    return {"power": {"base": round(base), "scale": round(scale), "exponent": exponent, "origin": origin}}


def _powers(retries: int, exponent: int, start: int) -> int:
    return sum(k**exponent for k in range(start, start + retries))


def _sum(term: Callable[[int], str], first: int, last: int) -> str:
    """Write a sum: every term where they are few, else the first and the last."""
    if last - first < 3:
        return " + ".join(map(term, range(first, last + 1)))
    return f"{term(first)} + ... + {term(last)}"


def _short(ms: int) -> str:
    return format_duration_short(ms)


def _to_the_e(k: int) -> str:
    return f"{k}^e"


_SCALE: Final = Unknown(name="scale", low=0, high=CEILING_MS, whole=True)
_EXPONENT: Final = Unknown(name="exponent", low=0, high=_MOST_EXPONENT, whole=False)


def _fourth_power(first: int, retries: int) -> list[Step]:
    powers = _sum(lambda k: f"{k}^4", 1, retries - 1)
    equation = f"{retries} * {_short(first)} + scale * {_powers(retries, 4, 0)} ({powers})"
    return [Step(unknown=_SCALE, curve=lambda scale: _power(first, scale, 4, 0), equation=equation)]


def _finer_power(first: int, retries: int, scale: float) -> Step:
    equation = f"{retries} * {_short(first)} + {_short(round(scale))} * ({_sum(_to_the_e, 1, retries - 1)})"
    return Step(unknown=_EXPONENT, curve=lambda e: _power(first, scale, e, 0), equation=equation)


def _from_one(first: int, retries: int) -> list[Step]:
    total = _powers(retries, 4, 1) - retries
    scale = Unknown(name="scale", low=0, high=first, whole=True)
    powers = _sum(lambda k: f"{k}^4 - 1", 2, retries)
    equation = f"{retries} * {_short(first)} + scale * {total} ({powers})"
    steps = [Step(unknown=scale, curve=lambda s: _power(first - s, s, 4, 1), equation=equation)]
    return steps + _exponents(first, retries)


def _finer_from_one(first: int, retries: int, scale: float) -> Step:
    equation = f"{retries} * {_short(round(first - scale))} + {_short(round(scale))} * (1 + {_sum(_to_the_e, 2, retries)})"
    return Step(unknown=_EXPONENT, curve=lambda e: _power(first - scale, scale, e, 1), equation=equation)


def _exponents(first: int, retries: int) -> list[Step]:
    equation = f"{_short(first)} * (1 + {_sum(_to_the_e, 2, retries)})"
    return [Step(unknown=_EXPONENT, curve=lambda e: _power(0, first, e, 1), equation=equation)]


def _factors(first: int, retries: int) -> list[Step]:
    factor = Unknown(name="factor", low=1, high=_MOST_FACTOR, whole=False)
    equation = f"{_short(first)} * (factor^{retries} - 1) / (factor - 1)"
    return [
        Step(unknown=factor, curve=lambda f: {"exponential": {"base": first, "factor": f}}, equation=equation)
    ]


def _slopes(first: int, retries: int) -> list[Step]:
    step = Unknown(name="step", low=0, high=CEILING_MS, whole=True)
    equation = f"{retries} * {_short(first)} + step * {retries * (retries - 1) // 2}"
    return [
        Step(unknown=step, curve=lambda s: {"linear": {"base": first, "step": round(s)}}, equation=equation)
    ]


def _finer_line(first: int, retries: int, step: float) -> Step:
    """Give the same straight line by its end, of which a millisecond moves the window less than one of its step."""
    return _ends(first, retries)[0]


def _ends(first: int, retries: int) -> list[Step]:
    high = Unknown(name="high", low=first, high=CEILING_MS, whole=True)

    def curve(end: float) -> dict[str, Any]:
        return {"between": {"low": first, "high": round(end), "retries": retries}}

    equation = f"{retries} * ({_short(first)} + high) / 2"
    return [Step(unknown=high, curve=curve, equation=equation)]


def _even(first: int) -> Any:
    return "even"


def _growing(first: int) -> Any:
    # 30 s beside a base of 15 s, in Zizq, Sidekiq and Faktory.
    return {"grow": 2 * first}


def _die(first: int) -> Any:
    return {"grow": {"by": 2 * first, "faces": 30}}


_FOURTH: Final = "first + scale * (k - 1)^4"
_EVENLY: Final = "spread evenly"

FAMILIES: Final[dict[str, Family]] = {
    family.name: family
    for family in (
        Family(
            name="even", curve=_FOURTH, manner=_EVENLY,
            jitter=_even, steps=_fourth_power, finer=_finer_power,
        ),
        Family(
            name="sidekiq", curve=_FOURTH, manner="a growing jitter from a die of 30 faces",
            jitter=_die, steps=_fourth_power, finer=_finer_power,
        ),
        Family(
            name="faktory", curve=_FOURTH, manner="a growing jitter from a die of 30 faces",
            jitter=_die, steps=_fourth_power, finer=_finer_power,
        ),
        Family(
            name="zizq", curve="first - scale + scale * k^4", manner="a growing jitter",
            jitter=_growing, steps=_from_one, finer=_finer_from_one,
        ),
        Family(
            name="river", curve="first * k^e", manner="10 % up and down",
            jitter=lambda first: {"around": 0.1}, steps=_exponents,
        ),
        Family(name="power", curve="first * k^e", manner=_EVENLY, jitter=_even, steps=_exponents),
        Family(
            name="exponential", curve="first * factor^(k - 1)", manner=_EVENLY,
            jitter=_even, steps=_factors,
        ),
        Family(
            name="zzz_jobs", curve="first * factor^(k - 1)", manner="up to a quarter above",
            jitter=lambda first: {"above": {"share": 0.25, "source": "hash"}}, steps=_factors,
        ),
        Family(
            name="linear", curve="first + step * (k - 1)", manner=_EVENLY,
            jitter=_even, steps=_slopes, finer=_finer_line,
        ),
        Family(
            name="between", curve="from first to high in equal steps", manner=_EVENLY,
            jitter=_even, steps=_ends,
        ),
        Family(name="constant", curve="first, always", manner=_EVENLY, jitter=_even, steps=None),
    )
}  # fmt: skip
"""Every family by its name."""
