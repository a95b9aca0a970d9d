"""A message to more subscriptions than one transaction makes deliveries for, and a deliverer that is killed in between."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Raw

from anew.engine import Batch, Call
from anew.store.selection import Filter, Page
from anew.tasks.opening import open_engine
from anew.topics.documents import NewMessage, SubscriptionDocument, TopicDocument
from anew.topics.keys import Box, load_or_make_secret
from anew.topics.publishing import EXPAND, publish
from anew.topics.registry import NewSubscription, put_topic, subscribe
from anew.topics.terms import TopicTerms
from tests.e2e.server import environment
from tests.e2e.topics.receivers import Receiver, answers
from tests.waiting import until

SUBSCRIPTIONS = 5_000
"""Ten chunks. One in fifty is an endpoint, the others are queues."""

ONE = Page(limit=1)


@contextmanager
def deliverer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = ["--webhook-allow-http", "--webhook-allow-cidrs", "127.0.0.1/32", "--log-level", "error"]
    process = subprocess.Popen(
        [sys.executable, "-m", "anew", "deliver", "--root-dir", str(path), *words], env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_notifications_08_every_subscription_gets_a_message_once_though_its_fan_out_was_killed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "jobs.db"
    commit = open_engine(path)
    key = Path(f"{path}-webhooks.key")
    terms = TopicTerms(box=Box(lambda: load_or_make_secret(key)), confirmation="off")

    def do(verb: Any) -> Any:
        return commit.apply(Call(verb, lambda _: None, durable=False))

    def made() -> int:
        return len(do(lambda batch: batch.store.topics.deliveries_of(None, -1, (1 << 63) - 1, 10_000)))

    with Receiver(answers(200)) as receiver:
        do(put_topic("wide", TopicDocument()))

        def verb(batch: Batch) -> None:
            for number in range(SUBSCRIPTIONS):
                kind = "queue" if number % 50 else "webhook"
                endpoint = f"queue:q{number}" if number % 50 else f"{receiver.url}/{number}"
                new = NewSubscription(endpoint=endpoint, document=SubscriptionDocument(kind=kind))
                subscribe(terms, "wide", new, secrets.token_bytes)(batch)

        do(verb)
        published = do(publish(terms, "wide", [NewMessage(type="a", data=Raw(b"1"))]))
        assert (published.expanding, made()) == (True, 0)
        with deliverer(path):
            until(made, pause_s=0.001)  # nine chunks are left to be late in
        assert 0 < made() < SUBSCRIPTIONS, "it was killed midway"
        with deliverer(path):
            receiver.wait_for(SUBSCRIPTIONS // 50)
            until(lambda: made() >= SUBSCRIPTIONS)
            until(lambda: not do(lambda batch: batch.store.find(Filter(types=frozenset({EXPAND})), ONE)))
        assert made() == SUBSCRIPTIONS
        reader = commit.engine.store.reader()
        queued = {queue: counts for queue, counts in reader.counts().items() if queue.startswith("q")}
        reader.close()
        assert len(queued) == SUBSCRIPTIONS - SUBSCRIPTIONS // 50
        assert {sum(counts.values()) for counts in queued.values()} == {1}
        commit.close()
        # What was being sent when it was killed may come twice.
        endpoints = range(0, SUBSCRIPTIONS, 50)
        assert {one.target for one in receiver.requests} == {f"/hook/{number}" for number in endpoints}
