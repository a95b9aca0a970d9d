"""``anew topic``, ``sub``, ``publish``, ``delivery`` and ``replay``: topics of a server, and what became of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import click
import msgspec

from anew.cli.lazy import CommandGroup
from anew.cli.output import moment, now_ms, one_line, show_json, show_table
from anew.cli.remote import ClientSession, confirm, given_text, remote
from anew.cli.values import read_moment
from anew.errors import InvalidInput, NotFound
from anew.units import counted, parse_duration_with_unit

_STATUSES = ("scheduled", "ready", "sending", "delivered", "held", "dead", "cancelled")
_POLICY = "Delivery policy: JSON, @file or -; see anew policy preview."
_LOOK_S = 0.3


class Api:
    """The routes of topics, with JSON in and out."""

    def __init__(self, session: ClientSession) -> None:
        self._client = session.client

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask, and read the answer."""
        answer = self._client.request(method, path, body)
        return msgspec.json.decode(answer) if answer else None

    def listed(self, path: str, name: str, limit: int, **query: str | None) -> Iterator[dict[str, Any]]:
        """Walk through a list, a page at a time."""
        given = {key: value for key, value in query.items() if value is not None}
        while limit > 0:
            page = self.call("GET", f"{path}?{urlencode(given | {'limit': min(limit, 100)})}")
            yield from page[name]
            limit -= len(page[name])
            if page["cursor"] is None:
                return
            given["cursor"] = page["cursor"]

    def subscription(self, text: str) -> str:
        """Give the id of a subscription: the id itself, or ``TOPIC/NAME``.

        Raises:
            NotFound: No subscription of that topic has this name.
        """
        topic, slash, name = text.partition("/")
        if not slash:
            return text
        for one in self.listed(f"/v1/topics/{quote(topic, safe='')}/subscriptions", "subscriptions", 10_000):
            if one["name"] == name:
                return str(one["id"])
        raise NotFound(
            f"topic {topic!r} has no subscription named {name!r}; list them: anew sub list {topic}"
        )


def _topic(name: str) -> str:
    return f"/v1/topics/{quote(name, safe='')}"


def _sub(api: Api, text: str, more: str = "") -> str:
    return f"/v1/subscriptions/{quote(api.subscription(text), safe='')}{more}"


def _json(text: str, what: str) -> Any:
    try:
        return msgspec.json.decode(given_text(text, 1 << 20))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{what}: expected JSON, a file as @file, or -: {error}", field=what) from error


def _since(text: str | None, name: str) -> str | None:
    """Read an instant, or a duration before now, as the API has it."""
    if text is None:
        return None
    try:
        at = now_ms() - parse_duration_with_unit(text, name)
    except InvalidInput:
        at = read_moment(text, name)
    return str(at)


def _when(text: str | None, now: int) -> str:
    if text is None:
        return "-"
    return moment(int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1_000), now)


def _seconds(text: str | None, name: str) -> float | None:
    return None if text is None else parse_duration_with_unit(text, name) / 1_000


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


# -- topics


@click.group(cls=CommandGroup)
def topic() -> None:
    """Create topics, list, change and remove them.

    \b
    Examples:
      anew topic create orders
      anew topic set orders --policy '{"throttle": {"max_per_second": 5}}'
    """


@topic.command("create", short_help="Create a topic.")
@click.argument("name")
@click.option("--policy", metavar="JSON", help=_POLICY)
@click.option("--lock", is_flag=True, help="Its subscriptions may not have policies of their own.")
@click.option("--retention", metavar="TIME", help="How long messages are kept. [14d]")
@remote
def create_topic(
    session: ClientSession, name: str, policy: str | None, lock: bool, retention: str | None
) -> None:
    """Create a topic, or have it be as the options say.

    \b
    Examples:
      anew topic create orders
      anew topic create orders --policy @policy.json --lock --retention 3d
    """
    kept = _seconds(retention, "retention")
    body = _given(
        delivery_policy=None if policy is None else _json(policy, "--policy"),
        lock_delivery_policy=lock or None,
        retention=None if kept is None else int(kept),
    )
    _show_topic(session, Api(session).call("PUT", _topic(name), body))


