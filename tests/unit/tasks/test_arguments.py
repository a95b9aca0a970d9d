"""Arguments become a payload and a payload arguments, the same ones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anew.errors import InvalidJob
from anew.tasks.arguments import Arguments, write_result

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@dataclass
class Line:
    """A dataclass."""

    text: str
    at: datetime


class Point(msgspec.Struct):
    """One of msgspec's."""

    x: int


@dataclass
class Reading:
    """A dataclass with a number."""

    value: float | None


class Measured(msgspec.Struct):
    """A Struct with a number."""

    value: float | None


class MeasuredModel:
    """Something with the methods of Pydantic's models, and a number."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Write it."""
        assert mode == "json"
        return {"value": float("nan")}


class Named(TypedDict):
    """A dict with names."""

    name: str


class Model:
    """Something with the methods of Pydantic's models."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Write it."""
        assert mode == "json"
        return {"number": self.number}

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """Read it."""
        if not isinstance(value, dict):
            raise ValueError("no model")
        return cls(value["number"])


def passed(function: Callable[..., Any], payload: bytes, *, packed: bool = False) -> dict[str, Any]:
    """Give by name what a function gets of a payload."""
    args, kwargs = Arguments(function, "t", packed=packed).read(payload)
    return dict(inspect.signature(function).bind(*args, **kwargs).arguments)


def written(function: Callable[..., Any], *args: Any, packed: bool = False, **kwargs: Any) -> bytes:
    """Give the payload of a call."""
    return Arguments(function, "t", packed=packed).write(args, kwargs)


def untyped(a, b=2, *, c=3):  # type: ignore[no-untyped-def]
    """Take anything."""


def typed(
    line: Line,
    point: Point,
    named: Named,
    at: datetime,
    day: date,
    took: timedelta,
    data: bytes,
    some: set[int],
    pair: tuple[int, str],
    one: UUID,
    price: Decimal,
    model: Model,
    maybe: Model | None = None,
) -> None:
    """Take one of each."""


def loose(a: int, /, *rest: int, **more: int) -> None:
    """Take whatever comes."""


@pytest.mark.parametrize("packed", [False, True])
def test_every_type_is_read_back_as_it_was(*, packed: bool) -> None:
    given = {
        "line": Line("a", NOON),
        "point": Point(3),
        "named": Named(name="b"),
        "at": NOON,
        "day": date(2026, 11, 22),
        "took": timedelta(minutes=90),
        "data": b"\0\xff",
        "some": {1, 2},
        "pair": (1, "x"),
        "one": UUID(int=7),
        "price": Decimal("1.10"),
        "model": Model(4),
        "maybe": Model(5),
    }
    assert passed(typed, written(typed, packed=packed, **given), packed=packed) == given


def test_a_payload_has_the_arguments_by_name_without_the_defaults() -> None:
    assert written(untyped, 1) == b'{"a":1}'
    assert written(untyped, 1, c=4) == b'{"a":1,"c":4}'
    assert passed(untyped, b'{"a":1}') == {"a": 1}


def test_arguments_without_names_are_kept_in_their_order() -> None:
    assert written(loose, 1, 2, 3, z=4) == b'{"args":[1,2,3],"kwargs":{"z":4}}'
    assert passed(loose, b'{"args":[1,2,3],"kwargs":{"z":4}}') == {"a": 1, "rest": (2, 3), "more": {"z": 4}}


def test_a_list_is_taken_for_positional_arguments() -> None:
    def at_time(at: datetime, n: int = 1) -> None: ...

    assert passed(at_time, b'["2026-11-22T12:00:00Z"]') == {"at": NOON}
    assert passed(loose, b"[1,2]") == {"a": 1, "rest": (2,)}
    with pytest.raises(InvalidJob, match="too many positional arguments"):
        passed(at_time, b'["2026-11-22T12:00:00Z",1,2]')


def test_json_is_read_where_messagepack_is_written() -> None:
    assert passed(untyped, b'{"a":1}', packed=True) == {"a": 1}


@pytest.mark.parametrize(
    "payload", [b"{", b'"text"', b'{"b":1}', b'{"a":1,"d":2}', b'{"a":"\xff"}', b"[" * 100_000]
)
def test_a_payload_that_does_not_fit_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidJob, match=r"^t: ") as caught:
        passed(untyped, payload)
    assert caught.value.field == "arguments"


