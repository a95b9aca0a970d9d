"""A subscription's filter: which messages it gets, by type and attributes. Pure.

    {"types": ["order.*", "invoice.paid"], "attributes": {"region": ["eu", {"prefix": "us-"}], "total": [{"numeric": [">", 100]}]}}

All members must hold; of the values of one, any. The conditions on attributes are those of SNS's filter policies.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import msgspec
from msgspec import Struct

from anew.errors import InvalidInput

MOST_KEYS: Final = 5
MOST_COMBINATIONS: Final = 150
MOST_BYTES: Final = 16 << 10

Scalar = str | float | bool | None
Test = Callable[[Any], bool]

_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}

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


def filter_of(document: object, pointer: str = "/filter") -> Filter:
    """Read a filter.

    Raises:
        InvalidInput: Something does not fit; its field is a JSON pointer.
    """
    if not isinstance(document, dict):
        raise _wrong(pointer, document, "an object")
    for name in document:
        if name not in ("types", "attributes"):
            raise _wrong(f"{pointer}/{name}", document[name], "types or attributes")
    if len(msgspec.json.encode(document)) > MOST_BYTES:
        raise _wrong(pointer, "", f"at most {MOST_BYTES} bytes")
    types = document.get("types", [])
    if not isinstance(types, list) or not all(isinstance(one, str) and one for one in types):
        raise _wrong(f"{pointer}/types", types, "a list of names, such as order.paid or order.*")
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict) or len(attributes) > MOST_KEYS:
        raise _wrong(f"{pointer}/attributes", attributes, f"an object of at most {MOST_KEYS} attributes")
    conditions = tuple(
        (name, _tests(wanted, f"{pointer}/attributes/{name}")) for name, wanted in attributes.items()
    )
    combinations = prod((len(types) or 1, *(len(tests) for _, tests in conditions)))
    if combinations > MOST_COMBINATIONS:
        raise _wrong(pointer, combinations, f"at most {MOST_COMBINATIONS} combinations of values")
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
        raise _wrong(at, wanted, "a list of values and conditions, one at least")
    return tuple(_test(one, f"{at}/{place}") for place, one in enumerate(wanted))


def _test(wanted: object, at: str) -> Test:
    if not isinstance(wanted, dict):
        if wanted is not None and not isinstance(wanted, str | int | float):
            raise _wrong(at, wanted, "a text, a number, true, false, null or a condition")
        return lambda value: _same(value, wanted)
    if len(wanted) != 1:
        raise _wrong(
            at, wanted, "one condition: prefix, suffix, anything-but, numeric, exists or equals-ignore-case"
        )
    ((name, operand),) = wanted.items()
    maker = _CONDITIONS.get(name)
    if maker is None:
        raise _wrong(f"{at}/{name}", operand, f"one of {', '.join(_CONDITIONS)}")
    return maker(operand, f"{at}/{name}")


def _prefix(operand: object, at: str) -> Test:
    text = _text(operand, at)
    return lambda value: isinstance(value, str) and value.startswith(text)


def _suffix(operand: object, at: str) -> Test:
    text = _text(operand, at)
    return lambda value: isinstance(value, str) and value.endswith(text)


def _ignoring_case(operand: object, at: str) -> Test:
    text = _text(operand, at).casefold()
    return lambda value: isinstance(value, str) and value.casefold() == text


def _anything_but(operand: object, at: str) -> Test:
    unwanted = operand if isinstance(operand, list) else [operand]
    tests = _tests(unwanted, at)
    return lambda value: value is not MISSING and not any(test(value) for test in tests)


def _exists(operand: object, at: str) -> Test:
    if not isinstance(operand, bool):
        raise _wrong(at, operand, "true or false")
    return lambda value: (value is not MISSING) is operand


def _numeric(operand: object, at: str) -> Test:
    expected = 'pairs of an operator and a number, such as [">", 0, "<=", 100]'
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        raise _wrong(at, operand, expected)
    pairs: list[tuple[Callable[[Any, Any], bool], Any]] = []
    for sign, bound in zip(operand[::2], operand[1::2], strict=True):
        if not isinstance(sign, str) or sign not in _COMPARED or not _is_number(bound):
            raise _wrong(at, operand, expected)
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
        raise _wrong(at, operand, "a text")
    return operand


def _wrong(at: str, value: object, expected: str) -> InvalidInput:
    return InvalidInput(f"{at}: expected {expected}, got {value!r:.60}", field=at, value=value)
