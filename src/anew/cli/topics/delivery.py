"""``anew delivery`` and ``anew replay``: what became of messages, and sending them again."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import now_ms, one_line, show_json, show_table
from anew.cli.remote import ClientSession, remote
from anew.cli.topics.api import (
    Api,
    given,
    read_since,
    show_done,
    subscription_path,
    when,
)
from anew.errors import InvalidInput
from anew.units import counted

_STATUSES = ("scheduled", "ready", "sending", "delivered", "held", "dead", "cancelled")
_LOOK_S = 0.3


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
            since=read_since(since, "since"),
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
            when(one["next_attempt_at"], now),
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
    _show_delivery(session, Api(session).call("GET", _path(delivery_id)))


@delivery.command("attempts", short_help="List the attempts of a delivery.")
@click.argument("delivery_id", metavar="DELIVERY")
@remote
def list_attempts(session: ClientSession, delivery_id: str) -> None:
    """List the attempts of a delivery: what came back, how long it took, when the next one comes.

    \b
    Examples:
      anew delivery attempts dlv_...
    """
    found = list(Api(session).listed(_path(delivery_id, "/attempts"), "attempts", 10_000))
    if session.as_json:
        show_json({"attempts": found})
        return
    now = now_ms()
    rows = [
        (
            str(one["number"]),
            when(one["started_at"], now),
            one["outcome"],
            str(one.get("status") or one.get("error") or "-"),
            "-" if one.get("duration_ms") is None else f"{one['duration_ms']} ms",
            when(one.get("next_attempt_at"), now),
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
        body = {"mode": mode, "force": force}
        _show_delivery(session, api.call("POST", _path(delivery_id, "/redeliver"), body))
        return
    body = given(
        status="dead",
        topic=topic_name,
        subscription=None if subscription is None else api.subscription(subscription),
        dead_reason=reason,
        since=read_since(since, "since"),
        mode=mode,
        dry_run=dry_run,
    )
    answer = api.call("POST", "/v1/deliveries/redeliver", body)
    if dry_run:
        show_done(
            session, answer, f"{counted(answer['count'], 'delivery', 'deliveries')} would be sent again"
        )
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
    _show_delivery(session, Api(session).call("POST", _path(delivery_id, "/cancel"), {}))


@delivery.command("delete", short_help="Remove a dead delivery.")
@click.argument("delivery_id", metavar="DELIVERY")
@remote
def delete_delivery(session: ClientSession, delivery_id: str) -> None:
    """Remove a dead delivery with its attempts.

    \b
    Examples:
      anew delivery delete dlv_...
    """
    Api(session).call("DELETE", _path(delivery_id))
    show_done(session, {"deleted": delivery_id}, f"{delivery_id} is removed")


def _path(delivery_id: str, more: str = "") -> str:
    return f"/v1/deliveries/{quote(delivery_id, safe='')}{more}"


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
        click.echo(f"next       {when(shown['next_attempt_at'], now)}")
    if shown["last_attempt"] is not None:
        click.echo(f"last       {_last(shown)}")


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
    body = given(since=read_since(since, "since"), until=read_since(until, "until"), include=include)
    _follow(session, api, api.call("POST", subscription_path(api, subscription, "/replay"), body)["task_id"])


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
    show_done(
        session, task, f"{counted(task['done'], 'delivery', 'deliveries')} sent again ({task['status']})"
    )
