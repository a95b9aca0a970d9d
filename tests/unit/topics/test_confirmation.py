"""Endpoints are asked before they get anything. Numbers are the checklist's of the notification specification."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.errors import Conflict, Expired, InvalidInput, NotFound
from anew.topics.delivery_policy import Throttling
from anew.topics.documents import SubscriptionDocument
from anew.topics.exchange import Answer
from anew.topics.registry import (
    NewSubscription,
    SubscriptionPatch,
    change_subscription,
    confirm,
    confirm_by,
    resend,
    subscribe,
)
from anew.topics.sending import outgoing
from anew.topics.steering import steer
from anew.topics.taking import Assignment
from anew.topics.terms import limit_key
from tests.unit.topics.rig import OK, Topics

A = "https://a.example/hook"
QUESTION = "anew.subscription.confirmation"


def asking() -> Topics:
    topics = Topics(confirmation="required")
    topics.topic()
    return topics


def questions(topics: Topics) -> list[Any]:
    return [one.data for one in topics.requests if one.type == QUESTION]


def echo(given: Assignment) -> Answer:
    data = msgspec.json.decode(given.message.data)
    token = data.get("challenge") if isinstance(data, dict) else None
    return Answer(status=200, excerpt=msgspec.json.encode({"challenge": token}).decode())


def echo_in_header(given: Assignment) -> Answer:
    return Answer(
        status=204, headers={"webhook-challenge": msgspec.json.decode(given.message.data)["challenge"]}
    )


def test_notifications_39_nothing_is_delivered_before_the_endpoint_has_consented() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    topics.answers[A] = OK  # it answers, and echoes nothing
    topics.publish({"id": 1})
    topics.run(until_ms=10_000)
    assert [one.type for one in topics.requests] == [QUESTION]
    assert topics.subscription(subscribed).status == "unconfirmed"


@pytest.mark.parametrize("consent", [echo, echo_in_header])
def test_notifications_39_an_echo_confirms(consent: Any) -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    topics.answers[A] = consent
    topics.run(until_ms=0)
    assert topics.subscription(subscribed).status == "active"
    topics.answers[A] = OK
    topics.publish({"id": 1})
    topics.run(until_ms=0)
    assert topics.requests[-1].data == {"id": 1}


def test_notifications_39_40_a_visit_confirms_once() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    topics.run(until_ms=0)
    (question,) = questions(topics)
    token = question["challenge"]
    assert question["confirm_url"] == f"https://anew.example/v1/confirm/{token}"
    topics.do(confirm_by(topics.terms, token))
    assert topics.subscription(subscribed).status == "active"
    with pytest.raises(Expired):
        topics.do(confirm_by(topics.terms, token))


def test_notifications_39_its_owners_word_confirms() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    topics.do(confirm(topics.terms, subscribed.row.id))
    assert topics.subscription(subscribed).status == "active"
    with pytest.raises(Conflict, match="is active, and waits for no confirmation"):
        topics.do(confirm(topics.terms, subscribed.row.id))


def test_notifications_40_a_token_is_over_after_two_days_and_a_new_one_replaces_it() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    topics.run(until_ms=0)
    topics.clock.advance(2 * 86_400_000)
    with pytest.raises(Expired):
        topics.do(confirm_by(topics.terms, questions(topics)[0]["challenge"]))
    topics.do(resend(topics.terms, subscribed.row.id, topics.chance))
    topics.run(until_ms=2 * 86_400_000)
    first, second = (question["challenge"] for question in questions(topics))
    assert first != second
    with pytest.raises(Expired):
        topics.do(confirm_by(topics.terms, first))
    topics.do(confirm_by(topics.terms, second))


def test_a_token_confirms_no_other_subscription_than_the_one_that_is_named() -> None:
    topics = asking()
    asked, other = topics.subscribe(A), topics.subscribe("https://b.example/hook")
    topics.run(until_ms=0)
    (token,) = (one.data["challenge"] for one in topics.requests if one.url == A)
    body = msgspec.json.encode({"token": token})

    def by_token(key: int) -> None:
        topics.do(steer(topics.terms, key, "confirm", body, topics.chance))

    with pytest.raises(InvalidInput, match="/token: this token is another subscription's"):
        by_token(other.row.id)
    with pytest.raises(NotFound):
        by_token(1)
    assert [topics.subscription(one).status for one in (asked, other)] == ["unconfirmed"] * 2
    by_token(asked.row.id)
    assert [topics.subscription(one).status for one in (asked, other)] == ["active", "unconfirmed"]


def test_an_empty_token_is_not_the_owners_word() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    with pytest.raises(Expired):
        topics.do(steer(topics.terms, subscribed.row.id, "confirm", b'{"token": ""}', topics.chance))
    assert topics.subscription(subscribed).status == "unconfirmed"
    topics.do(steer(topics.terms, subscribed.row.id, "confirm", b"{}", topics.chance))
    assert topics.subscription(subscribed).status == "active"


@pytest.mark.parametrize("token", ["", "x", "0" * 16 + "-" + "0" * 64, "f" * 16 + "-" + "0" * 64])
def test_what_is_no_token_confirms_nothing(token: str) -> None:
    topics = asking()
    topics.subscribe(A)
    with pytest.raises(Expired):
        topics.do(confirm_by(topics.terms, token))


def test_notifications_05_a_question_that_fails_is_asked_again() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    answers = [Answer(error="refused"), Answer(status=500)]
    topics.answers[A] = lambda given: answers.pop(0) if answers else echo(given)
    topics.run(until_ms=40_000)
    first, second, third = topics.times()
    assert (first, 4.5 <= second <= 5.5, 27 <= third - second <= 33) == (0, True, True)  # jitter of a tenth
    assert topics.subscription(subscribed).status == "active"


def test_notifications_41_another_url_is_to_be_confirmed_again() -> None:
    topics = asking()
    subscribed = topics.subscribe(A)
    topics.answers[A] = echo
    topics.run(until_ms=0)
    patch = SubscriptionPatch(members={}, kind="webhook", endpoint="https://b.example/")
    topics.do(change_subscription(topics.terms, subscribed.row.id, patch, topics.chance))
    assert topics.subscription(subscribed).status == "unconfirmed"
    topics.publish({"id": 1})
    topics.run(until_ms=0)
    assert [(one.url, one.type) for one in topics.requests[1:]] == [("https://b.example/", QUESTION)]


def test_another_queue_is_asked_nothing() -> None:
    topics = asking()
    subscribed = topics.subscribe("queue:mail")
    patch = SubscriptionPatch(members={}, kind="queue", endpoint="queue:post")
    topics.do(change_subscription(topics.terms, subscribed.row.id, patch, topics.chance))
    assert topics.subscription(subscribed).status == "active"
    topics.publish()
    topics.run()
    assert (topics.statuses(), topics.requests) == (["delivered"], [])


def test_subscribing_again_asks_again_and_makes_no_second_one() -> None:
    topics = asking()
    first = topics.subscribe(A)
    second = topics.subscribe(A)
    assert (second.row.id, second.ring) == (first.row.id, None)
    topics.run(until_ms=0)
    assert len(questions(topics)) == 2


@pytest.mark.parametrize(
    ("headers", "status", "rate"),
    [
        ({}, "unconfirmed", None),
        ({"webhook-allowed-origin": "other.example"}, "unconfirmed", None),
        ({"webhook-allowed-origin": "anew.example"}, "active", None),
        ({"webhook-allowed-origin": "*", "webhook-allowed-rate": "120"}, "active", 2.0),
    ],
)
def test_notifications_42_cloudevents_consent_is_a_header_and_never_the_status(
    headers: dict[str, str], status: str, rate: float | None
) -> None:
    topics = Topics(confirmation="required", origin="anew.example")
    topics.topic()
    subscribed = topics.subscribe(A, handshake="cloudevents")
    (given,) = topics.take()
    request = outgoing(given, topics.terms, topics.engine.ids, topics.clock.now())
    assert (request.method, request.headers["webhook-request-origin"]) == ("OPTIONS", "anew.example")
    topics.do(lambda batch: batch.release([given.delivery.job], None))
    topics.do(lambda batch: batch.store.topics.drop_attempts([(given.delivery.id, 1)]))
    topics.answers[A] = Answer(status=200, headers=headers)
    topics.run(until_ms=0)
    assert topics.subscription(subscribed).status == status
    topics.publish(1)
    topics.publish(2)
    topics.publish(3)
    topics.run(until_ms=10_000)
    expected = [0, 0, 0] if rate is None else [0, 500, 1_000]
    sent = [one.at for one in topics.requests if one.type != QUESTION]
    assert sent == (expected if status == "active" else [])


@pytest.mark.parametrize("per_minute", [1, 7, 100, 999_999])
def test_notifications_42_no_more_start_than_the_endpoint_grants(per_minute: int) -> None:
    throttle = Throttling(max_per_second=None, burst=1, max_in_flight=8)
    key = limit_key("a", throttle, per_minute / 60)
    assert key.rate is not None
    starts, period_ms, _ = key.rate
    assert starts * 60_000 == per_minute * period_ms


@pytest.mark.parametrize(
    ("confirmation", "is_asked", "status"),
    [
        ("required", False, "unconfirmed"),
        ("required", True, "unconfirmed"),
        ("optional", False, "active"),
        ("optional", True, "unconfirmed"),
        ("off", True, "active"),
    ],
)
def test_where_confirmation_is_optional_only_those_are_asked_that_want_it(
    confirmation: str, is_asked: bool, status: str
) -> None:
    topics = Topics(confirmation=confirmation)
    topics.topic()
    new = NewSubscription(endpoint=A, document=SubscriptionDocument(), is_asked=is_asked)
    subscribed = topics.do(subscribe(topics.terms, "orders", new, topics.chance))
    assert subscribed.row.status == status
    assert topics.turn() == len(questions(topics)) == (status == "unconfirmed")
    patch = SubscriptionPatch(members={}, endpoint="https://b.example/hook")
    changed = topics.do(change_subscription(topics.terms, subscribed.row.id, patch, topics.chance))
    assert changed.status == status
