"""Bodies other than payloads: read thoroughly, refused in words that name the field."""

import math

import msgspec
import pytest

from anew.errors import MalformedRequest, TooLarge
from anew.http.bodies import MAX_VALUES, decode, to_object
from anew.http.formats import JSON, MSGPACK

from .memory import held_to


class Report(msgspec.Struct):
    message: str
    retry_at: int | None = None


def test_a_body_is_fitted_into_a_struct() -> None:
    assert decode(b'{"message":"m","retry_at":5.0,"more":[1]}', JSON, Report) == Report("m", 5)
    assert decode(msgspec.msgpack.encode({"message": "m"}), MSGPACK, Report) == Report("m")


@pytest.mark.parametrize(
    ("body", "words", "field"),
    [
        (b'{"message":5}', "message: expected str, got int 5", "message"),
        (b'{"message":null}', "message: expected str, got null$", "message"),
        (b'{"message":"m","retry_at":Infinity}', "invalid JSON", ""),
        (b"{}", "object missing required field message", ""),
        (b'{"message":"a","message":"b"}', "the key message is given twice; expected once", "message"),
        (b'{"message":', "invalid JSON", ""),
        (b'{"message":"\xff"}', "invalid JSON: not UTF-8 at byte 12", ""),
        (b"[" * 5_000, "invalid JSON: nested too deeply", ""),
        (b'{"retry_at":' + b"1" * 5_000 + b"}", "invalid JSON", ""),
    ],
)
def test_what_does_not_fit_is_refused_in_words(body: bytes, words: str, field: str) -> None:
    with pytest.raises(MalformedRequest, match=words) as caught:
        decode(body, JSON, Report)
    assert caught.value.field == field


def test_a_number_that_json_has_not_is_refused_in_words() -> None:
    body = msgspec.msgpack.encode({"message": "m", "retry_at": math.inf})
    with pytest.raises(MalformedRequest, match=r"retry_at: expected int \| null, got float Infinity$"):
        decode(body, MSGPACK, Report)


def test_a_repeated_key_is_refused_in_messagepack() -> None:
    body = b"\x82\xa7message\xa1a\xa7message\xa1b"
    with pytest.raises(MalformedRequest, match="given twice"):
        to_object(body, MSGPACK)


@pytest.mark.parametrize("item", [b"1", b"[]", b'{"":1}', b'""'])
def test_a_body_of_millions_of_values_is_refused_before_it_is_built(item: bytes) -> None:
    body = b'{"message":"m","more":[' + b",".join([item] * 4_000_000) + b"]}"
    with held_to(30 << 20), pytest.raises(MalformedRequest, match=f"more than {MAX_VALUES} values"):
        decode(body, JSON, Report)


def test_a_long_backtrace_is_one_value() -> None:
    text = "at f(a, [b], {c}),\n" * 100_000
    assert decode(msgspec.json.encode({"message": text}), JSON, Report).message == text


def test_a_packed_body_of_very_many_values_is_not_built() -> None:
    """A byte is enough for a list, which takes 56 in memory; the same holds for every route that reads a body."""
    many = b"\x81\xa7message\xdd" + (8 << 20).to_bytes(4, "big") + b"\x90" * (8 << 20)
    expected = "the body: expected at most 100000 values in MessagePack"
    with held_to(16 << 20), pytest.raises(TooLarge, match=expected):
        decode(many, MSGPACK, Report)
    long = msgspec.msgpack.encode({"message": "x" * 10_000_000})
    assert len(decode(long, MSGPACK, Report).message) == 10_000_000
