"""Bodies other than payloads: read into Structs, refused in words that name the field."""

import math

import msgspec
import pytest

from anew.errors import MalformedRequest
from anew.http.bodies import decode
from anew.http.formats import JSON, MSGPACK, Format
from anew.http.long_lists import members_of

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
        (b'{"message":', "invalid JSON", ""),
        (b'{"message":"\xff"}', "invalid JSON: not UTF-8 at byte 12", ""),
        (b"[" * 5_000, "expected object, got array", ""),
        (b'{"more":' + b"[" * 1_000_000, "invalid JSON: nested too deeply", ""),
        (b'{"message":1,"retry_at":' + b"1" * 5_000 + b"}", "invalid JSON", ""),
        (
            b'{"message":[' + b"1," * 70_000 + b"1]}",
            "message: expected at most 65536 bytes",
            "message",
        ),
        (b'{"message":1,"more":[}', "invalid JSON", ""),
        (b"[1]", "expected object, got array", ""),
        (b'{"message":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", "invalid JSON: nested too deeply", ""),
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


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b'{"message":"a","retry_at":1,"message":"b","retry_at":2}', JSON),
        (b'{"message":1,"message":"b","retry_at":"x","retry_at":2.0}', JSON),
        (b"\x83\xa7message\xa1a\xa8retry_at\x02\xa7message\xa1b", MSGPACK),
    ],
)
def test_of_a_repeated_key_the_last_one_counts(body: bytes, form: Format) -> None:
    assert decode(body, form, Report) == Report("b", 2)


def test_binary_and_whole_floats_in_messagepack_are_text_and_integers() -> None:
    """Zizq's Ruby client sends both."""
    packed = msgspec.msgpack.encode({"message": "é".encode(), "retry_at": 5.0, "more": [b"\xff"]})
    assert decode(packed, MSGPACK, Report) == Report("é", 5)
    with pytest.raises(MalformedRequest, match="message: expected str, got bytes"):
        decode(msgspec.msgpack.encode({"message": b"\xff"}), MSGPACK, Report)


@pytest.mark.parametrize("key", [b"\xc4\x01x", b"\x91\x01"], ids=["binary", "a list"])
def test_a_map_whose_keys_json_cannot_have_is_refused_like_any_other_value(key: bytes) -> None:
    with pytest.raises(MalformedRequest, match=r"message: expected str, got object$"):
        decode(b"\x81\xa7message\x81" + key + b"\x01", MSGPACK, Report)


@pytest.mark.parametrize("item", [b"1", b"[]", b'{"":1}', b'""'])
@pytest.mark.parametrize("message", [b'"m"', b"5"])
def test_millions_of_values_that_nobody_asked_for_are_not_built(item: bytes, message: bytes) -> None:
    body = b'{"message":%b,"more":[' % message + b",".join([item] * 4_000_000) + b"]}"
    with held_to(1 << 20):
        if message == b"5":
            with pytest.raises(MalformedRequest, match="message: expected str, got int 5"):
                decode(body, JSON, Report)
        else:
            assert decode(body, JSON, Report) == Report("m")


def test_a_long_backtrace_is_one_value() -> None:
    text = "at f(a, [b], {c}),\n" * 100_000
    assert decode(msgspec.json.encode({"message": text}), JSON, Report).message == text


def test_a_packed_body_of_very_many_values_is_not_built() -> None:
    """A byte is enough for a list, which takes 56 in memory; the same holds for every route that reads a body."""
    many = b"\x81\xa7message\xdd" + (8 << 20).to_bytes(4, "big") + b"\x90" * (8 << 20)
    with held_to(16 << 20), pytest.raises(MalformedRequest, match="message: expected at most 65536 bytes"):
        decode(many, MSGPACK, Report)
    long = msgspec.msgpack.encode({"message": "x" * 10_000_000})
    assert len(decode(long, MSGPACK, Report).message) == 10_000_000


def test_of_a_long_text_that_does_not_fit_only_the_beginning_is_written_out() -> None:
    """The text itself is built; as JSON, where each letter has six bytes, it would be three times the body."""
    body = b'{"message":"m","retry_at":"%b"}' % ("é" * (2 << 20)).encode()
    with held_to(3 * len(body)), pytest.raises(MalformedRequest, match="retry_at: expected int"):
        decode(body, JSON, Report)


@pytest.mark.parametrize(
    ("form", "piece"), [(JSON, b"[" * 1_000_000 + b"]" * 1_000_000), (MSGPACK, b"\x91" * 1_000_000 + b"\x90")]
)
def test_members_that_nest_too_deeply_are_refused(form: Format, piece: bytes) -> None:
    with pytest.raises(MalformedRequest, match="nested too deeply"):
        members_of(piece, form)
