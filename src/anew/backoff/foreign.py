"""Names that other systems have for the fields of a policy, and our own where they stand in the wrong place.

A name is looked for without its capitals, hyphens and underscores, so that ``maxRetries``, ``max_retries`` and
``MaxRetries`` are one. Nothing here is read as a policy: it only says what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from anew.errors import InvalidInput
from anew.units import format_duration_short, parse_duration, shown

_LONGEST: Final = 64
_GREATEST_SHOWN: Final = 1e15


def _count(value: Any) -> Any:
    """Retries: the same number; none at all is no end."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if value is None or (whole and value >= 0) else ...


def _less_one(value: Any) -> Any:
    """Runs to retries."""
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else ...


def _number(value: Any) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if number and 0 <= value <= _GREATEST_SHOWN else ...


def _duration(value: Any) -> Any:
    """Only with a unit: elsewhere a bare number is seconds as often as milliseconds."""
    if not isinstance(value, str) or value.strip().isdigit():
        return ...
    try:
        return format_duration_short(parse_duration(value))
    except InvalidInput:
        return ...


def _jitter(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return "full" if value else "none"
    number = _number(value)
    return {"around": number} if number is not ... and 0 < number <= 1 else ...


class Word(NamedTuple):
    """What a foreign name is called here.

    Args:
        here: Our names for it, the first that fits the place counts.
        note: How its value is to be understood.
        convert: From its value to ours; ``...`` where that cannot be told.
    """

    here: tuple[str, ...]
    note: str = ""
    convert: Callable[[Any], Any] = lambda value: ...


_RETRIES: Final = Word(("limit", "count", "retries"), "", _count)
_RUNS: Final = Word(("limit", "count"), "its count includes the first run, so limit is one less", _less_one)
_UNIT: Final = 'write its unit, as in "30s"'
_FIRST: Final = Word(("base", "wait", "unit", "low"), _UNIT, _duration)
_LEAST: Final = Word(("low", "floor"), _UNIT, _duration)
_GREATEST: Final = Word(("high", "cap"), _UNIT, _duration)
_FACTOR: Final = Word(("factor", "times"), "", _number)
_STEP: Final = Word(("step",), _UNIT, _duration)
_JITTER: Final = Word(("jitter",), 'none, full, even, or a share such as {"around": 0.5}', _jitter)
_DEADLINE: Final = Word(("deadline",), _UNIT, _duration)
_CURVE: Final = Word(("curve",), 'its name is the key: {"curve": {"exponential": {"base": "1s"}}}')
_LIST: Final = Word(("waits", "curve"), 'a list is {"curve": {"table": ["10s", "1m"]}}')

_NAMES: Final[Mapping[Word, str]] = {
    _RETRIES: "max_retries retries retry max_retry max_retry_attempts maximum_retries retry_limit retry_count num_retries "
    "number_of_retries max_retry_count maximum_retry_count backoff_limit",
    _RUNS: "max_attempts attempts maximum_attempts max_tries tries stop_after_attempt total_max_attempts max_receive_count",
    _FIRST: "initial initial_interval initial_delay initial_backoff initial_wait wait_initial base_delay base_interval "
    "backoff_base delay retry_delay default_retry_delay min_delay min_backoff minimum_backoff interval retry_interval "
    "retry_backoff min_timeout start",
    _LEAST: "min min_wait wait_min minimum",
    _GREATEST: "retry_backoff_max max_delay max_backoff maximum_backoff backoff_max cap max max_interval maximum_interval "
    "maximum max_wait wait_max max_retry_delay retry_delay_max max_timeout max_value",
    _FACTOR: "factor multiplier backoff_coefficient coefficient backoff_rate rate backoff_factor backoff_multiplier "
    "exp_base ratio",
    _STEP: "increment",
    _JITTER: "retry_jitter jitter_factor randomization_factor use_jitter jitter_strategy backoff_jitter randomize",
    _DEADLINE: "max_elapsed_time total_timeout stop_after_delay max_time max_duration max_retry_duration retry_for "
    "schedule_to_close_timeout",
    _CURVE: "backoff backoff_type backoff_strategy retry_strategy strategy type",
    _LIST: "delays intervals retry_delays retry_intervals schedule",
}  # fmt: skip

_CURVES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("exp", "expo", "exponential_backoff", "double", "doubling"), "exponential"),
    **dict.fromkeys(("fixed", "static", "flat"), "constant"),
    **dict.fromkeys(("incremental", "incrementing", "arithmetic"), "linear"),
    **dict.fromkeys(("polynomial", "polynomially_longer", "quadratic", "cubic"), "power"),
    **dict.fromkeys(("list", "intervals", "delays", "waits", "schedule"), "table"),
    **dict.fromkeys(("fib", "fibo"), "fibonacci"),
}
_JITTERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("full_jitter", "random", "uniform", "true", "on", "yes"), "full"),
    **dict.fromkeys(("equal_jitter", "half"), "equal"),
    **dict.fromkeys(("decorrelated_jitter",), "decorrelated"),
    **dict.fromkeys(("no", "off", "false", "no_jitter"), "none"),
}
"""Other words for what a curve and a jitter are called."""

