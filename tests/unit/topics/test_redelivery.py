"""Deliveries sent again: one, many, and what was missed. Numbers are the checklist's of the notification specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from anew.errors import Conflict, PayloadExpired
from anew.store.selection import Filter, Page
from anew.store.topics import SubscriptionRow
from anew.topics.exchange import Answer
from anew.topics.reading import deliveries
from anew.topics.redelivery import (
    Selection,
    TaskDocument,
    cancel,
    count,
    known_task,
    redeliver,
    remove,
    start,
    stop,
)
from anew.topics.registry import confirm, turn
from anew.topics.steering import moment
from anew.topics.views import message_view
from tests.unit.topics.rig import NOW, OK, Topics, policy

A = "https://a.example/hook"
FAIL = Answer(status=500)


def with_endpoint(**document: object) -> Topics:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": []}), **document)
    return topics


def test_notifications_55_a_dead_delivery_is_sent_again_and_keeps_its_attempts() -> None:
    topics = with_endpoint()
    topics.answers[A] = [FAIL, OK]
    topics.publish()
    topics.run()
    (dead,) = topics.deliveries()
    topics.do(redeliver(topics.terms, dead.id))
    topics.run()
    assert topics.statuses() == ["delivered"]
    attempts = topics.attempts(dead.id)
    assert [(one.trigger, one.outcome) for one in attempts if one] == [
        ("scheduled", "dead"),
        ("manual", "delivered"),
    ]


def test_notifications_56_what_was_delivered_is_sent_again_by_force_alone_and_never_without_its_message() -> (
    None
):
    topics = with_endpoint()
    topics.publish()
    topics.run()
    (row,) = topics.deliveries()
    with pytest.raises(Conflict, match="it was delivered; send force"):
        topics.do(redeliver(topics.terms, row.id))
    topics.do(redeliver(topics.terms, row.id, force=True))
    topics.run()
    assert [one.number for one in topics.requests] == [1, 2]
    topics.clock.advance(15 * 86_400_000)  # messages are kept for 14 days
    topics.do(lambda batch: batch.store.topics.purge(batch.now, 100))
    with pytest.raises(PayloadExpired):
        topics.do(redeliver(topics.terms, row.id, force=True))


def test_once_is_one_attempt_and_full_begins_the_policy_again() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [3]}))
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    (row,) = topics.deliveries()
    topics.do(redeliver(topics.terms, row.id, "once"))
    topics.run()
    assert topics.times() == [0, 3, 3]
    topics.do(redeliver(topics.terms, row.id, "full"))
    topics.run()
    assert topics.times() == [0, 3, 3, 3, 6]
    assert topics.deliveries()[0].attempts == 5


def test_what_is_sent_again_waits_as_the_endpoint_has_asked() -> None:
    topics = with_endpoint()
    topics.answers[A] = [OK, Answer(status=503, headers={"retry-after": "60"}), OK]
    topics.publish()
    topics.run()
    topics.publish()
    topics.run()
    delivered, dead = topics.deliveries()
    topics.do(remove(dead.id))  # no job of this endpoint is left
    topics.do(redeliver(topics.terms, delivered.id, force=True))
    topics.run()
    assert topics.times() == [0, 0, 60]


def test_a_window_that_ends_where_time_begins_is_empty() -> None:
    topics = with_endpoint()
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    assert topics.do(lambda batch: count(batch, Selection(until=0))) == (0, None)


@pytest.mark.parametrize("text", ["9999-12-31T00:00:00Z", "999999999999999"])
@pytest.mark.parametrize("include", ["failed", "missed", "all"])
def test_a_replay_of_what_will_be_published_in_very_many_years_is_done_at_once(
    text: str, include: Literal["failed", "missed", "all"]
) -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe(A)
    at = moment(text, "/since")
    assert at is not None
    chosen = Selection(subscription=subscribed.row.id, since=at, until=at)
    task = topics.do(start(topics.terms, TaskDocument(selection=chosen, include=include)))
    topics.run()
    assert topics.do(lambda batch: known_task(batch, task.id)).status == "done"


@pytest.mark.parametrize("text", ["1969-12-31T00:00:00Z", "0"])
def test_an_instant_before_all_is_the_first_one(text: str) -> None:
    assert moment(text, "/until") == 0


def test_a_waiting_delivery_that_is_sent_again_is_sent_now() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [1_000]}))
    topics.answers[A] = [FAIL, OK]
    topics.publish()
    topics.turn()
    topics.do(redeliver(topics.terms, topics.deliveries()[0].id))
    topics.run(until_ms=0)
    assert topics.times() == [0, 0]


def test_notifications_57_a_replay_sends_exactly_the_dead_of_its_window_once_oldest_first() -> None:
    topics = with_endpoint()
    topics.answers[A] = FAIL
    for number in range(5):
        topics.publish(number)
        topics.run()
        topics.clock.advance(60_000)
    topics.requests.clear()
    topics.answers[A] = OK
    subscription = topics.deliveries()[0].subscription
    window = Selection(subscription=subscription, since=NOW + 60_000, until=NOW + 240_000)
    task = topics.do(start(topics.terms, TaskDocument(selection=window, include="failed")))
    topics.run()
    assert [one.data for one in topics.requests] == [1, 2, 3]
    done = topics.do(lambda batch: known_task(batch, task.id))
    assert (done.status, done.done) == ("done", 3)
    assert topics.statuses() == ["dead", "delivered", "delivered", "delivered", "dead"]


@pytest.mark.parametrize(("hold", "go_on"), [("pause", "resume"), ("disable", "enable")])
def test_what_was_held_may_be_cancelled_when_its_subscription_goes_on(hold: Any, go_on: Any) -> None:
    topics = with_endpoint()
    topics.answers[A] = OK
    topics.publish("held", delay=60)
    subscription = topics.deliveries()[0].subscription
    topics.do(turn(topics.terms, subscription, hold))
    topics.clock.advance(1_000)
    topics.do(turn(topics.terms, subscription, go_on, release=False))
    topics.clock.advance(1_000)
    topics.publish("new")
    topics.run()
    assert [one.data for one in topics.requests] == ["new"]
    assert topics.statuses() == ["cancelled", "delivered"]
    (dropped, _) = topics.deliveries()
    topics.do(redeliver(topics.terms, dropped.id))
    topics.run()
    assert [one.data for one in topics.requests] == ["new", "held"]


def test_a_replay_of_all_sends_what_was_delivered_too() -> None:
    topics = with_endpoint()
    topics.answers[A] = [OK, FAIL]
    for number in range(2):
        topics.publish(number)
        topics.run()
    assert topics.statuses() == ["delivered", "dead"]
    topics.requests.clear()
    topics.answers[A] = OK
    chosen = Selection(subscription=topics.deliveries()[0].subscription, since=NOW)
    topics.do(start(topics.terms, TaskDocument(selection=chosen, include="all")))
    topics.run()
    assert [one.data for one in topics.requests] == [0, 1]
    assert topics.statuses() == ["delivered", "delivered"]


def test_what_a_queue_has_got_it_gets_again() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe("queue:mail")
    topics.publish()
    (row,) = topics.deliveries()
    topics.do(redeliver(topics.terms, row.id, force=True))
    topics.run()
    chosen = Selection(subscription=row.subscription, since=NOW)
    topics.do(start(topics.terms, TaskDocument(selection=chosen, include="all")))
    topics.run()
    ready = topics.do(lambda batch: batch.store.find(Filter(queues=frozenset({"mail"})), Page(limit=10)))
    assert (len(ready), topics.statuses(), topics.requests) == (3, ["delivered"], [])


def test_notifications_53_what_was_published_while_it_was_disabled_is_made_by_a_replay_of_what_was_missed() -> (
    None
):
    topics = with_endpoint()
    subscription = topics.do(lambda batch: batch.store.topics.subscribers("orders", -1, 1, batch.now))[0].id
    for number in (-2, -1, 0, 1):
        topics.publish(number)
        topics.clock.advance(1_000)
    topics.do(turn(topics.terms, subscription, "disable"))
    topics.publish(2)
    topics.publish(3)
    topics.run()
    assert topics.requests == []
    topics.do(turn(topics.terms, subscription, "enable"))
    topics.run()
    assert [one.data for one in topics.requests] == [-2, -1, 0, 1]  # the oldest first
    missed = TaskDocument(selection=Selection(subscription=subscription, since=NOW), include="missed")
    topics.do(start(topics.terms, missed))
    topics.run()
    assert [one.data for one in topics.requests] == [-2, -1, 0, 1, 2, 3]


def test_notifications_53_what_was_held_is_released_through_the_throttle_oldest_first() -> None:
    topics = Topics()
    topics.topic()
    throttle = {"max_per_second": 1, "burst": 1}
    own = policy(retry={"schedule": [60] * 3}, throttle=throttle)
    subscribed = topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = [FAIL, OK]
    for number in range(
        4
    ):  # the first of them fails, and waits; the others are held as they wait for the rate
        topics.publish(number)
    topics.turn()
    topics.do(turn(topics.terms, subscribed.row.id, "disable"))
    topics.clock.advance(100_000)
    topics.requests.clear()
    assert topics.turn() == 0
    topics.do(turn(topics.terms, subscribed.row.id, "enable"))
    topics.run()
    assert [one.data for one in topics.requests] == [0, 1, 2, 3]
    assert topics.times() == [100, 101, 102, 103]


def test_a_selection_is_counted_before_it_is_sent() -> None:
    topics = with_endpoint()
    topics.answers[A] = FAIL
    for number in range(250):
        topics.publish(number)
    topics.run()
    chosen = Selection(status="dead", dead_reason="exhausted")
    assert topics.do(lambda batch: count(batch, chosen)) == (250, None)
    other = Selection(status="dead", topic="other")
    assert topics.do(lambda batch: count(batch, other)) == (0, None)
    # One transaction looks at a bounded number, however few of them match.
    found, last = topics.do(lambda batch: count(batch, other, limit=200))
    assert (found, last) == (0, topics.deliveries()[199].id)
    assert topics.do(lambda batch: count(batch, chosen, last, limit=200)) == (50, None)
    topics.answers[A] = OK
    task = topics.do(start(topics.terms, TaskDocument(selection=chosen)))
    topics.run()
    assert set(topics.statuses()) == {"delivered"}
    assert topics.do(lambda batch: known_task(batch, task.id)).done == 250


def test_a_task_that_is_stopped_does_no_more() -> None:
    topics = with_endpoint()
    topics.answers[A] = FAIL
    for number in range(3):
        topics.publish(number)
    topics.run()
    task = topics.do(start(topics.terms, TaskDocument(selection=Selection(status="dead"))))
    assert topics.do(stop(task.id)).status == "cancelled"
    topics.run()
    assert topics.statuses() == ["dead"] * 3


def test_what_is_cancelled_is_not_sent_and_what_is_dead_can_be_removed() -> None:
    topics = with_endpoint()
    topics.publish(1)
    (row,) = topics.deliveries()
    topics.do(cancel(topics.terms, row.id))
    topics.run()
    assert (topics.requests, topics.statuses()) == ([], ["cancelled"])
    with pytest.raises(Conflict, match="only dead deliveries"):
        topics.do(remove(row.id))
    topics.answers[A] = FAIL
    topics.publish(2)
    topics.run()
    topics.do(remove(topics.deliveries()[1].id))
    assert topics.statuses() == ["cancelled"]


def test_notifications_08_many_subscriptions_get_theirs_in_chunks_also_if_a_chunk_is_made_twice() -> None:
    topics = Topics(fanout_inline=10)
    topics.topic()
    for number in range(1_200):
        topics.subscribe(f"https://{number}.example/")
    published = topics.publish()
    assert (published.deliveries, published.expanding) == (0, True)
    topics.take(1)  # makes the first 500
    topics.do(lambda batch: batch.store.topics.expand(published.ids[0], -1))  # forgets how far it was
    topics.run()
    assert len(topics.requests) == len({one.url for one in topics.requests}) == 1_200


def test_nobody_is_sent_the_question_that_another_was_asked() -> None:
    """It has the token that says yes in the other's name."""
    topics = Topics(confirmation="required")
    topics.topic()
    asked, other = topics.subscribe(A), topics.subscribe("https://b.example/hook")
    topics.do(confirm(topics.terms, other.row.id))
    topics.run(until_ms=0)
    (question,) = [row for row in topics.deliveries() if row.subscription == asked.row.id]
    topics.requests.clear()
    chosen = Selection(subscription=other.row.id, since=NOW - 1_000)
    topics.do(start(topics.terms, TaskDocument(selection=chosen, include="all")))
    topics.run(until_ms=0)
    assert topics.requests == []
    topics.do(confirm(topics.terms, asked.row.id))
    with pytest.raises(Conflict, match="resend-confirmation asks again"):
        topics.do(redeliver(topics.terms, question.id, force=True))
    assert (
        topics.do(
            lambda batch: message_view(
                batch, batch.store.topics.messages([question.message])[question.message]
            )
        )["data"]
        is None
    )


def test_what_was_published_before_the_first_instant_is_nothing() -> None:
    topics = with_endpoint()
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    counted = [
        topics.do(lambda batch, until=until: count(batch, Selection(status="dead", until=until)))[0]
        for until in (None, NOW + 1, NOW, 0)
    ]
    assert counted == [1, 1, 0, 0]
    assert moment("1969-12-31T23:59:59Z", "/until") == 0


def test_a_page_of_which_little_matches_costs_a_few_statements_a_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = with_endpoint()
    for number in range(20):
        topics.publish(number)
    asked: list[int] = []
    read = topics.store.topics.subscriptions

    def watched(ids: Sequence[int], now: int) -> dict[int, SubscriptionRow]:
        asked.append(len(ids))
        return read(ids, now)

    monkeypatch.setattr(topics.store.topics, "subscriptions", watched)
    chosen = Selection(topic="orders", status="held")
    assert topics.do(deliveries(chosen, -1, 20)) == {"deliveries": [], "cursor": None}
    assert asked == [1, 1, 0]
    page = topics.do(deliveries(Selection(topic="orders", status="ready"), -1, 5))
    assert (len(page["deliveries"]), page["cursor"]) == (5, page["deliveries"][-1]["id"])