@topic.command("list", short_help="List the topics.")
@remote
def list_topics(session: ClientSession) -> None:
    """List the topics of the server.

    \b
    Examples:
      anew topic list
      anew topic list --json
    """
    found = list(Api(session).listed("/v1/topics", "topics", 10_000))
    if session.as_json:
        show_json({"topics": found})
    elif not found:
        click.echo("No topics: anew topic create NAME makes one.")
    else:
        now = now_ms()
        rows = [(one["name"], _sources(one), _when(one["created_at"], now)) for one in found]
        show_table(("TOPIC", "POLICY FROM", "CREATED"), rows)


@topic.command("show", short_help="Show a topic.")
@click.argument("name")
@remote
def show_topic(session: ClientSession, name: str) -> None:
    """Show a topic and the delivery policy that holds for it.

    \b
    Examples:
      anew topic show orders
    """
    _show_topic(session, Api(session).call("GET", _topic(name)))


@topic.command("set", short_help="Change a topic.")
@click.argument("name")
@click.option("--policy", metavar="JSON", help=_POLICY + " null takes it away.")
@click.option(
    "--lock/--no-lock", default=None, help="Whether its subscriptions may have no policies of their own."
)
@click.option("--retention", metavar="TIME", help="How long messages are kept.")
@remote
def set_topic(
    session: ClientSession, name: str, policy: str | None, lock: bool | None, retention: str | None
) -> None:
    """Change some of what a topic is; deliveries that are there keep their policy.

    \b
    Examples:
      anew topic set orders --policy '{"retry": {"preset": "sns"}}'
      anew topic set orders --no-lock
    """
    kept = _seconds(retention, "retention")
    body = _given(lock_delivery_policy=lock, retention=None if kept is None else int(kept))
    if policy is not None:
        body["delivery_policy"] = _json(policy, "--policy")
    _show_topic(session, Api(session).call("PATCH", _topic(name), body))


