"""What a payload may hold, and that judging it takes work that grows with its length."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from anew.errors import MalformedRequest
from anew.jobs import payload_limits
from anew.jobs.payload_limits import WINDOW, judging, may_be_out_of_range, windows
from anew.net.chunks import at_once

LONG = "1" * 65
MB = 1_000_000
TOO_DEEP = "payload: payload nests more than 126 levels deep"
OUT_OF_RANGE = "payload: payload: number out of range; expected one below 1.8e308"
TOO_LONG = "payload: payload has a number of more than 65536 characters; send it as a string"


def listed(item: bytes, times: int) -> bytes:
    return b"[" + b",".join([item] * times) + b"]"


def complaint(text: bytes) -> str:
    """Why a payload is refused; empty if it is not."""
    try:
        at_once(judging(text))
    except MalformedRequest as error:
        return f"{error.field}: {error}"
    return ""


def depth(text: bytes, monkeypatch: pytest.MonkeyPatch, window: int = WINDOW) -> int:
    """The fewest levels with which a payload passes."""
    monkeypatch.setattr(payload_limits, "WINDOW", window)
    for levels in range(200):
        monkeypatch.setattr(payload_limits, "MAX_DEPTH", levels)
        if not complaint(text):
            return levels
    raise AssertionError("deeper than 200 levels")


# -- depth


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("null", 0),
        ('"[[["', 0),
        ("[]", 1),
        ("{}", 1),
        ('{"a":[{}]}', 3),
        ("[[],[[]],[]]", 3),
        ('["a[","]",[]]', 2),
        ('["[\\"[", {"\\\\":["]"]}]', 3),
        ('["\\\\\\"[[["]', 1),
        ('["\\\\",[[]]]', 3),
        ('["[",["["],"]"]', 2),
    ],
)
def test_depth_counts_brackets_outside_strings(
    text: str, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    json.loads(text)
    assert depth(text.encode(), monkeypatch) == levels


def some_value(rng: Random, levels: int) -> Any:
    texts = ["", "[", '"[', "\\", '\\"]', "{}", 'x[]"', "é["]
    kind = rng.randrange(5) if levels else 4
    if kind < 2:
        return [some_value(rng, levels - 1) for _ in range(rng.randrange(4))]
    if kind < 4:
        return {rng.choice(texts): some_value(rng, levels - 1) for _ in range(rng.randrange(4))}
    return rng.choice([*texts, 1, None])


def levels_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels_of, inner), default=0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, WINDOW])
@pytest.mark.parametrize("seed", range(5))
def test_depth_is_that_of_the_decoded_value_wherever_a_window_ends(
    seed: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    for _ in range(30):
        value = some_value(rng, 9)
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
        assert depth(text, monkeypatch, size) == levels_of(value)


@pytest.mark.parametrize("around", [b"", b" " * 10_000])
def test_126_levels_pass_and_127_do_not(around: bytes) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        assert complaint(around + opening * 126 + b"1" + closing * 126) == ""
        assert complaint(around + opening * 127 + b"1" + closing * 127) == TOO_DEEP


def test_brackets_in_strings_are_no_levels() -> None:
    assert complaint(json.dumps(["[" * 500, '"' + "{" * 500]).encode()) == ""
    assert complaint(b'["' + b"[" * 500 + b'",' + b"[" * 126 + b"]" * 126 + b"]") == TOO_DEEP


# -- numbers out of range


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize(
    ("inside", "refused"),
    [
        ("1e400", True),
        ("-1.5E+400", True),
        ("12345678e0302", True),
        ("0." + "0" * 60 + "1e370", True),
        ("1e308", False),
        ("0.0e400", False),
        ("0.00000005e310", False),
        ("1e-400", False),
        (json.dumps("1e400"), False),
        (json.dumps('"') + "," + json.dumps(',1e400,"'), False),
        (json.dumps("\\") + ",1e400", True),
    ],
)
def test_a_number_out_of_range_is_found_wherever_a_window_ends(
    inside: str, refused: bool, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'["{"x" * (4_000 + shift)}",{inside},"{"e" * 300}",1]'.encode()
    for size in (100, 300, 1_000, 10_000):
        monkeypatch.setattr(payload_limits, "WINDOW", size)
        assert complaint(text) == (OUT_OF_RANGE if refused else ""), size
        assert complaint(inside.encode() if "," not in inside else f"[{inside}]".encode()) == (
            OUT_OF_RANGE if refused else ""
        )


def test_a_number_has_any_digits_as_long_as_it_is_in_range() -> None:
    """10^308 has 309 digits, and the largest float is 1.8 times that."""
    for before in (b"[", b'["' + b"x" * WINDOW + b'",'):
        assert complaint(before + b"7" * 308 + b"]") == ""
        assert complaint(before + b"1" + b"0" * 308 + b"]") == ""
        assert complaint(before + b"2" + b"0" * 308 + b"]") == OUT_OF_RANGE
        assert complaint(before + b"1" + b"0" * 400 + b"e-100]") == ""
        assert complaint(before + b"0." + b"1" * 10_000 + b"]") == ""
        assert complaint(before + b"7" * 10_000 + b"]") == OUT_OF_RANGE
    assert complaint(b"[0." + b"1" * (3 * WINDOW) + b"]") == TOO_LONG


def test_a_number_out_of_range_at_the_end_of_megabytes_is_found() -> None:
    text = listed(b'"3e45-1e99e400"', 200_000)
    assert complaint(text) == ""
    assert complaint(text[:-1] + b",1e400]") == OUT_OF_RANGE
    assert complaint(b'["' + b"x" * (3 * MB) + b'",1e400]') == OUT_OF_RANGE


# -- work

WORST: dict[str, Callable[[int], bytes]] = {
    "120 levels again and again": lambda size: listed(b"[" * 120 + b"]" * 120, size // 241),
    "strings of brackets": lambda size: listed(b'"["', size // 4),
    "lists of strings of brackets": lambda size: listed(b'["["]', size // 6),
    "flat lists": lambda size: listed(b"[]", size // 3),
    "three levels": lambda size: listed(b"[[[]]]", size // 7),
    "escapes": lambda size: b"[" * 126 + b'"[' + b"\\\\" * (size // 2) + b'"' + b"]" * 126,
    "escaped quotes": lambda size: b"[" * 126 + b'"[' + b'\\"' * (size // 2) + b'"' + b"]" * 126,
    "coordinates": lambda size: listed(b"[12.3456,56.7891]", size // 18),
    "strings of digits": lambda size: listed(b'"' + LONG.encode() + b'"', size // 68),
    "one string of digits": lambda size: b'"' + b"1" * size + b'"',
}


@pytest.mark.parametrize("size", [MB, 2 * MB])
@pytest.mark.parametrize("what", WORST)
def test_the_worst_is_judged_window_by_window_and_each_once(
    what: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the text takes twice the windows, and between two of them others have their turn."""
    text = WORST[what](size)
    seen: list[int] = []

    def noting(text: bytes) -> Iterator[bytes]:
        for window in windows(text):
            seen.append(len(window))
            yield window

    monkeypatch.setattr(payload_limits, "windows", noting)
    paused_after = [len(seen) for _ in judging(text)]
    assert sum(seen) in (0, len(text))
    assert max(seen, default=0) <= WINDOW + 1  # the second half of an escape
    assert len(seen) <= len(text) // WINDOW + 1
    assert paused_after == [0] * ((len(text) - 1) // WINDOW) + list(range(1, len(seen) + 1))


@pytest.mark.parametrize(
    ("inner", "levels"),
    [(b'"["', 1), (b'["["]', 2), (b"[[]]", 3), (b"[" * 125 + b"]" * 125, 126), (b'{"a":[1,"]"]}', 3)],
)
def test_very_many_brackets_are_legal_but_no_level_too_many(
    inner: bytes, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = 200_000 // inner.count(b"[") + 1
    text = listed(inner, times)
    assert complaint(text[:-1] + b"," + b"[" * 126 + b"]" * 126 + b"]") == TOO_DEEP
    for most, words in ((levels, ""), (levels - 1, TOO_DEEP.replace("126", str(levels - 1)))):
        monkeypatch.setattr(payload_limits, "MAX_DEPTH", most)
        assert complaint(text) == words


@pytest.mark.parametrize("place", range(64))
def test_very_many_digits_are_seen_wherever_they_stand(place: int) -> None:
    """201 digits, from which on a number may be beyond 1.8e308 with an exponent of two digits or none."""
    assert may_be_out_of_range(b'["%b",%b]' % (b"x" * place, b"9" * 201))
    assert not may_be_out_of_range(b'["%b",%b]' % (b"x" * place, b"9" * 127))
