"""The rows of topics in one store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from anew.store.sql.rows import text_of
from anew.store.sql.statements import Run, in_lists, in_widths
from anew.store.topics import (
    AttemptRow,
    DeliveryRow,
    MessageRow,
    SubscriptionRow,
    TaskRow,
    TopicRow,
)

Row = TypeVar("Row", bound=Struct)


class SqlTopics:
    """The verbs of `anew.store.topics.TopicRows`, which says what they do. Nothing is cached.

    Args:
        run: Runs a statement of the connection that writes.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    # -- topics and subscriptions

    def topic(self, name: str) -> TopicRow | None:
        return self._one(TopicRow, "topic", name)

    def topics(self, after: str, limit: int) -> list[TopicRow]:
        return self._all(TopicRow, "topics", after, limit)

    def write_topic(self, row: TopicRow) -> None:
        self._run("write_topic", astuple(row))

    def drop_topic(self, name: str) -> None:
        self._run("drop_topic", (name,))

    def subscription_at(self, topic: str, endpoint: str) -> SubscriptionRow | None:
        return self._one(SubscriptionRow, "subscription_at", topic, endpoint)

    def subscriptions(self, ids: Sequence[int], now: int) -> dict[int, SubscriptionRow]:
        found = self._those(SubscriptionRow, "subscriptions", ids)
        return {row.id: row for row in found if row.ends_at is None or row.ends_at > now}

    def subscribers(self, topic: str, after: int, limit: int, now: int) -> list[SubscriptionRow]:
        return self._all(SubscriptionRow, "subscribers", topic, after, now, limit)

    def any_subscription(self) -> bool:
        return bool(self._run("any_subscription").fetchall())

    def count_subscribers(self, topic: str, most: int, now: int) -> int:
        ((count,),) = self._run("count_subscribers", (topic, now, most)).fetchall()
        return int(count)

    def ending_subscriptions(self, now: int, limit: int) -> list[SubscriptionRow]:
        return self._all(SubscriptionRow, "ending_subscriptions", now, limit)

    def write_subscriptions(self, rows: Sequence[SubscriptionRow]) -> None:
        self._write("write_subscriptions", rows)

    def drop_subscription(self, id_: int) -> None:
        self._run("drop_subscription", (id_,))

    # -- messages

    def publication(self, topic: str, key: str) -> tuple[bytes, bytes] | None:
        rows: list[tuple[bytes, bytes]] = self._run("publication", (topic, key)).fetchall()
        return rows[0] if rows else None

    def write_publication(self, topic: str, key: str, digest: bytes, answer: bytes, purge_at: int) -> None:
        self._run("write_publication", (topic, key, digest, answer, purge_at))

    def messages(self, ids: Sequence[int]) -> dict[int, MessageRow]:
        return {row.id: row for row in self._those(MessageRow, "messages", ids)}

    def messages_of(self, topic: str, after: int, until: int, limit: int) -> list[MessageRow]:
        return self._all(MessageRow, "messages_of", topic, after, until, limit)

    def write_messages(self, rows: Sequence[MessageRow]) -> None:
        self._write("write_messages", rows)

    def expand(self, message: int, expanded: int | None) -> None:
        self._run("expand_message", (expanded, message))

    # -- policies

    def policy_number(self, document: bytes) -> int:
        rows = self._run("policy_number", (document,)).fetchall()
        if not rows:
            rows = self._run("number_policy", (document,)).fetchall()
        return int(rows[0][0])

    def policies(self, numbers: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for part in in_lists(numbers):
            found.update(self._run("delivery_policies", part, len(part)).fetchall())
        return found

    # -- deliveries

    def add_deliveries(self, rows: Sequence[DeliveryRow]) -> set[int]:
        written: set[int] = set()
        for part in in_widths(rows):
            values = tuple(chain.from_iterable(map(astuple, part)))
            written.update(key for (key,) in self._run("add_deliveries", values, len(part)).fetchall())
        return written

    def deliveries(self, ids: Sequence[int]) -> dict[int, DeliveryRow]:
        return {row.id: row for row in self._those(DeliveryRow, "deliveries", ids)}

    def deliveries_of(
        self, subscription: int | None, after: int, until: int, limit: int, *, dead: bool = False
    ) -> list[DeliveryRow]:
        if subscription is not None:
            return self._all(DeliveryRow, "deliveries_of", subscription, after, until, limit)
        return self._all(
            DeliveryRow, "dead_deliveries" if dead else "deliveries_between", after, until, limit
        )

    def last_deliveries_of(self, subscription: int, until: int, limit: int) -> list[DeliveryRow]:
        return self._all(DeliveryRow, "last_deliveries_of", subscription, until, limit)

    def deliveries_of_message(self, message: int, after: int, limit: int) -> list[DeliveryRow]:
        return self._all(DeliveryRow, "deliveries_of_message", message, after, limit)

    def delivery_of(self, message: int, subscription: int) -> DeliveryRow | None:
        return self._one(DeliveryRow, "delivery_of", message, subscription)

    def write_deliveries(self, rows: Sequence[DeliveryRow]) -> None:
        for part in in_widths(rows):
            values = chain.from_iterable((row.id, *astuple(row)[3:]) for row in part)
            self._run("write_deliveries", tuple(values), len(part))

    def drop_delivery(self, id_: int) -> None:
        self._run("drop_delivery", (id_,))
        self._run("drop_delivery_attempts", (id_,))

    # -- attempts

    def write_attempts(self, rows: Sequence[AttemptRow]) -> None:
        self._write("write_attempts", rows)

    def drop_attempts(self, attempts: Sequence[tuple[int, int]]) -> None:
        for part in in_widths(attempts):
            values = tuple(chain.from_iterable(part))
            self._run("drop_begun_attempts", values, len(part))

    def begun(self, attempts: Sequence[tuple[int, int]]) -> dict[int, AttemptRow]:
        found: dict[int, AttemptRow] = {}
        for part in in_widths(attempts):
            values = tuple(chain.from_iterable(part))
            rows = self._run("begun_attempts", values, len(part)).fetchall()
            found.update((row[0], AttemptRow(*row)) for row in rows)
        return found

    def attempts(self, delivery: int, after: int, limit: int) -> list[AttemptRow]:
        return self._all(AttemptRow, "delivery_attempts", delivery, after, limit)

    def last_attempts(self, deliveries: Sequence[int]) -> dict[int, AttemptRow]:
        return {row.delivery: row for row in self._those(AttemptRow, "last_delivery_attempts", deliveries)}

    def task(self, id_: int) -> TaskRow | None:
        return self._one(TaskRow, "delivery_task", id_)

    def write_task(self, row: TaskRow) -> None:
        self._run("write_delivery_task", astuple(row))

    def count(self, counts: Sequence[tuple[str, str, int]]) -> None:
        for part in in_widths(counts):
            self._run("count_topics", tuple(chain.from_iterable(part)), len(part))

    def mend_texts(self) -> int:
        """Write what is left of texts that are no UTF-8; tell how many there were. Looks at every row."""
        mended = 0
        for table in ("topic", "subscription", "message", "delivery", "delivery_task"):
            damaged: list[tuple[Any, ...]] = []
            for key, *texts in self._run(f"{table}_texts"):
                left = [text_of(text) for text in texts]
                if [text and text.encode() for text in left] != texts:
                    damaged.append((*left, key))
            for values in damaged:
                self._run(f"mend_{table}", values)
            mended += len(damaged)
        return mended

    def purge(self, now: int, limit: int) -> int:
        messages = [key for (key,) in self._run("purge_messages", (now, limit)).fetchall()]
        for part in in_lists(messages):
            self._run("leave_deliveries", (now, *part), len(part))
        found = len(messages)
        for name in ("purge_publications", "purge_delivery_tasks"):
            found += len(self._run(name, (now, limit)).fetchall())
        gone = [key for (key,) in self._run("purge_deliveries", (now, limit)).fetchall()]
        for part in in_lists(gone):
            self._run("purge_attempts", part, len(part))
        return found + len(gone)

    # -- rows

    def _one(self, kind: type[Row], name: str, *values: Any) -> Row | None:
        rows = self._all(kind, name, *values)
        return rows[0] if rows else None

    def _all(self, kind: type[Row], name: str, *values: Any) -> list[Row]:
        return [kind(*row) for row in self._run(name, values).fetchall()]

    def _those(self, kind: type[Row], name: str, ids: Sequence[int]) -> Iterable[Row]:
        for part in in_lists(ids):
            yield from (kind(*row) for row in self._run(name, part, len(part)).fetchall())

    def _write(self, name: str, rows: Sequence[Struct]) -> None:
        for part in in_widths(rows):
            self._run(name, tuple(chain.from_iterable(map(astuple, part))), len(part))
