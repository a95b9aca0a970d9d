"""The requests of one delivery's attempts, as a receiver checks them."""

from __future__ import annotations

from datetime import UTC, datetime

import standardwebhooks

from anew.topics import redelivery
from anew.topics.exchange import Answer, Outgoing
from anew.topics.registry import ring_of, rotate
from anew.topics.sending import outgoing
from anew.topics.settling import Sent
from anew.webhooks import verify

from .rig import OK, Topics, policy


def sent(topics: Topics, answer: Answer = OK) -> Outgoing:
    """Send the one delivery that is due; give its request."""
    (one,) = topics.take()
    request = outgoing(one, topics.terms, topics.engine.ids, topics.clock.now())
    topics.settle([Sent(one, answer)])
    return request


def now(topics: Topics) -> float:
    """The rig's time."""
    return topics.clock.now() / 1_000


def test_notifications_36_the_id_stays_and_the_timestamp_is_of_the_attempt() -> None:
    topics = Topics()
    topics.topic(delivery_policy=policy(retry={"schedule": [5]}))
    secret = topics.subscribe().ring.current  # type: ignore[union-attr]
    topics.publish({"id": 42})
    first = sent(topics, Answer(status=503))
    sent_at = topics.clock.now() // 1_000
    topics.clock.advance(5_000)
    second = sent(topics)
    (delivery,) = topics.deliveries()
    topics.do(redelivery.redeliver(topics.terms, delivery.id, "full", force=True))
    topics.clock.advance(60_000)
    third = sent(topics)
    events = []
    for request, later_s in ((first, 0), (second, 5), (third, 65)):
        assert int(request.headers["webhook-timestamp"]) == sent_at + later_s
        at = sent_at + later_s
        events.append(verify(secret, request.headers, request.body, tolerance="2s", now=at))
    assert {event.id for event in events} == {events[0].id}
    assert [event.timestamp - sent_at for event in events] == [0, 5, 65]
    assert {request.body for request in (first, second, third)} == {first.body}
    assert [event.attempt for event in events] == [1, 2, 3]
    assert [event.is_redelivery for event in events] == [False, False, True]
    assert {(event.topic, event.type) for event in events} == {("orders", "order.paid")}
    assert events[0].data == {"id": 42}


def test_notifications_37_what_is_sent_during_a_rotation_verifies_with_both_secrets() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe()
    assert subscribed.ring is not None
    old = subscribed.ring.current
    topics.do(rotate(topics.terms, subscribed.row.id, None, 3_600_000, topics.chance))
    new = ring_of(topics.terms, topics.subscription(subscribed)).current
    topics.publish()
    request = sent(topics)
    assert verify(old, request.headers, request.body, now=now(topics)).id
    assert verify(new, request.headers, request.body, now=now(topics)).id
    first = dict(request.headers) | {"webhook-signature": request.headers["webhook-signature"].split(" ")[0]}
    assert verify(new, first, request.body, now=now(topics)).id
    topics.clock.advance(3_600_000)
    topics.publish()
    request = sent(topics)
    assert len(request.headers["webhook-signature"].split(" ")) == 1
    assert verify(new, request.headers, request.body, now=now(topics)).id


def test_notifications_35_the_reference_library_reads_the_headers_of_a_delivery() -> None:
    topics = Topics()
    topics.topic()
    ring = topics.subscribe().ring
    assert ring is not None
    topics.publish({"id": 42})
    request = sent(topics)
    signed = standardwebhooks.Webhook(ring.current).sign(
        request.headers["webhook-id"], datetime.fromtimestamp(now(topics), UTC), request.body.decode()
    )
    assert signed == request.headers["webhook-signature"]


def test_notifications_38_no_picture_of_a_request_shows_the_secret() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe()
    assert subscribed.ring is not None
    topics.publish()
    shown = repr(sent(topics)) + repr(subscribed) + repr(topics.subscription(subscribed)) + repr(topics.terms)
    assert subscribed.ring.current not in shown
    assert subscribed.ring.current[6:] not in shown
