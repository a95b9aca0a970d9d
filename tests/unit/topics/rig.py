"""Topics on an engine in memory, with a clock moved by hand and endpoints that answer by a script."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import Batch, Call, Engine, Limits
from anew.engine.upkeep import Upkeep
from anew.jobs import Defaults
from anew.store.sqlite import open_sqlite
from anew.store.topics import DeliveryRow, DeliveryStatus, SubscriptionRow
from anew.topics.attempts import Attempt, attempt_of
from anew.topics.documents import NewMessage, SubscriptionDocument, TopicDocument
from anew.topics.exchange import Answer
from anew.topics.keys import Box
from anew.topics.publishing import QUEUE, Published, publish
from anew.topics.registry import NewSubscription, Subscribed, put_topic, subscribe
from anew.topics.settling import Sent, settle
from anew.topics.taking import Assignment, take
from anew.topics.terms import TopicTerms

NOW = 1_700_000_000_000
OK = Answer(status=200)


@dataclass
class Request:
    """One exchange, as an endpoint sees it."""

    at: int
    url: str
    type: str
    data: Any
    number: int


class Topics:
    """Topics of one store.

    Args:
        path: Where the store is; None keeps it in memory.
        terms: What holds beside the defaults; nobody is asked for confirmation unless that says so.

    Attributes:
        requests: All exchanges that have ended.
        answers: By URL what an endpoint answers: a list (the last one stays), or a function of the assignment.
    """

    def __init__(self, path: Path | None = None, **terms: Any) -> None:
        self.clock = ManualClock(NOW)
        self.store = open_sqlite(path)
        chance = random.Random(7)
        self.chance: Callable[[int], bytes] = chance.randbytes
        self.engine = Engine(
            self.store,
            clock=self.clock,
            defaults=Defaults(policy=Policy.from_json({"preset": "even"})),
            limits=Limits(global_in_flight=0),
            rng=chance.random,
        )
        box = Box(lambda: bytes(32))
        self.terms = TopicTerms(
            box=box, **{"confirmation": "off", "public_url": "https://anew.example", **terms}
        )
        self.upkeep = Upkeep()
        self.requests: list[Request] = []
        self.answers: dict[str, Any] = {}

    def do(self, verb: Callable[[Batch], Any]) -> Any:
        """Run a verb in a transaction of its own; raise what it refuses with."""
        results: list[Any] = []
        self.engine.apply([Call(verb, results.append)])
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

    def topic(self, name: str = "orders", **document: Any) -> None:
        """Have a topic."""
        self.do(put_topic(name, TopicDocument(**document)))

    def subscribe(
        self, url: str = "https://a.example/hook", topic: str = "orders", **document: Any
    ) -> Subscribed:
        """Subscribe an endpoint."""
        kind = "queue" if url.startswith("queue:") else "webhook"
        new = NewSubscription(endpoint=url, document=SubscriptionDocument(kind=kind, **document))
        subscribed: Subscribed = self.do(subscribe(self.terms, topic, new, self.chance))
        return subscribed

    def publish(
        self, data: object = None, topic: str = "orders", type: str = "order.paid", **more: Any
    ) -> Published:
        """Publish a message."""
        message = NewMessage(type=type, data=Raw(msgspec.json.encode(data)), **more)
        published: Published = self.do(publish(self.terms, topic, [message]))
        return published

    def take(self, limit: int = 200) -> list[Assignment]:
        """Take what a dispatcher would send now."""
        assignments: list[Assignment] = self.do(lambda batch: take(batch, self.terms, limit))
        return assignments

    def settle(self, sent: Sequence[Sent]) -> None:
        """Report what became of it."""
        self.do(lambda batch: settle(batch, self.terms, sent))

    def turn(self, limit: int = 200) -> int:
        """Send what is due, each at once; tell how many requests there were."""
        assignments = self.take(limit)
        self.settle([Sent(one, self._answer(one)) for one in assignments])
        return len(assignments)

    def _answer(self, given: Assignment) -> Answer:
        url = given.subscription.endpoint
        data = msgspec.json.decode(given.message.data)
        self.requests.append(Request(self.clock.now() - NOW, url, given.message.type, data, given.number))
        answer = self.answers.get(url, OK)
        if callable(answer):
            answer = answer(given)
        elif isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        assert isinstance(answer, Answer)
        return answer

    def run(self, until_ms: int = 1 << 41) -> None:
        """Send whatever comes until an instant (ms from the start), moving the clock from one due time to the next."""
        while True:
            while self.turn() or self.do(lambda batch: batch.store.queues.takeable(QUEUE)):
                pass
            due = self.engine.wake_at
            if due is None or due - NOW > until_ms:
                return
            self.clock.advance(max(due - self.clock.now(), 0))

    def look_after(self) -> None:
        """Do what is due by itself."""
        self.do(self.upkeep.run)

    # -- what is stored

    def subscription(self, subscribed: Subscribed) -> SubscriptionRow:
        """Read a subscription as it is now."""
        row: SubscriptionRow = self.do(
            lambda batch: batch.store.topics.subscriptions([subscribed.row.id], batch.now)[subscribed.row.id]
        )
        return row

    def deliveries(self) -> list[DeliveryRow]:
        """All deliveries, in the order in which they were made."""
        rows: list[DeliveryRow] = self.do(
            lambda batch: batch.store.topics.deliveries_of(None, -1, (1 << 63) - 1, 100_000)
        )
        return rows

    def statuses(self) -> list[str]:
        """How far each is."""
        return [DeliveryStatus(row.status).name.lower() for row in self.deliveries()]

    def attempts(self, delivery: int) -> list[Attempt | None]:
        """The attempts of a delivery."""
        rows = self.do(lambda batch: batch.store.topics.attempts(delivery, 0, 1_000))
        return [attempt_of(row) for row in rows]

    def times(self, url: str = "https://a.example/hook") -> list[float]:
        """When an endpoint got requests, seconds from the start."""
        return [one.at / 1_000 for one in self.requests if one.url == url]


def policy(**blocks: Mapping[str, Any]) -> dict[str, Any]:
    """A delivery policy without jitter, whose breaker never opens, unless something else is said."""
    retry = {"jitter": 0, **blocks.pop("retry", {})}
    health = {"breaker_failures": None, "disable_after": None, **blocks.pop("health", {})}
    return {"retry": retry, "health": health, **blocks}
