"""``anew sub``: who is told, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import one_line, show_json, show_table
from anew.cli.remote import ClientSession, confirm, remote
from anew.cli.topics.api import (
    POLICY_HELP,
    Api,
    given,
    read_json,
    read_whole_seconds,
    show_done,
    show_policy,
    subscription_path,
    topic_path,
)


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
@click.option("--policy", metavar="JSON", help=POLICY_HELP)
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
    body = given(
        endpoint={"type": "webhook", "url": endpoint} if queue is None else {"type": "queue", "queue": queue},
        name=name,
        filter=None if filter_ is None else read_json(filter_, "--filter"),
        delivery_policy=None if policy is None else read_json(policy, "--policy"),
        handshake=handshake,
        signing=signing,
        dead_letter_queue=dead_letter_queue,
        ttl=read_whole_seconds(ttl, "ttl"),
    )
    shown = Api(session).call("POST", topic_path(topic_name) + "/subscriptions", body)
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
    found = list(Api(session).listed(topic_path(topic_name) + "/subscriptions", "subscriptions", 10_000))
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
    _show_subscription(session, api.call("GET", subscription_path(api, subscription)))


@sub.command("set", short_help="Change a subscription.")
@click.argument("subscription")
@click.option("--endpoint", metavar="URL", help="Another endpoint; it is to be confirmed again.")
@click.option("--name", metavar="NAME", help="For people.")
@click.option("--filter", "filter_", metavar="JSON", help="Which messages it gets; null: all.")
@click.option("--policy", metavar="JSON", help=POLICY_HELP + " null takes it away.")
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
    body = given(name=name, endpoint=None if endpoint is None else {"type": "webhook", "url": endpoint})
    if filter_ is not None:
        body["filter"] = read_json(filter_, "--filter")
    if policy is not None:
        body["delivery_policy"] = read_json(policy, "--policy")
    _show_subscription(session, api.call("PATCH", subscription_path(api, subscription), body))


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
        body = given(reason=reason, release=False if drop_held else None)
        _show_subscription(session, api.call("POST", subscription_path(api, subscription, f"/{move}"), body))


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
    api.call(
        "POST", subscription_path(api, subscription, "/resend-confirmation" if resend else "/confirm"), {}
    )
    show_done(session, {"subscription": subscription}, "asked again" if resend else "confirmed")


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
    shown = api.call(
        "POST", subscription_path(api, subscription, "/test"), {"data": read_json(data, "--data")}
    )
    if session.as_json:
        show_json(shown)
    elif shown.get("status") == "delivered":  # to a queue
        click.echo(f"{shown['id']}  delivered: the queue has the job")
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
    _show_secret(session, api.call("GET", subscription_path(api, subscription, "/secret")))


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
    body = {"overlap": read_whole_seconds(overlap, "overlap")}
    _show_secret(session, api.call("POST", subscription_path(api, subscription, "/secret/rotate"), body))


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
    api.call("DELETE", subscription_path(api, subscription))
    show_done(session, {"deleted": subscription}, f"subscription {subscription} is removed")


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
        show_policy(session, shown)
    if shown["status"] == "unconfirmed":
        click.echo("It gets nothing before it is confirmed: by its endpoint, or by anew sub confirm.")


def _show_secret(session: ClientSession, shown: Mapping[str, Any]) -> None:
    if session.as_json:
        show_json(shown)
        return
    for text in shown.values():
        click.echo(text)
