"""Deliveries as jobs of the engine: retries to the millisecond, outcomes, holds, limits. Numbers are the checklist's of the
notification specification, section 5."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.engine import Batch, take_for_session
from anew.errors import Conflict, NotFound
from anew.jobs import NewJob, State
from anew.store.selection import Filter, Page
from anew.topics.documents import NewMessage
from anew.topics.exchange import Answer
from anew.topics.publishing import QUEUE, publish
from anew.topics.redelivery import redeliver
from anew.topics.registry import SubscriptionPatch, change_subscription, turn
from anew.topics.settling import Sent
from tests.unit.topics.rig import OK, Topics, policy

pytestmark = pytest.mark.both_engines

A = "https://a.example/hook"
B = "https://b.example/hook"
FAIL = Answer(status=500)
EXAMPLE = policy(
    retry={
        "no_delay_retries": 3, "min_delay_retries": 2, "backoff_retries": 10, "max_delay_retries": 5,
        "min_delay": 5, "max_delay": 260, "function": "exponential",
    },
)  # fmt: skip


def jobs_of(topics: Topics, queue: str) -> list[Any]:
    """The payloads of a queue's jobs."""

    def verb(batch: Batch) -> list[Any]:
        keys = batch.store.find(Filter(queues=frozenset({queue})), Page(limit=100))
        return [msgspec.json.decode(job.payload or b"") for job in batch.store.load(keys, payload=True)]

    payloads: list[Any] = topics.do(verb)
    return payloads


def failing(**wishes: str) -> Answer:
    """An answer that asks for another try."""
    return Answer(status=503, headers=wishes)


def test_a_message_goes_to_every_subscriber_once() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A)
    topics.subscribe(B)
    published = topics.publish({"id": 42})
    assert published.deliveries == 2
    topics.run()
    assert sorted((one.url, one.data, one.number) for one in topics.requests) == [
        (A, {"id": 42}, 1),
        (B, {"id": 42}, 1),
    ]
    assert topics.statuses() == ["delivered", "delivered"]


def test_notifications_11_the_example_of_21_attempts_to_the_millisecond() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=EXAMPLE)
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    assert topics.times() == [
        0, 0, 0, 0, 5, 10, 15, 20.499, 26.996, 35.489, 47.974, 68.444, 104.882, 173.258, 305.508, 565.508,
        825.508, 1085.508, 1345.508, 1605.508, 1865.508,
    ]  # fmt: skip
    (row,) = topics.deliveries()
    assert (topics.statuses(), row.dead_reason, row.attempts) == (["dead"], "exhausted", 21)


def test_notifications_09_a_delayed_message_makes_no_request_before_its_time() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A)
    topics.publish(delay=10)
    topics.run(until_ms=9_999)
    assert topics.requests == []
    topics.run()
    assert topics.times() == [10]


def test_notifications_23_an_edited_policy_counts_for_new_deliveries_alone() -> None:
    topics = Topics()
    topics.topic(delivery_policy=policy(retry={"schedule": [7, 7]}))
    topics.subscribe(A)
    topics.answers[A] = FAIL
    topics.publish()
    topics.turn()
    topics.topic(delivery_policy=policy(retry={"schedule": [100]}))
    topics.run()
    assert topics.times() == [0, 7, 14]
    topics.requests.clear()
    topics.publish()
    topics.run()
    assert topics.times() == [14, 114]


def test_notifications_25_retry_after_in_seconds_or_as_a_date_moves_the_next_attempt() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [5, 5]}))
    # The clock of the tests starts on 14 November 2023 at 22:13:20; 120 s for the first answer, then 200 s after that.
    topics.answers[A] = [
        failing(**{"retry-after": "120"}),
        failing(**{"retry-after": "Tue, 14 Nov 2023 22:18:40 GMT"}),
        OK,
    ]
    topics.publish()
    topics.run()
    assert topics.times() == [0, 120, 320]


