"""Patterns as Redis has them, in bounded work, and what a filter means."""

import pytest

from anew.errors import MalformedRequest
from anew.fwp import globs
from anew.fwp.globs import MAX_PATTERN, Glob, JobFilter
from anew.net.chunks import at_once


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("**", "anything", True),
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ("a*", "abc", True),
        ("*c", "abc", True),
        ("a*c", "ac", True),
        ("ab*bc", "abc", False),
        ("*b*", "abc", True),
        ("*B*", "abc", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("??", "é", True),
        ("[abc]", "b", True),
        ("[^abc]", "b", False),
        ("[^abc]", "d", True),
        ("[a-c]x", "bx", True),
        ("[c-a]x", "bx", True),
        ("[a\\]]", "]", True),
        ("[]", "a", False),
        ("[^]", "a", True),
        ("[ab", "b", True),
        ("a\\*", "a*", True),
        ("a\\*", "ab", False),
        ("a\\", "a\\", True),
        ("*a*b*c*", "xxaxbxcx", True),
        ("*a*b*c*", "xxcxbxax", False),
        ("a.c", "abc", False),
        ("*\n*", "a\nb", True),
        ('*\\"args\\":\\[\\"pear\\"\\]*', '{"jid":"1","args":["pear"]}', True),
        ('*\\"args\\":\\[\\"pear\\"\\]*', '{"jid":"1","args":["plum"]}', False),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:
    """Checklist 84."""
    assert at_once(Glob(pattern).matching(text.encode())) is matches


def test_many_stars_over_a_long_text_end() -> None:
    assert not at_once(Glob("*a" * 2000 + "*b").matching(b"a" * 100_000))
    assert at_once(Glob("*a" * 2000).matching(b"a" * 100_000))


@pytest.mark.parametrize("steps", [1, 7, 200_000])
@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*bcd*", True), ("*b?d*", True), ("*[b]cd*y*", True), ("*bcd", False), ("*xyz", True), ("*xyz*", True),
        ("*[x]yz*", True), ("*[x]yz?*", False), ("*a*c*e*z", True), ("*[a]bc*[a]bc*", False), ("*wxyz?*", False),
    ],
)  # fmt: skip
def test_a_text_is_searched_some_places_at_a_time(
    monkeypatch: pytest.MonkeyPatch, steps: int, pattern: str, matches: bool
) -> None:
    monkeypatch.setattr(globs, "STEPS", steps)
    assert at_once(Glob(pattern).matching(b"abcdefghijklmnopqrstuvwxyz")) is matches


def test_others_have_their_turn_while_a_long_text_is_compared_at_each_place() -> None:
    """A part of 64 sets at each of 100,000 places."""
    assert globs.STEPS == 200_000
    pauses = sum(1 for _ in Glob("*" + "[ab]" * 64 + "b*").matching(b"a" * 100_000))
    assert pauses == 32  # 3,076 places in one go, of 99,936
    literal = sum(1 for _ in Glob("*" + "a" * 4_000 + "b*").matching(b"a" * 1_000_000))
    assert literal == 4  # 200,000 places in one go, of 996,000


def test_a_pattern_is_bounded() -> None:
    with pytest.raises(MalformedRequest):
        Glob("a" * (MAX_PATTERN + 1))


TEXT = rb'{"retry":25,"jid":"job-0001","queue":"default","jobtype":"a*c","args":["caf\u00e9\/"]}'


@pytest.mark.parametrize(
    ("chosen", "means"),
    [
        (JobFilter([], "", ""), True),
        (JobFilter(["job-0001"], "no", "no"), True),
        (JobFilter(["job-0002"], "*", "a*c"), False),
        (JobFilter([], "*queue*", ""), True),
        (JobFilter([], "queue", ""), False),
        (JobFilter([], "*queue*", "a*c"), True),
        (JobFilter([], "*queue*", "abc"), False),
        (JobFilter([], "nothing", "a*c"), False),
        (JobFilter([], "", "a*c"), True),
        (JobFilter([], "", "*"), False),
        (JobFilter([], "*café/*", ""), True),
    ],
)
def test_filters(chosen: JobFilter, means: bool) -> None:
    """Checklist 82, 83, 85."""
    assert at_once(chosen.judging("job-0001", "a*c", lambda: TEXT)) is means


def test_everything_is_meant_by_an_empty_filter_only() -> None:
    """Checklist 85."""
    assert JobFilter([], "", "").everything
    assert not JobFilter([], "*", "").everything
