"""Curves: the nominal wait before retry k, k = 1 being the first. Milliseconds in, milliseconds out.

Each constructor has its origin built in, so that nobody asks whether the first retry sees 0 or 1. Values are
floats and may be infinite where a formula overflows; the policy holds them to its cap and to 365 days.
The arithmetic is in milliseconds, not seconds, because the parameters are whole milliseconds: 64.1 s
is exactly 64100, while 64.1 * 1000 falls a hair below and would lose a millisecond when cut to an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from anew.backoff.between import Between
from anew.backoff.fields import Piece, Tagged, of
from anew.backoff.kinds import (
    MAX_COUNT,
    MAX_NUMBER,
    MAX_WAITS,
    Duration,
    Integer,
    ListOf,
    Number,
    invalid_policy,
    invalid_size,
)

MAX_DEPTH: Final = 5
_MAX_TERMS: Final = 16
_MAX_RETRIES: Final = 1_000_000
_TIE: Final = 1e-9


class Curve(Protocol):
    """Any nominal wait as a function of the retry number."""

    def at(self, k: int) -> float:
        """Give the wait before retry k >= 1 in milliseconds: >= 0, never NaN, infinite on overflow."""


class CustomFailed(Exception):
    """A user's function gave no usable wait; the policy falls back to the default curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """Any function of the retry number. It exists in Python only; JSON cannot carry it.

    Args:
        function: Takes k (1 = first retry), returns milliseconds. Below zero counts as zero, infinity as
            "the cap". When it raises, or returns NaN or no number, the default curve is used for that retry.
    """

    name: ClassVar[str] = "custom"
    function: Callable[[int], float]

    def at(self, k: int) -> float:
        """Ask the function."""
        try:
            value = self.function(k)
            number = float(value) if isinstance(value, (int, float)) else math.nan
        except OverflowError:
            raise CustomFailed("it overflowed") from None
        except Exception as error:
            raise CustomFailed(f"it raised {type(error).__name__}") from error
        if math.isnan(number) or isinstance(value, bool):
            raise CustomFailed(f"it returned no number but {type(value).__name__}")
        return max(number, 0.0)


A_CURVE: Final = Tagged("a curve", lambda: CURVES, besides=Custom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Piece):
    """The same wait every time."""

    name: ClassVar[str] = "constant"
    inline: ClassVar[str] = "wait"
    wait_ms: int = field(metadata=of(Duration()))

    def at(self, k: int) -> float:
        """Give ``wait``."""
        return float(self.wait_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Piece):
    """``base + step * (k - 1)``."""

    name: ClassVar[str] = "linear"
    base_ms: int = field(metadata=of(Duration()))
    step_ms: int = field(metadata=of(Duration()))

    def at(self, k: int) -> float:
        """Give the wait before retry k."""
        return float(self.base_ms + self.step_ms * (k - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Power(Piece):
    """``base + scale * x**exponent + slope * x`` with ``x = k - 1 + origin``.

    Zizq counts from 1, Sidekiq and Faktory from 0; the window of 25 retries at the fourth power is 24.9 days
    from 1 and 20.4 days from 0. ``0**0`` is 1. An exponent below 0 makes the waits shrink, which Zizq allows; it
    needs an origin, because 0 has no such power.
    """

    name: ClassVar[str] = "power"
    base_ms: int = field(default=0, metadata=of(Duration()))
    exponent: float = field(metadata=of(Number(-MAX_NUMBER)))
    origin: int = field(default=0, metadata=of(Integer(0, _MAX_RETRIES)))
    scale_ms: int = field(default=1_000, metadata=of(Duration()))
    slope_ms: int = field(default=0, metadata=of(Duration()))

    def check(self) -> None:
        """Refuse powers of 0 that do not exist."""
        if self.exponent < 0 and not self.origin:
            raise invalid_policy("exponent", self.exponent, "at least 0 unless origin is 1 or more")

    def at(self, k: int) -> float:
        """Give the wait before retry k."""
        x = k - 1 + self.origin
        try:
            return self.base_ms + self.scale_ms * math.pow(x, self.exponent) + self.slope_ms * x
        except OverflowError:
            return math.inf if self.scale_ms else float(self.base_ms + self.slope_ms * x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(Piece):
    """``base * factor**(k - 1)``; after ``knee`` multiplications it goes on in a straight line.

    The line's step is ``base * factor**knee``, as in Google Cloud Tasks with its maximum of doublings.
    """

    name: ClassVar[str] = "exponential"
    base_ms: int = field(metadata=of(Duration()))
    factor: float = field(default=2.0, metadata=of(Number(0, 1e6, above=True)))
    knee: int | None = field(default=None, metadata=of(Integer(0, MAX_COUNT, optional=True)))

    def at(self, k: int) -> float:
        """Give the wait before retry k."""
        if self.base_ms == 0:
            return 0.0
        knee = self.knee
        steps = k - 1 if knee is None or k - 1 < knee else knee
        try:
            return self.base_ms * self.factor**steps * (k - steps)
        except OverflowError:
            return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Piece):
    """A list of waits; the last one repeats."""

    name: ClassVar[str] = "table"
    inline: ClassVar[str] = "waits"
    waits_ms: tuple[int, ...] = field(metadata=of(ListOf(Duration(), 1, MAX_WAITS)))

    def at(self, k: int) -> float:
        """Give the wait before retry k."""
        waits = self.waits_ms
        return float(waits[k - 1] if k <= len(waits) else waits[-1])


def _fibonacci(count: int) -> tuple[int, ...]:
    numbers = [1, 1]
    while len(numbers) < count:
        numbers.append(numbers[-1] + numbers[-2])
    return tuple(numbers)


# The 64th is 1.06e13: one millisecond times that is 335 years, so nothing is lost by stopping there.
_FIBONACCI: Final = _fibonacci(64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fibonacci(Piece):
    """``unit`` times 1, 1, 2, 3, 5, 8 …"""

    name: ClassVar[str] = "fibonacci"
    inline: ClassVar[str] = "unit"
    unit_ms: int = field(metadata=of(Duration()))

    def at(self, k: int) -> float:
        """Give the wait before retry k."""
        return float(self.unit_ms * _FIBONACCI[min(k, len(_FIBONACCI)) - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Piece):
    """Several curves added up."""

    name: ClassVar[str] = "sum"
    inline: ClassVar[str] = "curves"
    curves: tuple[Curve, ...] = field(metadata=of(ListOf(A_CURVE, 1, _MAX_TERMS)))

    def check(self) -> None:
        """Refuse curves in curves in curves."""
        _refuse_deep(self, "curves")

    def at(self, k: int) -> float:
        """Give the sum of the waits before retry k."""
        return sum(curve.at(k) for curve in self.curves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Piece):
    """A curve times a factor."""

    name: ClassVar[str] = "scale"
    by: float = field(metadata=of(Number(0)))
    curve: Curve = field(metadata=of(A_CURVE))

    def check(self) -> None:
        """Refuse curves in curves in curves."""
        _refuse_deep(self, "curve")

    def at(self, k: int) -> float:
        """Give the scaled wait before retry k."""
        return self.curve.at(k) * self.by if self.by else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch(Piece):
    """A curve slowed down: what it says of one retry holds for ``by`` retries, however many there are.

    With ``x = k - 1 + origin`` the curve is read at ``1 + x / by``, to the nearest whole number, halves up.

    Source:
        Oban's default backoff, which keeps the last wait of 20 attempts whatever ``max_attempts`` says.
    """

    name: ClassVar[str] = "stretch"
    by: float = field(metadata=of(Number(0.001, 1e6)))
    curve: Curve = field(metadata=of(A_CURVE))
    origin: int = field(default=0, metadata=of(Integer(0, _MAX_RETRIES)))

    def check(self) -> None:
        """Refuse curves in curves in curves."""
        _refuse_deep(self, "curve")

    def at(self, k: int) -> float:
        """Give what the curve says at the retry's place on it."""
        # 708 / 94.4 is a hair below 7.5; a half is meant.
        return self.curve.at(1 + math.floor((k - 1 + self.origin) / self.by + 0.5 + _TIE))


