"""A subscription's filter: which messages it gets, by type and attributes. Pure.

    {"types": ["order.*", "invoice.paid"], "attributes": {"region": ["eu", {"prefix": "us-"}], "total": [{"numeric": [">", 100]}]}}

All members must hold; of the values of one, any. The conditions on attributes are those of SNS's filter policies.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import msgspec
from msgspec import Struct

from anew.topics.json_fields import member, wrong

MOST_KEYS: Final = 5
MOST_COMBINATIONS: Final = 150
MOST_BYTES: Final = 16 << 10

Test = Callable[[Any], bool]

_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}

_PATTERN = re.compile(r"\*|[^*]+\.\*").fullmatch
_OF_TEXTS: Final = ("prefix", "suffix", "equals-ignore-case")
"""The conditions that ``anything-but`` may turn round; no other goes into another."""

MISSING: Final = object()
"""An attribute that a message does not have."""


class Filter(Struct, frozen=True):
    """A filter, ready to be asked.

    Attributes:
        types: Names, or beginnings that end with ``.*``; empty for any.
        attributes: By name the conditions of which one must hold.
    """

    types: tuple[str, ...]
    attributes: tuple[tuple[str, tuple[Test, ...]], ...]


def filter_of(document: object) -> Filter:
    """Read a filter.

    Raises:
        InvalidInput: Something does not fit; its field is a JSON pointer.
    """
    if not isinstance(document, dict):
        raise wrong("/filter", document, "an object")
    for name in document:
        if name not in ("types", "attributes"):
            raise wrong(member("/filter", name), document[name], "types or attributes")
    types = document.get("types", [])
    if not isinstance(types, list) or not all(isinstance(one, str) and one for one in types):
        raise wrong("/filter/types", types, "a list of names, such as order.paid or order.*")
    for place, one in enumerate(types):
        if "*" in one and not _PATTERN(one):
            raise wrong(f"/filter/types/{place}", one, "a * only alone or after a last dot, as in order.*")
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict) or len(attributes) > MOST_KEYS:
        raise wrong("/filter/attributes", attributes, f"an object of at most {MOST_KEYS} attributes")
    conditions = tuple(
        (name, _tests(wanted, member("/filter/attributes", name))) for name, wanted in attributes.items()
    )
    combinations = prod((len(types) or 1, *(len(tests) for _, tests in conditions)))
    if combinations > MOST_COMBINATIONS:
        raise wrong("/filter", combinations, f"at most {MOST_COMBINATIONS} combinations of values")
    size = len(msgspec.json.encode(document))  # last: by now it is known to be flat
    if size > MOST_BYTES:
        raise wrong("/filter", size, f"at most {MOST_BYTES} bytes")
    return Filter(tuple(types), conditions)


def matches(wanted: Filter, type_: str, attributes: Mapping[str, Any]) -> bool:
    """Report whether a message is wanted."""
    if wanted.types and not any(_is_type(one, type_) for one in wanted.types):
        return False
    return all(
        any(test(attributes.get(name, MISSING)) for test in tests) for name, tests in wanted.attributes
    )


def _is_type(wanted: str, type_: str) -> bool:
    if wanted.endswith(".*"):
        return type_.startswith(wanted[:-1])
    return wanted in ("*", type_)


def _tests(wanted: object, at: str) -> tuple[Test, ...]:
    if not isinstance(wanted, list) or not wanted:
        raise wrong(at, wanted, "a list of values and conditions, one at least")
    return tuple(_test(one, f"{at}/{place}") for place, one in enumerate(wanted))


def _test(wanted: object, at: str) -> Test:
    if not isinstance(wanted, dict):
        if wanted is not None and not isinstance(wanted, str | int | float):
            raise wrong(at, wanted, "a text, a number, true, false, null or a condition")
        return lambda value: _same(value, wanted)
    if len(wanted) != 1:
        raise wrong(
            at, wanted, "one condition: prefix, suffix, anything-but, numeric, exists or equals-ignore-case"
        )
    ((name, operand),) = wanted.items()
    maker = _CONDITIONS.get(name)
    if maker is None:
        raise wrong(member(at, name), operand, f"one of {', '.join(_CONDITIONS)}")
    return maker(operand, f"{at}/{name}")


def _prefix(operand: object, at: str) -> Test:
    text = _text(operand, at)
    return lambda value: isinstance(value, str) and value.startswith(text)


def _suffix(operand: object, at: str) -> Test:
    text = _text(operand, at)
    return lambda value: isinstance(value, str) and value.endswith(text)


def _ignoring_case(operand: object, at: str) -> Test:
    text = _text(operand, at).casefold()
    # No text gets shorter by folding its case, so a long value is not folded for each of many conditions.
    return lambda value: isinstance(value, str) and len(value) <= len(text) and value.casefold() == text


def _anything_but(operand: object, at: str) -> Test:
    if isinstance(operand, dict):
        for name in operand:
            if name not in _OF_TEXTS:
                raise wrong(member(at, name), operand[name], f"one of {', '.join(_OF_TEXTS)}")
        tests: tuple[Test, ...] = (_test(operand, at),)
    elif isinstance(operand, list):
        for place, one in enumerate(operand):
            if isinstance(one, dict):
                raise wrong(f"{at}/{place}", one, "a text, a number, true, false or null")
        _tests(operand, at)
        among = frozenset((isinstance(one, bool), one) for one in operand)  # it may be thousands
        tests = (lambda value: (isinstance(value, bool), value) in among,)
    else:
        tests = (_test(operand, at),)
    return lambda value: value is not MISSING and not any(test(value) for test in tests)


def _exists(operand: object, at: str) -> Test:
    if not isinstance(operand, bool):
        raise wrong(at, operand, "true or false")
    return lambda value: (value is not MISSING) is operand


def _numeric(operand: object, at: str) -> Test:
    expected = 'pairs of an operator and a number, such as [">", 0, "<=", 100]'
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        raise wrong(at, operand, expected)
    pairs: list[tuple[Callable[[Any, Any], bool], Any]] = []
    for sign, bound in zip(operand[::2], operand[1::2], strict=True):
        if not isinstance(sign, str) or sign not in _COMPARED or not _is_number(bound):
            raise wrong(at, operand, expected)
        pairs.append((_COMPARED[sign], bound))
    return lambda value: _is_number(value) and all(compare(value, bound) for compare, bound in pairs)


_CONDITIONS: Final[dict[str, Callable[[object, str], Test]]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _ignoring_case,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
}


def _same(value: object, wanted: object) -> bool:
    """Compare values of JSON: true is not 1."""
    return value == wanted and isinstance(value, bool) is isinstance(wanted, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(operand: object, at: str) -> str:
    if not isinstance(operand, str):
        raise wrong(at, operand, "a text")
    return operand
