"""Bytes sent ahead of an answer keep the age of the request that begins among them."""

from __future__ import annotations

from anew.net.http1.ahead import SentAhead


def kept(data: bytes, at: int, since_ms: int) -> SentAhead:
    sent = SentAhead()
    sent.since_ms = since_ms
    sent.keep(data, at)
    return sent


def test_what_comes_later_is_younger_once_the_next_request_begins_in_it() -> None:
    sent = kept(b"__first", 2, 10)
    assert sent.size == 5
    sent.add(b"second", 70)
    sent.add(b"third", 90)  # there are two ages at most
    assert sent.take() == (b"firstsecondthird", 0)
    sent.keep(b"firstsecondthird", 4)
    assert sent.since_ms == 10
    sent.keep(b"firstsecondthird", 5)
    assert sent.since_ms == 70
    sent.add(b"fourth", 95)
    sent.keep(sent.data, sent.size - 6)
    assert sent.since_ms == 95


def test_what_may_have_waited_unread_is_as_old_as_that() -> None:
    sent = kept(b"first", 0, 10)
    sent.unread_ms = 30
    sent.add(b"second", 70)
    sent.keep(sent.data, 5)
    assert (sent.since_ms, sent.unread_ms) == (30, 0)


def test_nothing_has_no_age() -> None:
    sent = kept(b"first", 0, 10)
    sent.add(b"second", 70)
    sent.unread_ms = 80
    sent.forget()
    assert (sent.data, sent.since_ms, sent.unread_ms) == (b"", 0, 0)
    sent.since_ms = 100
    sent.keep(b"another", 6)
    assert sent.since_ms == 100
