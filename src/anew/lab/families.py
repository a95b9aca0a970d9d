"""The families that ``fit`` proposes: curves with one free parameter that decides the whole window.

Each begins at the first wait that was asked for and never shrinks; a larger parameter makes a longer window, so
that halving an interval finds the one that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from anew.backoff import CEILING_MS
from anew.units import format_duration_short as _short

_MOST_EXPONENT: Final = 64.0
_MOST_FACTOR: Final = 1e6


class Step(NamedTuple):
    """One equation: the curve's JSON form as a function of the parameter that is solved for, and its sum in words."""

    name: str
    low: float
    """Where every wait is the first one; beyond `high` nothing is looked for."""
    high: float
    whole: bool
    """Whether it is whole milliseconds."""
    curve: Callable[[float], dict[str, Any]]
    equation: str

    def text(self, value: float) -> str:
        """Write a value for people."""
        return _short(round(value)) if self.whole else f"{value:.12g}"


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of curve, with the jitter that belongs to it."""

    name: str
    """What people write after ``--like``."""
    curve: str
    manner: str
    """The waits, k = 1 being the first, and the jitter in words."""
    jitter: Callable[[int], Any]
    """From the first wait in ms to the jitter's JSON form."""
    steps: Callable[[int, int], list[Step]] | None
    """The equations, from the first wait in ms and the number of retries; the next one is taken where one does not reach the
    window. None: there is nothing to solve, every wait is the first one."""
    finer: Callable[[int, int, float], Step] | None = None
    """A second equation with the value of the first put in, for where whole milliseconds are too coarse."""


def _power(base: float, scale: float, exponent: float, origin: int) -> dict[str, Any]:
    return {"power": {"base": round(base), "scale": round(scale), "exponent": exponent, "origin": origin}}


def _powers(retries: int, exponent: int, start: int) -> int:
    return sum(k**exponent for k in range(start, start + retries))


def _sum(term: Callable[[int], str], first: int, last: int) -> str:
    """Write a sum: every term where they are few, else the first and the last."""
    if last - first < 3:
        return " + ".join(map(term, range(first, last + 1)))
    return f"{term(first)} + ... + {term(last)}"


def _to_the_e(k: int) -> str:
    return f"{k}^e"


def _scale(most: float, curve: Callable[[float], dict[str, Any]], equation: str) -> Step:
    return Step("scale", 0, most, True, curve, equation)


def _exponent(base: float, scale: float, origin: int, equation: str) -> Step:
    return Step("exponent", 0, _MOST_EXPONENT, False, lambda e: _power(base, scale, e, origin), equation)


def _fourth_power(first: int, retries: int) -> list[Step]:
    powers = _sum(lambda k: f"{k}^4", 1, retries - 1)
    equation = f"{retries} * {_short(first)} + scale * {_powers(retries, 4, 0)} ({powers})"
    return [_scale(CEILING_MS, lambda scale: _power(first, scale, 4, 0), equation)]


def _finer_power(first: int, retries: int, scale: float) -> Step:
    equation = f"{retries} * {_short(first)} + {_short(round(scale))} * ({_sum(_to_the_e, 1, retries - 1)})"
    return _exponent(first, scale, 0, equation)


def _from_one(first: int, retries: int) -> list[Step]:
    powers = _sum(lambda k: f"{k}^4 - 1", 2, retries)
    equation = f"{retries} * {_short(first)} + scale * {_powers(retries, 4, 1) - retries} ({powers})"
    return [_scale(first, lambda s: _power(first - s, s, 4, 1), equation), *_exponents(first, retries)]


def _finer_from_one(first: int, retries: int, scale: float) -> Step:
    equation = f"{retries} * {_short(round(first - scale))} + {_short(round(scale))} * (1 + {_sum(_to_the_e, 2, retries)})"
    return _exponent(first - scale, scale, 1, equation)


def _exponents(first: int, retries: int) -> list[Step]:
    return [_exponent(0, first, 1, f"{_short(first)} * (1 + {_sum(_to_the_e, 2, retries)})")]


def _factors(first: int, retries: int) -> list[Step]:
    equation = f"{_short(first)} * (factor^{retries} - 1) / (factor - 1)"
    return [
        Step(
            "factor", 1, _MOST_FACTOR, False,
            lambda f: {"exponential": {"base": first, "factor": f}}, equation,
        )
    ]  # fmt: skip


def _slopes(first: int, retries: int) -> list[Step]:
    equation = f"{retries} * {_short(first)} + step * {retries * (retries - 1) // 2}"
    return [
        Step("step", 0, CEILING_MS, True, lambda s: {"linear": {"base": first, "step": round(s)}}, equation)
    ]


def _ends(first: int, retries: int) -> list[Step]:
    equation = f"{retries} * ({_short(first)} + high) / 2"
    return [
        Step(
            "high", first, CEILING_MS, True,
            lambda end: {"between": {"low": first, "high": round(end), "retries": retries}}, equation,
        )
    ]  # fmt: skip


_FOURTH: Final = "first + scale * (k - 1)^4"
_TIMES: Final = "first * factor^(k - 1)"
_EVENLY: Final = "spread evenly"
_FACES: Final = "a growing jitter from a die of 30 faces"


def _die(first: int) -> Any:
    # 30 s beside a base of 15 s, in Zizq, Sidekiq and Faktory.
    return {"grow": {"by": 2 * first, "faces": 30}}


_ALL: Final = (
    Family("even", _FOURTH, _EVENLY, lambda _: "even", _fourth_power, _finer_power),
    Family("sidekiq", _FOURTH, _FACES, _die, _fourth_power, _finer_power),
    Family("faktory", _FOURTH, _FACES, _die, _fourth_power, _finer_power),
    Family(
        "zizq",
        "first - scale + scale * k^4",
        "a growing jitter",
        lambda first: {"grow": 2 * first},
        _from_one,
        _finer_from_one,
    ),
    Family("river", "first * k^e", "10 % up and down", lambda _: {"around": 0.1}, _exponents),
    Family("power", "first * k^e", _EVENLY, lambda _: "even", _exponents),
    Family("exponential", _TIMES, _EVENLY, lambda _: "even", _factors),
    Family(
        "zzz_jobs",
        _TIMES,
        "up to a quarter above",
        lambda _: {"above": {"share": 0.25, "source": "hash"}},
        _factors,
    ),
    Family(
        "linear",
        "first + step * (k - 1)",
        _EVENLY,
        lambda _: "even",
        _slopes,
        # By its end, of which a millisecond moves the window less than one of its step.
        lambda first, retries, _: _ends(first, retries)[0],
    ),
    Family("between", "from first to high in equal steps", _EVENLY, lambda _: "even", _ends),
    Family("constant", "first, always", _EVENLY, lambda _: "even", None),
)

FAMILIES: Final[dict[str, Family]] = {family.name: family for family in _ALL}
"""Every family by its name."""
