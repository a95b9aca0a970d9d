"""``anew topic`` and ``anew publish``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from anew.cli.lazy import CommandGroup
from anew.cli.output import now_ms, show_json, show_table
from anew.cli.remote import ClientSession, confirm, remote
from anew.cli.topics.api import (
    POLICY_HELP,
    Api,
    given,
    json_text,
    read_json,
    read_seconds,
    read_whole_seconds,
    show_done,
    show_policy,
    sources,
    topic_path,
    when,
)
from anew.errors import InvalidInput
from anew.units import counted


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
@click.option("--policy", metavar="JSON", help=POLICY_HELP)
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
    body = given(
        delivery_policy=None if policy is None else read_json(policy, "--policy"),
        lock_delivery_policy=lock or None,
        retention=read_whole_seconds(retention, "retention"),
    )
    _show_topic(session, Api(session).call("PUT", topic_path(name), body))


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
        rows = [(one["name"], sources(one), when(one["created_at"], now)) for one in found]
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
    _show_topic(session, Api(session).call("GET", topic_path(name)))


@topic.command("set", short_help="Change a topic.")
@click.argument("name")
@click.option("--policy", metavar="JSON", help=POLICY_HELP + " null takes it away.")
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
    body = given(lock_delivery_policy=lock, retention=read_whole_seconds(retention, "retention"))
    if policy is not None:
        body["delivery_policy"] = read_json(policy, "--policy")
    _show_topic(session, Api(session).call("PATCH", topic_path(name), body))


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
    Api(session).call("DELETE", topic_path(name) + ("?force=true" if force else ""))
    show_done(session, {"deleted": name}, f"topic {name} is removed")


def _show_topic(session: ClientSession, shown: Mapping[str, Any]) -> None:
    if session.as_json:
        show_json(shown)
        return
    click.echo(f"topic      {shown['name']}")
    click.echo(f"policy     {sources(shown)}" + (", locked" if shown["lock_delivery_policy"] else ""))
    show_policy(session, shown)


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
    body = given(
        type=type_,
        data=msgspec.Raw(json_text(data, "--data")),
        attributes=dict(map(_attribute, attributes)) or None,
        delay=read_seconds(delay, "delay"),
        ttl=read_seconds(ttl, "ttl"),
    )
    shown = Api(session).call("POST", topic_path(topic_name) + "/messages", body)
    if session.as_json:
        show_json(shown)
        return
    many = (
        "its deliveries are being made"
        if shown["expanding"]
        else counted(shown["deliveries"], "delivery", "deliveries")
    )
    click.echo(f"{shown['ids'][0]}  {many}")
    if not shown["expanding"] and not shown["deliveries"]:
        hint = f"no subscription that is confirmed wants it; look: anew sub list {topic_name}"
        click.echo(hint, err=True)


def _attribute(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidInput(f"--attr: expected NAME=VALUE, got {text!r}", field="attr", value=text)
    try:
        read = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
    return name, read if isinstance(read, int | float | bool) else value
