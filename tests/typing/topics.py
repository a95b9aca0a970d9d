"""Topics and webhooks as their user writes them: checked by type checkers, and not run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_type

from anew import Anew, Message, Published, Subscription, Topic
from anew.webhooks import Event, verify

app = Anew("jobs.db")

orders = app.topic("orders").create(policy={"retry": {"preset": "standard"}}, retention="7d")
assert_type(orders, Topic)
published = orders.publish(
    "order.paid", {"id": 42}, attributes={"region": "eu"}, delay=1.5, ttl="1h", key="42"
)
assert_type(published, Published)
assert_type(published.ids, Sequence[str])
assert_type(orders.publish_many([Message("a"), Message("b", [1])]), Published)

hook = app.subscribe("orders", "https://shop.example/hook", filter={"types": ["order.*"]}, signing="ed25519")
assert_type(hook, Subscription)
assert_type(hook.secret, str | None)
assert_type(app.subscribe("orders", queue="mail", ttl=timedelta(days=1)).status, str)

event = verify("whsec_...", {"webhook-id": "msg_1"}, b"{}")
assert_type(event, Event)
assert_type(event.data, Any)
verify(["whsec_...", "whpk_..."], [(b"webhook-id", b"msg_1")], b"{}", tolerance=30)


async def later() -> None:
    assert_type(await orders.apublish("order.paid"), Published)


orders.publish()  # wrong: a type is missing
orders.publish("order.paid", attributes={"a": [1]})  # wrong: a list
app.subscribe("orders", "https://shop.example", signing="rsa")  # wrong: no such kind
verify("whsec_...", {}, "{}")  # wrong: text
