"""What a publication promises. Numbers are the checklist's of the notification specification, section 5."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from msgspec import Raw

from anew.errors import Conflict, InvalidInput, StoreFull
from anew.http.topic_metrics import topic_metrics
from anew.store.sqlite import open_sqlite
from anew.topics.delivery_policy import effective, layer_of
from anew.topics.documents import NewMessage, check_message
from anew.topics.exchange import Answer
from anew.topics.publishing import publish
from anew.topics.registry import SubscriptionPatch, change_subscription
from anew.topics.settling import Sent
from anew.topics.taking import MOST_MADE
from anew.units import DAY_MS
from tests.unit.topics.rig import NOW, OK, Topics, policy

A = "https://a.example/hook"
B = "https://b.example/hook"
FAIL = Answer(status=500)


def test_notifications_01_a_retry_comes_at_its_original_time_after_a_restart(tmp_path: Path) -> None:
    topics = Topics(tmp_path)
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [60]}))
    topics.answers[A] = FAIL
    topics.publish()
    topics.turn()
    topics.store.close()
    again = Topics(tmp_path)
    again.clock.advance(10_000)
    again.run()
    assert again.times() == [60]
    again.store.close()


def test_notifications_04_messages_behind_one_that_fails_are_sent_all_the_same() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [60]}))
    topics.answers[A] = [Answer(error="refused"), OK]
    messages = [NewMessage(type="a", data=Raw(b"%d" % number)) for number in range(4)]
    topics.do(publish(topics.terms, "orders", messages))
    topics.run(until_ms=0)
    assert [one.data for one in topics.requests] == [0, 1, 2, 3]


def test_notifications_06_what_was_answered_is_there_after_the_process_is_gone(tmp_path: Path) -> None:
    topics = Topics(tmp_path)
    topics.topic()
    topics.subscribe(A)
    topics.publish({"id": 1})
    # Nothing is closed: another process finds what was committed.
    other = open_sqlite(tmp_path, exclusive=False)
    other.begin(synced=False)
    (row,) = other.topics.deliveries_of(None, -1, (1 << 63) - 1, 10)
    assert other.topics.messages([row.message])[row.message].data == b'{"id":1}'
    assert [job.key for job in other.load([row.job])] == [row.job]
    other.rollback()
    other.close()
    topics.store.close()


def test_notifications_07_the_same_key_is_the_same_message_and_with_something_else_refused() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A)
    message = [NewMessage(type="a", data=Raw(b"1"))]
    first = topics.do(publish(topics.terms, "orders", message, "order-42", b"digest"))
    second = topics.do(publish(topics.terms, "orders", message, "order-42", b"digest"))
    assert (second.ids, second.repeated) == (first.ids, True)
    with pytest.raises(Conflict, match="was used within 24 h for something else"):
        topics.do(publish(topics.terms, "orders", message, "order-42", b"another"))
    topics.run()
    assert len(topics.requests) == 1
    topics.clock.advance(86_400_000)
    topics.do(lambda batch: batch.store.topics.purge(batch.now, 100))
    third = topics.do(publish(topics.terms, "orders", message, "order-42", b"another"))
    assert third.ids != first.ids


def test_notifications_21_22_a_subscriptions_block_replaces_the_topics_unless_that_is_locked() -> None:
    topics = Topics()
    topics.topic(delivery_policy=policy(retry={"schedule": [7]}, throttle={"max_in_flight": 1}))
    own = {"retry": {"schedule": [3], "jitter": 0}}
    subscribed = topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = FAIL
    topics.publish(1)
    topics.publish(2)
    assert len(topics.take()) == 1, "the topic's throttle holds"
    topics.topic(delivery_policy=policy(retry={"schedule": [7]}), lock_delivery_policy=True)
    with pytest.raises(Conflict, match="locks delivery policies"):
        topics.subscribe(B, delivery_policy=own)
    patch = SubscriptionPatch(members={"delivery_policy": {"retry": {"schedule": [1]}}})
    with pytest.raises(Conflict, match="locks delivery policies"):
        topics.do(change_subscription(topics.terms, subscribed.row.id, patch, topics.chance))
    locked = Topics()
    locked.topic(delivery_policy=policy(retry={"schedule": [7]}))
    locked.subscribe(A, delivery_policy=own)
    locked.topic(delivery_policy=policy(retry={"schedule": [7]}), lock_delivery_policy=True)
    locked.answers[A] = FAIL
    locked.publish()
    locked.run()
    assert locked.times() == [0, 7]


def test_notifications_50_a_throttled_delivery_is_held_up_once_and_seen_as_such() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(throttle={"max_in_flight": 1}))
    for number in range(3):
        topics.publish(number)
    (running,) = topics.take()
    ages = []
    for _ in range(5):
        assert topics.take() == []
        topics.clock.advance(1_000)
        ages.append(deferred_s(topics))
    assert ages == [1, 2, 3, 4, 5]
    # Nothing was written of them meanwhile: neither an attempt, nor a record of a snooze.
    rows = topics.deliveries()
    assert [row.attempts for row in rows] == [0, 0, 0]
    assert all(
        topics.do(lambda batch, row=row: batch.store.records.count_outcomes(row.job, "snoozed")) == 0
        for row in rows
    )
    topics.settle([Sent(running, OK)])
    topics.run()
    assert (topics.statuses(), deferred_s(topics)) == (["delivered"] * 3, 0)


def deferred_s(topics: Topics) -> float:
    """What the gauge of the oldest delivery that is held up says now."""
    reader = topics.store.reader()
    figures = reader.topic_figures("$deliveries")
    reader.close()
    (gauge,) = [
        family.samples[0].value
        for family in topic_metrics(figures, {}, topics.clock.now())
        if family.name == "anew_delivery_oldest_deferred_seconds"
    ]
    return float(gauge)


@pytest.mark.parametrize(("wait_s", "starts"), [(0.2, 1), (1.0, 5)])
def test_notifications_50_what_a_rate_holds_up_is_looked_at_when_it_may_start(
    wait_s: float, starts: int
) -> None:
    """Of thirty that wait as many are touched as may start then, and no other."""
    topics = Topics()
    topics.topic()
    throttle = {"max_per_second": 5, "burst": 5, "max_in_flight": 100}
    topics.subscribe(A, delivery_policy=policy(throttle=throttle))
    for number in range(30):
        topics.publish(number)
    topics.turn()
    waits_until = topics.engine.wake_at
    assert waits_until == NOW + 200
    topics.clock.advance(round(wait_s * 1_000))
    assert topics.turn() == starts


def test_notifications_54_every_attempt_has_a_row_with_what_came_and_when_the_next_one_comes() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [5, 5]}))
    topics.answers[A] = [Answer(status=503, duration_ms=12), Answer(error="timeout", duration_ms=15_000), OK]
    topics.publish()
    topics.run()
    (row,) = topics.deliveries()
    attempts = [attempt for attempt in topics.attempts(row.id) if attempt is not None]
    shown = [(one.outcome, one.error, one.answer and one.answer.duration_ms, one.next_at) for one in attempts]
    assert shown == [
        ("retry", "status 503", 12, NOW + 5_000),
        ("retry", "timeout", 15_000, NOW + 10_000),
        ("delivered", None, 0, None),
    ]


def test_notifications_54_lost_and_interrupted_attempts_have_such_a_row_too() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [5]}))
    topics.publish()
    (lost,) = topics.take()
    topics.clock.advance(1_500)
    topics.do(lambda batch: batch.release([lost.delivery.job], None))  # as after the death of its process
    assert topics.take() == []
    (interrupted,) = topics.take()
    topics.clock.advance(700)
    topics.settle([Sent(interrupted, None)])
    topics.run()
    (row,) = topics.deliveries()
    attempts = [attempt for attempt in topics.attempts(row.id) if attempt is not None]
    shown = [(one.outcome, one.error, one.answer and one.answer.duration_ms, one.next_at) for one in attempts]
    assert shown == [
        ("lost", "lost", 1_500, NOW + 1_500),
        ("interrupted", "interrupted", 700, NOW + 2_200),
        ("delivered", None, 0, None),
    ]


def test_notifications_59_a_preview_shows_the_waits_that_the_engine_uses() -> None:
    own = policy(retry={"backoff_retries": 6, "min_delay": 2, "max_delay": 90, "function": "geometric"})
    previewed, _ = effective([("", layer_of(own))])
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    times = [round(at * 1_000) for at in topics.times()]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == list(
        previewed.retry.delays_ms
    )


def test_notifications_60_failed_attempts_and_dead_deliveries_are_counted_apart() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [1, 1]}))
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    reader = topics.store.reader()
    counts = reader.topic_figures("$deliveries").counts
    reader.close()
    assert counts["attempts", "orders\x1fretry\x1f5xx"] == 2
    assert counts["attempts", "orders\x1fdead\x1f5xx"] == 1
    assert counts["dead", "exhausted"] == 1


def test_notifications_60_lost_attempts_are_counted_among_the_failed_ones() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [1, 1]}))
    topics.publish()
    (lost,) = topics.take()
    topics.do(lambda batch: batch.release([lost.delivery.job], None))  # as after the death of its process
    topics.run()
    reader = topics.store.reader()
    counts = reader.topic_figures("$deliveries").counts
    reader.close()
    attempts = {label.split("\x1f", 1)[1]: n for (name, label), n in counts.items() if name == "attempts"}
    assert attempts == {"lost\x1ferror": 1, "delivered\x1f2xx": 1}


def test_nobody_publishes_what_anew_itself_has_to_tell() -> None:
    topics = Topics()
    topics.subscribe(A, topic="$events")
    with pytest.raises(InvalidInput, match=r"topic: '\$events' is for .* expected a topic of your own"):
        topics.publish(topic="$events")
    assert topics.deliveries() == []


def test_where_space_is_short_nothing_is_published_and_deliveries_go_on() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A)
    topics.publish(1)
    topics.engine.parts.full = True
    with pytest.raises(StoreFull, match="no space for new messages"):
        topics.publish(2)
    topics.run()
    assert [one.data for one in topics.requests] == [1]


def test_what_has_had_its_time_goes_though_nobody_delivers_and_however_much_it_is() -> None:
    topics = Topics()
    topics.topic()
    for number in range(120):
        topics.publish(number)
    topics.do(publish(topics.terms, "orders", [NewMessage(type="a", data=Raw(b"1"))], "key", b"digest"))
    topics.clock.advance(14 * DAY_MS + 1)
    for _ in range(4):
        topics.look_after()
    assert topics.do(lambda batch: batch.store.topics.messages_of("orders", -1, (1 << 63) - 1, 10)) == []
    assert topics.do(lambda batch: batch.store.topics.publication("orders", "key")) is None


def test_what_is_left_of_deliveries_whose_jobs_were_removed_goes_with_their_message() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A)
    topics.publish(delay=3_600)
    (row,) = topics.deliveries()
    topics.do(lambda batch: batch.delete([row.job]))
    topics.do(lambda batch: batch.store.topics.purge(batch.now, 100))
    assert topics.statuses() == ["live"]
    topics.clock.advance(15 * 86_400_000)
    for _ in range(2):
        topics.do(lambda batch: batch.store.topics.purge(batch.now, 100))
    assert topics.deliveries() == []


@pytest.mark.parametrize("type_", ["anew.subscription.confirmation", "anew.test", "anew."])
def test_nobody_publishes_as_anew_itself(type_: str) -> None:
    """A question goes past pause, breaker and limits; one that anybody can publish would do so too."""
    with pytest.raises(InvalidInput, match="expected a type that does not begin with"):
        check_message(NewMessage(type=type_, data=Raw(b"1")), 100)


def test_one_request_does_not_make_a_hundred_thousand_deliveries_at_once() -> None:
    """Whoever else writes would wait for seconds: the first part of 100 messages to 1,000 subscriptions took 5 s."""
    topics = Topics(fanout_inline=10)
    topics.topic()
    for number in range(10):
        topics.subscribe(f"https://{number}.example/")
    messages = [NewMessage(type="a", data=Raw(b"%d" % number)) for number in range(6)]
    at_once = topics.do(publish(topics.terms, "orders", messages[:5]))
    later = topics.do(publish(topics.terms, "orders", messages))
    assert (at_once.deliveries, at_once.expanding) == (50, False)
    assert (later.deliveries, later.expanding) == (0, True)
    topics.run()
    assert len(topics.requests) == 110


def test_many_messages_that_become_deliveries_leave_room_for_other_writers_and_deliveries() -> None:
    topics = Topics(fanout_inline=1)
    for name, endpoints in (("many", 500), ("few", 1)):
        topics.topic(name)
        for number in range(endpoints):
            topics.subscribe(f"https://{number}.example/", topic=name)
    topics.publish(topic="few")
    topics.turn()
    topics.requests.clear()
    messages = [NewMessage(type="a", data=Raw(b"1")) for _ in range(20)]
    topics.do(publish(topics.terms, "many", messages))
    topics.publish("other", topic="few")
    assert topics.take(20) == []  # it stands behind those that make deliveries
    assert len(topics.deliveries()) == 2 + MOST_MADE
    topics.turn(20)
    assert "other" in [one.data for one in topics.requests]
    topics.run()
    assert len(topics.requests) == 20 * 500 + 1
