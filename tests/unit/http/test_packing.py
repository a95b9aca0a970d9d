"""Long JSON in MessagePack: the same values as when it is translated at once, in chunks of bounded size."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec
import pytest

from anew.http import packing as module
from anew.http.packing import WINDOW, packing
from anew.net.chunks import at_once


def packed(text: bytes) -> Any:
    return msgspec.msgpack.decode(at_once(packing(text)))


def anything(rng: Random, depth: int) -> Any:
    """Some value of up to so many levels."""
    match rng.randrange(8 if depth else 5):
        case 0:
            return rng.choice([None, True, False])
        case 1:
            return rng.choice([0, -1, 2**63 - 1, 1.5, -2e30, rng.randrange(10**6)])
        case 2:
            return rng.choice(["", '"', "\\", '\\"', "a\\\\", "[{", "]}", ",", "é\n", '\\\\"]'])
        case 3:
            return "x" * rng.randrange(200)
        case 4:
            return []
        case 5 | 6:
            return [anything(rng, depth - 1) for _ in range(rng.randrange(12))]
        case _:
            return {
                rng.choice(["", '"', "k", "\\", "]", "{,"]) + str(n): anything(rng, depth - 1)
                for n in range(rng.randrange(9))
            }


@pytest.mark.parametrize("window", [1, 2, 7, 50, 300])
@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
def test_values_are_the_same_wherever_a_window_ends(
    window: int, separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", window)
    rng = Random(window)
    for _ in range(150):
        value = anything(rng, 4)
        assert packed(json.dumps(value, separators=separators).encode()) == value


@pytest.mark.parametrize(
    "value",
    [
        [[]] * 100_000,
        {"a": {"b": [{"c": n} for n in range(20_000)]}, "d": 1},
        {"data": "x" * 1_000_000, "more": ["\\" * 500_000, '"' * 100_000]},
        {"k" * 100_000: [1] * 100_000},
        list(range(100_000)),
        "x" * 1_000_000,
    ],
    ids=["lists", "maps", "strings", "key", "numbers", "string"],
)
def test_long_values_are_translated_in_chunks(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain values stay whole, which costs little; nothing else of more than a window is built at once."""
    at_a_time: list[int] = []
    to_msgpack = module.to_msgpack

    def noting(text: bytes) -> bytes:
        if text[:1] != b'"':
            at_a_time.append(len(text))
        return to_msgpack(text)

    monkeypatch.setattr(module, "to_msgpack", noting)
    assert packed(json.dumps(value).encode()) == value
    assert max(at_a_time, default=0) <= WINDOW + 2


def test_short_values_have_the_shortest_headers() -> None:
    assert at_once(packing(b'{"a":[1,{}]}')) == b"\x81\xa1a\x92\x01\x80"
    assert at_once(packing(b'["' + b"x" * WINDOW + b'",[]]')) == (
        b"\xdd\0\0\0\2" + msgspec.msgpack.encode("x" * WINDOW) + b"\x90"
    )


@pytest.mark.parametrize("around", [4_096, 8_192, WINDOW, 2 * WINDOW])
@pytest.mark.parametrize("before", ["", "a"])
def test_runs_of_backslashes_end_anywhere_at_a_windows_edge(around: int, before: str) -> None:
    """A value of n backslashes is written with 2 n, one of n and a quote with 2 n + 1 in front of the quote."""
    for written in range(around - 4, around + 5):
        run = "\\" * (written // 2) + '"' * (written % 2)
        value = [before + run, [1], {before + run: run}, "x" * WINDOW]
        text = json.dumps(value).encode()
        assert b"\\" * written in text
        assert packed(text) == value


@pytest.mark.parametrize("escape", [b"\\\\", b'\\"'])
@pytest.mark.parametrize("form", [b'["%b"]', b'{"%b":1}'])
def test_the_end_of_a_string_is_looked_for_a_window_at_a_time(escape: bytes, form: bytes) -> None:
    windows = 20
    text = form % (escape * (windows * WINDOW // 2))
    pauses = sum(1 for _ in packing(text))
    assert windows <= pauses <= windows + 3


def test_white_space_is_passed_over_a_window_at_a_time() -> None:
    windows = 20
    text = b"[%b1]" % (b" " * (windows * WINDOW))
    assert packed(text) == [1]
    assert windows <= sum(1 for _ in packing(text)) <= windows + 3