TOP: Final = frozenset((
    "preset", "curve", "phases", "cap", "jitter", "floor", "ceil", "limit", "deadline", "on_deadline", "on_exhausted",
    "override", "max_attempts",
))  # fmt: skip
"""Our fields that stand at the top of a policy."""

CURVES: Final = frozenset((
    "constant", "linear", "power", "exponential", "between", "table", "fibonacci", "sum", "scale", "stretch",
))  # fmt: skip
JITTERS: Final = frozenset((
    "none", "full", "equal", "above", "below", "around", "add", "grow", "up_to", "window", "decorrelated", "slices", "even",
))  # fmt: skip
"""Our names of curves and of jitters."""

INSIDE: Final[Mapping[str, str]] = {
    "base": '{"curve": {"exponential": {"base": "1s"}}}',
    "factor": '{"curve": {"exponential": {"base": "1s", "factor": 2}}}',
    "step": '{"curve": {"linear": {"base": "15s", "step": "15s"}}}',
    "exponent": '{"curve": {"power": {"base": "15s", "exponent": 4}}}',
    "wait": '{"curve": {"constant": "1m"}}',
    "waits": '{"curve": {"table": ["10s", "1m"]}}',
    "share": '{"jitter": {"around": 0.5}}',
}
"""Where the fields of curves and jitters stand."""

_UNITS: Final = {"milliseconds": "ms", "millis": "ms", "seconds": "s", "secs": "s", "sec": "s", "ms": "ms"}


_HOW: Final = {"in seconds": "s", "in milliseconds": "ms"}
_LESS: Final = " - 1"
"""How presets say what their system's values are."""

_BESIDE: Final = "at the top of the policy, beside curve"
_TYPES: Final = ("type", "kind", "strategy", "name")


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign not in "-_ ")


_WORDS: Final = {
    **{_plain(name): Word((name,)) for name in (*TOP, *INSIDE)},
    **{_plain(name): word for word, names in _NAMES.items() for name in names.split()},
    "limit": Word(("limit", "count"), "", _count),
}
_KINDS: Final = {
    "a curve": {_plain(name): here for name, here in _CURVES.items()},
    "a jitter": {_plain(name): here for name, here in _JITTERS.items()},
}


def called_here(
    given: object, value: Any, known: Collection[str], path: str, names: Mapping[str, str]
) -> str:
    """Give the end of an error's sentence that says what an unknown field is called here.

    Args:
        given: The field's name as it was written.
        value: What stands behind it.
        known: The names that may stand there.
        path: Path of the object it stands in, "" at the top.
        names: The names of one preset's own system: name -> our field, perhaps with a colon and how to convert.

    Returns:
        ``'; max_retries is limit here: write "limit": 5'``, or nothing.
    """
    if not isinstance(given, str) or len(given) > _LONGEST:
        return ""
    word, value = _word_of(given, value)
    own = next((text for name, text in names.items() if _plain(name) == _plain(given)), "")
    if own:
        field, _, how = own.partition(": ")
        return _is(given, field, _owned(field, how, word), value)
    if word is not None:
        fitting = next((name for name in word.here if name in known and name != given), None)
        if fitting is not None:
            return _is(given, fitting, word, value)
        if given in TOP and path:
            return f"; {given} stands {_BESIDE}"
        top = next((name for name in word.here if name in TOP), None)
        if top is not None and path:
            return _is(given, top, word, value, f", {_BESIDE}")
    return _place(given, word, path)