@pytest.mark.parametrize("value", ["-5", "soon", "Tue, 14 Nov 2023 22:13:00 GMT", ""])
def test_notifications_26_what_is_no_time_to_come_changes_nothing(value: str) -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [5]}))
    topics.answers[A] = [failing(**{"retry-after": value}), OK]
    topics.publish()
    topics.run()
    assert topics.times() == [0, 5]


def test_notifications_26_a_long_retry_after_is_capped() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [5], "max_retry_after": 1_000}))
    topics.answers[A] = [failing(**{"retry-after": "999999"}), OK]
    topics.publish()
    topics.run()
    assert topics.times() == [0, 1_000]


def test_notifications_27_after_a_429_its_subscription_gets_nothing_and_no_delivery_loses_an_attempt() -> (
    None
):
    topics = Topics()
    topics.topic()
    own = policy(retry={"schedule": [5]}, throttle={"max_in_flight": 1})
    topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = [Answer(status=429, headers={"retry-after": "60"}), OK]
    for number in range(3):
        topics.publish(number)
    topics.run()
    assert topics.times() == [0, 60, 60, 60]
    assert [row.attempts for row in topics.deliveries()] == [2, 1, 1]


def test_notifications_28_a_429_in_the_immediate_phase_waits_for_the_floor() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"no_delay_retries": 2, "backoff_retries": 0}))
    topics.answers[A] = [Answer(status=429), FAIL, OK]
    topics.publish()
    topics.run()
    assert topics.times() == [0, 30, 30]


def test_notifications_29_a_410_disables_the_subscription_and_holds_its_other_deliveries() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe(A, delivery_policy=policy(throttle={"max_in_flight": 1}))
    topics.answers[A] = [Answer(status=410), OK]
    topics.publish(1)
    topics.publish(2)
    topics.run()
    assert [(row.status, row.dead_reason) for row in topics.deliveries()] == [(2, "gone"), (0, None)]
    assert topics.subscription(subscribed).status == "disabled"
    topics.clock.advance(86_400_000)
    topics.run()
    assert len(topics.requests) == 1
    topics.do(turn(topics.terms, subscribed.row.id, "enable"))
    topics.run()
    assert [one.data for one in topics.requests] == [1, 2]


def test_notifications_30_31_statuses() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [5], "dead_statuses": [404]}))
    topics.subscribe(B, delivery_policy=policy(retry={"schedule": [5], "retry_statuses": ["5xx"]}))
    topics.answers[A] = Answer(status=404)
    topics.answers[B] = Answer(status=501)
    topics.publish()
    topics.run()
    assert (topics.times(A), topics.times(B)) == ([0], [0, 5])
    assert [row.dead_reason for row in topics.deliveries()] == ["permanent_status", "exhausted"]


def test_notifications_51_the_breaker_opens_after_ten_failures_and_one_probe_closes_it() -> None:
    topics = Topics()
    topics.topic()
    own = {"retry": {"schedule": [1] * 100, "jitter": 0}, "throttle": {"max_in_flight": 1}}
    subscribed = topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = [FAIL] * 10 + [FAIL, OK]
    for number in range(20):
        topics.publish(number)
    topics.run()
    # Ten failures, then nothing for 30 s, a probe that fails, nothing for 60 s, a probe that succeeds, and all the rest.
    times = topics.times()
    assert len([at for at in times if at < 30]) == 10
    opened = times[9]
    assert times[10] == opened + 30
    assert times[11] == times[10] + 60
    assert len(times) == 10 + 1 + 20
    assert set(topics.statuses()) == {"delivered"}
    assert topics.subscription(subscribed).health == b"{}"