@topic.command("delete", short_help="Remove a topic.")
@click.argument("name")
@click.option("--force", is_flag=True, help="With its subscriptions.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@remote
def delete_topic(session: ClientSession, name: str, force: bool, yes: bool) -> None:
    """Remove a topic.

    \b
    Examples:
      anew topic delete orders
      anew topic delete orders --force --yes
    """
    confirm(f"Remove topic {name!r}", yes=yes)
    Api(session).call("DELETE", _topic(name) + ("?force=true" if force else ""))
    _done(session, {"deleted": name}, f"topic {name} is removed")


def _show_topic(session: ClientSession, shown: Mapping[str, Any]) -> None:
    if session.as_json:
        show_json(shown)
        return
    click.echo(f"topic      {shown['name']}")
    click.echo(f"policy     {_sources(shown)}" + (", locked" if shown["lock_delivery_policy"] else ""))
    _show_policy(session, shown)


def _show_policy(session: ClientSession, shown: Mapping[str, Any]) -> None:
    policy = shown["effective_delivery_policy"]
    click.echo(f"retries    {_retries(policy['retry'])}")
    click.echo(f"lab        {session.client.url}{shown['lab']}")
    throttle = policy["throttle"]
    rate = "any rate" if throttle["max_per_second"] is None else f"{throttle['max_per_second']:g} a second"
    click.echo(f"throttle   {throttle['max_in_flight']} at a time, {rate}")


def _retries(retry: Mapping[str, Any]) -> str:
    if "policy" in retry:
        return f"{retry['policy']['limit']}, by {json.dumps(retry['policy'])}"
    waits = retry["schedule"]
    shown = ", ".join(f"{wait:g}" for wait in waits[:12]) + (" ..." if len(waits) > 12 else "")
    return f"{len(waits)}, after {shown or '-'} s (jitter {retry['jitter']:g})"


def _sources(shown: Mapping[str, Any]) -> str:
    sources = shown["policy_sources"]
    return (
        ", ".join(f"{block}: {source}" for block, source in sources.items() if source != "default")
        or "default"
    )


# -- subscriptions


@click.group(cls=CommandGroup)
def sub() -> None:
    """Subscribe webhooks and queues to topics; pause, confirm, repair and remove them.

    A SUBSCRIPTION is its id, or TOPIC/NAME.

    \b
    Examples:
      anew sub add orders https://hooks.example.org/orders --name shop
      anew sub pause orders/shop
    """


@sub.command("add", short_help="Subscribe an endpoint to a topic.")
@click.argument("topic_name", metavar="TOPIC")
@click.argument("endpoint", metavar="URL|queue:NAME")
@click.option("--name", metavar="NAME", help="For people, and for anew sub.")
@click.option("--filter", "filter_", metavar="JSON", help="Only messages of these types and attributes.")
@click.option("--policy", metavar="JSON", help=_POLICY)
@click.option("--handshake", type=click.Choice(["token", "cloudevents"]), help="How it is confirmed. [token]")
@click.option("--signing", type=click.Choice(["hmac", "ed25519"]), help="[hmac]")
@click.option("--dead-letter-queue", metavar="QUEUE", help="Gets a job for each delivery that dies.")
@click.option("--ttl", metavar="TIME", help="It ends after so long.")
@remote
def add_subscription(
    session: ClientSession,
    topic_name: str,
    endpoint: str,
    name: str | None,
    filter_: str | None,
    policy: str | None,
    handshake: str | None,
    signing: str | None,
    dead_letter_queue: str | None,
    ttl: str | None,
) -> None:
    """Subscribe a webhook, or a queue of this server, to a topic. Its secret is shown once.

    \b
    Examples:
      anew sub add orders https://hooks.example.org/orders --name shop
      anew sub add orders queue:mail --filter '{"types": ["order.paid"]}'
      anew sub add orders http://127.0.0.1:7892/ --policy '{"retry": {"schedule": [1, 5, 30]}}'
    """
    queue = endpoint.removeprefix("queue:") if endpoint.startswith("queue:") else None
    lasts = _seconds(ttl, "ttl")
    body = _given(
        endpoint={"type": "webhook", "url": endpoint} if queue is None else {"type": "queue", "queue": queue},
        name=name,
        filter=None if filter_ is None else _json(filter_, "--filter"),
        delivery_policy=None if policy is None else _json(policy, "--policy"),
        handshake=handshake,
        signing=signing,
        dead_letter_queue=dead_letter_queue,
        ttl=None if lasts is None else int(lasts),
    )
    shown = Api(session).call("POST", _topic(topic_name) + "/subscriptions", body)
    _show_subscription(session, shown)
    if not session.as_json and "secret" in shown:
        click.echo(f"secret     {shown['secret']}   (anew sub secret shows it again)")


@sub.command("list", short_help="List the subscriptions of a topic.")
@click.argument("topic_name", metavar="TOPIC")
@remote
def list_subscriptions(session: ClientSession, topic_name: str) -> None:
    """List the subscriptions of a topic, and how their endpoints do.

    \b
    Examples:
      anew sub list orders
    """
    found = list(Api(session).listed(_topic(topic_name) + "/subscriptions", "subscriptions", 10_000))
    if session.as_json:
        show_json({"subscriptions": found})
    elif not found:
        click.echo(f"No subscriptions: anew sub add {topic_name} URL makes one.")
    else:
        rows = [
            (
                one["id"],
                one["name"] or "-",
                one["status"],
                _health(one),
                one["endpoint"].get("url") or _queue_of(one),
            )
            for one in found
        ]
        show_table(("SUBSCRIPTION", "NAME", "STATUS", "HEALTH", "ENDPOINT"), rows, fitted=True)


def _queue_of(one: Mapping[str, Any]) -> str:
    return f"queue:{one['endpoint'].get('queue', '')}"


def _health(one: Mapping[str, Any]) -> str:
    health = one["health"]
    if not health["failures"]:
        return "well"
    breaker = "" if health["breaker"] == "closed" else f", breaker {health['breaker'].replace('_', ' ')}"
    return f"{health['failures']} failures{breaker}"


@sub.command("show", short_help="Show a subscription.")
@click.argument("subscription")
@remote
def show_subscription(session: ClientSession, subscription: str) -> None:
    """Show a subscription, its policy and how its endpoint does.

    \b
    Examples:
      anew sub show orders/shop
    """
    api = Api(session)
    _show_subscription(session, api.call("GET", _sub(api, subscription)))


@sub.command("set", short_help="Change a subscription.")
@click.argument("subscription")
@click.option("--endpoint", metavar="URL", help="Another endpoint; it is to be confirmed again.")
@click.option("--name", metavar="NAME", help="For people.")
@click.option("--filter", "filter_", metavar="JSON", help="Which messages it gets; null: all.")
@click.option("--policy", metavar="JSON", help=_POLICY + " null takes it away.")
@remote
def set_subscription(
    session: ClientSession,
    subscription: str,
    endpoint: str | None,
    name: str | None,
    filter_: str | None,
    policy: str | None,
) -> None:
    """Change some of what a subscription is.

    \b
    Examples:
      anew sub set orders/shop --policy '{"throttle": {"max_per_second": 2}}'
      anew sub set orders/shop --filter null
    """
    api = Api(session)
    body = _given(name=name, endpoint=None if endpoint is None else {"type": "webhook", "url": endpoint})
    if filter_ is not None:
        body["filter"] = _json(filter_, "--filter")
    if policy is not None:
        body["delivery_policy"] = _json(policy, "--policy")
    _show_subscription(session, api.call("PATCH", _sub(api, subscription), body))


def _turning(move: str, help_text: str) -> None:
    @sub.command(move, help=f"{help_text}\n\n\b\nExamples:\n  anew sub {move} orders/shop")
    @click.argument("subscription")
    @click.option("--reason", metavar="TEXT", help="For people who look.")
    @click.option(
        "--drop-held",
        is_flag=True,
        hidden=move in ("pause", "disable"),
        help="Cancel what was held in place of sending it.",
    )
    @remote
    def turn(session: ClientSession, subscription: str, reason: str | None, drop_held: bool) -> None:
        api = Api(session)
        body = _given(reason=reason, release=False if drop_held else None)
        _show_subscription(session, api.call("POST", _sub(api, subscription, f"/{move}"), body))


_turning("pause", "Hold the deliveries of a subscription until it is resumed; new ones are still made.")
_turning("resume", "Let the deliveries of a paused subscription go on, oldest first.")
_turning("disable", "Hold the deliveries of a subscription, and make no new ones.")
_turning("enable", "Let a disabled subscription go on; anew replay makes what it has missed.")


@sub.command("confirm", short_help="Confirm a subscription by your own word.")
@click.argument("subscription")
@click.option("--resend", is_flag=True, help="Have the endpoint asked again instead.")
@remote
def confirm_subscription(session: ClientSession, subscription: str, resend: bool) -> None:
    """Confirm a subscription by your own word, or have its endpoint asked again.

    \b
    Examples:
      anew sub confirm orders/shop
      anew sub confirm orders/shop --resend
    """
    api = Api(session)
    api.call("POST", _sub(api, subscription, "/resend-confirmation" if resend else "/confirm"), {})
    _done(session, {"subscription": subscription}, "asked again" if resend else "confirmed")


@sub.command("test", short_help="Send a subscription a message to try it out.")
@click.argument("subscription")
@click.option("--data", "-d", default="null", metavar="JSON", help="JSON, @file or -. [null]")
@remote
def try_subscription(session: ClientSession, subscription: str, data: str) -> None:
    """Send a subscription a message of type anew.test, once, and show what its endpoint answers.

    \b
    Examples:
      anew sub test orders/shop
      anew sub test orders/shop --data '{"id": 42}' --json
    """
    api = Api(session)
    shown = api.call("POST", _sub(api, subscription, "/test"), {"data": _json(data, "--data")})
    if session.as_json:
        show_json(shown)
    elif "number" not in shown:
        click.echo(
            f"{shown['id']}  no answer yet; is there a process that delivers? See anew deliver --help."
        )
    else:
        answer = shown["status"] or shown["error"]
        click.echo(
            f"{shown['outcome']}  {answer}, {shown['duration_ms']} ms  {one_line(shown['excerpt'])[:200]}"
        )


@sub.command("secret", short_help="Show the secret that deliveries are signed with.")
@click.argument("subscription")
@remote
def show_secret(session: ClientSession, subscription: str) -> None:
    """Show the secret that deliveries are signed with.

    \b
    Examples:
      anew sub secret orders/shop
    """
    api = Api(session)
    _show_secret(session, api.call("GET", _sub(api, subscription, "/secret")))


@sub.command("rotate-secret", short_help="Give a subscription a new secret.")
@click.argument("subscription")
@click.option("--overlap", metavar="TIME", default="24h", help="How long the old one signs beside it. [24h]")
@remote
def rotate_secret(session: ClientSession, subscription: str, overlap: str) -> None:
    """Give a subscription a new secret; for a time the old one signs beside it.

    \b
    Examples:
      anew sub rotate-secret orders/shop
      anew sub rotate-secret orders/shop --overlap 0s
    """
    api = Api(session)
    body = {"overlap": int(parse_duration_with_unit(overlap, "overlap") / 1_000)}
    _show_secret(session, api.call("POST", _sub(api, subscription, "/secret/rotate"), body))


@sub.command("delete", short_help="Remove a subscription.")
@click.argument("subscription")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@remote
def delete_subscription(session: ClientSession, subscription: str, yes: bool) -> None:
    """Remove a subscription, and cancel what waits for it.

    \b
    Examples:
      anew sub delete orders/shop --yes
    """
    confirm(f"Remove subscription {subscription}", yes=yes)
    api = Api(session)
    api.call("DELETE", _sub(api, subscription))
    _done(session, {"deleted": subscription}, f"subscription {subscription} is removed")


def _show_subscription(session: ClientSession, shown: Mapping[str, Any]) -> None:
    if session.as_json:
        show_json(shown)
        return
    reason = f" ({one_line(shown['reason'])})" if shown["reason"] else ""
    click.echo(f"id         {shown['id']}" + (f"  {one_line(shown['name'])}" if shown["name"] else ""))
    click.echo(f"endpoint   {one_line(shown['endpoint'].get('url') or _queue_of(shown))}")
    click.echo(f"status     {shown['status']}{reason}")
    click.echo(f"health     {_health(shown)}")
    if "effective_delivery_policy" in shown:
        _show_policy(session, shown)
    if shown["status"] == "unconfirmed":
        click.echo("It gets nothing before it is confirmed: by its endpoint, or by anew sub confirm.")


def _show_secret(session: ClientSession, shown: Mapping[str, Any]) -> None:
    if session.as_json:
        show_json(shown)
        return
    for text in shown.values():
        click.echo(text)


# -- publishing


@click.command()
@click.argument("topic_name", metavar="TOPIC")
@click.option("--type", "-t", "type_", required=True, metavar="TYPE", help="What has happened: order.paid.")
@click.option("--data", "-d", default="null", metavar="JSON", help="JSON, @file or -. [null]")
@click.option("--attr", "-a", "attributes", multiple=True, metavar="NAME=VALUE", help="For filters.")
@click.option("--delay", metavar="TIME", help="Deliver no earlier.")
@click.option("--ttl", metavar="TIME", help="Deliver no later.")
@remote
def publish(
    session: ClientSession,
    topic_name: str,
    type_: str,
    data: str,
    attributes: tuple[str, ...],
    delay: str | None,
    ttl: str | None,
) -> None:
    """Publish a message on a topic: every subscriber gets it.

    Attributes are texts, or numbers and true or false where they read as such.

    \b
    Examples:
      anew publish orders --type order.paid --data '{"id": 42}'
      anew publish orders -t order.paid -d @order.json -a region=eu --delay 10m
    """
    body = _given(
        type=type_,
        data=msgspec.Raw(given_text(data)),
        attributes=dict(map(_attribute, attributes)) or None,
        delay=_seconds(delay, "delay"),
        ttl=_seconds(ttl, "ttl"),
    )
    _json(data, "--data") if data != "-" else None
    shown = Api(session).call("POST", _topic(topic_name) + "/messages", body)
    if session.as_json:
        show_json(shown)
        return
    many = (
        "its deliveries are being made"
        if shown["expanding"]
        else counted(shown["deliveries"], "delivery", "deliveries")
    )
    click.echo(f"{shown['ids'][0]}  {many}")


def _attribute(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidInput(f"--attr: expected NAME=VALUE, got {text!r}", field="attr", value=text)
    try:
        read = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
    return name, read if isinstance(read, int | float | bool) else value


# -- deliveries


@click.group(cls=CommandGroup)
def delivery() -> None:
    """Look at deliveries, and send them again.

    \b
    Examples:
      anew delivery list --status dead --since 2h
      anew delivery attempts dlv_...
      anew delivery redeliver --all-dead --topic orders --dry-run
    """


@delivery.command("list", short_help="List deliveries, oldest messages first.")
@click.option("--status", "-s", type=click.Choice(_STATUSES), help="Only these.")
@click.option("--reason", metavar="WORD", help="Only those dead for this: exhausted, gone, expired, ...")
@click.option("--topic", "topic_name", metavar="TOPIC", help="Only of this topic.")
@click.option("--sub", "subscription", metavar="SUBSCRIPTION", help="Only to this subscription.")
@click.option("--message", metavar="ID", help="Only of this message.")
@click.option("--since", metavar="TIME", help="Published since then: 2h, or an instant.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, metavar="N", help="At most. [50]")
@remote
def list_deliveries(
    session: ClientSession,
    status: str | None,
    reason: str | None,
    topic_name: str | None,
    subscription: str | None,
    message: str | None,
    since: str | None,
    limit: int,
) -> None:
    """List deliveries, those of the oldest messages first.

    \b
    Examples:
      anew delivery list --topic orders
      anew delivery list --status dead --reason exhausted --since 1d
    """
    api = Api(session)
    found = list(
        api.listed(
            "/v1/deliveries",
            "deliveries",
            limit,
            status=status,
            dead_reason=reason,
            topic=topic_name,
            subscription=None if subscription is None else api.subscription(subscription),
            message=message,
            since=_since(since, "since"),
        )
    )
    if session.as_json:
        show_json({"deliveries": found})
        return
    if not found:
        click.echo("No deliveries.")
        return
    now = now_ms()
    rows = [
        (
            one["id"],
            one["status"],
            str(one["attempts"]),
            _last(one),
            _when(one["next_attempt_at"], now),
            one["type"] or "-",
        )
        for one in found
    ]
    show_table(("DELIVERY", "STATUS", "ATTEMPTS", "LAST", "NEXT", "TYPE"), rows, status_column=1, fitted=True)


def _last(one: Mapping[str, Any]) -> str:
    last = one["last_attempt"]
    if one["dead_reason"]:
        return str(one["dead_reason"])
    if last is None:
        return "-"
    return str(last.get("status") or last.get("error") or last["outcome"])


@delivery.command("show", short_help="Show a delivery.")
@click.argument("delivery_id", metavar="DELIVERY")
@remote
def show_delivery(session: ClientSession, delivery_id: str) -> None:
    """Show a delivery and its last attempt.

    \b
    Examples:
      anew delivery show dlv_...
    """
    _show_delivery(session, Api(session).call("GET", f"/v1/deliveries/{quote(delivery_id, safe='')}"))


@delivery.command("attempts", short_help="List the attempts of a delivery.")
@click.argument("delivery_id", metavar="DELIVERY")
@remote
def list_attempts(session: ClientSession, delivery_id: str) -> None:
    """List the attempts of a delivery: what came back, how long it took, when the next one comes.

    \b
    Examples:
      anew delivery attempts dlv_...
    """
    path = f"/v1/deliveries/{quote(delivery_id, safe='')}/attempts"
    found = list(Api(session).listed(path, "attempts", 10_000))
    if session.as_json:
        show_json({"attempts": found})
        return
    now = now_ms()
    rows = [
        (
            str(one["number"]),
            _when(one["started_at"], now),
            one["outcome"],
            str(one.get("status") or one.get("error") or "-"),
            "-" if one.get("duration_ms") is None else f"{one['duration_ms']} ms",
            _when(one.get("next_attempt_at"), now),
            one_line(one.get("excerpt") or "")[:60],
        )
        for one in found
    ]
    show_table(("N", "BEGAN", "OUTCOME", "ANSWER", "TOOK", "NEXT", "EXCERPT"), rows, fitted=True)


@delivery.command("redeliver", short_help="Send deliveries again.")
@click.argument("delivery_id", metavar="[DELIVERY]", required=False)
@click.option("--all-dead", is_flag=True, help="All dead ones that match.")
@click.option("--topic", "topic_name", metavar="TOPIC", help="Of these only those of this topic.")
@click.option("--sub", "subscription", metavar="SUBSCRIPTION", help="Only those to this subscription.")
@click.option("--reason", metavar="WORD", help="Only those dead for this.")
@click.option("--since", metavar="TIME", help="Only those published since then: 2h, or an instant.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option("--once", is_flag=True, help="One attempt, whatever comes of it.")
@click.option("--force", is_flag=True, help="Also if it was delivered.")
@remote
def redeliver(
    session: ClientSession,
    delivery_id: str | None,
    all_dead: bool,
    topic_name: str | None,
    subscription: str | None,
    reason: str | None,
    since: str | None,
    dry_run: bool,
    once: bool,
    force: bool,
) -> None:
    """Send a delivery again, or all dead ones that match. What waits is sent now.

    \b
    Examples:
      anew delivery redeliver dlv_...
      anew delivery redeliver --all-dead --topic orders --since 6h --dry-run
    """
    if (delivery_id is None) == (not all_dead):
        raise InvalidInput("which deliveries? expected either one id, or --all-dead with filters")
    api, mode = Api(session), "once" if once else "full"
    if delivery_id is not None:
        path = f"/v1/deliveries/{quote(delivery_id, safe='')}/redeliver"
        _show_delivery(session, api.call("POST", path, {"mode": mode, "force": force}))
        return
    body = _given(
        status="dead",
        topic=topic_name,
        subscription=None if subscription is None else api.subscription(subscription),
        dead_reason=reason,
        since=_since(since, "since"),
        mode=mode,
        dry_run=dry_run,
    )
    answer = api.call("POST", "/v1/deliveries/redeliver", body)
    if dry_run:
        _done(session, answer, f"{counted(answer['count'], 'delivery', 'deliveries')} would be sent again")
    else:
        _follow(session, api, answer["task_id"])


@delivery.command("cancel", short_help="Call a delivery off.")
@click.argument("delivery_id", metavar="DELIVERY")
@remote
def cancel_delivery(session: ClientSession, delivery_id: str) -> None:
    """Call a delivery off that has not ended.

    \b
    Examples:
      anew delivery cancel dlv_...
    """
    path = f"/v1/deliveries/{quote(delivery_id, safe='')}/cancel"
    _show_delivery(session, Api(session).call("POST", path, {}))


@delivery.command("delete", short_help="Remove a dead delivery.")
@click.argument("delivery_id", metavar="DELIVERY")
@remote
def delete_delivery(session: ClientSession, delivery_id: str) -> None:
    """Remove a dead delivery with its attempts.

    \b
    Examples:
      anew delivery delete dlv_...
    """
    Api(session).call("DELETE", f"/v1/deliveries/{quote(delivery_id, safe='')}")
    _done(session, {"deleted": delivery_id}, f"{delivery_id} is removed")


def _show_delivery(session: ClientSession, shown: Mapping[str, Any]) -> None:
    if session.as_json:
        show_json(shown)
        return
    now = now_ms()
    why = (
        f" ({shown['dead_reason'] or shown['deferred_by']})"
        if shown["dead_reason"] or shown["deferred_by"]
        else ""
    )
    click.echo(f"id         {shown['id']}")
    click.echo(f"message    {shown['message_id']}  {one_line(shown['type'] or '-')}")
    click.echo(f"to         {shown['subscription_id']}")
    click.echo(f"status     {shown['status']}{why}, {shown['attempts']} attempts")
    if shown["next_attempt_at"]:
        click.echo(f"next       {_when(shown['next_attempt_at'], now)}")
    if shown["last_attempt"] is not None:
        click.echo(f"last       {_last(shown)}")


# -- replay


@click.command()
@click.argument("subscription")
@click.option(
    "--since", required=True, metavar="TIME", help="From then on: 2h, or an instant; at most 14 days back."
)
@click.option("--until", metavar="TIME", help="Up to then.")
@click.option(
    "--include", type=click.Choice(["failed", "missed", "all"]), default="failed",
    help="What has failed, what was published while it was disabled, or all, also what was delivered. [failed]",
)  # fmt: skip
@remote
def replay(session: ClientSession, subscription: str, since: str, until: str | None, include: str) -> None:
    """Send a subscription again what has failed, or what it has missed, oldest first, behind fresh messages.

    \b
    Examples:
      anew replay orders/shop --since 2h
      anew replay orders/shop --since 2026-11-20T08:00 --include missed
    """
    api = Api(session)
    body = _given(since=_since(since, "since"), until=_since(until, "until"), include=include)
    _follow(session, api, api.call("POST", _sub(api, subscription, "/replay"), body)["task_id"])


def _follow(session: ClientSession, api: Api, task_id: str) -> None:
    """Show how far a task is until it is done; Ctrl-C leaves it to go on."""
    shows = sys.stderr.isatty() and not session.as_json
    while True:
        task = api.call("GET", f"/v1/tasks/{task_id}")
        if task["status"] != "running":
            break
        if shows:
            click.echo(f"\r{task['done']} so far", nl=False, err=True)
        time.sleep(_LOOK_S)
    if shows:
        click.echo("\r", nl=False, err=True)
    _done(session, task, f"{counted(task['done'], 'delivery', 'deliveries')} sent again ({task['status']})")


def _done(session: ClientSession, shown: Mapping[str, Any], words: str) -> None:
    if session.as_json:
        show_json(shown)
    else:
        click.echo(words)
