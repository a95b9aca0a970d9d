"""What a page shows for one value: a box to type in, and a slider where one helps. Made from the value's kind.

The kinds are those by which policies themselves are checked, so a page accepts what the engine accepts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from anew.backoff.kinds import CEILING_MS, Choice, Duration, Flag, Integer, Kind, ListOf, Number
from anew.errors import AnewError, InvalidInput
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration_short, parse_duration_with_unit

MAX_TEXT: Final = 20_000
"""Characters of one value that are read; above it the value is refused, not cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """A slider beside a box.

    Attributes:
        low, high, step: Of its positions.
        at: Its position now.
        ladder: The positions are steps of this ladder; "": they are the values themselves.
        empty: It has one step more, behind the last, where the box is empty: no bound, which is more than any.
    """

    low: float
    high: float
    step: float
    at: float
    ladder: str = ""
    empty: bool = False

    @property
    def end(self) -> float:
        """Its last position."""
        return self.high + self.step if self.empty else self.high


@dataclass(slots=True, kw_only=True)
class Control:
    """One value on the page.

    Attributes:
        name: In the query.
        label: For people.
        text: What its box holds.
        default: What it would hold if nothing were said; such a value stays out of links.
        slider: Beside the box.
        options: Values and labels of a list to choose from; empty: a box.
        wide: The box takes a whole line.
        hint: What it does, in a few words.
        placeholder: Shown in the empty box.
        error: What is wrong with the text.
        more: It is seldom needed, and folded away.
        idle: It does nothing as the other controls stand, and is hidden.
        unit: Of its number, where the text does not name it.
        stands: What it stands for as all else is, in numbers; None where that need not be told.
    """

    name: str
    label: str
    text: str
    default: str = ""
    slider: Slider | None = None
    options: tuple[tuple[str, str], ...] = ()
    wide: bool = False
    hint: str = ""
    placeholder: str = ""
    error: str = ""
    more: bool = False
    idle: bool = False
    unit: str = ""
    stands: str | None = None

    @property
    def explained(self) -> bool:
        """Its hint stands beside it."""
        return self.name.rpartition(".")[2] in _OWN_WORDS

    @property
    def others(self) -> list[str]:
        """Texts that it could hold instead: those of its list, or the slider's next and last steps on both sides."""
        if self.slider is None:
            return [value for value, _ in self.options if value != self.text]
        low, at, high, step = self.slider.low, self.slider.at, self.slider.high, self.slider.step
        places = [
            place for place in (low, at - step, at + step, high) if low <= place <= high and place != at
        ]
        steps = LADDERS.get(self.slider.ladder)
        return [steps[int(place)] if steps else f"{place:g}" for place in places]

    @property
    def said(self) -> bool:
        """It holds something that a link must keep, right or wrong."""
        return self.text.strip() != self.default

    @property
    def id(self) -> str:
        """A name that HTML and CSS both like."""
        return "f-" + re.sub(r"[^A-Za-z0-9]+", "-", self.name)


RANGES: Final[dict[str, tuple[float, float, float]]] = {
    "exponent": (0, 8, 0.1),
    "factor": (1, 10, 0.1),
    "share": (0, 1, 0.01),
    "spread": (0, 1, 0.01),
    "dither": (0, 1, 0.01),
    "detune": (0, 0.99, 0.01),
    "success": (0, 1, 0.01),
    "times": (0, 10, 0.1),
    "by": (0, 10, 0.1),
    "origin": (0, 5, 1),
    "limit": (0, 50, 1),
    "retries": (1, 50, 1),
    "count": (0, 50, 1),
    "knee": (0, 30, 1),
    "retry": (1, 100, 1),
    "base": (1, 100, 0.1),
}
"""Where a number usually lies, and its slider's step; beyond it there is still the box. Others are counts."""


