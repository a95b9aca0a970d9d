"""Topics in a program: publish, and subscribe webhooks and queues; see docs/webhooks.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec

from anew.errors import InvalidInput
from anew.tasks.arguments import holds_nan
from anew.tasks.times import Wait, instant_ms, wait_ms
from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew
    from anew.topics.steering import Action

Attributes = Mapping[str, str | float | bool]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of several; see `Topic.publish`."""

    type: str
    data: object = None
    attributes: Attributes | None = None
    delay: Wait | None = None
    ttl: Wait | None = None

    def document(self) -> dict[str, Any]:
        """Give it as JSON has it.

        Raises:
            InvalidInput: A duration is none.
        """
        members = {
            "attributes": dict(self.attributes) if self.attributes else None,
            "delay": None if self.delay is None else wait_ms(self.delay, "delay") / 1_000,
            "ttl": None if self.ttl is None else wait_ms(self.ttl, "ttl") / 1_000,
        }
        given = {name: value for name, value in members.items() if value is not None}
        return {"type": self.type, "data": self.data, **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a publication came to; it is on the disk.

    Attributes:
        ids: Of the messages, in order.
        deliveries: How many were made at once: one for each subscription that wants a message.
        expanding: There are so many that the rest follows.
        repeated: Its key had been used for the same already: nothing was published now.
    """

    ids: Sequence[str]
    deliveries: int = 0
    expanding: bool = False
    repeated: bool = False

    @property
    def id(self) -> str:
        """The id of the one message."""
        (one,) = self.ids
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription as it was when it was asked for.

    Attributes:
        id: ``sub_…``.
        topic, name: As given.
        endpoint: The URL, or the queue's name.
        status: ``unconfirmed`` until its endpoint has agreed; ``active``; ``paused`` or ``disabled``.
        secret: What its requests are signed with, shown when it is new; None where it was there already.
        public_key: What a receiver verifies with, where that is not the secret.
    """

    id: str
    topic: str
    name: str
    endpoint: str
    status: str
    secret: str | None = field(default=None, repr=False)
    public_key: str | None = None
    _app: Anew = field(repr=False, compare=False)

    def confirm(self) -> None:
        """Confirm it by your own word: its endpoint is not asked any more.

        Raises:
            Conflict: It waits for no confirmation.
        """
        self._steer("confirm")

    def pause(self, reason: str = "") -> None:
        """Hold its deliveries.

        Raises:
            Conflict: It is neither active nor paused.
        """
        self._steer("pause", reason=reason)

    def resume(self, *, release: bool = True) -> None:
        """Let its deliveries go on after a pause, oldest first; without `release` those that were held are cancelled."""
        self._steer("resume", release=release)

    def disable(self, reason: str = "") -> None:
        """Hold its deliveries until it is enabled; what is published meanwhile makes none."""
        self._steer("disable", reason=reason)

    def enable(self, *, replay_missed_since: datetime | Wait | None = None, release: bool = True) -> None:
        """Let its deliveries go on, oldest first, and forget its failures.

        Args:
            release: Whether those that were held are sent; if not, they are cancelled.
            replay_missed_since: What was published since then is sent too; a duration counts back from now.
        """
        since = self._instant(replay_missed_since, "replay_missed_since")
        self._steer("enable", replay_missed_since=since, release=release)

    def rotate(self, secret: str | None = None, *, overlap: Wait = "1d") -> str:
        """Give it a new secret, which is returned; the old one signs beside it for `overlap`.

        Args:
            secret: One of yours, ``whsec_…`` or ``whsk_…``; None: a random one.
            overlap: At most a week.
        """
        return str(self._steer("rotate", secret=secret, overlap=_seconds(overlap, "overlap"))["secret"])

    def replay(
        self,
        since: datetime | Wait,
        until: datetime | Wait | None = None,
        *,
        include: Literal["failed", "missed", "all"] = "failed",
    ) -> None:
        """Have messages sent again, oldest first.

        Args:
            since: Published from then on; a duration counts back from now. At most 14 days.
            until: And before then; None: now.
            include: Deliveries that have died, messages it got no delivery of, or all, also what was delivered.

        Raises:
            Conflict: It is neither active nor paused.
        """
        begins, ends = self._instant(since, "since"), self._instant(until, "until")
        self._steer("replay", since=begins, until=ends, include=include)

    def delete(self) -> None:
        """Remove it; what waits for it is cancelled."""
        self._app.backend.topics.steer(self.id, "delete", b"")

    def _steer(self, action: Action, **members: Any) -> Mapping[str, Any]:
        given = {name: value for name, value in members.items() if value is not None}
        return self._app.backend.topics.steer(self.id, action, _json(given))

    def _instant(self, value: datetime | Wait | None, field: str) -> str | None:
        """Write an instant as epoch ms; None stays None."""
        if value is None:
            return None
        if isinstance(value, datetime):
            return str(instant_ms(value, field))
        return str(self._app.now() - wait_ms(value, field))


class Topic:
    """A topic of an application, by its name; see `Anew.topic`."""

    def __init__(self, app: Anew, name: str) -> None:
        self._app = app
        self.name = name

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    def create(
        self,
        *,
        policy: Mapping[str, Any] | None = None,
        lock_policy: bool = False,
        retention: Wait | None = None,
        excerpts: bool = True,
    ) -> Topic:
        """Create it, or have it be as said; what it had before and is not said is the default again.

        Args:
            policy: Delivery policy of its subscriptions, such as ``{"retry": {"preset": "standard"}}``.
            lock_policy: Its subscriptions may have none of their own.
            retention: How long messages are kept. None: as long as the settings say, 14 days.
            excerpts: Whether what endpoints answer is kept with the attempts.

        Raises:
            InvalidInput: A value does not fit; its `field` is a JSON pointer.
        """
        body: dict[str, Any] = {"lock_delivery_policy": lock_policy, "excerpts": excerpts}
        if policy is not None:
            body["delivery_policy"] = policy
        if retention is not None:
            body["retention"] = _seconds(retention, "retention")
        self._app.backend.topics.put_topic(self.name, _json(body))
        return self

    def publish(
        self,
        type: str,
        data: object = None,
        *,
        attributes: Attributes | None = None,
        delay: Wait | None = None,
        ttl: Wait | None = None,
        key: str | None = None,
    ) -> Published:
        """Publish a message: once this returns, it and its deliveries are on the disk.

        Args:
            type: What has happened, such as ``"order.paid"``.
            data: Any JSON value.
            attributes: For the filters of subscriptions.
            delay: How long nobody gets it.
            ttl: How long it is tried; None: as long as the policy says.
            key: Of this publication: within 24 hours a second one with the same key and content publishes nothing.

        Raises:
            NotFound: There is no such topic.
            InvalidInput: A value does not fit.
            Conflict: The key was used for something else.
        """
        message = Message(type, data, attributes, delay, ttl)
        return self._publish(message.document(), key)

    def publish_many(self, messages: Iterable[Message], *, key: str | None = None) -> Published:
        """Publish up to 100 messages, all or none; see `publish`."""
        return self._publish({"messages": [message.document() for message in messages]}, key)

    async def apublish(
        self,
        type: str,
        data: object = None,
        *,
        attributes: Attributes | None = None,
        delay: Wait | None = None,
        ttl: Wait | None = None,
        key: str | None = None,
    ) -> Published:
        """Do what `publish` does beside an event loop."""
        import asyncio

        return await asyncio.to_thread(
            self.publish, type, data, attributes=attributes, delay=delay, ttl=ttl, key=key
        )

    async def apublish_many(self, messages: Iterable[Message], *, key: str | None = None) -> Published:
        """Do what `publish_many` does beside an event loop."""
        import asyncio

        return await asyncio.to_thread(self.publish_many, messages, key=key)

    def subscriptions(self) -> Iterator[Subscription]:
        """Walk through its subscriptions, in the order of their ids.

        Raises:
            NotFound: There is no such topic.
        """
        cursor = None
        while True:
            page = self._app.backend.topics.subscriptions(self.name, cursor)
            yield from (_subscription(self._app, shown) for shown in page["subscriptions"])
            cursor = page["cursor"]
            if cursor is None:
                return

    def _publish(self, body: Mapping[str, Any], key: str | None) -> Published:
        if key is not None and not (
            isinstance(key, str) and key.isascii() and key.isprintable() and key.strip() == key
        ):
            raise refused("key", key, "visible ASCII characters, as in a header")
        shown = self._app.backend.topics.publish(self.name, _json(body), key)
        return Published(
            ids=tuple(shown["ids"]),
            deliveries=shown.get("deliveries", 0),
            expanding=shown.get("expanding", False),
            repeated=shown.get("repeated", False),
        )


def subscribe(
    app: Anew, topic: str, url: str | None, *, queue: str | None, ttl: Wait | None, **members: Any
) -> Subscription:
    """Subscribe; see `Anew.subscribe`.

    Args:
        app, topic, url, queue, ttl: See there.
        members: Of the request, as they are.
    """
    if (url is None) == (queue is None):
        raise InvalidInput("url, queue: expected one of the two", field="url")
    endpoint = {"type": "webhook", "url": url} if queue is None else {"type": "queue", "queue": queue}
    body = members | {"endpoint": endpoint, "ttl": None if ttl is None else _seconds(ttl, "ttl")}
    return _subscription(app, app.backend.topics.subscribe(topic, _json(body)))


def _subscription(app: Anew, shown: Mapping[str, Any]) -> Subscription:
    at = shown["endpoint"]
    return Subscription(
        _app=app,
        id=shown["id"],
        topic=shown["topic"],
        name=shown["name"],
        endpoint=at.get("url") or at["queue"],
        status=shown["status"],
        secret=shown.get("secret"),
        public_key=shown.get("public_key"),
    )


def path_of(topic: str, rest: str = "") -> str:
    """Give the path of a topic's route."""
    return f"/v1/topics/{quote(topic, safe='')}{rest}"


def _seconds(value: Wait, field: str) -> int:
    """Read a duration as whole seconds; a part of one counts as a whole one."""
    return -(-wait_ms(value, field) // 1_000)


def _json(body: object) -> bytes:
    try:
        if holds_nan(body):
            raise ValueError("it holds a number that is none, or infinite")
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"data: cannot be written as JSON: {error}", field="data") from error
