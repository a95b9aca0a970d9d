"""Subscriptions whose time is over are gone for everybody, whether or not a dispatcher has removed them."""

from __future__ import annotations

import pytest

from anew.errors import Conflict, NotFound
from anew.topics import reading
from anew.topics.documents import SubscriptionDocument
from anew.topics.registry import (
    NewSubscription,
    Subscribed,
    SubscriptionPatch,
    change_subscription,
    drop_topic,
    known_subscription,
    subscribe,
)
from tests.unit.topics.rig import Topics

A = "https://a.example/hook"
TTL_S = 60


def for_a_minute(topics: Topics) -> Subscribed:
    new = NewSubscription(endpoint=A, document=SubscriptionDocument(kind="webhook"), ttl=TTL_S)
    subscribed: Subscribed = topics.do(subscribe(topics.terms, "orders", new, topics.chance))
    return subscribed


def listed(topics: Topics) -> list[str]:
    page = topics.do(reading.subscriptions(topics.terms, "orders", -1, 10))
    return [one["endpoint"]["url"] for one in page["subscriptions"]]


def test_a_subscription_whose_time_is_over_is_shown_and_told_no_more() -> None:
    topics = Topics()
    topics.topic()
    row = for_a_minute(topics).row
    topics.clock.advance(TTL_S * 1_000 - 1)
    assert (listed(topics), topics.publish().deliveries) == ([A], 1)
    topics.clock.advance(1)
    assert (listed(topics), topics.publish().deliveries) == ([], 0)
    with pytest.raises(NotFound):
        topics.do(lambda batch: known_subscription(batch, row.id))


def test_its_endpoint_may_be_subscribed_again_and_what_waits_for_the_one_before_is_cancelled() -> None:
    topics = Topics()
    topics.topic()
    before = for_a_minute(topics)
    topics.publish()
    topics.clock.advance(TTL_S * 1_000)
    after = topics.subscribe(A)
    assert after.row.id != before.row.id
    assert after.ring is not None
    topics.publish(2)
    topics.run()
    assert [one.data for one in topics.requests] == [2]


def test_another_subscription_may_have_its_endpoint() -> None:
    topics = Topics()
    topics.topic()
    for_a_minute(topics)
    other = topics.subscribe("https://b.example/hook")
    change = change_subscription(
        topics.terms, other.row.id, SubscriptionPatch(members={}, kind="webhook", endpoint=A), topics.chance
    )
    with pytest.raises(Conflict):
        topics.do(change)
    topics.clock.advance(TTL_S * 1_000)
    assert topics.do(change).endpoint == A


def test_a_topic_is_removed_with_it() -> None:
    topics = Topics()
    topics.topic()
    for_a_minute(topics)
    with pytest.raises(Conflict):
        topics.do(drop_topic("orders", force=False))
    topics.clock.advance(TTL_S * 1_000)
    topics.do(drop_topic("orders", force=False))
    assert topics.do(lambda batch: batch.store.topics.subscribers("orders", -1, 1, 0)) == []
