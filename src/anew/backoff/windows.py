"""Jitter that opens a window around the nominal wait and draws one number in it.

A window has two bounds, a distribution (any real value, a die with so many faces, or whole steps) and a
source of the number: ``rng`` (fresh at every retry), ``hash`` (of id and retry: fresh, yet reproducible) or
``job`` (one number per job for life, which keeps a herd apart far better at the same waits). It may begin at
a later retry than the first, and draw again what would come out too long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from anew.backoff.chance import Draws
from anew.backoff.curves import A_CURVE, Curve
from anew.backoff.fields import One, Piece, of
from anew.backoff.jitter import Drawn, JitterPiece, Nominal, Reach
from anew.backoff.kinds import CEILING_MS, Choice, Duration, Integer, Number, invalid_policy
from anew.units import format_duration_short


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed(JitterPiece):
    """Base of the jitters that draw one number inside a window.

    Args:
        faces: None: any real value. m: only m equally spaced values, the lowest included, the top never
            reached; ``rand(30)`` is a die of 30 faces.
        step: None, or the distance of the possible values: a die with as many faces as fit.
        source: Where the number comes from.
        cut: None, or the unit that the drawn part is cut down to, as ``trunc`` does; where the window is no
            whole number of units, its last value comes up more rarely than the others.
        redraw: None, or the longest wait: a draw at or above it is drawn again, from half of it up to it, so
            that jobs at the cap stay apart. The part of the number that lies above serves as the second
            draw, which is uniform again.
        since: The first retry with jitter, counted through all phases; those before wait exactly as told.
    """

    faces: int | None = field(default=None, metadata=of(Integer(1, 1_000_000, optional=True)))
    step_ms: int | None = field(default=None, metadata=of(Duration(optional=True)))
    source: str = field(default="rng", metadata=of(Choice("rng", "hash", "job")))
    cut_ms: int | None = field(default=None, metadata=of(Duration(optional=True)))
    redraw_ms: int | None = field(default=None, metadata=of(Duration(optional=True)))
    since: int = field(default=1, metadata=of(Integer(1)))

    def check(self) -> None:
        """Refuse two dice in one hand, and units of nothing."""
        if self.faces is not None and self.step_ms is not None:
            raise invalid_policy("step", self.step_ms, "either faces or step, not both")
        for name, value in (("step", self.step_ms), ("cut", self.cut_ms), ("redraw", self.redraw_ms)):
            if value == 0:
                raise invalid_policy(name, 0, f"a {name} above 0, or null")
        for name, value in (("cut", self.cut_ms), ("redraw", self.redraw_ms)):
            if value is not None and (self.faces is not None or self.step_ms is not None):
                raise invalid_policy(name, format_duration_short(value), f"no {name} beside faces or step")
        if self.cut_ms is not None and self.redraw_ms is not None:
            raise invalid_policy(
                "redraw", format_duration_short(self.redraw_ms), "either cut or redraw, not both"
            )

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give both ends of the window in milliseconds, ``since`` and ``redraw`` left aside."""
        raise NotImplementedError

    def ends(self, retry: int, k: int, nominal: float) -> tuple[float, float]:
        """Give both ends of a retry's window; before ``since`` they coincide."""
        return self.bounds(k, nominal) if retry >= self.since else (nominal, nominal)

    def draw(
        self, retry: int, k: int, nominal: float, curve: Nominal, draws: Draws, carry: float | None
    ) -> Drawn:
        """Draw inside the window; a window without width draws nothing, so that seeded runs stay alike."""
        low, high = self.bounds(k, nominal) if retry >= self.since else (nominal, nominal)
        if not high > low:
            return Drawn(low, None)
        source = self.source
        number = (
            draws.rng() if source == "rng" else draws.lifelong() if source == "job" else draws.hashed(retry)
        )
        return Drawn(self.at(low, high, number), number)

    def at(self, low: float, high: float, number: float) -> float:
        """Give the wait that a number in [0, 1) stands for, in a window with some width."""
        if (self.faces is not None or self.step_ms is not None) and number == number:
            return self._face(low, high, number)
        if self.cut_ms is not None:
            return low + number * (high - low) // self.cut_ms * self.cut_ms
        wait = low + number * (high - low)
        # Rounding may land on the open end, which is not part of the window.
        wait = wait if wait < high else math.nextafter(high, low)
        return wait if self.redraw_ms is None or wait < self.redraw_ms else self._again(low, high, wait)

    def reach(self, retry: int, k: int, nominal: float, curve: Nominal, before: float) -> Reach:
        """Give the window; for a die, its highest face."""
        low, high = self.ends(retry, k, nominal)
        high = max(low, high)
        if self.faces is not None or self.step_ms is not None:
            high = self._face(low, high, 1.0)
        elif high > low and self.cut_ms is not None:
            high = low + (math.ceil((high - low) / self.cut_ms) - 1) * self.cut_ms
        elif self.redraw_ms is not None and high > max(low, self.redraw_ms):
            low, high = min(low, self.redraw_ms / 2), float(self.redraw_ms)
        return Reach(low, high, low, high)

    def _face(self, low: float, high: float, number: float) -> float:
        """Give the value under a number in [0, 1); 1 stands for the highest face."""
        if self.step_ms is not None:
            faces = max(1, int((high - low) // self.step_ms))
            return low + min(int(number * faces), faces - 1) * self.step_ms
        faces = self.faces or 1
        return low + (high - low) * min(int(number * faces), faces - 1) / faces

    def _again(self, low: float, high: float, wait: float) -> float:
        """Give ``[redraw/2, redraw)`` for a wait in ``[redraw, high)``."""
        top = float(self.redraw_ms or 0)
        start = max(low, top)
        again = top / 2 + (wait - start) / (high - start) * (top / 2)
        return again if again < top else math.nextafter(top, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(Windowed):
    """Anything from nothing to the nominal wait: ``[0, c)``, "full jitter" of the AWS blog."""

    name: ClassVar[str] = "full"

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[0, c)``."""
        return 0.0, nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal(Windowed):
    """Half of the nominal wait is sure: ``[c/2, c)``, "equal jitter" of the AWS blog."""

    name: ClassVar[str] = "equal"

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[c/2, c)``."""
        return nominal / 2, nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class Above(Windowed):
    """Upwards by a share: ``[c, (1 + share) * c)``."""

    name: ClassVar[str] = "above"
    inline: ClassVar[str] = "share"
    share: float = field(metadata=of(Number(0, 1_000)))

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[c, (1 + share) * c)``."""
        return nominal, nominal + self.share * nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class Below(Windowed):
    """Downwards by a share: ``[(1 - share) * c, c)``; it never passes the cap."""

    name: ClassVar[str] = "below"
    inline: ClassVar[str] = "share"
    share: float = field(metadata=of(Number(0, 1)))

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[(1 - share) * c, c)``."""
        return nominal - self.share * nominal, nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class Around(Windowed):
    """Both ways by a share: ``[(1 - share) * c, (1 + share) * c)``."""

    name: ClassVar[str] = "around"
    inline: ClassVar[str] = "share"
    share: float = field(metadata=of(Number(0, 1)))

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[(1 - share) * c, (1 + share) * c)``."""
        part = self.share * nominal
        return nominal - part, nominal + part


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Windowed):
    """Upwards by the same amount at every retry: ``[c, c + by)``."""

    name: ClassVar[str] = "add"
    inline: ClassVar[str] = "by"
    by_ms: int = field(metadata=of(Duration()))

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[c, c + by)``."""
        return nominal, nominal + self.by_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow(Windowed):
    """Upwards by an amount that grows with the retries: ``[c, c + by * k)``, as Zizq, Faktory, Sidekiq."""

    name: ClassVar[str] = "grow"
    inline: ClassVar[str] = "by"
    by_ms: int = field(metadata=of(Duration()))

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[c, c + by * k)``."""
        return nominal, nominal + self.by_ms * k


@dataclass(frozen=True, slots=True, kw_only=True)
class UpTo(Windowed):
    """From the nominal wait up to a second curve: ``[c, curve(k))``."""

    name: ClassVar[str] = "up_to"
    inline: ClassVar[str] = "curve"
    curve: Curve = field(metadata=of(A_CURVE))

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[c, curve(k))``."""
        return nominal, min(self.curve.at(k), CEILING_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound(Piece):
    """One end of a window: ``times * c + grow * k + add``."""

    times: float = field(default=0.0, metadata=of(Number(0, 1_000)))
    grow_ms: int = field(default=0, metadata=of(Duration()))
    add_ms: int = field(default=0, metadata=of(Duration()))

    def at(self, k: int, nominal: float) -> float:
        """Give the end in milliseconds."""
        return self.times * nominal + self.grow_ms * k + self.add_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Windowed):
    """Any window: ``[low, high)`` with both ends made of the nominal wait, the retry and a constant."""

    name: ClassVar[str] = "window"
    low: Bound = field(metadata=of(One(Bound)))
    high: Bound = field(metadata=of(One(Bound)))

    def check(self) -> None:
        """Refuse an upper end that could fall below the lower one."""
        Windowed.check(self)
        for name in ("times", "grow_ms", "add_ms"):
            low, high = getattr(self.low, name), getattr(self.high, name)
            if low > high:
                field_name = name.removesuffix("_ms")
                raise invalid_policy(
                    f"high.{field_name}", high, f"at least low.{field_name}, which is {low:g}"
                )

    def bounds(self, k: int, nominal: float) -> tuple[float, float]:
        """Give ``[low, high)``."""
        return self.low.at(k, nominal), self.high.at(k, nominal)