def other_name(noun: str, value: object) -> str:
    """Give the end of an error's sentence that says how a curve or a jitter from elsewhere is written here.

    Args:
        noun: ``"a curve"`` or ``"a jitter"``.
        value: What stands in its place: a name, an object with one name, a number, true or false.
    """
    if isinstance(value, Mapping):
        named = next((value[key] for key in _TYPES if key in value), None)
        if isinstance(named, str) and len(named) <= _LONGEST:
            here = _KINDS.get(noun, {}).get(_plain(named), named)
            return f"; the name is the key: {{{shown(here)}: ...}}"
    name = next(iter(value), None) if isinstance(value, Mapping) and len(value) == 1 else value
    if isinstance(name, str) and len(name) <= _LONGEST:
        other = _KINDS.get(noun, {}).get(_plain(name))
        return f"; {name} is {other} here" if other else ""
    if noun != "a jitter" or isinstance(value, (Mapping, list, tuple)):
        return ""
    if value is True:
        return (
            '; true may be "full", from nothing to the whole wait, or {"around": 0.5}, half of it either way'
        )
    if value is None or value is False:
        return '; write "none"'
    if isinstance(value, (int, float)) and 0 < value <= 1:
        text = f"{value:g}"
        return f'; a share is {{"around": {text}}}, either way, or {{"above": {text}}} or {{"below": {text}}}'
    return '; a time is {"add": "5s"}, up to 5 s above the wait'


def _word_of(given: str, value: Any) -> tuple[Word | None, Any]:
    """Find a name, with or without a unit at its end, which then belongs to the value."""
    plain = _plain(given)
    if plain in _WORDS:
        return _WORDS[plain], value
    for ending, unit in _UNITS.items():
        word = _WORDS.get(plain.removesuffix(ending)) if plain.endswith(ending) else None
        if word is not None:
            text = f"{value}{unit}" if _number(value) is not ... else value
            return word._replace(convert=_duration), text
    return None, value


def _owned(field: str, how: str, word: Word | None) -> Word:
    """Give what a preset's own system means by a name; what is meant in general counts only where it says nothing."""
    unit = next((unit for start, unit in _HOW.items() if how.startswith(start)), "")
    if unit:
        return Word((), how, lambda value: _duration(f"{value}{unit}") if _number(value) is not ... else ...)
    if field == "limit":
        return Word((), how, _less_one if _LESS in how else _count)
    return Word((), how) if how or word is None else word


def _is(given: str, field: str, word: Word, value: Any, where: str = "") -> str:
    text, converted = f"; {given} is {field} here{where}", word.convert(value)
    if converted is not ...:
        text += f": write {shown(field)}: {shown(converted)}"
        return text + (f" ({word.note})" if word.convert is _less_one else "")
    number = _number(value)
    if word.note is _UNIT and number is not ...:
        return f'{text}: write its unit, "{number}s" or "{number}ms"'
    return text + (f": {word.note}" if word.note else "")


def _place(given: str, word: Word | None, path: str) -> str:
    """Say where our own name stands, and what stands inside curves and jitters."""
    phase = path.startswith("phases[") and "." not in path
    if given in CURVES and (not path or phase):
        return f'; {given} is a curve: write {{"curve": {{"{given}": ...}}}}'
    if given in JITTERS and not path:
        return f'; {given} is a jitter: write {{"jitter": "{given}"}}, or {{"jitter": {{"{given}": ...}}}}'
    inside = next((name for name in word.here if name in INSIDE), None) if word else None
    if inside is None or (path and not phase):
        return ""
    where = INSIDE[inside]
    return f"; {given} is {inside} here: {where}" if inside != given else f"; {inside} stands inside: {where}"
