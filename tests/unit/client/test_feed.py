"""The feed's thread beside a server made by hand: what it says, and how long it waits between tries."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from anew.client import JobView
from anew.client import feed as feeds
from anew.client.feed import Connected, Delivered, Feed, Heartbeat, Lost
from anew.errors import AnewError, StoreFull, Unauthorized, Unreachable

DOWN = Unreachable("no server")
REFUSED = Unauthorized("who are you?")
JOB = JobView(id="a", type="t", queue="q", status="in_flight", priority=1, ready_at=0, attempts=0)


class Stream:
    """A stream that says what it was told to, and then ends or breaks."""

    def __init__(self, *said: JobView | AnewError | None) -> None:
        self.said = said

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing to let go of."""

    def events(self) -> Iterator[JobView | None]:
        for one in self.said:
            if isinstance(one, AnewError):
                raise one
            yield one


class Server:
    """A client whose takes give these streams and errors in turn; after the last it refuses for good."""

    def __init__(self, *tries: Stream | AnewError) -> None:
        self.tries = list(tries)

    def take(self, queues: tuple[str, ...], **asked: Any) -> Stream:
        following = self.tries.pop(0) if self.tries else REFUSED
        if isinstance(following, AnewError):
            raise following
        return following


@pytest.fixture(autouse=True)
def _waits_of_a_millisecond_a_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the try shows as its wait."""
    monkeypatch.setattr(feeds, "retry_wait_ms", lambda retry, error: retry)


def messages_of(*tries: Stream | AnewError, wait_for_server: bool = True) -> list[object]:
    """All that a feed says until it has lost its stream for good."""
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    client: Any = Server(*tries)
    feed = Feed(
        client, inbox.put, queues=["q"], prefetch=1, idle_timeout_ms=1_000, wait_for_server=wait_for_server
    )
    feed.start()
    messages: list[object] = []
    while not (messages and isinstance(messages[-1], Lost) and messages[-1].wait_ms is None):
        messages.append(inbox.get(timeout=10))
    feed.close()
    return messages


def test_what_the_stream_says_arrives_in_its_order() -> None:
    assert messages_of(Stream(None, JOB, None)) == [
        Connected(),
        Heartbeat(),
        Delivered(JOB),
        Heartbeat(),
        Lost(None, 1),
        Lost(REFUSED, None),
    ]


def test_each_try_in_vain_waits_longer_and_a_stream_that_opened_begins_anew() -> None:
    messages = messages_of(DOWN, DOWN, DOWN, Stream(), DOWN, Stream(JOB, DOWN))
    assert messages == [
        Lost(DOWN, 1),
        Lost(DOWN, 2),
        Lost(DOWN, 3),
        Connected(),
        Lost(None, 1),
        Lost(DOWN, 2),
        Connected(),
        Delivered(JOB),
        Lost(DOWN, 1),
        Lost(REFUSED, None),
    ]


def test_a_server_that_is_full_is_tried_again() -> None:
    full = StoreFull("no space")
    assert messages_of(full) == [Lost(full, 1), Lost(REFUSED, None)]


def test_a_feed_that_does_not_wait_gives_up_on_a_server_that_was_never_there() -> None:
    assert messages_of(DOWN, Stream(), wait_for_server=False) == [Lost(DOWN, None)]


def test_a_server_that_was_reached_is_waited_for_in_any_case() -> None:
    assert messages_of(Stream(), DOWN, wait_for_server=False) == [
        Connected(),
        Lost(None, 1),
        Lost(DOWN, 2),
        Lost(REFUSED, None),
    ]


def test_a_feed_that_finishes_opens_no_further_stream() -> None:
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    client: Any = Server(Stream())
    feed = Feed(client, inbox.put, queues=["q"], prefetch=1, idle_timeout_ms=1_000, wait_for_server=True)
    feed.finish()
    feed.start()
    assert inbox.get(timeout=10) == Lost(None, None)
    feed.close()
    assert len(client.tries) == 1