def test_notifications_52_no_success_for_long_disables_once_after_the_warnings() -> None:
    topics = Topics()
    topics.topic()
    own = policy(
        retry={"schedule": [180] * 60, "max_total_time": 1_209_600},
        health={"disable_after": 3_600, "disable_min_failures": 20},
    )
    subscribed = topics.subscribe(A, delivery_policy=own)
    topics.subscribe("https://ops.example/", topic="$events")
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    told = [
        (one.type, one.data.get("percent")) for one in topics.requests if one.url == "https://ops.example/"
    ]
    assert told == [
        ("subscription.failing", 50),
        ("subscription.failing", 70),
        ("subscription.failing", 90),
        ("subscription.disabled", None),
    ]
    assert topics.subscription(subscribed).status == "disabled"
    # The first failure at 0 s, one each 180 s: the 21st comes at 3,600 s.
    assert topics.times()[-1] == 3_600


def test_notifications_49_no_more_run_at_one_time_than_may() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(throttle={"max_in_flight": 2}))
    for number in range(5):
        topics.publish(number)
    first, second = topics.take(200), topics.take(200)
    assert (len(first), len(second)) == (2, 0)
    topics.settle([Sent(first[0], OK)])
    assert [one.message.data for one in topics.take(200)] == [b"2"]


def test_notifications_48_no_more_start_over_a_second_than_may() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(
        A, delivery_policy=policy(throttle={"max_per_second": 5, "burst": 5, "max_in_flight": 100})
    )
    for number in range(30):
        topics.publish(number)
    topics.run()
    assert topics.times() == [0] * 5 + [round(0.2 * n, 3) for n in range(1, 26)]


def test_what_was_lost_with_its_dispatcher_is_counted_and_goes_on_at_once() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [7, 7]}))
    topics.answers[A] = FAIL
    topics.publish()
    (lost,) = topics.take()
    topics.do(lambda batch: batch.release([lost.delivery.job], None))  # as after the death of its process
    assert topics.take() == []  # found to be lost, and put back at once
    topics.run()
    (row,) = topics.deliveries()
    outcomes = [attempt.outcome for attempt in topics.attempts(row.id) if attempt]
    assert outcomes == ["lost", "retry", "dead"]
    assert topics.times() == [0, 7]  # of its three attempts one was lost


def test_the_one_attempt_of_a_delivery_sent_again_once_is_also_spent_when_it_is_lost() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [7, 7]}))
    topics.publish()
    topics.run()
    topics.do(redeliver(topics.terms, topics.deliveries()[0].id, "once", force=True))
    (lost,) = topics.take()
    topics.do(lambda batch: batch.release([lost.delivery.job], None))  # as after the death of its process
    topics.run()
    assert topics.times() == [0]
    assert topics.statuses() == ["dead"]


def test_paused_deliveries_wait_and_their_deadline_waits_with_them() -> None:
    topics = Topics()
    topics.topic()
    own = policy(retry={"schedule": [5], "max_total_time": 10})
    subscribed = topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = [FAIL, OK]
    topics.publish()
    topics.turn()
    topics.do(turn(topics.terms, subscribed.row.id, "pause"))
    topics.clock.advance(1_000_000)
    topics.run()
    assert topics.times() == [0]
    topics.do(turn(topics.terms, subscribed.row.id, "resume"))
    topics.run()
    assert topics.times() == [0, 1_000]
    assert topics.statuses() == ["delivered"]


def test_a_retry_that_would_come_after_the_deadline_ends_it() -> None:
    topics = Topics()
    topics.topic()
    own = policy(retry={"schedule": [5], "max_total_time": 10})
    topics.subscribe(A, delivery_policy=own)
    topics.answers[A] = [failing(**{"retry-after": "3600"}), OK]
    topics.publish()
    topics.run()
    (row,) = topics.deliveries()
    assert (topics.times(), row.dead_reason) == ([0], "expired")


def test_notifications_58_a_death_enqueues_one_job_with_message_reason_and_last_attempt() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": []}), dead_letter_queue="dead-hooks")
    topics.answers[A] = FAIL
    topics.publish({"id": 9})
    topics.run()
    (job,) = jobs_of(topics, "dead-hooks")
    assert (job["reason"], job["data"], job["attempts"]) == ("exhausted", {"id": 9}, 1)
    assert job["last_attempt"]["answer"]["status"] == 500