def test_what_cannot_be_written_is_refused_where_it_is_enqueued() -> None:
    for value in (object(), Path("/"), "\ud800", 1j):
        with pytest.raises(InvalidJob, match="cannot be written"):
            written(untyped, value)


def of_path(a: Path) -> None:
    """Take what no payload can give."""


def of_two_texts(a: str | datetime) -> None:
    """Take what a payload cannot tell apart."""


def of_model_or_number(a: Model | int) -> None:
    """Take what msgspec does not tell apart."""


@pytest.mark.parametrize("function", [of_path, of_two_texts, of_model_or_number])
def test_types_that_no_payload_can_give_are_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidJob, match=r"^t: .*(Path|str \| datetime|Model)") as caught:
        written(function, "x")
    assert caught.value.field == "arguments"
    with pytest.raises(InvalidJob, match=r"^t: "):
        passed(function, b'{"a":"x"}')
    with pytest.raises(InvalidJob, match=r"^t: "):
        passed(function, b'["x"]')


def test_an_object_is_anything() -> None:
    def of_object(a: object, b: object = None) -> None: ...

    assert passed(of_object, written(of_object, [1], b={"x": 2})) == {"a": [1], "b": {"x": 2}}


def test_a_choice_of_values_is_checked() -> None:
    def choose(a: Literal["x", "y"]) -> None: ...

    assert passed(choose, written(choose, "y")) == {"a": "y"}
    with pytest.raises(InvalidJob, match="'z'"):
        written(choose, "z")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON, st.booleans())
def test_what_json_has_is_read_back_equal(a: Any, c: Any, packed: bool) -> None:
    assert passed(untyped, written(untyped, a, c=c, packed=packed), packed=packed) == {"a": a, "c": c}


@given(st.integers(), st.lists(st.integers(-(2**63), 2**63)), st.dictionaries(st.text(), st.integers(-5, 5)))
def test_loose_arguments_are_read_back_equal(a: int, rest: list[int], more: dict[str, int]) -> None:
    expected = {"a": a} | ({"rest": tuple(rest)} if rest else {}) | ({"more": more} if more else {})
    assert passed(loose, written(loose, a, *rest, **more)) == expected


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": (float("-inf"),)}])
def test_a_number_that_json_does_not_have_is_refused_and_not_made_null(value: object) -> None:
    def plot(points): ...  # type: ignore[no-untyped-def]

    with pytest.raises(InvalidJob, match="plot: an argument holds NaN or an infinity"):
        Arguments(plot, "plot").write((value,), {})
    assert Arguments(plot, "plot", packed=True).write((value,), {}).startswith(b'{"msgpack":')
    assert Arguments(plot, "plot").write((None,), {}) == b'{"points":null}'


@pytest.mark.parametrize(
    "value",
    [Reading(float("nan")), [Measured(float("inf"))], {"a": Measured(float("nan"))}, MeasuredModel()],
    ids=["dataclass", "struct in a list", "struct in a dict", "model"],
)
def test_numbers_that_json_does_not_have_are_refused_in_objects_too(value: object) -> None:
    def plot(value): ...  # type: ignore[no-untyped-def]

    with pytest.raises(InvalidJob, match="plot: an argument holds NaN or an infinity"):
        Arguments(plot, "plot").write((value,), {})


def test_none_beside_a_number_is_no_nan() -> None:
    def plot(value, other): ...  # type: ignore[no-untyped-def]

    assert Arguments(plot, "plot").write((Reading(None), Measured(1.5)), {}) == (
        b'{"value":{"value":null},"other":{"value":1.5}}'
    )


@pytest.mark.parametrize("value", [math.nan, {"a": [math.inf]}, [None, -math.inf]])
def test_a_result_that_json_would_make_null_of_is_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match="the result cannot be written: it holds NaN or an infinity"):
        write_result(value)


def test_a_result_that_has_a_null_of_its_own_is_kept() -> None:
    assert write_result({"a": None, "b": "null"}) == b'{"a":null,"b":"null"}'


def test_a_result_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anew.tasks.arguments.MOST_RESULT_BYTES", 10)
    assert write_result("x" * 8) == b'"xxxxxxxx"'
    with pytest.raises(
        InvalidJob, match="the result cannot be written: it comes to 11 bytes; expected at most 10"
    ):
        write_result("x" * 9)