HINTS: Final[dict[str, str]] = {
    "limit": "retries; empty: no end",
    "cap": "nominal waits are held to this, before the jitter",
    "ceil": "no wait is longer, jitter included",
    "floor": "no wait is shorter",
    "deadline": "no retry starts later than this after the first failure",
    "exponent": "how fast waits grow with the retry's number",
    "factor": "each wait is so many times the one before",
    "base": "added to every wait, or the wait that growth starts from",
    "grow": "the jitter: up to so much more, times the retry's number",
    "wait": "the same before each retry",
    "spread": "share of the time between retries over which the jobs are spread",
    "dither": "random part of each wait, as a share of it",
    "detune": "share by which a cap is lowered, so that jobs do not call at the same minute of each hour",
    "jitter": "how one job's wait departs from the nominal one",
    "curve": "the nominal wait before each retry",
    "source": "rng: fresh each time; hash: of id and retry; job: one number for life",
    "faces": "a die of so many faces; empty: any number",
}
"""What a field of a policy does, in a few words."""

_OWN_WORDS: Final = frozenset({"spread", "dither", "detune", "phase"})
"""Names that are ours: what they mean stands beside them."""


def write(kind: Kind, value: Any) -> str:
    """Write a value as its box holds it; nothing is an empty box."""
    if value is None:
        return ""
    if isinstance(kind, Duration):
        return format_duration_short(value)
    if isinstance(kind, ListOf):
        return ", ".join(write(kind.kind, inner) for inner in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1_000 else f"{value:.12g}"
    return str(value)


def read(kind: Kind, text: str, field: str) -> Any:
    """Read a box, strictly.

    Returns:
        The value in its inner form; None for an empty box that may be empty.

    Raises:
        InvalidInput: It does not fit; names field, value and expectation.
    """
    if len(text) > MAX_TEXT:
        raise InvalidInput(
            f"{field}: {len(text)} characters are too many; expected at most {MAX_TEXT}", field=field
        )
    return kind.read(_plain(kind, text.strip(), field), field)


_GROUPED: Final = re.compile("[0-9]{1,3}(?:([,_' \u00a0\u2009\u202f])[0-9]{3})(?:\\1[0-9]{3}){0,4}")
"""A whole number with its thousands apart, as this page itself writes it; one with a fraction would not be told from that."""


def _plain(kind: Kind, text: str, field: str) -> Any:
    """Give a text as the JSON value that it stands for; what cannot be is left for the kind to refuse."""
    if isinstance(kind, ListOf):
        return [_plain(kind.kind, part.strip(), field) for part in text.split(",")] if text else []
    if isinstance(kind, Duration) and text.isdecimal():
        return parse_duration_with_unit(text, field)
    if isinstance(kind, Choice):
        return text  # "none" is a word like others there
    if text.lower() in ("", "none", "null"):
        return None
    if isinstance(kind, Integer) and re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if isinstance(kind, Integer) and _GROUPED.fullmatch(text):
        return int(re.sub("[^0-9]", "", text))
    if isinstance(kind, (Number, Integer)) and re.fullmatch(r"[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,4})?", text):
        try:
            return float(text)
        except ValueError:
            return text
    if isinstance(kind, Flag):
        return {"true": True, "false": False}.get(text.lower(), text)
    return text


def for_a_box(error: AnewError) -> str:
    """Say what is wrong in the words of a page, where nothing is an empty box, a duration has its unit and no end is set."""
    said = str(error).replace(", or whole milliseconds", "").replace(", or null", ", or empty")
    return said.replace(", a lower base rate", "").replace(", or a horizon", "")


def blame(controls: Iterable[Control], name: str, error: AnewError) -> bool:
    """Show an error beside the control of that name; tell whether there is one, and without an error of its own."""
    for item in controls:
        if item.name == name and not item.error:
            item.error = for_a_box(error)
            return True
    return False


def slider(kind: Kind, leaf: str, value: Any) -> Slider | None:
    """Give the slider of a value; None if it has none.

    Args:
        leaf: The value's own name, such as ``exponent``.
        value: In its inner form; None stands at the low end, or behind the high one where the box may be empty.
    """
    low: float
    high: float
    step: float
    step, ladder = 1, ""
    if isinstance(kind, Duration):
        ladder = "duration"
        low, high = steps_between(ladder, 0, min(kind.maximum_ms, CEILING_MS))
    elif not isinstance(kind, (Number, Integer)):
        return None
    elif leaf in RANGES:
        low, high, step = RANGES[leaf]
        low, high = max(low, kind.low), min(high, kind.high)
        if isinstance(kind, Number) and kind.above and low == kind.low:
            low += step
    else:
        ladder = "count"
        low, high = steps_between(ladder, kind.low, kind.high)
    made = Slider(
        low=low, high=high, step=step, at=low, ladder=ladder, empty=getattr(kind, "optional", False)
    )
    if value is None:
        return replace(made, at=made.end) if made.empty else made
    return replace(made, at=min(max(place(ladder, value) if ladder else float(value), low), high))


def options(kind: Kind) -> tuple[tuple[str, str], ...]:
    """Give what a value can be chosen from; nothing if it is typed."""
    if isinstance(kind, Choice):
        return tuple((word, word) for word in kind.words)
    if isinstance(kind, Flag):
        return (("false", "no"), ("true", "yes"))
    return ()


def control(kind: Kind, name: str, given: str | None, default: Any, **rest: Any) -> tuple[Control, Any]:
    """Make the control of one value, and read the value.

    Args:
        kind: What it may be.
        name: In the query; what follows the last dot is its label.
        given: The query's text; None: nothing is said.
        default: In its inner form; None where there is none.
        rest: Further fields of the control; it has the hint of its own name unless one is given.

    Returns:
        The control, with an error where the text does not fit, and the value (the default where nothing was
        said or nothing usable).
    """
    leaf = name.rpartition(".")[2]
    label = rest.pop("label", leaf.replace("_", " "))
    value, usual, error = default, write(kind, default), ""
    text = usual if given is None else given
    # A number at its default may be written shorter than it is: as long as nobody changes it, it is that.
    if text.strip() != usual:
        try:
            value = read(kind, text, label)
        except InvalidInput as caught:
            error = for_a_box(caught)
    made = Control(
        name=name,
        label=label,
        text=text,
        default=usual,
        slider=slider(kind, leaf, value),
        options=options(kind),
        wide=isinstance(kind, ListOf),
        error=error,
        **{"hint": HINTS.get(leaf, ""), **rest},
    )
    return made, value


# ---- the steps of sliders: round durations and round counts, so that each step of a slider is a value that people would write


_ROUND: Final[dict[int, tuple[float, ...]]] = {
    1: (1, 2, 5, 10, 20, 50, 100, 200, 300, 500),
    SECOND_MS: (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50),
    MINUTE_MS: (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50),
    HOUR_MS: (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 18),
    DAY_MS: (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 10, 14, 21, 30, 60, 90, 180, 365),
}
"""How many of each unit."""

DURATIONS_MS: Final = (0, *(int(n * unit_ms) for unit_ms, counts in _ROUND.items() for n in counts))
"""Durations from nothing to a year, in milliseconds."""

COUNTS: Final[tuple[int, ...]] = (
    *(digit * 10**power for power in range(6) for digit in (1, 2, 3, 5, 7)),
    1_000_000,
)
"""Counts from one to a million."""

LADDERS: Final[dict[str, tuple[str, ...]]] = {
    "duration": tuple(format_duration_short(ms) for ms in DURATIONS_MS),
    "count": tuple(map(str, COUNTS)),
}
"""What a slider writes at each of its steps."""

_VALUES: Final = {"duration": DURATIONS_MS, "count": COUNTS}


def place(ladder: str, value: float) -> int:
    """Give the step of a ladder that is nearest to a value: milliseconds, or a count."""
    steps = _VALUES[ladder]
    above = min(bisect_left(steps, value), len(steps) - 1)
    below = max(above - 1, 0)
    return above if steps[above] - value <= value - steps[below] else below


def steps_between(ladder: str, low: float, high: float) -> tuple[int, int]:
    """Give the first and the last step of a ladder that lie between two values."""
    steps = _VALUES[ladder]
    inside = [index for index, step in enumerate(steps) if low <= step <= high]
    return (inside[0], inside[-1]) if inside else (0, len(steps) - 1)
