"""``anew cron``: the cron entries of a server, and when an expression fires."""

from __future__ import annotations

import datetime
import zoneinfo

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import moment, now_ms, show_json, show_table
from anew.cli.remote import ClientSession, remote


@click.group(cls=CommandGroup)
def cron() -> None:
    """List the cron entries of a server, and see when an expression fires.

    \b
    Examples:
      anew cron list
      anew cron next '30 2 * * 1-5'
    """


@cron.command("list", short_help="List the cron entries of the server.")
@remote
def list_crons(session: ClientSession) -> None:
    """List the cron entries, each with its next fire and its last one.

    Entries stand in anew.toml, under [[fwp.cron]], or in Faktory's own files. SIGHUP makes the server read them again.
    A zone of - is the server's own.

    \b
    Examples:
      anew cron list
      anew cron list --json
    """
    entries = session.client.crons()
    if session.as_json:
        show_json({"crons": entries})
        return
    if not entries:
        click.echo("No cron entries: they stand in anew.toml, under [[fwp.cron]].")
        return
    now = now_ms()
    rows = [
        (
            entry.name,
            entry.schedule,
            entry.timezone or "-",
            "paused" if entry.paused else "never" if entry.next_at is None else moment(entry.next_at, now),
            "-" if entry.last_fired_at is None else moment(entry.last_fired_at, now),
        )
        for entry in entries
    ]
    show_table(("ENTRY", "SCHEDULE", "ZONE", "NEXT", "LAST"), rows)


@cron.command("next")
@click.argument("expression")
@click.option(
    "--tz", "timezone", metavar="ZONE", help="Time zone, such as Europe/Berlin. [the machine's own]"
)
@click.option(
    "-n", "count", type=click.IntRange(1, 1000), default=5, metavar="N", help="So many, up to 1000. [5]"
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def next_fires(expression: str, timezone: str | None, count: int, as_json: bool) -> None:
    """Show when a cron expression fires next, with the distance from UTC. No server is asked.

    \b
    Examples:
      anew cron next '30 2 * * 1-5'
      anew cron next '30 2 * * *' --tz Europe/Berlin -n 10
      anew cron next @daily --json
    """
    from anew.app.schedules import next_slots

    slots = next_slots(expression, timezone, now_ms(), count)
    if as_json:
        show_json({"next": slots})
        return
    if not slots:
        click.echo("It fires no more.")
    zone = None if timezone is None else zoneinfo.ZoneInfo(timezone)
    for slot in slots:
        then = datetime.datetime.fromtimestamp(slot // 1000, tz=datetime.UTC).astimezone(zone)
        click.echo(f"{then:%a %Y-%m-%d %H:%M:%S %z}")
