"""Replies, byte for byte."""

import pytest

from anew.fwp import replies


def test_a_bulk_string_counts_bytes() -> None:
    """Checklist 20."""
    assert replies.bulk("é".encode()) == b"$2\r\n\xc3\xa9\r\n"
    assert replies.bulk(b'{"state":"quiet"}') == b'$17\r\n{"state":"quiet"}\r\n'


def test_line_ends_in_texts_become_spaces() -> None:
    assert replies.error("a\r\nb\nc") == b"-ERR a  b c\r\n"
    assert replies.error("Job not unique", replies.NOT_UNIQUE) == b"-NOTUNIQUE Job not unique\r\n"


def test_refused_jobs_come_sorted() -> None:
    """Checklist 34, 35."""
    assert replies.refused_jobs({}) == b"$2\r\n{}\r\n"
    assert replies.refused_jobs({"b": "x", "": 'y"'}) == b'$18\r\n{"":"y\\"","b":"x"}\r\n'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", '"a b"'),
        ('a b\t\0"\\é\u200b\x7f\ufffd', '"a b\\t\\x00\\"\\\\é\\u200b\\x7f\ufffd"'),
        ("\a\b\f\n\r\v\x1b\U000e0001 ", '"\\a\\b\\f\\n\\r\\v\\x1b\\U000e0001 "'),
    ],
)
def test_values_are_quoted(text: str, shown: str) -> None:
    """The expected texts are those of the protocol's first server."""
    assert replies.quoted(text) == shown


def test_an_echo_is_bounded() -> None:
    assert len(replies.echoed(b"x" * 1_000_000)) == replies.MOST_ECHOED
    assert replies.echoed(b"\xff") == "\ufffd"
