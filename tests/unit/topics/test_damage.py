"""One damaged row of topics hurts itself alone: its own address says what is wrong, and the deliveries of others go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from anew.errors import CorruptRow
from anew.store.topics import DeliveryRow, DeliveryStatus
from anew.topics import reading
from anew.topics.documents import EVENTS
from anew.topics.publishing import QUEUE
from anew.topics.redelivery import Selection, TaskDocument, cancel, redeliver, remove, start
from anew.topics.registry import Subscribed, drop_subscription, drop_topic, turn
from tests.unit.topics.rig import OK, Topics, policy

A = "https://a.example/hook"
B = "https://b.example/hook"
TEXT = "CAST(x'64616dff' AS TEXT)"
"""No UTF-8."""

DOCUMENTS = {
    "no JSON": "x'7b'",
    "no UTF-8": "x'7b2264656c69766572795f706f6c696379223a7b22ff223a317d7d'",
    "another type": "CAST('[]' AS BLOB)",
    "a policy that is none": 'CAST(\'{"delivery_policy":{"rettry":{}}}\' AS BLOB)',
}


class Damaged(Topics):
    """Topics whose file can be damaged behind their back."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def damage(self, statement: str) -> None:
        """Change the file."""
        connection = apsw.Connection(str(self._path / "anew.db"))
        connection.execute(statement)
        assert connection.changes() == 1
        connection.close()

    def names(self) -> list[str]:
        """The topics that are listed, two a page."""
        found: list[str] = []
        page: dict[str, Any] = {"cursor": ""}
        while page["cursor"] is not None:
            page = self.do(reading.topics(self.terms, page["cursor"], 2))
            found += [one["name"] for one in page["topics"]]
        return found


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Damaged]:
    topics = Damaged(tmp_path)
    topics.topic()
    yield topics
    topics.store.close()


def two(topics: Topics, **document: Any) -> tuple[Subscribed, Subscribed]:
    """Two subscriptions; their policy is the same, without retries."""
    retry = policy(retry={"schedule": []})
    return (
        topics.subscribe(A, delivery_policy=retry, **document),
        topics.subscribe(B, delivery_policy=retry),
    )