def test_a_queue_is_a_subscriber_too() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe("queue:mail", delivery_policy=policy(request={"body": "raw"}))
    topics.publish({"to": "ada"})
    assert jobs_of(topics, "mail") == [{"to": "ada"}]
    assert topics.statuses() == ["delivered"]


def test_what_a_queue_gets_of_a_message_is_one_line() -> None:
    """A stream shows each job in one line, and a publisher may have indented its JSON."""
    topics = Topics()
    topics.topic()
    topics.subscribe("queue:raw", delivery_policy=policy(request={"body": "raw"}))
    topics.subscribe("queue:envelope")
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": []}), dead_letter_queue="dead-hooks")
    topics.answers[A] = FAIL
    message = NewMessage(type="a", data=msgspec.Raw(b'{\r\n "x": "\\n"\n}'))
    topics.do(publish(topics.terms, "orders", [message]))
    topics.run()
    queues = ["raw", "envelope", "dead-hooks"]
    taken = topics.do(lambda batch: take_for_session(batch, queues, 10).rows)
    assert sorted(row[1] for row in taken) == sorted(queues)
    assert [row[1] for row in taken if b"\n" in row[-1] or b"\r" in row[-1]] == []
    assert jobs_of(topics, "raw") == [{"x": "\n"}]


def test_a_queue_gets_an_event_with_its_id_and_source() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe("queue:mail", delivery_policy=policy(request={"body": "cloudevents"}))
    (message,) = topics.publish().ids
    (event,) = jobs_of(topics, "mail")
    assert event["id"] == f"msg_{topics.engine.ids.write(message)}"
    assert event["source"] == "https://anew.example/v1/topics/orders"


def test_a_paused_queue_gets_its_jobs_when_it_goes_on() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe("queue:mail", delivery_policy=policy(request={"body": "raw"}))
    topics.do(turn(topics.terms, subscribed.row.id, "pause"))
    topics.publish(1)
    topics.run()
    assert (jobs_of(topics, "mail"), topics.statuses()) == ([], ["live"])
    topics.do(turn(topics.terms, subscribed.row.id, "resume"))
    topics.run()
    assert (jobs_of(topics, "mail"), topics.statuses()) == ([1], ["delivered"])
    assert topics.requests == []


def test_an_unknown_topic_and_a_second_subscription_are_refused() -> None:
    topics = Topics()
    with pytest.raises(NotFound, match="there is no topic 'orders'"):
        topics.publish()
    topics.topic()
    topics.subscribe(A)
    with pytest.raises(Conflict, match="subscribed to 'orders' already"):
        topics.subscribe(A)


def test_who_takes_from_all_queues_gets_no_delivery_and_what_is_none_dies_visibly() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A)
    topics.publish()
    topics.do(lambda batch: batch.insert([NewJob(type="mail", queue=QUEUE, payload=msgspec.Raw(b"{}"))]))
    assert topics.do(lambda batch: take_for_session(batch, None, 10).rows) == []
    topics.do(lambda batch: batch.insert([NewJob(type="mail", queue="mail", payload=msgspec.Raw(b"{}"))]))
    assert [row[1] for row in topics.do(lambda batch: take_for_session(batch, None, 10).rows)] == ["mail"]
    topics.run()
    assert topics.statuses() == ["delivered"]
    counts = topics.do(lambda batch: batch.store.queues.counts([QUEUE]))
    assert counts[QUEUE][State.DEAD] == 1


def test_a_pause_forgets_neither_what_an_endpoint_has_asked_for_nor_its_breaker() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe(A, delivery_policy=policy(retry={"schedule": [600]}))
    topics.answers[A] = [Answer(status=429, headers={"retry-after": "600"}), OK]
    topics.publish(1)
    topics.turn()
    for move in ("pause", "resume", "disable", "enable"):
        topics.do(turn(topics.terms, subscribed.row.id, move))  # type: ignore[arg-type]
    topics.publish(2)
    topics.run()
    assert topics.times() == [0, 600, 600]