def inner(curve: Curve) -> tuple[tuple[str, Curve], ...]:
    """Give the curves that a curve is made of, each with the path of its field: ``sum[0]``, ``stretch.curve``.

    A plain one is made of none. Whoever looks into curves asks here, so that no kind is left out anywhere.
    """
    match curve:
        case Sum():
            return tuple((f"{curve.name}[{index}]", part) for index, part in enumerate(curve.curves))
        case Scale() | Stretch():
            return ((f"{curve.name}.curve", curve.curve),)
    return ()


def depth(curve: Curve) -> int:
    """Count how deep curves are nested; a plain one is 1."""
    return 1 + max((depth(part) for _, part in inner(curve)), default=0)


def _refuse_deep(curve: Curve, field: str) -> None:
    levels = depth(curve)
    if levels > MAX_DEPTH:
        raise invalid_size(field, f"a curve of {levels} levels", f"curves nested at most {MAX_DEPTH} deep")


def is_custom(curve: Curve) -> bool:
    """Report whether a user's own function takes part in a curve."""
    parts = inner(curve)
    return any(is_custom(part) for _, part in parts) if parts else not isinstance(curve, Piece)


CURVES: Final[dict[str, type[Piece]]] = {
    piece.name: piece
    for piece in (Constant, Linear, Power, Exponential, Between, Table, Fibonacci, Sum, Scale, Stretch)
}
"""Every curve that JSON can name."""

EVEN_CURVE: Final = Power(base_ms=30_000, exponent=4, slope_ms=15_000)
"""``15 + 15k + (k-1)**4`` seconds: Sidekiq's expected wait; a failing custom function falls back to it."""
