"""What one field of a policy may hold: durations, numbers, words, lists; read strictly, written readably."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from anew.errors import InvalidInput, InvalidPolicy
from anew.units import DAY_MS, counted, format_duration_short, parse_duration, refused_as

CEILING_MS: Final = 365 * DAY_MS
"""No wait is ever longer, whatever a policy says: far ahead, due times leave the range of calendars."""

MAX_COUNT: Final = 1_000_000_000
MAX_WAITS: Final = 1_000
MAX_NUMBER: Final = 1e12

_LONGEST_GUESS: Final = 64
_NO_NAMES: Final = frozenset({"null", "nil", "undefined", "true", "false"})
"""What programs print where they have no name; "null" is no slip for "full"."""


def invalid_policy(field: str, value: object, expected: str) -> InvalidPolicy:
    """Build the error that names field, value and expectation."""
    return refused_as(InvalidPolicy, field, value, expected)


def invalid_size(field: str, what: str, expected: str) -> InvalidPolicy:
    """Build the error about how much stands there, which is told in place of all of it."""
    return InvalidPolicy(f"{field}: {what} is not valid; expected {expected}", field=field, value=what)


def missing(field: str, expected: str) -> InvalidPolicy:
    """Build the error about a field that is required and not there."""
    return InvalidPolicy(f"{field}: is missing; expected {expected}", field=field)


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """Give the end of an error's sentence that names what was probably meant; nothing if nothing comes close.

    Args:
        given: What stands there in place of a name.
        names: What may stand there.
    """
    close = closest(given, names)
    return "" if close is None else f'; did you mean "{close}"?'


def closest(given: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Give the name that was probably meant; None if nothing comes close.

    Args:
        given: What stands there in place of a name.
        names: What may stand there.
        cutoff: How like it has to be, from 0 to 1.
    """
    if not isinstance(given, str) or len(given) > _LONGEST_GUESS:
        return None
    import difflib  # only where somebody has mistyped

    word = given.strip().lower().replace("-", "_").replace(" ", "_")
    close = difflib.get_close_matches(word, [*names], n=1, cutoff=cutoff) if word not in _NO_NAMES else []
    return close[0] if close else None


class Kind(Protocol):
    """What a field may hold."""

    @property
    def expected(self) -> str:
        """What is expected, in words: "a number from 0 to 1"."""

    def read(self, value: Any, field: str) -> Any:
        """Check a value, as given in JSON or Python, and give it in its inner form."""

    def write(self, value: Any) -> Any:
        """Give the inner form as JSON."""


class Duration:
    """Whole milliseconds in [0, 365 d], or text such as ``"15s"``."""

    def __init__(self, *, optional: bool = False, maximum_ms: int = CEILING_MS) -> None:
        self.optional = optional
        self.maximum_ms = maximum_ms

    @property
    def expected(self) -> str:
        """A duration, and how one is written."""
        longest = format_duration_short(self.maximum_ms)
        orders = ' such as "15s", or whole milliseconds' + (", or null" if self.optional else "")
        return f"a duration from 0 to {longest}{orders}"

    def read(self, value: Any, field: str) -> int | None:
        """Read a duration; None and infinity mean "none" where that is allowed."""
        if self.optional and (value is None or value == math.inf):
            return None
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        try:
            ms = parse_duration(whole, field=field)
        except InvalidInput:
            ms = -1
        if not 0 <= ms <= self.maximum_ms:
            raise invalid_policy(field, value, self.expected)
        return ms

    def write(self, value: Any) -> Any:
        """Give ``"15s"``; None stays None."""
        return None if value is None else format_duration_short(value)


class Number:
    """A finite number in a range."""

    def __init__(
        self, low: float = 0.0, high: float = MAX_NUMBER, *, above: bool = False, optional: bool = False
    ) -> None:
        self.low, self.high, self.above, self.optional = low, high, above, optional

    @property
    def expected(self) -> str:
        """A number, and its range."""
        span = f"a number {'above' if self.above else 'from'} {self.low:g} to {self.high:g}"
        return span + (", or null" if self.optional else "")

    def read(self, value: Any, field: str) -> float | None:
        """Read a number, and None where that is allowed; text, booleans, NaN and the infinities are none."""
        if value is None and self.optional:
            return None
        number = math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e300:
            number = float(value)
        if not self.low <= number <= self.high or (self.above and number == self.low):
            raise invalid_policy(field, value, self.expected)
        return number

    def write(self, value: Any) -> Any:
        """Give an integer where the number is whole, so that ``4.0`` reads ``4``; None stays None."""
        return int(value) if value is not None and value == int(value) else value


class Integer:
    """A whole number in a range; ``4.0`` counts as whole."""

    def __init__(self, low: int = 0, high: int = MAX_COUNT, *, optional: bool = False) -> None:
        self.low, self.high, self.optional = low, high, optional

    @property
    def expected(self) -> str:
        """A whole number, and its range."""
        return f"a whole number from {self.low} to {self.high}" + (", or null" if self.optional else "")

    def read(self, value: Any, field: str) -> int | None:
        """Read a whole number; None means "none" where that is allowed."""
        if value is None and self.optional:
            return None
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if not isinstance(whole, int) or isinstance(whole, bool) or not self.low <= whole <= self.high:
            raise invalid_policy(field, value, self.expected)
        return whole

    def write(self, value: Any) -> Any:
        """Give it as it is."""
        return value


class Flag:
    """true or false."""

    expected: Final = "true or false"

    def read(self, value: Any, field: str) -> bool:
        """Read a boolean and nothing that merely looks like one."""
        if not isinstance(value, bool):
            raise invalid_policy(field, value, self.expected)
        return value

    def write(self, value: Any) -> Any:
        """Give it as it is."""
        return value


class Choice:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    @property
    def expected(self) -> str:
        """The words."""
        return "one of " + ", ".join(self.words)

    def read(self, value: Any, field: str) -> str:
        """Read one of the words, spelled exactly."""
        if not isinstance(value, str) or value not in self.words:
            raise invalid_policy(field, value, self.expected + did_you_mean(value, self.words))
        return value

    def write(self, value: Any) -> Any:
        """Give it as it is."""
        return value


class ListOf:
    """A list of one kind of thing, of bounded length."""

    def __init__(self, kind: Kind, low: int, high: int) -> None:
        self.kind, self.low, self.high = kind, low, high

    @property
    def expected(self) -> str:
        """A list, and how long it may be."""
        return f"a list of {self.low} to {self.high} elements"

    def read(self, value: Any, field: str) -> tuple[Any, ...]:
        """Read each element; an error names its position."""
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise invalid_policy(field, value, self.expected)
        if not self.low <= len(value) <= self.high:
            raise invalid_size(field, f"a list of {counted(len(value), 'element')}", self.expected)
        return tuple(self.kind.read(element, f"{field}[{index}]") for index, element in enumerate(value))

    def write(self, value: Any) -> Any:
        """Give a list."""
        return [self.kind.write(element) for element in value]