def test_another_endpoint_begins_with_nothing_against_it() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe(A, delivery_policy=policy(retry={"schedule": []}))
    row = topics.subscription(subscribed)
    topics.publish(1)
    (late,) = topics.take()
    topics.publish(2)
    topics.answers[A] = Answer(status=429, headers={"retry-after": "600"})
    topics.turn()
    topics.publish(3)
    assert topics.turn() == 0  # it has asked to be spared
    patch = SubscriptionPatch(members={}, kind="webhook", endpoint=B)
    topics.do(change_subscription(topics.terms, row.id, patch, topics.chance))
    topics.settle([Sent(late, Answer(status=410))])  # of the one before
    topics.run()
    assert topics.subscription(subscribed).status == "active"
    assert [(one.url, one.data) for one in topics.requests] == [(A, 2), (B, 3)]


def test_what_is_delivered_by_hand_after_its_death_is_told() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": []}))
    topics.subscribe(B, topic="$events")
    topics.answers[A] = [FAIL, OK]
    topics.publish()
    topics.run()
    topics.do(redeliver(topics.terms, topics.deliveries()[0].id))
    topics.run()
    assert [one.type for one in topics.requests if one.url == B] == ["delivery.dead", "delivery.recovered"]


@pytest.mark.parametrize(("excerpts", "kept"), [(True, "oh no"), (False, "")])
def test_a_topic_may_have_no_answers_kept(excerpts: bool, kept: str) -> None:
    topics = Topics()
    topics.topic(excerpts=excerpts)
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": []}))
    topics.answers[A] = Answer(status=500, excerpt="oh no")
    topics.publish()
    topics.run()
    (attempt,) = topics.attempts(topics.deliveries()[0].id)
    assert attempt is not None
    assert attempt.answer is not None
    assert (attempt.answer.status, attempt.answer.excerpt) == (500, kept)


def of_the_engine(**own: Any) -> dict[str, Any]:
    """A delivery policy with a policy of the engine's own, whose breaker never opens."""
    return {"retry": {"policy": own}, "health": {"breaker_failures": None}}


def test_a_delivery_is_retried_by_a_policy_of_the_engine() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=of_the_engine(curve={"exponential": {"base": "1s"}}, limit=3))
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    assert topics.times() == [0, 1, 3, 7]  # 1, 2 and 4 s apart
    assert topics.statuses() == ["dead"]


def test_even_spreads_the_retries_of_a_herd() -> None:
    topics = Topics()
    topics.topic()
    even = of_the_engine(curve={"constant": "10m"}, jitter="even", limit=2)
    topics.subscribe(A, delivery_policy={**even, "throttle": {"max_in_flight": 100}})
    topics.answers[A] = FAIL
    for _ in range(50):
        topics.publish()
    topics.run()
    seconds = {int(at) for at in topics.times()}
    assert len(topics.times()) == 150
    assert (
        len(seconds) > 75
    )  # 50 at the beginning; the 100 retries share few of the 20 minutes' 1,200 seconds


def test_a_retry_after_beyond_the_policys_ceil_is_kept_to() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=of_the_engine(curve={"constant": "1s"}, ceil="2s", limit=3))
    topics.answers[A] = [Answer(status=503, headers={"retry-after": "60"}), OK]
    topics.publish()
    topics.run()
    assert topics.times() == [0, 60]


def test_a_policys_own_deadline_ends_a_delivery() -> None:
    topics = Topics()
    topics.topic()
    topics.subscribe(A, delivery_policy=of_the_engine(curve={"constant": "1h"}, limit=100, deadline="3h"))
    topics.answers[A] = FAIL
    topics.publish()
    topics.run()
    assert topics.times() == [0, 3_600, 7_200, 10_800]
    (row,) = topics.deliveries()
    assert row.dead_reason == "expired"
