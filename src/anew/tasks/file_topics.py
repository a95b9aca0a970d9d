"""Topics of a file: what the routes of a server do, in a transaction of the program's own engine."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from anew.config import Webhooks, find_file, load_webhooks
from anew.engine.batch import Batch
from anew.errors import InvalidConfig, NotFound
from anew.topics import asked, reading, registry
from anew.topics.bodies import SubscriptionBody, TopicBody
from anew.topics.documents import TopicDocument, check_topic_name
from anew.topics.publishing import publish
from anew.topics.steering import Action, steer
from anew.topics.terms import TopicTerms, guard_of, terms_of
from anew.topics.views import View, topic_view

PAGE: Final = 100
"""Subscriptions that are listed at once."""

NEEDED: Final = "the keys of subscriptions need more packages: pip install 'anew[webhooks]'"


class FileTopics:
    """The `Topics` of one engine.

    Args:
        call: Runs a verb in a transaction.
        key: Where the secret of the store's keys is; None: the store is in memory.
    """

    def __init__(self, call: Callable[[Callable[[Batch], View]], View], key: Path | None) -> None:
        self._call = call
        self._key = key

    @cached_property
    def _settings(self) -> Webhooks:
        """The variables and the anew.toml that a deliverer reads which is started here."""
        return load_webhooks(os.environ, find_file(None, os.environ))

    @cached_property
    def _terms(self) -> TopicTerms:
        return terms_of(self._settings, self._key)

    def put_topic(self, name: str, body: bytes) -> View:
        check_topic_name(name)
        document = asked.topic_of(TopicDocument(), asked.decoded(body, TopicBody))
        put = registry.put_topic(name, document)
        return self._call(lambda batch: topic_view(put(batch)[0], self._terms))

    def publish(self, topic: str, body: bytes, key: str | None) -> View:
        messages = asked.messages_of(body, self._terms)
        digest = b"" if key is None else hashlib.sha256(body).digest()
        text = None if key is None else asked.idempotency_key(key)
        verb = publish(self._terms, topic, messages, text, digest)

        def shown(batch: Batch) -> View:
            published = verb(batch)
            return asked.published_view(published, [f"msg_{batch.ids.write(one)}" for one in published.ids])

        return self._call(shown)

    def subscribe(self, topic: str, body: bytes) -> View:
        """Subscribe an endpoint to a topic.

        Raises:
            InvalidConfig: What its key needs is not installed.
        """
        if find_spec("cryptography") is None:
            raise InvalidConfig(NEEDED)
        new = asked.subscription_of(asked.decoded(body, SubscriptionBody), guard_of(self._settings))
        verb = registry.subscribe(self._terms, topic, new, secrets.token_bytes)

        def shown(batch: Batch) -> Any:
            return asked.subscribed_view(batch, verb(batch), self._terms)

        return self._call(shown)

    def steer(self, subscription: str, action: Action, body: bytes) -> View:

        def verb(batch: Batch) -> View:
            key = _key_of(batch, subscription)
            return steer(self._terms, key, action, body, secrets.token_bytes)(batch)

        return self._call(verb)

    def subscriptions(self, topic: str, cursor: str | None) -> View:

        def verb(batch: Batch) -> Any:
            after = -1 if cursor is None else _key_of(batch, cursor)
            return reading.subscriptions(self._terms, topic, after, PAGE)(batch)

        return self._call(verb)


def _key_of(batch: Batch, subscription: str) -> int:
    key = batch.ids.read(subscription.removeprefix("sub_")) if subscription.startswith("sub_") else -1
    if key < 0:
        raise NotFound("there is no such subscription")
    return key