def first_of_two(topics: Topics) -> DeliveryRow:
    """Have two deliveries made; gives the first."""
    two(topics)
    topics.publish()
    topics.turn()
    return topics.deliveries()[0]


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_a_damaged_topic_is_left_out_of_the_list_and_says_so_itself(
    topics: Damaged, document: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics.subscribe(A)
    for name in ("damaged", "sound", "zebra"):
        topics.topic(name)
    topics.subscribe(B, topic="sound")
    topics.damage(f"UPDATE topic SET document = {document} WHERE name = 'damaged'")
    with caplog.at_level(logging.WARNING):
        assert topics.names() == ["orders", "sound", "zebra"]
    assert "left out" in caplog.text
    with pytest.raises(CorruptRow, match="stored of this topic cannot be read"):
        topics.do(reading.topic(topics.terms, "damaged"))
    with pytest.raises(CorruptRow, match="stored of this topic cannot be read"):
        topics.publish(topic="damaged")
    topics.publish(topic="sound")
    assert topics.turn() == 1
    topics.topic("damaged")  # put once more it is well
    topics.publish(topic="damaged")
    topics.damage(f"UPDATE topic SET document = {document} WHERE name = 'damaged'")
    topics.do(drop_topic("damaged", force=False))
    assert topics.names() == ["orders", "sound", "zebra"]


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_a_damaged_subscription_gets_nothing_and_the_others_do(topics: Damaged, document: str) -> None:
    damaged, _ = two(topics)
    topics.publish(1)
    topics.damage(f"UPDATE subscription SET document = {document} WHERE id = {damaged.row.id}")
    topics.publish(2)
    topics.run(0)
    assert [(one.url, one.data) for one in topics.requests] == [(B, 1), (B, 2)]
    assert sorted(topics.statuses()) == ["dead", "delivered", "delivered"]
    listed = topics.do(reading.subscriptions(topics.terms, "orders", -1, 10))["subscriptions"]
    assert [one["endpoint"]["url"] for one in listed] == [B]
    with pytest.raises(CorruptRow, match="stored of this subscription cannot be read"):
        topics.do(turn(topics.terms, damaged.row.id, "pause"))
    dead = topics.do(reading.deliveries(Selection(status="dead"), -1, 10))["deliveries"]
    assert [one["dead_reason"] for one in dead] == ["corrupt"]
    topics.do(drop_subscription(damaged.row.id))
    assert topics.subscribe(A).ring is not None


def test_a_subscription_that_is_damaged_while_its_delivery_is_sent(topics: Damaged) -> None:
    damaged, _ = two(topics)
    topics.publish()

    def answer(given: object) -> Any:
        topics.damage(f"UPDATE subscription SET document = x'7b' WHERE id = {damaged.row.id}")
        topics.damage("UPDATE topic SET document = x'7b'")
        return OK

    topics.answers[A] = answer
    assert topics.turn() == 2
    assert topics.statuses() == ["delivered", "delivered"]


def test_a_damaged_policy_ends_its_deliveries_alone(topics: Damaged) -> None:
    topics.subscribe(A, delivery_policy=policy(retry={"schedule": [60]}))
    topics.subscribe(B)
    topics.publish()
    one, _ = topics.deliveries()
    topics.damage(f"UPDATE delivery_policy SET document = x'7b' WHERE id = {one.policy}")
    topics.run(0)
    assert [request.url for request in topics.requests] == [B]
    assert topics.statuses() == ["dead", "delivered"]
    shown = topics.do(reading.deliveries(Selection(), -1, 10))["deliveries"]
    assert [view["status"] for view in shown] == ["dead", "delivered"]
    topics.do(redeliver(topics.terms, one.id))  # by the policy that holds now
    topics.run(0)
    assert topics.statuses() == ["delivered", "delivered"]


def test_damaged_health_is_forgotten(topics: Damaged) -> None:
    damaged, _ = two(topics)
    topics.damage(f"UPDATE subscription SET health = x'7bff' WHERE id = {damaged.row.id}")
    topics.publish()
    assert topics.turn() == 2
    listed = topics.do(reading.subscriptions(topics.terms, "orders", -1, 10))["subscriptions"]
    assert [one["health"]["failures"] for one in listed] == [0, 0]


def test_a_damaged_attempt_is_shown_as_one(topics: Damaged) -> None:
    one = first_of_two(topics)
    topics.damage(f"UPDATE delivery_attempt SET document = x'ff' WHERE delivery = {one.id}")
    shown = topics.do(reading.deliveries(Selection(), -1, 10))["deliveries"]
    assert [view["last_attempt"]["outcome"] for view in shown] == ["unreadable", "delivered"]
    assert topics.do(reading.attempt(one.id, 1))["outcome"] == "unreadable"


def test_a_delivery_whose_status_is_none_is_shown_as_one_that_cannot_be_read(topics: Damaged) -> None:
    one = first_of_two(topics)
    topics.damage(f"UPDATE delivery SET status = 99 WHERE id = {one.id}")
    shown = topics.do(reading.deliveries(Selection(), -1, 10))["deliveries"]
    assert [view["status"] for view in shown] == ["unreadable", "delivered"]
    assert topics.do(reading.message(one.message))["deliveries"] == {"unreadable": 1, "delivered": 1}
    for verb in (cancel(topics.terms, one.id), remove(one.id)):
        with pytest.raises(CorruptRow, match="cannot be read; send it again"):
            topics.do(verb)
    topics.do(redeliver(topics.terms, one.id))
    topics.turn()
    assert [row.status for row in topics.deliveries()] == [DeliveryStatus.DELIVERED] * 2


def test_a_damaged_message_says_so_and_what_makes_its_deliveries_ends(topics: Damaged) -> None:
    topics.terms = replace(topics.terms, fanout_inline=0)
    topics.subscribe(A, filter={"attributes": {"country": ["CH"]}})
    first = topics.publish(1, attributes={"country": "CH"})
    topics.publish(2, attributes={"country": "CH"})
    topics.damage(
        "UPDATE message SET attributes = x'7b', data = x'7b' WHERE id = (SELECT min(id) FROM message)"
    )
    topics.run(0)
    assert [one.data for one in topics.requests] == [2]
    with pytest.raises(CorruptRow, match="stored of this message cannot be read"):
        topics.do(reading.message(first.ids[0]))
    assert topics.do(lambda batch: batch.store.queues.takeable(QUEUE)) == 0


def test_a_damaged_task_ends(topics: Damaged) -> None:
    two(topics)
    topics.publish()
    topics.turn()
    topics.do(start(topics.terms, TaskDocument(selection=Selection())))
    topics.damage("UPDATE delivery_task SET document = x'7b'")
    topics.publish()
    topics.run(0)
    assert topics.statuses() == ["delivered"] * 4


def test_a_damaged_topic_of_events_hinders_no_delivery(topics: Damaged) -> None:
    topics.subscribe(topic=EVENTS, url=B)
    topics.damage(f"UPDATE topic SET document = x'7b' WHERE name = '{EVENTS}'")
    subscribed = topics.subscribe(A)
    topics.do(turn(topics.terms, subscribed.row.id, "disable"))
    assert topics.subscription(subscribed).status == "disabled"


COLUMNS = (
    ("topic", "name"),
    ("subscription", "topic"),
    ("subscription", "endpoint"),
    ("subscription", "status"),
    ("message", "topic"),
    ("message", "type"),
    ("delivery", "trigger"),
    ("delivery", "cause"),
    ("delivery", "dead_reason"),
)


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_text_that_is_no_utf8_is_shown_as_far_as_it_can_be_read(
    topics: Damaged, table: str, column: str
) -> None:
    damaged, _ = two(topics)
    topics.topic("sound")
    topics.subscribe(B, topic="sound")
    topics.publish(1)
    place = "name = 'orders'" if table == "topic" else f"rowid = (SELECT min(id) FROM {table})"
    topics.damage(f"UPDATE {table} SET {column} = {TEXT} WHERE {place}")
    topics.publish(2, topic="sound")
    topics.run(0)
    assert (B, 2) in [(one.url, one.data) for one in topics.requests]
    assert (B, 1) in [(one.url, one.data) for one in topics.requests]
    assert topics.names() == (["dam\ufffd", "sound"] if table == "topic" else ["orders", "sound"])
    topics.do(reading.subscriptions(topics.terms, "sound", -1, 10))
    assert len(topics.do(reading.deliveries(Selection(), -1, 10))["deliveries"]) == 3
    if table == "topic":
        assert topics.do(reading.topic(topics.terms, "dam\ufffd"))["name"] == "dam\ufffd"
        topics.topic()  # its subscriptions have their topic again
        topics.publish(3)
        topics.run(0)
        assert (A, 3) in [(one.url, one.data) for one in topics.requests]
    if table == "subscription":
        topics.do(drop_subscription(damaged.row.id))
