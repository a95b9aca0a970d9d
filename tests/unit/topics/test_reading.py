"""What is read of topics for somebody who looks."""

from __future__ import annotations

import pytest

from anew.topics import reading
from anew.topics.exchange import Answer
from anew.topics.redelivery import Selection
from anew.topics.terms import limit_name, question_name, schedule_for, subscription_of

from .rig import Topics, policy

LAST = (1 << 63) - 1


def types(topics: Topics, subscription: int, after: int, limit: int, status: str | None = None) -> list[str]:
    chosen = Selection(subscription=subscription, status=status)
    page = topics.do(reading.deliveries(chosen, after, limit, newest=True))
    return [one["type"] for one in page["deliveries"]]


def test_the_newest_deliveries_of_a_subscription_come_first_by_status_too() -> None:
    topics = Topics()
    topics.topic(delivery_policy=policy(retry={"schedule": []}))
    first, second = (topics.subscribe(f"https://{name}.example/hook").row.id for name in "ab")
    topics.answers["https://a.example/hook"] = [Answer(status=503), Answer(status=200)]
    for n in range(4):
        topics.publish(type=f"n{n}")
        topics.turn()
    topics.publish(type="n4")
    assert types(topics, first, LAST, 9) == ["n4", "n3", "n2", "n1", "n0"]
    assert types(topics, first, LAST, 2) == ["n4", "n3"]
    assert types(topics, first, LAST, 9, "dead") == ["n0"]
    assert types(topics, first, LAST, 2, "delivered") == ["n3", "n2"]
    assert types(topics, second, LAST, 9, "delivered") == ["n3", "n2", "n1", "n0"]
    page = topics.do(reading.deliveries(Selection(subscription=first), LAST, 2, newest=True))
    key = topics.engine.ids.read(page["cursor"].removeprefix("dlv_"))
    assert types(topics, first, key, 9) == ["n2", "n1", "n0"]


def test_how_the_last_deliveries_have_gone() -> None:
    topics = Topics()
    topics.topic(delivery_policy=policy(retry={"schedule": []}))
    well, ill, idle = (topics.subscribe(f"https://{name}.example/hook").row.id for name in "abc")
    topics.answers["https://b.example/hook"] = [Answer(status=200), Answer(status=503)]
    for _ in range(3):
        topics.publish()
        topics.turn()
        topics.clock.advance(1_000)
    found = topics.do(lambda batch: reading.recent(batch, [well, ill]))
    assert [dict(one.counts) for one in found] == [{"delivered": 3}, {"delivered": 1, "dead": 2}]
    assert [one.last["status"] for one in found] == [200, 503]
    assert [one.last["started_at"] for one in found] == ["2023-11-14T22:13:22Z"] * 2
    topics.topic("quiet")
    alone = topics.subscribe(topic="quiet").row.id
    assert topics.do(lambda batch: reading.recent(batch, [alone])) == [({}, None)]
    assert idle


@pytest.mark.parametrize(
    ("server", "topic", "subscription", "name"),
    [
        (b"{}", b"{}", None, "preset standard"),
        (b'{"retry":{"preset":"sns"}}', b"{}", b"{}", "preset sns"),
        (b'{"retry":{"preset":"sns"}}', b'{"delivery_policy":{"retry":{"schedule":[1]}}}', b"{}", "schedule"),
        (
            b"{}",
            b'{"delivery_policy":{"health":{}}}',
            b'{"delivery_policy":{"retry":{"schedule":[1]}}}',
            "schedule",
        ),
        (
            b"{}",
            b'{"lock_delivery_policy":true}',
            b'{"delivery_policy":{"retry":{"schedule":[1]}}}',
            "preset standard",
        ),
    ],
)
def test_the_retries_that_hold_are_those_of_the_last_layer_that_gives_some(
    server: bytes, topic: bytes, subscription: bytes | None, name: str
) -> None:
    assert [phase.name for phase in schedule_for(server, topic, subscription).phases] == [name]


@pytest.mark.parametrize("key", [1, 0x1A21FC6387100000, (1 << 63) - 1])
def test_the_keys_of_subscriptions_are_told_from_those_of_jobs(key: int) -> None:
    assert subscription_of(limit_name(key)) == (key, False)
    assert subscription_of(question_name(key)) == (key, True)
    for other in ("acme", "$subscription/", "$subscription/zz", "$subscription/1 ", f"{limit_name(1)}0" * 2):
        assert subscription_of(other) is None
