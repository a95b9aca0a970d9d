"""From MessagePack to JSON: what is refused, and that neither takes long at a stretch."""

import json

import msgspec
import pytest

from anew.errors import MalformedRequest, TooLarge
from anew.http import repacking as module
from anew.http.repacking import repacking
from anew.net.chunks import at_once


def repacked(value: object, most: int = 1_000_000) -> bytes:
    return at_once(repacking(msgspec.msgpack.encode(value), most))


def test_what_json_can_hold_is_written_as_json() -> None:
    value = {"a": [1, -2.5, None, True, "é", {"b": {}}], "": []}
    assert json.loads(repacked(value)) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: 2}, "payload has a key that is not text: 1"),
        ([{"a": {None: 2}}], "payload has a key that is not text: None"),
        ([b"x"], "payload has a bytes value; expected what JSON can hold"),
        ({"a": [1.0, float("nan")]}, "payload has the number nan; expected a finite one"),
        (float("-inf"), "payload has the number -inf; expected a finite one"),
    ],
)
def test_what_json_cannot_hold_is_refused(value: object, message: str) -> None:
    with pytest.raises(MalformedRequest, match=message):
        repacked(value)


def test_messagepack_nests_boundedly() -> None:
    """1008 lists around a list pass the walk, and so does what the decoder lets through; more do not."""
    with pytest.raises(MalformedRequest, match="nest"):
        at_once(repacking(b"\x91" * 1_100 + b"\x90", 10_000))


def test_a_list_of_digits_is_as_long_as_its_json() -> None:
    """n digits, n - 1 commas and two brackets are 2n + 1 characters."""
    assert repacked([1] * 500, 1_001) == b"[" + b",".join([b"1"] * 500) + b"]"
    with pytest.raises(TooLarge, match="payload: expected at most 1000 bytes, got more"):
        repacked([1] * 500, 1_000)


MANY = {
    "nulls": (b"\xc0", 0),
    "empty lists": (b"\x90", 0),
    "lists of nothing and numbers": (b"\x90\x01", 2 * (4_000_000 // 9) // 500),
    "lists in lists": (b"\x92\x90\x90", 0),
    "maps with long heads": (b"\xde\0\0", 4_000_000 // 8 // 500),
}
"""What is repeated, and how often counting it pauses until there are 4,000,000: a list or map counts 8 times, and
500 steps are taken at a stretch. What is alike is counted up to 65,536 at a step, and is too much before there are 500."""


@pytest.mark.parametrize("what", MANY)
def test_too_many_values_are_refused_before_they_are_built(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_unpacked", None)
    item, pauses = MANY[what]
    inner = item * (5_000_000 // len(item))
    work = repacking(b"\xdd" + len(inner).to_bytes(4, "big") + inner, 32 << 20)
    paused: list[None] = []
    with pytest.raises(TooLarge, match="payload: expected at most 4000000 values in MessagePack"):
        paused.extend(work)
    assert len(paused) == pytest.approx(pauses, abs=1)


@pytest.mark.parametrize(
    "value",
    [
        ["x" * 40, "y" * 31, "", "z" * 300, "w" * 70_000] * 20,
        [2**7, 2**15, 2**31, 2**63, -1, -(2**7), -(2**15), -(2**31), -(2**63), 0.5] * 10_000,
        {f"key {n}": [{"é": n}, [n] * 20, {str(m): m for m in range(17)}] for n in range(2_000)},
        ["р" * 100_000] * 20,
    ],
)
def test_counting_finds_its_way_through_values_of_all_lengths(value: object) -> None:
    assert json.loads(repacked(value, 32 << 20)) == value
